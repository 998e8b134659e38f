"""Captures as bytes: saved where they are made, loaded in another process.

The fields of a `Capture` say how each is kept. Those that are saved go through one strict pickler
(`capture_pickles`). A `Snapshot` is what that is given: a capture lets go of the program's objects once it is
in use, and what was noted of it before can be saved at any time.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import dataclasses
import dis
import io
import itertools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from framelift import _guards
from framelift.core.weakly import Gone, there, weakly
from framelift.dispatch import object_names as names
from framelift.dispatch.capture import KEPT, Capture
from framelift.dispatch.capture_pickles import CapturePickler, CaptureUnpickler, Noted
from framelift.dispatch.object_names import NotPortableError
from framelift.dispatch.object_places import value_at
from framelift.graph.builder import as_input
from framelift.guards.guard import one_by_one
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source


@dataclass(frozen=True)
class Header:
    """What has to be equal where a capture is loaded."""

    versions: list[str]
    """Of Python, of torch, and of the frame's code."""
    state: dict[str, Any]
    hashes: int | None
    """The hash of a text, if the program may depend on such: each process has its own."""


class Snapshot:
    """What is saved of a capture, noted in a fraction of the time that saving takes.

    It keeps nothing of the program's alive, so it can be saved only while the program does."""

    def __init__(
        self,
        capture: Capture,
        fn: types.FunctionType,
        arguments: list[Any],
        compiled: bool = False,
    ) -> None:
        """`fn` is the function of the frame. With `compiled` it is saved for a process that has what a
        backend made of the graph, so the graph itself, and its symbols, need not be there."""
        self.fn, self.code, self.globals = weakly(fn), fn.__code__, fn.__globals__
        self.refusal = refusal(capture, OF_GRAPH if compiled else frozenset())
        self.state = capture.state.values()
        self.fields = {field.name: value for field, value in fields_of(capture, "saved")}
        if compiled:
            self.fields |= {"graph": None, "ops": [], "ended_by": capture.ended_by}
            self.fields["region"] = dataclasses.replace(capture.region, outputs=[])
        self.guards = [(guard, weakly(guard.expected)) for guard in capture.guards]
        self.registered = capture.registered
        lookups = one_by_one(capture.class_guards)
        self.fields["class_guards"] = lookups
        self.class_guards = [(it, weakly(it.cls), weakly(it.found)) for it in lookups]
        kept = set(map(id, capture.class_guards))
        for it in lookups:
            if id(it) not in kept:  # it must keep nothing alive
                it.cls = it.found = None
        sources = list(capture.program.index)
        sources += [source.base for source in sources if source.access.is_root and source.base is not None]
        self.keys = {id(source): weak_key(source) for source in sources}
        consts = (source.key for source in sources if source.access is Access.CONST)
        self.constants = [(name, weakly(value)) for name, value in consts]
        self.examples: dict[int, torch.Tensor] = {}
        """id of the description of a tensor with sizes that vary -> what is to be known of one such."""
        for guard in capture.guards:
            if guard.check is Check.TENSOR and is_free(guard.expected):
                found = value_at(guard.source, fn, arguments)
                if found.is_nested:  # whose size has a name in this process
                    self.refusal = self.refusal or "it is for nested tensors"
                    continue
                self.examples[id(guard.expected)] = torch.empty_strided(
                    found.size(), found.stride(), dtype=found.dtype, device="meta"
                )

    def save(self) -> bytes:
        """Raises NotPortableError if it makes no sense in another process."""
        return self.save_with(None)[0]

    def save_with(self, more: Any) -> tuple[bytes, set[str]]:
        """With something else that goes through the same pickler; and the names of the modules that what was
        saved is about."""
        if self.refusal is not None:
            raise NotPortableError(self.refusal)
        if self.state["torch function modes"]:
            raise NotPortableError("it is in a torch function mode")
        if not set(self.fields["input_sources"]) <= set(self.fields["region"].inputs):
            raise NotPortableError("inputs of the graph are made by the region")
        noted = self.noted()
        is_hashed = self.fields["is_hashed"] or any(map(asks_for_hashes, self.codes()))
        hashes = hash("one") if is_hashed else None
        out = io.BytesIO()
        pickler = CapturePickler(out, noted)
        pickler.dump((versions(noted.fn), self.state, hashes))
        pickler.dump([tuple(map(still_there, asked)) for asked in self.registered])
        pickler.dump(self.fields)
        pickler.dump(more)
        return out.getvalue(), pickler.modules

    def codes(self) -> list[types.CodeType]:
        """The frame's, and that of the functions that it relies on."""
        found = (still_there(code) for guard, code in self.guards if guard.check is Check.CODE)
        return [self.code, *found]

    def noted(self) -> Noted:
        """With the program's objects. Raises NotPortableError if one of them is gone."""
        fn = there(self.fn)
        if fn is Gone:  # it was made for the frame, so nothing can be the same
            fn = types.FunctionType(self.code, self.globals, closure=tuple(map(empty, self.code.co_freevars)))
        return Noted(
            fn,
            self.code,
            [(guard, still_there(expected)) for guard, expected in self.guards],
            [(guard, still_there(cls), still_there(found)) for guard, cls, found in self.class_guards],
            {place: strong_key(key) for place, key in self.keys.items()},
            [(name, still_there(value)) for name, value in self.constants],
            self.examples,
        )


def is_free(spec: _guards.TensorSpec) -> bool:
    """Whether it describes tensors of which sizes or strides vary."""
    return None in spec.sizes or None in spec.own_strides.values()


def empty(_variable: str) -> types.CellType:
    return types.CellType()


def weak_key(source: Source) -> Any:
    key = source.key
    return (key[0], weakly(key[1])) if source.access is Access.CONST else weakly(key)


def strong_key(kept: Any) -> Any:
    return tuple(map(still_there, kept)) if type(kept) is tuple else still_there(kept)


def still_there(kept: Any) -> Any:
    found = there(kept)
    if found is Gone:
        raise NotPortableError("the program has let go of what it is about")
    return found


OF_GRAPH = frozenset({"symbols", "symbol_sources", "ended_by"})
"""Fields that matter to who compiles a graph, or are known otherwise of one that is compiled."""


def refusal(capture: Capture, allowed: frozenset[str]) -> str | None:
    for field, value in fields_of(capture, "refused"):
        if value is not None and value != [] and field.name not in allowed:
            reason: str = field.metadata["reason"].format(value)
            return reason
    return None


def save_capture(capture: Capture, fn: types.FunctionType, arguments: list[Any]) -> bytes:
    """`fn` is the function of the frame. Raises NotPortableError if it makes no sense in another process."""
    return Snapshot(capture, fn, arguments).save()


def load_capture(data: bytes, fn: types.FunctionType, arguments: list[Any]) -> Capture:
    """The capture as one of this process. Raises NotPortableError if it does not hold for these arguments."""
    return load_with_more(data, fn, arguments)[0]


def load_with_more(data: bytes, fn: types.FunctionType, arguments: list[Any]) -> tuple[Capture, Any]:
    """The same, and what was saved with it."""
    state = _guards.GlobalState()
    unpickler = CaptureUnpickler(data, fn, arguments)
    header = Header(*unpickler.load())
    if header.versions != versions(fn):
        raise NotPortableError("it is of other code, or of another version of Python or torch")
    if header.state != (here := state.values()):
        name, there = next((name, value) for name, value in header.state.items() if value != here[name])
        raise NotPortableError(f"torch's state is another one: {name}: {there}, and here {here[name]}")
    if header.hashes not in (None, hash("one")):
        raise NotPortableError("it may depend on the hashes of texts, which are others here")
    check_registered(unpickler.load())
    capture = Capture(**unpickler.load(), state=state)
    more = unpickler.load()
    unpickler.check_identities()
    capture.build_program()
    capture.guard_known_sizes()
    inputs = capture.program.native.collect(fn, arguments)
    if inputs is None:
        raise NotPortableError(f"a guard does not hold here: {capture.program.failure(fn, arguments)}")
    if capture.graph is not None:
        slots = {source: slot for slot, source in enumerate(capture.region.inputs)}
        capture.example_inputs = [as_input(inputs[slots[source]]) for source in capture.input_sources]
        for n in capture.leaf_inputs:
            capture.example_inputs[n] = capture.example_inputs[n].detach().requires_grad_()
    return capture, more


def check_registered(answers: list[tuple[Any, Any, bool]]) -> None:
    """That abstract base classes say of classes what they have said where it was saved."""
    for abstract, cls, answer in answers:
        if _abc._abc_subclasscheck(abstract, cls) is not answer:  # `issubclass` may ask a metaclass
            raise NotPortableError(f"{abstract.__qualname__} has other classes registered here")


def fields_of(capture: Capture, how: str) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
    """The fields that are kept in one way, with their values."""
    for field in dataclasses.fields(capture):
        if field.metadata[KEPT] == how:
            yield field, getattr(capture, field.name)


def versions(fn: types.FunctionType) -> list[str]:
    return [sys.version, str(torch.__version__), names.digest(fn.__code__)]


def asks_for_hashes(code: types.CodeType) -> bool:
    """Whether code may ask for the hash of a text, or see the order of a set among its constants."""
    instructions = list(dis.get_instructions(code))
    if any(one.argval in ("hash", "__hash__") and one.opname.startswith("LOAD_") for one in instructions):
        return True
    return any(
        isinstance(one.argval, frozenset) and one.opname == "LOAD_CONST" and then.opname != "CONTAINS_OP"
        for one, then in itertools.pairwise(instructions)
    )
