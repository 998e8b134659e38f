"""What a function may change besides its arguments, put back so that it can be run again on equal terms."""

from __future__ import annotations

import collections
from collections.abc import Callable
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

ATOMS: tuple[type, ...] = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device)
ATOMS += (type, ModuleType, FunctionType)


def save_state(fn: Any) -> Callable[[], None]:
    """Remembers what a function can reach by its variables, the object that it is bound to, and the globals
    that it names: tensors by value, containers and objects by what they hold. Gives what puts it back."""
    saving = Saving()
    with torch.no_grad():
        saving.function(fn)

    def restore() -> None:
        with torch.no_grad():
            for undo in saving.undo:
                undo()

    return restore


class Saving:
    """One walk through what there is; each object once."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.undo: list[Callable[[], None]] = []

    def function(self, fn: Any) -> None:
        if isinstance(fn, MethodType):
            self.see(fn.__self__)
        elif not isinstance(fn, FunctionType):
            self.see(fn)
        inner = getattr(fn, "__func__", fn)
        if not isinstance(inner, FunctionType):
            return
        for cell in inner.__closure__ or ():
            self.cell(cell)
        names = [name for name in inner.__code__.co_names if name in inner.__globals__]
        self.names(inner.__globals__, names)
        for name in names:
            self.see(inner.__globals__[name])

    def cell(self, cell: CellType) -> None:
        try:
            before = cell.cell_contents
        except ValueError:
            return
        self.undo.append(lambda: setattr(cell, "cell_contents", before))
        self.see(before)

    def names(self, namespace: dict[str, Any], names: list[str]) -> None:
        before = {name: namespace[name] for name in names}
        self.undo.append(lambda: namespace.update(before))

    def see(self, value: Any) -> None:
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, ATOMS) or id(one) in self.seen:
                continue
            self.seen[id(one)] = one
            waiting += self.parts(one)

    def parts(self, value: Any) -> list[Any]:
        """Notes how to put it back; gives what it holds."""
        if isinstance(value, torch.Tensor):
            self.tensor(value)
            return [] if value.is_leaf is False or value.grad is None else [value.grad]
        if isinstance(value, dict):
            held = dict(value)
            self.undo.append(lambda: put_back_dict(value, held))
            return list(held.values())
        if isinstance(value, (list, collections.deque, set)):
            items = list(value)
            self.undo.append(lambda: put_back(value, items))
            return items
        if isinstance(value, (tuple, frozenset)):
            return list(value)
        own = getattr(value, "__dict__", None)
        return [own] if type(own) is dict and not type(value).__module__.startswith("torch._") else []

    def tensor(self, value: torch.Tensor) -> None:
        if value.device.type == "meta" or value.layout is not torch.strided:
            return
        before, grad = value.detach().clone(), value.grad if value.is_leaf else None

        def undo() -> None:
            if not torch.equal(value, before):
                value.copy_(before)
            if value.is_leaf and value.grad is not grad:
                value.grad = grad

        self.undo.append(undo)


def put_back_dict(value: dict[Any, Any], before: dict[Any, Any]) -> None:
    if list(value) != list(before) or any(value[key] is not before[key] for key in before):
        dict.clear(value)
        dict.update(value, before)


def put_back(value: Any, before: list[Any]) -> None:
    now = list(value)
    if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
        value.clear()
        (value.update if isinstance(value, set) else value.extend)(before)
