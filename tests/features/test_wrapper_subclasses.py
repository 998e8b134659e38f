"""Tensor subclasses that wrap other tensors: captured with these inside, by any backend of AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import framelift
from check import capture, entries, reasons
from sameness import alike

aten = torch.ops.aten


class Scaled(torch.Tensor):
    """A tensor with a factor, which it says beside what it wraps."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, factor: float) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), dtype=inner.dtype, device=inner.device
        )

    def __init__(self, inner: torch.Tensor, factor: float) -> None:
        self.inner, self.factor = inner, factor

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __tensor_flatten__(self) -> Any:
        return ["inner"], (self.factor,)

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Scaled:
        return Scaled(inner["inner"], *context)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        factor = next(arg.factor for arg in args if isinstance(arg, Scaled))
        given = pytree.tree_map_only(Scaled, lambda tensor: tensor.inner, (args, kwargs or {}))
        out = func(*given[0], **given[1])
        if func is aten.mul.Tensor:
            out = out * factor
        return pytree.tree_map_only(torch.Tensor, lambda tensor: Scaled(tensor, factor), out)

    def __repr__(self) -> str:  # which torch may ask for while it compiles
        return f"Scaled({self.factor})"

    def scaled(self) -> torch.Tensor:
        return self.inner * self.factor


def two(*sizes: int) -> TwoTensor:
    return TwoTensor(torch.randn(*sizes), torch.randn(*sizes))


def scaled(*sizes: int) -> Scaled:
    return Scaled(torch.randn(*sizes), 3.0)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "operators": (lambda x: x * 2 + 1, lambda: (two(3),)),
    "two of them": (lambda x, y: (x @ y).relu(), lambda: (two(3, 3), two(3, 3))),
    "with a plain tensor": (lambda x, y: x @ y, lambda: (two(3, 3), torch.randn(3, 3))),
    "what is inside": (lambda x: x.a + x.b, lambda: (two(3),)),
    "views": (lambda x: x.view(3, 1).t() * 2, lambda: (two(3),)),
    "in place": (lambda x: x.mul_(2), lambda: (two(3),)),
    "metadata": (
        lambda x: (x.shape, x.dtype, type(x) is TwoTensor, isinstance(x, torch.Tensor)),
        lambda: (two(3),),
    ),
    "in containers": (lambda x: {"a": [x * 2, (x,)]}, lambda: (two(3),)),
    "made inside": (lambda a, b: TwoTensor(a, b) * 2, lambda: (torch.randn(3), torch.randn(3))),
    "made inside, looked into": (lambda a: TwoTensor(a, a * 2).b + 1, lambda: (torch.randn(3),)),
    "one that says more": (lambda x: x * 2, lambda: (scaled(3),)),
    "methods": (lambda x: x.scaled() + 1, lambda: (scaled(3),)),
    "attributes": (lambda x: (x * 2).inner * x.factor, lambda: (scaled(3),)),
    "nested": (lambda x: x * 2, lambda: (TwoTensor(two(3), two(3)),)),
}


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, (TwoTensor, Scaled)):
        (names, context), found = a.__tensor_flatten__(), b.__tensor_flatten__()
        assert (names, context) == found
        assert (a.shape, a.requires_grad) == (b.shape, b.requires_grad)
        for name in names:
            same(getattr(a, name), getattr(b, name))
    elif isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            same(left, right)
    elif isinstance(a, dict):
        same(list(a.items()), list(b.items()))
    else:
        assert a == b


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_whole(name, backend):
    fn, make = PROGRAMS[name]
    torch.manual_seed(0)
    plain = make()
    torch.manual_seed(0)
    mine = make()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        same(fn(*plain), compiled(*mine))
        same(plain, mine)
    assert entries(compiled) <= 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_go_through_wrappers(backend):
    fn = lambda x, w: (x * w).sin().sum()
    found = []
    for run in (fn, framelift.compile(fn, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        x, w = two(3), two(3).requires_grad_()
        run(x, w).backward()
        found.append(w.grad)
    same(*found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_that_are_wrappers_are_trained(backend):
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 3)
        model.weight = torch.nn.Parameter(two(3, 3))
        model.bias = torch.nn.Parameter(two(3))
        run = framelift.compile(model, backend=backend, fullgraph=True) if compiled else model
        out = run(torch.randn(2, 3))
        out.sum().backward()
        found.append((out.detach(), model.weight.grad))
    same(*found)


def test_all_that_it_says_of_itself_is_guarded():
    compiled = capture(lambda x: x * 2)
    for factor in (3.0, 4.0, 3.0):
        x = torch.ones(3)
        same(compiled(Scaled(x, factor)), Scaled(x * 2 * factor, factor))
    assert entries(compiled) == 2  # two factors


def test_what_is_inside_is_guarded():
    compiled = capture(lambda x: x.b.stride(), fullgraph=False)
    x = two(3)
    assert compiled(x) == (1,)
    x.b = torch.ones(6)[::2]
    assert compiled(x) == (2,)


def test_it_lives_through_a_break(capsys):
    def f(x):
        y = x * 2
        print("in between")
        return y + 1

    compiled = capture(f, fullgraph=False)
    x = two(3)
    same(compiled(x), f(x))
    assert capsys.readouterr().out == "in between\n" * 2
    assert reasons(compiled) == ["run-time effect"]


def test_a_part_that_is_replaced_is_read_again():
    def f(x):
        x.b = x.a * 2
        return x.b + 1

    compiled = capture(f, fullgraph=False)
    x, y = two(3), two(3)
    torch.testing.assert_close(compiled(x), f(y) - y.a * 2 + x.a * 2)
    torch.testing.assert_close(x.b, x.a * 2)


# ---- attributes of what is made inside


class Noted(Scaled):
    """Says nothing of its note when it is taken apart."""

    def __init__(self, inner: torch.Tensor, factor: float) -> None:
        super().__init__(inner, factor)
        self.note = "new"

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Noted:
        made = Noted(inner["inner"], *context)
        made.note = "made again"
        return made


ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "read": lambda x: ((x * 2).factor, x * 2),
    "computed with": lambda x: (x * 2) * (x * 2).factor,
    "branched on": lambda x: x * 2 if (x * 2).factor > 1 else x + 1,
    "asked for": lambda x: (x * 2, hasattr(x * 2, "factor"), getattr(x * 2, "factor", None)),
    "of a result of a result": lambda x: (((x * 2) + x).factor, x.factor, x * 2),
    "read by a method": lambda x: (x * 2).scaled() + 1,
    "in what is flattened": lambda x: ((x * 2).__tensor_flatten__()[1], x * 2),
}


def told(value: Any) -> Any:
    if isinstance(value, Scaled):
        return type(value), value.factor, value.inner.tolist()
    if isinstance(value, tuple):
        return tuple(map(told, value))
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_of_results(name: str, backend: str) -> None:
    fn = ATTRIBUTES[name]
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for factor in (3.0, 3.0, 0.5):
        x = Scaled(torch.arange(3.0), factor)
        assert told(compiled(x)) == told(fn(x))
    assert entries(compiled) == 2  # two factors


@pytest.mark.parametrize("asked", [lambda x: hasattr(x * 2, "nothing"), lambda x: sorted(vars(x * 2))])
def test_attributes_that_are_not_sure_break(asked: Any) -> None:
    compiled = framelift.compile(lambda x: (x * 2, asked(x)), backend="eager")
    x = Scaled(torch.arange(3.0), 3.0)
    assert told(compiled(x)[0]) == told(x * 2)
    assert compiled(x)[1] == asked(x)
    assert set(reasons(compiled)) == {"state of a tensor"}


def test_attributes_that_are_not_flattened_are_eagers() -> None:
    def fn(x: Any) -> Any:
        return (x * 2).factor, getattr(x * 2, "note", None)

    compiled = framelift.compile(fn, backend="eager")
    x = Noted(torch.arange(3.0), 3.0)
    assert compiled(x) == fn(x)


class Holding(torch.nn.Module):
    """With a parameter and a buffer that wrap others."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", Scaled(torch.ones(3), 3.0))
        self.weight = torch.nn.Parameter(Scaled(torch.ones(3), 2.0))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.held * x
        return y, y.factor, self.held.factor, self.weight.factor, (self.weight * x).factor


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_buffers_and_parameters_that_wrap_others(backend: str) -> None:
    module = Holding()
    compiled = framelift.compile(module, backend=backend, fullgraph=True)
    x = torch.arange(3.0)
    for _ in range(2):
        assert told(compiled(x)) == told(module(x))


class Tagged(torch.Tensor):
    """A class that the default `__torch_function__` gives to results."""


def test_a_tensor_that_wraps_others_gets_no_other_class() -> None:
    def fn(x: Any, tagged: Any) -> Any:
        try:
            return x * tagged
        except RuntimeError as error:
            return str(error)

    given = Scaled(torch.ones(3), 2.0), torch.ones(3).as_subclass(Tagged)
    expected = fn(*given)
    assert isinstance(expected, str)
    assert framelift.compile(fn, backend="eager")(*given) == expected


# ---- sizes that vary

VARYING: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda x, y: x * 2 + x.shape[0],
    "views": lambda x, y: (x.view(-1, 2) + y.view(-1, 2)).sum(0),
    "what is inside": lambda x, y: (x.a * 2 + y, x * 3),
    "written, and what is inside": lambda x, y: (x.mul_(2), x.a + 1)[1],
    "what is inside, written": lambda x, y: (x.a.add_(1), x * 2)[1],
    "its size for another": lambda x, y: y + torch.arange(x.shape[0])[:, None],
    "put together": lambda x, y: torch.cat([x, x]).sum(0),
    "given back": lambda x, y: (x, x.t(), x.shape),
    "a branch": lambda x, y: x * 2 if x.shape[0] > 100 else x + y.shape[0],
}


def plain(value: Any) -> Any:
    """With what is inside in the place of wrappers."""
    return pytree.tree_map_only(
        (TwoTensor, Scaled),
        lambda x: (type(x), x.shape, *(getattr(x, name) for name in x.__tensor_flatten__()[0])),
        value,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fn", VARYING.values(), ids=VARYING.keys())
def test_sizes_of_wrappers_vary(fn: Callable[..., Any], dynamic: bool | None, backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True)
    for n in (5, 6, 9, 12, 3, 20):
        x, y = two(n, 4), torch.randn(n, 4)
        same = TwoTensor(x.a.clone(), x.b.clone())
        alike(plain(fn(x, y)), plain(compiled(same, y)))
        alike(plain(x), plain(same))
    assert entries(compiled) == (1 if dynamic else 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_of_transposed_wrappers_vary(backend: str) -> None:
    fn = lambda x: (x * 2 + x.shape[0], x.t() @ x, x.stride(), x.is_contiguous())
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in (5, 6, 9, 12, 3):
        for x in (two(4, n).t(), two(n, 4)):
            alike(plain(fn(x)), plain(compiled(x)))
    assert entries(compiled) == 4


def test_gradients_of_wrappers_whose_sizes_vary() -> None:
    fn = lambda x, y: x * y * x.shape[0]
    compiled = framelift.compile(fn, backend="aot_eager")
    for n in (5, 6, 9):
        a, b = torch.randn(n, 4), torch.randn(n, 4)
        found = []
        for call in (fn, compiled):
            x, y = TwoTensor(a.clone(), b.clone()).requires_grad_(), torch.ones(4).requires_grad_()
            call(x, y).sum().backward(TwoTensor(torch.tensor(1.0), torch.tensor(2.0)))
            found.append(plain([x.grad, y.grad]))
        alike(*found)
    assert entries(compiled) == 2


def test_one_tensor_twice_in_a_wrapper() -> None:
    fn = lambda x: x * x.shape[0]
    compiled = framelift.compile(fn, backend="eager")
    for n in (5, 6, 9):
        inner = torch.randn(n, 4)
        alike(plain(fn(TwoTensor(inner, inner))), plain(compiled(TwoTensor(inner, inner))))


def test_a_wrapper_that_says_more() -> None:
    fn = lambda x: x.scaled() + x.shape[0]
    compiled = framelift.compile(fn, backend="eager")
    for n in (5, 6, 9, 12):
        x = scaled(n)
        alike(fn(x), compiled(x))
    assert entries(compiled) == 2
    alike(compiled(Scaled(x.inner, 4.0)), fn(Scaled(x.inner, 4.0)))
    assert entries(compiled) == 3


VIEWS_OF_WRITTEN: dict[str, Callable[..., Any]] = {
    "a view": lambda x, name: (x.mul_(2), x.view(3))[1],
    "of before": lambda x, name: (y := x.view(3), x.mul_(2), y)[2],
    "a part of it": lambda x, name: (x.mul_(2), x[1:])[1],
    "written through it": lambda x, name: x.view(1, 3).mul_(2),
    "without history": lambda x, name: (x.mul_(2), x.detach())[1],
    "what it wraps": lambda x, name: (x.mul_(2), getattr(x, name))[1],
    "what a view wraps": lambda x, name: (x.mul_(2), getattr(x.view(3), name))[1],
    "that of another": lambda x, name: (x.mul_(2), x + 1)[1],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", [two, scaled])
@pytest.mark.parametrize("name", VIEWS_OF_WRITTEN)
def test_views_of_a_wrapper_that_is_written_to(name: str, make: Any, backend: str) -> None:
    fn = VIEWS_OF_WRITTEN[name]
    for _ in range(2):  # what is remembered of operators is the same for a second capture
        compiled = framelift.compile(fn, backend=backend, isolate_recompiles=True)
        found = []
        for run in (fn, compiled):
            torch.manual_seed(0)
            x = make(3)
            names = x.__tensor_flatten__()[0]
            result = run(x, names[-1])
            for each in names:
                getattr(x, each).add_(1)
            parts = [
                [getattr(each, one) for one in names] if type(each) is type(x) else each
                for each in (result, x)
            ]
            found.append((type(result), parts))
        alike(*found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("written", ["the wrapper", "what it wraps", "a view of that", "another wrapper"])
def test_what_is_written_to_lies_in_a_wrapper_too(written: str, backend: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        (x if written == "the wrapper" else y).add_(1)
        return x * 2, y * 3

    def given() -> tuple[Any, Any]:
        a, b = torch.ones(4), torch.zeros(4)
        other: Any = {"a view of that": a[:], "another wrapper": TwoTensor(b, a)}.get(written, a)
        return TwoTensor(a, b), other

    eager, own = given(), given()
    expected = fn(*eager)
    found = framelift.compile(fn, backend=backend)(*own)
    alike(plain([*expected, *eager]), plain([*found, *own]))


def flat(value: Any) -> Any:
    """With the plain tensors in the place of wrappers, however deep they lie."""
    return pytree.tree_map_only(
        (TwoTensor, Scaled),
        lambda x: (type(x), *(flat(getattr(x, name)) for name in x.__tensor_flatten__()[0])),
        value,
    )


def sharing(how: str) -> tuple[Any, Any]:
    """A wrapper, and another tensor that may lie in its memory."""
    a, b, c, d = (torch.arange(4.0) + n for n in range(4))
    long = torch.arange(8.0)
    first = TwoTensor(a, b)
    deep = TwoTensor(first, TwoTensor(c, d))
    return {
        "apart": (first, c),
        "one inside": (first, a),
        "the other inside": (first, b),
        "a view": (first, a[:]),
        "overlapping": (TwoTensor(long[:4], b), long[2:6]),
        "wrappers apart": (first, TwoTensor(c, d)),
        "wrappers of one": (first, TwoTensor(d, a)),
        "wrappers of the same": (first, TwoTensor(a, b)),
        "the other way round": (first, TwoTensor(b, a)),
        "one wrapper": (first, first),
        "wraps one twice": (TwoTensor(a, a), TwoTensor(c, d)),
        "nested apart": (deep, torch.ones(4)),
        "nested": (deep, d),
        "a wrapper inside": (deep, first),
        "of another class apart": (Scaled(a, 2.0), c),
        "of another class": (Scaled(a, 2.0), a),
    }[how]


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "the wrapper": lambda x, y: (x.add_(1), x * 2, y * 3),
    "the other": lambda x, y: (y.add_(1), x * 2, y * 3),
    "a view of the other": lambda x, y: (y[1:].add_(1), x * 2)[1:],
    "a view of the wrapper": lambda x, y: (x.view(2, 2).mul_(2), y + 1)[1:],
    "both": lambda x, y: (x.add_(1), y.mul_(2), x * 2),
    "between two uses": lambda x, y: (x * 2, y.mul_(3), x * 2)[::2],
}

GROUPS = [
    ["apart", "one inside", "the other inside", "a view", "overlapping"],
    ["wrappers apart", "wrappers of one", "wrappers of the same", "the other way round", "wraps one twice"],
    ["wrappers apart", "one wrapper"],
    ["nested apart", "nested"],
    ["of another class apart", "of another class"],
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
@pytest.mark.parametrize("writing", WRITES)
def test_with_whom_a_wrapper_shares_memory_is_guarded(writing: str, group: list[str], backend: str) -> None:
    fn = WRITES[writing]
    for order in (group, group[::-1]):
        compiled = framelift.compile(fn, backend=backend)
        for how in (*order, order[0]):
            eager, own = sharing(how), sharing(how)
            expected, found = fn(*eager), compiled(*own)
            alike(flat([*expected, *eager]), flat([*found, *own]))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_buffers_that_come_to_share_memory_with_a_wrapper(backend: str) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            return x * 2

    eager, own = Counting(), Counting()
    compiled = framelift.compile(own, backend=backend)
    for how in ("apart", "one inside", "apart", "the other inside", "a view"):
        (x, eager.count), (y, own.count) = sharing(how), sharing(how)
        alike(flat([eager(x), x, eager.count]), flat([compiled(y), y, own.count]))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_a_wrapper_holds_is_the_tensor_that_it_is(dynamic: bool | None, backend: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        inner = x.a
        inner.seen = True
        known = inner is y, id(inner) == id(y), inner in {y}, getattr(y, "seen", False)
        y.mul_(2)
        return known, inner + 1, inner.told, inner.grad, x.b

    compiled = framelift.compile(fn, backend=backend, dynamic=dynamic)
    for how in ("apart", "one inside", "the other inside", "a view", "one inside"):
        eager, own = sharing(how), sharing(how)
        for x, _ in (eager, own):
            x.a.told = how
        (known, *expected), (also_known, *found) = fn(*eager), compiled(*own)
        assert known == also_known
        assert found[-1] is own[0].b
        assert vars(own[0].a) == vars(eager[0].a)
        alike(flat([*expected, *eager]), flat([*found, *own]))


@pytest.mark.parametrize("mark", [framelift.mark_dynamic, framelift.maybe_mark_dynamic])
def test_a_mark_on_a_wrapper_is_one_on_what_it_wraps(mark: Callable[..., None]) -> None:
    compiled = framelift.compile(lambda x: x * 2 + 1, backend="eager", fullgraph=True)
    for size in (4, 5, 7):
        x = two(size, 3)
        mark(x, 0)
        result = compiled(x)
        assert torch.equal(result.a, x.a * 2 + 1) and torch.equal(result.b, x.b * 2 + 1)
    assert entries(compiled) == 1


class Described(TwoTensor):
    """Says of itself what its `__init__` sets last."""

    @staticmethod
    def __new__(cls, a: torch.Tensor, b: torch.Tensor, text: str = "") -> Described:
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

    def __init__(self, a: torch.Tensor, b: torch.Tensor, text: str = "") -> None:
        self.a = a
        self.b, self.text = b, text

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], self.text

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Described:
        return Described(inner["a"], inner["b"], context)


@pytest.mark.parametrize("dynamic", [None, True])
def test_one_that_is_looked_at_as_it_is_made(dynamic: bool | None) -> None:
    def fn(x: torch.Tensor) -> None:
        made = Described(x, x, "made")  # noqa: F841

    compiled = framelift.compile(fn, backend="eager", dynamic=dynamic)
    for size in (3, 4, 5):
        compiled(torch.ones(size))
    assert "bug in Framelift" not in reasons(compiled)
