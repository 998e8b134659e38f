"""What happened, counted by group, as `framelift.counters` shows it."""

from __future__ import annotations

import collections

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(
    collections.Counter
)
"""Group -> name -> how often.

- `frames`: frames that were to be captured, `total`, and of these `ok`
- `stats`: `unique_graphs`, and `calls_captured` in them
- `graph_break`: why captures ended, each place in a program once
- `unimplemented`: the same, each time
- `recompiles`: functions that were compiled again, and the guard that had failed
- `inline_call`: calls of Python functions that are part of the caller's graph, `inlined`
- `restarts`: `traces` that had to be repeated
- `backend_failures`: graphs that a backend could not compile, by the backend's name
"""
