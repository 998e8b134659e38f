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
from torch.utils._python_dispatch import TorchDispatchMode

import framelift
from framelift import _frame
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


# ---- guards run no code of the program's


class Asked:
    """Notes every question that it is asked."""

    questions: list[str] = []

    def __init__(self, n: int) -> None:
        self.n = n

    def __getattribute__(self, name: str) -> Any:
        Asked.questions.append(f"getattribute {name}")
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        Asked.questions.append("eq")
        return self is other

    def __hash__(self) -> int:
        Asked.questions.append("hash")
        return 1

    def __len__(self) -> int:
        Asked.questions.append("len")
        return 1

    def __bool__(self) -> bool:
        Asked.questions.append("bool")
        return True


class Key:
    """May be hashed by a trace, as `Asked` may not: its methods do nothing but answer."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


class AskedMeta(type):
    def __instancecheck__(cls, value: Any) -> bool:
        Asked.questions.append("instancecheck")
        return True

    def __getattribute__(cls, name: str) -> Any:
        Asked.questions.append(f"getattribute of the class {name}")
        return type.__getattribute__(cls, name)

    def __eq__(cls, other: object) -> bool:
        Asked.questions.append("eq of the class")
        return cls is other

    def __hash__(cls) -> int:
        Asked.questions.append("hash of the class")
        return 1


class AskedClass(metaclass=AskedMeta):
    n = 1


class AskedQueue(collections.deque):
    def __getattribute__(self, name: str) -> Any:
        Asked.questions.append(f"getattribute of the queue {name}")
        return super().__getattribute__(name)

    def __len__(self) -> int:
        Asked.questions.append("len of the queue")
        return 1


def attribute(x: Any, o: Any) -> Any:
    return x + o.n


def truth_and_length(x: Any, o: Any) -> Any:
    return x + len(o) if o else x


def equality(x: Any, o: Any) -> Any:
    return x + 1 if o == 1 else x - 1


def membership(x: Any, o: Any) -> Any:
    return x + 1 if o in [1, 2] else x - 1


def a_key(x: Any, d: Any) -> Any:
    return x + len(d) + sum(d.values())


def elements(x: Any, s: Any) -> Any:
    return x + len(s)


def an_instance(x: Any, o: Any) -> Any:
    return x + 1 if isinstance(o, AskedClass) else x - 1


def of_a_class(x: Any, cls: Any) -> Any:
    return x + cls.n


def a_queue(x: Any, q: Any) -> Any:
    return x + len(q)


ASKED = {
    "an attribute": (attribute, lambda: Asked(1)),
    "truth and length": (truth_and_length, lambda: Asked(1)),
    "equality": (equality, lambda: Asked(1)),
    "membership": (membership, lambda: Asked(1)),
    "keys of a dictionary": (a_key, lambda: {KEYS[0]: 1, "text": 2, KEYS[1]: 3}),
    "elements of a set": (elements, lambda: {KEYS[0], 5}),
    "an instance's class": (an_instance, lambda: Asked(1)),
    "an attribute of a class": (of_a_class, lambda: AskedClass),
    "a queue": (a_queue, lambda: AskedQueue([1, 2])),
}
KEYS = [Key(1), Key(2)]


@pytest.mark.parametrize("name", ASKED)
def test_guards_ask_nobody(name: str) -> None:
    fn, make = ASKED[name]
    x, first, second, other = torch.ones(2), make(), make(), 5
    compiled = framelift.compile(fn, backend="eager", fullgraph=False)
    assert torch.equal(compiled(x, first), fn(x, first))
    captures = [
        each.capture
        for record in compiled._framelift_context.code_states.values()
        if record.code is fn.__code__
        for each in record.entries
    ]
    assert captures, [record.skipped for record in compiled._framelift_context.code_states.values()]
    Asked.questions.clear()
    for captured in captures:
        program = captured.program.native
        for arguments in ([x, first], [x, second], [x, other], [torch.ones(3), first]):
            assert not called_meanwhile(program.check, fn, arguments)
            assert not called_meanwhile(program.collect, fn, arguments)
        assert program.collect(fn, [x, first]) is not None
        if captured.ended_by is None:  # otherwise in front of what would have looked at these
            assert program.collect(fn, [x, other]) is None
            assert program.collect(fn, [torch.ones(3), first]) is None
    assert not Asked.questions


def test_a_program_under_a_dispatch_mode_runs_as_it_is() -> None:
    """What such a mode makes of a result is nobody's to know while tracing."""

    class Double(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            return out.double() if func is torch.ops.aten.sin.default else out

    def f(x: Any) -> Any:
        y = torch.sin(x)
        return y + 1 if y.dtype is torch.float32 else y - 1

    compiled, x = framelift.compile(f, backend="eager", fullgraph=True), torch.ones(2)
    for mode in (Double(), contextlib.nullcontext(), Double(), contextlib.nullcontext()):
        with mode:
            assert torch.equal(compiled(x), f(x))
    (record,) = compiled._framelift_context.code_states.values()
    assert [each.hits for each in record.entries] == [1]


def test_tensors_that_overlap_otherwise_than_before() -> None:
    """A backend that does without writing makes views of one tensor of them, at offsets that it has seen."""

    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return a + b

    def pairs(base: Any) -> list[Any]:
        return [(base[:4], base[4:8]), (base[:4], base[2:6]), (base[4:8], base[:4]), (base[:4],) * 2]

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for n in range(4):
        plain, other = torch.arange(8.0), torch.arange(8.0)
        assert torch.equal(f(*pairs(plain)[n]), compiled(*pairs(other)[n])) and torch.equal(plain, other)
    (record,) = compiled._framelift_context.code_states.values()
    assert [each.hits for each in record.entries] == [0] * 4


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
        return list(self.callable._framelift_context.code_states.values())

    def first_entry(self) -> Any:
        if not self.compiled:
            return None
        (record,) = [record for record in self.records() if record.entries]
        return record.entries[0]

    def hits(self) -> int:
        return self.entry.hits if self.entry is not None else 0

    def reasons(self) -> list[str]:
        return [reason for record in self.records() for reason in record.recompile_reasons]

    def entry_guards(self) -> str:
        program = self.entry.capture.program
        return "\n".join(map(str, [*program.guards, *program.class_guards]))

    def watch_guards(self) -> None:
        """Checks the first entry's guards against the arguments as they are now, and notes what ran."""
        if not self.compiled or not isinstance(self.fn, types.FunctionType):
            return
        try:
            bound = _frame.bind(self.fn, tuple(self.names["args"]), self.names.get("kwargs", {}))
        except TypeError:
            return
        native = self.entry.capture.program.native
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
