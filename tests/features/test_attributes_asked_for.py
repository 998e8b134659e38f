"""torch asks function modes, and the classes of tensors, for attributes: as eagerly, in the same order."""

from __future__ import annotations

import linecache
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import framelift
from check import reasons

LOG: list[Any] = []


def note(func: Any, classes: Any, args: Any) -> None:
    LOG.append((func.__name__, getattr(getattr(func, "__self__", None), "__name__", ""), classes, len(args)))


class Asked(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        note(func, types, args)
        return func(*args, **(kwargs or {}))


class Noted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        note(func, types, args)
        return super().__torch_function__(func, types, args, kwargs or {})


ADDRESSES = ("_cdata", "__weakref__", "_use_count")
READ = [
    name
    for name in dir(torch.Tensor)
    if isinstance(getattr(torch.Tensor, name, None), (types.GetSetDescriptorType, property))
    and name not in ADDRESSES
]


def function_of(name: str, text: str) -> Callable[..., Any]:
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = dict(globals())
    exec(compile(text, name, "exec"), scope)
    return scope["fn"]  # type: ignore[no-any-return]


def given(of_class: bool) -> torch.Tensor:
    x = torch.tensor([1.0, 2.0, 3.0])
    if of_class:
        x = x.as_subclass(Noted)
    x.requires_grad_()
    x.grad = torch.ones(3)
    LOG.clear()
    return x


def outcome(fn: Callable[..., Any], of_class: bool, around: bool) -> Any:
    x = given(of_class)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if around:
                with Asked():
                    result = fn(x)
            else:
                result = fn(x)
    except Exception as error:
        return type(error), str(error)
    seen = [type(part) if "Backward" in repr(type(part)) else part for part in result]
    log = list(LOG)
    with torch._C.DisableTorchFunction():
        return repr(seen), log, repr(x.grad), x.requires_grad, x.is_leaf, sorted(vars(x))


@pytest.mark.parametrize("where", ["in a mode", "around a mode", "by the class"])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", READ)
def test_reading(name: str, inside: bool, where: str) -> None:
    made = "x * 1" if inside else "x"
    within = "with Asked():" if where == "in a mode" else "if True:"
    body = f"def fn(x):\n    y = {made}\n    {within}\n        found = y.{name}\n    return found, x + 1\n"
    fn = function_of(f"<reading {name} {inside} {where}>", body)
    how = where == "by the class", where == "around a mode"
    assert outcome(framelift.compile(fn, backend="eager"), *how) == outcome(fn, *how)


def sets_grad(x: Any) -> Any:
    x.grad = x.detach() * 2
    return x.grad + 1, x + 1


def clears_grad(x: Any) -> Any:
    x.grad = None
    return x.grad, x + 1


def sets_requires_grad(x: Any) -> Any:
    x.requires_grad = False
    return x.requires_grad, x + 1


def calls_requires_grad(x: Any) -> Any:
    return x.requires_grad_(False) + 1, x.is_leaf


def makes_a_leaf(x: Any) -> Any:
    y = x.detach().requires_grad_()
    return y, y.is_leaf


def notes(x: Any) -> Any:
    x.note = 1
    x.other = 2
    del x.note
    return x.other, x + 1


def notes_inside(x: Any) -> Any:
    y = x * 2
    y.note = 1
    del y.note
    try:
        return y.note, y
    except AttributeError as error:
        return str(error), y


def deletes_nothing(x: Any) -> Any:
    try:
        del x.note
    except AttributeError as error:
        return str(error), x + 1


def calls_methods(x: Any) -> Any:
    return x.exp().dim(), x.detach().numel(), x.sum().neg()


WRITES = [sets_grad, clears_grad, sets_requires_grad, calls_requires_grad, makes_a_leaf]
WRITES += [notes, notes_inside, deletes_nothing, calls_methods]


@pytest.mark.parametrize("where", ["in no mode", "in a mode", "by the class"])
@pytest.mark.parametrize("fn", WRITES, ids=lambda fn: fn.__name__)
def test_writing(fn: Callable[..., Any], where: str) -> None:
    how = where == "by the class", where == "in a mode"
    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        assert outcome(compiled, *how) == outcome(fn, *how)
    assert "bug in Framelift" not in reasons(compiled)


def test_what_a_mode_sees_of_a_compilation(tmp_path: Any) -> None:
    """Looking for what is on disk, importing what a trace needs, and checking guards are no operations."""

    @framelift.disable
    def plain() -> None:
        """A break with the mode entered."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        with Asked():
            y = x + 1
            plain()
            return y * x.shape[0]

    with framelift.config.patch(cache=True, cache_dir=str(tmp_path)):
        for each in (fn, framelift.compile(fn, backend="eager")):
            LOG.clear()
            each(torch.ones(3))
            assert [name for name, *_ in LOG] == ["add", "__get__", "mul"]
