"""The page that `explain` makes, in a real browser: `make test-browser`.

Not named as tests are, since `make test` needs no browser. CHROMIUM says which one, if it is not on the path.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, sync_playwright

import framelift

EXAMPLE = Path(__file__).parents[2] / "examples" / "broken_model.py"
LIGHT, DARK = "light", "dark"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def executable() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no chromium on the path: install it, or name it with CHROMIUM=/path/to/chromium"
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as tool:
        # the sandbox wants what containers do not have; the pages are our own
        opened = tool.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield opened
        opened.close()


@dataclass
class Report:
    path: Path
    data: dict[str, Any]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of a script with breaks and recompilations. In a process of its own: pytest hooks into imports and
    output, which would be part of what is looked at."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    command = [sys.executable, "-m", "framelift", "explain", "--json", "--html", str(path), str(EXAMPLE)]
    environment = os.environ | {"PYTHONPATH": str(Path(framelift.__file__).parents[1])}
    made = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert made.returncode == 0, made.stderr
    return Report(path, json.loads(made.stdout))


@dataclass
class Seen:
    """What a page did besides being shown."""

    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@pytest.fixture
def opened(browser: Browser, report: Report) -> Iterator[Any]:
    """Opens a page from its file, without network; looks at what it did when the test is over."""
    contexts, all_seen = [], []

    def open_page(path: Path = report.path, width: int = 1200, scheme: str = LIGHT) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            offline=True,
            reduced_motion="reduce",
        )
        contexts.append(context)
        seen = Seen()
        all_seen.append((seen, path))
        page = context.new_page()
        page.on("console", lambda message: seen.console.append(message.text))
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    for seen, path in all_seen:
        assert seen.console == seen.errors == seen.dialogs == []
        own = [request for request in seen.requests if not request.startswith("data:")]
        assert own == [path.as_uri()], "nothing but the file itself was asked for"


# ---- what it shows


def test_it_opens_and_says_what_happened(opened: Any, report: Report) -> None:
    page = opened()
    assert page.title() == f"{EXAMPLE} – framelift explain"
    numbers = dict(
        zip(page.locator(".numbers dt").all_inner_texts(), page.locator(".numbers dd").all_inner_texts())
    )
    assert numbers["graphs"] == str(report.data["graph_count"])
    assert numbers["breaks"] == str(report.data["graph_break_count"]) == "4"
    assert numbers["recompilations"] == str(len(report.data["recompilations"]))
    assert "with 4 breaks" in page.locator(".verdict").inner_text()


def test_the_source_is_the_files_and_is_marked(opened: Any, report: Report) -> None:
    page = opened()
    lines = EXAMPLE.read_text().splitlines()
    (function,) = [each for each in report.data["source"] if each["name"] == "Denoiser.forward"]
    assert {line["mark"] for line in function["lines"]} == {"captured", "broken", None}
    for line in function["lines"]:
        row = page.locator(f"#line-0-{line['line']}")
        assert row.locator("code").text_content() == lines[line["line"] - 1] and row.is_visible()
        classes = row.get_attribute("class").split()
        assert classes == ["line", *([line["mark"]] if line["mark"] else [])]
        assert (row.locator(".hidden").all_text_contents() == [f"{line['mark']}: "]) is bool(line["mark"])
    for found in report.data["break_reasons"]:
        row = page.locator(f"#line-0-{found['at']['line']}")
        assert "".join(row.locator("mark.hit").all_text_contents()) == found["at"]["expression"]
        assert "underline" in row.locator("mark.hit").first.evaluate(
            "e => getComputedStyle(e).textDecorationLine"
        )


def test_breaks_have_name_reason_and_hint(opened: Any, report: Report) -> None:
    page = opened()
    for n, found in enumerate(report.data["break_reasons"], 1):
        text = page.locator(f"#break-{n}").inner_text()
        for part in (found["name"], found["reason"], found["hint"], found["at"]["expression"]):
            assert part in text


def test_graphs_expand_and_zoom(opened: Any, report: Report) -> None:
    page = opened()
    card = page.locator("#graph-2")
    picture = card.locator("svg")
    assert not picture.is_visible()
    card.locator("summary").first.click()
    assert picture.is_visible()
    graph = report.data["graphs"][2]
    assert picture.locator("g.node.op").count() == len(graph["ops"])
    assert picture.locator("g.node.input").count() == len(graph["inputs"])
    before = width(picture)
    card.get_by_role("button", name="Zoom in").click()
    assert width(picture) == pytest.approx(before * 1.25, rel=0.01)
    card.get_by_role("button", name="100%").click()
    assert width(picture) == picture.evaluate("e => e.viewBox.baseVal.width")
    card.get_by_role("button", name="Zoom out").click()
    assert width(picture) < picture.evaluate("e => e.viewBox.baseVal.width")
    card.get_by_text("Generated function").click()
    assert graph["generated_function"].strip() in card.inner_text()
    card.get_by_text(f"Ops ({len(graph['ops'])})").click()
    rows = card.get_by_role("region", name="Ops of graph 2").locator("tbody tr")
    assert [row.split("\t")[0] for row in rows.all_inner_texts()] == [op["name"] for op in graph["ops"]]


def width(picture: Any) -> float:
    return picture.bounding_box()["width"]


def test_guards_expand_and_are_found(opened: Any, report: Report) -> None:
    page = opened()
    card = page.locator("#guards-0")
    entry = report.data["guarded"][0]
    assert not card.locator("table").is_visible()
    assert "µs a call" in card.locator("summary").first.inner_text()
    card.locator("summary").first.click()
    shown = card.inner_text()
    for about in entry["sources"]:
        for guard in about["guards"]:
            assert " ".join(guard["guard"].split()) in " ".join(shown.split())
    page.get_by_label("Show only what has").fill("self.inner.weight")
    visible = [row.inner_text() for row in card.locator("tr.about").all() if row.is_visible()]
    assert visible and all("self.inner.weight" in row for row in visible)
    page.get_by_label("Show only what has").fill("")
    assert card.locator("tr.about:visible").count() == len(entry["sources"])
    page.locator('button[data-within="guards"]').click()
    assert page.locator("#guards > details:not([open])").count() == 0


def test_recompilations_stand_side_by_side(opened: Any) -> None:
    page = opened()
    sides = page.locator(".sides", has_text="self.noise == 1.0").first
    before, after = sides.locator(".before").bounding_box(), sides.locator(".after").bounding_box()
    assert before["y"] == after["y"] and before["x"] + before["width"] <= after["x"] + 1
    assert "0.9" in sides.locator(".after").inner_text()


def test_the_timeline_has_every_compilation_that_found_something(opened: Any, report: Report) -> None:
    page = opened()
    rows = page.locator(".timeline li")
    assert rows.count() == sum(record["nodes"] > 0 for record in report.data["compilations"])
    assert page.evaluate(
        """[...document.querySelectorAll(".track")].every((track) => {
          const whole = track.getBoundingClientRect();
          const bars = [...track.children].map((bar) => bar.getBoundingClientRect());
          return bars.length && bars.every((bar) => bar.width >= 1 && bar.left >= whole.left - 1);
        })"""
    )


# ---- how it is used


def test_links_lead_to_what_they_name_and_open_it(opened: Any, report: Report) -> None:
    page = opened()
    line = report.data["break_reasons"][2]["at"]["line"]
    page.locator(f"#line-0-{line} a.chip.broken").click()
    assert in_view(page, "break-3") and focused(page) == "break-3"
    page.locator("#break-3 a.place").first.click()
    assert in_view(page, f"line-0-{line}") and focused(page) == f"line-0-{line}"
    page.locator(f"#line-0-{line} a.chip").last.click()
    target = page.evaluate("location.hash.slice(1)")
    assert target.startswith("graph-")
    page.locator(f"#{target}[open]").wait_for(state="attached")  # it opens when the address has changed
    page.locator(".function summary").first.click()
    assert not page.locator(f"#line-0-{line}").is_visible()
    page.locator("#break-3 a.place").first.click()
    assert page.locator(f"#line-0-{line}").is_visible(), "what is closed is opened"


def in_view(page: Page, name: str) -> bool:
    box = page.locator(f"#{name}").bounding_box()
    return box is not None and 0 <= box["y"] < 800


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.id")


def test_the_keyboard_is_enough(opened: Any) -> None:
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.locator(".skip").bounding_box()["x"] >= 0, "seen when it has the focus"
    page.keyboard.press("Enter")
    assert focused(page) == "main"
    closed = page.locator("#graph-1")
    tab_to(page, "#graph-1 > summary")
    page.keyboard.press("Enter")
    assert closed.get_attribute("open") is not None
    tab_to(page, "#graph-1 .canvas")
    picture = closed.locator("svg")
    before = width(picture)
    page.keyboard.press("+")
    assert width(picture) > before
    for _ in range(12):
        page.keyboard.press("+")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.querySelector('#graph-1 .canvas').scrollTop > 0")
    page.keyboard.press("1")
    assert width(picture) == picture.evaluate("e => e.viewBox.baseVal.width")
    tab_to(page, "#graph-1 > details > summary")
    page.keyboard.press("Space")
    assert closed.locator("details").first.get_attribute("open") is not None
    tab_to(page, "#guards-0 > summary")
    page.keyboard.press("Enter")
    assert page.locator("#guards-0").get_attribute("open") is not None


def tab_to(page: Page, selector: str, most: int = 300) -> None:
    """By Tab alone; each stop on the way can be seen."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", "one sees where the focus is"
            return
    raise AssertionError(f"{selector} is not reached by Tab")


def test_the_order_of_tab_stops_is_that_of_the_page(opened: Any) -> None:
    page = opened()
    assert page.evaluate("[...document.querySelectorAll('[tabindex]')].every(e => e.tabIndex <= 0)")
    headings = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(e => +e.tagName[1])")
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(headings, headings[1:])), "no level is left out"
    nameless = page.evaluate(
        "[...document.querySelectorAll('button,a,summary,input')]"
        ".filter(e => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length"
    )
    assert nameless == 0


@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_phone(opened: Any, width: int) -> None:
    page = opened(width=width)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0
    page.evaluate("document.querySelectorAll('details').forEach(e => (e.open = true))")
    assert page.evaluate(overflow) == 0, "with everything open, too"
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 16


CONTRAST = """() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("svg, script, style") || !e.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${e.className || e.tagName}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
}"""


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_it_can_be_read_in_the_light_and_in_the_dark(opened: Any, scheme: str) -> None:
    page = opened(scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(",")))
    assert (brightness > 600) if scheme == LIGHT else (brightness < 150)
    page.evaluate("document.querySelectorAll('details').forEach(e => (e.open = true))")
    assert page.evaluate(CONTRAST) == []


# ---- what a program may do to it


class Hostile(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print("<script>alert('source')</script><img src=x onerror=alert('image')>", y.sum().item())
        return y * 2


def test_source_that_looks_like_html_is_harmless(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    with contextlib.redirect_stdout(io.StringIO()):
        framelift.explain(Hostile())(torch.ones(2)).to_html(path)
    page = opened(path)
    assert page.locator("script").count() == 1 and page.locator("img").count() == 0
    assert "<script>alert('source')</script>" in page.locator("#source").inner_text()
    page.evaluate("document.querySelectorAll('details').forEach(e => (e.open = true))")


def test_a_script_that_got_in_would_not_run(browser: Browser, report: Report, tmp_path: Path) -> None:
    path = tmp_path / "changed.html"
    text = report.path.read_text(encoding="utf-8")
    script = "<script>document.title = 'changed'</script>"
    path.write_text(text.replace("</main>", f"{script}</main>"), encoding="utf-8")
    with contextlib.closing(browser.new_context(offline=True)) as context:
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(path.as_uri())
        assert "framelift explain" in page.title()
        assert len(said) == 1 and "Content Security Policy" in said[0]
