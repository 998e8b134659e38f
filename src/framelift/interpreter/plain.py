"""Runs a function under the interpreter with no tensors and no outside: plain Python, interpreted.

>>> interpret(sorted, [3, 1, 2], key=lambda n: -n)
[3, 2, 1]
"""

from __future__ import annotations

from typing import Any

from framelift.interpreter import Machine
from framelift.interpreter.world import PlainWorld


def interpret(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    return Machine(PlainWorld()).call(fn, *args, **kwargs)
