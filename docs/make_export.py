"""Measures exports of the architectures in `tests/models/zoo` for `docs/export.md`.

`make_export.py [name ...]`: each is exported by Framelift and by `torch.export.export(strict=True)`, in a
process of its own; the artifact is saved, loaded by another process and run there. With names only those are
measured again; the page keeps its rows of the others. It is written after each architecture. `--part 2/4`
measures the second quarter, `--missing` what was never measured, `--times` only how long both exports take.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import multiprocessing
import platform
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import make_models  # noqa: F401  (it says where the zoo is)
import torch
import torch._dynamo  # noqa: TID251
import torch.export
import transformers
from torch.export import Dim
from torch.utils import _pytree as pytree
from zoo import ARCHITECTURES, FAMILIES, Architecture
from zoo.architecture import Case

import framelift

SECONDS = 300
"""For one export, and for one run of an artifact."""
PAGE = Path(__file__).with_name("export.md")
MARK = "<!-- measured -->"
"""What stands in front of the tables in the page."""

Row = dict[str, Any]
RIGHT = "yes"

SYSTEMS: dict[str, Callable[..., torch.export.ExportedProgram]] = {
    "framelift": lambda model, inputs, shapes: framelift.export(
        model, (), inputs, dynamic_shapes=shapes, strict=False
    ),
    "torch.export": lambda model, inputs, shapes: torch.export.export(
        model, (), inputs, dynamic_shapes=shapes, strict=True
    ),
}

HEADS = ["family", "architecture", *SYSTEMS, "larger batch", "seconds", "torch's", "times"]


def build(architecture: Architecture) -> Case:
    """Without a cache in what the model gives: torch does not know what such an object holds."""
    case = architecture.build()
    for module in case.model.modules():
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False
    return case


def varying(inputs: dict[str, Any]) -> Any:
    """The first dimension of each tensor is as large as the others' allow."""
    return {
        name: pytree.tree_map(lambda leaf: {0: Dim.AUTO} if isinstance(leaf, torch.Tensor) else None, value)
        for name, value in inputs.items()
    }


def leaves(value: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def export(architecture: Architecture, system: str, file: str) -> Row:
    """Exports, and saves the artifact with what eager gives."""
    case = build(architecture)
    inputs = case.inputs()
    with torch.no_grad():
        expected = leaves(case.model(**case.inputs()))
        began = time.process_time()
        try:
            program = SYSTEMS[system](case.model, inputs, None)
        except Exception as error:
            return {"said": said_by(error)}
        seconds = time.process_time() - began
        try:
            torch.export.save(program, file)
        except Exception as error:
            return {"said": f"save: {said_by(error)}", "seconds": seconds}
        torch.save((inputs, expected), f"{file}.run")
    return {"said": RIGHT, "seconds": seconds}


def run(architecture: Architecture, system: str, file: str) -> Row:
    """Loads an artifact and runs it."""
    getattr(transformers, architecture.model)  # which registers the classes of its outputs
    inputs, expected = torch.load(f"{file}.run", weights_only=False)
    try:
        with torch.no_grad():
            found = leaves(torch.export.load(file).module()(**inputs))
        assert len(found) == len(expected), f"{len(found)} tensors instead of {len(expected)}"
        for a, b in zip(expected, found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    except Exception as error:
        return {"said": f"run: {said_by(error)}"}
    return {"said": RIGHT}


def other_sizes(architecture: Architecture, system: str, file: str) -> Row:
    """Exports with batches that may vary, and runs a larger one."""
    case = build(architecture)
    inputs = case.inputs()
    try:
        larger = {name: pytree.tree_map(grown, value) for name, value in inputs.items()}
        with torch.no_grad():
            expected = leaves(case.model(**larger))
    except Exception:
        return {"said": "-"}  # the model itself takes no other batch
    try:
        with torch.no_grad():
            program = SYSTEMS[system](case.model, inputs, varying(inputs))
            found = leaves(program.module()(**larger))
        for a, b in zip(expected, found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    except Exception as error:
        return {"said": said_by(error)}
    return {"said": RIGHT}


def grown(leaf: Any) -> Any:
    return torch.cat([leaf, leaf[:1]]) if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf


def said_by(error: BaseException) -> str:
    text = re.sub(r'File "[^"]*/', 'File "', " ".join(str(error).split()))
    return f"{type(error).__name__}: {text[:400]}"


def child(pipe: Any, work: Callable[..., Row], *given: Any) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    pipe.send(work(*given))


def in_process(work: Callable[..., Row], *given: Any) -> Row:
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(its, work, *given))
    process.start()
    its.close()
    try:
        found = mine.recv() if mine.poll(SECONDS) else {"said": f"not done after {SECONDS} seconds"}
    except EOFError:
        process.join()
        found = {"said": f"the process ended with {process.exitcode}"}
    process.kill()
    process.join()
    return found


def measured(architecture: Architecture) -> Row:
    row: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        for n, system in enumerate(SYSTEMS):
            file = f"{folder}/{n}.pt2"
            of = row[system] = in_process(export, architecture, system, file)
            if of["said"] == RIGHT:
                of |= in_process(run, architecture, system, file)
        row["other sizes"] = in_process(other_sizes, architecture, "framelift", "")["said"]
    return row


def timed(architecture: Architecture, known: Row) -> Row:
    """A row with other times: of what both could export."""
    row: Row = dict(known)
    with tempfile.TemporaryDirectory() as folder:
        for system in SYSTEMS:
            found = in_process(export, architecture, system, f"{folder}/timed.pt2")
            if known[system]["said"] == RIGHT and found["said"] == RIGHT:
                row[system] = found
    return row


def told(said: str) -> str:
    return said if said in (RIGHT, "-") else f"**no**: {said[:110].replace('|', ' ')}"


def kept() -> dict[str, Row]:
    """The rows that the page has."""
    rows: dict[str, Row] = {}
    for text in PAGE.read_text().partition(MARK)[2].splitlines():
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if len(cells) != len(HEADS) or cells[1] not in ARCHITECTURES:
            continue
        _, name, *said, other, own, torchs, _ = cells
        rows[name] = {"other sizes": was_told(other)}
        for system, what, seconds in zip(SYSTEMS, said, (own, torchs), strict=True):
            rows[name][system] = {"said": was_told(what)} | ({"seconds": float(seconds)} if seconds else {})
    return rows


def was_told(cell: str) -> str:
    return cell.removeprefix("**no**: ")


def line(family: str, name: str, of: Row) -> str:
    cells = [family, name]
    for system in SYSTEMS:
        cells.append(told(of[system]["said"]))
    times = [of[system].get("seconds") for system in SYSTEMS]
    cells.append(told(of["other sizes"]))
    cells += ["" if seconds is None else f"{seconds:.2f}" for seconds in times]
    cells.append(f"{times[1] / times[0]:.1f}" if all(times) else "")
    return f"| {' | '.join(cells)} |"


def totals(rows: dict[str, Row]) -> Iterator[str]:
    right = {s: {name for name, of in rows.items() if of[s]["said"] == RIGHT} for s in SYSTEMS}
    yield f"- {len(rows)} architectures (of {len(ARCHITECTURES)} in `tests/models/zoo`) were measured"
    for system in SYSTEMS:
        yield f"- exported by {system}, saved, loaded elsewhere, and as eager: {len(right[system])}"
    own, torchs = right.values()
    yield f"- only by framelift: {', '.join(sorted(own - torchs)) or 'none'}"
    yield f"- only by torch.export: {', '.join(sorted(torchs - own)) or 'none'}"
    asked = [of["other sizes"] for of in rows.values() if of["other sizes"] != "-"]
    yield f"- right with a larger batch: {asked.count(RIGHT)} of {len(asked)}"
    faster = sorted(
        of["torch.export"]["seconds"] / of["framelift"]["seconds"]
        for of in rows.values()
        if all("seconds" in of[system] for system in SYSTEMS)
    )
    if faster:
        yield f"- how much faster, in the middle: {faster[len(faster) // 2]:.1f} times"


def tables(rows: dict[str, Row]) -> str:
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, "
    versions += f"Python {platform.python_version()}, {datetime.date.today()}"
    table = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    families = {one.name: family for family, members in FAMILIES.items() for one in members}
    table += [line(families[name], name, of) for name, of in rows.items()]
    return "\n".join([MARK, "", f"{versions}.", "", *totals(rows), "", *table, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures, as the page names them")
    parser.add_argument("--part", default="1/1", help="which part of all architectures: 2/4")
    parser.add_argument("--times", action="store_true", help="only the times, of rows that both export")
    parser.add_argument("--missing", action="store_true", help="only those that were never measured")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    transformers.logging.set_verbosity_error()
    for system in SYSTEMS.values():  # so that the processes have all that is imported and made at first
        system(torch.nn.Linear(1, 1), {"input": torch.ones(2, 1)}, None)
    rows = kept()
    chosen = [name for name in ARCHITECTURES if not asked.names or name in asked.names][part - 1 :: parts]
    for name in chosen:
        if asked.missing and name in rows:
            continue
        if asked.times and any(rows.get(name, {}).get(s, {}).get("said") != RIGHT for s in SYSTEMS):
            continue
        one = ARCHITECTURES[name]
        rows[name] = of = timed(one, rows[name]) if asked.times else measured(one)
        print(line("", name, of), flush=True)
        write(rows)
    print("\n".join(totals(rows)))


def write(rows: dict[str, Row]) -> None:
    in_order = {name: rows[name] for name in ARCHITECTURES if name in rows}
    text = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(text + tables(in_order))


if __name__ == "__main__":
    main()
