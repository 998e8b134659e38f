"""Ranks that compile alike: what each decides is told to the others before anything is done about it.

Every rank of a distributed program captures on its own, from its own arguments. If one takes a size for a
constant and another for a symbol, if one breaks or compiles again and another does not, they run different
graphs, and a collective in one of them waits for ever. With `config.rank_agreement`

- `check`: each compilation is compared with the other ranks'. Where they differ, or one of them fails or does
  not come, all of them raise an error that names the function, the ranks and the first difference;
- `agree`: what can be is settled. A size that is not the same on all ranks is a symbol on all of them, all
  break where one does, and all compile again when one has to: for that each call asks the others.

Ranks talk through the store of the process group, not by collectives: no rank can get stuck in one. A
*meeting* is a number that all ranks count up alike. Each says what it has to say and counts itself in;
whoever comes last looks at it all and writes the verdict, which the others wait for. One that fails, or waits
for too long, writes a verdict itself, so that all know at once.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch.distributed as dist

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.core.errors import RankFailed, RanksDisagree, UserError
from framelift.dispatch.capture import Captured, Ending
from framelift.distributed.collective_calls import shapes
from framelift.guards.guard import VARIES
from framelift.interpreter.machine import Position

if TYPE_CHECKING:
    from framelift.dispatch.contexts import Record

ROUNDS = 4
"""How often ranks capture again to come to the same result."""
SHORTEST, LONGEST = 0.0005, 0.02
"""Seconds between looks at the store."""

Told = dict[str, Any]
Outcome = Captured | Break | None
"""What became of a trace; None: the program raised."""
Again = Callable[[Ending | None], Outcome]


# ---- meetings


class Meetings:
    """What the ranks of one process group say to each other."""

    def __init__(self, group: Any) -> None:
        self.group = weakref.ref(group)
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        shared = dist.PrefixStore(f"framelift/{group.group_name}", dist.distributed_c10d._get_default_store())
        # a store may outlive its process group, with all that was said in that
        self.store = dist.PrefixStore(str(shared.add(f"groups of {self.rank}", 1)), shared)
        self.number = 0
        self.captures: collections.Counter[str] = collections.Counter()
        """How often each function was captured, by any rank for all."""
        self.last = "nothing yet"
        """What this rank said the last time, for the others to read."""

    def meet(self, told: Told) -> Told:
        """Says something, and gives the verdict on what all have said."""
        number, store = self.number, self.store
        self.number += 1
        self.last = f"{told['doing']} {told['frame']}"
        store.set(f"{number}/{self.rank}", json.dumps(told))
        if store.add(f"{number}/arrived", 1) == self.size:
            all_told = [json.loads(store.get(f"{number}/{rank}")) for rank in range(self.size)]
            self.write(number, judged(all_told))
            self.forget(number - 1)
        return self.verdict(number, told)

    def verdict(self, number: int, told: Told) -> Told:
        began, pause = time.monotonic(), SHORTEST
        while not self.store.check([f"{number}/verdict"]):
            if time.monotonic() - began > config.rank_agreement_timeout:
                self.write(number, {"failed": self.missing(number, told)})
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)
        found: Told = json.loads(self.store.get(f"{number}/verdict"))
        if "failed" in found:
            raise RankFailed(f"{self.last}: {found['failed']}")
        if "apart" in found:
            raise RanksDisagree(found["apart"])
        return found

    def write(self, number: int, verdict: Told) -> None:
        self.store.compare_set(f"{number}/verdict", "", json.dumps(verdict))  # the first one counts

    def missing(self, number: int, told: Told) -> str:
        """Who has not come, and what they did last."""
        late = [rank for rank in range(self.size) if not self.store.check([f"{number}/{rank}"])]
        lines = [f"rank {self.rank} waited {config.rank_agreement_timeout} s for {self.names(late)}"]
        for rank in late:
            before = f"{number - 1}/{rank}"
            last = json.loads(self.store.get(before)) if self.store.check([before]) else None
            did = f"{last['doing']} {last['frame']}" if last else "nothing yet"
            lines.append(f"the last that rank {rank} said: {did}")
        lines.append("It may not have to compile this, wait in a collective, or be gone.")
        return "\n  ".join(lines)

    def names(self, late: list[int]) -> str:
        return ("rank " if len(late) == 1 else "ranks ") + ", ".join(map(str, late))

    def fail(self, error: BaseException) -> None:
        """Lets all others know that this rank will not come."""
        why = f"rank {self.rank} failed with {type(error).__name__}: {error}"
        self.write(self.number, {"failed": why})
        self.number += 1

    def forget(self, number: int) -> None:
        """All are at the next meeting, so all have read the verdict of this one."""
        for key in ("arrived", "verdict", *range(self.size)):
            self.store.delete_key(f"{number}/{key}")


_meetings: Meetings | None = None


def current() -> Meetings | None:
    """Where this rank meets the others, if it is to."""
    return None if config.rank_agreement == "off" else of_group()


def for_captures() -> Meetings | None:
    """The same, if one rank is to capture for all."""
    return of_group() if config.capture_once else None


def of_group() -> Meetings | None:
    global _meetings
    if not dist.is_available() or not dist.is_initialized():
        return None
    name = config.rank_agreement_group
    group = named(name) if name else dist.group.WORLD
    if group is None or dist.get_rank(group) < 0 or dist.get_world_size(group) == 1:
        return None
    if _meetings is None or _meetings.group() is not group:
        _meetings = Meetings(group)
    return _meetings


def named(name: str) -> Any:
    try:
        return dist.distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]
    except RuntimeError:
        raise UserError(f"config.rank_agreement_group: there is no process group {name!r}") from None


def on_each_call() -> Meetings | None:
    """The same, if all calls are to be agreed on: only so it is known that another rank has to compile."""
    return current() if config.rank_agreement == "agree" else None


@contextlib.contextmanager
def told_if_it_fails(meetings: Meetings | None) -> Iterator[None]:
    """What is raised in here on one rank is raised on all."""
    try:
        yield
    except (RankFailed, RanksDisagree):
        raise  # which all have been told
    except BaseException as error:
        if meetings is not None:
            meetings.fail(error)
        raise


# ---- what is said


def all_hit(meetings: Meetings, record: Record, hit: bool) -> bool:
    """Whether every rank has an entry that fits: else all of them compile."""
    return bool(meetings.meet({"doing": "looking for an entry of", "frame": record.what, "hit": hit})["hit"])


def all_compiled(meetings: Meetings, record: Record) -> None:
    """Waits until the backends of all ranks are done."""
    meetings.meet({"doing": "having compiled", "frame": record.what})


def settled(meetings: Meetings, record: Record, outcome: Outcome, again: Again) -> Outcome:
    """What this rank does about a trace, which is what all others do about theirs."""
    for n in range(ROUNDS):
        verdict = meetings.meet(decision(record, outcome, n))
        sizes = [known(each) for rank, each in enumerate(verdict["sizes"]) if rank != meetings.rank]
        if config.rank_agreement == "agree":
            record.elsewhere += sizes
        if verdict["difference"] is None:
            return outcome
        if config.rank_agreement == "check":
            break
        if verdict["plain"] is not None:
            return Break(breaks.OTHER_RANK, verdict["plain"])
        outcome = again(ending(verdict["end"], outcome))
    what = f"the ranks decide differently about {record.what}"
    raise RanksDisagree(f"{what}\n  {verdict['difference']}\n{REMEDY}")


REMEDY = """What to do: Have all ranks run the same program on inputs of the same kind, mark what varies with
mark_dynamic, or let them find out by config.rank_agreement = "agree"."""


def ending(found: Any, outcome: Outcome) -> Ending | None:
    """Where to break because another rank does; it comes to its own breaks by itself."""
    if found is None or (isinstance(outcome, Captured) and list(outcome.ended_at) == found[0]):
        return None
    return Ending(Position(*found[0]), Break(breaks.OTHER_RANK, found[1]))


def decision(record: Record, outcome: Outcome, n: int) -> Told:
    """What a rank would do, as data."""
    told: Told = {"doing": "capturing", "frame": record.what, "entries": len(record.compiled), "round": n}
    told["rank"] = dist.get_rank()
    told |= {"outcome": "is captured", "end": None, "varying": [], "ops": [], "collectives": [], "sizes": {}}
    if outcome is None:
        return told | {"outcome": "raises as it is captured, and runs as plain Python"}
    if isinstance(outcome, Break):
        return told | {"outcome": f"runs as plain Python: {outcome.describe()}"}
    told["sizes"] = sizes = outcome.program.relied_on
    told["varying"] = varying(sizes)
    told["ops"] = [getattr(op, "__name__", str(op)) for op in outcome.ops]
    told["collectives"] = shapes(outcome.graph)
    if outcome.ended_by is not None:
        told["end"] = [list(outcome.ended_at), outcome.ended_by.describe()]
    return told


def varying(sizes: dict[str, Any]) -> list[str]:
    """The sizes and numbers that are symbols."""
    found = []
    for source, size in sizes.items():
        if size == VARIES:
            found.append(source)
        elif isinstance(size, tuple):
            found += [f"{source}.shape[{dim}]" for dim, one in enumerate(size) if one is None]
    return sorted(found)


def known(sizes: dict[str, Any]) -> dict[str, Any]:
    """What another rank relies on, as `Dynamism` takes it: JSON has no tuples."""
    return {source: tuple(size) if isinstance(size, list) else size for source, size in sizes.items()}


# ---- the verdict


def judged(told: list[Told]) -> Told:
    """What comes of it; `told` is what each rank has said."""
    for rank, other in enumerate(told):
        if (other["doing"], other["frame"]) != (told[0]["doing"], told[0]["frame"]):
            doing = [f"rank {n} is {told[n]['doing']} {told[n]['frame']}" for n in (0, rank)]
            return {"apart": f"the ranks do not run the same program: {', '.join(doing)}"}
    if "hit" in told[0]:
        return {"hit": all(each["hit"] for each in told)}
    if "outcome" not in told[0]:
        return {}
    plain = next((n for n, each in enumerate(told) if each["outcome"] != "is captured"), None)
    ends = [(each["end"][0], n) for n, each in enumerate(told) if each["end"] is not None]
    end = min(ends, default=None)
    return {
        "difference": difference(told),
        "sizes": [each["sizes"] for each in told],
        "plain": None if plain is None else f"on rank {plain} it {told[plain]['outcome']}",
        "end": None if end is None else [end[0], f"on rank {end[1]}: {told[end[1]]['end'][1]}"],
    }


def difference(told: list[Told]) -> str | None:
    """In what ranks differ first, in words."""
    for facet in FACETS:
        for rank, other in enumerate(told):
            if facet.of(other) != facet.of(told[0]):
                return facet.apart(told, rank)
    if (apart := collectives_apart(told)) is not None:
        return apart
    return sizes_apart(told) if told[0]["round"] == 0 and config.rank_agreement == "agree" else None


class Facet(NamedTuple):
    """Something that must be the same on all ranks, and how it is told."""

    name: str
    of: Callable[[Told], Any]
    words: Callable[[Told], str] | None = None

    def apart(self, told: list[Told], rank: int) -> str:
        mine, other = self.of(told[0]), self.of(told[rank])
        if self.words is not None:
            mine, other = self.words(told[0]), self.words(told[rank])
        elif isinstance(mine, list):  # the first that is not the same
            n = next(n for n, (x, y) in enumerate(itertools.zip_longest(mine, other)) if x != y)
            mine, other = ([*each, "nothing"][min(n, len(each))] for each in (mine, other))
            return f"{self.name} {n + 1}: {mine} on rank 0, {other} on rank {rank}"
        return f"{self.name}: {mine} on rank 0, {other} on rank {rank}"


FACETS = (
    Facet("entries that it has already", lambda told: told["entries"]),
    Facet("what becomes of it", lambda told: told["outcome"].partition("\n")[0]),
    Facet(
        "where it breaks",
        lambda told: told["end"] and told["end"][0],
        lambda told: where_and_why(told["end"]),
    ),
    Facet("size or number that varies, number", lambda told: told["varying"]),
    Facet("operation", lambda told: told["ops"]),
)


def where_and_why(end: Any) -> str:
    if end is None:
        return "nowhere"
    lines = end[1].splitlines()
    place = next((line.strip() for line in reversed(lines) if line.strip().startswith("File")), "")
    return f"{lines[0]} ({place})"


def collectives_apart(told: list[Told]) -> str | None:
    """Whether members of a group give a collective tensors that do not belong together."""
    by_rank = {each["rank"]: each for each in told}
    for each in told:
        for n, (what, members) in enumerate(each["collectives"]):
            first = by_rank.get(members[0], each)
            other = first["collectives"][n][0]
            if other != what:
                return f"collective {n + 1}: {other} on rank {members[0]}, {what} on rank {each['rank']}"
    return None


def sizes_apart(told: list[Told]) -> str | None:
    """Whether something is of one size here and of another there: then it varies."""
    for rank, other in enumerate(told):
        for source, size in other["sizes"].items():
            if told[0]["sizes"].get(source, size) != size:
                return f"{source}: {told[0]['sizes'][source]} on rank 0, {size} on rank {rank}"
    return None
