"""Modes of the program's, of torch functions and of dispatch: inside, across breaks, around the call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.experimental import control_flow
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import framelift
from check import Comparison, entries, reasons, why_not

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


class Scale(TorchFunctionMode):
    """Changes what an operator gives, and counts."""

    def __init__(self, by: float = 3.0) -> None:
        super().__init__()
        self.by = by
        self.seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        out = func(*args, **(kwargs or {}))
        return out * self.by if func in (torch.add, torch.Tensor.add) else out


class Swap(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.cos(*args) if func is torch.sin else func(*args, **(kwargs or {}))


class Doubles(TorchFunctionMode):
    """Has a say in which tensors are made."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.ones, torch.zeros):
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


class Log(TorchFunctionMode):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", "") + str(len(args)))
        return func(*args, **(kwargs or {}))


class Prints(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.sin:
            print("sin")
        return func(*args, **(kwargs or {}))


class Entering(Scale):
    """Has an `__enter__` of its own."""

    def __enter__(self) -> Any:
        self.by *= 2
        return super().__enter__()

    def __exit__(self, *raised: Any) -> Any:
        self.by /= 2
        return super().__exit__(*raised)


@framelift.disable
def stop() -> None:
    pass


def nothing() -> None:
    pass


def entered(between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        with Scale() as scale, Swap():
            y = torch.add(x, 1)
            between()
            z = torch.sin(y) + torch.add(y, 1) + torch.ones(3)
        return y, z, scale.seen, torch.add(x, 1)

    return fn


def raised(between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        try:
            with Doubles(), Scale() as scale:
                y = torch.add(x, torch.ones(3))
                between()
                z = torch.add(y, torch.zeros(3))
                raise ValueError
        except ValueError:
            pass
        return y, z, scale.seen, torch.add(x, torch.ones(3))

    return fn


def of_its_own(between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        with Entering() as scale:
            y = torch.add(x, 1)
            between()
            with torch.device("cpu"), Swap():
                z = torch.sin(torch.ones(3)) + y
        return y, z, scale.by, torch.add(x, 1)

    return fn


def twice(between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        scale = Scale(2.0)
        with scale:
            with scale:
                y = torch.add(x, 1)
                between()
            z = torch.add(x, 1)
        return y, z, scale.seen

    return fn


def logged(between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        with Log() as log:
            y = x + 1 - 2 * x
            y = (3 - y) / x.shape[0]
            between()
            y[0] = x.sum()
            z = -y[1:] @ x[1:] > len(x)
            made = torch.zeros(2).dtype, x.requires_grad, x.dim(), x.size(0)
        return y, z, made, log.names

    return fn


PROGRAMS = [entered, raised, of_its_own, twice, logged]


def compared(fn: Any, compiled: Any, *around: Callable[[], Any]) -> None:
    outcomes = []
    for each in (fn, compiled):
        x = torch.arange(3.0, requires_grad=True)
        with contextlib.ExitStack() as stack:
            modes = [stack.enter_context(make()) for make in around]
            result = each(x)
        first = result[0] if isinstance(result, tuple) else result
        first.sum().backward()
        outcomes.append(
            (
                detached(result),
                torch.round(x.grad, decimals=4),
                [getattr(mode, "seen", None) for mode in modes],
            )
        )
    Comparison().same(*outcomes, "result")
    assert not torch.overrides._get_current_function_mode_stack()


def detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach(), value.requires_grad
    return [detached(item) for item in value] if isinstance(value, tuple) else value


@BACKENDS
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_mode_entered_inside_is_as_eagerly(program: Any, backend: str) -> None:
    fn = program(nothing)
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        compared(fn, compiled)
    assert why_not(compiled) is None
    assert entries(compiled) == 1


@BACKENDS
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_open_across_a_break(program: Any, backend: str) -> None:
    fn = program(stop)
    compiled = framelift.compile(fn, backend=backend)
    for _ in range(2):
        compared(fn, compiled)
    assert set(reasons(compiled)) == {"disabled function"}
    assert all(len(record.entries) <= 1 for record in compiled._framelift_context.code_states.values())


def plain(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(torch.add(x, 1)) + torch.ones(3)


AROUND: list[list[Callable[[], Any]]] = [
    [Scale],
    [lambda: Scale(5.0)],
    [Scale, Swap],
    [Doubles, Scale, Swap],
    [lambda: torch.device("cpu"), Scale],
    [Scale, lambda: torch.device("cpu")],
    [Entering],
]


@BACKENDS
def test_a_mode_around_the_call_is_as_eagerly(backend: str) -> None:
    compiled = framelift.compile(plain, backend=backend, fullgraph=True)
    for around in AROUND:
        compared(plain, compiled, *around)
        before = entries(compiled)
        compared(plain, compiled, *around)
        assert entries(compiled) == before, "another mode of the same kind"
    compared(plain, compiled)
    assert entries(compiled) == len(AROUND) + 1


def test_around_the_call_with_dynamic_shapes() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.add(x, x.shape[0]))

    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True, dynamic=True)
    for size in (3, 4, 5):
        x = torch.randn(size)
        with Scale(), Swap():
            assert torch.equal(compiled(x), fn(x))
    assert entries(compiled) == 1


@BACKENDS
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_around_the_call_and_one_inside(program: Any, backend: str) -> None:
    fn = program(stop)
    compiled = framelift.compile(fn, backend=backend)
    for _ in range(2):
        compared(fn, compiled, Scale, Doubles)


def test_what_it_reads_is_guarded() -> None:
    compiled = framelift.compile(plain, backend="eager", fullgraph=True)
    x = torch.ones(3)
    with Scale(2.0) as scale:
        for by in (2.0, 7.0, 2.0):
            scale.by, scale.seen = by, 0
            found = compiled(x)
            count, scale.seen = scale.seen, 0
            expected = plain(x)
            assert count == scale.seen
            assert torch.equal(found, expected)
    assert entries(compiled) == 2  # two scales


def test_what_its_class_does_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mode(Swap):
        pass

    compiled = framelift.compile(plain, backend="eager", fullgraph=True)
    x = torch.ones(3)
    with Mode():
        swapped = compiled(x)
        monkeypatch.setattr(Mode, "__torch_function__", Scale.__torch_function__)
        monkeypatch.setattr(Mode, "by", 2.0, raising=False)
        monkeypatch.setattr(Mode, "seen", 0, raising=False)
        assert not torch.equal(compiled(x), swapped)
        assert torch.equal(compiled(x), plain(x))


def test_a_mode_from_outside_entered_inside() -> None:
    scale = Scale(2.0)

    def fn(x: torch.Tensor) -> Any:
        with scale:
            return torch.add(x, 1), scale.seen

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for by in (2.0, 3.0):
        results = []
        for each in (fn, compiled):
            scale.by, scale.seen = by, 0
            results.append(each(torch.ones(3)))
        Comparison().same(*results, "result")


def test_a_mode_that_breaks() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with Prints():
            return torch.sin(x * 2) + torch.sin(x)

    compiled = framelift.compile(fn, backend="eager")
    outside = framelift.compile(plain, backend="eager")
    x = torch.ones(3)
    for _ in range(2):
        assert torch.equal(compiled(x), fn(x))
        with Prints():
            assert torch.equal(outside(x), plain(x))


def test_an_error_in_a_mode() -> None:
    class Refuses(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.sin:
                raise KeyError("sin")
            return func(*args, **(kwargs or {}))

    def fn(x: torch.Tensor) -> torch.Tensor:
        try:
            with Refuses():
                y = x * 2
                return torch.sin(y)
        except KeyError:
            return y + 1

    compiled = framelift.compile(fn, backend="eager")
    x = torch.ones(3)
    assert torch.equal(compiled(x), fn(x))
    outside = framelift.compile(plain, backend="eager")
    with Refuses(), pytest.raises(KeyError):
        outside(x)
    assert torch.equal(outside(x), plain(x))


def test_a_graph_that_raises_leaves_the_modes_as_they_were() -> None:
    def fn(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x[at] * 2

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    with Swap() as swap:
        compiled(torch.ones(3), torch.tensor([0]))
        with pytest.raises(IndexError):
            compiled(torch.ones(3), torch.tensor([9]))
        assert torch.overrides._get_current_function_mode_stack() == [swap]


def test_a_tensor_of_a_class_of_its_own_in_a_mode() -> None:
    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = super().__torch_function__(func, types, args, kwargs or {})
            return out + 1 if func is torch.sin else out

    class Kinds(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.kinds: list[Any] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.kinds.append((func.__name__, types))
            return func(*args, **(kwargs or {}))

    def fn(x: torch.Tensor) -> Any:
        with Kinds() as kinds:
            y = torch.sin(x)
        return y, kinds.kinds

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    x = torch.ones(3).as_subclass(Tagged)
    for _ in range(2):
        Comparison().same(fn(x), compiled(x), "result")


class Counts(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.ops.aten.add.Tensor else out


def in_dispatch_mode(x: torch.Tensor) -> Any:
    with Counts() as counts:
        y = torch.add(x, 1)
        stop()
        z = torch.sin(y)
    return y, z, counts.count, x * 2


@BACKENDS
def test_dispatch_modes_run_as_they_are(backend: str) -> None:
    compiled = framelift.compile(plain, backend=backend)
    inside = framelift.compile(in_dispatch_mode, backend=backend)
    x = torch.ones(3)
    for _ in range(2):
        results = []
        for each in (plain, compiled):
            with Counts() as counts:
                results.append((each(x), counts.count))
        Comparison().same(*results, "result")
        Comparison().same(in_dispatch_mode(x), inside(x), "result")
        Comparison().same(plain(x), compiled(x), "result")


def asks_for_modes(x: Any) -> Any:
    from torch.overrides import _get_current_function_mode, _get_current_function_mode_stack

    before = len(_get_current_function_mode_stack())
    with Log() as outer, Scale() as inner:
        stack = _get_current_function_mode_stack()
        found = [stack[-2] is outer, stack[-1] is inner, _get_current_function_mode() is inner]
        count = len(stack) - before
        depth = torch._C._len_torch_function_stack() - before
        y = x + 1
    return y, before, count, depth, found, outer.names


def puts_a_mode_aside(x: Any) -> Any:
    with Log() as outer, Scale() as inner:
        y = x + 1
        with torch.overrides._pop_mode_temporarily() as mode:
            z = x + 2
            same = mode is inner
        w = x + 3
    return y, z, w, same, outer.names, inner.seen


def without_modes_and_classes(x: Any) -> Any:
    with torch._C.DisableTorchFunction():
        y = x + 1
    return y, x + 2, type(y).__name__


@pytest.mark.parametrize("fn", [asks_for_modes, puts_a_mode_aside], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("around", [0, 2])
def test_which_modes_there_are_is_known(fn: Callable[..., Any], around: int) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(around):
            stack.enter_context(Swap())
        found = framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
        Comparison().same(fn(torch.ones(2)), found, "result")


def test_a_mode_from_before_the_call_is_put_aside() -> None:
    def fn(x: Any) -> Any:
        with torch.overrides._pop_mode_temporarily() as mode:
            y = x + 1
        return y, x + 1, mode.seen

    with Scale() as mode:
        compiled = framelift.compile(fn, backend="eager", fullgraph=True)
        found = compiled(torch.ones(2))
        assert mode.seen == 2  # with the call of torch.ones
    with Scale():
        expected = fn(torch.ones(2))
    Comparison().same(expected, found, "result")


def test_how_many_modes_there_are_is_known_after_a_break() -> None:
    def fn(x: Any) -> Any:
        with Log() as log:
            before = torch.overrides._get_current_function_mode_stack()
            y = x + 1
            framelift.graph_break()
            after = torch.overrides._get_current_function_mode_stack()
        return y, [mode is log for mode in before], [mode is log for mode in after]

    found = framelift.compile(fn, backend="eager")(torch.ones(2))
    Comparison().same(fn(torch.ones(2)), found, "result")


class Kept(torch.Tensor):
    pass


def test_classes_and_modes_may_be_disabled() -> None:
    for given in (torch.ones(2), torch.ones(2).as_subclass(Kept)):
        compiled = framelift.compile(without_modes_and_classes, backend="eager", fullgraph=True)
        Comparison().same(without_modes_and_classes(given), compiled(given), "result")


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda v: torch.add(v, 1), lambda v: v - 1, (x,)),
    "scan": lambda x: scan(lambda carry, v: (torch.add(carry, v), carry * 1), x[0], x),
    "map": lambda x: control_flow.map(lambda v: torch.add(v, 1), x),
    "while_loop": lambda x: while_loop(
        lambda n, v: n < 2, lambda n, v: (n + 1, torch.add(v, 1)), (torch.tensor(0), x)
    ),
}


class Adds(TorchFunctionMode):
    """Has no state: eagerly these operators are compiled, with the modes, by torch's own compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return out * 3 if func is torch.add else out


@pytest.mark.parametrize("around", [contextlib.nullcontext, Swap, lambda: torch.device("cpu")])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_mode_is_asked_about_an_operator_and_not_about_its_functions(name: str, around: Any) -> None:
    def fn(x: Any) -> Any:
        with Adds(), around(), Adds():
            y = OPERATORS[name](x)
            z = torch.add(y[0], 1)
        return y, z, torch.add(x, 1)

    x = torch.ones(3, 2)
    found = framelift.compile(fn, backend="eager", fullgraph=True)(x)
    Comparison().same(fn(x), found, "result")


def test_modes_that_hand_calls_on() -> None:
    def fn(x: Any) -> Any:
        with BaseTorchFunctionMode(), Scale() as mode:
            return torch.add(x, 1), mode.by

    found = framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    Comparison().same(fn(torch.ones(2)), found, "result")
