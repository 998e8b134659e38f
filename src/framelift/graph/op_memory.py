"""The op memory: what an operator does to metadata, remembered.

`(function, argument metadata, global torch state) -> result metadata` makes a repeated layer cost a
lookup rather than a run on fakes. It is exact, or bypassed: an operator is remembered only when it
was seen to change nothing of its arguments but values, and its results are fresh tensors, arguments
themselves or views of arguments (which are then views to autograd too, so that in-place operations on
them do what they would have done). The memory belongs to the process; keys hold metadata only, no
tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _guards
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.fakes import Fakes, nbytes
from framelift.graph.symbolic_memory import SymbolicMemory
from framelift.graph.symbols import SYMBOLIC, spread

LIMIT = 50_000

creation_of: Callable[[torch.Tensor], Any] = torch._C._autograd._get_creation_meta


class Meta(NamedTuple):
    """Everything about a plain fake that an operator's result can depend on."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool
    is_param: bool
    is_empty_constant: bool = False
    """Whether torch knows what is in it, which is nothing."""
    spelled: Any = None
    """With symbols among the sizes, which can't be hashed: the same with expressions in their place."""

    def with_numbers(self, change: Callable[[Any], Any]) -> Meta:
        """The same with other sizes, strides and offset."""
        sizes, strides = tuple(map(change, self.sizes)), tuple(map(change, self.strides))
        changed = self._replace(sizes=sizes, strides=strides, offset=change(self.offset), spelled=None)
        is_symbolic = any(type(n) in SYMBOLIC for n in (*sizes, *strides, changed.offset))
        return changed._replace(spelled=spelled(changed)) if is_symbolic else changed


class Fresh(NamedTuple):
    meta: Meta


class ViewOfFresh(NamedTuple):
    """A view of a tensor that the operator made and nobody else has, as `linear` gives for batches."""

    base: Meta
    meta: Meta
    creation: int


class ViewOf(NamedTuple):
    argument: int
    meta: Meta
    creation: int | None
    """How autograd says the view was made; None: not a view to autograd, as `detach` makes."""


class Same(NamedTuple):
    argument: int


Result = Fresh | ViewOfFresh | ViewOf | Same


class Remembered(NamedTuple):
    """What a call gives: one tensor, or a sequence of them; whether it draws random numbers, and whether it
    may fail on other data."""

    results: tuple[Result, ...]
    container: type | None
    random: bool
    fails: bool
    written: tuple[tuple[int, int], ...] = ()
    """The arguments that it writes to, and by how much their versions go up."""

    def fits(self, tensors: list[torch.Tensor]) -> bool:
        """Whether what it writes to are tensors of their own: to write to a view may be an error."""
        return not any([tensors[n]._is_view() for n, _ in self.written])


class Unkeyable(Exception):
    """An argument that no key can stand for."""


_memory: dict[Any, Remembered] = {}
_empty_constants: dict[tuple[torch.dtype, torch.device], Any] = {}
"""Tensors with nothing in them, which torch knows of a fake that was made of an empty list."""
_bypassed = False


@contextlib.contextmanager
def bypassed() -> Iterator[None]:
    """Nothing is remembered, nor looked up: what the memory must not be told apart from."""
    global _bypassed
    before, _bypassed = _bypassed, True
    try:
        yield
    finally:
        _bypassed = before


def state() -> tuple[Any, ...]:
    """The flags of torch on which an operator's result depends; the last ones choose between kernels,
    whose results may be laid out differently."""
    c = torch._C
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        c._is_any_autocast_enabled() and autocast_state(),
        c._get_mkldnn_enabled(),
        c._get_cudnn_enabled(),
        c._get_math_sdp_enabled(),
        c._get_flash_sdp_enabled(),
        c._get_mem_efficient_sdp_enabled(),
        c._get_cudnn_sdp_enabled(),
        c._get_deterministic_algorithms(),
    )


def autocast_state() -> tuple[Any, ...]:
    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    return tuple([(device, enabled(device), dtype(device)) for device in ("cpu", "cuda")])


PYTHON_ATOMS = {int, float, bool, complex, str, type(None), type(Ellipsis)}
ATOMS = frozenset({*PYTHON_ATOMS, torch.dtype, torch.device, torch.layout, torch.memory_format})
"""Types of arguments that a key holds as they are."""


class Keys:
    """Makes keys for one trace; a fake's metadata is read once and kept while it does not change."""

    def __init__(self, fakes: Fakes) -> None:
        self.fakes = fakes
        self.metas: dict[int, Meta | None] = {}
        self.excluded: set[int] = set()
        self.symbolic: SymbolicMemory | None = None
        """What is remembered of calls with symbols, from when there are some."""
        self.fresh_models: dict[Any, torch.Tensor] = {}
        self.view_models: dict[Any, torch.Tensor] = {}
        """Metadata with symbols -> a tensor to make others like. What follows from its sizes has been
        computed, which takes longer than all the rest."""

    def meta(self, fake: torch.Tensor) -> Meta:
        found = self.metas.get(id(fake), False)
        if found is False:
            found = self.metas[id(fake)] = read_meta(fake)
        if found is None:
            raise Unkeyable
        return found  # type: ignore[return-value]

    def forget(self, fake: torch.Tensor) -> None:
        if id(fake) not in self.excluded:
            self.metas.pop(id(fake), None)

    def exclude(self, fake: torch.Tensor) -> None:
        """No key can stand for this one, whatever is done to it."""
        self.metas[id(fake)] = None
        self.excluded.add(id(fake))

    def key(
        self, func: Any, args: Any, kwargs: dict[str, Any], state: tuple[Any, ...]
    ) -> tuple[Any, list[torch.Tensor]] | None:
        """The call's key and its tensors in order; None when there can't be one."""
        if _bypassed:
            return None
        parts: list[Any] = [func, state]
        tensors: list[torch.Tensor] = []
        places: dict[int, int] = {}
        try:
            self.add(args, parts, tensors, places)
            if kwargs:
                parts.append(tuple(kwargs))
                self.add(tuple(kwargs.values()), parts, tensors, places)
            key = tuple(parts)
            hash(key)
        except (Unkeyable, TypeError):
            return None
        return key, tensors

    def add(self, values: Any, parts: list[Any], tensors: list[torch.Tensor], places: dict[int, int]) -> None:
        """`places`: id of a tensor -> where it is first among the `tensors`."""
        parts.append(len(values))
        for value in values:
            cls = type(value)
            if cls is FakeTensor:
                meta = self.meta(value)
                parts.append(meta.spelled or meta)
                # which arguments are one tensor decides what a result can be a view of
                place = places.setdefault(id(value), len(tensors))
                parts.append(place if place < len(tensors) else -1)
                tensors.append(value)
            elif cls in ATOMS:
                parts.append(cls)
                parts.append(value)
            elif cls is tuple or cls is list or cls is torch.Size:
                parts.append(cls)
                self.add(value, parts, tensors, places)
            elif cls is slice:
                parts.append(cls)
                self.add((value.start, value.stop, value.step), parts, tensors, places)
            elif cls in SYMBOLIC:
                parts.append(Spelled((cls, value.node.expr)))
            else:
                raise Unkeyable


class Spelled(tuple[Any, ...]):
    """A part of a key with symbolic expressions in it."""

    __slots__ = ()


def is_symbolic_key(key: tuple[Any, ...]) -> bool:
    return any(type(part) is Spelled for part in key)


def read_meta(fake: Any) -> Meta | None:
    if type(fake) is not FakeTensor or fake.layout is not torch.strided:
        return None
    constant = fake.constant
    if constant is not None and (constant.dim() != 1 or constant.numel()):
        return None
    if fake.is_conj() or fake.is_neg() or fake.is_quantized or fake.is_inference():
        return None
    try:
        is_leaf = fake.is_leaf
    except RuntimeError:  # a view that autograd no longer vouches for; whoever uses it is told
        return None
    symbolic, is_param = fake._has_symbolic_sizes_strides, getattr(fake, "_is_param", False)
    sizes, strides, offset = tuple(fake.shape), fake.stride(), fake.storage_offset()
    if not symbolic:
        offset = int(offset)
    about = fake.dtype, fake.device, fake.requires_grad, is_leaf, is_param, constant is not None
    meta = Meta(sizes, strides, offset, *about)
    return meta._replace(spelled=spelled(meta)) if symbolic else meta


def spelled(meta: Meta) -> Spelled:
    numbers = (*meta.sizes, *meta.strides, meta.offset)
    expressions = [n.node.expr if type(n) in SYMBOLIC else n for n in numbers]
    return Spelled((len(meta.sizes), *expressions, *meta[3:-1]))


def lookup(key: Any, keys: Keys) -> Remembered | None:
    if keys.fakes.shape_env is None or not is_symbolic_key(key):
        return _memory.get(key)
    if keys.symbolic is None:
        keys.symbolic = SymbolicMemory(keys.fakes.shape_env)
    return keys.symbolic.lookup(key)


DETACHES = frozenset({torch.Tensor.detach, torch.detach})
"""Results that share memory and version with the argument, and are no views to autograd."""


Writes = tuple[tuple[int, int], ...]


def writes_of(
    tensors: list[torch.Tensor], metas: list[Meta], versions: list[int], written: list[torch.Tensor]
) -> Writes | None:
    """What a call has written to, if it has changed nothing but values: `metas` and `versions` are those from
    before it. None where that can't be remembered."""
    if any([read_meta(tensor) != meta for tensor, meta in zip(tensors, metas, strict=True)]):
        return None
    places = {id(tensor): n for n, tensor in reversed([*enumerate(tensors)])}
    found: dict[int, int] = {}
    for tensor in written:
        n = places.get(id(tensor))
        if n is None or tensor._is_view():
            return None
        if metas[n].requires_grad and metas[n].is_leaf and torch.is_grad_enabled():
            return None
        found[n] = tensor._version - versions[n]
    return tuple(found.items())


def remember(
    key: Any,
    keys: Keys,
    tensors: list[torch.Tensor],
    out: Any,
    random: bool,
    fails: bool = False,
    written: Writes = (),
) -> Remembered | None:
    """Keeps what a call gave, if it can be given again exactly; gives what is kept."""
    container = None
    outputs = () if out is None and written else (out,)
    if type(out) in (tuple, list) or hasattr(type(out), "n_sequence_fields"):
        container, outputs = type(out), tuple(out)
    owners: dict[int, int] = {}
    shared: set[int] = set()
    for n, tensor in enumerate(tensors):
        where = storage(tensor)
        if tensors[owners.setdefault(where, n)] is not tensor:
            shared.add(where)
    results: list[Result] = []
    fresh: set[int] = set()
    places = {id(tensor): n for n, tensor in reversed([*enumerate(tensors)])}
    for output in outputs:
        if type(output) is not FakeTensor:
            return None
        same = places.get(id(output))
        if same is not None:
            results.append(Same(same))
            continue
        result = relation(key[0], tensors, owners, output)
        where = storage(output)
        if result is None or where in shared or where in fresh:
            return None  # which argument a view is of is not known; or results share memory with each other
        if type(result) is not ViewOf:
            fresh.add(where)
        results.append(result)
    found = Remembered(tuple(results), container, random, fails, written)
    if keys.symbolic is not None and is_symbolic_key(key):
        keys.symbolic.remember(key, found)
        return found
    if len(_memory) >= LIMIT:
        _memory.clear()
    _memory[key] = found
    return found


def relation(
    func: Any, tensors: list[torch.Tensor], owners: dict[int, int], output: FakeTensor
) -> Result | None:
    """What a result is to the arguments; None if it can't be made again."""
    meta = read_meta(output)
    if meta is None or meta.is_param:
        return None
    base = owners.get(storage(output))
    if meta.is_empty_constant:
        if base is not None or output._is_view() or output.requires_grad or not is_minimal(output, meta):
            return None
        _empty_constants[meta.dtype, meta.device] = output.constant
        return Fresh(meta)
    if base is None:
        if not output._is_view():
            return Fresh(meta) if is_minimal(output, meta) else None
        whole = read_meta(output._base)
        if whole is None or whole.is_param or not is_minimal(output, whole) or whole.dtype is not meta.dtype:
            return None
        return ViewOfFresh(whole, meta, int(creation_of(output)))
    if meta.dtype is not tensors[base].dtype or tensors[base].is_inference():
        return None
    if output._is_view():
        return ViewOf(base, meta, int(creation_of(output)))
    return ViewOf(base, meta, None) if func in DETACHES else None


def is_minimal(output: torch.Tensor, meta: Meta) -> bool:
    """Whether a tensor's storage is as large as it needs to be, and no larger."""
    if meta.spelled is not None:
        at_start = type(meta.offset) is int and meta.offset == 0
        return at_start and symbolic_shapes.statically_known_true(
            nbytes(output) == spread(meta) * meta.dtype.itemsize
        )
    if meta.offset:
        return False
    needed = 0 if 0 in meta.sizes else spread(meta) * meta.dtype.itemsize
    return nbytes(output) == needed


def storage(tensor: torch.Tensor) -> int:
    """What tensors that lie in the same memory have in common."""
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:  # a sparse tensor has none of its own
        return -id(tensor)


def produce(found: Remembered, keys: Keys, tensors: list[torch.Tensor]) -> Any:
    """Fresh fakes with the remembered metadata."""
    container = found.container
    if container is None:
        if not found.results:
            return None
        return produce_one(found.results[0], keys, tensors)
    made = [produce_one(result, keys, tensors) for result in found.results]
    return made if container is list else container(made)


def produce_one(result: Result, keys: Keys, tensors: list[torch.Tensor]) -> torch.Tensor:
    kind = type(result)
    if kind is Fresh:
        fake = fresh(keys, result.meta)  # type: ignore[union-attr]
    elif kind is ViewOf:
        fake = view(keys, tensors[result.argument], result.meta, result.creation)  # type: ignore[union-attr]
    elif kind is ViewOfFresh:
        base = fresh(keys, result.base)  # type: ignore[union-attr]
        fake = view(keys, base, result.meta, result.creation)  # type: ignore[union-attr]
    else:
        return tensors[result.argument]  # type: ignore[union-attr]
    keys.metas[id(fake)] = result.meta  # type: ignore[union-attr]
    return fake


def fresh(keys: Keys, meta: Meta) -> torch.Tensor:
    if meta.spelled is None:
        raw = _guards.empty_meta(meta.sizes, meta.strides, meta.dtype)
    else:
        model = keys.fresh_models.get(meta.spelled)
        if model is None:
            model = _guards.empty_meta(meta.sizes, meta.strides, meta.dtype)
            keys.fresh_models[meta.spelled] = model
        raw = _guards.meta_like(model)
    fake = keys.fakes.wrap(raw, meta.device, meta.requires_grad and meta.is_leaf)
    if not meta.is_leaf:
        _guards.fake_history(fake)
    if meta.is_empty_constant:
        fake.constant = _empty_constants[meta.dtype, meta.device]
    return fake


def view(keys: Keys, base: torch.Tensor, meta: Meta, creation: int | None) -> torch.Tensor:
    model = None if meta.spelled is None else keys.view_models.get(meta.spelled)
    if model is None:
        raw = _guards.view_meta(base, meta.sizes, meta.strides, meta.offset)
        if meta.spelled is not None:
            keys.view_models[meta.spelled] = raw
    else:
        raw = _guards.meta_like(model, base)
    fake = keys.fakes.wrap(raw, meta.device, False)
    if creation is not None:
        _guards.as_view(base, fake, creation)
    if not meta.is_leaf:
        _guards.fake_history(fake)
    return fake
