"""Records the torch calls of a trace as the nodes of a graph.

`Recorder.call(func, args, kwargs)` runs one torch function on fakes - or remembers what it does -
and adds a node at the level users write (`torch.nn.functional.linear`, `Tensor.view`). Calls come
straight from the interpreter, or through the torch-function mode from C code and from torch's own
Python. Answers that are plain values (sizes, dtypes, flags) are just values. A real tensor that the
recorder does not know is an unguarded read: a break, never baked in.
"""

from __future__ import annotations

import contextlib
import gc
import operator
from collections.abc import Callable
from types import GetSetDescriptorType, MethodWrapperType
from typing import Any

import torch
import torch.fx
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device as devices

from framelift import _guards
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import NUMPY, Break, Place
from framelift.core.config import config
from framelift.graph import op_memory
from framelift.graph.arguments import (
    as_plain_numbers,
    gather,
    has_numbers_of_numpy,
    is_lookup,
    is_plain_result,
    tensors_of,
)
from framelift.graph.builder import Body, describe
from framelift.graph.contexts import Contexts, drop_switches
from framelift.graph.data_reassignment import Displaced
from framelift.graph.fakes import Fakes, of_a_fake_kernel
from framelift.graph.functions import (
    EFFECTS,
    GIVING_UP,
    IN_PLACE_FACTS,
    LAYOUTS,
    LEGACY,
    OF_DATA,
    OPERATORS,
    QUERIES,
    REFUSED,
    SCALED,
    SPARSE_FACTS,
    dtype_of_class,
    element,
    has_effects,
    is_collective,
    is_custom,
    is_foreign,
    modern,
    overload_of,
    takes_a_factor,
)
from framelift.graph.overrides import PLAIN, Overrides, as_plain, is_known_kind
from framelift.graph.symbols import Dim, Symbols, simplest
from framelift.graph.torch_flags import ASIDE
from framelift.graph.wrappers import Wrappers, is_wrapper_class

Tensor = torch.Tensor

METADATA = frozenset(
    name
    for name in {
        "shape",
        "dtype",
        "device",
        "ndim",
        "requires_grad",
        "layout",
        "is_cuda",
        "is_leaf",
        "is_sparse",
        "itemsize",
    }
    | {"is_quantized", "is_meta", "is_cpu", "is_nested", "names", "nbytes", "is_mkldnn", "is_mps", "is_xpu"}
    if hasattr(Tensor, name)
)
"""Attributes of a tensor that say something about it and make no node."""


FACTS = frozenset({"is_leaf", "storage_offset", "no_hooks"})
"""What is guarded of an input only if the program has asked for it."""


INDEXING = (operator.getitem, Tensor.__getitem__)


class Recorder(Overrides, Wrappers, Contexts, Displaced, TorchFunctionMode):
    """What torch does in one trace."""

    def __init__(
        self,
        where: Callable[[], str],
        place: Callable[[], Place | None] = lambda: None,
    ) -> None:
        super().__init__(where, place)
        self.fakes = Fakes()
        self.keys = op_memory.Keys(self.fakes)
        self.input_of: dict[int, int] = {}
        """id of an input's fake -> its place among the inputs."""
        self.mutated: dict[int, FakeTensor] = {}
        self.mutated_at: dict[int, Place | None] = {}
        """id of a fake that was changed within a body -> where last."""
        self.in_storage: dict[int, list[FakeTensor]] = {}
        """Storage -> the fakes in it, as far as `kept` has been gone through."""
        self.indexed = 0
        self.facts: dict[tuple[str, int], torch.Tensor] = {}
        """What was asked that is not guarded of every input: (fact, id of the input) -> the input."""
        self.arrays = 0
        """How many of the inputs are arrays of NumPy's."""
        self.indexing: Any = None
        """What is recorded for `tensor[index]` where an index without dimensions stands for many."""

    # ---- the time that a trace takes

    def __enter__(self) -> Recorder:
        if config.capture_scalar_outputs or config.capture_dynamic_output_shape_ops:
            self.symbolise()
        self.modes_before = _get_current_function_mode_stack()
        self.device_before = devices.CURRENT_DEVICE
        self.grad_before = torch.is_grad_enabled()
        self.state = op_memory.state()
        for number, mode in enumerate(self.modes_before):
            self.meet_mode(number, mode)
        # finalisers that the collector happened to run would be recorded as if the program had called them
        self.collecting = gc.isenabled()
        gc.disable()
        self.enter_beneath_modes()
        return self

    def __exit__(self, *raised: Any) -> None:
        """Leaves no mode and no context behind, wherever the trace ended."""
        try:
            self.leave_contexts()
        finally:  # a mode that stayed would record whatever comes
            self.leave_modes()

    # ---- bodies

    def set_grad(self, enabled: bool) -> None:
        """For a body whose operator sees to that itself: the graph does not say so."""
        with torch._C.DisableTorchFunction():
            torch._C._set_grad_enabled(enabled)
        self.state = op_memory.state()

    def body_module(
        self, body: Body, outputs: Any, *, grad: bool, prune: bool = False
    ) -> torch.fx.GraphModule:
        """What runs a body that was recorded with gradients on or off; `prune` leaves out unused operands."""
        self.close_body(body, outputs, grad=grad, prune=prune)
        return body.module()

    def close_body(self, body: Body, outputs: Any, *, grad: bool, prune: bool = False) -> None:
        drop_switches(body.graph, grad)
        body.close(outputs, self.impure, prune)

    def call_with_bodies(
        self,
        func: Any,
        bodies: dict[str, torch.fx.GraphModule],
        args: tuple[Any, ...],
        settings: dict[str, Any],
    ) -> Any:
        """The result of an operator that is given bodies, which are somewhere in its arguments; recorded."""
        tensors: list[torch.Tensor] = []
        if self.threw_wide:
            self.check_setting(func)
        gather(args, tensors)
        self.fakes.drew_random = False
        self.fakes.written.clear()
        with torch._C.DisableTorchFunction():
            run = self.run_operator if isinstance(func, HigherOrderOperator) else self.run
            try:
                out = run(func, args, settings)
            except Exception as error:
                raise Break(breaks.OPERATOR_ERROR, f"{describe(func)}: {error}") from error
            changed = bool(self.fakes.written) and self.note_changes(self.fakes.written, tensors)
        if self.fakes.drew_random:
            self.note_random(func)
        names = {id(body): self.add_module(name, body) for name, body in bodies.items()}
        given = tuple([self.argument_or_body(func, value, names) for value in args])
        node = self.add_node("call_function", func, given, settings)
        node.meta["stack_trace"] = self.where()
        self.calls += 1
        if changed or self.fakes.drew_random:
            self.impure.add(node)
        self.name_outputs(out, node)
        if self.symbols is not None:
            self.bind(out, node)
        return out

    def argument_or_body(self, func: Any, value: Any, bodies: dict[int, torch.fx.Node]) -> Any:
        if type(value) is tuple:
            return tuple([self.argument_or_body(func, item, bodies) for item in value])
        return bodies.get(id(value)) or self.argument(func, value)

    def run_operator(self, func: Any, args: Any, settings: dict[str, Any]) -> Any:
        """Operators of torch's own say what they give for fakes. Where one of these is differentiated all
        results are, of which a fake has only the look: its true history would take a graph of its own."""
        if FakeTensorMode not in func.python_key_table:
            return self.run(func, args, settings)
        tensors: list[torch.Tensor] = []
        gather(args, tensors)
        with torch._C._AutoDispatchBelowAutograd():
            out = self.run(func, args, settings)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            for result in tensors_of(out):
                if result.dtype.is_floating_point or result.dtype.is_complex:
                    _guards.fake_history(result)
        return out

    # ---- inputs

    def input(self, tensor: torch.Tensor, dims: dict[int, Dim] | None = None) -> FakeTensor:
        """A real tensor becomes a placeholder; some of its dimensions may be symbols."""
        with torch._C.DisableTorchFunction():
            if not (is_known_kind(type(tensor)) or is_wrapper_class(type(tensor))):
                raise Break(breaks.TENSOR_KIND, f"a tensor subclass, {type(tensor).__name__}")
            if tensor.layout not in LAYOUTS:
                raise Break(breaks.TENSOR_KIND, f"a tensor of layout {tensor.layout}")
            node = self.placeholder()
            try:
                if is_wrapper_class(type(tensor)):
                    fake = self.face_of(self.fakes.of(tensor))
                else:
                    plain = tensor if type(tensor) in PLAIN else as_plain(tensor)
                    fake = self.fakes.of(plain) if not dims else self.symbolic(node, plain, dims)
            except Exception as error:
                node.graph.erase_node(node)  # the graph so far is compiled, without it
                raise Break(breaks.TENSOR_KIND, f"a tensor that can't be faked: {error}") from error
        node.meta["example_value"] = fake
        with self.outermost():
            self.know(fake, node)
        self.input_of[id(fake)] = len(self.inputs)
        self.is_of_class(fake, type(tensor))
        self.inputs.append((node, tensor, fake))
        self.refuse_overlap()
        return fake

    def refuse_overlap(self) -> None:
        """Whether an array of NumPy's from outside shares memory with another input is not guarded: that does
        not matter as long as nobody writes there."""
        several = self.arrays and len(self.inputs) > 1
        if several and any(id(fake) in self.mutated for _, _, fake in self.inputs):
            raise Break(breaks.NUMPY, "an input changes, with which an array from outside may share memory")

    def symbolic(self, node: torch.fx.Node, tensor: torch.Tensor, dims: dict[int, Dim]) -> FakeTensor:
        symbols = self.symbolise()
        return symbols.fake(self.fakes, symbols.tensor(node, tensor, dims))

    def symbolise(self) -> Symbols:
        if self.symbols is None:
            self.fakes.shape_env = super().symbolise().env
            self.fakes.static_shapes = False
            self.fakes.cache_enabled = False  # with symbols it takes longer than what it saves
        return super().symbolise()

    # ---- calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        classes = self.overloaded(args, kwargs or {}) if self.overriding else []
        if classes:
            return self.asked(classes, func, args, kwargs or {})
        return self.record_call(func, args, kwargs or {})

    @acts_for_program
    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of a torch function on fakes, recorded."""
        if self.overriding and self.overloaded(args, kwargs):
            return func(*args, **kwargs)  # torch says by which name it goes
        if self.in_modes:
            return func(*args, **kwargs)  # which comes first
        if func in QUERIES and type(args[0]) is FakeTensor:
            self.note_fact(func.__name__, args[0])
            with torch._C.DisableTorchFunction():
                return func(*args, **kwargs)
        return self.record_call(func, args, kwargs)

    @acts_for_program
    def record_call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self.refuse(func, args)
        if func in ASIDE:  # from torch's own Python
            return self.throw(func, tuple(args))
        if func in LEGACY:
            return self.make_by_class(func, args, kwargs)
        if func is Tensor.type and len(args) == 2 and type(args[1]) is type(torch.FloatTensor):
            args = (args[0], dtype_of_class(args[0], args[1]))
        if func in SCALED and takes_a_factor(args, kwargs):
            func = SCALED[func]
        if type(func) in OPERATORS and has_effects(func):
            return self.record_effect(func, args, kwargs)
        if self.indexing is not None and func in INDEXING and is_lookup(args[1]):
            return self.look_up(*args)
        with torch._C.DisableTorchFunction():
            if func is Tensor.requires_grad_:
                return self.require_grad(*args, **kwargs)
            out = self.perform(func, args, kwargs)
        if NUMPY and type(out) is FakeTensor and has_numbers_of_numpy((*args, *kwargs.values())):
            self.check_numbers(func, args, kwargs, out)
        if kwargs and kwargs.get("requires_grad"):
            self.leaves.append(out)
        return out

    def record_effect(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """An operator whose effect must happen each time the graph runs, and not now."""
        out = None
        with torch._C.DisableTorchFunction(), self.fakes:
            if overload_of(func)._schema.returns:
                out = self.run(func, args, kwargs)
        self.note_random(func)
        self.record(func, args, kwargs, out, pure=False)
        return out

    def look_up(self, tensor: Any, index: Any) -> Any:
        """`tensor[index]` for each of many: no number is looked up."""
        places = index if isinstance(index, tuple) else (index,)
        with torch._C.DisableTorchFunction(), self.fakes:
            out = self.run(element, (tensor, *places), {})
        given = (tensor, *places) if self.indexing is element else (tensor, index)
        self.record(self.indexing, given, {}, out, pure=True)
        return out

    def check_numbers(self, func: Any, args: Any, kwargs: dict[str, Any], out: FakeTensor) -> None:
        """A graph has plain numbers in the place of NumPy's, which some functions take for something else."""
        if func in OF_DATA:
            node = self.nodes[id(out)]
            node.kwargs = {**node.kwargs, "dtype": out.dtype}
            return
        with torch._C.DisableTorchFunction():
            found = self.run(func, *as_plain_numbers((args, kwargs)))
            same = (found.dtype, found.shape) == (out.dtype, out.shape)
        if not same:
            raise Break(breaks.GRAPH_ARGUMENT, f"{describe(func)} with a number of NumPy's")

    def make_by_class(self, cls: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """`torch.FloatTensor(...)`, as it is written now."""
        found = modern(cls, tuple(args), kwargs)
        if found is None:
            raise Break(breaks.INTERNAL, f"torch.{cls.__name__} of what is neither sizes nor a list")
        dtype = LEGACY[cls] or torch.get_default_dtype()
        return self.record_call(*found, {"dtype": dtype})

    def perform(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        state = op_memory.state()
        if state != self.state:
            raise Break(breaks.INTERNAL, "a switch of torch's thrown by code that is not captured")
        if self.threw_wide:
            self.check_setting(func)
        keyed = self.keys.key(func, args, kwargs, state)
        if keyed is not None:
            key, tensors = keyed
            found = op_memory.lookup(key, self.keys)
            if found is not None:
                if found.random or is_custom(func):
                    self.note_random(func)
                out = op_memory.produce(found, self.keys, tensors)
                self.record(func, args, kwargs, out, not found.random)
                return out
        else:
            tensors = []
            gather((args, kwargs), tensors)
        for tensor in tensors:
            if self.node_of(tensor) is None:  # type: ignore[arg-type]
                raise Break(breaks.UNKNOWN_TENSOR, describe(func))
        if keyed is None:
            if func in GIVING_UP and any(map(is_foreign, args)):
                return NotImplemented
            for argument in (*args, *kwargs.values()):
                self.argument(func, argument)  # or C would call methods of what a graph can't hold
        self.fakes.drew_random = False
        self.fakes.written.clear()
        wrapped = self.behind or isinstance(func, type)
        out = self.run_wrapped(func, args, kwargs) if wrapped else self.run(func, args, kwargs)
        if self.fakes.drew_random or is_custom(func):
            self.note_random(func)
        if self.fakes.written and self.note_changes(self.fakes.written, tensors):
            self.record(func, args, kwargs, out, pure=False)
            return out
        if func in EFFECTS or func in IN_PLACE_FACTS:
            for tensor in tensors:
                self.keys.forget(tensor)
            self.state = op_memory.state()
            self.record(func, args, kwargs, out, pure=False)
            return out
        outputs: list[torch.Tensor] = []
        if not gather(out, outputs):
            if self.symbols is not None and self.symbols.brings_about(out):
                self.record(func, args, kwargs, out, pure=False)
                return simplest(out)
            asked = func.__self__ if type(func) is MethodWrapperType else func
            for tensor in tensors:
                self.note_fact(getattr(asked, "__name__", ""), tensor)
            return self.plain(func, out)
        if any(type(output) is not FakeTensor for output in outputs):
            raise Break(breaks.UNKNOWN_TENSOR, f"the result of {describe(func)}")
        random = self.fakes.drew_random or is_collective(func)
        if keyed is not None and not (self.symbols is not None and self.symbols.has_fresh):
            op_memory.remember(keyed[0], self.keys, tensors, out, random)
        self.record(func, args, kwargs, out, not random)
        return out

    def part(self, face: FakeTensor, name: str) -> FakeTensor:
        """One of the tensors that a wrapper is around."""
        with torch._C.DisableTorchFunction():
            found = self.with_faces(getattr(self.behind[id(face)], name))
        if self.node_of(found) is None:
            node = self.add_node("call_function", getattr, (self.node_of(face), name))
            node.meta["stack_trace"] = self.where()
            self.name_outputs(found, node)
        return found

    def run_wrapped(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The same where some tensors wrap others."""
        with self.fakes:  # from which a class may learn that nothing is to be sent for real
            out = self.run(func, *self.with_wrappers((args, kwargs)))
        self.fakes.written = [self.faces.get(id(tensor), tensor) for tensor in self.fakes.written]
        return self.with_faces(out)

    def note_random(self, func: Any) -> None:
        """An operator has drawn from torch's generator, or is the program's own and may have."""
        if torch._C._are_functorch_transforms_active():
            raise Break(breaks.RANDOM, f"{describe(func)}, within a transform of torch.func around the call")
        if self.fakes.sealed:
            raise Break(breaks.RANDOM, f"{describe(func)}, after seeding between operators that draw")
        self.fakes.has_drawn = True
        self.only_once |= is_custom(func)

    def call_opaque(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A call of a function that is kept in the graph as it is, whatever it does with its arguments."""
        tensors: list[torch.Tensor] = []
        if self.threw_wide:
            self.check_setting(func)
        gather((args, kwargs), tensors)
        for argument in (*args, *kwargs.values()):
            self.argument(func, argument)
        self.fakes.drew_random = False
        self.fakes.written.clear()
        with torch._C.DisableTorchFunction():
            try:
                out = self.run_wrapped(func, args, kwargs)
            except Exception as error:
                raise Break(breaks.INTERNAL, f"{describe(func)} can't be run on fakes: {error}") from error
            self.note_random(func)
            self.only_once = True
            if op_memory.state() != self.state:
                raise Break(breaks.INTERNAL, f"{describe(func)} throws a switch of torch's")
            changed = bool(self.fakes.written) and self.note_changes(self.fakes.written, tensors)
            outputs: list[torch.Tensor] = []
            if not gather(out, outputs) and not changed:
                return self.plain(func, out)
            if any(type(output) is not FakeTensor for output in outputs):
                raise Break(breaks.UNKNOWN_TENSOR, f"the result of {describe(func)}")
            self.record(func, args, kwargs, out, pure=not changed and not self.fakes.drew_random)
        return out

    @acts_for_program
    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        # with symbols torch's decompositions in Python come first: some kernels of C's ask what a size is
        dispatcher = enable_python_dispatcher() if self.symbols is not None else contextlib.nullcontext()
        try:
            with dispatcher:
                return func(*args, **kwargs)
        except fake_tensor.DataDependentOutputException as error:
            branch = getattr(func, "__name__", "") == "__bool__"
            kind = breaks.DATA_DEPENDENT_BRANCH if branch else breaks.DATA_DEPENDENT_VALUE
            raise Break(kind, describe(func)) from error
        except fake_tensor.DynamicOutputShapeException as error:
            raise Break(breaks.DYNAMIC_OUTPUT_SHAPE, describe(func)) from error
        except GuardOnDataDependentSymNode as error:
            raise Break(breaks.DATA_DEPENDENT_VALUE, f"{describe(func)}: {error.cond}") from error
        except (
            fake_tensor.UnsupportedOperatorException,
            fake_tensor.UnsupportedFakeTensorException,
        ) as error:
            raise Break(breaks.UNSUPPORTED_FAKE, describe(func)) from error
        except Exception as error:
            reason = of_a_fake_kernel(error)
            if reason is None:
                raise
            raise Break(reason, f"{describe(func)}: {type(error).__name__}: {error}") from error

    def refuse(self, func: Any, args: Any) -> None:
        try:
            refused = REFUSED.get(func)
        except TypeError:
            return
        if refused is not None:
            raise Break(*refused)
        if func in SPARSE_FACTS and args[0].layout is not torch.strided:
            raise Break(breaks.DATA_DEPENDENT_VALUE, describe(func))
        if func in IN_PLACE_FACTS and id(args[0]) in self.input_of:
            raise Break(breaks.EFFECT, f"{describe(func)} on a tensor from outside")
        if type(func) is MethodWrapperType and func.__name__ == "__set__":
            name = func.__self__.__name__ if isinstance(func.__self__, GetSetDescriptorType) else "attribute"
            raise Break(breaks.EFFECT, f"assignment to Tensor.{name}")

    def fills_its_memory(self, fake: FakeTensor) -> bool:
        """Whether a plain tensor lies densely in memory that is as large as it."""
        with self.fakes, torch._C.DisableTorchFunction():
            if fake.layout is not torch.strided or self.class_of(fake) not in PLAIN:
                return False
            self.note_fact("storage_offset", fake)
            size = fake.untyped_storage().nbytes()
            dense = torch.empty_like(fake, requires_grad=False).stride() == fake.stride()
            return bool(dense and size == fake.numel() * fake.element_size())

    def note_fact(self, name: str, fake: Any) -> None:
        """The program asks something about a tensor: of an input, that is guarded from now on."""
        if name not in FACTS:
            return
        with torch._C.DisableTorchFunction():
            for _, tensor, known in map(self.inputs.__getitem__, self.input_of.values()):
                # the offset of a view tells where its base begins
                same_memory = name == "storage_offset" and op_memory.storage(known) == op_memory.storage(fake)
                if known is fake or same_memory:
                    self.facts[name, id(tensor)] = tensor

    def plain(self, func: Any, out: Any) -> Any:
        """A result without tensors: a fact about the arguments."""
        if not is_plain_result(out):
            raise Break(breaks.GRAPH_ARGUMENT, f"{describe(func)} gives a {type(out).__name__}")
        if out is None and not (type(func) is MethodWrapperType and func.__name__ == "__get__"):
            raise Break(breaks.EFFECT, describe(func))
        return out

    def note_changes(self, written: list[torch.Tensor], tensors: list[torch.Tensor]) -> bool:
        """Whether any argument was written to. That concerns all that lies in the same memory."""
        storages = {op_memory.storage(tensor) for tensor in written}
        changed = {where for where in map(op_memory.storage, tensors) if where in storages}
        for fake in self.kept[self.indexed :]:
            self.in_storage.setdefault(op_memory.storage(fake), []).append(fake)
        self.indexed = len(self.kept)
        place = self.place() if changed and len(self.bodies) > 1 else None
        for where in changed:
            for fake in self.in_storage.get(where, ()):
                self.keys.forget(fake)
                self.mutated[id(fake)] = fake
                self.mutated_at[id(fake)] = place
        self.check_flags()
        self.note_versions(written)
        self.refuse_overlap()
        return bool(changed)

    # ---- the end

    def can_run_again(self) -> bool:
        """Whether a graph that raises has changed nothing that could be told, once torch's CPU generator
        is put back."""
        if self.only_once or self.left or self.flagged or self.behind:
            return False  # an operator on tensors that wrap others may be a collective
        if any(id(fake) in self.mutated for _, _, fake in self.inputs):
            return False
        return not self.fakes.has_drawn or all(fake.device.type == "cpu" for fake in self.kept)

    def finish(self, outputs: list[Any]) -> None:
        super().finish(outputs)
        self.again.clear()
        self.gone.clear()
        drop_switches(self.graph, self.grad_before)
