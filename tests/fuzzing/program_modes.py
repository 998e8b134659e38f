"""torch's modes and switches, and a few of Python's and NumPy's: reading them, and setting them back."""

from __future__ import annotations

import decimal
import gc
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch

READ: dict[str, Callable[[], Any]] = {
    "grad": torch.is_grad_enabled,
    "inference": torch.is_inference_mode_enabled,
    "autocast": lambda: torch.is_autocast_enabled("cpu"),
    "autocast dtype": lambda: torch.get_autocast_dtype("cpu"),
    "autocast cache": torch.is_autocast_cache_enabled,
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "anomaly": torch.is_anomaly_enabled,
    "anomaly nan": torch.is_anomaly_check_nan_enabled,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "deterministic warn": torch.is_deterministic_algorithms_warn_only_enabled,
    "fill memory": lambda: torch.utils.deterministic.fill_uninitialized_memory,
    "matmul precision": lambda: matmul_precision(),
    "threads": torch.get_num_threads,
    "multithreading": torch.autograd.is_multithreading_enabled,
    "view replay": torch._C._is_view_replay_enabled,
    "cudnn benchmark": lambda: torch.backends.cudnn.benchmark,
    "cudnn enabled": lambda: torch.backends.cudnn.enabled,
    "cudnn deterministic": lambda: torch.backends.cudnn.deterministic,
    "mkldnn enabled": lambda: torch.backends.mkldnn.enabled,
    "tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
    "flash": torch.backends.cuda.flash_sdp_enabled,
    "quantized engine": lambda: torch.backends.quantized.engine,
    "function modes": torch._C._len_torch_function_stack,
    "dispatch modes": lambda: torch.utils._python_dispatch._len_torch_dispatch_stack(),
    "torch functions": torch._C._is_torch_function_enabled,
    "numpy errors": numpy.geterr,
    "print options": lambda: numpy.get_printoptions()["precision"],
    "decimals": lambda: decimal.getcontext().prec,
    "environment": lambda: os.environ.get("FRAMELIFT_SWITCH", ""),
    "einsum": lambda: torch.backends.opt_einsum.enabled,
    "reduced precision": lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    "collector": gc.isenabled,
    "recursion limit": sys.getrecursionlimit,
    "tensors are plain": lambda: type(torch.empty(1)) is torch.Tensor,
}


def matmul_precision() -> str:
    """torch refuses to tell where it was set in the old way and in the new one, perhaps by the other side."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def modes() -> dict[str, Any]:
    return {name: read() for name, read in READ.items()}


def set_environment(value: str) -> None:
    os.environ["FRAMELIFT_SWITCH"] = value
    if not value:
        del os.environ["FRAMELIFT_SWITCH"]


WRITE: dict[str, Callable[[Any], Any]] = {
    "grad": torch.set_grad_enabled,
    "autocast": lambda value: torch.set_autocast_enabled("cpu", value),
    "autocast dtype": lambda value: torch.set_autocast_dtype("cpu", value),
    "autocast cache": torch.set_autocast_cache_enabled,
    "default dtype": torch.set_default_dtype,
    "anomaly": torch.autograd.set_detect_anomaly,
    "matmul precision": torch.set_float32_matmul_precision,
    "threads": torch.set_num_threads,
    "cudnn benchmark": lambda value: setattr(torch.backends.cudnn, "benchmark", value),
    "cudnn enabled": lambda value: setattr(torch.backends.cudnn, "enabled", value),
    "cudnn deterministic": lambda value: setattr(torch.backends.cudnn, "deterministic", value),
    "mkldnn enabled": lambda value: torch._C._set_mkldnn_enabled(value),
    "fill memory": lambda value: setattr(torch.utils.deterministic, "fill_uninitialized_memory", value),
    "flash": torch.backends.cuda.enable_flash_sdp,
    "quantized engine": lambda value: setattr(torch.backends.quantized, "engine", value),
    "numpy errors": lambda value: numpy.seterr(**value),
    "recursion limit": sys.setrecursionlimit,
    "decimals": lambda value: setattr(decimal.getcontext(), "prec", value),
    "environment": lambda value: set_environment(value),
    "einsum": lambda value: setattr(torch.backends.opt_einsum, "enabled", value),
    "tf32": lambda value: setattr(torch.backends.cuda.matmul, "allow_tf32", value),
    "reduced precision": lambda value: setattr(
        torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", value
    ),
}
os.environ.pop("FRAMELIFT_SWITCH", None)
AT_FIRST = modes()


def set_modes(values: dict[str, Any]) -> None:
    """Those that have a setter; the others come and go with a `with`."""
    deterministic = values["deterministic"], values["deterministic warn"]
    torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])
    now = modes()
    for name, value in values.items():
        if now[name] != value and name in WRITE:
            WRITE[name](value)


def reset_modes() -> None:
    set_modes(AT_FIRST)
    torch.set_default_device(None)
    os.environ.pop("FRAMELIFT_SWITCH", None)
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
