"""Lists what takes part in compilations besides `dispatch`. Loading `framelift.compile` puts it in force."""

from __future__ import annotations

from framelift.api.callbacks import Callbacks
from framelift.cache.disk_cache import DiskCache
from framelift.core.records import set_listener
from framelift.debugging.compile_profiles import CompileProfiles
from framelift.debugging.progress import show_on_terminal
from framelift.debugging.replay_records import ReplayRecords
from framelift.debugging.reporting import Reports
from framelift.debugging.verifying import verify_graph
from framelift.dispatch.extensions import extensions
from framelift.distributed.agreement import DistributedRanks
from framelift.distributed.collective_calls import name_collectives
from framelift.distributed.data_parallel import cut_along_buckets

extensions.ranks = DistributedRanks()
extensions.store = DiskCache()
extensions.observers = [Callbacks(), CompileProfiles(), Reports(), ReplayRecords()]
extensions.graph_compiler_wrappers = [cut_along_buckets, name_collectives, verify_graph]
set_listener(show_on_terminal)
