"""Tensors whose data is known while tracing: those that factories make of constants, and what is computed of
them. Programs ask such tensors for numbers and lists (`torch.tensor(sizes).cumsum(0).tolist()`). What is
computed of one that is made of a number which varies is known as a symbol (`x[: torch.tensor(n) // 2]`)."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.types import py_sym_types
from torch.utils._pytree import tree_leaves, tree_map

from framelift.core.blame import acts_for_program
from framelift.graph import arithmetic
from framelift.graph.functions import is_custom
from framelift.graph.op_memory import storage
from framelift.graph.symbols import settled, simplest

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder

Tensor = torch.Tensor

ELEMENTS, CALLS = 1024, 64
"""So large a tensor, and so many calls, are worth the while."""
ASKING: frozenset[Any] = frozenset({Tensor.item, Tensor.__bool__, Tensor.__int__, Tensor.__float__})
ASKING |= {Tensor.__index__}
ASKING |= {torch.is_nonzero, Tensor.is_nonzero, torch.equal, Tensor.equal, torch.allclose, Tensor.allclose}
"""Functions that give numbers and truth values of data."""
TRUTH: frozenset[Any] = frozenset({Tensor.__bool__, torch.is_nonzero, Tensor.is_nonzero})
"""For which C asks how many elements there are: it can only where no size and place in memory is a symbol."""


@acts_for_program
def truth(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """What these give for a tensor of which that is not so, such as an element at an index that varies."""
    tensor = args[0] if args else kwargs["input"]
    if tensor.numel() == 1:
        return bool(tensor.item())
    how_many = "no values" if tensor.numel() == 0 else "more than one value"
    raise RuntimeError(f"Boolean value of Tensor with {how_many} is ambiguous")


class Unknown(Exception):
    """The data depends on inputs, on chance, or on what was in memory before."""


def data_of(recorder: Recorder, fake: Any) -> Tensor | None:
    """The data of a tensor of the trace, if it is the same in every call."""
    if type(fake) is not FakeTensor:
        return None
    node = recorder.builder.body.nodes.get(id(fake))
    if node is None or any(type(size) is not int for size in fake.shape):
        return None
    done: dict[torch.fx.Node, Any] = {}
    try:
        with torch._C.DisableTorchFunction(), unset_fake_temporarily(), torch.no_grad():
            return evaluate(recorder, node, done)
    except Unknown:
        return None


def evaluate(recorder: Recorder, node: torch.fx.Node, done: dict[torch.fx.Node, Any]) -> Any:
    if node in done:
        return done[node]
    builder, expected = recorder.builder, node.meta.get("example_value")
    if node.op == "placeholder" and not is_written(recorder, node):
        done[node] = assumed(recorder, node)
        return done[node]
    if node.op not in ("call_function", "call_method") or len(done) == CALLS:
        raise Unknown
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node in builder.impure or "empty" in name or is_custom(node.target):
        raise Unknown
    if type(expected) is FakeTensor:
        if storage(expected) in recorder.mutations.first_written or expected.device.type != "cpu":
            raise Unknown
        if expected.layout is not torch.strided or expected.numel() > ELEMENTS:
            raise Unknown
    fetch = lambda given: evaluate(recorder, given, done)
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), fetch)
    try:
        made = getattr(args[0], name)(*args[1:], **kwargs) if node.op == "call_method" else None
        made = node.target(*args, **kwargs) if callable(node.target) else made
    except Exception as error:
        raise Unknown from error
    if type(expected) is FakeTensor and not is_like(made, expected):
        raise Unknown  # a flag of torch's was another one then
    done[node] = made
    return made


def fails_always(recorder: Recorder, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call fails on data that is the same in every call."""
    known: dict[int, Tensor] = {}
    for given in tree_leaves((args, kwargs)):
        if isinstance(given, py_sym_types):
            return False
        if isinstance(given, Tensor) and id(given) not in known:
            data = data_of(recorder, given)
            if data is None:
                return False
            known[id(given)] = data
    if not known:
        return False
    with contextlib.ExitStack() as alone:
        for each in (torch._C.DisableTorchFunction(), unset_fake_temporarily(), torch.no_grad()):
            alone.enter_context(each)
        alone.enter_context(torch.random.fork_rng(devices=()))
        alone.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        copies = {place: data.clone() for place, data in known.items()}  # it may write to them
        swap = lambda given: copies.get(id(given), given)
        try:
            func(*tree_map(swap, tuple(args)), **tree_map(swap, kwargs))
        except Exception:
            return True
    return False


def assumed(recorder: Recorder, node: torch.fx.Node) -> Tensor:
    """An input of which the program says that it is a constant."""
    inputs = recorder.inputs
    if inputs.assumed:
        for entry in inputs.entries:
            if entry.node is node and any(entry.value is constant for constant in inputs.assumed):
                return entry.value
    raise Unknown


def in_this_call(recorder: Recorder, fake: Any) -> Tensor | None:
    """What a tensor of the trace is in the call that is being captured: what leads to it is computed of the
    inputs there are. None if that has effects, draws, or has been written to since."""
    builder = recorder.builder
    last = None if builder.in_body else builder.body.nodes.get(id(fake))
    if last is None:
        return None
    needed, waiting = {last}, [last]
    while waiting:
        above = [node for node in waiting.pop().all_input_nodes if node not in needed]
        needed.update(above)
        waiting += above
    done: dict[torch.fx.Node, Any] = {entry.node: entry.value for entry in builder.inputs.entries}
    try:
        with torch._C.DisableTorchFunction(), unset_fake_temporarily(), torch.no_grad():
            for node in builder.body.graph.nodes:
                if node in needed and node not in done:
                    done[node] = computed_now(recorder, node, done)
                elif node in needed and is_written(recorder, node):
                    return None
            real = done[last]
            kept = isinstance(real, torch.nn.Parameter) or last.op != "placeholder"
            return real if kept else real.detach()
    except Unknown:
        return None


def computed_now(recorder: Recorder, node: torch.fx.Node, done: dict[torch.fx.Node, Any]) -> Any:
    builder, expected = recorder.builder, node.meta.get("example_value")
    effects = node in builder.impure or node in builder.failing.drawing
    if node.op not in ("call_function", "call_method") or effects or is_written(recorder, node):
        raise Unknown
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), done.__getitem__)
    try:
        call = getattr(args[0], node.target) if isinstance(node.target, str) else node.target
        made = call(*(args[1:] if node.op == "call_method" else args), **kwargs)
    except Exception as error:
        raise Unknown from error
    if type(expected) is FakeTensor and not (isinstance(made, Tensor) and made.dtype is expected.dtype):
        raise Unknown  # a flag of torch's was another one then
    return made


def is_written(recorder: Recorder, node: torch.fx.Node) -> bool:
    expected = node.meta.get("example_value")
    return type(expected) is FakeTensor and storage(expected) in recorder.mutations.first_written


def is_like(made: Any, fake: FakeTensor) -> bool:
    return isinstance(made, Tensor) and made.dtype is fake.dtype and tuple(made.shape) == tuple(fake.shape)


def answer(recorder: Recorder, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any] | None:
    """What a function gives that asks for data, in a tuple, if it is the same in every call."""
    if func not in ASKING:
        return None
    if func is Tensor.item:
        number = number_of(recorder, args[0])
        if number is not None:
            return (number,)
    if func in TRUTH and (holds := comparison_of(recorder, args[0])) is not None:
        return (holds,)
    given = [data_of(recorder, arg) if isinstance(arg, Tensor) else arg for arg in args]
    if any(arg is None for arg in given):
        return None
    with torch._C.DisableTorchFunction(), unset_fake_temporarily():
        return (ask(func, given, kwargs),)


@acts_for_program
def ask(func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


# ---- numbers that vary


def number_of(recorder: Recorder, fake: Any) -> Any:
    """The number in a tensor that is made of numbers which vary, as a symbol; None if it is not known."""
    if type(fake) is not FakeTensor or not (recorder.builder.symbols or recorder.inputs.numbers_in):
        return None
    node = recorder.builder.body.nodes.get(id(fake))
    try:
        with torch._C.DisableTorchFunction():
            return None if node is None else computed(recorder, node, CALLS)
    except Unknown:
        return None


def comparison_of(recorder: Recorder, fake: Any) -> bool | None:
    """Whether two such numbers compare as a tensor says, which is relied on; None if that is not known."""
    if type(fake) is not FakeTensor or not (recorder.builder.symbols or recorder.inputs.numbers_in):
        return None
    node = recorder.builder.body.nodes.get(id(fake))
    compare = None if node is None else COMPARISONS.get(name_of(node))
    if node is None or compare is None or node.kwargs or fake.dim() or fake.dtype is not torch.bool:
        return None
    with torch._C.DisableTorchFunction():
        if is_written(recorder, node):
            return None
        try:
            operands = torch.fx.map_arg(node.args, lambda given: computed(recorder, given, CALLS))
        except Unknown:
            return None
        if not all(type(operand) in (int, torch.SymInt) for operand in operands):
            return None  # a graph may round
        return bool(settled(arithmetic.compute(compare, operands)))


def name_of(node: torch.fx.Node) -> str:
    """The name of the function or method that it calls."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def computed(recorder: Recorder, node: torch.fx.Node, depth: int) -> Any:
    expected = node.meta.get("example_value")
    if type(expected) is torch.SymInt:
        return expected
    if (given := recorder.inputs.numbers_in.get(node)) is not None and not is_written(recorder, node):
        return given()
    step = INTEGER_STEPS.get(name_of(node))
    if step is None or not depth or type(expected) is not FakeTensor or node.kwargs.keys() - PLACES:
        raise Unknown
    if expected.dim() or expected.dtype is not torch.int64 or expected.device.type != "cpu":
        raise Unknown
    if storage(expected) in recorder.mutations.first_written:
        raise Unknown
    fetch = lambda given: computed(recorder, given, depth - 1)
    operands = torch.fx.map_arg(node.args, fetch)
    if any(type(operand) in (float, torch.SymFloat) for operand in operands):
        raise Unknown  # a graph rounds otherwise
    number = step(*operands)
    if type(number) not in (int, torch.SymInt):
        raise Unknown
    return simplest(number)


def by(operation: Any) -> Callable[..., Any]:
    return lambda *operands: arithmetic.compute(operation, operands)


PLACES = frozenset({"dtype", "device"})
COMPARISONS: dict[str, Any] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
"""Name of a function that compares tensors -> the same of numbers."""
INTEGER_STEPS: dict[str, Callable[..., Any]] = {
    **{name: by(getattr(operator, name)) for name in ("add", "sub", "mul", "neg", "floordiv", "mod")},
    **dict.fromkeys(("scalar_tensor", "as_tensor", "clone", "detach", "long"), lambda number: number),
    "floor_divide": by(operator.floordiv),
    "remainder": by(operator.mod),
}
"""Name of a function of tensors with one integer -> the same of the integers."""


def with_numbers(recorder: Recorder, index: Any) -> Any:
    """An index in which slices have numbers in the place of tensors, where these are known."""
    if type(index) is tuple:
        return tuple([with_numbers(recorder, place) for place in index])
    if type(index) is not slice:
        return index
    bounds = (index.start, index.stop, index.step)
    if not any(type(bound) is FakeTensor for bound in bounds):
        return index
    numbers = [number_of(recorder, bound) for bound in bounds]
    return slice(*[old if new is None else new for old, new in zip(bounds, numbers, strict=True)])


def in_place_of_tensors(recorder: Recorder, args: Any) -> Any:
    """Arguments with numbers in the place of tensors that are known, for a function that takes a tensor and
    asks others for their numbers (`torch.clamp(x, 0, most)`); None if there are none. Types come out the
    same, since what the numbers are applied to has dimensions."""
    if not args or type(args[0]) is not FakeTensor or not args[0].dim():
        return None
    numbers = [None, *(number_of(recorder, arg) for arg in args[1:])]
    if all(number is None for number in numbers):
        return None
    return tuple([old if new is None else new for old, new in zip(args, numbers, strict=True)])


def list_of(known: Tensor) -> Any:
    with torch._C.DisableTorchFunction(), unset_fake_temporarily():
        return known.tolist()
