"""What pip calls Framelift, with which Pythons and versions of torch it works, and what is said to others;
pyproject.toml says the same to pip."""

from __future__ import annotations

import sys

DISTRIBUTION = "framelift-torch"
"""What pip calls it: `framelift`, the name that is imported, is another project on the package index."""

PYTHON = ((3, 11), (3, 13))
SUPPORTED = {"python": PYTHON, "torch": ((2, 11), (2, 13))}
"""From which version to which."""


def refusal(version: tuple[int, ...], implementation: str, has_gil: bool) -> str | None:
    """Why Framelift does not run on an interpreter, in a sentence; None if it does."""
    (least, most), found = PYTHON, version[:2]
    supported = f"CPython {spelled(least)} to {spelled(most)}"
    if implementation != "cpython":
        return f"Framelift needs {supported}: this is {implementation}, which has no frame-evaluation hook."
    if not has_gil:
        return (
            f"Framelift needs {supported} with the GIL: this is a free-threaded build, in which other "
            "threads may change what guards look at. "
            f"Use python{spelled(found)} instead of python{spelled(found)}t."
        )
    if found < least:
        return f"Framelift needs {supported}: this is {spelled(found)}. Use a newer Python."
    if found > most:
        return (
            f"Framelift needs {supported}: this is {spelled(found)}, whose instructions and frames it has "
            f"not been run with yet. Use python{spelled(most)}."
        )
    return None


def spelled(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def check_interpreter() -> None:
    """Raises ImportError on an interpreter that Framelift does not run on."""
    said = refusal(sys.version_info[:2], sys.implementation.name, "t" not in sys.abiflags)
    if said is not None:
        raise ImportError(said)
