"""Differences from eager that are known, each with the reason why it stays."""

from __future__ import annotations

import re
from collections.abc import Callable

from program_runs import Finding


def misses_numpys_warning(source: str, finding: Finding) -> bool:
    difference = finding.difference or ""
    return difference.startswith("warnings differs") and "RuntimeWarning" in difference


def is_slice_of_while_loop(source: str, finding: Finding) -> bool:
    through_aot = "while_loop(" in source and "'backend': 'aot" in source
    return through_aot and re.search(r": offset \d+ instead of 0", finding.difference or "") is not None


KNOWN: dict[str, Callable[[str, Finding], bool]] = {
    "a graph does not give NumPy's warnings of a division by zero": misses_numpys_warning,
    "AOTAutograd keeps all rounds of a while_loop, and gives a slice of them": is_slice_of_while_loop,
}
"""Why a program may differ -> whether this is such a program: by its source and by what differs."""


def known_difference(source: str, finding: Finding) -> str | None:
    return next((reason for reason, matches in KNOWN.items() if matches(source, finding)), None)
