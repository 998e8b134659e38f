"""Measures how often architectures compile when sizes vary, `make_sizes.py [name ...]`.

Each is called with twenty random sets of sizes, compiled by Framelift and by `torch.compile`. With names only
those are measured again; of the others the page keeps what `build/sizes.json` says.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import make_models  # which sets up where modules are found, so it comes first
import torch
import transformers
from zoo import ARCHITECTURES
from zoo.sizes import measure_sizes

KEPT = make_models.ROOT / "build" / "sizes.json"
PAGE = Path(__file__).with_name("dynamic_shapes.md")
BEGIN, END = "<!-- made by make_sizes.py: begin -->", "<!-- made by make_sizes.py: end -->"
SECONDS = 600
SYSTEMS = ("framelift", "torch.compile")
Row = dict[str, Any]


def is_measured(of: Row) -> bool:
    return all(system in of for system in SYSTEMS)


def compiled(of: Row, system: str) -> int:
    return len(of[system]["at"])


def line(name: str, of: Row) -> str:
    if not is_measured(of):
        return f"| {name} | **{of.get('failed', 'not measured')}** | | | | |"
    counts = [f"{compiled(of, system)} / {of[system]['graphs']}" for system in SYSTEMS]
    right = "yes" if not of["framelift"]["wrong"] else f"**no**: {of['framelift']['wrong'][0][:80]}"
    sizes = ", ".join(map(str, of["sizes"])) or "none"
    return f"| {name} | {sizes} | {of['calls']} | {' | '.join(counts)} | {right} |"


def totals(rows: dict[str, Row]) -> Iterator[str]:
    known = [of for of in rows.values() if is_measured(of)]
    fewer, same, more = (
        sum(sign == (own > torchs) - (own < torchs) for own, torchs in counts(known)) for sign in (-1, 0, 1)
    )
    own, torchs = (sum(compiled(of, system) for of in known) for system in SYSTEMS)
    right = sum(not of["framelift"]["wrong"] for of in known)
    yield f"{len(known)} architectures of {len(ARCHITECTURES)} were measured."
    yield f"Calls at which something was compiled: {own} with Framelift, {torchs} with `torch.compile`;"
    yield f"fewer in {fewer} architectures, as many in {same}, more in {more}."
    yield f"Results are eager's at every size in {right}."


def counts(rows: list[Row]) -> Iterator[tuple[int, int]]:
    for of in rows:
        yield compiled(of, SYSTEMS[0]), compiled(of, SYSTEMS[1])


def section(rows: dict[str, Row]) -> str:
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, "
    versions += f"Python {platform.python_version()}, {datetime.date.today()}."
    heads = "| architecture | what varies | calls | Framelift | torch.compile | results as eager's |"
    table = [heads, "|---|---|---|---|---|---|", *(line(name, of) for name, of in rows.items())]
    return "\n".join([BEGIN, "", *totals(rows), versions, "", *table, "", END])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures, as the page names them")
    parser.add_argument("--show", action="store_true", help="measure nothing, write what is known")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    rows: dict[str, Row] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for architecture in [] if options.show else ARCHITECTURES.values():
        if options.names and architecture.name not in options.names:
            continue
        begun = time.monotonic()
        rows[architecture.name] = of = make_models.measured(architecture, measure_sizes, SECONDS)
        print(f"{line(architecture.name, of)} {time.monotonic() - begun:.1f} s", flush=True)
        if options.names:
            print("\n".join([*of.get("entries", ()), *of.get("faults", ())]))
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(rows, indent=1, default=str))
    rows = {name: rows[name] for name in ARCHITECTURES if name in rows}
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + section(rows) + rest.partition(END)[2])
    print("\n".join(totals(rows)))


if __name__ == "__main__":
    main()
