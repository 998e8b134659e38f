"""A change of anything that a program has read is noticed; a change of anything else costs nothing.

`mutation_programs` is a catalogue of small programs, each with statements that change something it has
read, and statements that change something near it that it has not. For each statement the program is
made twice, from its source, in a namespace of its own. One is run plainly, one compiled: two calls, the
statement, a call, another statement, a call. What can be seen of the calls must be the same, and the
compiled one must have left its first entry after a change of what was read - and have stayed in it after
any other. Before the call that follows a change the guards are checked once more with a profiler
watching: no Python code may run.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from mutation_programs import KNOWN, PROGRAMS, Program

import framelift
from framelift import _frame, _guards
from framelift.core.errors import Unsupported

CASES = [(program, change, True) for program in PROGRAMS for change in program.read]
CASES += [(program, change, False) for program in PROGRAMS for change in program.unread]


STEPS = ("first call", "second call", "change", "after it", "second change", "after the second")


def case_id(program: Program, change: str, read: bool) -> str:
    return f"{program.name}: {'read' if read else 'unread'}: {' '.join(change.split())}"


def parameters() -> list[Any]:
    found = []
    for program, change, read in CASES:
        why = KNOWN.get((program.name, change))
        marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
        found.append(pytest.param(program, change, read, id=case_id(program, change, read), marks=marks))
    return found


@pytest.mark.parametrize(("program", "change", "read"), parameters())
def test_mutation(program: Program, change: str, read: bool) -> None:
    second = program.next_change(change)
    expected = Twin(program, compiled=False).run(change, second)
    twin = Twin(program, compiled=True)
    try:
        found = twin.run(change, second)
    except Unsupported:
        # what the program has become can't be captured whole: then it must do the right thing in pieces
        assert twin.calls >= 2, "the program can't be captured"
        twin_in_pieces = Twin(program, compiled=True, fullgraph=False)
        found = twin_in_pieces.run(change, second)
        twin = twin_in_pieces
    assert not expected[2], f"the change itself fails: {expected[2]}"
    for when, mine, other in zip(STEPS, expected, found, strict=True):
        assert mine == other, f"{when} ({second}): {other} instead of {mine}"
    assert twin.served_before, "the second call was not served by the first one's entry"
    if read:
        assert not twin.served_after, f"the entry was used again: {twin.entry_guards()}"
    else:
        assert twin.served_after, f"it was compiled again: {twin.reasons()}"
    assert not twin.python_in_guards, "checking guards ran Python code"


def test_the_catalogue_is_large_and_has_no_doubles() -> None:
    assert len(PROGRAMS) >= 60
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert len({case_id(*case) for case in CASES}) == len(CASES)
    assert all(program.read for program in PROGRAMS)
    known = {(program.name, change) for program, change, _ in CASES}
    assert set(KNOWN) <= known, set(KNOWN) - known


def test_no_check_is_a_callback() -> None:
    """The one kind of check that may run Python code is not used."""
    before = _guards.python_checks()
    for program in PROGRAMS[::5]:
        Twin(program, compiled=True).run(program.read[0], "")
    assert _guards.python_checks() == before


# ---- one program, run plainly or compiled


class Twin:
    """A program in a namespace of its own."""

    def __init__(self, program: Program, compiled: bool, fullgraph: bool = True) -> None:
        self.stack = contextlib.ExitStack()
        self.module = types.ModuleType("mutated")
        self.names = vars(self.module)
        self.names.update(stack=self.stack, patch=self.patch, switch=self.switch, put=self.put)
        self.program = program
        self.compiled, self.fullgraph = compiled, fullgraph
        self.calls = 0
        self.served_before = self.served_after = False
        self.python_in_guards: list[str] = []

    def patch(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute of something that both twins share, for as long as this one runs."""
        self.stack.enter_context(mock.patch.object(owner, name, value, create=True))

    def put(self, mapping: Any, key: Any, value: Any) -> None:
        before = mapping.get(key)
        mapping[key] = value
        self.stack.callback(restore, mapping, key, before)

    def switch(self, setter: Callable[[Any], Any], value: Any, back: Any) -> None:
        setter(value)
        self.stack.callback(setter, back)

    def run(self, change: str, second: str) -> list[Any]:
        """What could be seen of each call."""
        with self.stack:
            self.put(sys.modules, "mutated", self.module)
            torch.manual_seed(0)
            exec(compile(self.program.source, f"<{self.program.name}>", "exec"), self.names)
            self.fn = self.names["f"]
            self.callable = self.fn
            if self.compiled:
                self.callable = framelift.compile(self.fn, backend="eager", fullgraph=self.fullgraph)
            seen = [self.call()]
            self.entry = self.first_entry()
            seen.append(self.call())
            self.served_before = self.hits() == 1
            for n, statement in enumerate((change, second)):
                seen.append(self.apply(statement))
                self.watch_guards()
                seen.append(self.call())
                if n == 0:
                    self.served_after = self.hits() == 2
            return seen

    def apply(self, statement: str) -> str:
        """The error that the statement raises, if any: the second one need not fit after the first."""
        try:
            exec(statement, self.names)
        except Exception as error:
            return repr(error)
        return ""

    def call(self) -> Any:
        args, kwargs = self.names.get("args", [torch.arange(4.0)]), self.names.get("kwargs", {})
        if "args" not in self.names:
            self.names["args"] = args
        self.calls += 1
        try:
            outcome = self.callable(*args, **kwargs)
        except Unsupported:
            raise
        except Exception as error:
            outcome = (type(error).__name__, str(error))
        return Picture().of((outcome, args, kwargs, self.names.get("watch")))

    # ---- what the compiled twin used

    def records(self) -> list[Any]:
        return list(self.callable._framelift_context.records.values())

    def first_entry(self) -> Any:
        if not self.compiled:
            return None
        (record,) = [record for record in self.records() if record.compiled]
        return record.compiled[0]

    def hits(self) -> int:
        return self.entry.hits if self.entry is not None else 0

    def reasons(self) -> list[str]:
        return [reason for record in self.records() for reason in record.recompile_reasons]

    def entry_guards(self) -> str:
        program = self.entry.captured.program
        return "\n".join(map(str, [*program.guards, *program.class_guards]))

    def watch_guards(self) -> None:
        """Checks the first entry's guards against the arguments as they are now, and notes what ran."""
        if not self.compiled or not isinstance(self.fn, types.FunctionType):
            return
        try:
            bound = _frame.bind(self.fn, tuple(self.names["args"]), self.names.get("kwargs", {}))
        except TypeError:
            return
        native = self.entry.captured.program.native
        self.python_in_guards += called_meanwhile(native.check, self.fn, bound)
        self.python_in_guards += called_meanwhile(native.collect, self.fn, bound)


def restore(mapping: Any, key: Any, before: Any) -> None:
    if before is None:
        mapping.pop(key, None)
    else:
        mapping[key] = before


def called_meanwhile(run: Callable[..., Any], *args: Any) -> list[str]:
    """The Python functions that are called while a C function runs."""
    called: list[str] = []

    def note(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    collecting = gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        run(*args)
    finally:
        sys.setprofile(None)
        if collecting:
            gc.enable()
    return called


# ---- what can be seen of a value


class Picture:
    """A value as plain data that can be compared: the twins have classes of their own. Objects are
    numbered as they are met, so that who is who shows too."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []

    def of(self, value: Any) -> Any:
        if isinstance(value, (int, str, bytes, type(None), torch.dtype, torch.device)):
            return (type(value).__qualname__, str(value))
        if isinstance(value, (float, complex, range)):
            return (type(value).__qualname__, repr(value))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return getattr(value, "__qualname__", "") or value.__name__
        if id(value) in self.numbers:
            return ("again", self.numbers[id(value)])
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)
        return (type(value).__qualname__, *self.parts(value))

    def parts(self, value: Any) -> Iterator[Any]:
        if isinstance(value, torch.Tensor):
            yield from self.tensor(value)
        elif isinstance(value, dict):
            own = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
            yield [(self.of(key), self.of(dict.__getitem__(value, key))) for key in own.__iter__(value)]
        elif isinstance(value, (list, tuple, collections.deque)):
            base = next(b for b in (list, tuple, collections.deque) if isinstance(value, b))
            yield [self.of(item) for item in base.__iter__(value)]
        elif isinstance(value, (set, frozenset)):
            yield sorted(str(self.of(item)) for item in value)
        elif isinstance(value, BaseException):
            yield self.of(value.args)
        attributes = getattr(value, "__dict__", {})
        yield [(name, self.of(held)) for name, held in attributes.items()]
        for cls in type(value).__mro__:
            for name, member in vars(cls).items():
                if type(member) is types.MemberDescriptorType and not name.startswith("__"):
                    yield name, self.of(getattr(value, name, "<empty>"))

    def tensor(self, value: torch.Tensor) -> Iterator[Any]:
        with torch._C.DisableTorchFunction():
            yield str(value.dtype), str(value.device), tuple(value.shape), str(value.layout)
            yield value.requires_grad, value.is_leaf, value.is_inference(), value.is_conj(), value.is_neg()
            if value.layout is torch.strided:
                yield value.stride(), value.storage_offset()
            if value.device.type != "meta":
                plain = value.detach().resolve_conj().resolve_neg()
                yield repr(plain.to_dense().tolist())
            if value.is_leaf:
                yield self.of(value.grad)
