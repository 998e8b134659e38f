"""Operators that may fail for what is in their arguments: an index out of range, a matrix without an inverse.

The guards fix shapes, dtypes and devices, so an operator that fails for these fails while it is traced, if
its kernel for fakes looks at them (`Operator.is_unchecked` knows of some that don't). What is left is data.
An operator that fails on none is known here, by torch's tags or by name; any other one may.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from framelift.graph.deferred import symbolic_shapes

Tensor = torch.Tensor

DIVISIONS = frozenset({"div", "divide", "floor_divide", "remainder", "fmod"})
"""Pointwise operators that fail where an integer is divided by zero."""

LOOKING_AT_DATA = frozenset({functional.one_hot})
"""Functions that look at the data of real tensors, and not at that of fakes."""

PRODUCTS = frozenset({"addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "convolution", "_convolution"})
PRODUCTS |= {"dot", "linear", "mm", "mv", "vdot"}
"""Operators that take tensors of one dtype, which their kernels for fakes do not ask for."""

NEED_ELEMENTS = frozenset({"amax", "amin", "aminmax", "argmax", "argmin", "max", "min"})
NEED_ELEMENTS |= {"kthvalue", "median", "mode", "nanmedian", "topk"}
"""Reductions that fail where there are too few elements, which guards see to unless only the data decides."""

UNSAFE = frozenset({"bernoulli.default", "bernoulli.Tensor", "bernoulli.out", "bernoulli_.Tensor"})
UNSAFE |= {"normal.Tensor_Tensor", "normal.float_Tensor"}
UNSAFE |= {f"linspace.{kind}" for kind in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")}
UNSAFE |= {f"logspace.{kind}" for kind in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")}
"""Overloads that take a tensor where those that go by a safe name take numbers."""

NAMES = """
    abs adaptive_avg_pool1d _adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d
    adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d _add_relu addbmm addmm
    _addmm_activation addmv addr affine_grid_generator alias_copy
    _amp_foreach_non_finite_check_and_unscale _amp_update_scale arange as_strided_copy
    _assert_tensor_metadata avg_pool1d avg_pool2d avg_pool3d baddbmm
    bartlett_window batch_norm_elemt _batch_norm_no_update batch_norm_stats _batch_norm_with_update
    _batch_norm_with_update_functional bernoulli binary_cross_entropy_with_logits blackman_window
    block_diag bmm cat cauchy _cdist_forward channel_shuffle _chunk_cat col2im
    _compute_linear_combination _conj_copy conj_physical constant_pad_nd _conv_depthwise2d
    conv_depthwise3d conv_tbc _convolution convolution convolution_overrideable copy _copy_from
    copysign cudnn_batch_norm cudnn_convolution _cudnn_rnn cummax _cummax_helper cummin
    _cummin_helper cumprod cumsum detach detach_copy diag_embed diagonal_copy diagonal_scatter dist
    dot _efficient_attention_forward elu empty empty_like empty_permuted empty_strided eq
    _euclidean_dist expand_copy exponential eye _fft_c2c _fft_c2r fft_fftfreq _fft_r2c fft_rfftfreq
    _fft_with_size fill _flash_attention_forward flip full full_like _fused_adagrad _fused_adam
    _fused_adamw _fused_dropout _fused_rms_norm _fused_sgd _fw_primal_copy gcd ge gelu geometric glu
    glu_jvp grid_sampler_2d grid_sampler_3d  gt hamming_window hann_window hardshrink
    hardsigmoid hardswish hardtanh heaviside huber_loss im2col _int_mm _is_all_true _is_any_true
    is_same_size isin kaiser_window kthvalue _lazy_clone lcm le leaky_relu lift lift_fresh_copy
    linalg_cross linalg_matrix_exp linear linspace _local_scalar_dense log_normal
    log_sigmoid_forward _log_softmax log_softmax _logcumsumexp logcumsumexp logit logspace lt
    _make_dep_token masked_fill _masked_scale _masked_softmax max_pool2d_with_indices
    max_pool3d_with_indices mean median miopen_batch_norm mish mkldnn_convolution mkldnn_linear
    mkldnn_rnn_layer mm mode mse_loss mv nanmedian narrow_copy native_batch_norm
    _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training native_dropout native_group_norm native_layer_norm
    _native_multi_head_attention native_norm ne _neg_view_copy new_empty new_empty_strided new_full
    new_ones new_zeros _new_zeros_with_same_feature_meta _nnpack_spatial_convolution normal
    normal_functional ones ones_like _pdist_forward permute_copy pixel_shuffle pixel_unshuffle polar
    _prelu_kernel rand rand_like randint randint_like randn randn_like random randperm range
    reflection_pad1d reflection_pad2d reflection_pad3d renorm repeat replication_pad1d
    replication_pad2d replication_pad3d _reshape_alias_copy _reshape_copy roll rot90 rrelu
    rrelu_with_noise rrelu_with_noise_functional _safe_softmax scalar_tensor
    _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable
    _scaled_mm select_copy select_scatter sigmoid silu slice_copy slice_scatter _slow_conv2d_forward
    slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d
    slow_conv_transpose3d smooth_l1_loss soft_margin_loss _softmax softmax softplus softshrink sort
    split_copy split_with_sizes_copy squeeze squeeze_copy _stack stack sum sym_numel sym_size
    sym_storage_offset sym_stride t t_copy tanh _thnn_fused_gru_cell _thnn_fused_lstm_cell threshold
    _to_copy topk trace transpose transpose_copy tril tril_indices _trilinear triu triu_indices
    unbind_copy unfold_copy _unsafe_index _unsafe_index_put _unsafe_masked_index
    _unsafe_masked_index_put_accumulate unsafe_split unsafe_split_with_sizes _unsafe_view unsqueeze
    unsqueeze_copy upsample_bicubic2d _upsample_bicubic2d_aa upsample_bilinear2d
    _upsample_bilinear2d_aa upsample_linear1d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    upsample_trilinear3d vdot view_as_complex_copy view_as_real_copy view_copy
    _weight_norm_interface zero zeros zeros_like
"""
SAFE = frozenset(NAMES.split())
"""ATen operators that fail on no data and have no tag that says so, without the endings of their variants."""

BACKWARD_ENDINGS = ("_backward_data", "_backward")

SAFE_TAGS = {torch.Tag.pointwise, torch.Tag.view_copy}
SAFE_TAGS |= {torch.Tag.reduction} if hasattr(torch.Tag, "reduction") else set()  # not before torch 2.13


def is_safe_name(name: str) -> bool:
    """`name` is that of the operator of which others are variants: in place, of lists of tensors."""
    if name in SAFE:
        return True
    for ending in BACKWARD_ENDINGS:
        if name.endswith(ending):
            forward = name.removesuffix(ending)
            return any(f"{forward}{more}" in SAFE for more in ("", "_forward", "_with_indices"))
    found = getattr(torch.ops.aten, name, None)
    return found is not None and any(SAFE_TAGS & {*getattr(found, each).tags} for each in found.overloads())


def is_view_of_argument(schema: Any) -> bool:
    infos = [argument.alias_info for argument in schema.arguments]
    return any(info is not None and not info.is_write for info in infos)


def may_fail(func: Any) -> bool:
    """Whether an ATen operator may fail on some data, dtypes left aside."""
    schema = func._schema
    space, _, name = schema.name.partition("::")
    if space not in ("aten", "prims"):
        return space != "prim"  # these ask for metadata
    if f"{name}.{schema.overload_name or 'default'}" in UNSAFE:
        return True
    base = variant_of(name)
    if base in DIVISIONS:
        return True
    if space == "prims":
        return name == "svd"
    return not (is_view_of_argument(schema) or is_safe_name(base))


def variant_of(name: str) -> str:
    """`_foreach_add_` is a variant of `add`."""
    return name.removeprefix("_foreach_").rstrip("_") or name


def is_division(func: Any) -> bool:
    return variant_of(func._schema.name.partition("::")[2]) in DIVISIONS


def is_product(func: Any) -> bool:
    return variant_of(func._schema.name.partition("::")[2]) in PRODUCTS


def needs_elements(func: Any) -> bool:
    return variant_of(func._schema.name.partition("::")[2]) in NEED_ELEMENTS


def has_size_of_data(value: Any) -> bool:
    """Whether only the data decides how large a tensor is."""
    if not isinstance(value, Tensor):
        return False
    sizes: Any = value.shape
    free = symbolic_shapes.free_unbacked_symbols
    return any([type(size) is torch.SymInt and bool(free(size)) for size in sizes])


FACTORS = frozenset({"alpha", "beta"})
"""Names of numbers that must be of the tensors' kind."""
SUBTRACTIONS = frozenset({"sub", "subtract", "rsub"})
"""Operators of which all numbers must be: truth values are not subtracted."""


def numbers_of(func: Any) -> tuple[tuple[int, str, bool], ...]:
    """Which arguments of an operator are numbers: their places and names, and whether they must be of the
    tensors' kind."""
    found = enumerate(func._schema.arguments)
    subtracts = variant_of(func._schema.name.partition("::")[2]) in SUBTRACTIONS
    return tuple(
        [
            (n, argument.name, subtracts or argument.name in FACTORS)
            for n, argument in found
            if str(argument.type) in ("number", "Optional[number]")
        ]
    )


def has_doubtful_dtypes(args: Any) -> bool:
    """Whether a product is of tensors of several dtypes, or of truth values."""
    dtypes = {value.dtype for value in args if isinstance(value, Tensor)}
    return len(dtypes) > 1 or torch.bool in dtypes


def is_doubtful(is_bound: bool, value: Any, args: Any) -> bool:
    """Whether a number may be none for the elements of the first tensor: too large, or of another kind."""
    if value is None or not (tensors := [given for given in args if isinstance(given, Tensor)]):
        return False
    dtype = tensors[0].dtype
    if is_bound and (type(value) is bool) is not (dtype is torch.bool):
        return True
    if type(value) is torch.SymInt:  # it may be any that has 64 bits
        return not (dtype.is_floating_point or dtype in (torch.int64, torch.bool))
    if type(value) not in (int, float) or not math.isfinite(value) or dtype.is_complex or dtype is torch.bool:
        return False
    return abs(value) > (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max


def needs_more_bits(value: Any) -> bool:
    """Whether a number is none that operators can be given: what has no sign is refused by many."""
    number = value.node.hint if type(value) is torch.SymInt else value
    return type(number) is int and number.bit_length() > 63


def divides_by_zero(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a division may fail: one of integers that gives integers, by what is not known."""
    kwargs = kwargs or {}
    gives_floats = "div" in func._schema.name and "floor" not in func._schema.name
    if gives_floats and not kwargs.get("rounding_mode"):
        return False
    given: list[Any] = [*args, kwargs.get("other"), None]
    dividend, divisor = given[:2]
    for value in (dividend, divisor):
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if type(each) in (float, torch.SymFloat):
                return False
            if isinstance(each, Tensor) and (each.is_floating_point() or each.is_complex()):
                return False
    return not (type(divisor) is int and divisor != 0)
