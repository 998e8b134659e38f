"""What C does with decimals beside giving results: it notes signals (Inexact, say) in the thread's context.

A trace has the flags of its thread to itself, so that it can tell which signals the program gives; afterwards
they are as they were, and the region raises those flags each time.
"""

from __future__ import annotations

import decimal
import re

Signal = type[decimal.DecimalException]


def context_text() -> str:
    """The thread's context without the flags: what results depend on."""
    return re.sub(r"flags=\[.*?\]", "", repr(decimal.getcontext()))


def raise_flags(*signals: Signal) -> None:
    flags = decimal.getcontext().flags
    for signal in signals:
        flags[signal] = True


def raised_in(context: decimal.Context) -> tuple[Signal, ...]:
    return tuple(signal for signal, is_raised in context.flags.items() if is_raised)


class DecimalFlags:
    """Within it no flag is raised but by what happens there; `raised` are those, afterwards."""

    raised: tuple[Signal, ...] = ()

    def __enter__(self) -> None:
        self.context = decimal.getcontext()
        self.before = raised_in(self.context)
        self.context.clear_flags()

    def __exit__(self, *error: object) -> None:
        self.raised = raised_in(self.context)
        self.context.clear_flags()
        for signal in self.before:
            self.context.flags[signal] = True
