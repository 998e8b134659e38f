"""Managers of `contextlib`, and of the program's own, around tensor code: whole, and across breaks."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from check import Comparison, entries, why_not

LOG: list[str] = []
Between = Callable[[], None]


@framelift.disable
def stop() -> None:
    pass


@framelift.disable
def fail() -> None:
    raise KeyError("from a break")


def nothing() -> None:
    pass


@contextlib.contextmanager
def logged(name: str) -> Iterator[str]:
    LOG.append(f"in {name}")
    try:
        yield name
    finally:
        LOG.append(f"out {name}")


class Writes:
    """Keeps what has happened to it."""

    def __init__(self) -> None:
        self.state = 0

    def __enter__(self) -> Writes:
        self.state += 1
        return self

    def __exit__(self, *raised: Any) -> bool:
        self.state += 10
        self.error = raised[0]
        return False


class Decorator(contextlib.ContextDecorator):
    def __enter__(self) -> Decorator:
        LOG.append("decorated")
        return self

    def __exit__(self, *raised: Any) -> bool:
        LOG.append("left")
        return False


class Closes:
    closed = False

    def close(self) -> None:
        self.closed = True


class Asynchronous:
    async def __aenter__(self) -> Asynchronous:
        LOG.append("asynchronously in")
        return self

    async def __aexit__(self, *raised: Any) -> bool:
        LOG.append("asynchronously out")
        return False


OUTSIDE = Writes()


def generator(x: torch.Tensor, between: Between) -> Any:
    with logged("a") as name:
        y = x * 2
        between()
        z = y + len(name)
    return z, y * 3


def stack(x: torch.Tensor, between: Between) -> Any:
    with contextlib.ExitStack() as stack:
        writes = stack.enter_context(Writes())
        stack.enter_context(logged("b"))
        stack.callback(LOG.append, "callback")
        stack.push(lambda *raised: LOG.append(f"pushed {raised[0]}"))
        y = x * 2
        between()
        z = y + writes.state
    return z, writes.state


def stack_handed_on(x: torch.Tensor, between: Between) -> Any:
    with contextlib.ExitStack() as stack:
        writes = stack.enter_context(Writes())
        y = x * 2
        between()
        rest = stack.pop_all()
    y = y + writes.state
    rest.close()
    return y, writes.state


def stack_of_torchs(x: torch.Tensor, between: Between) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        y = torch.mm(x[None], x[:, None])
        between()
        z = torch.mm(x[None], x[:, None])
    return y, z, torch.mm(x[None], x[:, None])


def null(x: torch.Tensor, between: Between) -> Any:
    with contextlib.nullcontext(3) as number:
        y = x * number
        between()
    return y + 1


def suppressed(x: torch.Tensor, between: Between) -> Any:
    with contextlib.suppress(KeyError, ValueError):
        y = x * 2
        between()
        raise ValueError
    return y + 1


def closing(x: torch.Tensor, between: Between) -> Any:
    with contextlib.closing(Closes()) as closes:
        y = x * 2
        between()
    return y + closes.closed


def redirected(x: torch.Tensor, between: Between) -> Any:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        y = x * 2
        between()
        if between is not nothing:
            print("hello")
    return y + 1, text.getvalue()


@Decorator()
def decorated(x: torch.Tensor, between: Between) -> Any:
    y = x * 2
    between()
    return y + 1


@logged("function")
def decorated_by_generator(x: torch.Tensor, between: Between) -> Any:
    y = x * 2
    between()
    return y + 1


def decorators(x: torch.Tensor, between: Between) -> Any:
    return decorated(x, between) * 2, decorated_by_generator(x, between)


def instance(x: torch.Tensor, between: Between) -> Any:
    writes = Writes()
    with writes as same:
        y = x * same.state
        between()
        y = y + 1
    return y * writes.state, writes


def from_outside(x: torch.Tensor, between: Between) -> Any:
    OUTSIDE.state = 0
    with OUTSIDE:
        y = x * 2
        between()
        y = y + OUTSIDE.state
    return y, OUTSIDE.state


def raised(x: torch.Tensor, between: Between) -> Any:
    writes = Writes()
    try:
        with writes, logged("error"):
            y = x * 2
            between()
            raise KeyError("x")
    except KeyError as error:
        return y + writes.state, str(error), writes.error is KeyError


def caught_by_the_manager(x: torch.Tensor, between: Between) -> Any:
    @contextlib.contextmanager
    def catching() -> Iterator[None]:
        try:
            yield
        except (KeyError, ValueError):
            LOG.append("caught")

    with catching():
        y = x * 2
        between()
        raise ValueError
    return y + 1


def asynchronous(x: torch.Tensor, between: Between) -> Any:
    async def main() -> Any:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(Asynchronous())
            stack.callback(LOG.append, "callback")
            y = x * 2
            between()
            return y + 1

    try:
        main().send(None)
    except StopIteration as end:
        return end.value * 2


def in_a_loop(x: torch.Tensor, between: Between) -> Any:
    found = []
    for n in range(2):
        with logged(str(n)), Writes() as writes:
            y = x * n
            between()
            found.append(y + writes.state)
    return found


PROGRAMS = [
    generator,
    stack,
    stack_handed_on,
    stack_of_torchs,
    null,
    suppressed,
    closing,
    redirected,
    decorators,
]
PROGRAMS += [instance, from_outside, raised, caught_by_the_manager, asynchronous, in_a_loop]


def compared(fn: Any, compiled: Any, between: Between) -> None:
    outcomes = []
    for each in (fn, compiled):
        LOG.clear()
        try:
            result = each(torch.arange(3.0), between)
        except KeyError as error:
            result = repr(error)
        outcomes.append((result, list(LOG), OUTSIDE.state, torch.is_grad_enabled()))
    Comparison().same(*outcomes, "result")


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_captured_whole(fn: Any) -> None:
    for backend in ("eager", "aot_eager"):
        compiled = framelift.compile(fn, backend=backend, fullgraph=True)
        for _ in range(2):
            compared(fn, compiled, nothing)
        assert why_not(compiled) is None
        assert entries(compiled) == 1


@pytest.mark.parametrize("between", [stop, fail])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_open_across_a_break(fn: Any, between: Between) -> None:
    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        compared(fn, compiled, between)
