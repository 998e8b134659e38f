"""Whether a break is an error: what `framelift.error_on_graph_break` has said last.

A plain object, so that a program that is traced changes it as it changes anything else from outside: the
change is known to the trace, and made for real when the captured code has run.
"""

from __future__ import annotations


class OnBreak:
    def __init__(self) -> None:
        self.error = False


STATE = OnBreak()
