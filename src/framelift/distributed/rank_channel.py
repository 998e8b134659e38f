"""How the ranks of a process group talk while they compile: messages through its store, and verdicts on them.

Ranks talk through the store of the process group, not by collectives: no rank can get stuck in one. They
count their exchanges alike. In each of them every rank writes a message and counts itself in; whoever comes
last looks at all messages and writes the verdict, for which the others wait. A rank that fails, or waits
for too long, writes a verdict itself, so that all know at once.
"""

from __future__ import annotations

import collections
import json
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from framelift.core.config import config
from framelift.core.errors import RankFailed, RanksDisagree, UserError

SHORTEST, LONGEST = 0.0005, 0.02
"""Seconds between looks at the store."""

Message = dict[str, Any]
"""What a rank says: what it is `doing` with which `frame`, and more. JSON, as verdicts are."""
Judge = Callable[[list[Message]], Message]
"""Makes the verdict of the messages of all ranks."""


class RankChannel:
    """What this rank says to the others of one process group, and hears from them."""

    def __init__(self, group: Any) -> None:
        self.group = weakref.ref(group)
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        shared = dist.PrefixStore(f"framelift/{group.group_name}", dist.distributed_c10d._get_default_store())
        # a store may outlive its process group, with all that was said in that
        self.store = dist.PrefixStore(str(shared.add(f"groups of {self.rank}", 1)), shared)
        self.number = 0
        """Of the next exchange."""
        self.captures: collections.Counter[str] = collections.Counter()
        """How often each function was captured, by any rank for all."""
        self.last = "nothing yet"
        """What this rank said the last time, for the others to read."""

    def exchange(self, message: Message, judge: Judge) -> Message:
        """Writes a message, and gives the verdict on those of all ranks."""
        number, store = self.number, self.store
        self.number += 1
        self.last = described(message)
        store.set(f"{number}/{self.rank}", json.dumps(message))
        if store.add(f"{number}/arrived", 1) == self.size:
            messages = [json.loads(store.get(f"{number}/{rank}")) for rank in range(self.size)]
            self.write_verdict(number, judge(messages))
            self.forget(number - 1)
        return self.wait_for_verdict(number)

    def wait_for_verdict(self, number: int) -> Message:
        began, pause = time.monotonic(), SHORTEST
        while not self.store.check([f"{number}/verdict"]):
            if time.monotonic() - began > config.rank_agreement_timeout:
                self.write_verdict(number, {"failed": self.describe_missing(number)})
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)
        verdict: Message = json.loads(self.store.get(f"{number}/verdict"))
        if "failed" in verdict:
            raise RankFailed(f"{self.last}: {verdict['failed']}")
        if "apart" in verdict:
            raise RanksDisagree(verdict["apart"])
        return verdict

    def write_verdict(self, number: int, verdict: Message) -> None:
        self.store.compare_set(f"{number}/verdict", "", json.dumps(verdict))  # the first one counts

    def describe_missing(self, number: int) -> str:
        """Which ranks have written nothing, and what they did last."""
        late = [rank for rank in range(self.size) if not self.store.check([f"{number}/{rank}"])]
        names = ("rank " if len(late) == 1 else "ranks ") + ", ".join(map(str, late))
        lines = [f"rank {self.rank} waited {config.rank_agreement_timeout} s for {names}"]
        for rank in late:
            before, did = f"{number - 1}/{rank}", "nothing yet"
            if self.store.check([before]):
                did = described(json.loads(self.store.get(before)))
            lines.append(f"the last that rank {rank} said: {did}")
        lines.append("It may not have to compile this, wait in a collective, or be gone.")
        return "\n  ".join(lines)

    def announce_failure(self, error: BaseException) -> None:
        """Lets all others know that this rank will not come."""
        why = f"rank {self.rank} failed with {type(error).__name__}: {error}"
        self.write_verdict(self.number, {"failed": why})
        self.number += 1

    def forget(self, number: int) -> None:
        """All are at the next exchange, so all have read the verdict of this one."""
        for key in ("arrived", "verdict", *range(self.size)):
            self.store.delete_key(f"{number}/{key}")


def described(message: Message) -> str:
    return f"{message['doing']} {message['frame']}"


_channel: RankChannel | None = None


def agreement_channel() -> RankChannel | None:
    """Where this rank agrees with the others on what it compiles, if it is to."""
    return None if config.rank_agreement == "off" else group_channel()


def group_channel() -> RankChannel | None:
    """The channel of the group that agrees; None where there is but one rank."""
    global _channel
    if not dist.is_available() or not dist.is_initialized():
        return None
    name = config.rank_agreement_group
    group = find_group(name) if name else dist.group.WORLD
    if group is None or dist.get_rank(group) < 0 or dist.get_world_size(group) == 1:
        return None
    if _channel is None or _channel.group() is not group:
        _channel = RankChannel(group)
    return _channel


def find_group(name: str) -> Any:
    try:
        return dist.distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]
    except RuntimeError:
        raise UserError(f"config.rank_agreement_group: there is no process group {name!r}") from None
