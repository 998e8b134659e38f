"""Operators that are run on fakes without torch's mode around them.

Before `FakeTensorMode` calls an operator's kernel for tensors without data, it looks for a dozen of other
things that it could do, and keeps what came of it for the next time. For the operators that are listed here
all of that leads to the kernel. Many kernels are in Python, too, or are a hundred other operators: where
tensors are contiguous and of one type, it is known what pointwise operators, products and normalisations
give. What is not that common (symbols, several devices, constants), and all that fails, is left to the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

from framelift import _guards
from framelift.graph.front_end import load_symbolic_shapes

if TYPE_CHECKING:
    from framelift.graph.fakes import Fakes

aten = torch.ops.aten

POINTWISE = """
    abs add addcdiv addcmul bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min
    cos div elu eq erf exp floor gelu ge gt hardsigmoid hardswish hardtanh le leaky_relu lerp log
    logical_and logical_not logical_or lt masked_fill maximum minimum mish mul ne neg pow reciprocal relu
    round rsqrt sigmoid sign silu sin softplus sqrt sub tanh where
"""
OTHERS = """
    _log_softmax _softmax addmm amax amin avg_pool2d baddbmm bmm cat clone cumsum max mean min mm sum tril
    triu max_pool2d_with_indices upsample_bilinear2d upsample_nearest2d
"""
VIEWS = """
    _unsafe_view alias as_strided detach diagonal expand permute select slice split split_with_sizes squeeze
    t transpose unbind unfold unsqueeze view
"""
IN_PLACE = [f"{name}_" for name in POINTWISE.split()]
NAMES = frozenset([*f"{POINTWISE} {OTHERS} {VIEWS}".split(), *IN_PLACE])
"""Operators of which torch's mode only calls the kernel."""

DTYPES = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool}
    | {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8}
)

_direct: dict[Any, bool] = {}


def is_direct(func: Any) -> bool:
    """Whether an operator's own kernel is all that torch's mode would call in the end."""
    found = _direct.get(func)
    if found is None:
        space, _, name = func._schema.name.partition("::")
        variant = func._schema.overload_name
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        found = space == "aten" and name in NAMES and not ("out" in variant or "Dimname" in variant)
        found = found and (has_kernel(func.name(), "Meta") or has_kernel(func.name(), KERNEL_FOR_ALL))
        found = _direct[func] = found and "device" not in {one.name for one in func._schema.arguments}
        if torch._C.DispatchKey.Meta in func.py_kernels:
            load_symbolic_shapes()  # what is written in Python may ask something of it
    return found


KERNEL_FOR_ALL = "CompositeExplicitAutograd"
"""Where views have theirs."""


def common_device(fakes: Fakes, values: Any, device: torch.device | None) -> torch.device | None:
    """That of all tensors among an operator's arguments, if nothing is special about these. `device`: that of
    others."""
    for value in values:
        cls = type(value)
        if cls is FakeTensor:
            if value.fake_mode is not fakes or value.constant is not None:
                return None
            if device is None:
                device = value.fake_device
            if value.fake_device != device or value.dtype not in DTYPES or value.layout is not torch.strided:
                return None
        elif cls is list or cls is tuple:
            if any([type(one) is FakeTensor for one in value]):
                device = common_device(fakes, value, device)
                if device is None:
                    return None
        elif cls not in PLAIN:
            return None
    return device


DEVICE_OF = torch.ops.prim.device.default
PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.Size, torch.memory_format})


def run(fakes: Fakes, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operator gives for fakes; NotImplemented where torch's mode is to say that."""
    if func is DEVICE_OF:
        return args[0].fake_device if not fakes.in_kernel_invocation else NotImplemented
    rule = None if kwargs else RULES.get(func)
    if fakes.shape_env is not None or (rule is None and not is_direct(func)):
        return NotImplemented
    device = common_device(fakes, (*args, *kwargs.values()) if kwargs else args, None)
    if device is None or device.type not in ("cpu", "cuda"):
        return NotImplemented
    found = NotImplemented if rule is None else rule(*args)
    if found is NotImplemented:
        if not is_direct(func):
            return NotImplemented
        try:
            with in_kernel_invocation_manager(fakes):
                found = func(*args, **kwargs)
        except Exception:  # torch's mode has words for it
            return NotImplemented
    return wrapped(fakes, found, device)


def wrapped(fakes: Fakes, found: Any, device: torch.device) -> Any:
    if type(found) is torch.Tensor:
        return fakes.wrap(found, device, False)
    if type(found) is tuple or type(found) is list:
        return type(found)([wrapped(fakes, one, device) for one in found])
    return found


# ---- what contiguous tensors give

Rule = Callable[..., Any]
FLOATS = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
NUMBERS = frozenset({int, float})


def is_simple(tensors: tuple[Any, ...], dtype: torch.dtype) -> bool:
    """Whether all of these are contiguous tensors of one floating-point type, or none. That of a dimension of
    one element may be any stride, and operators look at it."""
    return dtype in FLOATS and all(
        [one is None or (one.dtype is dtype and one.stride() == contiguous(one.shape)) for one in tensors]
    )


def contiguous(sizes: Any) -> tuple[int, ...]:
    """The strides that a contiguous tensor is made with."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def fresh(sizes: Any, dtype: torch.dtype) -> torch.Tensor:
    """A contiguous tensor without data."""
    return _guards.empty_meta(tuple(sizes), contiguous(sizes), dtype)


def fits_into(sizes: Any, whole: Any) -> bool:
    """Whether a tensor of these sizes is repeated to `whole`, and no further. Where dimensions other than the
    first have one element, strides are equal, and their order is a matter of the other tensor's."""
    if len(sizes) > len(whole) or 0 in whole or 1 in whole[1:]:
        return False
    return all([n == 1 or n == m for n, m in zip(reversed(sizes), reversed(whole), strict=False)])


def unary(input: Any, *_: Any) -> Any:
    return fresh(input.shape, input.dtype) if is_simple((input,), input.dtype) else NotImplemented


def binary(first: Any, second: Any) -> Any:
    if type(first) is not FakeTensor or not is_simple((first,), first.dtype):
        return NotImplemented
    if type(second) in NUMBERS:
        return fresh(first.shape, first.dtype)
    if type(second) is not FakeTensor or not is_simple((second,), first.dtype):
        return NotImplemented
    if first.shape == second.shape or fits_into(second.shape, first.shape):
        return fresh(first.shape, first.dtype)
    return fresh(second.shape, first.dtype) if fits_into(first.shape, second.shape) else NotImplemented


def product_and_sum(bias: Any, first: Any, second: Any) -> Any:
    dtype = first.dtype
    if first.dim() != 2 or second.dim() != 2 or dtype not in FLOATS:
        return NotImplemented
    sizes = first.shape[0], second.shape[1]
    fits = first.shape[1] == second.shape[0] and fits_into(bias.shape, sizes)
    return fresh(sizes, dtype) if fits and second.dtype is dtype and bias.dtype is dtype else NotImplemented


def product(first: Any, second: Any) -> Any:
    dtype = first.dtype
    if first.dim() != 2 or second.dim() != 2 or dtype not in FLOATS or second.dtype is not dtype:
        return NotImplemented
    fits = first.shape[1] == second.shape[0]
    return fresh((first.shape[0], second.shape[1]), dtype) if fits else NotImplemented


def transposed(input: Any) -> Any:
    if input.dim() != 2 or input.is_neg():
        return NotImplemented
    return _guards.view_meta(input, input.shape[::-1], input.stride()[::-1], input.storage_offset())


def reshaped(input: Any, sizes: Any) -> Any:
    """A view of a tensor that is contiguous, of sizes that are all named."""
    sizes, count = tuple(sizes), input.numel()
    fits = count and math.prod(sizes) == count and all([size > 0 for size in sizes])
    if not fits or input.is_neg() or input.stride() != contiguous(input.shape):
        return NotImplemented
    return _guards.view_meta(input, sizes, contiguous(sizes), input.storage_offset())


def layer_norm(input: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    shape, sizes, dtype = tuple(shape), tuple(input.shape), input.dtype
    outer = len(sizes) - len(shape)
    fits = shape and outer >= 0 and sizes[outer:] == shape and 0 not in sizes and is_on_cpu(input)
    fits = fits and all([one is None or tuple(one.shape) == shape for one in (weight, bias)])
    if not fits or not is_simple((input, weight, bias), dtype):
        return NotImplemented
    statistics = (*sizes[:outer], *[1] * len(shape))
    return tuple([fresh(made, dtype) for made in (sizes, statistics, statistics)])


def batch_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    sizes, dtype, given = tuple(input.shape), input.dtype, (weight, bias, mean, var)
    if training or mean is None or var is None or not is_on_cpu(input) or len(sizes) < 2 or 0 in sizes:
        return NotImplemented
    if not is_simple((input, *given), dtype):
        return NotImplemented
    if any([one is not None and tuple(one.shape) != sizes[1:2] for one in given]):
        return NotImplemented
    return fresh(sizes, dtype), fresh((0,), dtype), fresh((0,), dtype)


def is_on_cpu(input: Any) -> bool:
    """Elsewhere statistics have other types and shapes."""
    return bool(input.fake_device.type == "cpu")


UNARY = """
    abs ceil cos elu erf exp floor gelu hardsigmoid hardswish hardtanh leaky_relu log mish neg reciprocal
    relu round rsqrt sigmoid sign silu sin softplus sqrt tanh
"""

RULES: dict[Any, Rule] = {
    **{getattr(aten, name).default: unary for name in UNARY.split()},
    **{getattr(aten, name).Tensor: binary for name in ("add", "div", "mul", "sub")},
    **{aten.maximum.default: binary, aten.minimum.default: binary, aten.pow.Tensor_Scalar: binary},
    aten.addmm.default: product_and_sum,
    aten.mm.default: product,
    aten.t.default: transposed,
    aten.view.default: reshaped,
    aten.native_layer_norm.default: layer_norm,
    aten.native_batch_norm.default: batch_norm,
}
"""What operators give; NotImplemented where the kernel has to be asked."""
