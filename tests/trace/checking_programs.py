"""Programs that check data, and raise where it is not as it should be (`test_raising_branches.py`).

They are in a module of their own since pytest rewrites the assertions of its tests.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import distributions

GOOD = torch.tensor([1.0, 2.0, 3.0])
BAD = torch.tensor([1.0, -2.0, 3.0])
LIMIT = 0.1


class Trouble(Exception):
    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code


def complaint(x: torch.Tensor) -> str:
    return f"{int((x < 0).sum())} of {x.tolist()}"


# ---- checks


def by_assert(x):
    assert (x > 0).all()


def by_assert_with_a_text(x):
    assert x.min() > 0, "must be positive"


def by_assert_with_a_text_of_the_data(x):
    assert not (x < 0).any(), f"found {complaint(x)}"


def by_raise(x):
    if not (x > 0).all():
        raise ValueError("must be positive", x.shape)


def by_raise_of_a_class_of_its_own(x):
    bad = (x < 0).any()
    if bad:
        message = complaint(x)
        raise Trouble(message, code=3)


def by_raise_with_a_cause(x):
    if torch._is_all_true(x > 0):
        return x
    raise KeyError("negative") from ValueError(x.tolist())


def by_one_of_several(x):
    if torch.isnan(x).any() or x.max() > 100 or x.min() < 0:
        raise ValueError(x.tolist())


def by_number(x):
    if (x < 0).any().item():
        raise ValueError("negative")


def by_compared_number(x):
    if x.min().item() < 0:
        raise ValueError("negative")


def by_number_compared_from_the_left(x):
    if 0 > x.min().item():
        raise ValueError("negative")


def by_number_compared_with_a_variable(x):
    limit = LIMIT
    if x.min().item() < limit:
        raise ValueError("negative")


def by_bool(x):
    if bool((x < 0).any()):
        raise ValueError("negative")


def by_equal(x):
    assert torch.equal(x, x.abs())


def by_allclose(x):
    if not x.allclose(x.abs(), atol=1e-3):
        raise ValueError("negative")


def by_is_nonzero(x):
    assert not torch.is_nonzero((x < 0).sum())


def by_array(x):
    if np.any(x.detach().numpy() < 0):
        raise ValueError("negative")


def by_whole_numbers(x):
    if (x < 0).sum().item() != 0:
        raise ValueError("negative")


def by_loop(x):
    for part in (x[:1], x[1:]):
        if (part < 0).any():
            raise ValueError("negative", part.tolist())


def by_distribution(x):
    return distributions.Normal(x, x)


CHECKS = [check for name, check in list(globals().items()) if name.startswith("by_")]

# ---- places


class State:
    """What comes before and after a check changes it."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.buffer = torch.zeros(3)
        self.calls = 0
        torch.manual_seed(1)
        random.seed(2)

    def before(self) -> Any:
        self.log.append("before")
        self.calls += 1
        self.buffer.add_(1)
        return torch.rand(3) * random.random()

    def after(self, *parts: Any) -> Any:
        self.log.append("after")
        self.calls += 1
        self.buffer.mul_(2)
        return sum(parts) + self.buffer + torch.rand(3) * random.random()

    def found(self) -> list[Any]:
        drawn = torch.get_rng_state().tolist(), random.getstate()
        return [self.log, self.buffer.tolist(), self.calls, drawn]


def alone(check, s, x):
    check(x)
    return x * 2


def among_effects(check, s, x):
    drawn = s.before()
    check(x)
    return s.after(drawn, x)


def twice(check, s, x):
    drawn = s.before()
    check(GOOD * 2)
    s.log.append("between")
    check(x + 0)
    return s.after(drawn, x)


def after_a_write(check, s, x):
    x.mul_(2)
    check(x)
    x.add_(1)
    return x.sum()


def in_try_finally(check, s, x):
    drawn = s.before()
    try:
        check(x)
    finally:
        s.log.append("finally")
    return s.after(drawn, x)


def in_a_handler_that_raises(check, s, x):
    drawn = s.before()
    try:
        check(x)
    except Exception as error:
        s.log.append(type(error))
        raise RuntimeError("as it were") from error
    return s.after(drawn, x)


def in_a_context(check, s, x):
    drawn = s.before()
    with noting(s), torch.no_grad():
        check(x)
    return s.after(drawn, x)


@contextlib.contextmanager
def noting(s):
    s.log.append("enters")
    try:
        yield
    finally:
        s.log.append("leaves")


class Net(torch.nn.Module):
    def __init__(self, check: Callable[..., Any]) -> None:
        super().__init__()
        self.check = check

    def forward(self, x):
        self.check(x)
        return x + 1


def in_a_module(check, s, x):
    return s.after(s.before(), Net(check)(x))


def in_a_generator(check, s, x):
    def parts() -> Iterator[Any]:
        yield s.before()
        check(x)
        yield x

    return s.after(*parts())


def handled(check, s, x):
    drawn = s.before()
    try:
        check(x)
    except (ValueError, AssertionError, Trouble, KeyError) as error:
        s.log.append(repr(error))
    return s.after(drawn, x)


def suppressed(check, s, x):
    drawn = s.before()
    with contextlib.suppress(ValueError, AssertionError, Trouble, KeyError):
        check(x)
        s.log.append("fine")
    return s.after(drawn, x)


PLACES = [alone, among_effects, twice, after_a_write, in_try_finally, in_a_handler_that_raises, in_a_context]
PLACES += [in_a_module, in_a_generator]
HANDLING = [handled, suppressed]
