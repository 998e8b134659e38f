"""State of torch that a program reads or sets by functions of torch: switches, precisions, thread counts.

torch's own Python over it (`torch.backends`, config modules) is interpreted, down to the functions of
`torch._C` that do it. Those that read are called, and what they say is guarded: by what every entry guards
of torch's state (`native/global_state.cpp`), or by asking once more (`Access.ASKED`). Those that set
something are done by the graph and the region where `graph/torch_flags.py` has them, and end the trace where
it does not.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.torch_flags import SETTERS
from framelift.guards.kinds import Check
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import Looks, rule, serve
from framelift.trace.machine import TraceFrame

c: Any = torch._C

# ---- what every entry guards


def known(*names: str) -> list[Any]:
    """Those functions of C that this version of torch has."""
    return [getattr(c, name) for name in names if hasattr(c, name)]


ALWAYS_GUARDED = (
    *(torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype),
    *(torch.is_autocast_cpu_enabled, torch.is_autocast_cache_enabled),
    *(torch.get_autocast_cpu_dtype, torch.get_autocast_gpu_dtype),
    *(torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled),
    *(torch.are_deterministic_algorithms_enabled, torch.is_deterministic_algorithms_warn_only_enabled),
    *known("_get_deterministic_algorithms", "_get_deterministic_algorithms_warn_only"),
    *(torch.is_warn_always_enabled,),
    *known("_get_deterministic_fill_uninitialized_memory", "_get_warnAlways"),
    *known("_is_any_autocast_enabled"),
    *known("_get_cudnn_sdp_enabled", "_get_overrideable_sdp_enabled"),
    *known("_get_sdp_priority_order", "_get_flash_sdp_enabled", "_get_math_sdp_enabled"),
    *known("_get_mem_efficient_sdp_enabled", "_get_cudnn_enabled", "_get_mkldnn_enabled"),
    *known("_get_cudnn_benchmark", "_get_cudnn_deterministic"),
    *known("_is_multithreading_enabled", "_is_view_replay_enabled", "_is_fwd_grad_enabled"),
)
QUESTION = "asks about torch's state, which every entry guards"
rule(*ALWAYS_GUARDED, looks=Looks.DEEP, why=QUESTION)
rule(
    *known("_is_autocast_available", "_get_cpu_capability", "_is_flash_attention_available"),
    *known("_mps_is_available", "_mps_is_on_macos_or_newer"),
    *known("_is_ck_sdpa_available"),
    looks=Looks.DEEP,
    why="asks how torch was built",
)

# ---- what is guarded where it is asked for

GUARDED_WHEN_ASKED = (
    *(torch.get_num_threads, torch.get_num_interop_threads),
    *known("_get_float32_matmul_precision", "_get_fp32_precision_getter"),
    *known("_get_cublas_allow_tf32", "_get_cudnn_allow_tf32", "_get_onednn_allow_tf32"),
    *known("_get_cublas_allow_fp16_reduced_precision_reduction", "_get_cublas_allow_fp16_accumulation"),
    *known("_get_cublas_allow_bf16_reduced_precision_reduction", "_get_math_sdp_allow_fp16_bf16_reduction"),
    *known(
        "_get_cpu_allow_fp16_reduced_precision_reduction",
        "_get_mkldnn_deterministic",
        "_get_miopen_immediate",
    ),
    *known("_get_cudnn_depthwise_kernel"),
    *known("_get_nnpack_enabled", "_get_qengine", "_supported_qengines", "_check_sparse_tensor_invariants"),
    *known("_get_privateuse1_backend_name"),
)
CONSTANTS = frozenset({*op_memory.ATOMS, bytes})


def is_constant(value: Any) -> bool:
    return all(map(is_constant, value)) if type(value) is tuple else type(value) in CONSTANTS


def asked(f: TraceFrame, fn: Any, given: list[Any]) -> Any:
    """What a function of C answers now; the entry holds while it answers the same."""
    answer = _frame.native(fn, *given)
    if not all(map(is_constant, (*given, answer))):
        raise Break(breaks.TORCH_STATE, f"{fn.__name__}, whose answer can't be guarded")
    root, text = f.world.inputs.root, f"torch.{fn.__name__}({', '.join(map(repr, given))})"
    f.world.guards.add(root.asked(text, fn, tuple(given)), Check.EQUAL, answer)
    return answer


def serve_question(fn: Any) -> None:
    assert not any(fn in getters for getters in SETTERS.values()), f"a trace can set what {fn} asks about"

    @serve(fn)
    def served(f: TraceFrame, /, *args: Any) -> Any:
        return asked(f, fn, [f.world.materialize.for_c(value) for value in args])


for _fn in GUARDED_WHEN_ASKED:
    serve_question(_fn)


@serve(c._are_functorch_transforms_active)
def serve_transforms_active(f: TraceFrame, /) -> Any:
    """Functions that a captured transform is given are traced without it."""
    refuse_in_bodies(f, "_are_functorch_transforms_active")
    return asked(f, c._are_functorch_transforms_active, [])


@serve(c._functorch.is_batchedtensor, c._functorch.is_gradtrackingtensor)
@serve(c._functorch.is_functorch_wrapped_tensor)
def serve_is_wrapped(f: TraceFrame, tensor: Any, /) -> Any:
    """What a transform has wrapped never comes into a trace: a function that is given such runs plainly."""
    refuse_in_bodies(f, "whether a transform wraps a tensor")
    return False


def refuse_in_bodies(f: TraceFrame, question: str) -> None:
    builder = f.world.recorder.builder
    if builder.body is not builder.bodies[0]:
        raise Break(breaks.TORCH_STATE, f"{question}, in a function that an operator is given")


GUARDED_DEVICES = ("cpu", "cuda", "xpu", "mps")
"""Devices of which every entry guards how operators are cast."""


def serve_casting(fn: Any) -> None:
    @serve(fn, looks=Looks.DEEP, why=QUESTION)
    def served(f: TraceFrame, /, device_type: Any = "cuda") -> Any:
        device = opened(device_type)
        if device in GUARDED_DEVICES or type(device) is not str:
            return f.world.calls.native(f, fn, [device], None)
        if f.world.recorder.contexts.entered:
            raise Break(breaks.TORCH_STATE, f"{fn.__name__} of {device}, in a context of torch's")
        return asked(f, fn, [device])


for _fn in (torch.is_autocast_enabled, torch.get_autocast_dtype):
    serve_casting(_fn)


# ---- what is set

for _name in dir(c):
    _fn = getattr(c, _name)
    if type(_fn) is types.BuiltinFunctionType and "set_" in _name and _fn not in SETTERS:
        rule(_fn, refused=breaks.TORCH_STATE, why=f"torch._C.{_name}")
