"""Measures how often architectures compile when sizes vary, `make_sizes.py [name ...]`.

Each is called with twenty random sets of sizes, compiled by Framelift and by `torch.compile`. With names only
those are measured again; the others, and the columns that are not asked for, stay as the page has them. The
page is written after each row. `torch.compile` takes hours for all of them: `--system framelift` measures one
column, `--more-than 3` measures those that Framelift compiles more often than that, `--missing` goes on where
it was interrupted, and `--failed` tries again what was not done in time (`--seconds 1800`).
"""

from __future__ import annotations

import argparse
import datetime
import functools
import platform
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import make_models  # which sets up where modules are found, so it comes first
import torch
import transformers
from zoo import ARCHITECTURES
from zoo.architecture import Architecture
from zoo.sizes import measure_sizes

PAGE = Path(__file__).with_name("dynamic_shapes.md")
BEGIN, END = "<!-- made by make_sizes.py: begin -->", "<!-- made by make_sizes.py: end -->"
SECONDS = 600
SYSTEMS = ("framelift", "torch.compile")
Row = dict[str, Any]
"""What is known of an architecture: what `measure_sizes` has found, or as much of it as the page says."""


def known() -> dict[str, Row]:
    """What the page says."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = (line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| "))
    return {name: row_of(cells) for name, *cells in rows if name in ARCHITECTURES}


def row_of(cells: list[str]) -> Row:
    if cells[0].startswith("**"):
        return {"failed": cells[0].partition("|")[0].strip("* ")}
    sizes, calls, *counts, right = cells
    row: Row = {"sizes": [] if sizes == "none" else sizes.split(", "), "calls": int(calls)}
    for system, count in zip(SYSTEMS, counts, strict=True):
        if found := re.fullmatch(r"(\d+) / (\d+)", count):
            row[system] = {"at": range(int(found[1])), "graphs": int(found[2]), "wrong": []}
    if SYSTEMS[0] in row and right != "yes":
        row[SYSTEMS[0]]["wrong"] = [right.removeprefix("**no**: ")]
    return row


def is_measured(of: Row) -> bool:
    return all(system in of for system in SYSTEMS)


def compiled(of: Row, system: str) -> int:
    return len(of[system]["at"])


def line(name: str, of: Row) -> str:
    if not any(system in of for system in SYSTEMS):
        return f"| {name} | **{of.get('failed', 'not measured')}** | | | | |"
    sizes = ", ".join(map(str, of["sizes"])) or "none"
    return f"| {name} | {sizes} | {of['calls']} | {' | '.join(count(of, s) for s in SYSTEMS)} | {right(of)} |"


def count(of: Row, system: str) -> str:
    return f"{compiled(of, system)} / {of[system]['graphs']}" if system in of else "not measured"


def right(of: Row) -> str:
    if SYSTEMS[0] not in of:
        return "not measured"
    wrong = of[SYSTEMS[0]]["wrong"]
    return "yes" if not wrong else f"**no**: {wrong[0][:80]}"


def totals(rows: dict[str, Row]) -> Iterator[str]:
    own = [of for of in rows.values() if SYSTEMS[0] in of]
    both = [of for of in own if is_measured(of)]
    fewer, same, more = (
        sum(sign == (own > torchs) - (own < torchs) for own, torchs in counts(both)) for sign in (-1, 0, 1)
    )
    yield f"{len(own)} architectures of {len(ARCHITECTURES)} were measured, {len(both)} with both compilers."
    yield f"At how many calls Framelift compiled something, and in how many architectures: {often(own)};"
    yield f"results are eager's at every size in {sum(not of[SYSTEMS[0]]['wrong'] for of in own)}."
    own_calls, torchs_calls = (sum(compiled(of, system) for of in both) for system in SYSTEMS)
    yield f"Where both were measured: {own_calls} calls with Framelift, {torchs_calls} with `torch.compile`;"
    yield f"fewer in {fewer} architectures, as many in {same}, more in {more}."


def often(rows: list[Row]) -> str:
    """How many architectures compile at how many calls."""
    found = Counter(compiled(of, SYSTEMS[0]) for of in rows)
    return ", ".join(f"{calls} (in {found[calls]})" for calls in sorted(found))


def counts(rows: list[Row]) -> Iterator[tuple[int, int]]:
    for of in rows:
        yield compiled(of, SYSTEMS[0]), compiled(of, SYSTEMS[1])


def section(rows: dict[str, Row]) -> str:
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, "
    versions += f"Python {platform.python_version()}, {datetime.date.today()}."
    heads = "| architecture | what varies | calls | Framelift | torch.compile | results as eager's |"
    table = [heads, "|---|---|---|---|---|---|", *(line(name, of) for name, of in rows.items())]
    return "\n".join([BEGIN, "", *totals(rows), versions, "", *table, "", END])


def chosen(rows: dict[str, Row], options: argparse.Namespace) -> Iterator[Architecture]:
    """The architectures to measure, by what is known so far."""
    for architecture in [] if options.show else ARCHITECTURES.values():
        of = rows.get(architecture.name, {})
        if options.names and architecture.name not in options.names:
            continue
        if options.missing and ("failed" in of or all(system in of for system in options.system)):
            continue
        if options.failed and "failed" not in of:
            continue
        if options.more_than is None or (SYSTEMS[0] in of and compiled(of, SYSTEMS[0]) > options.more_than):
            yield architecture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures, as the page names them")
    parser.add_argument("--show", action="store_true", help="measure nothing, write what is known")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="measure this column only")
    parser.add_argument("--missing", action="store_true", help="leave out what was measured, or failed")
    parser.add_argument("--failed", action="store_true", help="only what was not done in time")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for one architecture")
    parser.add_argument("--more-than", type=int, metavar="N", help="what Framelift compiles more often")
    options = parser.parse_args()
    options.system = tuple(options.system or SYSTEMS)
    transformers.logging.set_verbosity_error()
    rows = known()
    measure = functools.partial(measure_sizes, systems=options.system)
    for architecture in chosen(rows, options):
        begun = time.monotonic()
        found = make_models.measured(architecture, measure, options.seconds)
        before = rows.get(architecture.name, {})
        before.pop("failed", None)
        rows[architecture.name] = of = before | found
        print(f"{line(architecture.name, of)} {time.monotonic() - begun:.1f} s", flush=True)
        if options.names:
            print("\n".join([*of.get("entries", ()), *of.get("faults", ())]))
        write(rows)
    write(rows)
    print("\n".join(totals(rows)))


def write(rows: dict[str, Row]) -> None:
    rows = {name: rows[name] for name in ARCHITECTURES if name in rows}
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + section(rows) + rest.partition(END)[2])


if __name__ == "__main__":
    main()
