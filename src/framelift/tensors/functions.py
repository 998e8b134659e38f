"""What torch's functions are to the recorder: which are refused and why, which only ask, which switch
something, and how a call is written into a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from framelift.core import breaks
from framelift.tensors import memory

Tensor = torch.Tensor

SPELLINGS: dict[str, Callable[..., Any]] = {
    "__radd__": operator.add,
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
}
"""Tensor methods that stand for an operator of the language."""

GIVING_UP = frozenset(
    method
    for method in vars(Tensor).values()
    if getattr(method, "__code__", None) is Tensor.__floordiv__.__code__
)
"""Operators in Python that leave to the other operand what is no number: `NotImplemented` for a TypeError."""


def is_foreign(value: Any) -> bool:
    """Whether it is nothing that an operator of torch's could take: an instance of a program's class."""
    cls = type(value)
    known = (Tensor, int, float, complex, str, tuple, list)
    return not (issubclass(cls, known) or hasattr(cls, "__torch_function__") or hasattr(cls, "__array__"))


QUERIES = frozenset(
    getattr(Tensor, name)
    for name in (
        *(
            "size",
            "stride",
            "dim",
            "ndimension",
            "numel",
            "nelement",
            "element_size",
            "storage_offset",
            "__len__",
        ),
        *(
            "is_contiguous",
            "is_floating_point",
            "is_complex",
            "is_signed",
            "is_conj",
            "is_neg",
            "is_inference",
        ),
        "get_device",
    )
)
"""Methods that say something about a tensor and do nothing; their arguments need no nodes."""

PLAIN_RESULTS = frozenset(
    {
        *memory.ATOMS,
        torch.Size,
        bytes,
        type(NotImplemented),
        torch.finfo,
        torch.iinfo,
    }
)

REFUSED = {
    Tensor.__repr__: (breaks.DATA_DEPENDENT_VALUE, "the text of a tensor shows its values"),
    Tensor.__format__: (breaks.DATA_DEPENDENT_VALUE, "the text of a tensor shows its values"),
    Tensor.data_ptr: (breaks.IDENTITY, "Tensor.data_ptr"),
    Tensor.tolist: (breaks.DATA_DEPENDENT_VALUE, "Tensor.tolist"),
    Tensor.numpy: (breaks.DATA_DEPENDENT_VALUE, "Tensor.numpy"),
    Tensor.__array__: (breaks.DATA_DEPENDENT_VALUE, "conversion of a tensor to a NumPy array"),
    Tensor.backward: (breaks.INTERNAL, "Tensor.backward inside a compiled function"),
    Tensor.register_hook: (breaks.INTERNAL, "Tensor.register_hook inside a compiled function"),
    Tensor.requires_grad_: (breaks.INTERNAL, "Tensor.requires_grad_ inside a compiled function"),
    Tensor.untyped_storage: (breaks.IDENTITY, "Tensor.untyped_storage"),
    Tensor.storage: (breaks.IDENTITY, "Tensor.storage"),
    Tensor.__deepcopy__: (breaks.INTERNAL, "a deep copy of a tensor"),
    Tensor.__reduce_ex__: (breaks.INTERNAL, "pickling a tensor"),
    Tensor.is_shared: (breaks.IDENTITY, "Tensor.is_shared"),
    Tensor.share_memory_: (breaks.EFFECT, "Tensor.share_memory_"),
    Tensor._is_view: (breaks.INTERNAL, "Tensor._is_view"),
    Tensor.is_pinned: (breaks.INTERNAL, "Tensor.is_pinned"),
    Tensor.set_: (breaks.INTERNAL, "Tensor.set_"),
    Tensor.resize_: (breaks.INTERNAL, "Tensor.resize_"),
    Tensor.resize_as_: (breaks.INTERNAL, "Tensor.resize_as_"),
    torch.resize_as_: (breaks.INTERNAL, "torch.resize_as_"),
}
"""Torch functions that are not recorded -> why. Backends can't do the last few."""

SPARSE_FACTS = frozenset(
    getattr(Tensor, name)
    for name in (
        "is_coalesced",
        "_nnz",
        "sparse_dim",
        "dense_dim",
        "indices",
        "values",
        "_indices",
        "_values",
    )
)
"""What depends on which elements a sparse tensor has, which neither its fake nor a guard knows."""

EFFECTS = {torch._C._set_grad_enabled, torch._assert_async, torch._functional_assert_async}
"""Functions without a result whose call itself is what the graph must hold."""

SWITCHES = {torch._C._set_grad_enabled}
"""Effects that matter only to what is called after them."""

CONTEXTS: dict[Any, Callable[[Any], None]] = {
    autocast_mode._enter_autocast: autocast_mode._exit_autocast,
    grad_mode._enter_inference_mode: grad_mode._exit_inference_mode,
}
"""Functions that enter a context -> those that leave it again."""

IN_PLACE_FACTS = {Tensor.detach_, torch.detach_}
"""Functions that change what autograd knows of a tensor, but not its values."""

LAYOUTS = frozenset({torch.strided, torch.sparse_coo, torch.jagged})
"""Layouts of the tensors that backends can be given."""
