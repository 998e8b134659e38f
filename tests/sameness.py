"""Whether two runs of a program could be told apart by anything that can be seen of them.

More than `check` needs: exceptions with their tracebacks, functions, gradients, memory, classes that a
program makes, iterators (which are drained by it, up to a limit).

    alike(expected, found)          two results, and all that they lead to
    check_calls(make)               a function and its arguments, made twice: run plainly and compiled
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import functools
import itertools
import types
import typing
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

import framelift
from check import ONLY_ELEMENTS, Comparison


class Sameness(Comparison):
    """Of more than `check` needs: exceptions, functions, gradients, memory, classes that a case makes."""

    def same(self, a: Any, b: Any, at: str) -> None:
        if isinstance(a, type) and isinstance(b, type) and a is not b:
            self.classes(a, b, at)
        elif isinstance(a, types.ModuleType) and isinstance(b, types.ModuleType) and a is not b:
            self.same(plain_names(vars(a)), plain_names(vars(b)), f"{at}.__dict__")
        elif type(a) is type(b) and type(a) in weakref.ProxyTypes:
            self.same(dict(a.__dict__), dict(b.__dict__), f"{at}.__dict__")
        elif type(a) is type(b) is types.BuiltinFunctionType and is_method(a):
            self.same((a.__name__, a.__self__), (b.__name__, b.__self__), at)
        elif type(a) is not type(b) and own(type(a)):
            self.classes(type(a), type(b), f"type of {at}")
            if not self.paired(a, b, at):
                self.parts(a, b, at)
        else:
            super().same(a, b, at)

    def classes(self, a: type, b: type, at: str) -> None:
        assert own(a) and own(b) and a.__qualname__ == b.__qualname__, f"{at}: {b} instead of {a}"
        if not self.paired(a, b, at):
            self.same(a.__mro__[1:], b.__mro__[1:], f"{at}.__mro__")
            self.same(plain_names(vars(a)), plain_names(vars(b)), f"{at}.__dict__")

    def paired(self, a: Any, b: Any, at: str) -> bool:
        """Which of two equal immutable values is which can't be relied on."""
        return not isinstance(a, IMMUTABLE) and super().paired(a, b, at)

    def tensors(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        super().tensors(a, b, at)
        assert a._is_view() == b._is_view(), f"{at}: a view or not"
        assert has_same_history(a, b), f"{at}.grad_fn: {b.grad_fn} instead of {a.grad_fn}"
        if a.is_leaf:
            self.same(a.grad, b.grad, f"{at}.grad")
        self.memory(a, b, at)

    def memory(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        """Which tensors share their memory: one storage, or several that lie in the same place."""
        storages = a.untyped_storage(), b.untyped_storage()
        known = [("storage", one._cdata) for one in storages], [("at", one.data_ptr()) for one in storages]
        for x, y in known if a.numel() else known[:1]:
            assert self.left.setdefault(x, y) == y and self.right.setdefault(y, x) == x, (
                f"{at}: memory sharing"
            )

    def parts(self, a: Any, b: Any, at: str) -> None:
        for kind, taken in PARTS.items() if type(a) not in ONLY_ELEMENTS else ():
            if isinstance(a, kind):
                return self.same(taken(a), taken(b), f"parts of {at}")
        return super().parts(a, b, at)


IMMUTABLE = (
    *(datetime.date, datetime.timedelta, datetime.time, datetime.timezone),
    *(types.GenericAlias, types.UnionType, type(typing.List[int]), type(typing.Union[int, str])),
    *(decimal.Decimal, fractions.Fraction),
)


def is_method(fn: types.BuiltinFunctionType) -> bool:
    return not isinstance(fn.__self__, (types.ModuleType, type, type(None)))


def own(cls: type) -> bool:
    """Whether the class was made by a program, or by a function under test."""
    return "<locals>" in cls.__qualname__


def plain_names(names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if not name.startswith("_")}


def error_parts(error: BaseException) -> Any:
    return (
        error.args,
        getattr(error, "name", None),
        dict(vars(error)),
        entries(error.__traceback__),
        error.__cause__,
        error.__context__,
        error.__suppress_context__,
        list(getattr(error, "exceptions", ())),
    )


def entries(traceback: types.TracebackType | None) -> list[tuple[str, int]]:
    """Function and line of the traceback's entries, those of the programs only."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if Path(code.co_filename).parent.name.endswith("_programs"):
            found.append((code.co_name, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def function_parts(fn: types.FunctionType) -> Any:
    told = fn.__name__, fn.__qualname__, fn.__module__, fn.__doc__, fn.__annotations__ or None
    names = {k: v for k, v in vars(fn).items() if k != "_torchdynamo_wrapper_id"}  # which is an address
    return fn.__code__, fn.__closure__, fn.__defaults__, fn.__kwdefaults__, told, names


def contents(cell: types.CellType) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return "empty"


DRAINED: dict[int, tuple[Any, Any]] = {}
"""What was left in each iterator that was compared."""


def drained(iterator: Any) -> Any:
    if id(iterator) not in DRAINED:
        left = list(itertools.islice(iterator, 100))
        DRAINED[id(iterator)] = iterator, (left, dict(getattr(iterator, "__dict__", ())))
    return DRAINED[id(iterator)][1]


PARTS: dict[Any, Callable[[Any], Any]] = {
    BaseException: error_parts,
    types.FunctionType: function_parts,
    types.CellType: contents,
    functools.partial: lambda p: (p.func, p.args, p.keywords, dict(vars(p))),
    types.MappingProxyType: dict,
    collections.OrderedDict: lambda d: (list(collections.OrderedDict.items(d)), dict(vars(d))),
    collections.abc.MappingView: list,
    torch.Generator: lambda g: g.get_state(),
    Iterator: drained,
    type(framelift.compile(print)._framelift_context): lambda context: None,
}


ENDS = ("SpentBackward", "LostBackward")
"""Histories that a graph can't give: they were gone back, or lead to nothing that is left."""


def has_same_history(a: Any, b: Any) -> bool:
    if b.grad_fn is not None and b.grad_fn.name() in ENDS:
        return a.grad_fn is not None
    return type(a.grad_fn) is type(b.grad_fn)


# ---- comparing two runs


def alike(a: Any, b: Any, exact: bool = True) -> None:
    """Fails where two results, with all that they lead to, can be told apart."""
    Sameness(exact=exact).same(a, b, "result")
    DRAINED.clear()


class State(list):
    """What else a program may change, beside its arguments."""


def check_calls(
    make: Callable[[], tuple[Any, ...]], calls: int = 3, fullgraph: bool = True, backend: str = "eager"
) -> None:
    """`make()` gives a function and its arguments, all new, then perhaps other state to compare.

    The function is called some times eagerly and, on a second set, compiled: results, arguments and
    state must be alike after each call. The last element of what `make` gives may be a `State`.
    """
    framelift.reset()
    (plain, *eager), (fn, *given) = make(), make()
    compiled = framelift.compile(fn, backend=backend, fullgraph=fullgraph)
    results: tuple[list[Any], list[Any]] = [], []
    for n in range(calls):
        for call, arguments, into in zip((plain, compiled), (eager, given), results, strict=True):
            torch.manual_seed(n)
            into.append(call(*(one for one in arguments if type(one) is not State)))
        alike([results[0], eager], [results[1], given])
    if fullgraph:
        assert framelift.counters["stats"]["unique_graphs"] >= 1, "nothing was captured"
