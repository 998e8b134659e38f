"""Builtin functions, and methods of builtin containers, that a trace does itself."""

from __future__ import annotations

import builtins
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.sentinels import MISSING
from framelift.graph.symbols import SYMBOLIC
from framelift.interpreter.pending import Pending, opened
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.identity import Address
from framelift.trace.machine import TraceFrame
from framelift.trace.views import DELETED


@serve(builtins.isinstance, looks=Looks.CLASS, orderless=True, why="asks about a class")
def serve_isinstance(f: TraceFrame, obj: Any, class_or_tuple: Any, /) -> Any:
    return f.world.operators.is_instance(obj, opened(class_or_tuple))


@serve(builtins.callable, looks=Looks.CLASS, why="asks about a class")
def serve_callable(f: TraceFrame, obj: Any, /) -> Any:
    f.world.classes.attribute(type(opened(obj)), "__call__")
    return f.world.calls.native(f, builtins.callable, [obj], None)


@serve(builtins.id, refused=breaks.IDENTITY, why="id")
def serve_id(f: TraceFrame, obj: Any, /) -> Any:
    return Address(id(opened(obj)))


def serve_hasher(hasher: Any, **facets: Any) -> None:
    """Serves a function that hashes what its argument is made of."""

    @serve(hasher, **facets)
    def served(f: TraceFrame, obj: Any, /) -> Any:
        seen: dict[int, Any] = {}
        f.world.materialize.value(obj, seen)
        f.world.identity.fix_addresses(seen)
        return f.world.calls.native(f, hasher, [obj], None)


serve_hasher(builtins.hash, looks=Looks.DEEP, orderless=True, why="a pure builtin")
serve_hasher(tuple.__hash__)
serve_hasher(frozenset.__hash__)


@serve(builtins.len, looks=Looks.SHALLOW, orderless=True, why="counts elements")
def serve_len(f: TraceFrame, obj: Any, /) -> Any:
    value = opened(obj)
    if type(value) is FakeTensor:
        if f.world.recorder.modes.active:
            return f.world.recorder.call(torch.Tensor.__len__, (value,), {})
        if not value.dim():
            raise TypeError("len() of a 0-d tensor")
        return value.shape[0]
    return f.world.operators.length(value)


@serve(
    builtins.bool,
    looks=Looks.DEEP,
    orderless=True,
    on_symbols=lambda number: number != 0,
    why="asks for truth",
)
def serve_bool(f: TraceFrame, x: Any = False, /) -> Any:
    if type(opened(x)) in (FakeTensor, *SYMBOLIC):
        return f.world.calls.native(f, builtins.bool, [x], None)
    return f.world.operators.truth(x)


@serve(builtins.__import__)
def serve_import(
    f: TraceFrame, /, name: Any, globals: Any = None, locals: Any = None, fromlist: Any = (), level: Any = 0
) -> Any:
    """The function that an import statement calls, called by hand. Only absolute names are served."""
    module, names = f.world.materialize.for_c(name), f.world.materialize.for_c(fromlist)
    if type(module) is not str or f.world.materialize.for_c(level):
        return f.world.calls.native(f, builtins.__import__, [name, globals, locals, fromlist, level], None)
    return f.world.scopes.import_name(module, f.globals, None, names, 0)


@serve(list.append, looks=Looks.MOVES, first=1, why="stores what it is given")
def serve_append(f: TraceFrame, array: Any, value: Any, /) -> Any:
    return f.world.containers.append(array, value)


@serve(dict.get, looks=Looks.MOVES, first=2, why="hands on what it holds")
def serve_get(f: TraceFrame, mapping: Any, key: Any, default: Any = None, /) -> Any:
    """A dictionary that nobody has looked into yet is asked for this one key."""
    if type(mapping) is Pending:
        found = f.world.containers.peek(mapping, opened(key))
        if found is not DELETED:
            return default if found is MISSING else found
    return f.world.calls.native(f, dict.get, [mapping, key, default], None)
