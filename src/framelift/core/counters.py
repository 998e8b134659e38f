"""What happened, counted by group, as `framelift.counters` shows it."""

from __future__ import annotations

import collections

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(
    collections.Counter
)
"""Groups: `frames`, `stats`, `graph_break`, `unimplemented`, `recompiles`, `inline_call`."""
