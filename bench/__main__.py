"""Runs the comparison, prints tables and the state of each target, and writes the samples as JSON."""

from __future__ import annotations

import argparse
import compileall
import importlib.metadata
import json
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import (
    breaks,
    capture,
    export,
    first_result,
    interpreter,
    memory,
    overhead,
    pictures,
    situations,
    symbols,
)
from bench.measure import CLOCK_VARIABLE, Allowed, Target
from bench.tables import show_targets
from framelift.core.versions import DISTRIBUTION

SECTIONS = {
    "capture": capture,
    "symbols": symbols,
    "interpreter": interpreter,
    "breaks": breaks,
    "overhead": overhead,
    "situations": situations,
    "memory": memory,
    "export": export,
    "first-result": first_result,
}
PACKAGE = Path(__file__).parent.parent / "src" / "framelift"
RESULTS = Path(__file__).parent / "results" / "latest.json"
REPETITIONS = 3


def main() -> None:
    os.environ.setdefault("FRAMELIFT_CACHE", "0")  # what earlier runs have captured is not what is measured
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition instead of several")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=f"default {REPETITIONS}")
    parser.add_argument("--only", choices=SECTIONS, help="one section instead of all")
    parser.add_argument("--minutes", type=float, help="how long it may take; what does not fit is left out")
    parser.add_argument("--pictures", metavar="FOLDER", help="draw what was measured (see bench/pictures.py)")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine that is busy")
    options = parser.parse_args()
    os.environ[CLOCK_VARIABLE] = "cpu" if options.cpu else "wall"
    repetitions = 1 if options.quick else options.repetitions
    compileall.compile_dir(PACKAGE, quiet=2)  # as installers do, and have done with torch

    console = Console()
    about = {"machine": machine(), "versions": versions(), "repetitions": repetitions}
    console.print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    console.print("{cpu}, {cores} cores, load {load:.1f}, {clock} time".format(**about["machine"]))
    console.print("Medians over repetitions; ratios, taken run by run, also with (least-greatest).\n")

    results: dict[str, Any] = {}
    known = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() and options.only else {}
    targets: list[Target] = []
    chosen = [options.only] if options.only else list(SECTIONS)
    ends = time.monotonic() + 60 * options.minutes if options.minutes is not None else float("inf")
    for n, name in enumerate(chosen):
        section = SECTIONS[name]
        now = time.monotonic()
        Allowed.until = now + (ends - now) / (len(chosen) - n)  # what one leaves over is for the others
        with console.status(name) as status:
            measured = section.measure(repetitions, lambda text, name=name: status.update(f"{name}: {text}"))
        section.show(console, measured)
        results |= measured
        targets += section.targets(measured)
        save(about | {"results": known | results})  # of other sections, what was measured before
    show_targets(console, targets)
    console.print(f"Samples: {os.path.relpath(RESULTS)}")
    if options.pictures:
        for path in pictures.draw(known | results, Path(options.pictures)):
            console.print(f"Picture: {path}")


def save(everything: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    everything["date"] = datetime.now(UTC).isoformat(timespec="seconds")
    RESULTS.write_text(json.dumps(everything, indent=1))


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    packages = {"framelift": DISTRIBUTION, "torch": "torch", "transformers": "transformers"}
    for name, package in packages.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = models[0] if models else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "clock": os.environ[CLOCK_VARIABLE],
        "system": f"{platform.system()} {platform.release()}",
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()
