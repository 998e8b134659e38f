"""Measures the architectures in `tests/models/zoo` for `docs/models.md`: `make_models.py [name ...]`.

Each is measured in a process of its own, so that one that crashes or hangs costs one line. With names only
those are measured again; of the others the page keeps what `build/models.json` says.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests" / "models")]
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import torch._dynamo  # noqa: E402, TID251
import transformers  # noqa: E402
from zoo import ARCHITECTURES, FAMILIES, Architecture  # noqa: E402
from zoo.measure import ABSENT, CLOSE, SAME, measure, summary  # noqa: E402

import framelift  # noqa: E402

SECONDS = 180
"""For one architecture."""

INTRODUCTION = """\
# Models

What becomes of the architectures of `transformers`: tiny ones with random weights (`tests/models/zoo`), each
in a process of its own, on one thread. `make models` writes this page. Rows that were not measured again are
kept as they were, and may be of an earlier state of the code.

- **graphs / breaks**: how many graphs the backend is given for two calls of `forward`, and how often the
  capture had to end, in Framelift and in `torch.compile`, both with a backend that runs the graph as it is.
- **forward**: two compiled calls against eager: results, caches and other arguments, and the state of the
  random number generator, bit for bit; or up to rounding, where a model computes in another order when it
  is compiled.
- **training**: a step in training mode with dropout; the gradients of all parameters, and the buffers.
- **generate**: eight tokens, greedily, with `model.forward = framelift.compile(model.forward)`, and how many
  graphs that took. A dash: the model does not generate, or is not trained.
"""

Row = dict[str, Any]
RIGHT = (SAME, CLOSE, ABSENT)
MEASURED = ("forward", "training", "generate")
KEPT = ROOT / "build" / "models.json"


def child(pipe: Any, measure: Callable[[Architecture], Row], architecture: Architecture) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    pipe.send(measure(architecture))


def measured(
    architecture: Architecture, measure: Callable[[Architecture], Row] = measure, seconds: int = SECONDS
) -> Row:
    """In a process that has imported what all need already."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(its, measure, architecture))
    process.start()
    its.close()
    try:
        found = mine.recv() if mine.poll(seconds) else {"failed": f"not done after {seconds} seconds"}
    except EOFError:
        process.join()
        found = {"failed": f"the process ended with {process.exitcode}"}
    process.kill()
    process.join()
    return found


def count(of: Row, system: str) -> str:
    return f"{of[system]['graphs']} / {len(of[system]['breaks'])}"


def whole(of: Row, system: str) -> bool:
    return system in of and of[system]["graphs"] == 1 and not of[system]["breaks"]


def correct(of: Row) -> bool:
    return "failed" not in of and all(of[what] in RIGHT for what in MEASURED)


def told(said: str) -> str:
    return said if said in RIGHT else f"**no**: {said.splitlines()[0][:100].replace('|', ' ')}"


def line(family: str, name: str, of: Row) -> str:
    if "failed" in of:
        return f"| {family} | {name} | **{of['failed']}** | | | | | |"
    cells = [family, name, count(of, "framelift"), count(of, "torch.compile")]
    cells += [told(of[what]) for what in MEASURED]
    cells[-1] += f" ({of['generate_graphs']})" if of["generate"] == SAME else ""
    return f"| {' | '.join(cells)} | {summary(of['framelift']['breaks'])} |"


def totals(rows: dict[str, Row]) -> Iterator[str]:
    def total(what: str, of: Row) -> int:
        return of.get(what) in (SAME, CLOSE)

    asked = [of for of in rows.values() if of.get("generate") != ABSENT]
    trained = [of for of in rows.values() if of.get("training") != ABSENT]
    yield f"- {len(rows)} architectures (of {len(ARCHITECTURES)} in `tests/models/zoo`) were measured"
    yield f"- correct in all that was measured of them: {sum(map(correct, rows.values()))}"
    yield f"- forward as eager's: {sum(total('forward', of) for of in rows.values())} of {len(rows)}"
    yield f"- training step as eager's: {sum(total('training', of) for of in trained)} of {len(trained)}"
    yield f"- generated tokens as eager's: {sum(total('generate', of) for of in asked)} of {len(asked)}"
    own, torchs = (
        {name for name, of in rows.items() if whole(of, s)} for s in ("framelift", "torch.compile")
    )
    yield f"- one graph in Framelift: {len(own)}; in torch.compile: {len(torchs)}"
    yield f"- one graph only in Framelift: {', '.join(sorted(own - torchs)) or 'none'}"
    yield f"- one graph only in torch.compile: {', '.join(sorted(torchs - own)) or 'none'}"


def page(rows: dict[str, Row]) -> str:
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, "
    versions += f"Python {platform.python_version()}, {datetime.date.today()}"
    heads = ["family", "architecture", "graphs / breaks", "torch.compile", "forward", "training", "generate"]
    table = [f"| {' | '.join([*heads, 'why it breaks'])} |", "|" + "---|" * (len(heads) + 1)]
    families = {one.name: family for family, members in FAMILIES.items() for one in members}
    table += [line(families[name], name, of) for name, of in rows.items()]
    return "\n".join([INTRODUCTION, f"{versions}.", "", *totals(rows), "", *table, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures, as the page names them")
    names = parser.parse_args().names
    transformers.logging.set_verbosity_error()
    framelift.compile  # noqa: B018 - so that the processes have it
    rows: dict[str, Row] = json.loads(KEPT.read_text()) if names and KEPT.exists() else {}
    for architecture in ARCHITECTURES.values():
        if names and architecture.name not in names:
            continue
        begun = time.monotonic()
        rows[architecture.name] = of = measured(architecture)
        print(f"{line('', architecture.name, of)} {time.monotonic() - begun:.1f} s", flush=True)
        if names and "failed" not in of:
            print("\n".join(dict.fromkeys(of["framelift"]["where"] + of["faults"])))
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(rows, indent=1, default=str))
    rows = {name: rows[name] for name in ARCHITECTURES if name in rows}
    print("\n".join(totals(rows)))
    Path(__file__).with_name("models.md").write_text(page(rows))


if __name__ == "__main__":
    main()
