"""Random Python programs that break the capture and change state, run plainly and compiled, and compared.

A program is source text made from the grammar of an area (`grammar/`): a function `program` over tensors,
numbers, containers, objects and functions from outside, and what is done between its calls. The seed alone
says what the program is. What differs is made small and printed.

    python tests/fuzzing/random_programs.py --count 5000 --seed 0   many programs
    python tests/fuzzing/random_programs.py --time 600 --jobs 16    as many as go into ten minutes
    python tests/fuzzing/random_programs.py --area numbers          those of one area
    python tests/fuzzing/random_programs.py --show 17               the program of one seed
    python tests/fuzzing/random_programs.py --file program.py       a program that was kept
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from grammar import AREAS
from program_batches import program_of, seeds_of
from program_runs import check_program
from program_workers import run_many


def main() -> int:
    parser = argparse.ArgumentParser(description="Random programs, plainly and compiled.")
    parser.add_argument("--count", type=int, help="how many; 1000 if there is no --time")
    parser.add_argument("--time", type=float, help="for how many seconds")
    parser.add_argument(
        "--seed", type=int, default=0, help="the first seed; to go on after a run, the one it names"
    )
    parser.add_argument("--area", choices=AREAS, help="only programs of this area")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--show", type=int, help="print the program of this seed")
    parser.add_argument("--file", type=Path, help="check the program in this file")
    options = parser.parse_args()
    if options.show is not None:
        print(program_of(options.show).source)
        return 0
    if options.file is not None:
        finding = check_program(options.file.read_text())
        print(finding.difference or "no difference", dict(finding.breaks))
        return 1 if finding.difference else 0
    seeds = seeds_of(options.area, options.seed)
    count = options.count if options.count or options.time else 1000
    summary = run_many(seeds, count, options.time, options.jobs, functools.partial(print, flush=True))
    print(summary.report())
    return 1 if summary.sorts else 0


if __name__ == "__main__":
    sys.exit(main())
