"""NumPy's types, functions and methods that torch's implementation of NumPy is trusted with, by name."""

from __future__ import annotations

import operator
from typing import Any

import torch

from framelift import _guards
from framelift.core import breaks

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
    all any amax amin argmax argmin array asarray arange empty atleast_1d atleast_2d atleast_3d average
    broadcast_to clip column_stack concatenate copy cumprod cumsum diagonal diff dot dstack einsum
    empty_like expand_dims eye full full_like hstack identity imag inner kron
    linspace max mean min moveaxis nan_to_num ones ones_like outer pad prod ptp ravel real repeat reshape
    roll round sort split squeeze stack std sum swapaxes take tensordot tile trace
    transpose tri tril triu var vdot vstack where zeros zeros_like
    argsort around array_split ascontiguousarray convolve corrcoef correlate
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
    FUNCTIONS[id(np.asanyarray)] = tnp.asarray
    FUNCTIONS |= {id(getattr(np.linalg, n)): getattr(tnp.linalg, n) for n in LINALG.split()}
    FUNCTIONS |= {id(getattr(np.fft, n)): getattr(tnp.fft, n) for n in FFT.split()}
    ARRAY_METHODS = {getattr(np.ndarray, n): getattr(Array, n) for n in METHOD_NAMES.split()}

INTEGER_ERRORS = frozenset({"floor_divide", "remainder", "power", "float_power", "floordiv", "mod", "pow"})
INTEGER_ERRORS |= {"ifloordiv", "imod", "ipow", "reciprocal", "divmod", "fmod"}
"""What NumPy warns of, or computes, for some integers where torch raises, or the other way round."""

COMPARISONS = "lt le eq ne gt ge less less_equal equal not_equal greater greater_equal"
COMPARING = frozenset(COMPARISONS.split())
LARGEST = 1 << 63


def with_room(args: Any) -> Any:
    """Arrays of integers as of a type that an integer in the program fits into, with which they are compared:
    torch would cut it off. None if there is none."""
    numbers = [arg for arg in args if type(arg) is int]
    types = [arg.tensor.dtype for arg in args if type(arg) is Array]
    if len(numbers) != 1 or not types or types[0] is torch.bool or types[0].is_floating_point:
        return args
    if types[0].is_complex or torch.iinfo(types[0]).min <= numbers[0] <= torch.iinfo(types[0]).max:
        return args
    if not -LARGEST <= numbers[0] < LARGEST:
        return None
    return tuple([Array(arg.tensor.to(torch.int64)) if type(arg) is Array else arg for arg in args])


POWERS = frozenset({"power", "pow", "ipow"})


def is_defined(name: str, args: Any) -> bool:
    """Whether none of these is an error for any integer: the divisor, or exponent, is in the program."""
    if len(args) != 2 or type(args[1]) is not int or name == "float_power":
        return False
    return args[1] >= 0 if name in POWERS else args[1] not in (0, -1)  # the least, by -1, is out of range


BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge"
ARRAY_OPERATORS = frozenset(
    getattr(operator, name) for name in (*BINARY.split(), "neg", "pos", "invert", "abs")
)
ARRAY_IN_PLACE = {
    getattr(operator, f"i{name.rstrip('_')}"): getattr(operator, name)
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and_",
        "or_",
        "xor",
        "lshift",
        "rshift",
    ]
}
"""Operators that write to an array -> those that compute what is written."""
BY_NAME: dict[str, Any] = {f"__{fn.__name__.strip('_')}__": fn for fn in (*ARRAY_OPERATORS, *ARRAY_IN_PLACE)}
BY_NAME |= {"__getitem__": operator.getitem, "__setitem__": operator.setitem, "__len__": len}
BY_NAME |= {"__contains__": operator.contains, "__iter__": iter}
"""Special methods of an array that are called by name -> what does the same."""
ATTRIBUTES = frozenset({"shape", "ndim", "size", "itemsize", "strides"})
OF_TORCHS_OWN = (
    *(breaks.TENSOR_STATE, breaks.TENSOR_MEMORY, breaks.TORCH_STATE, breaks.GRAPH_ARGUMENT),
    breaks.DATA_DEPENDENT_VALUE,
)
"""Reasons that are about how torch does it, and not about what the program does."""
IDLE = {"out": None, "where": True, "like": None}
"""Arguments that say nothing."""
LAYING_OUT = frozenset({"order", "subok", "copy", "casting"})
"""Arguments that decide how a result lies in memory, which is compared, and nothing about its values."""
ORDERED = frozenset({"numpy.reshape", "numpy.ravel", "ndarray.reshape", "ndarray.ravel", "ndarray.flatten"})
ORDERED |= {"ndarray.astype"}
"""But for these: there they decide where a value goes, or are known of."""
FEW = 1000
"""So many numbers may be written into a graph."""
TEXTUAL = (bool, int, float, complex, str, type(None), type(Ellipsis))
