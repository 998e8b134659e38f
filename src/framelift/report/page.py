"""The report as a page: one file, no network, and nothing in it but text that the program may have made up.

All that comes from the program is escaped by the template; and of scripts only the page's own may run.
"""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import jinja2

from framelift.report import highlights, picture
from framelift.report.highlights import Data, basename, short_name

HERE = Path(__file__).parent
WORDS = {
    "captured": "captured: something in this line is in a graph",
    "broken": "broken: a capture ended in this line",
    "plain": "plain: this line runs as plain Python",
    None: "",
}
SIGNS = {"captured": "+", "broken": "!", "plain": "-", None: ""}


@functools.cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"duration": duration, "kind": highlights.kind, "basename": basename, "plural": plural}
    made.filters |= {"where": where, "short_name": short_name}
    return made


def html(data: Data) -> str:
    script, style = read("page.js"), read("page.css")
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            data=data,
            style=style,
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            made=datetime.datetime.now().astimezone(),
            functions=functions(data),
            line_id=functools.partial(line_id, anchors(data)),
            breaks=breaks(data),
            pictures=list(map(picture.of, data["graphs"])),
            box=picture,
            guarded=guarded(data),
            recompiled=recompiled(data),
            timeline=timeline(data),
            phases=highlights.PHASES,
            words=WORDS,
            signs=SIGNS,
            sums=sums(data),
        )
    )


def read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


# ---- what the template shows


@dataclass
class Line:
    number: int
    mark: str | None
    pieces: list[tuple[str, list[highlights.Span]]]
    graphs: list[int]
    breaks: list[int]
    """Those that are in this line, from 1."""


def functions(data: Data) -> list[Data]:
    found = highlights.spans(data["break_reasons"])
    shown = []
    for function in data["source"]:
        file, lines = function["file"], function["lines"]
        counts = {mark: sum(line["mark"] == mark for line in lines) for mark in SIGNS}
        cut_lines = [line_of(line, found.get((file, line["line"]), [])) for line in lines]
        shown.append({**function, "counts": counts, "lines": cut_lines})
    return shown


def line_of(line: Data, spans: list[highlights.Span]) -> Line:
    numbers = sorted({span.number for span in spans})
    return Line(line["line"], line["mark"], highlights.pieces(line["text"], spans), line["graphs"], numbers)


def breaks(data: Data) -> list[Data]:
    """With the lines of each place in which it stands, cut at the expression."""
    return [
        {**each, "number": n, "stack": [{**at, "lines": cut(at, n, each)} for at in each["stack"]]}
        for n, each in enumerate(data["break_reasons"], 1)
    ]


def cut(at: Data, number: int, found: Data) -> list[Line]:
    """The lines of a place, without the indentation that they share."""
    spans = highlights.spans([{**found, "stack": [at]}])
    texts = at["text"].splitlines()
    shared = min((len(text) - len(text.lstrip()) for text in texts if text.strip()), default=0)
    lines = []
    for n, text in enumerate(texts, at["line"] or 0):
        pieces = highlights.pieces(text, spans.get((at["file"], n), []))
        if pieces:
            pieces[0] = (pieces[0][0][shared:], pieces[0][1])
        lines.append(Line(n, None, pieces, [], [number]))
    return lines


def guarded(data: Data) -> list[Data]:
    """Those that rely on something, what is most work first."""
    found = []
    for each in data["guarded"]:
        sources = sorted(each["sources"], key=lambda about: -about["steps"])
        count = sum(len(about["guards"]) for about in sources)
        if count or each["shapes"] or each["class_lookups"]:
            found.append({**each, "sources": sources, "count": count})
    return found


def recompiled(data: Data) -> list[Data]:
    """What has several entries, with each kind of cause once."""
    found = []
    for code in data["entries"]:
        again = [one for one in data["recompilations"] if one["function"] == code["function"]]
        causes = {one["failures"][0]["hint"]: one["failures"][0] for one in again if one["failures"]}
        if len(code["entries"]) > 1:
            found.append({**code, "causes": list(causes.values())})
    return found


def anchors(data: Data) -> dict[tuple[str, int], str]:
    """Which lines are shown, and how they are linked to."""
    return {
        (function["file"], line["line"]): f"line-{n}-{line['line']}"
        for n, function in enumerate(data["source"])
        for line in function["lines"]
    }


def line_id(known: dict[tuple[str, int], str], at: Data | str | None) -> str | None:
    if isinstance(at, str):
        found = PLACE.search(at)
        return known.get((found[1], int(found[2]))) if found else None
    return None if at is None else known.get((at["file"], at["line"]))


PLACE = re.compile(r'File "(.*)", line (\d+)')
"""As ops have it."""


@dataclass
class Bar:
    phase: str
    seconds: float
    left: float
    width: float
    """Both as a part of the whole, in percent."""


def timeline(data: Data) -> list[tuple[Data, list[Bar]]]:
    """Each compilation with its phases, in the order in which they come, on one scale."""
    records = sorted(data["compilations"], key=lambda record: record["started"])
    if not records:
        return []
    began = records[0]["started"]
    ended = max(record["started"] + record["seconds"] for record in records)
    whole = max(ended - began, 1e-9)
    return [(record, bars(record, began, whole)) for record in records if not highlights.is_empty(record)]


def bars(record: Data, began: float, whole: float) -> list[Bar]:
    phases = [(name, record["phases"].get(name) or 0.0) for name in highlights.PHASES]
    starts = itertools.accumulate((seconds for _, seconds in phases), initial=record["started"] - began)
    return [
        Bar(name, seconds, 100 * start / whole, 100 * seconds / whole)
        for (name, seconds), start in zip(phases, starts, strict=False)
        if seconds
    ]


def sums(data: Data) -> Data:
    records = data["compilations"]
    return {
        "guards": sum(map(len, data["guards"].values())),
        "seconds": sum(record["seconds"] for record in records),
        "empty": [record["seconds"] for record in records if highlights.is_empty(record)],
        "phases": {
            name: sum(record["phases"].get(name, 0.0) for record in records) for name in highlights.PHASES
        },
    }


# ---- words


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    factor, unit = next(((by, unit) for by, unit in UNITS if seconds * by >= 1), UNITS[-1])
    return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"


UNITS = ((1, "s"), (1e3, "ms"), (1e6, "µs"))


def plural(count: int, word: str, words: str = "") -> str:
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def where(at: Data | str | None) -> str:
    """A place, in short; ops have theirs as text."""
    if isinstance(at, str):
        found = PLACE.search(at)
        return f"{basename(found[1])}:{found[2]}" if found else at
    return "" if at is None else f"{basename(at['file'])}:{at['line']}"
