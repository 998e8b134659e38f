"""What operators raise eagerly where torch's Python for them has raised while they ran on fakes.

C checks the shapes and numbers of an operator by itself, and torch's Python for fakes once more. Where the
two do not agree in the class of the error, a program that handles it would take another branch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from framelift.core import policy
from framelift.graph.fakes import as_of_operator
from framelift.graph.functions import is_custom

PYTHON_KERNELS = (
    "torch._refs",
    "torch._prims",
    "torch._prims_common",
    "torch._decomp",
    "torch._meta_registrations",
)
LARGEST = 1 << 20
"""Of tensors with more elements none are made for this: the classes are taken for the same."""


class Unknown(Exception):
    """An argument of which no real one is made."""


def has_class_of_its_own(error: Exception, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call on fakes has raised an error of another class than the call on real tensors does."""
    if not is_of_python_kernel(error):
        return False
    if isinstance(error, AssertionError) or not is_torchs(func):  # C never raises that
        return True
    try:
        given, named = pytree.tree_map(real, (args, kwargs))
    except Unknown:
        return False
    drawn = torch.default_generator.get_state()
    try:
        with no_dispatch(), torch._C.DisableTorchFunction(), torch.no_grad():
            func(*given, **named)
    except Exception as eager:
        return type(eager) is not type(as_of_operator(error))
    finally:
        torch.default_generator.set_state(drawn)
    return True


def is_torchs(func: Any) -> bool:
    """Whether a call of it does nothing that the program can see: not one of the program's own operators."""
    module = getattr(func, "__module__", None)
    return not is_custom(func) and (module is None or policy.within(module, ("torch", "_operator")))


def real(value: Any) -> Any:
    """A tensor of zeros like a fake; what is no tensor is given as it is."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Unknown
    if not isinstance(value, torch.Tensor):
        return value
    has_symbols = any(type(size) is not int for size in (*value.shape, *strides(value)))
    if type(value) is not FakeTensor or has_symbols or value.numel() > LARGEST:
        raise Unknown
    with no_dispatch(), torch._C.DisableTorchFunction():
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
        return made.zero_()


def strides(value: torch.Tensor) -> Any:
    if value.layout is not torch.strided:
        raise Unknown
    return value.stride()


def is_of_python_kernel(error: BaseException) -> bool:
    at = error.__traceback__
    while at is not None:
        if policy.within(at.tb_frame.f_globals.get("__name__") or "", PYTHON_KERNELS):
            return True
        at = at.tb_next
    return False
