"""Draws docs/pictures: `python docs/make_pictures.py`. Every number is one that a page of docs already has.

comparison.svg is what docs/benchmarks.md and docs/dynamic_shapes.md measured; layers.svg are the packages in
the order that pyproject.toml gives them; call.svg is what happens on a call of a compiled function.
"""

from __future__ import annotations

import ast
import re
import tomllib
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
INK, FAINT, OURS, THEIRS, LINE = "#1f2328", "#59636e", "#0a7d5a", "#b8bfc7", "#d1d9e0"


class Picture:
    """An SVG on white paper, so that it can be read on pages of any colour."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
            f"height='{height}' role='img' aria-label='{escape(title, quote=True)}' {FONT}>",
            f"<title>{escape(title)}</title>",
            "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
            f"orient='auto'><path d='M0 0 L8 4 L0 8 z' fill='{FAINT}'/></marker></defs>",
            f"<rect width='{width}' height='{height}' rx='8' fill='#ffffff'/>",
        ]

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int = 12,
        colour: str = INK,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = " font-weight='600'" if bold else ""
        at = f"x='{x:.0f}' y='{y:.0f}' font-size='{size}' fill='{colour}' text-anchor='{anchor}'"
        self.parts.append(f"<text {at}{weight}>{escape(text)}</text>")

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, line: str = "none", round: int = 2
    ) -> None:
        at = f"x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' rx='{round}'"
        self.parts.append(f"<rect {at} fill='{fill}' stroke='{line}'/>")

    def arrow(self, *points: tuple[float, float]) -> None:
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        style = f"fill='none' stroke='{FAINT}' stroke-width='1.4' marker-end='url(#tip)'"
        self.parts.append(f"<polyline points='{path}' {style}/>")

    def write(self, name: str) -> None:
        folder = HERE / "pictures"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join([*self.parts, "</svg>\n"]))


# ---- the comparison


def number(text: str) -> float:
    return float(text.replace(",", ""))


def measured(section: str, unit: str, rows: list[str]) -> list[tuple[str, float, float]]:
    """(subject, Framelift, torch.compile) of a table in docs/benchmarks.md; of two columns for torch.compile,
    the faster one."""
    page = (HERE / "benchmarks.md").read_text()
    if section not in page:
        raise SystemExit(f"docs/benchmarks.md has no {section!r} (any more): change docs/make_pictures.py")
    table = page[page.index(section) :]
    found = []
    for row in rows:
        line = re.search(rf"(?m)^ {re.escape(row)}  .*$", table)
        values = [number(value) for value in re.findall(rf"([\d,.]+) {unit}", line[0])] if line else []
        if len(values) < 2:
            raise SystemExit(
                f"docs/benchmarks.md has no row {row!r} in {section!r}: change docs/make_pictures.py"
            )
        found.append((row, values[0], min(values[1:])))
    return found


def recompilations() -> list[tuple[str, float, float]]:
    page = (HERE / "dynamic_shapes.md").read_text()
    found = re.search(r"measured, (\d+) with both compilers", page)
    counts = re.search(r"both were measured: (\d+) calls with Framelift, (\d+) with `torch.compile`", page)
    if not found or not counts:
        raise SystemExit(
            "docs/dynamic_shapes.md does not say how often models compile: change docs/make_pictures.py"
        )
    return [(f"{found[1]} architectures, 20 sizes each", number(counts[1]), number(counts[2]))]


MODELS = ["BERT 12", "GPT-2 12", "Llama 32", "ViT 12", "T5 6+6", "Whisper 4+4", "Mixtral 4"]
CALLS = ["two arguments", "MLP", "BERT 12", "Llama 32", "function, last of 32"]


def comparison() -> Picture:
    panels = [
        (
            "Capturing a model, first time in a process",
            "ms",
            measured("First capture in a process", "ms", MODELS),
        ),
        ("Cost of a call, everything compiled", "us", measured("## The cost of a call", "us", CALLS)),
        ("Peak memory while capturing", "MiB", measured("Peak memory while capturing", "MiB", MODELS)),
        ("Calls that compiled something, sizes vary", "calls", recompilations()),
    ]
    width, column, row = 900, 440, 30
    heights = [max(len(panels[i][2]), len(panels[i + 1][2])) * row + 56 for i in (0, 2)]
    made = Picture(width, sum(heights) + 64, "Framelift compared with torch.compile: shorter is better")
    made.text(20, 30, "Shorter is better", 13, INK, bold=True)
    for x, colour, name in ((160, OURS, "Framelift"), (260, THEIRS, "torch.compile")):
        made.box(x, 20, 12, 12, colour)
        made.text(x + 18, 30, name, 13)
    for place, (title, unit, rows) in enumerate(panels):
        left = 20 + (place % 2) * column
        top = 48 + (heights[0] if place > 1 else 0)
        made.text(left, top + 16, title, 14, INK, bold=True)
        most = max(max(ours, theirs) for _, ours, theirs in rows)
        for line, (subject, ours, theirs) in enumerate(rows):
            y = top + 28 + line * row
            label = subject if len(subject) <= 20 else ""
            made.text(left, y + 15, label, 12, FAINT)
            start = left + 130
            if not label:
                made.text(left, y + 10, subject, 12, FAINT)
                y += 14
                start = left
            for offset, value, colour in ((0, ours, OURS), (11, theirs, THEIRS)):
                length = max(2.0, 200 * value / most)
                made.box(start, y + offset, length, 10, colour)
                made.text(start + length + 5, y + offset + 9, f"{value:,.4g} {unit}", 10, INK)
    bottom = sum(heights) + 52
    made.text(
        20,
        bottom,
        "Measured by make bench and make sizes; the conditions are in docs/benchmarks.md.",
        11,
        FAINT,
    )
    return made


# ---- the architecture


def layers() -> list[tuple[str, set[str]]]:
    """(package, packages that it imports), the highest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = project["tool"]["importlinter"]["contracts"]
    names = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    known = {name for row in names for name in row}
    found = []
    for name in (name for row in names for name in row):
        modules = sorted((ROOT / "src" / "framelift" / name).rglob("*.py"))
        imports = set[str]()
        for module in modules:
            for node in ast.walk(ast.parse(module.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("framelift."):
                    imports.add(str(node.module).split(".")[1])
        found.append((name, (imports & known) - {name}))
    return found


WHAT = {
    "cli": "the command framelift",
    "testing": "for tests of other projects",
    "api": "compile, explain, install, marks, stances",
    "report": "explanations as text and as a page",
    "exporting": "whole programs as artifacts",
    "debugging": "logs, records, bisecting, replay",
    "cache": "captures on disk",
    "distributed": "ranks that agree",
    "dispatch": "frames, compilations, backends, recompiles",
    "features": "NumPy, autograd, vmap, collectives, hooks ...",
    "rules": "what is known of callables and types",
    "regions": "generated functions that run a graph",
    "trace": "the outside world while a frame is traced",
    "guards": "facts about sources, as native programs",
    "graph": "fake tensors, recorder, symbols",
    "interpreter": "CPython's bytecode over real objects",
    "bytecode": "decoding, resume functions, liveness",
    "native": "frame hook (C), guards (C++)",
    "core": "errors, reasons, configuration, records",
}


def layer_picture() -> Picture:
    rows = layers()
    height = len(rows) * 34 + 70
    made = Picture(880, height, "The packages of Framelift, each above those that it may import from")
    made.text(20, 28, "A package imports from those below it only", 14, INK, bold=True)
    for place, (name, imports) in enumerate(rows):
        y = 44 + place * 34
        made.box(
            20,
            y,
            420,
            28,
            "#f0f7f4" if name != "native" else "#fdf3e4",
            OURS if name != "native" else "#bf8700",
            5,
        )
        made.text(32, y + 18, name, 13, INK, bold=True)
        made.text(126, y + 18, WHAT[name], 12, FAINT)
        below = [each for each, _ in rows if each in imports]
        made.text(456, y + 18, ", ".join(below), 9, FAINT)
    made.text(20, height - 10, "right: the packages that it imports, as its modules do today", 11, FAINT)
    return made


CALL = {
    "call": (330, 20, "compiled(x)", "a Python frame begins"),
    "hook": (330, 90, "frame hook (C)", "whose code is it?"),
    "plain": (30, 90, "runs as it is", "of a library, or marked"),
    "cache": (330, 160, "guards (C++)", "does an entry hold?"),
    "region": (630, 300, "region", "runs the graph, replays effects"),
    "trace": (330, 230, "trace", "bytecode over real objects, fake tensors"),
    "graph": (330, 300, "backend", "compiles the fx graph"),
    "entry": (330, 370, "entry", "guards + region, cached on the code"),
    "stop": (630, 370, "break?", "the instruction is done for real"),
    "resume": (630, 160, "resume function", "the rest of the frame is a frame"),
}
EDGES = [
    ("call", "hook", ""),
    ("hook", "plain", "library"),
    ("hook", "cache", "the program's"),
    ("cache", "region", "yes"),
    ("cache", "trace", "no"),
    ("trace", "graph", ""),
    ("graph", "entry", ""),
    ("entry", "region", ""),
    ("region", "stop", ""),
    ("resume", "hook", ""),
]


def call_picture() -> Picture:
    made = Picture(900, 440, "What happens on a call of a compiled function")
    width, height = 240, 46

    def side(name: str, where: str) -> tuple[float, float]:
        x, y, _, _ = CALL[name]
        return {
            "top": (x + width / 2, y),
            "bottom": (x + width / 2, y + height),
            "left": (x, y + height / 2),
            "right": (x + width, y + height / 2),
        }[where]

    for x, y, title, about in CALL.values():
        made.box(x, y, width, height, "#f0f7f4", OURS, 6)
        made.text(x + width / 2, y + 20, title, 13, INK, "middle", bold=True)
        made.text(x + width / 2, y + 36, about, 11, FAINT, "middle")
    for start, end, label in EDGES:
        (x, y, *_), (other, below, *_) = CALL[start], CALL[end]
        if x == other:
            made.arrow(side(start, "bottom"), side(end, "top"))
            made.text(x + width / 2 + 8, y + height + 16, label, 11, FAINT)
        elif y == below:
            made.arrow(side(start, "left"), side(end, "right"))
            made.text((x + other + width) / 2, y + height / 2 - 6, label, 11, FAINT, "middle")
    # yes: an entry holds, and its region runs at once
    made.arrow(side("cache", "right"), (600, 183), (600, 323), side("region", "left"))
    made.text(606, 240, "yes", 11, FAINT)
    made.arrow(side("entry", "right"), (615, 393), (615, 330), (630, 330))
    # a break: the hook sees the resume function as it sees any other
    made.arrow(side("stop", "right"), (885, 393), (885, 183), side("resume", "right"))
    made.arrow(side("resume", "top"), (750, 113), side("hook", "right"))
    return made


def main() -> None:
    comparison().write("comparison.svg")
    layer_picture().write("layers.svg")
    call_picture().write("call.svg")


if __name__ == "__main__":
    main()
