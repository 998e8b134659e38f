"""Differences from eager that are known, each with the reason why it stays."""

from __future__ import annotations

import re
from collections.abc import Callable

from program_runs import Finding, check_program

DECOMPOSED = "'backend': 'aot_eager_decomp_partition'"
WHOLE = "'backend': 'aot_eager'"


def misses_numpys_warning(source: str, finding: Finding) -> bool:
    difference = finding.difference or ""
    return difference.startswith("warnings differs") and "RuntimeWarning" in difference


def warns_as_it_is_compiled(source: str, finding: Finding) -> bool:
    difference = finding.difference or ""
    told = difference.startswith("warnings differs") and "backward hook" not in difference
    return told and "'backend': 'aot" in source


def warns_of_a_traced_backward_pass(source: str, finding: Finding) -> bool:
    """What a hook of a module in a graph warns of when gradients come by, it warns of when AOTAutograd traces
    them: once, and though the program may never ask for them."""
    difference = finding.difference or ""
    told = difference.startswith("warnings differs") and "Full backward hook is firing" in difference
    return told and "'backend': 'aot" in source


def is_of_operator(source: str, finding: Finding) -> bool:
    """`torch.cond` and `while_loop` are compared with Python's statements."""
    has_operator = re.search(r"\b(cond|while_loop)\(", source) is not None
    own = r": (offset \d+ instead|a view or not|is_leaf \w+ instead)"
    return has_operator and re.search(own, finding.difference or "") is not None


def has_lost_its_leaf(source: str, finding: Finding) -> bool:
    """What is differentiated up to a leaf that nobody has any more has a history that leads nowhere."""
    difference = finding.difference or ""
    return ": a view or not" in difference and "LostBackward" in difference


def draws_by_decomposition(source: str, finding: Finding) -> bool:
    """As with Inductor: the decomposition of dropout draws other numbers than the operator. Then the program
    does not differ when nothing is decomposed."""
    if DECOMPOSED not in source or "dropout(" not in source or finding.difference is None:
        return False
    return check_program(source.replace(DECOMPOSED, WHOLE)).difference is None


def is_rounded(source: str, rounding: float) -> bool:
    """Whether nothing differs if numbers may be rounded this much."""
    allowed = f"'rounding': {rounding}"
    if "'rounding': True" in source:
        source = source.replace("'rounding': True", allowed)
    else:
        source = source.replace("OPTIONS = {", f"OPTIONS = {{{allowed}, ", 1)
    return check_program(source).difference is None


def drifts(source: str, finding: Finding) -> bool:
    """Adam's updates are as large as their rate, by the sign of gradients that are nearly zero."""
    values = "values differ" in (finding.difference or "")
    return values and "opt.step()" in source and is_rounded(source, 0.05)


def computes_vectors(source: str, finding: Finding) -> bool:
    """torch's functions for singular and eigenvalues compute vectors too, by another routine, for any tensor
    of a compiler's."""
    values = "values differ" in (finding.difference or "")
    has_one = re.search(r"\b(svdvals|eigvals|eigvalsh|matrix_norm|matrix_rank)\(", source) is not None
    return values and has_one and "'backend': 'aot" in source and is_rounded(source, 1e-4)


def differentiates_twice(source: str, finding: Finding) -> bool:
    error = "torch.compile with aot_autograd does not currently support double backward"
    return error in (finding.difference or "") and is_same_as_captured(source)


def asks_for_addresses_again(source: str, finding: Finding) -> bool:
    """An object that is made anew for each call may lie where the last one did, or not."""
    difference = finding.difference or ""
    return "[id(t)]" in source and re.search(r": \d+ items instead of \d+", difference) is not None


def is_same_as_captured(source: str) -> bool:
    return check_program(re.sub(r"'backend': '\w+'", "'backend': 'eager'", source)).difference is None


KNOWN: dict[str, Callable[[str, Finding], bool]] = {
    "a graph does not give NumPy's warnings of a division by zero": misses_numpys_warning,
    "AOTAutograd calls torch's functions, which may warn, as it compiles": warns_as_it_is_compiled,
    "AOTAutograd traces backward passes, in which hooks of modules may warn": warns_of_a_traced_backward_pass,
    "operators give copies with a history of their own, or slices of what they keep": is_of_operator,
    "a result that is differentiated up to a leaf that is gone is no view": has_lost_its_leaf,
    "optimizers drift apart by what is rounded otherwise": drifts,
    "AOTAutograd has singular and eigenvalues computed by another routine": computes_vectors,
    "Inductor's decompositions draw other numbers": draws_by_decomposition,
    "addresses of what is gone may be those of what comes next, or not": asks_for_addresses_again,
    "AOTAutograd can't be differentiated twice, and says so": differentiates_twice,
}
"""Why a program may differ -> whether this is such a program: by its source and by what differs."""


def known_difference(source: str, finding: Finding) -> str | None:
    return next((reason for reason, matches in KNOWN.items() if matches(source, finding)), None)
