"""Comparing a compiled function with the function itself, in one line.

    check(fn, x, y)                 same result, exception, output and changes to the arguments; one graph
    check(fn, x, calls=3)           the same, three calls in a row
    compiled = capture(fn)          to look at what happened: recompiles(compiled), broke(compiled)

Two outcomes are the same when a program could not tell them apart: structure, exact types, values bit
for bit, which parts are one object, strides and `requires_grad` of tensors.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import io
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

import framelift


@dataclasses.dataclass
class Outcome:
    """What one call did."""

    result: Any
    error: BaseException | None
    printed: str
    arguments: Any


def check(
    fn: Callable[..., Any],
    *args: Any,
    calls: int = 1,
    fullgraph: bool = True,
    backend: Any = "eager",
    **kwargs: Any,
) -> Any:
    """Runs `fn` plainly and compiled on copies of the arguments, compares, and gives the compiled function.

    With `fullgraph` it must have been captured, unless it raises, which is not captured.
    """
    plain, copies = copied((args, kwargs)), copied((args, kwargs))
    compiled = framelift.compile(fn, fullgraph=fullgraph, backend=backend, isolate_recompiles=True)
    raised = False
    for _ in range(calls):
        expected, found = run(fn, *plain), run(compiled, *copies)
        compare(expected, found)
        raised = raised or expected.error is not None
    if fullgraph and not raised:
        assert compiled._framelift_context.code_states, "the function was never looked at"
        assert why_not(compiled) is None, why_not(compiled)
        assert recompiles(compiled) >= 0
    return compiled


def run(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    printed = io.StringIO()
    result, error = None, None
    with contextlib.redirect_stdout(printed):
        try:
            result = fn(*args, **kwargs)
        except Exception as raised:
            error = raised
    return Outcome(result, error, printed.getvalue(), (args, kwargs))


def compare(expected: Outcome, found: Outcome) -> None:
    if expected.error is None and found.error is not None:
        raise found.error
    assert (type(found.error), getattr(found.error, "args", None)) == (
        type(expected.error),
        getattr(expected.error, "args", None),
    )
    assert found.printed == expected.printed
    Comparison().same(
        (expected.result, expected.arguments), (found.result, found.arguments), "(result, (args, kwargs))"
    )


def copied(value: Any) -> Any:
    """A deep copy. Tensors that share memory still do; what can't be copied is shared."""
    with mock.patch.dict(copy._deepcopy_dispatch, COPIES):  # type: ignore[attr-defined]
        return copy.deepcopy(value)


COPIES: dict[type, Callable[[Any, dict[int, Any]], Any]] = {
    types.ModuleType: lambda value, memo: value,
    torch.finfo: lambda value, memo: value,
    types.MappingProxyType: lambda value, memo: types.MappingProxyType(copy.deepcopy(dict(value), memo)),
    type({}.keys()): lambda value, memo: dict.fromkeys(value).keys(),
    torch.Generator: lambda value, memo: value.clone_state(),
}


# ---- what was compiled


def capture(fn: Callable[..., Any], *args: Any, fullgraph: bool = True, **kwargs: Any) -> Any:
    """The compiled function, called once if arguments are given."""
    compiled = framelift.compile(fn, backend="eager", fullgraph=fullgraph, isolate_recompiles=True)
    if args or kwargs:
        compiled(*args, **kwargs)
    return compiled


def code_of(compiled: Any) -> types.CodeType:
    fn = compiled.__wrapped__ if hasattr(compiled, "__wrapped__") else compiled._orig_mod.forward
    while not isinstance(fn, types.FunctionType):
        fn = (
            fn.__func__
            if isinstance(fn, types.MethodType)
            else getattr(fn, "func", None) or type(fn).__call__
        )
    return fn.__code__


def entries(compiled: Any) -> int:
    """How many graphs the function itself has."""
    return len(numbers(compiled))


def captures(compiled: Any) -> int:
    """How many graphs there are, with those of what comes after breaks and of what it calls."""
    return sum(len(record.entries) for record in compiled._framelift_context.code_states.values())


def numbers(compiled: Any) -> set[int]:
    """Which entries those are: one goes when something dies that its guards would have to find."""
    record = compiled._framelift_context.code_states.get(code_of(compiled))
    return {one.number for one in record.entries} if record is not None else set()


def recompiles(compiled: Any) -> int:
    return entries(compiled) - 1


def why_not(compiled: Any) -> str | None:
    """Why the function was not captured."""
    record = compiled._framelift_context.code_states.get(code_of(compiled))
    if record is None:
        return "the function's own frame was never looked at"
    return record.skipped


def reasons(compiled: Any) -> list[str]:
    """Why captures ended, in the function itself and in what it calls."""
    records = compiled._framelift_context.code_states.values()
    return [found.reason.name for record in records for found in record.breaks]


# ---- sameness

ATOMS = (
    int,
    str,
    bytes,
    bool,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    types.ModuleType,
    type,
    range,
    slice,
)
ATOMS += (
    types.BuiltinFunctionType,
    types.CodeType,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)


FACTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "class": type,
    "shape": lambda t: t.shape,
    "dtype": lambda t: t.dtype,
    "device": lambda t: t.device,
    "layout": lambda t: t.layout,
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
    "conj": lambda t: t.is_conj(),
    "neg": lambda t: t.is_neg(),
    "inference": lambda t: t.is_inference(),
    "strides": lambda t: t.stride() if t.layout is torch.strided else None,
    "offset": lambda t: t.storage_offset() if t.layout is torch.strided else None,
}
"""What can be known of a tensor besides its values."""


def bits(tensor: torch.Tensor) -> bytes:
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    tensor = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).reshape(-1)
    return bytes(tensor.view(torch.uint8).numpy(force=True)) if tensor.numel() else b""


def has_no_identity(value: Any) -> bool:
    """An immutable container of constants: the compiler may make one of two, or two of one."""
    return isinstance(value, (tuple, frozenset)) and all(
        isinstance(item, (*ATOMS, float, complex)) or has_no_identity(item) for item in value
    )


class Comparison:
    """Whether two outcomes are the same; objects are paired off, so sharing counts too."""

    def __init__(self, values: bool = True, exact: bool = True) -> None:
        self.values = values
        """Whether those of tensors count."""
        self.exact = exact
        """Whether rounding and the sign of zero count."""
        self.left: dict[int, int] = {}
        self.right: dict[int, int] = {}
        self.kept: list[Any] = []

    def same(self, a: Any, b: Any, at: str) -> None:
        assert type(a) is type(b), f"{at}: {type(b)} instead of {type(a)}"
        if isinstance(a, (*ATOMS, torch.Size)):
            assert a == b, f"{at}: {b!r} instead of {a!r}"
        elif isinstance(a, (float, complex)):
            same = repr(a) == repr(b) if self.exact else a == b or a != a
            assert same, f"{at}: {b!r} instead of {a!r}"
        elif self.paired(a, b, at):
            return
        elif isinstance(a, torch.Tensor):
            self.tensors(a, b, at)
        else:
            self.parts(a, b, at)

    def paired(self, a: Any, b: Any, at: str) -> bool:
        if has_no_identity(a):
            return False
        seen = id(a) in self.left or id(b) in self.right
        if seen:
            assert self.left.get(id(a)) == id(b) and self.right.get(id(b)) == id(a), f"{at}: sharing differs"
        self.left[id(a)], self.right[id(b)] = id(b), id(a)
        self.kept += [a, b]
        return seen

    def tensors(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        for name, fact in FACTS.items():
            assert fact(a) == fact(b), f"{at}: {name} {fact(b)} instead of {fact(a)}"
        if self.values:
            same = bits(a) == bits(b) if self.exact else torch.allclose(a, b, equal_nan=True)
            assert same, f"{at}: values differ"
        self.same(dict(vars(a)), dict(vars(b)), f"{at}.__dict__")

    def parts(self, a: Any, b: Any, at: str) -> None:
        if isinstance(a, dict):
            assert len(a) == len(b), f"{at}: {len(b)} items instead of {len(a)}"
            for n, ((key, x), (other, y)) in enumerate(zip(dict.items(a), dict.items(b), strict=True)):
                self.same(key, other, f"{at} items[{n}][0]")
                self.same(x, y, f"{at} items[{n}][1]")
        elif isinstance(a, (list, tuple, collections.deque)):
            assert len(a) == len(b), f"{at}: {len(b)} elements instead of {len(a)}"
            for n, (x, y) in enumerate(zip(a, b, strict=True)):
                self.same(x, y, f"{at}[{n}]")
        elif isinstance(a, (set, frozenset)):
            # of those that look alike, first what was seen elsewhere
            of_a = lambda x: (repr(x), id(x) not in self.left, self.left.get(id(x), 0))
            of_b = lambda y: (repr(y), id(y) not in self.right, id(y) if id(y) in self.right else 0)
            for x, y in zip(sorted(a, key=of_a), sorted(b, key=of_b), strict=True):
                self.same(x, y, f"{at} element")
        elif isinstance(a, types.MethodType):
            self.same((a.__func__, a.__self__), (b.__func__, b.__self__), at)
        elif isinstance(a, types.FunctionType):
            assert a is b or a.__code__ is b.__code__, f"{at}: another function"
            cells = [tuple(c.cell_contents for c in f.__closure__ or ()) for f in (a, b)]
            self.same((*cells[:1], a.__defaults__), (*cells[1:], b.__defaults__), f"{at} cells")
        elif isinstance(a, collections.abc.Iterator):
            self.same(list(a), list(b), f"{at} (drained)")
        self.state(a, b, at)

    def state(self, a: Any, b: Any, at: str) -> None:
        """Attributes, slots, and a few builtins that keep theirs in C."""
        if a is b or type(a) in ONLY_ELEMENTS:
            return
        compared = False
        for name in STATE.get(type(a), ()):
            self.same(getattr(a, name), getattr(b, name), f"{at}.{name}")
            compared = True
        if hasattr(a, "__dict__") and not isinstance(a, types.FunctionType):
            self.same(dict(a.__dict__), dict(b.__dict__), f"{at}.__dict__")
            compared = True
        for cls in type(a).__mro__:
            for slot in vars(cls).values():
                if type(slot) is types.MemberDescriptorType and cls.__module__ not in C_MODULES:
                    missing = object()
                    x, y = (getattr(o, slot.__name__, missing) for o in (a, b))
                    if x is not missing or y is not missing:
                        self.same(x, y, f"{at}.{slot.__name__}")
                    compared = True
        if not compared and not isinstance(a, PARTS) and type(a).__eq__ is not object.__eq__:
            assert a == b, f"{at}: {b!r} instead of {a!r}"


STATE: dict[type, tuple[str, ...]] = {
    collections.deque: ("maxlen",),
    collections.defaultdict: ("default_factory",),
}
C_MODULES = ("functools", "torch._C")
ONLY_ELEMENTS = (dict, list, tuple, set, frozenset)
"""Have nothing but their elements."""
PARTS = (dict, list, tuple, collections.deque, set, frozenset, types.FunctionType, types.MethodType)
PARTS += (collections.abc.Iterator,)


def difference(expected: Any, found: Any, values: bool = True, path: str = "result") -> str | None:
    """The first thing in which two results are not the same; None if they are."""
    try:
        Comparison(values).same(expected, found, path)
    except AssertionError as error:
        return str(error)
    return None


class Bag:
    """A container as a program may have one of its own; it counts how often it is read."""

    def __init__(self) -> None:
        self.items: dict[Any, Any] = {}
        self.reads = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return self.items[key]

    def __delitem__(self, key: Any) -> None:
        del self.items[key]

    def __contains__(self, key: Any) -> bool:
        self.reads += 1
        return key in self.items

    def __len__(self) -> int:
        self.reads += 1
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        self.reads += 1
        yield from self.items

    def __iadd__(self, other: Any) -> Bag:
        self.items.update(other)
        return self

    def __call__(self, value: Any) -> Any:
        self.reads += 1
        return value

    def __bool__(self) -> bool:
        self.reads += 1
        return True
