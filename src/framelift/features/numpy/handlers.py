"""Calls of NumPy's functions, and the ways from arrays to tensors and back (`features/numpy/arrays.py`)."""

from __future__ import annotations

import functools
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.config import config
from framelift.features.numpy.arguments import FOR_ALL_NUMBERS, dtype_of, is_array, is_symbol
from framelift.features.numpy.arrays import Arrays, stacked
from framelift.features.numpy.dummies import refuse
from framelift.features.numpy.functions import ABOUT, METHODS, astype, flatten, nonzero
from framelift.features.numpy.tables import (
    ARRAY_METHODS,
    FUNCTIONS,
    NUMPY_DTYPES,
    NUMPY_NUMBERS,
    OF_TORCH,
    np,
)
from framelift.graph import arithmetic
from framelift.graph.functions import LEGACY
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import BY_TYPE, Looks, rule, serve
from framelift.trace.machine import TraceFrame
from framelift.trace.runtime_calls import outside_of_modes
from framelift.trace.world import TraceWorld

PLAIN_ARGUMENTS = (bool, int, float, complex, *NUMPY_NUMBERS)


def opened_deep(value: Any) -> Any:
    value = opened(value)
    if type(value) in (tuple, list):
        return type(value)(map(opened_deep, value))
    return value


def has_arrays(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(has_arrays, value))
    return is_array(value)


def has_symbols(value: Any) -> bool:
    return any(map(has_symbols, value)) if isinstance(value, (tuple, list)) else is_symbol(value)


def call_numpy(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy's: torch's function is called for arrays, itself for known numbers. One that torch
    has not is interpreted, if it is Python."""
    world.identity.guard(fn)
    given = [opened_deep(x) for x in args]
    keywords = {name: opened_deep(value) for name, value in kwargs.items()}
    name = fn.__name__
    if fn in LIKE and given and type(given[0]) is FakeTensor:
        given[0] = world.feature(Arrays).of_tensor(given[0])
    if id(fn) in ACTIONS and given and is_array(given[0]):
        return ACTIONS[id(fn)](world.feature(Arrays), *given, **keywords)
    if id(fn) in TYPE_QUESTIONS:
        return asked_of_types(fn, given, keywords)
    if id(fn) in ABOUT and len(given) == 1 and not keywords and is_array(given[0]):
        return ABOUT[id(fn)](given[0])
    if fn is np.asarray and len(given) == 1 and not keywords and type(given[0]) is FakeTensor:
        return world.feature(Arrays).of_tensor(given[0])
    if type(fn) is np.ufunc and not keywords and all(type(x) in PLAIN_ARGUMENTS for x in given):
        return on_numbers(world, fn, given, name)
    if fn in REDUCTIONS and not keywords and len(given) == 1 and is_plain(given[0]):
        return on_numbers(world, fn, given, name)
    served = FUNCTIONS.get(id(fn))
    written = getattr(fn, "_implementation", None) if served is None and config.trace_numpy else None
    if type(written) is FunctionType and world.calls.interprets(written):
        return world.calls.invoke(written, *args, **kwargs)
    of_symbols = f"numpy.{name}" in FOR_ALL_NUMBERS and has_symbols((given, list(keywords.values())))
    if not of_symbols and not has_arrays((given, list(keywords.values()))):
        is_maker = id(fn) in MAKERS or (served is not None and all(map(is_plain, given)))
        if not is_maker or not config.trace_numpy:
            return world.calls.by_policy(fn, args, kwargs)
        if (made := world.feature(Arrays).made(fn, given, keywords, name)) is not None:
            return made
    if served is None or not config.trace_numpy:
        refuse(f"numpy.{name}")
    if fn is np.array and keywords.get("copy", True) is not True:
        served = FUNCTIONS[id(np.asarray)]
    if fn is np.where and len(given) == 1:
        served = nonzero
    if fn in ARRAY_OF and type(given[0]) in (tuple, list) and all(map(is_array, given[0])):
        served = stacked
    return world.feature(Arrays).call(fn, served, given, keywords, f"numpy.{name}")


def asked_of_types(fn: Any, given: list[Any], named: dict[str, Any]) -> Any:
    """What NumPy says of types of elements. An array's is as good as the array."""
    given = [OF_TORCH[x.tensor.dtype] if is_array(x) and (x.ndim or BY_TYPES) else x for x in given]
    if not all(is_type(value) or type(value) in PLAIN_ARGUMENTS for value in (*given, *named.values())):
        refuse(f"numpy.{fn.__name__}")
    with outside_of_modes():
        answer = fn(*given, **named)
    if not is_type(answer) or (isinstance(answer, np.dtype) and answer not in NUMPY_DTYPES):
        refuse(f"numpy.{fn.__name__}, which gives a type that torch has not")
    return answer


def is_type(value: Any) -> bool:
    is_class = isinstance(value, type) and (value.__module__ == "numpy" or value in PLAIN_ARGUMENTS)
    return is_class or value is None or isinstance(value, (np.dtype, str, bool))


def is_plain(value: Any) -> bool:
    """A number, or a list of numbers."""
    return (
        all(map(is_plain, value))
        if type(value) in (tuple, list, torch.Size)
        else type(value) in PLAIN_ARGUMENTS
    )


def on_numbers(world: TraceWorld, fn: Any, given: list[Any], name: str) -> Any:
    try:
        with np.errstate(**world.feature(Arrays).told_errors()):
            return fn(*given)
    except Exception as error:
        refuse(f"numpy.{name}: {error}")  # or a warning, to be given each time


def serve_function(fn: Any) -> None:
    @serve(fn)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        return call_numpy(f.world, fn, list(args), kwargs)


def serve_method(method: Any) -> None:
    name = method.__name__
    served_by = COPYING.get(name) or METHODS.get(name) or ARRAY_METHODS.get(method)

    @serve(method)
    def served(f: TraceFrame, array: Any, /, *args: Any, **kwargs: Any) -> Any:
        array = opened(array)
        if not is_array(array):
            return f.world.calls.native(f, method, [array, *args], kwargs)
        if name == "fill" and f.world.feature(Arrays).is_array(array):
            return f.world.feature(Arrays).set_item(array, ..., *args, **kwargs)
        if name == "sort" and f.world.feature(Arrays).is_array(array):
            return f.world.feature(Arrays).sort_in_place(array, *map(opened, args), **kwargs)
        if name in OF_DATA and not args and not kwargs:
            return f.world.calls.invoke(OF_DATA[name], array.tensor)
        if served_by is None or not f.world.feature(Arrays).is_array(array):
            refuse(f"the method {name} of an array")
        given = [array, *map(opened_deep, args)]
        keywords = {key: opened_deep(value) for key, value in kwargs.items()}
        return f.world.feature(Arrays).call(method, served_by, given, keywords, f"ndarray.{name}")


OF_DATA = {"item": torch.Tensor.item, "tolist": torch.Tensor.tolist}
"""Methods that give numbers of what is in an array -> those of tensors."""
COPYING = {"astype": astype, "flatten": flatten, "nonzero": nonzero}
"""Methods that make a copy, where torch's do not always -> functions that do."""

BY_TYPES = np is not None and hasattr(np, "_core")
"""Whether types decide about types, as in NumPy 2, and not values."""

TYPE_QUESTIONS: frozenset[int] = frozenset()
"""ids of functions that ask about types of elements, or make one."""

LIKE: tuple[Any, ...] = ()
"""Functions that make an array like what they are given, which may be a tensor."""

REDUCTIONS: tuple[Any, ...] = ()
"""Functions that make one number of a list of numbers."""

ARRAY_OF: tuple[Any, ...] = ()
"""Functions that make an array of what a list holds."""

ACTIONS: dict[int, Any] = {}
"""id of a function that changes an array -> what does the same."""

REDUCED_BY: dict[str, Any] = {}
"""Name of a function of NumPy's -> what its `reduce` is in torch."""
ACCUMULATED_BY: dict[str, Any] = {}

MAKERS: frozenset[int] = frozenset()
"""ids of functions that make arrays of other values."""

if np is not None:
    ARRAY_OF = (np.array, np.asarray, np.asanyarray)
    _makers: tuple[Any, ...] = (*ARRAY_OF, np.empty, np.zeros, np.ones, np.full, np.eye, np.arange)
    _makers += (np.linspace, np.identity, np.tri, np.logspace, np.geomspace, np.indices, np.fft.fftfreq)
    _makers += (np.fft.rfftfreq, np.bartlett, np.blackman, np.hamming, np.hanning, np.kaiser)
    MAKERS = frozenset(map(id, _makers))
    LIKE = (np.zeros_like, np.ones_like, np.full_like, np.empty_like)
    ACTIONS = {id(np.copyto): Arrays.copy_into}
    _reduced = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}
    _reduced |= {"logical_and": np.all, "logical_or": np.any}
    REDUCED_BY = {name: FUNCTIONS[id(function)] for name, function in _reduced.items()}
    ACCUMULATED_BY = {"add": FUNCTIONS[id(np.cumsum)], "multiply": FUNCTIONS[id(np.cumprod)]}
    REDUCTIONS = (np.prod, np.sum, np.max, np.min, np.mean, np.any, np.all)
    BY_TYPE[np.ufunc] = call_numpy
    BY_TYPE[type(np.sum)] = call_numpy
    for _function in (*_makers, np.full_like, np.einsum, np.ascontiguousarray):
        if type(_function) in (FunctionType, BuiltinFunctionType):
            serve_function(_function)
    for _method in vars(np.ndarray).values():
        if type(_method) is type(list.append):
            serve_method(_method)

    _questions = (np.issubdtype, np.can_cast, np.result_type, np.promote_types, np.dtype)
    TYPE_QUESTIONS = frozenset(map(id, _questions))
    BY_TYPE[type(np.dtype)] = call_numpy
    for _function in (np.issubdtype, np.promote_types):
        serve_function(_function)

    def serve_facts(about: Any) -> None:
        @serve(about)
        def served(f: TraceFrame, dtype: Any, /) -> Any:
            """The limits of a number's type. NumPy keeps one object for each type."""
            found = dtype_of(opened(dtype))
            if found is None:
                return f.world.calls.native(f, about, [dtype], None)
            with outside_of_modes():
                return f.world.created.keep(about(found))

    def serve_number_method(method: Any) -> None:
        @serve(method)
        def served(f: TraceFrame, number: Any, /) -> Any:
            """The number of Python's."""
            number = opened(number)
            if type(number) in NUMPY_NUMBERS:
                return number.item()
            if is_array(number):
                return f.world.calls.invoke(torch.Tensor.item, number.tensor)
            return f.world.calls.native(f, method, [number], None)

    serve_number_method(np.generic.item)
    serve_number_method(np.generic.tolist)

    def serve_ufunc_method(method: Any, served_by: dict[str, Any]) -> None:
        @serve(method)
        def served(f: TraceFrame, ufunc: Any, array: Any, /, *args: Any, **kwargs: Any) -> Any:
            """Of most functions there is another one that does the same."""
            ufunc, array = opened(ufunc), opened(array)
            found = served_by.get(getattr(ufunc, "__name__", ""))
            if found is None or not is_array(array):
                return f.world.calls.native(f, method, [ufunc, array, *args], kwargs)
            given, named = opened_deep(args), {name: opened_deep(value) for name, value in kwargs.items()}
            if not given and "axis" not in named:
                named["axis"] = 0
            asked = functools.partial(method, ufunc)
            return f.world.feature(Arrays).call(asked, found, [array, *given], named, f"{ufunc.__name__}.at")

    def serve_outer(f: TraceFrame, ufunc: Any, left: Any, right: Any, /) -> Any:
        ufunc, left, right = opened(ufunc), opened_deep(left), opened_deep(right)
        by = FUNCTIONS.get(id(ufunc))
        if by is None or not (is_array(left) and is_array(right)):
            return f.world.calls.native(f, np.ufunc.outer, [ufunc, left, right], None)
        across = lambda a, b: by(a[(..., *[None] * b.ndim)], b)
        asked = functools.partial(np.ufunc.outer, ufunc)
        return f.world.feature(Arrays).call(asked, across, [left, right], {}, f"{ufunc.__name__}.outer")

    serve_ufunc_method(np.ufunc.reduce, REDUCED_BY)
    serve_ufunc_method(np.ufunc.accumulate, ACCUMULATED_BY)
    serve(np.ufunc.outer)(serve_outer)
    normalize: Any = np.lib.array_utils.normalize_axis_index
    rule(normalize, looks=Looks.DEEP, why="a function of numbers")

    @serve(np.errstate)
    def serve_error_state(f: TraceFrame, /, **kwargs: Any) -> Any:
        """Which errors NumPy reports. It changes no graph."""
        settings = {name: opened(value) for name, value in kwargs.items()}
        if not all(type(how) is str for how in settings.values()):
            return f.world.calls.native(f, np.errstate, [], kwargs)
        made = f.world.created.keep(np.errstate(**settings))
        f.world.feature(Arrays).error_states[id(made)] = settings
        return made

    @serve(np.errstate.__enter__)
    def serve_enter_error_state(f: TraceFrame, self: Any) -> Any:
        manager, arrays = opened(self), f.world.feature(Arrays)
        if id(manager) not in arrays.error_states:
            return f.world.calls.native(f, np.errstate.__enter__, [manager], None)
        f.world.recorder.contexts.enter_range(manager)
        arrays.errors.append(arrays.error_states[id(manager)])

    @serve(np.errstate.__exit__)
    def serve_exit_error_state(f: TraceFrame, self: Any, /, *raised: Any) -> Any:
        manager, contexts = opened(self), f.world.recorder.contexts
        if not contexts.is_open(manager):
            return f.world.calls.native(f, np.errstate.__exit__, [manager, *raised], None)
        f.world.feature(Arrays).errors.pop()
        return contexts.exit_range(manager)

    def serve_number(cls: Any) -> None:
        @serve(cls)
        def served(f: TraceFrame, /, *args: Any) -> Any:
            given = [opened(x) for x in args]
            if not all(type(x) in PLAIN_ARGUMENTS for x in given):
                return f.world.calls.native(f, cls, given, None)
            return on_numbers(f.world, cls, given, cls.__name__)

    for _class in NUMPY_NUMBERS:
        serve_number(_class)
    serve_facts(np.finfo)
    serve_facts(np.iinfo)

    def serve_limit(limit: Any) -> None:
        @serve(limit)
        def served(f: TraceFrame, self: Any) -> Any:
            """NumPy computes the limit when it is read."""
            about = opened(self)
            if f.world.created.has(about):
                with outside_of_modes():
                    return limit(about)
            return f.world.calls.native(f, limit, [about], None)

    for _limit in ("min", "max"):
        serve_limit(vars(np.iinfo)[_limit].fget)


@serve(abs, looks=Looks.DEEP, on_symbols=arithmetic.absolute, why="a pure builtin")
def serve_abs(f: TraceFrame, x: Any, /) -> Any:
    if is_array(opened(x)):
        return call_numpy(f.world, np.absolute, [x], {})
    return f.world.calls.native(f, abs, [x], None)


# ---- tensors


@serve(torch.Tensor.numpy)
def serve_numpy(f: TraceFrame, tensor: Any, /, *, force: Any = False) -> Any:
    if np is None or not config.trace_numpy:
        return f.world.calls.native(f, torch.Tensor.numpy, [tensor], {"force": force})
    given: Any = opened(tensor)
    if is_wrapper(f) and type(given) is FakeTensor:
        return f.world.feature(Arrays).of_wrapped(given)
    if opened(force) is True and type(given) is FakeTensor:
        given = torch.Tensor.resolve_neg(torch.Tensor.resolve_conj(torch.Tensor.detach(given)))
    return f.world.feature(Arrays).of_tensor(given)


def is_wrapper(f: TraceFrame) -> bool:
    """Whether it is `torch.compiler.wrap_numpy` that makes arrays of tensors, or tensors of arrays."""
    return f.code.code.co_name == "<lambda>" and f.globals.get("__name__") == "torch._dynamo.external_utils"


@serve(torch.from_numpy)
def serve_from_numpy(f: TraceFrame, array: Any, /) -> Any:
    array = opened(array)
    if not is_array(array):
        return f.world.calls.native(f, torch.from_numpy, [array], None)
    return f.world.feature(Arrays).as_tensor(array)


@serve(torch.asarray)
def serve_asarray(f: TraceFrame, data: Any, /, *args: Any, **kwargs: Any) -> Any:
    data = opened(data)
    if not is_array(data):
        return f.world.calls.native(f, torch.asarray, [data, *args], kwargs)
    return serve_as_tensor(f, data, *args, **kwargs)


@serve(torch.as_tensor)
def serve_as_tensor(f: TraceFrame, data: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The result shares the memory of an array, unless it is of another type."""
    data = opened(data)
    arrays = f.world.feature(Arrays)
    if is_wrapper(f) and is_array(data) and arrays.is_array(data):
        return arrays.of_result(data)
    given = arrays.as_tensor(data) if is_array(data) else data
    return f.world.calls.native(f, torch.as_tensor, [given, *args], kwargs)


@serve(torch.tensor)
def serve_tensor(f: TraceFrame, data: Any, /, **kwargs: Any) -> Any:
    """A copy."""
    data = opened(data)
    if type(data) in (list, tuple) and has_arrays(listed := opened_deep(data)):
        return f.world.calls.invoke(torch.Tensor.to, f.world.feature(Arrays).listed(listed), **kwargs)
    if not is_array(data):
        return f.world.calls.native(f, torch.tensor, [data], kwargs)
    if not kwargs.keys() <= {"dtype"}:
        refuse("torch.tensor of an array")
    copied = f.world.feature(Arrays).as_tensor(data).clone(memory_format=torch.contiguous_format)
    return f.world.calls.native(f, torch.as_tensor, [copied], kwargs)


def call_tensor_class(world: TraceWorld, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`torch.LongTensor([...])`."""
    data = opened(args[0]) if len(args) == 1 and not kwargs and cls in LEGACY else None
    if type(data) not in (list, tuple) or not has_arrays(found := opened_deep(data)):
        return world.calls.by_policy(cls, args, kwargs)
    made = world.feature(Arrays).listed(found, cls)
    return world.calls.invoke(torch.Tensor.to, made, LEGACY[cls] or torch.get_default_dtype())


BY_TYPE[type(torch.FloatTensor)] = call_tensor_class
