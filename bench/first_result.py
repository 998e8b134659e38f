"""Time to the first result: a fresh process builds a model, compiles it and runs it once.

    python -m bench --only first-result
    python -m bench.first_result --subjects "BERT 4"
    python -m bench.first_result --page bench/results/first_result.json    makes docs/first_result.md of it

Each sample is a process of its own (`first_result_program`), with folders of its own for what compilers keep
on disk, which are empty, or have seen a small model (a machine that is in use), or have seen the same program
(warm). Systems take turns.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.first_result_program import PARTS, STARTED
from bench.measure import CLOCK_VARIABLE, TIMEOUT_S, Failed, Spread, Target, pick, ratio
from bench.tables import show_failures, show_table, show_targets, significant, times

SYSTEMS = ("framelift", "torch.compile")
ONE_OP = "one op"
"""A line of one operator with a backend that does nothing: what the system itself costs."""
FIRST_OF_A_MACHINE = "MLP"
"""What was compiled before on a machine that is in use."""
MODELS = ("BERT 4", "Llama 8", "ViT 4", "BERT 4, training")
STATES = {
    "empty": "nothing on disk",
    "in use": "something else was compiled before",
    "warm": "the same program has run before",
}
COUNTED = tuple(part for part in PARTS if part not in ("python", "model"))
"""What compiling adds to the program."""

Samples = dict[str, dict[str, list[Any]]]
"""Subject and state -> system -> a sample for each repetition."""


def devices() -> list[str]:
    import torch

    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def measure(
    repetitions: int,
    say: Callable[[str], None],
    subjects: tuple[str, ...] = MODELS,
    on: tuple[str, ...] | None = None,
    states: tuple[str, ...] = tuple(STATES),
    warm: int = 1,
) -> dict[str, Any]:
    """`warm`: how often the program is run again, for each time that it is run with nothing on disk."""
    results: Samples = {}
    for repetition in range(repetitions):
        for device in on or devices():
            for subject in (ONE_OP, *subjects):
                for state, system, sample in in_states(subject, device, states, warm, repetition):
                    say(f"{subject}, {device}, {state}, {system}, repetition {repetition + 1}")
                    row = results.setdefault(f"{subject}, {device}, {state}", {})
                    row.setdefault(system, []).append(sample)
                    say(json.dumps(sample))
    return {"first result": results}


def in_states(
    subject: str, device: str, states: tuple[str, ...], warm: int, repetition: int
) -> Iterator[tuple[str, str, Any]]:
    """(what is on disk, system, sample), with systems in turns."""
    order = SYSTEMS[:: 1 if repetition % 2 == 0 else -1]
    with tempfile.TemporaryDirectory() as folder:
        for system in order:
            yield "empty", system, run(system, subject, device, f"{folder}/{system}")
        for n in range(warm if "warm" in states and subject != ONE_OP else 0):
            for system in order[:: 1 if n % 2 == 0 else -1]:
                yield "warm", system, run(system, subject, device, f"{folder}/{system}")
    if "in use" not in states or subject == ONE_OP:
        return
    for system in order:
        with tempfile.TemporaryDirectory() as folder:
            run(system, FIRST_OF_A_MACHINE, device, folder)
            yield "in use", system, run(system, subject, device, folder)


def run(system: str, subject: str, device: str, kept: str) -> Any:
    """What the program tells, or {"failed": why}."""
    places = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "FRAMELIFT_CACHE_DIR": "framelift"}
    places |= {"TRITON_CACHE_DIR": "triton", "TMPDIR": "temporary"}  # where torch keeps headers
    paths = {variable: os.path.join(kept, name) for variable, name in places.items()}
    for path in paths.values():
        os.makedirs(path, mode=0o700, exist_ok=True)
    command = [sys.executable, "-m", "bench.first_result_program", system, subject, device]
    environment = {**os.environ, **paths, STARTED: str(time.time()), "FRAMELIFT_CACHE": "1"}
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        if ran.returncode != 0:
            raise Failed((ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1][:200])
    except (Failed, subprocess.TimeoutExpired) as failure:
        return {"failed": str(failure)}
    return json.loads(ran.stdout.splitlines()[-1])


# What was found


def clock() -> str:
    return "cpu" if os.environ.get(CLOCK_VARIABLE) == "cpu" else "wall"


def part(samples: list[Any], name: str, on: str) -> Spread | None:
    return pick(samples, lambda sample: sample[on]["parts"][name])


def added(samples: list[Any], on: str) -> Spread | None:
    return pick(samples, lambda sample: sum(sample[on]["parts"][name] for name in COUNTED))


def seconds(spread: Spread | None) -> str:
    return "-" if spread is None else significant(spread.median)


def rows(results: Samples, on: str) -> list[list[str]]:
    lines = []
    for subject, samples in results.items():
        faster = ratio(added(samples["torch.compile"], on), added(samples["framelift"], on))
        for system, runs in samples.items():
            parts = [seconds(part(runs, name, on)) for name in PARTS]
            name = subject if system == "framelift" else ""
            ahead = times(faster, 2) if system == "framelift" else ""
            lines.append([name, system, *parts, seconds(added(runs, on)), ahead])
    return lines


HEADS = ["", "system", *PARTS, "compiling", "faster by"]
CLOCKS = {"wall": "Seconds until the first result", "cpu": "The same in processor time"}


def show(console: Console, results: dict[str, Any]) -> None:
    found: Samples = results["first result"]
    for on, title in CLOCKS.items():
        show_table(console, title, HEADS, rows(found, on))
    wrong = [
        f"{subject}, {system}: {sample['failed']}"
        for subject, samples in found.items()
        for system, runs in samples.items()
        for sample in runs
        if "failed" in sample
    ]
    show_failures(console, wrong)


WARM_RATIOS = {"BERT 4": 5.0, "Llama 8": 5.0, "ViT 4": 5.0, "BERT 4, training": 3.0}


def targets(results: dict[str, Any]) -> list[Target]:
    found, on = results["first result"], clock()
    alone = found.get(f"{ONE_OP}, cpu, empty", {}).get("framelift", [])
    name = pick(alone, lambda sample: sample[on]["name"]) if alone else None
    call = pick(alone, lambda sample: sample[on]["call"]) if alone else None
    lines = [
        Target("import of `compile`", 0.2, name.median if name else None, True, " s"),
        Target("first capture, trivial backend", 0.3, call.median if call else None, True, " s"),
    ]
    for subject, limit in WARM_RATIOS.items():
        samples = found.get(f"{subject}, cpu, warm")
        if samples is not None:
            faster = ratio(added(samples["torch.compile"], on), added(samples["framelift"], on))
            lines.append(Target(f"{subject}, warm", limit, faster.median if faster else None))
    return lines


# The page

DOCS = Path(__file__).parents[1] / "docs"
SAVED = Path(__file__).parent / "results" / "first_result.json"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
COLOURS = {
    "python": "#d9d9d9",
    "model": "#bdbdbd",
    "import": "#4c78a8",
    "capture": "#f58518",
    "AOTAutograd": "#54a24b",
    "Inductor": "#b279a2",
    "probes": "#e45756",
    "kernels": "#72b7b2",
}


def draw(results: Samples, on: str) -> str:
    """An SVG: bars by part, a pair for each subject and state."""
    bars = [
        (subject, system, runs) for subject, samples in results.items() for system, runs in samples.items()
    ]
    bars = [bar for bar in bars if added(bar[2], on) is not None]
    lengths = [
        [(name, found.median) for name in PARTS if (found := part(runs, name, on))] for *_, runs in bars
    ]
    scale = (WIDTH - LABELS - 50) / max(sum(length for _, length in parts) for parts in lengths)
    shapes, y = legend(), 40.0
    for n, ((subject, system, _), parts) in enumerate(zip(bars, lengths, strict=True)):
        y += BAR if n % len(SYSTEMS) else BAR + 8
        x = float(LABELS)
        shapes.append(text(x - 6, y, f"{subject}: {system}", "end"))
        for name, length in parts:
            shapes.append(box(x, y, length * scale, COLOURS[name], f"{name}: {length:.2f} s"))
            x += length * scale
        shapes.append(text(x + 4, y, f"{sum(length for _, length in parts):.1f} s"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24:.0f}" font-family="sans-serif"'
    )
    return "\n".join([f'{head} font-size="11">', *shapes, "</svg>", ""])


WIDTH, LABELS, BAR = 900, 250, 16


def legend() -> list[str]:
    shapes = []
    for n, (name, colour) in enumerate(COLOURS.items()):
        x, y = LABELS + 150 * (n % 4), 12.0 + 18 * (n // 4)
        shapes += [box(x, y, 10, colour, PARTS[name]), text(x + 14, y, name)]
    return shapes


def box(x: float, y: float, width: float, colour: str, title: str) -> str:
    place = f'x="{x:.1f}" y="{y - 10:.1f}" width="{width:.1f}" height="{BAR - 4}"'
    return f'<rect {place} fill="{colour}"><title>{title}</title></rect>'


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def tables(results: Samples) -> str:
    lines = []
    for on, title in CLOCKS.items():
        lines += [
            f"{title} (medians):",
            "",
            f"| {' | '.join(HEADS)} |",
            "|---|---|" + "---:|" * (len(HEADS) - 2),
        ]
        lines += [f"| {' | '.join(row)} |" for row in rows(results, on)]
        lines.append("")
    return "\n".join(lines)


def section(measured: dict[str, Any], picture: Path) -> str:
    """What was found on one machine, as part of the page."""
    about, results = measured["about"], measured["results"]["first result"]
    picture.write_text(draw(results, about["clock"]))
    told = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    where = f"{about['cpu']}, {about['cores']} cores, load {about['load']:.1f} at the start; {told}; "
    shown = f"![{CLOCKS[about['clock']]}, by part]({picture.name})"
    again = about.get("warm", 1) * about["repetitions"]
    return f"{where}{about['repetitions']} repetitions, {again} where warm.\n\n{shown}\n\n{tables(results)}"


def machine_of(part: str) -> str:
    """The words that a part of the page begins with: processor and cores."""
    return part.partition(", load ")[0]


def kept_parts(page: str) -> dict[str, str]:
    """Machine -> what the page tells of it, in the page's order."""
    made = page.partition(BEGIN)[2].partition(END)[0].strip("\n")
    starts = [found.start() for found in re.finditer(r"^.+, load [0-9.]+ at the start;", made, re.MULTILINE)]
    parts = [made[start:end] for start, end in itertools.pairwise([*starts, len(made)])]
    return {machine_of(part): part.strip("\n") + "\n" for part in parts}


def write_page(files: list[str], folder: Path = DOCS) -> None:
    """The page of the documentation, from what was saved on one machine or several. What it tells of other
    machines stays."""
    page = folder / "first_result.md"
    head, _, rest = page.read_text().partition(BEGIN)
    parts = kept_parts(page.read_text())
    for file in files:
        measured = json.loads(Path(file).read_text())
        name = f"{measured['about']['cpu']}, {measured['about']['cores']} cores"
        shown = re.search(r"first_result_\d+\.svg", parts.get(name, ""))
        picture = shown[0] if shown else f"first_result_{len(parts) + 1}.svg"
        parts[name] = section(measured, folder / picture)
    made = "\n".join(parts.values())
    page.write_text(f"{head}{BEGIN}\n{made}{END}{rest.partition(END)[2]}")


def main() -> None:
    from bench.__main__ import machine, versions

    parser = argparse.ArgumentParser(prog="python -m bench.first_result", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--subjects", nargs="*", default=list(MODELS))
    parser.add_argument("--devices", nargs="*", default=devices())
    parser.add_argument("--states", nargs="*", default=list(STATES), choices=STATES)
    parser.add_argument("--warm", type=int, default=1, help="how often a program is run again")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine that is busy")
    parser.add_argument("--save", default=str(SAVED), help="where the samples go")
    parser.add_argument("--page", nargs="+", help="makes the page of such files, and measures nothing")
    options = parser.parse_args()
    if options.page:
        write_page(options.page)
        return
    os.environ[CLOCK_VARIABLE] = "cpu" if options.cpu else "wall"
    about = machine() | {"versions": versions(), "repetitions": options.repetitions, "warm": options.warm}
    found = measure(
        options.repetitions,
        functools.partial(print, flush=True),
        tuple(options.subjects),
        tuple(options.devices),
        tuple(options.states),
        options.warm,
    )
    show(Console(width=200), found)
    show_targets(Console(), targets(found))
    Path(options.save).parent.mkdir(exist_ok=True)
    Path(options.save).write_text(json.dumps({"about": about, "results": found}, indent=1))


if __name__ == "__main__":
    main()
