"""What a trace records while it follows calls that may be repeated on other tensors (`trace/replays.py`).

The tape has each torch call that made nodes, and each tensor that became an input, in order. `repeat` does
with other tensors what one of these calls did: from the op memory, where that knows the call, and by making
it once more otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift.graph import op_memory
from framelift.graph.origins import ORIGIN, Origin

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder


class TornTape(Exception):
    """A call did something else when it was repeated: the trace has to begin again, without replays."""


class Performed:
    """A torch call that made nodes."""

    __slots__ = ("args", "found", "func", "kwargs", "metas", "origins", "out", "tensors")

    def __init__(
        self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, found: Any, nodes: list[torch.fx.Node]
    ) -> None:
        self.func, self.args, self.kwargs, self.out = func, args, kwargs, out
        self.found: op_memory.Remembered | None = found and found[0]
        """What the op memory knows of it."""
        self.tensors: list[torch.Tensor] = found[1] if found else []
        self.origins: list[Origin | None] = [node.meta.get(ORIGIN) for node in nodes]
        """Where its nodes come from: that of the call, and those that take its results apart."""
        self.metas = None if found else metas_of((out, args, kwargs))
        """Of a call that the memory does not know: what its results and arguments were like afterwards."""


class OpenedInput:
    """A tensor from outside that became an input."""

    __slots__ = ("fake", "origin", "source")

    def __init__(self, source: Any, fake: Any, node: torch.fx.Node) -> None:
        self.source, self.fake = source, fake
        self.origin: Origin | None = node.meta.get(ORIGIN)


class Tape:
    """Runs while any call is being followed (`followed` counts them)."""

    def __init__(self) -> None:
        self.followed = 0
        self.entries: list[Performed | OpenedInput] = []
        self.spoilt = 0
        """How often something happened that no replay could repeat."""
        self.why: Any = ""
        """What that was, the last time."""
        self.watched: dict[Any, int] = {}
        """Sources of what holds the modules whose calls are followed: nothing may be read there."""

    def spoil(self, why: Any) -> None:
        self.spoilt += 1
        self.why = why


Substitutes = dict[int, Any]
"""id of a tensor of the first call -> what takes its place. Others stay what they are."""


def substituted(value: Any, instead: Substitutes) -> Any:
    """Arguments of a torch call with other tensors."""
    cls = type(value)
    if cls is FakeTensor:
        return instead.get(id(value), value)
    if cls is tuple or cls is list:
        return cls([substituted(item, instead) for item in value])
    if cls is dict:
        return {name: substituted(item, instead) for name, item in value.items()}
    if cls is slice:
        return slice(*[substituted(each, instead) for each in (value.start, value.stop, value.step)])
    return value


class Repetition:
    """One repetition of a stretch of tape on other tensors."""

    def __init__(self, recorder: Recorder, instead: Substitutes) -> None:
        self.recorder = recorder
        self.instead = instead

    def repeat(self, done: Performed) -> None:
        """Makes a call once more."""
        found, recorder, instead = done.found, self.recorder, self.instead
        func, out = done.func, None
        args, kwargs = substituted(done.args, instead), substituted(done.kwargs, instead)
        graph = recorder.builder.body.graph
        before = graph._len
        if found is None:
            out = recorder.perform(func, args, kwargs)
            if metas_of((out, args, kwargs)) != done.metas:
                raise TornTape(func)
        else:
            tensors = [instead.get(id(tensor), tensor) for tensor in done.tensors]
            out = recorder.produce(func, args, kwargs, found, tensors)
            tape = recorder.builder.tape
            if tape.followed:
                made = latest_nodes(graph, graph._len - before)
                tape.entries.append(Performed(func, args, kwargs, out, (found, tensors), made))
        if graph._len - before != len(done.origins):
            raise TornTape(func)
        for fake, other in zip(results_of(done.out), results_of(out), strict=True):
            instead[id(fake)] = other


def results_of(out: Any) -> list[Any]:
    """The tensors that a call gives, in order."""
    if type(out) is FakeTensor:
        return [out]
    if isinstance(out, (tuple, list)):
        return [fake for item in out for fake in results_of(item)]
    if isinstance(out, dict):
        return [fake for item in out.values() for fake in results_of(item)]
    return []


def metas_of(out: Any) -> list[op_memory.Meta | None]:
    return [op_memory.read_meta(fake) for fake in results_of(out)]


def latest_nodes(graph: torch.fx.Graph, count: int) -> list[torch.fx.Node]:
    """The last nodes of a graph, in order."""
    found, node = [], graph._root
    for _ in range(count):
        node = node._prev
        found.append(node)
    return found[::-1]
