"""What a function is run with, to run it again on equal terms: copies of its inputs, random numbers,
parameters, and what else it can reach; and inputs that lie in memory in odd ways.

A copy of several inputs has what they have in common: tensors that share memory still do, an object that is
there twice is one object. Strides, offsets and `requires_grad` are kept.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from framelift.dispatch.random_states import save_rng_state


def clone_inputs(example_inputs: Any) -> Any:
    """A copy of inputs - tensors, or containers and objects with tensors - that shares nothing with them.

    What can't be copied (a lock, an open file) is the same object in the copy. A tensor that other
    computations led to is copied as one that nothing led to.

    >>> import torch
    >>> base = torch.zeros(2, 3, requires_grad=True)
    >>> (a, b) = clone_inputs((base, base.t()))
    >>> a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr(), b.stride(), a.requires_grad
    (True, (1, 3), True)
    """
    with torch.no_grad():
        return Cloning().of(example_inputs)


class Cloning:
    """One copy; `memo` is that of `copy.deepcopy`, which makes what this does not know."""

    def __init__(self, tensors: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        self.memo: dict[Any, Any] = {}
        self.convert = tensors
        """What becomes of a tensor, if not a copy."""

    def of(self, value: Any) -> Any:
        if id(value) in self.memo:
            return self.memo[id(value)]
        made = self.made(value)
        self.memo[id(value)] = made
        self.memo.setdefault(id(self.memo), []).append(value)  # so that its id is not another's meanwhile
        return made

    def made(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        kind = type(value)
        if kind is dict:
            made = self.memo[id(value)] = {}
            made.update((key, self.of(each)) for key, each in value.items())
            return made
        if kind is list:
            listed = self.memo[id(value)] = []
            listed.extend(map(self.of, value))
            return listed
        if isinstance(value, tuple) and (kind is tuple or hasattr(kind, "_make")):
            parts = list(map(self.of, value))
            return tuple(parts) if kind is tuple else kind._make(parts)
        return self.other(value)

    def other(self, value: Any) -> Any:
        if isinstance(value, torch.Generator):
            return value.clone_state()
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
            made = self.memo[id(value)] = object.__new__(type(value))
            vars(made).update((name, self.of(each)) for name, each in vars(value).items())
            return made
        if isinstance(value, torch.nn.Module):
            for tensor in (*value.parameters(), *value.buffers()):
                self.of(tensor)
        try:
            return copy.deepcopy(value, self.memo)
        except Exception:
            return value

    # ---- tensors

    def tensor(self, value: torch.Tensor) -> torch.Tensor:
        if self.convert is not None:
            made = self.convert(value)
        elif has_storage(value):
            made = self.on_storage(value)
        else:
            made = value.detach().clone()
        if isinstance(value, torch.nn.Parameter) and not isinstance(made, torch.nn.Parameter):
            made = torch.nn.Parameter(made, value.requires_grad)
        else:
            made.requires_grad_(value.requires_grad and (made.is_floating_point() or made.is_complex()))
        if value.is_leaf and value.grad is not None:
            made.grad = self.of(value.grad)
        for name, each in getattr(value, "__dict__", {}).items():
            setattr(made, name, copy.copy(each))
        return made

    def on_storage(self, value: torch.Tensor) -> torch.Tensor:
        """Where it lies in a copy of its memory, which others may lie in too."""
        storage = value.untyped_storage()
        storages = self.memo.setdefault("torch", {})  # where `copy.deepcopy` of a tensor looks
        if storage._cdata not in storages:
            storages[storage._cdata] = storage.clone()
            self.memo.setdefault(id(self.memo), []).append(storage)
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        made.set_(storages[storage._cdata], value.storage_offset(), value.size(), value.stride())
        if value.is_conj():
            made = made.conj()
        return torch._neg_view(made) if value.is_neg() else made


def has_storage(value: torch.Tensor) -> bool:
    plain = type(value) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return plain and value.layout is torch.strided and not value.is_quantized and value.device.type != "meta"


def as_float64(inputs: Any) -> Any:
    """A copy of inputs in which floating-point numbers in tensors have double precision."""

    def wider(value: torch.Tensor) -> torch.Tensor:
        if not (value.is_floating_point() or value.is_complex()) or value.is_quantized:
            return value.detach().clone()
        return value.detach().to(torch.complex128 if value.is_complex() else torch.float64, copy=True)

    with torch.no_grad():
        return Cloning(wider).of(inputs)


# ---- random numbers


@contextlib.contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Whatever is drawn in the block, afterwards the generators - torch's of all devices, Python's, NumPy's -
    stand where they stood before.

    >>> import torch
    >>> with preserve_rng_state():
    ...     a = torch.rand(2)
    >>> torch.equal(a, torch.rand(2))
    True
    """
    restore = save_rng_state()
    try:
        yield
    finally:
        restore()


# ---- parameters


def checkpoint_parameters(*modules: torch.nn.Module) -> Callable[[], None]:
    """Remembers parameters, buffers and gradients of modules; gives a function that puts them back.

    >>> import torch
    >>> net = torch.nn.Linear(2, 2)
    >>> before = net.weight.clone()
    >>> restore = checkpoint_parameters(net)
    >>> _ = torch.nn.init.zeros_(net.weight)
    >>> restore()
    >>> torch.equal(net.weight, before)
    True
    """
    each = {id(t): t for module in modules for t in (*module.parameters(), *module.buffers())}
    kept = [(t, clone_inputs(t)) for t in each.values()]

    def restore() -> None:
        with torch.no_grad():
            for tensor, before in kept:
                tensor.copy_(before)
                tensor.grad = None if before.grad is None else before.grad.clone()

    return restore


# ---- what it can reach besides its arguments


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
        namespace = inner.__globals__
        before = {name: namespace[name] for name in inner.__code__.co_names if name in namespace}
        self.undo.append(lambda: namespace.update(before))
        for value in before.values():
            self.see(value)

    def cell(self, cell: CellType) -> None:
        try:
            before = cell.cell_contents
        except ValueError:
            return
        self.undo.append(lambda: setattr(cell, "cell_contents", before))
        self.see(before)

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


# ---- layouts


def rand_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    *,
    offset: int = 0,
    requires_grad: bool = False,
) -> torch.Tensor:
    """Random numbers, laid out like this: from a normal distribution, or small integers.

    >>> x = rand_strided((2, 3), (1, 2))
    >>> x.shape, x.stride()
    (torch.Size([2, 3]), (1, 2))
    """
    needed = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if min(size, default=1) <= 0:
        needed = offset
    if dtype is torch.bool:
        memory = torch.randint(0, 2, (needed,), device=device).to(dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        wide = dtype if dtype in (torch.float64, torch.complex128, torch.complex64) else torch.float32
        memory = torch.randn(needed, dtype=wide, device=device).to(dtype)
    else:
        memory = torch.randint(0, 16, (needed,), device=device).to(dtype)
    return memory.as_strided(tuple(size), tuple(stride), offset).requires_grad_(requires_grad)


def random_layouts(
    size: Sequence[int], count: int = 4, seed: int = 0, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    """Tensors of one shape, laid out differently: contiguous, with dimensions in another order, with gaps,
    with an offset, expanded. The same ones each time for a seed.

    >>> [x.stride() for x in random_layouts((2, 3), count=2)]
    [(3, 1), (1, 2)]
    """
    chance = random.Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = [rand_strided(size, strides(size, range(len(size))), dtype)]
        while len(made) < count:
            order = list(range(len(size)))
            if len(made) == 1:
                order.reverse()
            else:
                chance.shuffle(order)
            gap = 1 if len(made) == 1 else chance.choice((1, 2, 3))
            found = strides(size, order, gap)
            if len(made) > 2 and chance.random() < 0.3:
                found = tuple(0 if n == order[0] else s for n, s in enumerate(found))
            offset = 0 if len(made) == 1 else chance.choice((0, 1, 5))
            made.append(rand_strided(size, found, dtype, offset=offset))
    return made


def strides(size: Sequence[int], order: Sequence[int], gap: int = 1) -> tuple[int, ...]:
    """Those of a tensor whose dimensions lie in this order, the last one innermost."""
    found, step = [0] * len(size), gap
    for dim in reversed(order):
        found[dim] = step
        step *= max(size[dim], 1)
    return tuple(found)
