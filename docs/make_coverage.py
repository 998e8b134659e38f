"""Runs the sweeps over torch's own databases of operators and modules, and writes what became of them:
`python docs/make_coverage.py`."""

from __future__ import annotations

import collections
import platform
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from make_reasons import put

from torch_databases import sweep_modules, sweep_operators
from torch_databases.sweep_operators import BRANCH, CAPTURED, DATA, NO_FAKE, SHAPE, Share

NEEDS = {
    DATA: "Python asks for a number that only the data decides",
    BRANCH: "Python branches on what only the data decides",
    SHAPE: "the data decides how large the result is",
    NO_FAKE: "torch has no fake kernel for the operator",
}
"""Reasons that lie in the operator, which no capture without data gets around."""


def section(found: dict[str, list[str]], what: str) -> str:
    share = Share.of(found)
    lines = [
        f"{share.captured} of {share.total} {what} are captured whole and equal to eager"
        f" ({share.captured / share.total:.1%}); of the {share.possible} that can be run without data"
        f" {share.captured / share.possible:.1%}.",
        "",
        "| reason | how many | which |",
        "|---|---|---|",
    ]
    for reason, where in sorted(found.items()):
        if reason != CAPTURED:
            names = ", ".join(f"`{name}`" for name in sorted({name.split()[0] for name in where}))
            why = f"{reason}: {NEEDS[reason]}" if reason in NEEDS else reason
            lines.append(f"| {why} | {len(where)} | {names} |")
    return "\n".join(lines)


def by_setting(found: dict[str, list[str]], words: int) -> str:
    """How many under each setting, which is what a case's name ends with, after so many words."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for result, where in found.items():
        for name in where:
            setting = " ".join(name.split()[words:])
            counts[setting]["run"] += 1
            counts[setting]["captured"] += result == CAPTURED
    rows = [f"| {setting} | {c['captured']} | {c['run']} |" for setting, c in counts.items()]
    return "\n".join(["| setting | captured | run |", "|---|---|---|", *rows])


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    operators, modules = sweep_operators.sweep([]), sweep_modules.sweep([])
    put("coverage.md", "versions", f"torch {torch.__version__}, Python {platform.python_version()}.")
    for name, found, what, words in (
        ("operators", operators, "calls of operators", -1),
        ("modules", modules, "cases of modules", 3),
    ):
        put("coverage.md", name, f"{section(found, what)}\n\n{by_setting(found, words)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
