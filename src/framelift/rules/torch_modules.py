"""Functions of torch's that are no operators: questions about its state, and Python that runs as it is."""

from __future__ import annotations

import torch

from framelift.core import breaks
from framelift.trace.callable_rules import Looks, functions_of, python_functions_of, rule

QUESTION = "asks about torch's state, which every entry guards"
rule(
    *(torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype),
    *(torch.is_autocast_enabled, torch.is_autocast_cpu_enabled, torch.is_autocast_cache_enabled),
    *(torch.get_autocast_dtype, torch.get_autocast_cpu_dtype, torch.get_autocast_gpu_dtype),
    *(torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled),
    *(torch.are_deterministic_algorithms_enabled, torch.is_deterministic_algorithms_warn_only_enabled),
    *(torch._C._is_torch_function_enabled, torch._C._is_torch_function_all_disabled),
    *(torch._C._is_any_autocast_enabled, torch._C._is_autocast_available, torch._C._has_mkldnn),
    *(torch._C._get_cudnn_sdp_enabled, torch._C._get_overrideable_sdp_enabled),
    *(torch._C._get_sdp_priority_order, torch._C._get_flash_sdp_enabled, torch._C._get_math_sdp_enabled),
    *(torch._C._get_mem_efficient_sdp_enabled, torch._C._get_cudnn_enabled, torch._C._get_mkldnn_enabled),
    *(torch._C._is_multithreading_enabled, torch._C._is_view_replay_enabled),
    torch._C._get_privateuse1_backend_name,
    looks=Looks.DEEP,
    why=QUESTION,
)
rule(torch._C._set_grad_enabled, looks=Looks.RECORDED, why="a switch that the graph holds")

NO_EFFECT = "a function of torch's own Python that has no effect"
rule(
    *(torch.is_storage, torch.typename, torch.get_float32_matmul_precision, torch.is_warn_always_enabled),
    *(torch.cuda.is_available, torch.cuda.device_count, torch.cuda._is_compiled, torch.sym_sum),
    looks=Looks.DEEP,
    why=NO_EFFECT,
)
for _fn in (torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_not):
    rule(_fn, looks=Looks.DEEP, on_symbols=_fn, why=NO_EFFECT)

functions_of(
    *("torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special", "torch._C._sparse"),
    looks=Looks.RECORDED,
    why="a torch operator",
)
python_functions_of(
    *("torch.functional", "torch.nn.functional", "torch._tensor", "torch.overrides", "torch._VF"),
    *("torch._jit_internal", "torch.autograd.grad_mode", "torch.amp.autocast_mode", "torch.backends"),
    *("torch._C", "torch._lowrank", "torch.nn._reduction", "torch._prims_common", "torch.utils._device"),
    *("torch.jit", "torch.compiler", "torch.nn.parameter", "torch.cuda.amp.autocast_mode", "torch.signal"),
    *("torch.special", "torch.linalg", "torch.fft", "torch.nn.grad", "torch.nested", "torch.masked"),
    *("torch.return_types", "torch._linalg_utils", "torch._ops", "torch._library"),
    "torch.distributed.tensor.placement_types",
    classes=True,
    why="torch's functional API, or a question; the recorder sees what it does",
)
python_functions_of(
    *("torch.cuda", "torch.accelerator", "torch.xpu", "torch.mps", "torch.mtia"), refused=breaks.EFFECT
)
python_functions_of(
    "torch.nn.parallel.distributed", refused=breaks.EFFECT, why="makes ready for the reduction of gradients"
)
python_functions_of("torch.distributed.fsdp", refused=breaks.EFFECT, why="gathers parameters, and frees them")
python_functions_of("torch.distributed", refused=breaks.DISTRIBUTED)
