"""The op memory: what an operator does to metadata, remembered.

`(function, argument metadata, global torch state) -> result metadata` makes a repeated layer cost a
lookup rather than a run on fakes. It is exact, or bypassed: an operator is remembered only when it
was seen to change none of its arguments, and its results are fresh tensors, arguments themselves or
views of arguments (which are then reproduced as such). The memory belongs to the process; keys hold
metadata only, no tensors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _guards
from framelift.tensors.fakes import Fakes

LIMIT = 50_000


class Meta(NamedTuple):
    """Everything about a plain fake that an operator's result can depend on."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool
    is_param: bool


class Fresh(NamedTuple):
    meta: Meta


class ViewOf(NamedTuple):
    argument: int
    meta: Meta


class Same(NamedTuple):
    argument: int


Result = Fresh | ViewOf | Same


class Remembered(NamedTuple):
    """What a call gives: one tensor, or a tuple/list of them; and whether it draws random numbers."""

    results: tuple[Result, ...]
    container: type | None
    random: bool


class Unkeyable(Exception):
    """An argument that no key can stand for."""


_memory: dict[Any, Remembered] = {}


def state() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch._C._is_any_autocast_enabled() and autocast_state(),
    )


def autocast_state() -> tuple[Any, ...]:
    return tuple(
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")
    )


ATOMS = frozenset(
    {
        int,
        float,
        bool,
        complex,
        str,
        type(None),
        type(Ellipsis),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)


class Keys:
    """Makes keys for one trace; a fake's metadata is read once and kept while it does not change."""

    def __init__(self, fakes: Fakes) -> None:
        self.fakes = fakes
        self.metas: dict[int, Meta | None] = {}

    def meta(self, fake: torch.Tensor) -> Meta:
        found = self.metas.get(id(fake), False)
        if found is False:
            found = self.metas[id(fake)] = read_meta(fake)
        if found is None:
            raise Unkeyable
        return found  # type: ignore[return-value]

    def forget(self, fake: torch.Tensor) -> None:
        self.metas.pop(id(fake), None)

    def key(self, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, list[torch.Tensor]] | None:
        """The call's key and its tensors in order; None when there can't be one."""
        parts: list[Any] = [func, state()]
        tensors: list[torch.Tensor] = []
        try:
            self.add(args, parts, tensors)
            if kwargs:
                parts.append(tuple(kwargs))
                self.add(tuple(kwargs.values()), parts, tensors)
            key = tuple(parts)
            hash(key)
        except (Unkeyable, TypeError):
            return None
        return key, tensors

    def add(self, values: Any, parts: list[Any], tensors: list[torch.Tensor]) -> None:
        parts.append(len(values))
        for value in values:
            cls = type(value)
            if cls is FakeTensor:
                parts.append(self.meta(value))
                # which arguments are one tensor decides what a result can be a view of
                parts.append(next((n for n, seen in enumerate(tensors) if seen is value), -1))
                tensors.append(value)
            elif cls in ATOMS:
                parts.append(cls)
                parts.append(value)
            elif cls is tuple or cls is list or cls is torch.Size:
                parts.append(cls)
                self.add(value, parts, tensors)
            elif cls is slice:
                parts.append(cls)
                self.add((value.start, value.stop, value.step), parts, tensors)
            else:
                raise Unkeyable


def read_meta(fake: Any) -> Meta | None:
    if (
        type(fake) is not FakeTensor
        or fake.layout is not torch.strided
        or fake.constant is not None
        or fake.is_conj()
        or fake.is_neg()
        or fake.is_quantized
        or any(type(size) is not int for size in fake.shape)
        or fake.is_inference()
    ):
        return None
    return Meta(
        tuple(fake.shape),
        fake.stride(),
        fake.storage_offset(),
        fake.dtype,
        fake.device,
        fake.requires_grad,
        fake.is_leaf,
        getattr(fake, "_is_param", False),
    )


def lookup(key: Any) -> Remembered | None:
    return _memory.get(key)


def remember(key: Any, keys: Keys, tensors: list[torch.Tensor], out: Any, random: bool) -> None:
    """Keeps what a call gave, if it can be given again exactly."""
    container = None
    outputs = (out,)
    if type(out) in (tuple, list):
        container, outputs = type(out), tuple(out)
    storages = {storage(t): n for n, t in reversed(list(enumerate(tensors)))}
    results: list[Result] = []
    fresh: set[int] = set()
    for output in outputs:
        if type(output) is not FakeTensor:
            return
        same = next((n for n, t in enumerate(tensors) if t is output), None)
        if same is not None:
            results.append(Same(same))
            continue
        meta = read_meta(output)
        if meta is None or meta.is_param:
            return
        where = storage(output)
        base = storages.get(where)
        if base is not None:
            if meta.dtype is not tensors[base].dtype:
                return
            results.append(ViewOf(base, meta))
        elif where in fresh or meta.offset:
            return  # results that share memory with each other, or lie inside a larger one
        else:
            fresh.add(where)
            results.append(Fresh(meta))
    if len(_memory) >= LIMIT:
        _memory.clear()
    _memory[key] = Remembered(tuple(results), container, random)


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def produce(found: Remembered, keys: Keys, tensors: list[torch.Tensor]) -> Any:
    """Fresh fakes with the remembered metadata."""
    made = tuple(produce_one(result, keys, tensors) for result in found.results)
    if found.container is None:
        return made[0]
    return made if found.container is tuple else list(made)


def produce_one(result: Result, keys: Keys, tensors: list[torch.Tensor]) -> torch.Tensor:
    if type(result) is Same:
        return tensors[result.argument]
    meta = result.meta
    if type(result) is ViewOf:
        raw = _guards.view_meta(tensors[result.argument], meta.sizes, meta.strides, meta.offset)
    else:
        raw = _guards.empty_meta(meta.sizes, meta.strides, meta.dtype)
    fake = keys.fakes.wrap(raw, meta.device, meta.requires_grad)
    if meta.requires_grad and not meta.is_leaf:
        _guards.fake_history(fake)
    keys.metas[id(fake)] = meta
    return fake
