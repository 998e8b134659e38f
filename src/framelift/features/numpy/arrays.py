"""NumPy's arrays in a trace: they are torch's (`torch._numpy`), each around a fake tensor.

What the program does with one goes to torch's implementation, and the graph gets what that does with the
tensor; arrays that live on are made NumPy's again. Before each call NumPy itself is asked, with arrays of the
same shape, strides and type but without their values: where it would give another type, shape or layout,
share memory that torch's does not share, or raise, the call is not captured. So torch's implementation has to
be trusted for values only, and `FUNCTIONS` and `ARRAY_METHODS` name what it is trusted with.

What has no dimensions is one of NumPy's numbers, unless it is known for an array (`Arrays.zero`).
"""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Iterator
from types import MethodDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import NULL
from framelift.graph import op_memory
from framelift.guards.kinds import Check
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import opened
from framelift.trace.part import Part
from framelift.trace.runtime_calls import outside_of_modes

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

try:
    import numpy as np
    import torch._numpy as tnp
except ImportError:  # torch works without NumPy
    np = tnp = None  # type: ignore[assignment]

Array: Any = tnp.ndarray if tnp is not None else None
"""What stands for an array, or for a number of NumPy's that is not known."""

NUMPY_DTYPES: dict[Any, torch.dtype] = {}
"""Type of NumPy's -> torch's. Others can't be traced."""
if np is not None:
    NAMES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"
    NUMPY_DTYPES = {np.dtype(name): getattr(torch, name) for name in NAMES.split()}
ERRORS = ("divide", "over", "under", "invalid")
if hasattr(np, "_core"):  # NumPy 2
    _guards.know_numpy(np._core.umath._extobj_contextvar, np._core.umath._get_extobj_dict)
OF_TORCH = {dtype: of for of, dtype in NUMPY_DTYPES.items()}
NUMPY_NUMBERS = frozenset(dtype.type for dtype in NUMPY_DTYPES)
CYTHON: Any = type(np.random.default_rng) if np is not None else None
"""The type of functions of `numpy.random`."""

# ---- what torch's implementation is trusted with

ELEMENTWISE = """
    absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor ceil
    conjugate copysign cos cosh deg2rad equal exp exp2 expm1 fabs float_power floor fmax fmin greater
    greater_equal heaviside hypot invert isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp
    logaddexp2 logical_and logical_not logical_or logical_xor matmul maximum minimum multiply negative
    not_equal positive power rad2deg reciprocal rint sign signbit sin sinc sinh sqrt square subtract tan tanh
    true_divide trunc floor_divide remainder conj degrees divide divmod fmod gcd lcm ldexp left_shift mod
    modf nextafter radians right_shift
"""
OTHERS = """
    all any amax amin argmax argmin array asarray arange atleast_1d atleast_2d atleast_3d average
    broadcast_to clip column_stack concatenate copy cumprod cumsum diagonal diff dot dstack einsum
    empty_like expand_dims eye flip fliplr flipud full full_like hstack identity imag inner kron
    linspace max mean min moveaxis nan_to_num ones ones_like outer pad prod ptp ravel real repeat reshape
    roll rollaxis rot90 round sort split squeeze stack std sum swapaxes take tensordot tile trace
    transpose tri tril triu var vdot vstack where zeros zeros_like
    append argsort around array_split ascontiguousarray broadcast_arrays convolve corrcoef correlate
    count_nonzero cov cross diag diagflat dsplit gradient hsplit isclose iscomplex isneginf isposinf
    isreal median meshgrid percentile quantile searchsorted take_along_axis vander vsplit
    bartlett blackman geomspace hamming hanning indices kaiser logspace tril_indices triu_indices
"""
LINALG = """
    cholesky cond det eig eigh eigvals eigvalsh inv matrix_power matrix_rank norm pinv qr slogdet solve svd
    tensorinv tensorsolve
"""
FFT = """
    fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2
    rfftfreq rfftn
"""
METHOD_NAMES = """
    all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum diagonal dot
    flatten max mean min prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take
    trace transpose var
"""
FUNCTIONS: dict[int, Any] = {}
"""id of a function of NumPy's -> torch's."""
ARRAY_METHODS: dict[Any, Any] = {}
"""Method of arrays -> torch's."""
if np is not None:
    FUNCTIONS = {id(getattr(np, n)): getattr(tnp, n) for n in (*ELEMENTWISE.split(), *OTHERS.split())}
    FUNCTIONS |= {id(getattr(np.linalg, n)): getattr(tnp.linalg, n) for n in LINALG.split()}
    FUNCTIONS |= {id(getattr(np.fft, n)): getattr(tnp.fft, n) for n in FFT.split()}
    ARRAY_METHODS = {getattr(np.ndarray, n): getattr(Array, n) for n in METHOD_NAMES.split()}

INTEGER_ERRORS = frozenset({"floor_divide", "remainder", "power", "float_power", "floordiv", "mod", "pow"})
INTEGER_ERRORS |= {"ifloordiv", "imod", "ipow", "reciprocal", "divmod", "fmod"}
"""What NumPy warns of, or computes, for some integers where torch raises, or the other way round."""

BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge"
ARRAY_OPERATORS = frozenset(getattr(operator, name) for name in (*BINARY.split(), "neg", "pos", "invert"))
ARRAY_IN_PLACE = {
    getattr(operator, f"i{name.rstrip('_')}"): getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "and_", "or_", "xor", "lshift", "rshift")
}
"""Operators that write to an array -> those that compute what is written."""
ATTRIBUTES = frozenset({"shape", "ndim", "size", "itemsize", "strides"})
OF_TORCHS_OWN = (
    *(breaks.TENSOR_STATE, breaks.TENSOR_MEMORY, breaks.TORCH_STATE, breaks.GRAPH_ARGUMENT),
    breaks.DATA_DEPENDENT_VALUE,
)
"""Reasons that are about how torch does it, and not about what the program does."""
FEW = 1000
"""So many numbers may be written into a graph."""
TEXTUAL = (bool, int, float, complex, str, type(None), type(Ellipsis))


def is_array(value: Any) -> bool:
    return Array is not None and type(value) is Array


def refuse(what: str) -> NoReturn:
    raise Break(breaks.NUMPY, what)


class Arrays(Part):
    """What a trace knows of arrays, and does with them (`trace/type_rules.py`)."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.error_states: dict[int, dict[str, str]] = {}
        """id of a `numpy.errstate` that the trace has made -> what it is to do."""
        self.errors: list[dict[str, str]] = []
        """The settings of those that the program has entered."""
        self.read_only: dict[int, Any] = {}
        """Arrays that NumPy lets nobody write to, by their ids."""
        self.zero: dict[int, Any] = {}
        """Arrays without dimensions, by their ids: others without are numbers."""
        self.errors_around: tuple[str, ...] | None = None
        """What NumPy does about each kind of error around the call, if that is known."""

    def told_errors(self) -> dict[str, Any]:
        """Settings of `numpy.errstate` in which each error that is not ignored raises."""
        told = self.settings(dict.fromkeys(ERRORS, "raise"))
        return {kind: "ignore" if how == "ignore" else "raise" for kind, how in told.items()}

    def settings(self, around: dict[str, str]) -> dict[str, str]:
        """What NumPy does about errors, where the program stands."""
        told = dict(around)
        for settings in self.errors:
            every = settings.get("all")
            changed = {**(dict.fromkeys(told, every) if every else {}), **settings}
            told |= {kind: changed[kind] for kind in told.keys() & changed.keys()}
        return told

    @contextlib.contextmanager
    def noticing_errors(self) -> Iterator[None]:
        """Within it each error of a number ends the trace: what NumPy does about it, it does each time."""
        self.errors_around = _guards.numpy_errors()
        if self.errors_around is None:
            yield
        else:
            with np.errstate(all="call", call=end_at_error):
                yield

    def refuse_told_errors(self, name: str) -> None:
        """A graph does not tell what was divided by zero. Where NumPy would just warn of it, nobody does."""
        if self.errors_around is None:
            return
        source = self.world.inputs.root.asked("numpy.geterr()", _guards.numpy_errors, ())
        self.world.guards.add(source, Check.EQUAL, self.errors_around)
        told = self.settings(dict(zip(ERRORS, self.errors_around, strict=True)))
        if not set(told.values()) <= {"warn", "ignore"}:
            refuse(f"{name}, whose errors NumPy is to tell")

    # ---- calls

    def call(self, asked: Any, served: Any, args: Any, kwargs: dict[str, Any], name: str) -> Any:
        """Calls torch's function for one of NumPy's. NumPy is asked before what the result is like."""
        self.refuse_told_errors(name)
        args, kwargs = self.prepared(args), self.prepared(kwargs)
        if name.rpartition(".")[2] in INTEGER_ERRORS and not any(map(is_inexact, (*args, *kwargs.values()))):
            refuse(f"{name} of integers, some of which are errors")
        if "out" in kwargs or "where" in kwargs:
            refuse(f"{name} with out= or where=")
        dummies: list[tuple[Any, Any]] = []
        given = self.as_dummies(args, dummies), self.as_dummies(kwargs, dummies)
        if getattr(asked, "__module__", None) == "numpy.linalg":
            make_regular(dummies)
        expected = asking(asked, *given, name)
        with outside_of_modes():  # not every kernel takes every type, which fakes do not tell
            asking(served, for_torch(as_real(args, dummies)), for_torch(as_real(kwargs, dummies)), name)
        try:
            found = served(*for_torch(args), **for_torch(kwargs))
        except Exception as error:
            refuse(f"{name}: {error}")
        except Break as end:
            raise Break(breaks.NUMPY, name) if end.reason in OF_TORCHS_OWN else end from None
        with torch._C.DisableTorchFunction():
            return self.checked(found, expected, dummies, name)

    def checked(self, found: Any, expected: Any, dummies: list[tuple[Any, Any]], name: str) -> Any:
        """Breaks unless torch's result is like NumPy's in all but its values."""
        if isinstance(expected, (tuple, list)):
            if not isinstance(found, (tuple, list)) or len(found) != len(expected):
                refuse(f"{name}, of which torch gives another number of results")
            made = [self.checked(x, y, dummies, name) for x, y in zip(found, expected, strict=True)]
            if hasattr(expected, "_fields"):
                return type(expected)(*made)
            return tuple(made) if isinstance(expected, tuple) else made
        if isinstance(found, torch.Tensor):
            found = Array(found)
        if type(found) is not Array or type(expected) not in (np.ndarray, *NUMPY_NUMBERS):
            refuse(f"{name}, which gives a {type(expected).__name__}")
        if found.tensor.is_conj() or found.tensor.is_neg():  # which torch leaves to be done later
            done = self.world.recorder.call(torch.Tensor.resolve_conj, (found.tensor,), {})
            found = Array(self.world.recorder.call(torch.Tensor.resolve_neg, (done,), {}))
        if isinstance(expected, np.ndarray) and not expected.ndim:
            if any(dummy is not expected and np.may_share_memory(dummy, expected) for _, dummy in dummies):
                refuse(f"{name}, which gives an array without dimensions that is a view")
            found = self.without_dimensions(self.world.recorder.call(torch.Tensor.clone, (found.tensor,), {}))
        elif is_fresh_in_rows(expected) and not found.tensor.is_contiguous():
            # torch leaves results of LAPACK in columns
            found = Array(self.world.recorder.call(torch.Tensor.contiguous, (found.tensor,), {}))
        if describe(found) != describe_real(expected):
            refuse(f"{name}, of which torch gives {describe(found)}, and NumPy {describe_real(expected)}")
        if isinstance(expected, np.ndarray) and not expected.flags.writeable:
            found = Array(found.tensor)  # another object than one that may be written to
            self.read_only[id(found)] = found
        storage = op_memory.storage(found.tensor)
        shares = [op_memory.storage(array.tensor) == storage for array, _ in dummies]
        if not self.is_array(found) and any(shares):
            # a number is no view
            return Array(self.world.recorder.call(torch.Tensor.clone, (found.tensor,), {}))
        for array, dummy in dummies:
            shared = op_memory.storage(array.tensor) == storage
            if shared is not (isinstance(expected, np.ndarray) and np.may_share_memory(dummy, expected)):
                which = "with its argument with one of torch and NumPy only"
                refuse(f"{name}, whose result shares memory {which}")
            if found.tensor is array.tensor and expected is not dummy:
                return Array(self.world.recorder.call(torch.Tensor.detach, (found.tensor,), {}))
        return next((array for array, dummy in dummies if dummy is expected), found)

    def without_dimensions(self, tensor: Any) -> Any:
        found = Array(tensor)
        self.zero[id(found)] = found
        return found

    def is_array(self, value: Any) -> bool:
        """Whether it stands for an array, and not for a number."""
        return bool(value.ndim) or id(value) in self.zero

    def prepared(self, value: Any) -> Any:
        """Arguments that mean the same to torch and to NumPy. NumPy's numbers keep their types."""
        value = opened(value)
        if type(value) in (tuple, list):
            return type(value)(map(self.prepared, value))
        if type(value) is dict:
            return {name: self.prepared(item) for name, item in value.items()}
        if type(value) is slice:
            return slice(*map(self.prepared, (value.start, value.stop, value.step)))
        if type(value) is Array or type(value) in TEXTUAL:
            return value
        if type(value) in NUMPY_NUMBERS:
            return Typed(value)
        dtype = dtype_of(value)
        if dtype is None:
            refuse(f"an array together with a {type(value).__name__}")
        return dtype

    def as_dummies(self, value: Any, dummies: list[tuple[Any, Any]]) -> Any:
        if type(value) in (tuple, list):
            return type(value)(self.as_dummies(item, dummies) for item in value)
        if type(value) is dict:
            return {name: self.as_dummies(item, dummies) for name, item in value.items()}
        if type(value) is slice:
            return value
        if type(value) is Array:
            found = next((dummy for array, dummy in dummies if array is value), None)
            if found is None:
                found = dummy_of(value)
                if id(value) in self.zero:
                    found = np.array(found)
                if id(value) in self.read_only:
                    found.flags.writeable = False
                dummies.append((value, found))
            return found
        return value.number if type(value) is Typed else value

    def made(self, fn: Any, args: list[Any], kwargs: dict[str, Any], name: str) -> Any:
        """A new array of numbers that are known: as NumPy makes it, unless there are many of them."""
        args, kwargs = self.prepared(args), self.prepared(kwargs)
        real = asking(fn, self.as_dummies(args, []), self.as_dummies(kwargs, []), f"numpy.{name}")
        if type(real) is np.ndarray and not real.ndim and real.dtype in NUMPY_DTYPES:
            made = self.world.recorder.call(torch.tensor, (real.item(),), {"dtype": NUMPY_DTYPES[real.dtype]})
            return self.without_dimensions(made)
        if type(real) is not np.ndarray or real.dtype not in NUMPY_DTYPES or not real.size:
            refuse(f"numpy.{name}, which gives no array that can be traced")
        if not real.flags.c_contiguous:
            refuse(f"numpy.{name} in another order than C's")
        first, dtype = real.flat[0], NUMPY_DTYPES[real.dtype]
        call = self.world.recorder.call
        if real.tobytes() == first.tobytes() * real.size:
            return Array(call(torch.full, (real.shape, first.item()), {"dtype": dtype}))
        if real.size <= FEW:
            return Array(call(torch.tensor, (real.tolist(),), {"dtype": dtype}))
        return None

    # ---- what Python does with arrays

    def operate(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        name = getattr(fn, "__name__", "operator")
        if fn in ARRAY_IN_PLACE and is_array(operands[0]) and operands[0].ndim:
            return self.operate_in_place(fn, operands, name)
        fn = ARRAY_IN_PLACE.get(fn, fn)
        if fn not in ARRAY_OPERATORS:
            refuse(f"the operator {name}")
        return self.call(fn, fn, operands, {}, name)

    def operate_in_place(self, fn: Any, operands: tuple[Any, ...], name: str) -> Any:
        """The result is computed and checked, then copied into the array."""
        target, other = operands
        plain = ARRAY_IN_PLACE[fn]
        args: Any = self.prepared(operands)
        asking(fn, self.as_dummies(args, []), {}, name)
        value = self.call(plain, plain, (target, other), {}, name)
        torch.Tensor.copy_(target.tensor, value.tensor)
        return target

    def get_item(self, array: Any, key: Any) -> Any:
        if has_negative_step(key):
            refuse("a slice with a negative step, which is a view of NumPy's and a copy of torch's")
        return self.call(operator.getitem, operator.getitem, (array, key), {}, "indexing")

    def set_item(self, array: Any, key: Any, value: Any) -> None:
        args: Any = self.prepared((array, key, value))
        if has_negative_step(key) or not array.ndim:
            refuse("assignment to a slice with a negative step")
        asking(operator.setitem, self.as_dummies(args, []), {}, "assignment to items")
        index, given = for_torch(args[1:])
        if type(given) is Array:
            given = Array(given.tensor.to(array.tensor.dtype))
        try:
            array[index] = given
        except Exception as error:
            refuse(f"assignment to items: {error}")

    def items(self, array: Any) -> list[Any]:
        if not array.ndim:
            refuse("iteration over a number")
        return [self.get_item(array, n) for n in range(array.shape[0])]

    def attribute(self, array: Any, name: str) -> Any:
        if name == "dtype":
            return OF_TORCH[array.tensor.dtype]
        if name == "nbytes":
            return array.size * array.itemsize
        if name in ("T", "real", "imag") and array.ndim:
            read = operator.attrgetter(name)
            return self.call(read, read, (array,), {}, f"ndarray.{name}")
        if name in ATTRIBUTES:
            return getattr(array, name)
        if name == "__class__":
            return self.class_of(array)
        refuse(f"the attribute {name} of an array")

    def set_attribute(self, array: Any, name: str, new: Any) -> None:
        refuse(f"assignment to {name} of an array")

    def delete_attribute(self, array: Any, name: str) -> None:
        refuse(f"deletion of {name} of an array")

    def length(self, array: Any) -> int:
        return len(array) if array.ndim else self.refuse_in_c(array)

    def truth(self, array: Any) -> bool:
        expected = self.world.raising_branches.truth(array, array.tensor)
        if expected is not None:
            return expected
        raise Break(breaks.DATA_DEPENDENT_BRANCH, "the truth of an array")

    def refuse_in_c(self, array: Any) -> NoReturn:
        refuse("an array in a native operation")

    def method(self, array: Any, name: str) -> tuple[Any, Any]:
        """A method of the array's, or of the number's: those of numbers are `np.generic`'s."""
        found = class_attribute(self.class_of(array), name)
        if type(found) is MethodDescriptorType:
            return found, array
        return NULL, self.attribute(array, name)

    def class_of(self, array: Any) -> type:
        return np.ndarray if self.is_array(array) else OF_TORCH[array.tensor.dtype].type

    # ---- between arrays and tensors

    def of_tensor(self, fake: Any) -> Any:
        """`Tensor.numpy()`: another view of the same memory."""
        tensor = fake.detach()
        if fake.requires_grad or fake.device.type != "cpu" or fake.layout is not torch.strided:
            refuse("a tensor that can't be an array as it is")
        if fake.is_conj() or fake.is_neg() or fake.dtype not in OF_TORCH:
            refuse("a tensor that can't be an array as it is")
        return Array(tensor) if fake.dim() else self.without_dimensions(tensor)

    def as_tensor(self, array: Any) -> Any:
        """`torch.from_numpy(...)`."""
        if not self.is_array(array):
            refuse("a number of NumPy's as a tensor")
        return array.tensor.detach()


class Typed:
    """A number of NumPy's among the arguments of a call."""

    def __init__(self, number: Any) -> None:
        self.number = number


def is_fresh_in_rows(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.flags.c_contiguous and array.base is None


def is_inexact(value: Any) -> bool:
    if type(value) in (tuple, list):
        return any(map(is_inexact, value))
    if type(value) is Array:
        return value.tensor.dtype.is_floating_point or value.tensor.dtype.is_complex
    number = value.number if type(value) is Typed else value
    return isinstance(number, (float, complex, np.inexact))


def stacked(arrays: Any) -> Any:
    """`numpy.array` of a list of arrays, or of numbers that are not known."""
    return Array(torch.stack([array.tensor for array in arrays]))


def has_negative_step(key: Any) -> bool:
    key = opened(key)
    if type(key) is tuple:
        return any(map(has_negative_step, key))
    return type(key) is slice and type(opened(key.step)) is int and opened(key.step) < 0


def dtype_of(value: Any) -> Any:
    """The dtype for a type, if torch has it too."""
    if value in (bool, int, float, complex) if isinstance(value, type) else False:
        return np.dtype(value)
    if isinstance(value, np.dtype):
        return value if value in NUMPY_DTYPES else None
    if isinstance(value, type) and value in NUMPY_NUMBERS:
        return np.dtype(value)
    return None


def for_torch(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(map(for_torch, value))
    if type(value) is dict:
        return {name: for_torch(item) for name, item in value.items()}
    if type(value) is slice:
        return slice(*map(for_torch, (value.start, value.stop, value.step)))
    if type(value) is Typed:
        number = value.number
        return Array(torch.tensor(number.item(), dtype=NUMPY_DTYPES[number.dtype]))
    if isinstance(value, np.dtype):
        return value.name.replace("bool", "bool_") if value.kind == "b" else value.name
    return value


def dummy_of(array: Any) -> Any:
    """An array of NumPy's with the same shape, strides and dtype."""
    dtype = OF_TORCH[array.tensor.dtype]
    if not array.ndim:
        return dtype.type(0 if dtype.kind in "iu" else 1)
    shape, strides = tuple(map(int, array.shape)), tuple(map(int, array.strides))
    reach = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if all(shape) else 0
    whole = np.zeros(reach // dtype.itemsize + 1, dtype) if dtype.kind in "iu" else None
    whole = np.ones(reach // dtype.itemsize + 1, dtype) if whole is None else whole
    return np.lib.stride_tricks.as_strided(whole, shape, strides)


def make_regular(dummies: list[tuple[Any, Any]]) -> None:
    """Matrices of ones have no inverse, so they become the identity."""
    for _, dummy in dummies:
        if isinstance(dummy, np.ndarray) and dummy.ndim > 1 and dummy.flags.writeable:
            dummy[...] = np.eye(*dummy.shape[-2:])


def as_real(value: Any, dummies: list[tuple[Any, Any]]) -> Any:
    """The dummies as arrays of torch's, which share their memory."""
    if type(value) in (tuple, list):
        return type(value)(as_real(item, dummies) for item in value)
    if type(value) is dict:
        return {name: as_real(item, dummies) for name, item in value.items()}
    if type(value) is Array:
        dummy = next(dummy for array, dummy in dummies if array is value)
        if not dummy.ndim:
            return Array(torch.tensor(dummy.item(), dtype=NUMPY_DTYPES[dummy.dtype]))
        return Array(torch.from_numpy(dummy if dummy.flags.writeable else dummy_of(value)))
    return value


def end_at_error(kind: str, flags: int) -> NoReturn:
    refuse(f"a floating-point error ({kind})")


def asking(fn: Any, args: Any, kwargs: dict[str, Any], name: str) -> Any:
    """What NumPy gives for arrays like these."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")
            return fn(*args, **kwargs)
    except Exception as error:
        refuse(f"{name}: {error}")


def describe(array: Any) -> tuple[Any, ...]:
    shape = tuple(map(int, array.shape))
    return OF_TORCH.get(array.tensor.dtype), shape, layout(shape, tuple(map(int, array.strides)))


def describe_real(array: Any) -> tuple[Any, ...]:
    return array.dtype, array.shape, layout(array.shape, array.strides)


def layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, where there is more than one element to step over."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True))
