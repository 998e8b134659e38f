"""Contexts of torch's that switch something: what code inside and around them reads is what it is eagerly."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
import torch._functorch.config
import torch._inductor.config
import torch.nn.utils.parametrize
import torch.sparse
import torch.utils._device
import torch.utils.checkpoint

import framelift
from check import compare, run

CUDA = "torch.backends.cuda"
SDP = "torch.nn.attention.SDPBackend"
CONTEXTS = {
    "torch.backends.cudnn.flags(enabled=False, benchmark=True)": "torch.backends.cudnn.benchmark",
    "torch.backends.mkldnn.flags(enabled=False)": "torch.backends.mkldnn.enabled",
    "torch.backends.flags(fp32_precision='ieee')": "torch.backends.fp32_precision",
    "torch.backends.nnpack.flags(enabled=False)": "torch._C._get_nnpack_enabled()",
    "torch.backends.opt_einsum.flags(enabled=False)": "torch.backends.opt_einsum.enabled",
    f"torch.nn.attention.sdpa_kernel({SDP}.MATH)": f"{CUDA}.flash_sdp_enabled(), {CUDA}.math_sdp_enabled()",
    f"torch.nn.attention.sdpa_kernel([{SDP}.MATH, {SDP}.FLASH_ATTENTION], set_priority=True)": (
        "torch._C._get_sdp_priority_order()"
    ),
    "torch.no_grad()": "torch.is_grad_enabled()",
    "torch.set_grad_enabled(False)": "torch.is_grad_enabled()",
    "torch.inference_mode()": "torch.is_inference_mode_enabled(), torch.is_grad_enabled()",
    "torch.autograd.set_multithreading_enabled(False)": "torch._C._is_multithreading_enabled()",
    "torch.autograd.grad_mode._force_original_view_tracking(True)": "torch._C._is_view_replay_enabled()",
    "torch.autograd.grad_mode.enforce_grad_layout_policy(False)": (
        "torch._C._is_grad_layout_enforcement_enabled()"
    ),
    "torch.autograd.set_detect_anomaly(True, check_nan=False)": (
        "torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()"
    ),
    "torch.autograd.forward_ad.dual_level()": "torch.autograd.forward_ad._current_level",
    "torch.autograd.forward_ad._set_fwd_grad_enabled(False)": "torch._C._is_fwd_grad_enabled()",
    "torch.autograd._unsafe_preserve_version_counter(x)": "x._version",
    "torch.autocast('cpu', cache_enabled=False)": (
        "torch.is_autocast_enabled('cpu'), torch.is_autocast_cache_enabled()"
    ),
    "torch.autocast('cpu', dtype=torch.float16)": "torch.get_autocast_dtype('cpu')",
    "torch.sparse.check_sparse_tensor_invariants()": (
        "torch.sparse.check_sparse_tensor_invariants.is_enabled()"
    ),
    "torch.jit.optimized_execution(False)": "torch._C._get_graph_executor_optimize()",
    "torch._inductor.config.patch(debug=True)": "torch._inductor.config.debug",
    "torch._functorch.config.patch('fake_tensor_allow_meta', False)": (
        "torch._functorch.config.fake_tensor_allow_meta"
    ),
    "torch.device('meta')": "torch.get_default_device(), torch.empty(2).device",
    "torch.utils._device.DeviceContext(torch.device('meta'))": (
        "torch.get_default_device(), torch.empty(2).device"
    ),
    "torch._C.DisableTorchFunctionSubclass()": "torch._C._is_torch_function_enabled()",
    "torch._C.DisableTorchFunction()": "torch._C._is_torch_function_all_disabled()",
    "torch.nn.utils.parametrize.cached()": "torch.nn.utils.parametrize._cache_enabled",
    "torch.utils.checkpoint.set_checkpoint_early_stop(False)": (
        "torch.utils.checkpoint._enable_checkpoint_early_stop"
    ),
    "torch._tensor_str.printoptions(precision=2)": "torch._tensor_str.PRINT_OPTS.precision",
    "torch.serialization.safe_globals([])": "len(torch.serialization.get_safe_globals())",
}
PROGRAMS = {
    "reads inside and around": """
def program(x):
    before = READ
    with CONTEXT:
        y = x * 2
        inside = READ
    return y, before, inside, READ
""",
    "breaks inside": """
def program(x):
    with CONTEXT:
        y = x * 2
        print("here")
        inside = READ
        z = y + 1
    return z, inside, READ
""",
    "leaves by an error": """
def program(x):
    try:
        with CONTEXT:
            y = x * 2
            raise KeyError(READ)
    except KeyError as error:
        return x + 3, error.args, READ
""",
    "raises": """
def program(x):
    with CONTEXT:
        y = x * 2
        if READ is not None:
            raise ValueError(READ)
    return y
""",
    "enters by hand": """
def program(x):
    context = CONTEXT
    context.__enter__()
    y = x + 1
    inside = READ
    context.__exit__(None, None, None)
    return y, inside, READ
""",
    "reads": """
def program(x):
    return x + 1, READ
""",
}


def made(text: str, context: str, read: str) -> Any:
    names: dict[str, Any] = {"torch": torch}
    exec(text.replace("CONTEXT", context).replace("READ", f"({read})"), names)
    return names["program"]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.filterwarnings("ignore")
def test_a_switch_is_on_inside_and_off_again_outside(context: str) -> None:
    read = CONTEXTS[context]
    for what, text in PROGRAMS.items():
        plain = made(text, context, read)
        compiled = framelift.compile(made(text, context, read), backend="eager")
        for n in range(4):
            results = []
            for fn in (plain, compiled):
                x = torch.ones(2)
                around = eval(context) if what == "reads" and n in (1, 3) else contextlib.nullcontext()
                with around:
                    found = run(fn, (x,), {})
                x = torch.ones(2)
                results.append((found, eval(read)))
            compare(results[0][0], results[1][0])
            assert results[0][1] == results[1][1], f"a program that {what}, call {n}"
