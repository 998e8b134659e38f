"""The report as text: tables that fit the terminal, with colours if it is one."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from framelift.report import highlights
from framelift.report.highlights import Data, short_name

GUARDS_SHOWN = 25
"""How many guards are listed; a page has all of them."""
WIDE = 10_000
"""Where no terminal says how wide it is, nothing is folded."""
STYLES = {"captured": "green", "broken": "bold red", "plain": "yellow", None: "dim"}
SIGNS = {"captured": "+", "broken": "!", "plain": "-", None: " "}


def text(data: Data, colours: bool = False, width: int | None = None) -> str:
    """All of it as one string."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=width or WIDE,
        force_terminal=colours,
        color_system="standard" if colours else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    console.print(Group(*parts(data)), soft_wrap=width is None, crop=False, end="")
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines())


def for_stdout(data: Data) -> str:
    """As wide and as colourful as what `print` writes to can show; COLUMNS says how wide, if it is set."""
    is_terminal = hasattr(sys.stdout, "isatty") and sys.stdout.isatty()
    asked = os.environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() and int(asked) else None
    if not is_terminal:
        return text(data, width=width)
    width = width or Console(file=sys.stdout).width
    return text(data, colours="NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb", width=width)


def parts(data: Data) -> Iterator[RenderableType]:
    yield headline(data)
    for make in (source, breaks, entries, graphs, guards, times, skipped):
        found = list(make(data))
        if found:
            yield Text()
            yield from found


def headline(data: Data) -> RenderableType:
    guards = sum(map(len, data["guards"].values()))
    lookups = sum(map(len, data["class_lookups"].values()))
    whole = not data["break_reasons"] and not data["skipped"]
    return Text.assemble(
        (data["name"], "bold"),
        ": ",
        (f"{data['graph_count']} graph(s)", "bold green" if whole else "bold"),
        f", {data['op_count']} op(s), {guards} guard(s), {lookups} class lookup(s), ",
        (f"{data['graph_break_count']} break(s)", "bold red" if data["break_reasons"] else "green"),
        f", {len(data['recompilations'])} recompilation(s)",
    )


def titled(title: str, *columns: str) -> Table:
    table = Table(
        *columns,
        title=f"{title}:",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in table.columns:
        column.overflow = "fold"
    return table


# ---- the parts, in the order in which they are of use


def source(data: Data) -> Iterator[RenderableType]:
    """Lines, and below a broken one what in it could not be captured."""
    found = highlights.spans(data["break_reasons"])
    for n, function in enumerate(data["source"]):
        if n:
            yield Text()
        yield Text.assemble((function["name"], "bold"), f" ({shown(function['file'])})")
        for line in function["lines"]:
            style = STYLES[line["mark"]]
            yield whole(f"{line['line']:5} {SIGNS[line['mark']]} {line['text']}".rstrip(), style)
            yield from underlined(line, found.get((function["file"], line["line"]), []))


def underlined(line: Data, spans: list[highlights.Span]) -> Iterator[Text]:
    for span in spans:
        begin, end = span.columns(line["text"])
        name = f" {span.name}" if span.is_last else ""
        if span.is_innermost and end > begin:
            yield whole(" " * (8 + begin) + "^" * (end - begin) + name, "red")


def whole(line: str, style: str) -> Text:
    """Neither folded nor cut, so that what stands below something is below it."""
    return Text(line, style, no_wrap=True, overflow="ignore")


def breaks(data: Data) -> Iterator[RenderableType]:
    if not data["break_reasons"]:
        return
    table = titled("breaks")
    table.show_header, table.box = False, None
    for n, found in enumerate(data["break_reasons"], 1):
        at = found["at"]
        what = Text.assemble((found["name"], "bold red"), f": {found['context']}" if found["context"] else "")
        lines = [what] if at is None else [what, Text.assemble(place(at), ": ", (at["expression"], "bold"))]
        lines += [Text(found["reason"], "dim"), Text.assemble(("What to do: ", "green"), found["hint"])]
        table.add_row(str(n), Group(*lines))
    yield table


def graphs(data: Data) -> Iterator[RenderableType]:
    if not data["graphs"]:
        return
    table = titled("graphs", "", "of", "inputs", "ops", "outputs")
    for n, graph in enumerate(data["graphs"]):
        names = Counter(op["target"].rpartition(".")[2] for op in graph["ops"])
        ops = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in names.most_common(8))
        more = ", ..." if len(names) > 8 else ""
        cells = tensors(graph["inputs"]), f"{len(graph['ops'])}: {ops}{more}", tensors(graph["outputs"])
        table.add_row(str(n), short_name(graph["function"]), *cells)
    yield table


def tensors(nodes: list[Data], most: int = 3) -> str:
    names = (f"{node.get('is') or node['name']} {highlights.kind(node)}".rstrip() for node in nodes[:most])
    more = f"\nand {len(nodes) - most} more" if len(nodes) > most else ""
    return "\n".join(names) + more


def entries(data: Data) -> Iterator[RenderableType]:
    again = [code for code in data["entries"] if len(code["entries"]) > 1]
    if not again:
        return
    table = titled("compiled again", "of", "entry", "hits", "expects", "made because")
    for code in again:
        for n, entry in enumerate(code["entries"]):
            name, expects = short_name(code["function"]) if n == 0 else "", "\n".join(entry["expects"])
            table.add_row(name, str(n), str(entry["hits"]), expects, entry["because"] or "")
    yield table
    failures = [each["failures"][0] for each in data["recompilations"] if each["failures"]]
    for failure in {(by(each["at"]), each["hint"]): each for each in failures}.values():
        at = f", {by(failure['at'])}" if failure["at"] else ""
        yield Text.assemble((failure["cause"], "bold yellow"), at)
        yield Padding(Text(failure["reason"], "dim"), (0, 0, 0, 2))
        yield Padding(Text.assemble(("What to do: ", "green"), failure["hint"]), (0, 0, 0, 2))


def guards(data: Data) -> Iterator[RenderableType]:
    facts = [{"check": "SHAPE", "guard": shape["fact"], "at": shape["at"]} for shape in data["shapes"]]
    facts += [guard for about in data["guards"].values() for guard in about]
    if not facts:
        return
    facts.sort(key=lambda fact: FIRST.index(fact["check"]) if fact["check"] in FIRST else len(FIRST))
    rows = Counter((fact["guard"], by(fact["at"])) for fact in facts)
    table = titled("guards", "what is relied on", "by")
    for row in list(rows)[:GUARDS_SHOWN]:
        table.add_row(*row)
    yield table
    if len(rows) > GUARDS_SHOWN:
        yield Text(f"and {len(rows) - GUARDS_SHOWN} more (to_html and to_json have all)", "dim")
    costs = [each for each in data["guarded"] if each["seconds_to_check"] is not None]
    if costs:
        walks = ", ".join(f"{each['seconds_to_check'] * 1e6:.1f}" for each in costs[:8])
        yield Text(f"checking them takes {walks}{', ...' if len(costs) > 8 else ''} microseconds", "dim")


FIRST = ("EQUAL", "SHAPE", "TENSOR", "LEN", "KEYS", "NONEMPTY", "SAME_AS")
"""What says most about a call comes first."""


def by(at: Data | None) -> str:
    return "" if at is None else f"{place(at)}: {at['expression']}"


def times(data: Data) -> Iterator[RenderableType]:
    if not data["compilations"]:
        return
    table = titled("times", "compilation", "of", *(f"{name} ms" for name in highlights.PHASES), "sum ms")
    for column in table.columns[2:]:
        column.justify = "right"
    for record in (record for record in data["compilations"] if not highlights.is_empty(record)):
        phases = (record["phases"].get(name) for name in highlights.PHASES)
        cells = ("" if seconds is None else f"{seconds * 1e3:.1f}" for seconds in phases)
        kind = "" if record["kind"] == "forward" else f" {record['kind']}"
        of = f"{record['name']}:{record['line']}{kind}"
        table.add_row(record["compile_id"], of, *cells, f"{record['seconds'] * 1e3:.1f}")
    yield table


def skipped(data: Data) -> Iterator[RenderableType]:
    for name, why in data["skipped"].items():
        yield Text.assemble("runs as plain Python: ", (name, "bold yellow"))
        yield Padding(Text(why), (0, 0, 0, 2))


# ---- words


def place(at: Data | None) -> str:
    return "" if at is None else f"{shown(at['file'])}:{at['line']}"


def shown(filename: str) -> str:
    """As short as it can be from here."""
    path = Path(filename)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return filename
