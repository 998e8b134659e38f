"""A captured graph brought to torch's operators, while `torch.export` traces it.

`torch.export` interprets the graph that it is given, under the modes of its tracer: each function runs once
more on fake tensors, and what it dispatches to becomes nodes. Of most calls all that is known already: a
function of C that takes tensors parses its arguments and dispatches once, and what comes of it is what the
capture has seen. Such a call is dispatched to one handler, which writes the node down and runs nothing. All
other calls, and those of which the sizes are symbols, are traced as torch does it.
"""

from __future__ import annotations

import copy
import functools
import operator
import re
import types
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_impls import fast_detach, no_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    _ProxyTensor,
    get_proxy_mode,
    get_proxy_slot,
    set_proxy_slot,
    track_tensor_tree,
)
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

sequence_number = vars(torch.fx.proxy)["_get_seq_nr"]

COPIED = frozenset(vars(torch.fx.proxy)["_COPY_META_FIELDS"])
"""What nodes of operators take over from the node of the call."""

OF_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)

OPERATORS = frozenset(each for each in vars(operator).values() if isinstance(each, types.BuiltinFunctionType))

SEVERAL = frozenset({"getattr", "__getitem__", "__setitem__", "tensor", "as_tensor", "asarray"})
"""Functions of C that may dispatch more than once, and look at what came of it."""

NOTE = re.compile(r"\n\nWhile executing [^\n]*target=[\w.]+\.play\]")

WRITES = frozenset((torch.ops.aten.copy_.default, torch.ops.aten.index_put_.default))
INDEX_VIEWS = frozenset(
    (torch.ops.aten.select.int, torch.ops.aten.slice.Tensor, torch.ops.aten.unsqueeze.default)
)

ONE_FUNCTIONAL = (
    *(
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "alpha_dropout",
        "batch_norm",
        "cross_entropy",
        "dropout",
    ),
    *("dropout1d", "dropout2d", "elu", "embedding", "feature_alpha_dropout", "glu", "group_norm"),
    *("hardsigmoid", "hardswish", "hardtanh", "instance_norm", "interpolate", "layer_norm", "leaky_relu"),
    *("log_softmax", "max_pool2d", "mish", "pad", "relu", "relu6", "rms_norm", "selu", "silu", "softmax"),
)
ONE = frozenset(
    (
        *(getattr(torch.nn.functional, name) for name in ONE_FUNCTIONAL),
        *(torch.Tensor.split, torch.Tensor.unflatten, torch.einsum, torch.meshgrid, torch.split),
    )
)
"""Functions of Python's that check their arguments and then make one call of torch."""

CHANGING = ("__set__", "as_strided_", "data", "detach_", "requires_grad_", "resize_", "resize_as_", "set_")
TURNING = ("rename_", "set_data", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_")
LAID_OUT_ANEW = frozenset((*CHANGING, *TURNING, "untyped_storage"))
"""Calls after which a tensor has another layout than it had: what the capture knows of it is how it ended."""

WITH_HISTORY = frozenset({torch.autograd.grad, torch.autograd.backward, "backward"})
"""Calls that go through what autograd has noted of others, which have to be made for that."""


TORCH_FUNCTIONS: dict[Any, Any] = {}
"""Which function torch's modes see of a call: those of `operator` become methods of tensors, by what is left
of them."""


class Seen(Exception):
    """The argument is a function that torch's modes were shown."""


class Seeing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Seen(func)


def shown_to_modes(called: Any, args: Any, kwargs: Any) -> Any:
    """The function that torch's modes see of a call, which is not made; None if they see none."""
    try:
        with Seeing():
            called(*args, **kwargs)
    except Seen as seen:
        return seen.args[0]
    return None


@functools.cache
def makes_new(operator_: Any) -> bool:
    """Whether an operator makes a tensor of no other, as `zeros` and `zeros_like` do."""
    return any(argument.name == "pin_memory" for argument in operator_._schema.arguments)


class Several(Exception):
    """A call that is not one operator, or one that has to run."""


class Step(NamedTuple):
    """An operator that a call dispatched to, and what it was given to understand that this gives."""

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


class Written(ProxyTorchDispatchMode):
    """The tracer's mode, which during a call writes down the operators and gives what is expected of the
    call. Views that an index makes before it are made; nothing else is run."""

    def __init__(self, mode: ProxyTorchDispatchMode, fake_mode: FakeTensorMode) -> None:
        super().__init__(mode.tracer, mode.tracing_mode, mode.pre_dispatch, mode._allow_fake_constant)
        self.fake_mode = fake_mode
        self.expected: Any = None
        self.is_index = self.is_write = False
        self.steps: list[Step] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = self.expected
        if result is None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        kwargs = kwargs or {}
        if func.namespace != "aten" or (self.steps and not self.is_index):
            raise Several
        if self.is_write and func in WRITES:
            result = args[0]
        elif func._schema.is_mutable and (args[0] is not result or torch.Tag.inplace_view in func.tags):
            raise Several
        if self.is_index:
            if func in INDEX_VIEWS:
                if type(args[0]) is not FakeTensor:  # a view shares its memory, which is the program's own
                    raise Several
                with no_python_dispatcher(), in_kernel_invocation_manager(self.fake_mode):
                    out = func(*args, **kwargs)
                result = FakeTensor(self.fake_mode, out, args[0].device)
            elif func is not torch.ops.aten.index.Tensor and func not in WRITES:
                raise Several
        self.steps.append(Step(func, args, kwargs, result))
        return result


class Lowering(torch.fx.Interpreter):
    """Runs a captured graph under the tracer of `torch.export`."""

    def __init__(self, module: torch.fx.GraphModule, graph: torch.fx.Graph) -> None:
        super().__init__(module, garbage_collect_values=False, graph=graph)
        mode = get_proxy_mode()
        fake_mode = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
        assert mode is not None and fake_mode is not None
        self.fake_mode: FakeTensorMode = fake_mode
        self.torchs_mode = mode
        self.mode = Written(mode, fake_mode)
        self.tracer: Any = mode.tracer
        self.made: list[torch.fx.Node] = []

    def run(self, *args: Any, **options: Any) -> Any:
        with self.mode:
            out = super().run(*args, **options)
        with torch._C.DisableTorchFunction():
            for node in self.made:
                value = node.meta["val"]
                if value.requires_grad:  # since something was written to it
                    node.meta["val"] = fast_detach(self.fake_mode, value)
        return out

    def run_node(self, node: torch.fx.Node) -> Any:
        if node.op == "call_function" and node.target is operator.getitem:
            args, _ = self.fetch_args_kwargs_from_env(node)
            if type(args[0]) in (tuple, list):
                return args[0][args[1]]
        known = node.meta.get("example_value")
        is_write = node.target is operator.setitem
        called = self.function(node) if known is not None or is_write else None
        if called is None:
            return self.traced(node, known)
        shown = called
        if called in OPERATORS or called.__name__.startswith("__"):
            first = node.args[0] if node.args else None
            key = called, isinstance(first, torch.fx.Node) and isinstance(self.env[first], torch.Tensor)
            if key not in TORCH_FUNCTIONS:
                found = shown_to_modes(called, *self.fetch_args_kwargs_from_env(node))
                if found is None:  # operators on numbers are none
                    return self.traced(node, known)
                TORCH_FUNCTIONS[key] = found
            shown = TORCH_FUNCTIONS[key]
        try:
            with torch._C.DisableTorchFunction():  # which else all that is asked of tensors goes through
                if is_write:
                    return self.write_once(node, shown)
                return self.call_once(node, called, shown, known)
        except Several:
            return self.traced(node, known)

    def traced(self, node: torch.fx.Node, known: Any) -> Any:
        """As torch does it."""
        with self.torchs_mode:  # subclasses of which operators with bodies do not know
            out = super().run_node(node)
        with torch._C.DisableTorchFunction():
            if isinstance(known, torch.Tensor) and known.requires_grad and isinstance(out, torch.Tensor):
                slot: Any = get_proxy_slot(out, self.tracer, None)
                about = slot and slot.proxy.node.meta.get("tensor_meta")
                if about:
                    slot.proxy.node.meta["tensor_meta"] = about._replace(requires_grad=True)
        return out

    def function(self, node: torch.fx.Node) -> Any:
        """What a node calls, if that is one operator."""
        called: Any = node.target
        if node.op == "call_method":
            called = getattr(torch.Tensor, called, None)
        elif node.op != "call_function":
            return None
        one = called in ONE if isinstance(called, types.FunctionType) else isinstance(called, OF_C)
        return called if one and called.__name__ not in SEVERAL else None

    def call_once(self, node: torch.fx.Node, called: Any, shown: Any, known: Any) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        for given in node.all_input_nodes:
            if getattr(self.env[given], "_has_symbolic_sizes_strides", False):
                raise Several
        mode, expected = self.mode, self.expected(node, known)
        mode.is_index, mode.is_write = called is operator.getitem, False
        out = self.dispatched(called, args, kwargs, expected)
        steps = mode.steps
        if len(steps) == 1 and makes_new(steps[0].operator) and type(out) is FakeTensor:
            steps[0] = steps[0]._replace(result=out)  # C copies what it makes if others hold on to it
        if not steps or not same(out, steps[-1].result) or not alike(out, expected):
            raise Several
        self.write_all(node, shown, known)
        return out

    def dispatched(self, called: Any, args: Any, kwargs: Any, expected: Any) -> Any:
        """What a call gives, of which the mode notes the operators."""
        mode = self.mode
        mode.steps = []
        mode.expected = expected
        try:
            return called(*args, **kwargs)
        except Exception as error:  # which the program does not raise: torch's modes change the call
            raise Several from error
        finally:
            mode.expected = None

    def write_once(self, node: torch.fx.Node, shown: Any) -> None:
        """`x[i] = y`: views of a tensor, and a write to the last of them, where nothing has a gradient."""
        args, _ = self.fetch_args_kwargs_from_env(node)
        if type(args[0]) is not FakeTensor or not isinstance(args[2], torch.Tensor):
            raise Several
        for given in node.all_input_nodes:
            value = self.env[given]
            example = given.meta.get("example_value", value)
            if getattr(value, "_has_symbolic_sizes_strides", False) or getattr(
                example, "requires_grad", False
            ):
                raise Several
        self.mode.is_index = self.mode.is_write = True
        self.dispatched(operator.setitem, args, {}, args[0])
        steps = self.mode.steps
        if not steps or steps[-1].operator not in WRITES or any(step.result.requires_grad for step in steps):
            raise Several
        self.write_all(node, shown, None)

    def write_all(self, node: torch.fx.Node, shown: Any, known: Any) -> None:
        """Makes the nodes of a call."""
        tracer, steps = self.tracer, self.mode.steps
        if any(self.is_unknown(step) for step in steps):
            raise Several
        counts = tracer.torch_fn_counts
        tracer.torch_fn_metadata, counts[shown] = shown, counts.get(shown, 0) + 1
        for step in steps:
            self.write(step, node, known if step is steps[-1] else None)

    def write(self, step: Step, node: torch.fx.Node, known: Any) -> None:
        """Makes the node of an operator, with what torch's tracer notes of one."""
        tracer, (func, args, kwargs, result) = self.tracer, step
        name = tracer.graph._target_to_str(func.overloadpacket.__name__)
        made = tracer.graph.create_node("call_function", func, self.nodes(args), self.nodes(kwargs), name)
        self.describe(made, node, func)
        if isinstance(result, FakeTensor):
            slot = _ProxyTensor(tracer.proxy(made), None)
            set_proxy_slot(result, tracer, slot)
            made.meta["val"] = result
            about = _extract_tensor_metadata(result)
            needs = known is not None and known.requires_grad
            made.meta["tensor_meta"] = about._replace(requires_grad=needs) if needs else about
            self.made.append(made)
            return
        with self._set_current_node(node):
            fx_traceback.current_meta["original_aten"] = func
            track_tensor_tree(result, tracer.proxy(made), constant=None, tracer=tracer)
        for item, each in zip(result, known or (), strict=False):
            about = get_proxy_slot(item, tracer).proxy.node.meta
            about["tensor_meta"] = about["tensor_meta"]._replace(requires_grad=each.requires_grad)

    def is_unknown(self, step: Step) -> bool:
        """Whether an operator is given what is no node of the graph, or what torch reckons with."""
        results = [id(each.result) for each in self.mode.steps]
        for value in pytree.tree_leaves((step.args, step.kwargs)):
            if isinstance(value, torch.Tensor) and id(value) not in results:
                slot = get_proxy_slot(value, self.tracer, None)
                if type(value) is not FakeTensor or slot is None or slot.constant is not None:
                    return True
            elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return True
        return False

    def expected(self, node: torch.fx.Node, known: Any) -> Any:
        """What the capture knows that a call gives, for this trace."""
        if type(known) is FakeTensor:
            for given in node.all_input_nodes:
                if given.meta.get("example_value") is known:
                    return self.env[given]
            return self.copy(known)
        if type(known) in (tuple, list) and all(type(each) is FakeTensor for each in known):
            return type(known)([self.copy(each) for each in known])
        raise Several

    def copy(self, fake: Any) -> FakeTensor:
        if fake._has_symbolic_sizes_strides or fake.layout is not torch.strided:
            raise Several
        return fast_detach(self.fake_mode, fake)

    def nodes(self, value: Any) -> Any:
        """Arguments as a node has them."""
        cls = type(value)
        if cls is tuple or cls is list:
            return cls([self.nodes(each) for each in value])
        if cls is dict:
            return {key: self.nodes(each) for key, each in value.items()}
        if isinstance(value, torch.Tensor):
            return get_proxy_slot(value, self.tracer).proxy.node
        return value

    def describe(self, made: torch.fx.Node, node: torch.fx.Node, operator_: Any) -> None:
        """What torch's tracer notes of a node."""
        tracer, meta = self.tracer, made.meta
        tracer.node_name_to_scope[made.name] = (tracer.scope.module_path, tracer.scope.module_type)
        for key in COPIED & node.meta.keys():
            meta[key] = copy.copy(node.meta[key])
        if "stack_trace" in node.meta:
            meta["stack_trace"] = node.meta["stack_trace"]
        source = fx_traceback.NodeSource(
            node, f"Interpreter_{type(self).__name__}", fx_traceback.NodeSourceAction.CREATE
        )
        meta["from_node"] = [source]
        meta["original_aten"] = operator_
        number = sequence_number(made.name)
        if number is not None:
            meta["seq_nr"] = number
        shown = tracer.torch_fn_metadata
        count, kind = tracer.torch_fn_counts[shown], type(shown).__name__
        meta["torch_fn"] = f"{shown.__name__}_{count}", f"{kind}.{shown.__name__}"


def same(out: Any, expected: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        return out is expected
    return (
        isinstance(out, (tuple, list))
        and len(out) == len(expected)
        and all(a is b for a, b in zip(out, expected, strict=True))
    )


def alike(out: Any, expected: Any) -> bool:
    """Whether a tensor is laid out as it should be."""
    if not isinstance(expected, FakeTensor) or out is expected:
        return True
    return out.dtype == expected.dtype and out.shape == expected.shape and out.stride() == expected.stride()


def lowered_when_traced(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Has a module, of which `torch.export` interprets the graph, do that by a `Lowering`."""
    inner = module.graph
    for node in inner.nodes:
        if getattr(node.target, "__name__", node.target) in LAID_OUT_ANEW or node.target in WITH_HISTORY:
            return module
    outer = torch.fx.Graph()
    before = [node for node in inner.nodes if node.op == "placeholder" or is_tensor_attribute(module, node)]
    given = [outer.node_copy(node) for node in before]

    def play(*values: Any) -> Any:
        known = dict(zip(before, values, strict=True))
        return Lowering(module, inner).run(initial_env=known, enable_io_processing=False)

    made = outer.call_function(play, tuple(given))
    outer.output(made)
    outer.set_codegen(inner._codegen)
    vars(module)["_graph"], outer.owning_module = outer, module
    return module


def without_notes(error: Exception) -> Exception:
    """An error without what the outer graph says of it."""
    if error.args and isinstance(error.args[0], str):
        error.args = (NOTE.split(error.args[0])[0], *error.args[1:])
    return error


def is_tensor_attribute(module: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    if node.op != "get_attr":
        return False
    path, _, name = str(node.target).rpartition(".")
    return isinstance(getattr(module.get_submodule(path), name), torch.Tensor)
