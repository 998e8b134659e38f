"""Which Pythons and which versions of torch Framelift works with; pyproject.toml says the same to pip."""

from __future__ import annotations

import re
import sys

SUPPORTED = {"python": ((3, 11), (3, 12)), "torch": ((2, 11), (2, 13))}
"""From which version to which."""


def span(what: str) -> str:
    least, most = SUPPORTED[what]
    return f"{'.'.join(map(str, least))} to {'.'.join(map(str, most))}"


def is_supported(what: str, version: str) -> bool:
    least, most = SUPPORTED[what]
    return least <= tuple(map(int, re.findall(r"\d+", version)[:2])) <= most


def refuse_other_pythons() -> None:
    """The frame hook knows the frames of some versions only: in another one it would read other memory."""
    found = ".".join(map(str, sys.version_info[:2]))
    if sys.implementation.name != "cpython" or not is_supported("python", found):
        name = f"{sys.implementation.name} {found}"
        raise ImportError(f"framelift supports CPython {span('python')}, and this is {name}")
    if "t" in sys.abiflags:
        raise ImportError("framelift does not support free-threaded builds of Python: use the ordinary build")
