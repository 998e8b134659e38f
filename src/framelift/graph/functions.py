"""What torch's functions are to the recorder: which are refused and why, which only ask, which set a
flag, how a call is written into a graph, and what is in its arguments and results."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterable
from types import GetSetDescriptorType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.effects import _get_effect
from torch._subclasses.fake_tensor import FakeTensor
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.symbols import SYMBOLIC

Tensor = torch.Tensor

SPELLINGS: dict[str, Callable[..., Any]] = {"__radd__": operator.add}
SPELLINGS |= {"__getitem__": operator.getitem, "__setitem__": operator.setitem}
"""Tensor methods that stand for an operator of the language."""

GIVING_UP_CODE = Tensor.__floordiv__.__code__
GIVING_UP = frozenset(m for m in vars(Tensor).values() if getattr(m, "__code__", None) is GIVING_UP_CODE)
"""Operators in Python that leave to the other operand what is no number: `NotImplemented` for a TypeError."""


def is_foreign(value: Any) -> bool:
    """Whether it is nothing that an operator of torch's could take: an instance of a program's class."""
    cls = type(value)
    known = (Tensor, int, float, complex, str, tuple, list)
    return not (issubclass(cls, known) or hasattr(cls, "__torch_function__") or hasattr(cls, "__array__"))


OPERATOR_TYPES = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor")


def namespace_of(operator: Any) -> str:
    name: str = getattr(operator, "_qualified_op_name", "") or getattr(operator, "namespace", "")
    return name.partition("::")[0]


def is_custom(func: Any) -> bool:
    """Whether it is an operator of the program's own, of which torch knows no more than what it is told."""
    return type(func) in OPERATOR_TYPES and namespace_of(func) not in ("aten", "prims", "prim")


def custom_operators(graph: torch.fx.Graph) -> tuple[list[str], list[str]]:
    """The operators of the program's own in a graph: those with torch's mark for operators that compilers may
    rely on, and the others."""
    found: dict[str, Any] = {str(node.target): node.target for node in graph.nodes if is_custom(node.target)}
    marked = {name: torch.Tag.pt2_compliant_tag in overload_of(func).tags for name, func in found.items()}
    return sorted(name for name in found if marked[name]), sorted(name for name in found if not marked[name])


def is_collective(func: Any) -> bool:
    """Whether other ranks wait for the call, so that it must be made even if nobody uses its result."""
    return type(func) in OPERATOR_TYPES and namespace_of(func) in COLLECTIVES


def overload_of(func: Any) -> Any:
    """An operator, of a name that stands for only one."""
    if type(func) is torch._ops.OpOverloadPacket and len(func.overloads()) == 1:
        return getattr(func, func.overloads()[0])
    return func


def has_effects(func: Any) -> bool:
    """Whether torch is told that calls of the operator are not to be left out, nor change places."""
    found = overload_of(func)
    return type(found) is torch._ops.OpOverload and _get_effect(found) is not None


QUERY_NAMES = (
    *("size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "storage_offset"),
    *("__len__", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg"),
    *("is_inference", "get_device"),
)
QUERIES = frozenset(getattr(Tensor, name) for name in QUERY_NAMES)
"""Methods that say something about a tensor and do nothing; their arguments need no nodes."""

METADATA_NAMES = (
    *("shape", "dtype", "device", "ndim", "requires_grad", "layout", "is_leaf", "itemsize", "nbytes"),
    *("names", "is_cpu", "is_cuda", "is_meta", "is_mkldnn", "is_mps", "is_nested", "is_quantized"),
    *("is_sparse", "is_xpu"),
)
METADATA = frozenset(name for name in METADATA_NAMES if hasattr(Tensor, name))
"""Attributes of a tensor that say something about it and make no node."""

PLAIN_RESULTS = op_memory.ATOMS | {torch.Size, bytes, type(NotImplemented), torch.finfo, torch.iinfo}
"""Types of results that are no tensors, but facts."""

REFUSED = {
    Tensor.__repr__: (breaks.DATA_DEPENDENT_VALUE, "the text of a tensor shows its values"),
    Tensor.__format__: (breaks.DATA_DEPENDENT_VALUE, "the text of a tensor shows its values"),
    Tensor.data_ptr: (breaks.IDENTITY, "Tensor.data_ptr"),
    Tensor.__dir__: (breaks.TENSOR_STATE, "the names of a tensor's attributes"),
    Tensor.tolist: (breaks.DATA_DEPENDENT_VALUE, "Tensor.tolist"),
    Tensor.numpy: (breaks.DATA_DEPENDENT_VALUE, "Tensor.numpy"),
    Tensor.__array__: (breaks.DATA_DEPENDENT_VALUE, "conversion of a tensor to a NumPy array"),
    Tensor.apply_: (breaks.DATA_DEPENDENT_VALUE, "Tensor.apply_, which calls a function with each value"),
    Tensor.map_: (breaks.DATA_DEPENDENT_VALUE, "Tensor.map_, which calls a function with each value"),
    Tensor.map2_: (breaks.DATA_DEPENDENT_VALUE, "Tensor.map2_, which calls a function with each value"),
    Tensor.storage: (breaks.IDENTITY, "Tensor.storage"),
    Tensor.__reduce_ex__: (breaks.TENSOR_STATE, "pickling a tensor"),
    Tensor.is_shared: (breaks.IDENTITY, "Tensor.is_shared"),
    Tensor.share_memory_: (breaks.EFFECT, "Tensor.share_memory_"),
    Tensor._is_view: (breaks.TENSOR_STATE, "Tensor._is_view"),
    Tensor.is_pinned: (breaks.TENSOR_STATE, "Tensor.is_pinned"),
    Tensor.set_: (breaks.TENSOR_MEMORY, "Tensor.set_ of a storage, or of parts of a tensor"),
    Tensor.resize_: (breaks.TENSOR_MEMORY, "Tensor.resize_ with a memory format"),
    Tensor.resize_as_: (breaks.TENSOR_MEMORY, "Tensor.resize_as_ with a memory format"),
    torch.resize_as_: (breaks.TENSOR_MEMORY, "torch.resize_as_ with a memory format"),
}
"""Torch functions that are not recorded -> why."""
REFUSED |= {
    vars(torch._C.TensorBase)[name].__get__: (breaks.TENSOR_STATE, f"Tensor.{name}")
    for name in ("grad", "_grad")
}
if hasattr(Tensor, "const_data_ptr"):  # not before torch 2.12
    REFUSED[vars(torch._C.TensorBase)["const_data_ptr"]] = breaks.IDENTITY, "Tensor.const_data_ptr"

SPARSE_NAMES = "is_coalesced _nnz sparse_dim dense_dim indices values _indices _values"
SPARSE_FACTS = frozenset(getattr(Tensor, name) for name in SPARSE_NAMES.split())
"""What depends on which elements a sparse tensor has, which neither its fake nor a guard knows."""

SPARSE_MAKERS = {torch.sparse_coo_tensor, Tensor.to_sparse, Tensor.to_sparse_coo}
"""What makes sparse tensors, whose fakes have no symbols for sizes."""
COMPRESSED = (
    torch.sparse_csr_tensor,
    torch.sparse_csc_tensor,
    torch.sparse_bsr_tensor,
    torch.sparse_bsc_tensor,
)
REFUSED |= {
    fn: (breaks.TENSOR_KIND, "a tensor of compressed rows or columns")
    for fn in (*COMPRESSED, torch.sparse_compressed_tensor)
}

EFFECTS: set[Any] = {torch._C._set_grad_enabled, torch._assert_async, torch._functional_assert_async}
EFFECTS |= {torch.ops.aten._assert_async.msg, torch.ops.aten._assert_scalar.default}
"""Functions without a result whose call itself is what the graph must hold."""

ASSERTS = frozenset({torch._assert_async, torch.ops.aten._assert_async, torch.ops.aten._assert_async.default})
"""Functions that check a tensor. AOTAutograd leaves them out unless they are told what to say."""
FALSE_TENSOR = "Expected Tensor with single nonzero value, but got zero"

GRAD_SETTERS = {torch._C._set_grad_enabled}
"""Effects that matter only to what is called after them: of several in a row, only the last counts."""

CONTEXTS: dict[Any, Callable[[Any], None]] = {
    autocast_mode._enter_autocast: autocast_mode._exit_autocast,
    grad_mode._enter_inference_mode: grad_mode._exit_inference_mode,
}
"""Functions that enter a context -> those that leave it again."""

SWITCHES = frozenset({*GRAD_SETTERS, *CONTEXTS, *CONTEXTS.values()})
"""Functions that only matter to others in the graph, and to what comes after it."""


def holds_only_switches(graph: torch.fx.Graph) -> bool:
    """Whether a graph computes nothing: there is nothing to compile."""
    return all(node.op in ("placeholder", "output") or node.target in SWITCHES for node in graph.nodes)


IN_PLACE_FACTS = {Tensor.detach_, torch.detach_}
"""Functions that change what autograd knows of a tensor, but not its values."""

LAYOUTS = frozenset({torch.strided, torch.sparse_coo, torch.jagged})
"""Layouts of the tensors that backends can be given."""


def scaled(operation: Any, combine: Any | None = None) -> Any:
    """`x + alpha * y`, or `x + value * (y / z)`, where the factor is a tensor."""

    def rewritten(x: Any, *others: Any, factor: Any) -> Any:
        term = others[0] if combine is None else combine(*others)
        term = term.to(torch.promote_types(x.dtype, term.dtype))  # in which the operator would compute
        return operation(x, term * factor.detach())

    return rewritten


def scaled_each(combine: Any | None) -> Any:
    """The same in place, of lists of tensors; there may be a factor for each."""

    def rewritten(xs: Any, *others: Any, factor: Any) -> Any:
        if isinstance(factor, Tensor) and factor.dim():
            factor = list(factor.unbind())
        terms = others[0] if combine is None else combine(*others)
        return torch._foreach_add_(xs, torch._foreach_mul(terms, factor))

    return rewritten


BY_A_TENSOR = types.SimpleNamespace()
"""Where the functions that `taking_a_tensor` makes are found by their names, as in graphs kept on disk."""


def taking_a_tensor(function: Any, rewritten: Any) -> Any:
    """Eager code asks the tensor for its value, and may round less often for it. A compiler that goes through
    a graph has no value to ask for."""
    name = function.__name__
    found_as = f"{'Tensor' if hasattr(function, '__objclass__') else 'torch'}_{name}"

    def called(*args: Any, **keywords: Any) -> Any:
        *given, factor = (*args, *keywords.values())
        if detect_fake_mode(args) is not None:
            return rewritten(*given, factor=factor)
        numbers = [as_number(each) for each in factor] if isinstance(factor, list) else as_number(factor)
        return function(*args, **dict.fromkeys(keywords, numbers)) if keywords else function(*given, numbers)

    called.__name__ = f"{name.strip('_')}_by_a_tensor"
    called.__qualname__ = f"BY_A_TENSOR.{found_as}"
    setattr(BY_A_TENSOR, found_as, called)
    return called


def as_number(factor: Any) -> Any:
    return factor.tolist() if isinstance(factor, Tensor) else factor


REWRITTEN: dict[Any, Callable[..., Any]] = {
    Tensor.add_: scaled(Tensor.add_),
    **{fn: scaled(Tensor.add) for fn in (Tensor.add, torch.add)},
    Tensor.sub_: scaled(Tensor.sub_),
    **{fn: scaled(Tensor.sub) for fn in (Tensor.sub, torch.sub)},
    **{fn: scaled(Tensor.add, torch.div) for fn in (Tensor.addcdiv, torch.addcdiv)},
    **{fn: scaled(Tensor.add, torch.mul) for fn in (Tensor.addcmul, torch.addcmul)},
    Tensor.addcdiv_: scaled(Tensor.add_, torch.div),
    Tensor.addcmul_: scaled(Tensor.add_, torch.mul),
    torch._foreach_add_: scaled_each(None),
    torch._foreach_addcdiv_: scaled_each(torch._foreach_div),
    torch._foreach_addcmul_: scaled_each(torch._foreach_mul),
}
SCALED = {function: taking_a_tensor(function, rewritten) for function, rewritten in REWRITTEN.items()}
"""Functions that take a factor, which must be a number -> what the graph holds where it is a tensor, as it is
in the compiled code of optimizers."""


def drops_nothing(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call of dropout gives its argument itself, of which torch's decomposition makes a copy."""
    if func not in DROPOUTS:
        return False
    given = dict(zip(DROPOUTS[func], args, strict=False)) | kwargs
    return given.get("p", 0.5) == 0 or not given.get("training", given.get("train", True))


DROPOUTS = {
    torch.nn.functional.dropout: ("input", "p", "training", "inplace"),
    torch.dropout: ("input", "p", "train"),
}
"""Dropout -> its parameters."""


def element(tensor: Tensor, *places: Any) -> Tensor:
    """`tensor[places]` where an index without dimensions is no number to be looked up: it stands for many."""
    numbers = [p if isinstance(p, Tensor) else torch.tensor(p, device=tensor.device) for p in places]
    found: Tensor = torch.ops.aten.index.Tensor(tensor, numbers)
    return found


LEGACY: dict[Any, torch.dtype | None] = {Tensor: None} | {
    getattr(torch, f"{name}Tensor"): getattr(torch, name.lower())
    for name in ("Float", "Double", "Half", "BFloat16", "Int", "Long", "Short", "Bool")
}
LEGACY |= {torch.CharTensor: torch.int8, torch.ByteTensor: torch.uint8}
"""Classes that were once the way to make a tensor -> of which dtype; None: the default one."""


def dtype_of_class(tensor: Any, cls: Any) -> torch.dtype:
    """What `tensor.type(torch.LongTensor)` asks for."""
    dtype = LEGACY.get(cls)
    if dtype is None or tensor.device.type != "cpu":
        raise Break(breaks.GRAPH_ARGUMENT, f"Tensor.type with {cls.__module__}.{cls.__name__}")
    return dtype


def modern(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]] | None:
    """Function and arguments that make what a call of such a class does; None if it is something else."""
    if kwargs:
        return None
    if len(args) == 1 and type(args[0]) in (list, tuple):
        return torch.tensor, args
    if len(args) == 1 and type(args[0]) is torch.Size:
        return torch.empty, args
    return (torch.empty, (args or (0,),)) if all(type(size) is int for size in args) else None


OF_DATA = frozenset({torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor})
"""Functions that make a tensor of the type that their data has."""

FACTORS = frozenset({"alpha", "value", "scalars"})


def takes_a_factor(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call of one of these has a tensor, or a list of them, for a factor."""
    if not kwargs.keys() <= FACTORS:
        return False
    last = next(iter(kwargs.values()), args[3] if len(args) == 4 else None)
    return isinstance(last, Tensor) or (isinstance(last, list) and any(isinstance(x, Tensor) for x in last))


def describe(func: Any) -> str:
    """The name of a function, for messages."""
    if type(func) is MethodWrapperType:
        descriptor: Any = func.__self__
        return f"Tensor.{descriptor.__name__}"
    if type(func) in (MethodDescriptorType, WrapperDescriptorType):
        return f"Tensor.{func.__name__}"
    module = getattr(func, "__module__", None)
    name = getattr(func, "__name__", None) or repr(func)
    return f"{module}.{name}" if module else name


try:
    from numpy import generic

    NUMPY: tuple[Any, ...] = (generic,)
    """The base of NumPy's numbers."""
except ImportError:  # torch works without it
    NUMPY = ()


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in nested containers."""
    found: list[torch.Tensor] = []
    gather(value, found)
    return found


def gather(value: Any, into: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        into.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            gather(item, into)
    elif isinstance(value, dict):
        for item in value.values():
            gather(item, into)
    elif type(value) is slice:
        gather((value.start, value.stop, value.step), into)


def is_lookup(index: Any) -> bool:
    """Whether each place of an index is a tensor or a number."""
    places = index if isinstance(index, tuple) else (index,)
    return all(isinstance(place, (torch.Tensor, int, torch.SymInt)) for place in places)


def has_numbers_of_numpy(values: Iterable[Any]) -> bool:
    for value in values:
        if type(value) is FakeTensor or type(value) in PLAIN_RESULTS:
            continue
        if has_numbers_of_numpy(value) if isinstance(value, (tuple, list)) else isinstance(value, NUMPY):
            return True
    return False


def as_plain_numbers(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(map(as_plain_numbers, value))
    if type(value) is dict:
        return {name: as_plain_numbers(item) for name, item in value.items()}
    return value.item() if isinstance(value, NUMPY) else value


def is_plain_result(value: Any) -> bool:
    if type(value) in PLAIN_RESULTS or type(value) in SYMBOLIC:
        return True
    return isinstance(value, (tuple, list)) and all(is_plain_result(item) for item in value)


def refuse(func: Any, args: Any, kwargs: dict[str, Any], inputs: dict[int, int]) -> None:
    """Breaks at calls that are not recorded. `inputs` are known by their ids."""
    try:
        refused = REFUSED.get(func)
    except TypeError:
        return
    if refused is not None:
        raise Break(*refused)
    if func in SPARSE_FACTS and args[0].layout is not torch.strided:
        raise Break(breaks.DATA_DEPENDENT_VALUE, describe(func))
    if func in SPARSE_MAKERS and has_varying_sizes((*args, *kwargs.values())):
        raise Break(breaks.DYNAMIC_OUTPUT_SHAPE, f"{describe(func)}, of sizes that vary")
    if func in IN_PLACE_FACTS and id(args[0]) in inputs:
        raise Break(breaks.EFFECT, f"{describe(func)} on a tensor from outside")
    if type(func) is MethodWrapperType and func.__name__ == "__set__":
        name = func.__self__.__name__ if isinstance(func.__self__, GetSetDescriptorType) else "attribute"
        raise Break(breaks.EFFECT, f"assignment to Tensor.{name}")


def has_varying_sizes(given: Iterable[Any]) -> bool:
    """Whether numbers, or sizes of tensors, are symbols."""
    for value in given:
        if isinstance(value, Tensor):
            value = value.shape
        if type(value) in SYMBOLIC or (isinstance(value, (tuple, list)) and has_varying_sizes(value)):
            return True
    return False


def plain_result(func: Any, out: Any) -> Any:
    """A result without tensors: a fact about the arguments."""
    if not is_plain_result(out):
        raise Break(breaks.GRAPH_ARGUMENT, f"{describe(func)} gives a {type(out).__name__}")
    if out is None and not (type(func) is MethodWrapperType and func.__name__ == "__get__"):
        raise Break(breaks.EFFECT, describe(func))
    return out
