"""Runs the programs in `tests/clients` and writes `docs/clients.md`: `make_clients.py [part of a name ...]`.

Each is run eagerly, with torch.compile, with `framelift.compile`, and with torch.compile while Framelift is
installed behind torch's names; each time in a process of its own. With names only those are run again; of the
others the page keeps its rows. What is not installed is left out: `make clients` makes
an environment that has all of it.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import io
import logging
import multiprocessing
import os
import platform
import re
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
from torch._dynamo.utils import counters as torchs_counters  # noqa: E402, TID251

import clients.models  # noqa: E402
import clients.science  # noqa: E402
import clients.training  # noqa: E402
import framelift  # noqa: E402
from clients.how import CLIENTS, DIRECT, EAGER, INSTALLED, TORCH, How  # noqa: E402

WHERE_INSTALLED = re.compile(r"(?:/[\w.-]+)+/site-packages/")
SECONDS = 300
"""For one program, run one way."""

INTRODUCTION = """\
# Clients

What libraries do with compiled functions and modules: the programs in `tests/clients`, a few steps each, on
the CPU. Each is run eagerly and compiled, in processes of their own, with the backend `eager`;
results, trained parameters, saved files and what the library says of the module are compared with eager's.
`make clients` writes this page; it makes an environment of its own for it. Rows that were not measured again
are kept as they were, and may be of an earlier state of the code.

- **yes / close / no**: the same bit for bit; up to rounding; otherwise what went wrong.
- **graphs / breaks**: how many graphs the backend was given, and how often a capture had to end.
- **-**: the library itself calls torch.compile, and the program compiles nothing.
- **installed**: torch.compile, called by the program or by the library, after `framelift.install()`.
"""

Row = dict[str, Any]
PAGE = Path(__file__).with_name("clients.md")


# ---- one program, one way


def run(name: str, how: How) -> Row:
    """What it gave, or how it failed; how much was captured; what was logged as a mistake."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    mistakes: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: mistakes.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("framelift.trace.faults").addHandler(handler)
    if how is INSTALLED:
        framelift.install()
    row: Row = {"mistakes": mistakes}
    begun = time.monotonic()
    try:
        torch.manual_seed(0)
        row["found"] = CLIENTS[name].program(how)
    except Exception as error:
        row["failed"] = f"{type(error).__name__}: {error}"
        row["traceback"] = traceback.format_exc()
    row["seconds"] = time.monotonic() - begun
    counted = torchs_counters if how is TORCH else framelift.counters
    row["graphs"] = counted["stats"]["unique_graphs"]
    row["breaks"] = {str(reason).splitlines()[0]: n for reason, n in counted["graph_break"].items()}
    return row


def child(pipe: Any, name: str, how: How) -> None:
    sent = io.BytesIO()
    torch.save(run(name, how), sent)
    pipe.send_bytes(sent.getvalue())


def measured(name: str, how: How) -> Row:
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(its, name, how))
    process.start()
    its.close()
    try:
        if not mine.poll(SECONDS):
            return {"failed": f"not done after {SECONDS} seconds"}
        found: Row = torch.load(io.BytesIO(mine.recv_bytes()), weights_only=False)
        return found
    except EOFError:
        process.join()
        return {"failed": f"the process ended with {process.exitcode}"}
    finally:
        process.kill()
        process.join()


# ---- compared with eager


def verdict(row: Row, expected: Row) -> str:
    if "failed" in row:
        return f"no: {row['failed'].splitlines()[0][:120]}"
    if row["mistakes"]:
        return f"no: a mistake is logged: {row['mistakes'][0].splitlines()[0][:120]}"
    for said, tolerance in (("yes", {"rtol": 0.0, "atol": 0.0}), ("close", {"rtol": 1e-4, "atol": 1e-5})):
        try:
            torch.testing.assert_close(row["found"], expected["found"], equal_nan=True, **tolerance)
        except AssertionError as error:
            difference = str(error).splitlines()[0]
        except TypeError:  # of what holds other things than numbers and tensors
            difference = differs(row["found"], expected["found"], tolerance)
        else:
            return said
        if not difference:
            return said
    return f"no: {difference[:120]}"


def differs(found: Any, expected: Any, tolerance: dict[str, float]) -> str:
    """Where two results differ that hold strings and truth values too; empty if they do not."""
    if type(found) is not type(expected):
        return f"a {type(found).__name__} for a {type(expected).__name__}"
    if isinstance(found, dict):
        if list(found) != list(expected):
            return f"the names {list(found)} for {list(expected)}"[:120]
        return differs(list(found.values()), list(expected.values()), tolerance)
    if isinstance(found, (list, tuple)):
        if len(found) != len(expected):
            return f"{len(found)} results for {len(expected)}"
        return next(filter(None, map(lambda a, b: differs(a, b, tolerance), found, expected)), "")
    if not isinstance(found, (torch.Tensor, float)):
        return "" if found == expected else f"{found!r} for {expected!r}"[:120]
    try:
        torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)
    except AssertionError as error:
        return str(error).splitlines()[0]
    return ""


def captured(row: Row) -> str:
    return "" if "graphs" not in row else f"{row['graphs']} / {sum(row['breaks'].values())}"


def line(name: str, rows: dict[str, Row]) -> str:
    expected = rows[EAGER.name]
    if "failed" in expected:
        why = WHERE_INSTALLED.sub("", expected["failed"].splitlines()[0])
        return f"| {name} | **fails eagerly**: {why[:120]} | | | | | |"
    cells = [name]
    for how in (DIRECT, INSTALLED, TORCH):
        if how.name not in rows:
            cells += ["-", ""]
            continue
        said = verdict(rows[how.name], expected).replace("|", " ")
        cells += [said if said in ("yes", "close") else f"**{said}**", captured(rows[how.name])]
    return f"| {' | '.join(cells)} |"


# ---- the page


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def page(lines: list[str]) -> str:
    packages = dict.fromkeys(package for one in CLIENTS.values() for package in one.packages)
    versions = [f"{package} {version(package)}" for package in ("torch", *packages) if version(package)]
    ways = [f"{way} | graphs / breaks" for way in ("framelift", "installed", "torch.compile")]
    head = f"| program | {' | '.join(ways)} |"
    made = f"{', '.join(versions)}; Python {platform.python_version()}, {datetime.date.today()}."
    return "\n".join([INTRODUCTION, made, "", head, "|" + "---|" * 7, *lines, ""])


def rows_of_page() -> dict[str, str]:
    """Program -> its row."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {row[2:].partition(" | ")[0]: row for row in rows[1:]}


def main() -> None:
    wanted = sys.argv[1:]
    if version("torchvision") is not None:  # which transformers imports too
        clients.models.load_torchvision()
    lines = rows_of_page() if wanted else {}
    for name, one in CLIENTS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        missing = [package for package in one.packages if version(package) is None]
        if missing:
            print(f"{name}: {', '.join(missing)} is not installed", flush=True)
            continue
        rows = {how.name: measured(name, how) for how in one.ways()}
        lines[name] = line(name, rows)
        print(lines[name], *(f"{row.get('seconds', 0):.1f}s" for row in rows.values()), flush=True)
        if wanted:
            for how, row in rows.items():
                print(how, row.get("breaks"), row.get("mistakes"), row.get("traceback", ""), sep="\n  ")
    PAGE.write_text(page([lines[name] for name in CLIENTS if name in lines]))


if __name__ == "__main__":
    main()
