"""What a trace does beside computing: it writes to tensors, draws random numbers, sets `requires_grad`, and
gives tensors the memory of others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import increment_version

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.builder import GraphBuilder, GraphInput
from framelift.graph.fakes import PLAIN_CLASSES, nbytes
from framelift.graph.functions import describe, is_custom, tensors_of
from framelift.graph.op_memory import DETACHES, Keys, storage
from framelift.graph.shared_memory import tensors_within

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder

Tensor = torch.Tensor
Setter = Callable[[Any, Any], Any]
DATA: Any = vars(torch._C.TensorBase)["data"].__get__
UNDIFFERENTIATED = DETACHES | {DATA, Tensor.requires_grad_}
"""What may be done with a tensor that requires grad, and gives none that is differentiated up to it."""

COPY_LIMIT = 1 << 20
"""So many bytes of inputs, or one in 50 of all, are copied so that they can have their values back."""


class Mutations:
    """The writes to tensors in one trace. A body knows those within it too (`GraphBody.changed`)."""

    def __init__(self, builder: GraphBuilder, keys: Keys, behind: dict[int, Any]) -> None:
        self.builder = builder
        self.keys = keys
        self.behind = behind
        """id of a fake -> the wrapper that it is the face of."""
        self.changed: dict[int, FakeTensor] = {}
        """id of a fake that was written to -> the fake."""
        self.in_storage: dict[int, list[FakeTensor]] = {}
        """Storage -> the fakes in it, as far as the builder's have been gone through."""
        self.indexed = 0
        self.marked: dict[int, int] = {}
        """Storage -> how many of these have been noted as changed, outside bodies."""
        self.remembered: dict[int, list[torch.Tensor]] = {}
        """Storage -> the fakes in it whose metadata may be remembered."""
        self.first_written: dict[int, int] = {}
        """Storage -> the number of the first call that writes to it."""
        self.sizes: list[int] = []
        """Those of the inputs so far, in bytes."""
        self.whole = 0
        """How large they are together."""

    def note(self, written: list[torch.Tensor], tensors: list[torch.Tensor]) -> bool:
        """Whether any of the `tensors` was written to. That concerns all that lies in the same memory."""
        storages = {where for tensor in written for where in self.memory(tensor)}
        changed = {where for tensor in tensors for where in self.memory(tensor) if where in storages}
        builder = self.builder
        for fake in builder.kept[self.indexed :]:
            self.add_to_storage(fake)
        self.indexed = len(builder.kept)
        for tensor in self.keys.read:
            for where in self.memory(tensor):
                self.remembered.setdefault(where, []).append(tensor)
        self.keys.read.clear()
        place = builder.place() if changed and builder.in_body else None
        for where in changed:
            self.first_written.setdefault(where, builder.calls + 1)
            for tensor in self.remembered.pop(where, ()):
                self.keys.forget(tensor)
            held = self.in_storage.get(where, [])
            for fake in held if builder.in_body else held[self.marked.get(where, 0) :]:
                self.changed[id(fake)] = fake
                builder.body.changed[id(fake)] = place
            if not builder.in_body:
                self.marked[where] = len(held)
        return bool(changed)

    def add_to_storage(self, fake: FakeTensor) -> None:
        """A tensor lies in the memory that it lies in now."""
        for where in self.memory(fake):
            self.in_storage.setdefault(where, []).append(fake)

    def memory(self, fake: torch.Tensor) -> Iterable[int]:
        """Where a tensor lies: one that wraps others, where these do."""
        if not self.behind:
            return (storage(fake),)
        wrapper = self.behind.get(id(fake), fake)
        return {storage(tensor) for _, tensor in tensors_within(wrapper)}

    @property
    def of_inputs(self) -> bool:
        """Whether any input was written to."""
        return any(id(entry.stand_in) in self.changed for entry in self.builder.inputs.entries)

    def inputs_written(self, until: int) -> tuple[list[GraphInput], list[GraphInput]]:
        """The inputs that calls up to a certain one have written to, and those that only later ones have."""
        early: list[GraphInput] = []
        late: list[GraphInput] = []
        for entry in self.builder.inputs.entries:
            if id(entry.stand_in) in self.changed:
                number = self.first_written.get(storage(entry.stand_in), 0)
                (early if number <= until else late).append(entry)
        return early, late

    def can_put_back(self, until: int) -> bool:
        """Whether the inputs that calls up to a certain one have written to can have their values back where
        that fails: copies of them are made each time the graph runs."""
        early, _ = self.inputs_written(until)
        if not early:
            return True
        size, whole = (sum(map(size_of, entries)) for entries in (early, self.builder.inputs.entries))
        return size <= max(COPY_LIMIT, whole // 50) and all(map(is_simply_written, early))

    def can_put_all_back(self) -> bool:
        """The same of all inputs that were written to so far, while the trace goes on. Many calls may ask."""
        inputs = self.builder.inputs
        for entry in inputs.entries[len(self.sizes) :]:
            self.sizes.append(size_of(entry))
            self.whole += self.sizes[-1]
        places = [place for fake in self.changed if (place := inputs.index_of.get(fake)) is not None]
        if sum([self.sizes[place] for place in places]) > max(COPY_LIMIT, self.whole // 50):
            return False
        return all([is_simply_written(inputs.entries[place]) for place in places])

    def written_inputs(self) -> tuple[int, ...]:
        """The numbers of those that were."""
        entries = enumerate(self.builder.inputs.entries)
        return tuple([n for n, entry in entries if id(entry.stand_in) in self.changed])

    def refuse_overlap(self, *coming: torch.Tensor) -> None:
        """A graph is given tensors, and does not know which bytes NumPy's arrays have in common with others.
        That matters as soon as somebody writes there."""
        if not self.builder.inputs.arrays or not self.of_inputs:
            return
        if self.behind or any(itertools.starmap(overlap, self.to_lie_apart(*coming))):
            raise Break(breaks.NUMPY, "an input changes, with which an array from outside shares memory")

    def to_lie_apart(self, *coming: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs of inputs, one of them an array, that must not share memory since one is written to."""
        inputs = self.builder.inputs
        written = [inputs.entries[n].value for n in self.written_inputs()]
        known = [*(entry.value for entry in inputs.entries), *coming]
        tensors = [value for value in known if isinstance(value, Tensor)]
        for first in filter(lambda value: isinstance(value, Tensor), written):
            for second in tensors:
                is_array = id(first) in inputs.arrays or id(second) in inputs.arrays
                if is_array and first is not second:
                    yield first, second


def overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    return not _guards.lie_apart(first, second)


def size_of(entry: GraphInput) -> int:
    value = entry.value
    return value.numel() * value.element_size() if isinstance(value, Tensor) else 0


def is_simply_written(entry: GraphInput) -> bool:
    """Whether nothing but values has changed of an input, and they can be copied back."""
    fake, tensor = entry.stand_in, entry.value
    if type(fake) is not FakeTensor or fake.layout is not torch.strided or not fake.is_leaf:
        return False
    return not torch._debug_has_internal_overlap(tensor)


class RandomNumbers:
    """What one trace does with torch's generator. A body knows what it draws too (`GraphBody.draws`)."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.generator_set = False
        """Whether the program has set the generator after operators drew from it: then no other may."""
        self.may_set_late = True
        self.draws_after_seed = False
        """Whether one was about to all the same."""

    @property
    def drawn(self) -> bool:
        """Whether any operator has drawn, or may have."""
        return any(body.draws for body in self.builder.bodies)

    def note(self, func: Any) -> None:
        """An operator has drawn from torch's generator, or is the program's own and may have."""
        if torch._C._are_functorch_transforms_active():
            raise Break(breaks.RANDOM, f"{describe(func)}, within a transform of torch.func around the call")
        if self.generator_set:
            self.draws_after_seed = True
            raise Break(breaks.RANDOM, f"{describe(func)}, after seeding between operators that draw")
        self.builder.body.draws = True
        if is_custom(func):
            self.builder.failing.note_effect()

    def set_generator(self) -> bool:
        """The program sets the generator. Gives whether operators have drawn before: then none may after."""
        if self.drawn and not self.may_set_late:
            raise Break(breaks.RANDOM, "seeding between operators that draw")
        self.generator_set = self.generator_set or self.drawn
        return self.generator_set


class FlaggedInput(NamedTuple):
    fake: FakeTensor
    tensor: Tensor
    requires_grad: bool
    """What the program has set last."""


class RequiresGrad:
    """`Tensor.requires_grad_` in one trace.

    A compiler must know before a graph runs which inputs are differentiated. So one that the program makes
    a leaf on the way is made one before the graph runs, and the graph uses what is detached from it wherever
    the program used it before; one that is no longer differentiated is detached from there on. The region has
    the last word.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.builder = recorder.builder
        self.flagged: dict[int, FlaggedInput] = {}
        """Inputs on which the program has set `requires_grad`, by the id of what stands for them."""

    def set(self, fake: Any, requires_grad: bool = True) -> Any:
        """`Tensor.requires_grad_`."""
        if fake.requires_grad is bool(requires_grad):
            return fake
        inputs = self.builder.inputs
        at = inputs.index_of.get(id(fake))
        if any(follows(known, fake) for known in self.builder.kept):
            raise Break(breaks.EFFECT, "Tensor.requires_grad_ on a tensor of which there are views")
        if at is None:
            self.set_inside(fake, requires_grad)
        else:
            self.set_input(fake, *inputs.entries[at][:2], requires_grad)
        return fake

    def set_inside(self, fake: FakeTensor, requires_grad: bool) -> None:
        builder, histories = self.builder, self.recorder.histories
        if not requires_grad and builder.body.nodes[id(fake)].users:
            raise Break(breaks.GRADIENTS, "Tensor.requires_grad_(False) on a tensor that is differentiated")
        self.set_flag(fake, requires_grad)
        if requires_grad:
            builder.record(Tensor.requires_grad_, (fake,), {}, fake, pure=False)
            histories.leaves.append(fake)
        else:
            histories.leaves = [leaf for leaf in histories.leaves if leaf is not fake]
            self.detach_from_here(fake, builder.body.nodes[id(fake)])

    def set_input(self, fake: FakeTensor, node: torch.fx.Node, tensor: Tensor, requires_grad: bool) -> None:
        if self.builder.in_body or id(fake) in self.recorder.wrappers.behind:
            why = "Tensor.requires_grad_ on a tensor from outside, in an operator's body"
            raise Break(breaks.EFFECT, why)
        self.builder.inputs.note_fact("is_leaf", fake)
        self.set_flag(fake, requires_grad)
        if not requires_grad:
            self.detach_from_here(fake, node)
        else:
            self.builder.body.nodes[id(fake)] = node
            if id(fake) not in self.flagged:
                self.detach_up_to_here(node)
                self.recorder.histories.make_leaf(fake, node)
        self.flagged[id(fake)] = FlaggedInput(fake, tensor, requires_grad)

    def set_flag(self, fake: FakeTensor, requires_grad: bool) -> None:
        self.recorder.run(Tensor.requires_grad_, (fake, requires_grad), {})
        self.recorder.keys.forget(fake)

    def detach_from_here(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        body = self.builder.body
        body.nodes[id(fake)] = body.add_node("call_method", "detach", (node,))

    def detach_up_to_here(self, node: torch.fx.Node) -> None:
        """What has used an input so far uses what is detached from it."""
        used, body = list(node.users), self.builder.body
        if used:
            with body.graph.inserting_after(self.builder.inputs.entries[-1].node):
                detached = body.add_node("call_method", "detach", (node,))
            for user in used:
                user.replace_input_with(node, detached)

    def check(self) -> None:
        """What is written to a tensor that was detached has no way to its history."""
        for found in self.flagged.values():
            if not found.fake.is_leaf:
                raise Break(breaks.EFFECT, "a tensor that is no leaf any more, after Tensor.requires_grad_")

    def check_outputs(self, outputs: list[Any]) -> None:
        """A view of a flagged tensor can't live on."""
        for found in self.flagged.values():
            for output in outputs:
                if follows(output, found.fake):
                    raise Break(breaks.UNREBUILDABLE, FOLLOWING, culprit=output)


def follows(known: Any, base: FakeTensor) -> bool:
    """Whether something is a view without a history of its own: it requires grad if its base does."""
    if not (type(known) is FakeTensor and known._is_view() and known._base is base):
        return False
    try:
        return known.is_leaf
    except RuntimeError:  # autograd no longer vouches for it
        return True


FOLLOWING = "a view of a tensor that Tensor.requires_grad_ was called on: it requires grad as that does"


class DataReassignment:
    """Tensors of one trace that are given the memory of others (`x.data = y`, `x.set_(y)`).

    From there on a tensor is, to the graph, what lies in the other's memory. If it came in, the region gives
    the real one that memory when the graph has run. What would be differentiated up to it after that ends the
    trace.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.builder = recorder.builder
        self.reassigned: set[int] = set()
        """ids of inputs that require grad, and lie in other memory by now."""
        self.aliases: dict[int, FakeTensor] = {}
        """id of a tensor -> the alias of another one that it is from now on."""
        self.rewritten: set[int] = set()
        """ids of those aliases that were written to as that tensor, to which its version is due."""
        self.resized: set[int] = set()
        """ids of tensors that stand for nothing but the memory of one that was resized."""

    def assign(self, fake: FakeTensor, other: Any, how: str, setter: Setter) -> FakeTensor:
        """Has a tensor lie where another one does. What it is from now on: an alias of the other."""
        recorder, builder, class_of = self.recorder, self.builder, self.recorder.subclasses.class_of
        if type(other) is not FakeTensor or other is fake or builder.in_body:
            raise Break(breaks.EFFECT, f"{how}: of something else than a tensor, or in an operator's body")
        if class_of(fake) not in PLAIN_CLASSES or class_of(other) not in PLAIN_CLASSES:
            raise Break(breaks.TENSOR_KIND, f"{how} of a tensor subclass")
        nodes, leaves = builder.body.nodes, recorder.histories.leaves
        before = nodes[id(fake)]
        inside = id(fake) not in builder.inputs.index_of
        if inside and fake.requires_grad and (before.users or not any(leaf is fake for leaf in leaves)):
            raise Break(breaks.TENSOR_MEMORY, f"{how} of a tensor made inside that is differentiated")
        if fake.device != other.device or fake.layout is not other.layout:
            raise Break(breaks.EFFECT, f"{how}, to another device or layout")
        alias: FakeTensor = recorder.call(DATA, (other,), {})
        with torch._C.DisableTorchFunction():
            setter(fake, alias)
            increment_version(fake)  # what was found out about its values is no longer so
            recorder.mutations.add_to_storage(fake)
        fake.constant = None
        recorder.keys.forget(fake)
        if before.users:
            why = f"gradients after {how}, which histories may hold"
            recorder.histories.refuse_gradients(breaks.TENSOR_MEMORY, why)
        node = nodes[id(alias)]
        if fake.requires_grad and inside:
            node = builder.body.add_node("call_method", "requires_grad_", (node,))
            builder.impure.add(node)
        elif fake.requires_grad:
            self.reassigned.add(id(fake))
            builder.check_use = self.check_use
        nodes[id(fake)] = node
        self.aliases[id(fake)] = alias
        return alias

    def resize(self, fake: FakeTensor, sizes: tuple[Any, ...]) -> FakeTensor:
        """`Tensor.resize_`: memory that is too small is exchanged for larger one, with the same in it."""
        call = self.recorder.call
        with torch._C.DisableTorchFunction():
            if tuple(fake.shape) == sizes:
                return fake
            is_input = id(fake) in self.builder.inputs.index_of
            if is_input or fake.requires_grad or self.shares_memory(fake):
                raise Break(breaks.TENSOR_MEMORY, f"{RESIZING} from outside, differentiated, or with views")
            if fake.storage_offset() or not fake.is_contiguous():
                raise Break(breaks.TENSOR_MEMORY, f"{RESIZING} that does not fill its memory")
            held = nbytes(fake) // fake.element_size()
        if math.prod(sizes) <= held:
            made = call(torch.as_strided, (fake, sizes, contiguous(sizes)), {})
        else:
            made = call(torch.empty, (sizes,), {"dtype": fake.dtype, "device": fake.device})
            old, new = (call(torch.as_strided, (each, (held,), (1,)), {}) for each in (fake, made))
            call(Tensor.copy_, (new, old), {})
            self.resized.add(id(new))
        alias = self.assign(fake, made, RESIZING, set_data)
        self.resized |= {id(made), id(alias)}
        return fake

    def make_room(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """`out=` of empty tensors: they are given memory of the right size before the call, since compilers
        have no way to do it in the middle of one."""
        filled: list[Any] = tensors_of(kwargs["out"])
        inputs = self.builder.inputs.index_of
        if not any(is_empty(tensor) and id(tensor) not in inputs for tensor in filled):
            return
        recorder, without = self.recorder, {name: kwargs[name] for name in kwargs if name != "out"}
        for fake, like in zip(filled, tensors_of(recorder.run(func, args, without)), strict=False):
            if not is_empty(fake) or id(fake) in inputs or tuple(fake.shape) == tuple(like.shape):
                continue
            if fake.requires_grad or self.shares_memory(fake):
                raise Break(breaks.TENSOR_MEMORY, f"{FILLING} that is differentiated, or has views")
            where = {"dtype": fake.dtype, "device": fake.device}
            made = recorder.call(torch.empty_strided, (tuple(like.shape), like.stride()), where)
            self.give_memory(fake, made)

    def give_memory(self, fake: FakeTensor, made: FakeTensor) -> None:
        """Has a tensor made inside be one that the program never sees."""
        nodes, recorder = self.builder.body.nodes, self.recorder
        if nodes[id(fake)].users:
            why = f"gradients after {FILLING}, which histories may hold"
            recorder.histories.refuse_gradients(breaks.TENSOR_MEMORY, why)
        with torch._C.DisableTorchFunction():
            set_data(fake, made)
            increment_version(fake)
            recorder.mutations.add_to_storage(fake)
        fake.constant = None
        recorder.keys.forget(fake)
        nodes[id(fake)] = nodes[id(made)]
        self.resized.add(id(made))

    def shares_memory(self, fake: FakeTensor) -> bool:
        where = storage(fake)
        others = (known for known in self.builder.kept if known is not fake and id(known) not in self.resized)
        return any(isinstance(known, Tensor) and storage(known) == where for known in others)

    def note_written(self, written: list[Tensor]) -> None:
        """What is written to a reassigned tensor counts up its version."""
        for tensor in written if self.aliases else ():
            alias = self.aliases.get(id(tensor._base if tensor._is_view() else tensor))
            if alias is not None:
                self.rewritten.add(id(alias))

    def check_use(self, func: Any, fake: FakeTensor) -> None:
        """Breaks if a call would be differentiated up to a tensor that lies in other memory by now."""
        if id(fake) in self.reassigned and torch.is_grad_enabled() and func not in UNDIFFERENTIATED:
            why = f"{describe(func)} of a tensor after its data was set, differentiated"
            raise Break(breaks.TENSOR_MEMORY, why)


RESIZING = "Tensor.resize_ of a tensor"
FILLING = "`out` of an empty tensor"


def is_empty(tensor: Tensor) -> bool:
    return any(type(size) is int and size == 0 for size in tensor.shape)


def contiguous(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The strides of a dense tensor."""
    return tuple(math.prod(max(size, 1) for size in sizes[n + 1 :]) for n in range(len(sizes)))


def set_data(tensor: Any, other: Any) -> None:
    tensor.data = other


def set_memory(tensor: Any, other: Any) -> None:
    """`Tensor.set_`, whether or not gradients are on: it is done when the graph has run."""
    with torch.no_grad():
        tensor.set_(other)


def refuse_resizing(func: Any, tensor: Tensor, shape: tuple[Any, ...]) -> None:
    """A tensor that is too small, or too large, for what it is to hold is given other memory."""
    if tuple(tensor.shape) != shape:
        raise Break(breaks.TENSOR_MEMORY, f"{describe(func)} that resizes its `out`")
