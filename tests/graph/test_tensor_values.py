"""Tensors in a captured program: made, changed in place, subscripted, unpacked, asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from recorded_graphs import F, W, X, check, reason

import framelift
from check import difference, reasons

# ---- tensors made inside

FACTORIES: dict[str, Callable[..., Any]] = {
    "zeros": lambda x: torch.zeros(2, 3),
    "arange": lambda x: torch.arange(3) + torch.arange(0, 1, 0.25).sum(),
    "tensor": lambda x: torch.tensor([[1, 2], [3, 4]]) + torch.tensor(1.5),
    "tensor with dtype": lambda x: torch.tensor([1, 2], dtype=torch.float64, device="cpu"),
    "full": lambda x: torch.full((2,), 3.0, dtype=torch.float16),
    "full_like": lambda x: torch.full_like(x, 2),
    "new": lambda x: x.new_zeros(3) + x.new_tensor([1, 2, 3]) + x.new_full((3,), 1),
    "eye": lambda x: torch.eye(3, dtype=torch.int32),
    "linspace": lambda x: torch.linspace(0, 1, 5),
    "rand": lambda x: torch.rand(3) + torch.randn(3) + torch.randint(0, 9, (3,)),
    "randperm": lambda x: torch.randperm(5),
    "bernoulli": lambda x: torch.bernoulli(torch.full((5,), 0.5)),
    "dropout": lambda x: F.dropout(x, 0.5),
    "multinomial": lambda x: torch.multinomial(torch.ones(5), 3),
    "random in place": lambda x: torch.empty(3).uniform_() + torch.empty(3).normal_(),
    "requires_grad": lambda x: torch.zeros(3, requires_grad=True) * 2,
    "classes": lambda x: (
        torch.FloatTensor([1, 2]),
        torch.LongTensor(((1,), (2,))),
        torch.Tensor([1.5]) + x.sum(),
    ),
    "classes, of sizes": lambda x: (
        torch.Tensor(2, 3).zero_(),
        torch.ByteTensor(x.shape).fill_(1),
        torch.Tensor(),
    ),
    "strided": lambda x: torch.empty_strided((2, 3), (1, 2)).fill_(0),
    "sparse": lambda x: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,)).to_dense(),
    "memory format": lambda x: torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "complex": lambda x: torch.complex(x, x).conj() * 2,
    "the value of a constant": lambda x: x * torch.tensor(2).item(),
    "the truth of a constant": lambda x: x * 2 if torch.tensor(3) > 2 else x,
    "a size of a constant": lambda x: torch.zeros(torch.tensor(3).item()) + 1,
    "under a default device": lambda x: under_device(),
    "cumulative": lambda x: torch.arange(4).cumsum(0).to(torch.int32),
    "meshgrid": lambda x: torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"),
    "one_hot": lambda x: F.one_hot(torch.arange(3), 4),
    "promotion": lambda x: torch.arange(3) / 2 + torch.tensor(1, dtype=torch.int8),
}


def under_device():
    with torch.device("meta"):
        made = torch.zeros(3)
    return made.device, torch.zeros(2)


@pytest.mark.parametrize("name", FACTORIES)
def test_tensors_made_inside(name: str) -> None:
    nodes = check(FACTORIES[name], X)
    assert len(nodes) == len(check(FACTORIES[name], X))  # the second time from the memory


def test_the_default_device_and_dtype() -> None:
    with torch.device("meta"):
        check_meta = framelift.compile(lambda x: (torch.zeros(3), x + 1), backend="eager", fullgraph=True)(X)
    assert check_meta[0].device.type == "meta"
    torch.set_default_dtype(torch.float64)
    try:
        check(lambda x: (torch.ones(2), x * 1.5, torch.tensor(1.0)), X)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_stream_of_random_numbers_goes_on_from_call_to_call() -> None:
    compiled = framelift.compile(lambda x: x + torch.rand(3, 4), backend="eager", fullgraph=True)
    torch.manual_seed(0)
    want = [X + torch.rand(3, 4) for _ in range(3)]
    torch.manual_seed(0)
    assert all(torch.equal(a, compiled(X)) for a in want)


# ---- changes in place, stores, subscripts


def store(*key: Any, value: Any = 9.0) -> Callable[..., Any]:
    at = key if len(key) > 1 else key[0]

    def fn(x):
        x[at] = value
        return x.sum()

    return fn


def store_tensor(x):
    x[1] = x[0] * 2
    x[:, 0] = torch.zeros(3)
    x[torch.tensor([0, 2])] = 1.0
    x[x > 1] = 0.0


def store_through_a_view(x):
    view = x.view(-1)[2:6]
    view[0] = 5.0
    view += 1
    view.transpose(0, 0).mul_(2)
    return view


def augmented(x):
    x += 1
    x *= 2
    x[0] -= 3
    x[0, 1] /= 2


def swapped(x):
    a, b = x[0].clone(), x[1].clone()
    x[0], x[1] = b, a


def out_argument(x):
    out = torch.empty(3, 4)
    torch.add(x, 1, out=out)
    torch.max(x, 0, out=(torch.empty(4), torch.empty(4, dtype=torch.int64)))
    return out


def out_argument_is_input(x):
    return torch.sin(x, out=x) is x


def copies(x):
    y = torch.empty_like(x)
    y.copy_(x)
    y[1:].copy_(x[:-1])
    return y


def foreach(x):
    a, b = x[0], x[1]
    torch._foreach_add_([a, b], 1.0)
    return torch._foreach_mul([a, b], 2.0)


def shapes_in_place(x):
    y = (x * 2).t_()
    z = y.unsqueeze_(0).squeeze_()
    return y, y.shape, y.stride(), z is y, y.view(4, 3) if y.is_contiguous() else y + 1


IN_PLACE = [
    *(
        store(0),
        store(slice(1, None)),
        store(0, 1),
        store(..., 0),
        store(None),
        store(slice(None, None, 2), [0, 1]),
    ),
    *(store(True), store([0, 2]), store((0, slice(1, 3)), value=2)),
    *(
        store_tensor,
        store_through_a_view,
        augmented,
        swapped,
        out_argument,
        out_argument_is_input,
        copies,
        foreach,
    ),
    *(shapes_in_place, lambda x: x.zero_(), lambda x: x.t_().shape, lambda x: x.clamp_(0, 1).fill_(2) is x),
    lambda x: F.relu(x - 1, inplace=True),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("n", range(len(IN_PLACE)))
def test_changes_in_place(n: int, backend: str) -> None:
    check(IN_PLACE[n], X.clone(), backend=backend)


def test_changes_of_a_view_that_is_an_input() -> None:
    base = torch.zeros(4, 4)
    compiled = framelift.compile(lambda v: v.add_(1).sum(), backend="eager", fullgraph=True)
    assert compiled(base[1:3, ::2]) == 4 and base.sum() == 4


SUBSCRIPTS: list[Any] = [
    *(
        0,
        -1,
        slice(1, 3),
        slice(None, None, 2),
        ...,
        None,
        (0, 1),
        (slice(None), 0),
        (..., 0),
        (None, 0),
        (0, None, ...),
    ),
    *(
        [0, 2],
        ([0, 1], [1, 2]),
        (slice(None), [0, 1]),
        True,
        False,
        (0, slice(1, None)),
        torch.tensor([1, 0]),
    ),
    *((torch.tensor([0, 1]), slice(None)), [True, False, True], torch.Size([0]), range(2)),
]


@pytest.mark.parametrize("key", SUBSCRIPTS, ids=str)
def test_subscripts_are_as_eagerly(key: Any) -> None:
    if isinstance(key, torch.Tensor):
        check(lambda x, key: x[key], X, key)
    elif isinstance(key, list) and True in key:
        assert reason(lambda x: x[key], X) == "data-dependent shape"
    else:
        check(lambda x: x[key], X)


def iteration(x):
    return [row.sum() for row in x]


def unpacking(x):
    a, b, c = x
    d, *rest = x
    return a + c, b, d, rest


def starred(x):
    return torch.stack([*x]), torch.stack(list(x)), max(len(r) for r in x)


def zipped(x):
    return [a * b for a, b in zip(x, x.flip(0))], dict(enumerate(x)), [(n, r) for n, r in enumerate(x[0])]


def reversed_rows(x):
    return torch.cat(list(reversed(x.unbind())))


def named_results(x):
    values, indices = x.max(dim=0)
    found = torch.topk(x, 2)
    return values, found.indices, torch.sort(x), x.min(1), torch.linalg.slogdet(x @ x.T + torch.eye(3))


def results_in_containers(x):
    return {
        "a": x + 1,
        "b": [x * 2, {"c": x.sum()}],
        "split": x.split(2, 1),
        "chunk": x.chunk(2),
        3: x.unbind(1),
    }


def nested_results(x):
    out, (h, c) = torch.nn.LSTM(4, 2)(x)
    return out.shape, h.shape, c.shape


def arguments_in_lists(x):
    return (
        torch.cat([x, x], dim=1),
        torch.stack((x, x)),
        torch.einsum("ij,kj->ik", x, x),
        torch.block_diag(x, x),
    )


def dtype_arguments(x):
    return (
        x.to(torch.float16),
        x.double(),
        x.type(torch.int32),
        x.to(dtype=torch.bool),
        x.sum(dtype=torch.float64),
    )


def memory_formats(x):
    y = x.view(1, 1, 3, 4).expand(2, 3, 3, 4)
    return y.contiguous(memory_format=torch.channels_last), y.clone(memory_format=torch.preserve_format)


def properties(x):
    return (
        x.T,
        x.mT,
        x.real,
        x.H,
        torch.view_as_complex(x.view(3, 2, 2)).imag,
        x.grad,
        x.requires_grad,
        x.is_leaf,
    )


def questions(x):
    return (
        x.shape,
        x.size(),
        x.size(-1),
        x.stride(),
        x.dtype,
        x.device,
        x.ndim,
        x.dim(),
        x.numel(),
        x.layout,
        len(x),
        (
            x.is_contiguous(),
            x.element_size(),
            x.storage_offset(),
            x.is_floating_point(),
            torch.is_complex(x),
            torch.is_tensor(x),
            isinstance(x, torch.Tensor),
            type(x) is torch.Tensor,
            torch.numel(x),
            x.nbytes,
            x.is_cuda,
            x.is_sparse,
            torch.result_type(x, 1),
            torch.can_cast(x.dtype, torch.int32),
            torch.finfo(x.dtype).max,
            x.shape == torch.Size([3, 4]),
            x.new_zeros(x.shape[1:]),
        ),
    )


VALUES = [
    *(
        iteration,
        unpacking,
        starred,
        zipped,
        reversed_rows,
        named_results,
        results_in_containers,
        arguments_in_lists,
    ),
    *(dtype_arguments, memory_formats, properties, questions),
]


@pytest.mark.parametrize("fn", VALUES, ids=lambda fn: fn.__name__)
def test_tensors_are_taken_apart_and_asked_about_as_eagerly(fn: Callable[..., Any]) -> None:
    check(fn, X)


def test_parameters_and_buffers() -> None:
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(W.detach().clone())
            self.register_buffer("count", torch.zeros(1))
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x):
            self.count += 1
            return (
                self.norm(x @ self.weight),
                isinstance(self.weight, torch.nn.Parameter),
                self.weight.requires_grad,
            )

    mine, theirs = Module(), Module()
    theirs.load_state_dict(mine.state_dict())
    compiled = framelift.compile(theirs, backend="eager", fullgraph=True)
    for _ in range(2):
        assert difference(mine(X), compiled(X)) is None
    assert difference(dict(mine.state_dict()), dict(theirs.state_dict())) is None


def test_one_tensor_given_twice() -> None:
    check(lambda x, y: x.add_(1) + y, X.clone(), X.clone())
    both = X.clone()
    compiled = framelift.compile(lambda x, y: x.add_(1) + y, backend="eager", fullgraph=True)
    assert torch.equal(compiled(both, both), (X + 1) * 2)


def test_a_nested_tensor_of_strided_layout_is_a_named_break() -> None:
    nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])

    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 2, y + 1

    compiled = framelift.compile(fn, backend="eager")
    found, other = compiled(nested, torch.ones(2))
    assert [part.tolist() for part in found.unbind()] == [[2.0] * 3, [2.0] * 2] and other.tolist() == [2, 2]
    assert set(reasons(compiled)) == {"unsupported kind of tensor"}
