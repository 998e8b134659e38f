"""Every public method and property of tensors that torch's database of operators says nothing about: what it
gives is what eager code gets, captured whole or broken for the reason that a table names."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's database of operators needs it")

import framelift  # noqa: E402
from check import Comparison, capture, reasons  # noqa: E402
from torch_databases.sweep_operators import op_db  # noqa: E402

VALUE, NO_FAKE = "data-dependent value", "operator without a fake kernel"
ADDRESS, MISSING = "address of an abstract value", "state of a tensor"
ARGUMENT, EFFECT = "argument that a graph can't hold", "run-time effect"

BREAKS = {
    **dict.fromkeys(("__array__", "__contains__", "__format__", "__repr__", "__str__", "tolist"), VALUE),
    **dict.fromkeys(("apply_", "map_", "map2_"), VALUE),
    **dict.fromkeys(("__hash__", "const_data_ptr", "data_ptr", "is_shared", "storage"), ADDRESS),
    **dict.fromkeys(("__dir__", "__getstate__", "__reduce_ex__", "__sizeof__", "is_pinned"), MISSING),
    **dict.fromkeys(("dequantize", "is_set_to", "sparse_mask", "to_mkldnn", "to_sparse_coo"), NO_FAKE),
    **dict.fromkeys(("to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr"), NO_FAKE),
    **dict.fromkeys(("__dlpack__", "__dlpack_device__"), ARGUMENT),
    **dict.fromkeys(("share_memory_", "storage_type", "volatile"), EFFECT),
    "__array_wrap__": "NumPy",
    "__dlpack_c_exchange_api__": "value that can't be rebuilt",
}
"""What can't be captured -> why not."""

ADDRESSES = {"__hash__", "const_data_ptr", "data_ptr"}
"""What gives another number for every tensor."""

NUMBERS = ("lshift", "rshift", "and", "or", "xor")
OPERATORS = ("add", "div", "floordiv", "mod", "mul", "pow", "sub", "truediv", "matmul", *NUMBERS)
IN_PLACE = set(OPERATORS) - {"matmul"}
OTHER: dict[str, Any] = {
    **{f"__{name}__": lambda x: (1,) for name in OPERATORS if name in NUMBERS},
    **{f"__{name}__": lambda x: (x,) for name in OPERATORS if name not in NUMBERS},
    **{f"__i{name}__": lambda x: (1,) for name in IN_PLACE},
    **{f"__r{name}__": lambda x: (1,) for name in ("floordiv", "lshift", "rshift", "truediv")},
    **{f"__{name}__": lambda x: (x,) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **dict.fromkeys(("copy_", "is_same_size", "is_set_to", "resize_as", "set_", "type_as"), lambda x: (x,)),
    "__array_wrap__": lambda x: (x.numpy(),),
    "__contains__": lambda x: (1,),
    "__format__": lambda x: ("",),
    "__reduce_ex__": lambda x: (2,),
    "__setitem__": lambda x: (0, 1),
    "apply_": lambda x: (abs,),
    "as_subclass": lambda x: (torch.Tensor,),
    "bernoulli_": lambda x: (0.5,),
    "fill_diagonal_": lambda x: (1.0,),
    "map_": lambda x: (x, max),
    "map2_": lambda x: (x, x, lambda a, b, c: a + b + c),
    "new_tensor": lambda x: ([1.0],),
    "resize": lambda x: (3, 3),
    "sparse_mask": lambda x: (x.to_sparse(),),
    "to_sparse_bsc": lambda x: ((1, 1),),
    "to_sparse_bsr": lambda x: ((1, 1),),
    "type": lambda x: (torch.float64,),
    "unsafe_split_with_sizes": lambda x: ([1, 2],),
}
"""Members that are called with something -> what with. Others with nothing, be it wrong: then both raise."""

UNCOMPARED = {
    "new",
    "__deepcopy__",
    "__new__",
    "__init__",
    "__init_subclass__",
    "__subclasshook__",
    "__class__",
}
UNCOMPARED |= {"__weakref__", "__annotations__", "__getattribute__", "__setattr__"}
UNCOMPARED |= {"__delattr__", "__dict__", "__reduce__", "__torch_function__", "__torch_dispatch__"}
"""What is no member of a tensor's own, or has no value to compare: those are looked at elsewhere."""


def members() -> list[str]:
    known = set()
    for op in op_db:
        names = [each.name.rpartition(".")[2] for each in (op, *op.aliases)]
        names += [getattr(each, "__name__", "") for each in (op.method_variant, op.inplace_variant)]
        known |= {*names, *(f"{name}_" for name in names)}
    public = [name for name in dir(torch.Tensor) if not name.startswith("_") or name.startswith("__")]
    return [name for name in public if name not in known | UNCOMPARED]


def outcome(fn: Any, x: Any, args: Any) -> Any:
    torch.manual_seed(0)
    try:
        return fn(x, *args), None
    except Exception as error:
        return None, type(error)


def program(name: str) -> Any:
    if callable(getattr(torch.Tensor, name, None)):
        text = f"lambda x, *args: (y := x * 2) is None or (y.{name}(*args), y)"
    else:
        text = f"lambda x, *args: ((y := x * 2).{name}, x.{name}, y)"
    return eval(text)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", members())
def test_a_member_of_a_tensor_is_as_eagerly(name: str) -> None:
    shifted = any(each in name for each in (*NUMBERS, "index", "invert")) and name.startswith("__")
    x = torch.arange(9).reshape(3, 3) if shifted else torch.arange(9.0).reshape(3, 3)
    args = OTHER.get(name, lambda x: ())(x.clone())
    fn = program(name)
    compiled = capture(fn, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (expected, error), (found, raised) = (
            outcome(each, x.clone(), copy.deepcopy(args)) for each in (fn, compiled)
        )
    assert raised is error
    if error is not None:
        return
    if name not in ADDRESSES and not any(map(is_peculiar, expected)):
        Comparison().same(expected, found, name)
    assert reasons(compiled)[:1] == ([BREAKS[name]] if name in BREAKS else [])


def is_peculiar(value: Any) -> bool:
    """What has no equal, or nothing to compare it by."""
    if isinstance(value, torch.Tensor):
        return value.layout is not torch.strided
    return type(value).__name__ in ("PyCapsule", "ndarray", "UntypedStorage", "TypedStorage")


def test_what_is_in_the_table_is_there() -> None:
    assert set(BREAKS) - {"const_data_ptr", "__dlpack_c_exchange_api__"} <= set(members())
    assert all(
        inspect.getattr_static(torch.Tensor, name, None)
        for name in OTHER
        if name not in ("resize", "resize_as")
    )


FORMS: dict[str, Any] = {
    "real": lambda x: setattr(x, "real", x + 1) or x * 2,
    "imag": lambda x: setattr(z := torch.complex(x, x), "imag", x + 1) or z,
    "views": lambda x: (x[None].T, x[None].mT, x[None].H, x[None].mH, x.dim_order()),
    "to": lambda x: (
        x.to(torch.float64),
        x.to("cpu"),
        x.to(x.double()),
        x.to("cpu", torch.float16),
        x.to(x, copy=True),
    ),
    "to by name": lambda x: (x.to(device="cpu", dtype=torch.int32), x.cpu(), x.float(), x.half(), x.bool()),
    "type": lambda x: (x.type(), x.type("torch.DoubleTensor"), x.type(torch.int64), x.type(torch.LongTensor)),
    "is": lambda x: (
        x.is_cuda,
        x.is_sparse,
        x.is_sparse_csr,
        x.is_meta,
        x.is_vulkan,
        x.is_xla,
        x.is_mtia,
        x + 1,
    ),
    "new": lambda x: (
        x.new(2).zero_(),
        x.new([1.0]),
        x.new(),
        x.new_zeros(2),
        x.new_full((2,), 3.0),
        x.new_ones(1),
    ),
    "by class": lambda x: (
        torch.FloatTensor([1, 2]),
        torch.LongTensor(2).zero_(),
        torch.Tensor([1.0]),
        x + 1,
    ),
    "where it is": lambda x: (
        x.stride(),
        x.stride(0),
        x[1:].storage_offset(),
        x.element_size(),
        x.nbytes,
        x + 1,
    ),
    "history": lambda x: (
        (y := x * 2).grad,
        y.grad_fn,
        y.retains_grad,
        x.output_nr,
        y.output_nr,
        x.retains_grad,
        y,
    ),
    "copies": lambda x: (copy.copy(x * 2), copy.copy(x), copy.deepcopy(x * 2), copy.deepcopy(x)),
    "made of": lambda x: (
        torch.asarray(x),
        torch.asarray([1.0]),
        torch.as_tensor(x * 2),
        torch.as_tensor([1]),
    ),
    "sequence": lambda x: ([a + 1 for a in x], list(reversed(x)), len(x)),
    "no names of a fake": lambda x: (hasattr(x * 2, "fake_device"), hasattr(x, "fake_mode"), x + 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", FORMS)
def test_tensors_used_in_other_ways_are_as_eagerly(name: str, backend: str) -> None:
    compiled = framelift.compile(FORMS[name], backend=backend, fullgraph=True)
    x, y = torch.arange(4.0), torch.arange(4.0)
    Comparison().same((FORMS[name](x), x), (compiled(y), y), name)


def copies_of_parameters(x, module):
    copied, both = copy.deepcopy(module), copy.deepcopy([module.weight, module.weight, x])
    kinds = [type(p) for p in copied.parameters()], type(module.weight.__deepcopy__({}))
    with torch.no_grad():
        result = copied(x)
    return result, kinds, copied.weight, copied.weight.grad, copied.tied is copied.weight, both


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_deep_copy_of_a_parameter_is_a_parameter(backend: str) -> None:
    results = []
    for compile in (lambda fn: fn, lambda fn: framelift.compile(fn, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        module, x = torch.nn.Linear(2, 2), torch.ones(2, requires_grad=True)
        module.tied, module.weight.grad = module.weight, torch.ones(2, 2)
        module.bias.requires_grad_(False)
        results.append(compile(copies_of_parameters)(x, module))
    Comparison().same(*results, "result")
