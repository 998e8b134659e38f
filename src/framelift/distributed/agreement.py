"""Ranks that compile alike: what each decides is told to the others before anything is done about it.

Every rank of a distributed program captures on its own, from its own arguments. If one takes a size for a
constant and another for a symbol, if one breaks or compiles again and another does not, they run different
graphs, and a collective in one of them waits for ever. With `config.rank_agreement`

- `check`: each compilation is compared with the other ranks'. Where they differ, or one of them fails or does
  not come, all of them raise an error that names the function, the ranks and the first difference;
- `agree`: what can be is settled. A size that is not the same on all ranks is a symbol on all of them, all
  break where one does, and all compile again when one has to: for that each call asks the others.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch.distributed as dist

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.core.errors import RankFailed, RanksDisagree
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import CodeState
from framelift.dispatch.extensions import Outcome, Ranks, RunningCompilation
from framelift.dispatch.tracing import Ending
from framelift.distributed.capture_once import capture_for_all
from framelift.distributed.collective_calls import describe_collectives
from framelift.distributed.rank_channel import (
    Message,
    RankChannel,
    agreement_channel,
    described,
    group_channel,
)
from framelift.guards.guard import VARIES
from framelift.interpreter.machine import Position

ROUNDS = 4
"""How often ranks capture again to come to the same result."""


class DistributedRanks(Ranks):
    """Ranks that agree on what they compile, and of which one may capture for all. What they do is up to
    `framelift.config`; without a process group each is alone."""

    def meet_on_each_call(self) -> bool:
        """Only so it is known that another rank has to compile."""
        return config.rank_agreement == "agree" and agreement_channel() is not None

    def all_have_entry(self, state: CodeState, found: bool) -> bool:
        """Whether every rank has an entry that fits: else all of them compile."""
        channel = agreement_channel() if config.rank_agreement == "agree" else None
        message = {"doing": "looking for an entry of", "frame": state.what, "hit": found}
        return found if channel is None else bool(channel.exchange(message, judge)["hit"])

    @contextlib.contextmanager
    def announce_failures(self) -> Iterator[None]:
        channel = agreement_channel()
        try:
            yield
        except (RankFailed, RanksDisagree):
            raise  # which all ranks know of
        except BaseException as error:
            if channel is not None:
                channel.announce_failure(error)
            raise

    def capture(self, compilation: RunningCompilation) -> Outcome:
        outcome, channel = self.capture_alone(compilation), agreement_channel()
        if channel is None:
            return outcome
        return agree_on_outcome(channel, compilation.state, outcome, compilation.trace)

    def capture_alone(self, compilation: RunningCompilation) -> Outcome:
        """Without looking at what comes of it on the others. One rank captures for all at most once: when a
        function is compiled again, that may be for what only one rank has met."""
        state, channel = compilation.state, group_channel() if config.capture_once else None
        if channel is None or state.was_shared or compilation.context.guard_filter_fn is not None:
            return compilation.trace()
        state.was_shared = True
        return capture_for_all(channel, compilation)

    def wait_for_backends(self, state: CodeState) -> None:
        channel = agreement_channel()
        if channel is not None:
            channel.exchange({"doing": "having compiled", "frame": state.what}, judge)


# ---- what is said


def agree_on_outcome(
    channel: RankChannel, state: CodeState, outcome: Outcome, trace_again: Callable[[Ending | None], Outcome]
) -> Outcome:
    """What this rank does about a trace, which is what all others do about theirs."""
    for n in range(ROUNDS):
        verdict = channel.exchange(describe_outcome(state, outcome, n), judge)
        sizes = [as_relied_on(each) for rank, each in enumerate(verdict["sizes"]) if rank != channel.rank]
        if config.rank_agreement == "agree":
            state.sizes_on_other_ranks += sizes
        if verdict["difference"] is None:
            return outcome
        if config.rank_agreement == "check":
            break
        if verdict["plain"] is not None:
            return Break(breaks.OTHER_RANK, verdict["plain"])
        outcome = trace_again(other_ending(verdict["end"], outcome))
    what = f"the ranks decide differently about {state.what}"
    raise RanksDisagree(f"{what}\n  {verdict['difference']}\n{REMEDY}")


REMEDY = """What to do: Have all ranks run the same program on inputs of the same kind, mark what varies with
mark_dynamic, or let them find out by config.rank_agreement = "agree"."""


def other_ending(found: Any, outcome: Outcome) -> Ending | None:
    """Where to break because another rank does; it comes to its own breaks by itself."""
    if found is None or (isinstance(outcome, Capture) and list(outcome.ended_at) == found[0]):
        return None
    return Ending(Position(*found[0]), Break(breaks.OTHER_RANK, found[1]))


def describe_outcome(state: CodeState, outcome: Outcome, n: int) -> Message:
    """What a rank would do, as data."""
    message: Message = {"doing": "capturing", "frame": state.what, "entries": len(state.entries), "round": n}
    message |= {"rank": dist.get_rank(), "outcome": "is captured", "end": None, "sizes": {}}
    message |= {"varying": [], "ops": [], "collectives": []}
    if outcome is None:
        return message | {"outcome": "raises as it is captured, and runs as plain Python"}
    if isinstance(outcome, Break):
        return message | {"outcome": f"runs as plain Python: {outcome.describe()}"}
    message["sizes"] = sizes = outcome.program.relied_on
    message["varying"] = varying(sizes)
    message["ops"] = [getattr(op, "__name__", str(op)) for op in outcome.ops]
    message["collectives"] = describe_collectives(outcome.graph)
    if outcome.ended_by is not None:
        message["end"] = [list(outcome.ended_at), outcome.ended_by.describe()]
    return message


def varying(sizes: dict[str, Any]) -> list[str]:
    """The sizes and numbers that are symbols."""
    found = []
    for source, size in sizes.items():
        if size == VARIES:
            found.append(source)
        elif isinstance(size, tuple):
            found += [f"{source}.shape[{dim}]" for dim, one in enumerate(size) if one is None]
    return sorted(found)


def as_relied_on(sizes: dict[str, Any]) -> dict[str, Any]:
    """What another rank relies on, as `Dynamism` takes it: JSON has no tuples."""
    return {source: tuple(size) if isinstance(size, list) else size for source, size in sizes.items()}


# ---- the verdict


def judge(messages: list[Message]) -> Message:
    """What comes of what each rank has said."""
    for rank, other in enumerate(messages):
        if (other["doing"], other["frame"]) != (messages[0]["doing"], messages[0]["frame"]):
            doing = [f"rank {n} is {described(messages[n])}" for n in (0, rank)]
            return {"apart": f"the ranks do not run the same program: {', '.join(doing)}"}
    if "hit" in messages[0]:
        return {"hit": all(each["hit"] for each in messages)}
    if "outcome" not in messages[0]:
        return {}
    plain = next((n for n, each in enumerate(messages) if each["outcome"] != "is captured"), None)
    ends = [(each["end"][0], n) for n, each in enumerate(messages) if each["end"] is not None]
    end = min(ends, default=None)
    return {
        "difference": first_difference(messages),
        "sizes": [each["sizes"] for each in messages],
        "plain": None if plain is None else f"on rank {plain} it {messages[plain]['outcome']}",
        "end": None if end is None else [end[0], f"on rank {end[1]}: {messages[end[1]]['end'][1]}"],
    }


def first_difference(messages: list[Message]) -> str | None:
    """In what ranks differ first, in words."""
    for facet in FACETS:
        for rank, other in enumerate(messages):
            if facet.of(other) != facet.of(messages[0]):
                return facet.apart(messages, rank)
    if (apart := collectives_apart(messages)) is not None:
        return apart
    return sizes_apart(messages) if messages[0]["round"] == 0 and config.rank_agreement == "agree" else None


class Facet(NamedTuple):
    """Something that must be the same on all ranks, and how it is told."""

    name: str
    of: Callable[[Message], Any]
    words: Callable[[Message], str] | None = None

    def apart(self, messages: list[Message], rank: int) -> str:
        mine, other = self.of(messages[0]), self.of(messages[rank])
        if self.words is not None:
            mine, other = self.words(messages[0]), self.words(messages[rank])
        elif isinstance(mine, list):  # the first that is not the same
            n = next(n for n, (x, y) in enumerate(itertools.zip_longest(mine, other)) if x != y)
            mine, other = ([*each, "nothing"][min(n, len(each))] for each in (mine, other))
            return f"{self.name} {n + 1}: {mine} on rank 0, {other} on rank {rank}"
        return f"{self.name}: {mine} on rank 0, {other} on rank {rank}"


FACETS = (
    Facet("entries that it has already", lambda it: it["entries"]),
    Facet("what becomes of it", lambda it: it["outcome"].partition("\n")[0]),
    Facet("where it breaks", lambda it: it["end"] and it["end"][0], lambda it: where_and_why(it["end"])),
    Facet("size or number that varies, number", lambda it: it["varying"]),
    Facet("operation", lambda it: it["ops"]),
)


def where_and_why(end: Any) -> str:
    if end is None:
        return "nowhere"
    lines = end[1].splitlines()
    place = next((line.strip() for line in reversed(lines) if line.strip().startswith("File")), "")
    return f"{lines[0]} ({place})"


def collectives_apart(messages: list[Message]) -> str | None:
    """Whether members of a group give a collective tensors that do not belong together."""
    by_rank = {each["rank"]: each for each in messages}
    for each in messages:
        for n, (what, members) in enumerate(each["collectives"]):
            first = by_rank.get(members[0], each)
            other = first["collectives"][n][0]
            if other != what:
                return f"collective {n + 1}: {other} on rank {members[0]}, {what} on rank {each['rank']}"
    return None


def sizes_apart(messages: list[Message]) -> str | None:
    """Whether something is of one size here and of another there: then it varies."""
    for rank, other in enumerate(messages):
        for source, size in other["sizes"].items():
            if messages[0]["sizes"].get(source, size) != size:
                return f"{source}: {messages[0]['sizes'][source]} on rank 0, {size} on rank {rank}"
    return None
