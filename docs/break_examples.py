"""For each reason of a break a small program that has it, and what it can be instead.

docs/make_reasons.py writes them into docs/breaks.md; tests/documentation/test_breaks_page.py runs them: the
first of a pair breaks for that reason, the second is one graph and computes the same.
"""

from __future__ import annotations

import __hello__
import contextlib
import io
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import framelift
from framelift.core import breaks
from framelift.core.breaks import Reason

X = torch.tensor([0.5, 1.5, -2.0])


def without(module: str) -> torch.Tensor:
    """An argument; and the module is as good as never imported."""
    sys.modules.pop(module, None)
    return X.clone()


@dataclass
class Example:
    reason: Reason
    before: Callable[..., Any]
    after: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    instead: Callable[[], tuple[Any, ...]]
    """What the second is called with."""


EXAMPLES: dict[str, Example] = {}


def instead_of(
    before: Callable[..., Any],
    reason: Reason,
    arguments: Callable[[], tuple[Any, ...]] = lambda: (X.clone(),),
    instead: Callable[[], tuple[Any, ...]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Above the second of a pair. Arguments are made anew for each call."""

    def pair(after: Callable[..., Any]) -> Callable[..., Any]:
        EXAMPLES[reason.name] = Example(reason, before, after, arguments, instead or arguments)
        return after

    return pair


def branch(x):
    if x.sum() > 0:
        x = x * 2
    return x + 1


@instead_of(branch, breaks.DATA_DEPENDENT_BRANCH)
def branch_in_the_graph(x):
    x = torch.where(x.sum() > 0, x * 2, x)
    return x + 1


def number(x):
    largest = x.max().item()
    return x / largest


@instead_of(number, breaks.DATA_DEPENDENT_VALUE)
def number_as_tensor(x):
    largest = x.max()
    return x / largest


def masked(x):
    return x[x > 0].sum()


@instead_of(masked, breaks.DYNAMIC_OUTPUT_SHAPE)
def same_shape(x):
    return torch.where(x > 0, x, 0).sum()


def histogram(x):
    return torch.histogram(x, torch.tensor([-3.0, 0.0, 3.0])).hist / 2


@instead_of(histogram, breaks.UNSUPPORTED_FAKE)
def counted(x):
    edges = torch.tensor([-3.0, 0.0, 3.0])
    place = torch.bucketize(x, edges, right=True)
    return (place[:, None] == torch.arange(1, 3)).sum(0).float() / 2


def locked(x, lock):
    y = x + 1
    with lock:
        return y * 2


@instead_of(locked, breaks.UNKNOWN_NATIVE, lambda: (X.clone(), threading.Lock()), lambda: (X.clone(),))
def called_with_the_lock_held(x):
    y = x + 1
    return y * 2


def from_a_buffer(x, file):
    return x * len(file.getvalue())


@instead_of(
    from_a_buffer,
    breaks.OPAQUE_OBJECT,
    lambda: (X.clone(), io.StringIO("text")),
    lambda: (X.clone(), "text"),
)
def from_what_was_read(x, text):
    return x * len(text)


def talking(x):
    y = x * 2
    print("mean", y.mean())
    return y + 1


@instead_of(talking, breaks.EFFECT)
def silent(x):
    y = x * 2
    return y + 1


def looked_up_later(x, table, row):
    table.add_(1)  # much memory, of which there is no copy
    try:
        return x * table[row]
    except IndexError:
        return x * table[0]


@instead_of(
    looked_up_later,
    breaks.ERROR_AFTER_EFFECT,
    lambda: (X.clone(), torch.zeros(1 << 20), torch.tensor([3])),
)
def looked_up_first(x, table, row):
    try:
        found = table[row]
    except IndexError:
        found = table[0]
    table.add_(1)
    return x * (found + 1)


@framelift.disable
def marked(x):
    return x.sin()


def calls_what_is_disabled(x):
    return marked(x + 1) * 2


def unmarked(x):
    return x.sin()


@instead_of(calls_what_is_disabled, breaks.DISABLED)
def calls_what_is_not(x):
    return unmarked(x + 1) * 2


def broken_on_purpose(x):
    y = x + 1
    framelift.graph_break()
    return y * 2


@instead_of(broken_on_purpose, breaks.ASKED_FOR)
def not_broken(x):
    y = x + 1
    return y * 2


def by_address(x, y):
    return x + 1 if x.data_ptr() == y.data_ptr() else x + y


@instead_of(by_address, breaks.IDENTITY, lambda: (X.clone(), X.clone()))
def by_identity(x, y):
    return x + 1 if x is y else x + y


def searching(x, text):
    return x + 1, re.finditer("a", text)


@instead_of(searching, breaks.UNREBUILDABLE, lambda: (X.clone(), "banana"))
def found(x, text):
    return x + 1, [match.start() for match in re.finditer("a", text)]


def compressed(x):
    return x * 2


@instead_of(
    compressed,
    breaks.TENSOR_KIND,
    lambda: (X.reshape(1, 3).to_sparse_csr(),),
    lambda: (X.reshape(1, 3),),
)
def dense(x):  # called with x.to_dense()
    return x * 2


def in_the_order_of_a_set(x, names):
    names.add("ccc")
    for name in names:
        x = x * len(name)
    return x


@instead_of(in_the_order_of_a_set, breaks.SET_ORDER, lambda: (X.clone(), {"a", "bb"}))
def in_sorted_order(x, names):
    for name in sorted({*names, "ccc"}):
        x = x * len(name)
    return x


def of_numpy(x):
    return x - float(np.nanquantile(x.numpy(), 0.9))


@instead_of(of_numpy, breaks.NUMPY)
def of_torch(x):
    return x - torch.nanquantile(x, 0.9)


def generator(x):
    yield x + 1
    yield x + 2


@instead_of(generator, breaks.GENERATOR_FRAME)
def consumer(x):
    return list(generator(x))


def importing(x):
    import __hello__  # or any other that is not of an installed library

    return x * __hello__.initialized


@instead_of(importing, breaks.NEW_IMPORT, lambda: (without("__hello__"),))
def imported_before(x):
    return x * __hello__.initialized


def with_a_finaliser(x):
    class Resource:
        def __del__(self):
            print("released")

    kept = Resource()
    y = x + 1
    del kept
    return y


@contextlib.contextmanager
def resource() -> Iterator[None]:
    yield


@instead_of(with_a_finaliser, breaks.FINALISER)
def with_a_manager(x):
    with resource():
        return x + 1


def advancing(x, scales):
    return x * next(scales)


@instead_of(advancing, breaks.OUTSIDE_ITERATOR, lambda: (X.clone(), iter({2, 3})), lambda: (X.clone(), 2))
def given_the_next(x, scale):
    return x * scale


def raising_again(x, error):
    try:
        raise error
    except ValueError:
        return x + 1


@instead_of(raising_again, breaks.OUTSIDE_EXCEPTION, lambda: (X.clone(), ValueError("no")))
def raising_anew(x, error):
    try:
        raise type(error)(*error.args)
    except ValueError:
        return x + 1


def asking_the_operator(x, y):
    try:
        return x @ y
    except RuntimeError as error:
        return x + 1 if "size" in str(error) else y


@instead_of(asking_the_operator, breaks.OPERATOR_ERROR, lambda: (X.clone(), torch.ones(2)))
def asking_before(x, y):
    return x @ y if x.shape == y.shape else x + 1


def of_two_shapes(x):
    return torch.cond(x.sum() > 0, lambda x: x[:2] * 2, lambda x: x + 1, (x,))


@instead_of(of_two_shapes, breaks.BODIES, lambda: (X.clone().requires_grad_(),))
def of_one_shape(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, (x,))
