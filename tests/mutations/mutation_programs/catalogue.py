"""How a program of the catalogue is written down."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Program:
    """The source defines `f`, the function to be compiled, and `args`, what it is called with (a tensor,
    unless it says otherwise). `read` and `unread` are statements, run in the same namespace, that change
    something which the call has read, or has not.

    They may use `stack.enter_context(...)` and `patch(owner, name, value)`, `put(mapping, key, value)` and
    `switch(setter, value, back)` for what is not the program's own: all that is undone at the end.
    """

    name: str
    source: str
    read: tuple[str, ...]
    unread: tuple[str, ...] = ()

    def next_change(self, change: str) -> str:
        """Another change of something read, to be made after this one."""
        if change not in self.read:
            return self.read[0]
        return self.read[(self.read.index(change) + 1) % len(self.read)]


def program(name: str, source: str, read: list[str], unread: list[str] | None = None) -> Program:
    return Program(
        name,
        "import torch\n" + textwrap.dedent(source),
        tuple(map(textwrap.dedent, read)),
        tuple(map(textwrap.dedent, unread or [])),
    )
