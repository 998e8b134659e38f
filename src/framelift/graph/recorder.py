"""Records the torch calls of a trace as the nodes of a graph.

`Recorder.call(func, args, kwargs)` runs one torch function on fakes - or remembers what it does -
and adds a node at the level users write (`torch.nn.functional.linear`, `Tensor.view`). Calls come
straight from the interpreter, or through the torch-function mode from C code and from torch's own
Python. Answers that are plain values (sizes, dtypes, flags) are just values. A real tensor that the
recorder does not know is an unguarded read: a break, never baked in.

The recorder is made of parts: `builder` writes the graph, `inputs` are what comes into it, and each of the
others knows one thing that torch does beside computing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import torch
import torch.fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import increment_version
from torch.overrides import TorchFunctionMode

from framelift import _frame
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import Break, Place
from framelift.core.config import config
from framelift.graph import known_data, nested, op_memory, real_errors
from framelift.graph.body import HigherOrder, drop_redundant_setters
from framelift.graph.builder import GraphBuilder
from framelift.graph.contexts import Contexts, FunctionModes
from framelift.graph.effects import DataReassignment, Mutations, RandomNumbers, RequiresGrad, refuse_resizing
from framelift.graph.fakes import Fakes, as_of_operator, of_a_fake_kernel
from framelift.graph.functions import (
    ASSERTS,
    EFFECTS,
    FALSE_TENSOR,
    GIVING_UP,
    IN_PLACE_FACTS,
    LEGACY,
    NUMPY,
    OF_DATA,
    OPERATOR_TYPES,
    QUERIES,
    REFUSED,
    SCALED,
    SPARSE_FACTS,
    as_plain_numbers,
    describe,
    drops_nothing,
    dtype_of_class,
    element,
    has_effects,
    has_numbers_of_numpy,
    is_collective,
    is_custom,
    is_foreign,
    is_lookup,
    modern,
    overload_of,
    plain_result,
    refuse,
    takes_a_factor,
    tensors_of,
)
from framelift.graph.history import Histories
from framelift.graph.indexing import GETTING, INDEXING, index_with_symbols
from framelift.graph.numbers_as_data import TAKES_CONDITIONS, make_of_symbols, with_conditions_settled
from framelift.graph.origins import Origin
from framelift.graph.powers import POWERS, with_definite_numbers
from framelift.graph.recurrent_fakes import SHORT
from framelift.graph.safe_operators import LOOKING_AT_DATA, needs_more_bits
from framelift.graph.subclasses import (
    MAKERS,
    REFLECTED,
    Subclasses,
    Wrappers,
)
from framelift.graph.symbols import condition_of, data_errors, simplest
from framelift.graph.tape import Performed, latest_nodes
from framelift.graph.tensors_as_data import make_of_tensors
from framelift.graph.torch_flags import IGNORED_FLAGS, TorchFlags
from framelift.graph.written_calls import WrittenCalls

Tensor = torch.Tensor

NOTHING = contextlib.nullcontext()
NOT_SO = "Expected Tensor with single nonzero value, but got zero"
"""What torch says of an assertion that does not hold."""
C_FUNCTIONS = frozenset({BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType})
RECORDED_OTHERWISE = frozenset({*IGNORED_FLAGS, *LEGACY, *OF_DATA, *INDEXING, *ASSERTS, *SCALED, *REFUSED})
RECORDED_OTHERWISE |= {*SPARSE_FACTS, *IN_PLACE_FACTS, Tensor.type, Tensor.new, Tensor.requires_grad_}
"""Functions of which a call is not always recorded as it is."""
UNSUPPORTED = (fake_tensor.UnsupportedOperatorException, fake_tensor.UnsupportedFakeTensorException)


class Recorder(TorchFunctionMode):
    """What torch does in one trace.

    `call` is what the interpreter calls for a torch function, `call_opaque` for a function that the graph
    holds as it is, `higher_order.call` for an operator that is given callables. `finish` closes the graph.
    Tensors come in by `input_fakes.add_input`.
    """

    def __init__(
        self, where: Callable[[], Origin | None], place: Callable[[], Place | None] = lambda: None
    ) -> None:
        super().__init__()
        self.fakes = Fakes()
        self.keys = op_memory.Keys(self.fakes)
        self.builder = GraphBuilder(self.fakes, where, place)
        self.inputs = self.builder.inputs
        self.subclasses = Subclasses(self)
        self.wrappers = Wrappers(self.builder, self.keys, self.subclasses)
        self.mutations = Mutations(self.builder, self.keys, self.wrappers.behind)
        self.builder.failing.wraps = lambda tensor: id(tensor) in self.wrappers.behind
        self.modes = FunctionModes()
        self.flags = TorchFlags(self.builder)
        self.contexts = Contexts(self.builder, self.flags)
        self.histories = Histories(self.builder, self.flags)
        self.requires_grad = RequiresGrad(self)
        self.reassignments = DataReassignment(self)
        self.random_numbers = RandomNumbers(self.builder)
        self.higher_order = HigherOrder(self)
        self.written_calls = WrittenCalls()
        self.remembered: tuple[op_memory.Remembered, list[Tensor]] | None = None
        """What the op memory knows of the latest call, and the tensors that it was given."""
        self.in_batch = False
        """Whether a function is traced on one element of a batch."""
        self.indexing: Any = None
        """What is recorded for `tensor[index]` where an index without dimensions stands for many; or None."""

    # ---- the time that a trace takes

    def ask_program(
        self, ask_class: Callable[..., Any], ask_mode: Callable[..., Any], check_mode: Callable[..., None]
    ) -> None:
        """How a `__torch_function__` of the program's is called, and modes around the call are checked."""
        self.subclasses.ask, self.modes.ask, self.modes.check = ask_class, ask_mode, check_mode

    def __enter__(self) -> Recorder:
        if config.capture_scalar_outputs or config.capture_dynamic_output_shape_ops:
            self.builder.symbolise()
        self.flags.enter()
        self.modes.read()
        self.subclasses.read()
        # finalisers that the collector happened to run would be recorded as if the program had called them
        _frame.pause_collector()
        self.modes.enter(self)
        return self

    def __exit__(self, *raised: Any) -> None:
        """Leaves no mode and no context behind, wherever the trace ended."""
        try:
            self.contexts.leave()
        finally:  # a mode that stayed would record whatever comes
            self.modes.leave()
            _frame.resume_collector()

    def release(self) -> None:
        """Lets go of the program's tensors without waiting for the collector. What was captured of the graph
        stays; nothing can be recorded any more."""
        self.fakes.forget_real_tensors()
        parts: list[Any] = [self.builder, self.inputs, self.mutations, self.subclasses, self.wrappers]
        parts += [self.modes, self.flags, self.contexts, self.histories, self.requires_grad]
        parts += [self.reassignments, self.random_numbers, self.higher_order]
        for part in parts:
            vars(part).clear()
        vars(self).clear()

    # ---- calls

    def ask_for(self, value: Any) -> None:
        """The program has found an input once more, by another name."""
        if self.wrappers.values:
            self.wrappers.ask_for(value, self.mutations.changed)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        subclasses = self.subclasses
        classes = subclasses.overloaded(args, kwargs or {}) if subclasses.are_there else None
        if classes:
            self.written_calls.take()
            return subclasses.call(classes, func, args, kwargs or {})
        return self.record_call(*self.written_calls.form(func, args, kwargs or {}))

    def written(self, fn: Any, args: Any, kwargs: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
        """While the program calls a function that asks modes: the call is recorded as it is written."""
        return NOTHING if self.modes.active else self.written_calls.during(fn, args, kwargs)

    @acts_for_program
    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of a torch function on fakes, recorded."""
        subclasses = self.subclasses
        if (subclasses.are_there and subclasses.overloaded(args, kwargs)) or self.modes.active:
            if func in REFLECTED and subclasses.asks_right_first(args):
                func, args = REFLECTED[func], args[::-1]
            return func(*args, **kwargs)  # torch says by which name it goes, and which comes first
        if func in QUERIES and type(args[0]) is FakeTensor:
            self.inputs.note_fact(func.__name__, args[0])
            with torch._C.DisableTorchFunction():
                if (shown := self.wrappers.nested(args[0])) is not None:
                    return func(shown, *args[1:], **kwargs)
                if func is Tensor.stride:
                    self.builder.tape.spoil(func)
                    self.builder.check_strides(*args, **kwargs)
                return func(*args, **kwargs)
        return self.record_call(func, args, kwargs)

    @acts_for_program
    def record_call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        builder = self.builder
        is_plain = builder.symbols is None and not (builder.keeps_conditions or self.wrappers.behind)
        if is_plain and not kwargs and type(func) in C_FUNCTIONS and func not in RECORDED_OTHERWISE:
            with torch._C.DisableTorchFunction():
                out = self.perform(func, args, kwargs)
            if NUMPY and type(out) is FakeTensor and has_numbers_of_numpy(args):
                self.check_numbers(func, args, kwargs, out)
            return out
        refuse(func, args, kwargs, self.inputs.index_of)
        if func in IGNORED_FLAGS:  # from torch's own Python
            return self.flags.set_flag(func, tuple(args))
        if func in LEGACY:
            return self.make_by_class(func, args, kwargs)
        if func is Tensor.type and len(args) == 2 and type(args[1]) is type(torch.FloatTensor):
            args = (args[0], dtype_of_class(args[0], args[1]))
        if func is Tensor.new and len(args) == 2 and type(args[1]) is torch.Size:
            func = Tensor.new_empty  # a graph has a tuple in its place, which `new` takes for data
        if func in OF_DATA and args:
            made = make_of_tensors(self.record_call, func, args, kwargs)
            if made is NotImplemented and self.builder.symbols is not None:
                made = make_of_symbols(self.record_call, func, args, kwargs)
            if made is not NotImplemented:
                return made
        if self.builder.keeps_conditions and func not in TAKES_CONDITIONS:
            args, kwargs = with_conditions_settled(args), with_conditions_settled(kwargs)
        if self.in_batch and func in GETTING and self.is_many(args[1]):
            return self.index_elements(*args)
        if func in INDEXING and self.builder.symbols is not None:
            args = (args[0], known_data.with_numbers(self, args[1]), *args[2:])
            if self.indexing is None:
                made = index_with_symbols(self.record_call, func, args)
                if made is not NotImplemented:
                    return made
        if func in POWERS and builder.symbols is not None:
            args = with_definite_numbers(args, builder.in_body)
        if func in ASSERTS and args and not kwargs:
            func, args = torch.ops.aten._assert_async.msg, (*args, FALSE_TENSOR)[:2]
        if func in SCALED and takes_a_factor(args, kwargs):
            func = SCALED[func]
        if type(func) in OPERATOR_TYPES and has_effects(func):
            return self.record_effect(func, args, kwargs)
        if self.indexing is not None and func in GETTING and is_lookup(args[1]):
            return self.index_elements(*args)
        with torch._C.DisableTorchFunction():
            if func is Tensor.requires_grad_:
                return self.requires_grad.set(*args, **kwargs)
            if "out" in kwargs:
                self.reassignments.make_room(func, args, kwargs)
            try:
                out = self.perform(func, args, kwargs)
            except Break as stop:
                if stop.reason is not breaks.DATA_DEPENDENT_VALUE or self.builder.symbols is None:
                    raise
                numbers = known_data.in_place_of_tensors(self, args)
                if numbers is None:
                    raise
                out = self.perform(func, numbers, kwargs)
        if NUMPY and type(out) is FakeTensor and has_numbers_of_numpy((*args, *kwargs.values())):
            self.check_numbers(func, args, kwargs, out)
        if kwargs and kwargs.get("requires_grad"):
            self.builder.tape.spoil("requires_grad")
            self.histories.leaves.append(out)
        return out

    def record_effect(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """An operator whose effect must happen each time the graph runs, and not now."""
        out = None
        with torch._C.DisableTorchFunction(), self.fakes:
            if overload_of(func)._schema.returns:
                out = self.run(func, args, kwargs)
        self.random_numbers.note(func)
        self.builder.record(func, args, kwargs, out, pure=False)
        return out

    def index_by(self, function: Any) -> Any:
        """From here on `function` is recorded for `tensor[index]`. Gives what was recorded before."""
        before, self.indexing = self.indexing, function
        return before

    def is_many(self, index: Any) -> bool:
        """Whether an index may be another one for each element of a batch: a tensor from around the function
        that is mapped is one number."""
        body = self.builder.body
        around = {id(value) for value in body.operand_values}
        places = index if isinstance(index, tuple) else (index,)
        own = (id(place) in body.nodes and id(place) not in around for place in places)
        return is_lookup(index) and any(own)

    def index_elements(self, tensor: Any, index: Any) -> Any:
        """`tensor[index]` for each of many: no number is looked up."""
        places = index if isinstance(index, tuple) else (index,)
        with torch._C.DisableTorchFunction(), self.fakes:
            out = self.run(element, (tensor, *places), {})
        function = self.indexing
        if function is None:
            function = element if all(isinstance(p, Tensor) for p in places) else Tensor.__getitem__
        given = (tensor, *places) if function is element else (tensor, index)
        self.builder.record(function, given, {}, out, pure=True)
        return out

    def check_numbers(self, func: Any, args: Any, kwargs: dict[str, Any], out: FakeTensor) -> None:
        """A graph has plain numbers in the place of NumPy's, which some functions take for something else."""
        self.builder.tape.spoil("a number of NumPy's")
        if func in OF_DATA:
            node = self.builder.body.nodes[id(out)]
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
            raise Break(breaks.GRAPH_ARGUMENT, f"torch.{cls.__name__} of what is neither sizes nor a list")
        dtype = LEGACY[cls] or torch.get_default_dtype()
        return self.record_call(*found, {"dtype": dtype})

    def perform(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A torch function on fakes, recorded; on tape too, if that runs."""
        tape = self.builder.tape
        if not tape.followed:
            return self.perform_once(func, args, kwargs)
        graph = self.builder.body.graph
        before, self.remembered = graph._len, None
        out = self.perform_once(func, args, kwargs)
        made = graph._len - before
        if made:
            nodes = latest_nodes(graph, made)
            tape.entries.append(Performed(func, args, kwargs, out, self.remembered, nodes))
        return out

    def produce(
        self, func: Any, args: Any, kwargs: dict[str, Any], found: op_memory.Remembered, tensors: list[Tensor]
    ) -> Any:
        """What a call gives that the op memory knows, recorded."""
        if found.random or is_custom(func):
            self.random_numbers.note(func)
        out = op_memory.produce(found, self.keys, tensors)
        if found.written:
            written = [tensors[n] for n, _ in found.written]
            for n, times in found.written:
                for _ in range(times):
                    increment_version(tensors[n])
            self.note_changes(written, tensors)
            self.builder.record(func, args, kwargs, out, False, found.fails, written)
            return out
        draws = found.random and not is_collective(func)
        self.builder.record(func, args, kwargs, out, not found.random, found.fails, draws=draws)
        return out

    def perform_once(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        builder, flags, keys, fakes = self.builder, self.flags, self.keys, self.fakes
        state = op_memory.state()
        if state != flags.state:
            raise Break(breaks.TORCH_STATE, "a flag of torch's set by code that is not captured")
        if flags.operator_flags_set:
            kwargs = flags.check_operator_flags(func, args, kwargs)
        # what makes a tensor around others gives one that is known by what lies behind it
        makes_wrapper = isinstance(func, type) or func in MAKERS
        keyed = None if makes_wrapper else keys.key(func, args, kwargs, state)
        if keyed is not None:
            key, tensors = keyed
            found = op_memory.lookup(key, keys)
            if found is not None and (not found.written or found.fits(tensors)):
                self.remembered = found, tensors
                return self.produce(func, args, kwargs, found, tensors)
        else:
            tensors = tensors_of((args, kwargs))
        for tensor in tensors:
            if builder.node_of(tensor) is None:  # type: ignore[arg-type]
                raise Break(breaks.UNKNOWN_TENSOR, describe(func))
        if keyed is None:
            if func in GIVING_UP and any(map(is_foreign, args)):
                return NotImplemented
            for argument in (*args, *kwargs.values()):
                builder.argument(func, argument)  # or C would call methods of what a graph can't hold
        fakes.watch()
        filled = [(x, tuple(x.shape)) for x in tensors_of(kwargs["out"])] if "out" in kwargs else []
        wrapped = self.wrappers.behind or makes_wrapper
        if any(map(Tensor.is_inference, tensors)):
            keyed = None  # nobody counts what is written to these
        versions = [tensor._version for tensor in tensors] if keyed is not None else []
        metas = [keys.meta(tensor) for tensor in tensors] if keyed is not None else []
        out = self.run_wrapped(func, args, kwargs) if wrapped else self.run(func, args, kwargs)
        for tensor, shape in filled:
            refuse_resizing(func, tensor, shape)
        fails = fakes.may_fail or fakes.warned or func in LOOKING_AT_DATA
        # what is given may overlap, or be of a type that the result is not; fakes do not look at that
        fails = fails or bool(filled) or any(map(needs_more_bits, (*args, *kwargs.values())))
        if fakes.drew_random or is_custom(func):
            self.random_numbers.note(func)
        if fakes.written and self.note_changes(fakes.written, tensors):
            is_plain = keyed is not None and builder.symbols is None and not (wrapped or filled)
            if is_plain and not (fakes.drew_random or fakes.warned or func in EFFECTS):
                writes = op_memory.writes_of(tensors, metas, versions, fakes.written)
                if keyed is not None and writes:
                    found = op_memory.remember(keyed[0], keys, tensors, out, False, fails, writes)
                    self.remembered = None if found is None else (found, tensors)
            builder.record(func, args, kwargs, out, False, fails, fakes.written, fakes.drew_random)
            return out
        if func in EFFECTS or func in IN_PLACE_FACTS:
            for tensor in tensors:
                keys.forget(tensor)
            flags.read()
            if func is torch._assert_async and len(args) + len(kwargs) == 1:
                args, kwargs = (*args, *kwargs.values(), NOT_SO), {}  # compilers drop one without a text
            builder.record(func, args, kwargs, out, False, fails)
            return out
        outputs = tensors_of(out)
        if not outputs:
            if builder.symbols is not None and builder.symbols.brings_about(out):
                if type(out) is torch.SymBool and func is not Tensor.item:
                    raise Break(breaks.DATA_DEPENDENT_VALUE, describe(func))
                builder.record(func, args, kwargs, out, pure=func is Tensor.item)  # which waits for a GPU
                return simplest(out)
            if fakes.warned:
                raise Break(breaks.EFFECT, f"a warning by {describe(func)}")
            asked = func.__self__ if type(func) is MethodWrapperType else func
            for tensor in tensors:
                self.inputs.note_fact(getattr(asked, "__name__", ""), tensor)
            return plain_result(func, out)
        if any(type(output) is not FakeTensor for output in outputs):
            raise Break(breaks.UNKNOWN_TENSOR, f"the result of {describe(func)}")
        random = fakes.drew_random or is_collective(func)
        if keyed is not None and not (builder.symbols is not None and builder.symbols.has_fresh):
            found = op_memory.remember(keyed[0], keys, tensors, out, random, fails)
            self.remembered = None if found is None else (found, tensors)
        builder.record(func, args, kwargs, out, not random, fails, draws=fakes.drew_random)
        return out

    def run_wrapped(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The same where some tensors wrap others."""
        with self.fakes:  # from which a class may learn that nothing is to be sent for real
            given, named = self.wrappers.with_wrappers((args, kwargs))
            if self.wrappers.behind and nested.is_given(given, named):
                with self.builder.symbolise().asking_data():
                    out = self.run(func, given, named, nested.ask_class)
            else:
                out = self.run(func, given, named)
        written, faces = self.fakes.written, self.wrappers.faces
        written[:] = [faces.get(id(tensor), tensor) for tensor in written]
        return self.wrappers.with_faces(out)

    def call_opaque(
        self,
        func: Any,
        args: Any,
        kwargs: dict[str, Any],
        effect: bool = False,
        writes: Sequence[torch.Tensor] = (),
    ) -> Any:
        """A call of a function that is kept in the graph as it is, whatever it does with its arguments.
        `effect`: it is made whether or not anybody uses its result; `writes`: what it writes to, which its
        run on fakes does not show."""
        builder, fakes, tensors = self.builder, self.fakes, tensors_of((args, kwargs))
        if self.flags.operator_flags_set:
            kwargs = self.flags.check_operator_flags(func, args, kwargs)
        for argument in (*args, *kwargs.values()):
            builder.argument(func, argument)
        fakes.watch()
        with torch._C.DisableTorchFunction():
            try:
                out = self.run_wrapped(func, args, kwargs)
            except Exception as error:
                why = f"{describe(func)} can't be run on fakes: {error}"
                raise Break(breaks.UNSUPPORTED_FAKE, why) from error
            self.random_numbers.note(func)
            builder.failing.note_effect()
            if op_memory.state() != self.flags.state:
                raise Break(breaks.TORCH_STATE, f"{describe(func)} sets a flag of torch's")
            for tensor in writes:
                increment_version(tensor)
            fakes.written.extend(writes)
            changed = bool(fakes.written) and self.note_changes(fakes.written, tensors)
            outputs = tensors_of(out)
            if not outputs and not changed and out is not None and not effect:
                return plain_result(func, out)
            if any(type(output) is not FakeTensor for output in outputs):
                raise Break(breaks.UNKNOWN_TENSOR, f"the result of {describe(func)}")
            pure = not changed and not fakes.drew_random and out is not None and not effect
            builder.record(func, args, kwargs, out, pure, True, fakes.written if changed else ())
        return out

    @acts_for_program
    def run(self, func: Any, args: Any, kwargs: dict[str, Any], ask: Any = None) -> Any:
        """What a function gives; `ask` is called with it and its arguments in its place."""
        # with symbols torch's decompositions in Python come first: some kernels of C's ask what a size is
        has_symbols = self.builder.symbols is not None
        if has_symbols and func in known_data.ASKING:  # before a number is made that only the data decides
            known = known_data.answer(self, func, args, kwargs)
            if known is not None:
                return known[0]
        if ask is None and func in SHORT:
            ask = SHORT[func]
        elif ask is None and has_symbols and func in known_data.TRUTH:
            ask = known_data.truth
        try:
            python_first = has_symbols and not drops_nothing(func, args, kwargs)
            with enable_python_dispatcher() if python_first else contextlib.nullcontext():
                return func(*args, **kwargs) if ask is None else ask(func, args, kwargs)
        except fake_tensor.DataDependentOutputException as error:
            known = known_data.answer(self, func, args, kwargs)
            if known is not None:
                return known[0]
            branch = getattr(func, "__name__", "") == "__bool__"
            kind = breaks.DATA_DEPENDENT_BRANCH if branch else breaks.DATA_DEPENDENT_VALUE
            raise Break(kind, describe(func)) from error
        except fake_tensor.DynamicOutputShapeException as error:
            raise Break(breaks.DYNAMIC_OUTPUT_SHAPE, describe(func)) from error
        except data_errors() as error:
            raise Break(breaks.DATA_DEPENDENT_VALUE, f"{describe(func)}: {condition_of(error)}") from error
        except UNSUPPORTED as error:
            raise Break(breaks.UNSUPPORTED_FAKE, describe(func)) from error
        except Exception as error:
            reason = of_a_fake_kernel(error)
            if has_symbols and type(error) is TypeError and any(map(is_number, args)):
                reason = breaks.DATA_DEPENDENT_VALUE  # of which C takes a number, but no symbol
            if reason is None and real_errors.has_class_of_its_own(error, func, args, kwargs):
                reason = breaks.OPERATOR_ERROR
            if reason is None and (named := as_of_operator(error)) is not error:
                raise named from error
            if reason is None:
                raise
            raise Break(reason, f"{describe(func)}: {type(error).__name__}: {error}") from error

    def note_changes(self, written: list[torch.Tensor], tensors: list[torch.Tensor]) -> bool:
        """Whether an operator has written to any of its tensors."""
        changed = self.mutations.note(written, tensors)
        self.requires_grad.check()
        self.wrappers.refuse_shared(self.mutations.changed)
        self.reassignments.note_written(written)
        self.mutations.refuse_overlap()
        return changed

    # ---- the end

    def can_run_again(self) -> bool:
        """Whether a graph that raises has changed nothing that could be told, once torch's CPU generator
        is put back."""
        if self.builder.failing.first_effect is not None:
            return False
        if self.wrappers.behind:
            return False  # an operator on these may be a collective
        last = self.builder.failing.last
        if not self.mutations.can_put_back(last) or (last == 0 and self.mutations.of_inputs):
            return False  # without a call that may fail it fails for reasons of its own, wherever it is
        return not self.random_numbers.drawn or all(fake.device.type == "cpu" for fake in self.builder.kept)

    def has_effect(self) -> bool:
        """Whether anything was done already beside computing."""
        return self.builder.failing.first_effect is not None or bool(self.mutations.first_written)

    def has_lasting_effect(self) -> bool:
        """Whether something was done already that can't be undone if the next call fails."""
        if self.builder.failing.first_effect is not None:
            return True
        return bool(self.mutations.first_written) and not self.mutations.can_put_all_back()

    def settle(self) -> None:
        """The trace is over: finds which modes are open, and has the graph leave the contexts that are."""
        self.modes.settle(self)
        self.contexts.close()

    def prepare(self, outputs: list[Any]) -> None:
        """Checks what lives on, and finds which histories a graph can't give it."""
        self.requires_grad.check_outputs(outputs)
        self.histories.prepare(outputs)

    def finish(self, outputs: list[Any]) -> int:
        """Closes the graph, which gives these tensors and numbers. Gives how many more there are."""
        output_node, number = self.histories.output_node, self.builder.numbers.symbol
        nodes = [output_node(out) if type(out) is FakeTensor else number(out) for out in outputs]
        more = self.builder.finish(tuple(nodes))
        self.histories.clear()
        drop_redundant_setters(self.builder.body.graph, self.flags.grad_before)
        return more


def is_number(value: Any) -> bool:
    """Whether an argument is a tensor that C may take for a size."""
    return type(value) is FakeTensor and not value.dim()
