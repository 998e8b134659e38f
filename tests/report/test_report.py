"""The report of `explain`: as text, as a page, and what they say. `report_in_browser.py` opens the page."""

from __future__ import annotations

import html.parser
import json
import os
import pty
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift.cli import main
from framelift.core.versions import DISTRIBUTION
from framelift.report import highlights, page, picture, terminal

X = torch.arange(6.0).reshape(2, 3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        y = self.linear(x) * n
        print("<script>alert(1)</script>", "a line that is wider than a terminal", y.sum().item())
        return y.relu() + 1


@pytest.fixture(scope="module")
def report() -> Any:
    return framelift.explain(Net())(X, 3)


# ---- as text


def test_text_has_tables_and_no_colours(report: Any) -> None:
    text = report.to_text()
    assert text.startswith("Net: 2 graph(s), ") and "\x1b" not in text
    first = Net.forward.__code__.co_firstlineno
    assert f"{first + 1:5} +         y = self.linear(x) * n" in text
    under = next(line for line in text.splitlines() if line.strip().startswith("^") and "value" in line)
    broken = next(line for line in text.splitlines() if line.startswith(f"{first + 2:5} !"))
    begin, end = under.index("^"), under.rindex("^") + 1
    assert broken[begin:end] == "y.sum().item()"
    for fact in (
        "data-dependent value: Tensor.item",
        "run-time effect: print",
        "self.linear.weight f32[2, 3]",
    ):
        assert fact in text
    assert re.search(r"^n == 3 +\S+test_report.py:\d+: self.linear\(x\) \* n$", text, re.MULTILINE)
    assert "checking them takes" in text and re.search(r"^compilation +of +repeated ms", text, re.MULTILINE)


def test_colours_are_for_terminals(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in str(report), "captured output is no terminal"
    leader, follower = pty.openpty()
    with open(follower, "w") as terminal_file:
        monkeypatch.setattr(sys, "stdout", terminal_file)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "70")
        monkeypatch.delenv("NO_COLOR", raising=False)
        coloured = str(report)
        monkeypatch.setenv("NO_COLOR", "1")
        plain = str(report)
        monkeypatch.undo()
    os.close(leader)
    assert "\x1b[" in coloured and "\x1b" not in plain
    tables = plain[plain.index("breaks:") :]
    assert max(map(len, tables.splitlines())) <= 70, "as wide as the terminal"
    for line in report.functions[0].lines:
        assert str(line) in plain, "lines of the program are whole"


# ---- as a page


class Reader(html.parser.HTMLParser):
    """The elements of a page, and its text without what scripts and styles hold."""

    VOID = {"meta", "link", "br", "input"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(text)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def test_the_page_is_whole_and_needs_nothing_else(report: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    text = report.to_html(path)
    assert path.read_text(encoding="utf-8") == text
    read = Reader(text)
    links = [
        value
        for _, attributes in read.elements
        for name, value in attributes.items()
        if name in ("href", "src", "xlink:href", "action", "data")
    ]
    assert links and all(value.startswith(("#", "data:")) for value in links)
    assert "http://" not in text and "https://" not in text and "@import" not in text
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids)), "an id is there once"
    assert {value[1:] for value in links if value.startswith("#")} <= set(ids), "links lead somewhere"


def test_what_the_program_says_is_no_html(report: Any) -> None:
    text = report.to_html()
    read = Reader(text)
    assert [tag for tag, _ in read.elements].count("script") == 1, "the page's own"
    assert "<script>alert(1)</script>" in read.text
    (policy,) = [attributes["content"] for tag, attributes in read.elements if "http-equiv" in attributes]
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy


def test_everything_from_the_program_is_escaped() -> None:
    """Whatever comes in, wherever: all texts of the data are made hostile."""
    report = framelift.explain(Net())(X, 3)
    bad = "</style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'"

    def hostile(value: Any) -> Any:
        if isinstance(value, dict):
            return {(hostile(key) if key not in KEYS else key): hostile(each) for key, each in value.items()}
        if isinstance(value, list):
            return [hostile(each) for each in value]
        return value + bad if isinstance(value, str) and value not in KEPT else value

    KEYS = {key for key in keys_of(report.to_dict())}
    KEPT = {"forward", "captured", "broken", "plain"}
    read = Reader(page.html(hostile(report.to_dict())))
    assert [tag for tag, _ in read.elements].count("script") == 1
    assert "img" not in [tag for tag, _ in read.elements] and bad in read.text
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]


def keys_of(value: Any) -> Any:
    """The names of fields; those of sources, classes and functions are the program's."""
    if isinstance(value, dict):
        for key, each in value.items():
            if not re.search(r"[^a-z_]", key) and key not in ("self", "x", "y", "n"):
                yield key
            yield from keys_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from keys_of(each)


def test_the_page_says_what_the_data_says(report: Any) -> None:
    text = Reader(report.to_html()).text
    for found in report.to_dict()["break_reasons"]:
        assert found["name"] in text and found["hint"] in text and found["reason"] in text
    for guard in report.guards:
        assert str(guard) in text
    for source in report.sources:
        assert source in text
    assert "Captured in 2 pieces, with 2 breaks." in re.sub(r"\s+", " ", text)


def test_a_page_of_nothing() -> None:
    text = Reader(framelift.explain(lambda x: x)(X).to_html()).text
    assert "Nothing was captured." in text
    whole = Reader(framelift.explain(lambda x: x + 1)(X).to_html()).text
    assert "Captured whole, without a break." in whole


# ---- what it is made of


def test_columns_are_in_characters_though_python_counts_bytes() -> None:
    def fn(x: torch.Tensor) -> Any:
        größe = "äöü"
        return größe, x.sum().item()  # noqa: E702

    (found,) = [each for each in framelift.explain(fn)(X).to_dict()["break_reasons"]]
    spans = highlights.spans([found])[found["at"]["file"], found["at"]["line"]]
    pieces = highlights.pieces(found["at"]["text"], spans)
    assert "".join(text for text, _ in pieces) == found["at"]["text"]
    assert [text for text, within in pieces if within] == ["x.sum().item()"]


def test_an_expression_of_several_lines_is_marked_on_each() -> None:
    def fn(x: torch.Tensor) -> Any:
        print(
            "size",
            x.dim(),
        )
        return x + 1

    report = framelift.explain(fn)(X)
    (found,) = report.to_dict()["break_reasons"]
    spans = highlights.spans([found])
    first = fn.__code__.co_firstlineno + 1
    assert sorted(line for _, line in spans) == list(range(first, first + 4))
    lines = [
        page.line_of({"line": n, "text": text, "mark": None, "graphs": []}, spans[__file__, n])
        for n, text in enumerate(found["at"]["text"].splitlines(), first)
    ]
    marked = ["".join(text for text, within in line.pieces if within) for line in lines]
    assert marked == ["print(", '"size",', "x.dim(),", ")"]


def test_nested_expressions_are_cut_once() -> None:
    inner = highlights.Span(1, "value", True, 9, 17, True)
    outer = highlights.Span(2, "effect", True, 0, 18, True)
    pieces = highlights.pieces('print("x", y.item())'[:18], [inner, outer])
    assert [(text, [span.number for span in within]) for text, within in pieces] == [
        ('print("x"', [2]), (", y.item", [1, 2]), ("(", [2])
    ]  # fmt: skip


def test_each_input_has_its_name_in_the_program(report: Any) -> None:
    first, second = report.to_dict()["graphs"]
    assert [each["is"] for each in first["inputs"]] == ["self.linear.weight", "self.linear.bias", "x"]
    assert [each["is"] for each in second["inputs"]] == ["y"]
    assert [highlights.kind(each) for each in first["outputs"]] == ["f32[2, 2]", "f32[]"]


def test_guards_have_a_cost(report: Any) -> None:
    for entry in report.to_dict()["guarded"]:
        assert 0 < entry["seconds_to_check"] < 0.01
        assert entry["steps"] == sum(about["steps"] for about in entry["sources"])
        for about in entry["sources"]:
            assert about["steps"] >= len(about["guards"]) > 0
    one = framelift.explain(lambda x, d: x * d["a"]["b"])(X, {"a": {"b": 2}}).to_dict()["guarded"][0]
    steps = {about["source"]: about["steps"] for about in one["sources"]}
    assert steps["x"] == 2, "got to, and checked"
    assert steps["d"] == 2 and steps["d['a']"] == 2 and steps["d['a']['b']"] == 2, "each from the one before"


def test_the_picture_has_every_node_and_edge_and_none_overlap(report: Any) -> None:
    for graph in report.to_dict()["graphs"]:
        drawing = picture.of(graph)
        assert {box.name for box in drawing.boxes} == {
            *(node["name"] for node in graph["inputs"] + graph["ops"]), picture.OUTPUT
        }  # fmt: skip
        taken = sum(len(node["takes"]) for node in graph["ops"]) + len(graph["outputs"])
        assert len(drawing.edges) == taken
        places = [(box.x, box.y) for box in drawing.boxes]
        for n, (x, y) in enumerate(places):
            assert 0 <= x <= drawing.width - picture.WIDTH and 0 <= y <= drawing.height - picture.HEIGHT
            for across, down in places[n + 1 :]:
                assert abs(across - x) >= picture.WIDTH or abs(down - y) >= picture.HEIGHT


def test_a_picture_of_what_is_not_connected_and_of_too_much() -> None:
    data = framelift.explain(lambda x, y: (x + 1, torch.ones(2), y * 2))(X, X).to_dict()["graphs"][0]
    drawing = picture.of(data)
    assert len({(box.x, box.y) for box in drawing.boxes}) == len(drawing.boxes)
    many = {**data, "ops": [{**data["ops"][0], "name": f"op{n}", "takes": []} for n in range(3000)]}
    assert f"{3000 + len(data['inputs']) + 1} nodes" in picture.of(many).problem


def test_without_the_layout_library_there_is_a_sentence(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    assert f"pip install {DISTRIBUTION}[report]" in Reader(report.to_html()).text


def test_recompilations_stand_side_by_side() -> None:
    compiled = framelift.compile(lambda x, n: x * n, backend="eager")
    from framelift.api.explain import explanation
    from framelift.dispatch.compile_contexts import Watch, watching

    context = compiled._framelift_context
    watch = Watch(context)
    token = watching.set(watch)
    try:
        compiled(X, 2), compiled(X, 3)
        report = explanation("scaled", None, watch, [context])
    finally:
        watching.reset(token)
    (again,) = report.to_dict()["recompilations"]
    failure = again["failures"][0]
    assert failure["cause"] == "integer" and "pass `n` as a tensor" in failure["hint"]
    text = re.sub(r"\s+", " ", Reader(report.to_html()).text)
    assert "Entry 0 relied on n == 2" in text.replace("relied onn", "relied on n")
    assert "n == 2, found 3" in report.to_text()


def test_durations_are_written_for_people() -> None:
    seconds = (1234.0, 2.344, 0.0123, 3.21e-5, 4e-7)
    assert [*map(page.duration, seconds)] == ["1234 s", "2.34 s", "12.3 ms", "32.1 µs", "0.4 µs"]


# ---- the command line


SCRIPT = """
import torch

@torch.compile
def scaled(x, n):
    print("hello")
    return x * n

scaled(torch.ones(3), 2)
"""


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, to = tmp_path / "script.py", tmp_path / "report.html"
    script.write_text(SCRIPT)
    assert main(["explain", "--json", "--html", str(to), str(script)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["graph_break_count"] == 1
    assert f"framelift: the report is in {to}" in printed.err
    assert "run-time effect" in to.read_text(encoding="utf-8")


def test_where_a_page_can_not_be_is_said_before_anything_runs(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for to, said in ((tmp_path / "none" / "x.html", "there is no folder"), (tmp_path, "is a folder")):
        assert main(["explain", "--html", str(to), str(script)]) == 2
        printed = capsys.readouterr()
        assert said in printed.err and printed.out == "" and len(printed.err.splitlines()) == 1


def test_text_of_data_from_a_file(report: Any) -> None:
    data = json.loads(report.to_json())
    assert terminal.text(data) == report.to_text()
    assert page.html(data).count("<details") == report.to_html().count("<details")
