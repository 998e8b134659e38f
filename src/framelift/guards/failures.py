"""A guard that did not hold, in the words of the user: what was expected, what was found, and why it matters.

Nothing of the program is kept here: values are shown when the guard has failed, and shortly.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from framelift.core import causes
from framelift.core.breaks import Place
from framelift.core.causes import Cause
from framelift.core.weakly import there
from framelift.guards.guard import Check, Guard, is_of_a_number, number
from framelift.guards.sources import Access, Source, written

LONGEST = 120


@dataclass(frozen=True, eq=False)
class Failure:
    guard: str
    """The fact, as the user would write it: `x.shape[0] == 4`."""
    found: str
    cause: Cause
    subject: str
    """What it is about: `x`."""
    place: Place | None = None
    """The user's line that relies on it."""

    def __str__(self) -> str:
        return f"{self.guard}, found {self.found}"

    @property
    def where(self) -> str:
        """`file:line: expression`, empty where that is not known."""
        if self.place is None:
            return ""
        expression = self.place.expression
        where = f"{self.place.code.co_filename}:{self.place.line}"
        return f"{where}: {expression}" if expression else where


# ---- what failed


def of_guard(guard: Guard, found: Any) -> Failure:
    subject = str(guard.source)
    if guard.check is Check.TENSOR:
        text, shown_found, cause = tensor_fact(subject, guard.expected.diff(found) or "")
    elif is_of_a_number(guard.source):
        subject, value = str(guard.source.base), number(guard.source, found)
        cause = causes.INT if value.dtype.kind in "iub" else causes.FLOAT
        text, shown_found = guard.text, str(value)
    else:
        text, shown_found, cause = guard.text, FOUND.get(guard.check, shown)(found), cause_of(guard)
    return Failure(
        located(text, guard.source), shorten(shown_found), cause, shorten(subject), guard.user_place
    )


def of_access(source: Source, guards: list[Guard]) -> Failure:
    """What a path leads to is not there (any more)."""
    place = next((guard.user_place for guard in guards if leads_through(guard.source, source)), None)
    exists = located(EXISTS.get(source.access, "{s} is there"), source)
    text = exists.format(s=source, b=source.base, k=source.key, w=written(source.key))
    return Failure(text, "no such thing", causes.PRESENCE, str(source), place)


def of_state(differences: list[str]) -> Failure:
    """Several switches may have been thrown at once: all are told."""
    parts = [parsed(line) for line in differences] or [("torch's state", "what it was", "another one")]
    parts = [(SWITCHES.get(name, name), expected, found) for name, expected, found in parts]
    guard = " and ".join(f"{name} == {expected}" for name, expected, _ in parts)
    found = " and ".join(found for _, _, found in parts)
    return Failure(guard, found, causes.STATE, ", ".join(name for name, _, _ in parts))


SWITCHES = {
    "grad mode": "torch.is_grad_enabled()",
    "inference mode": "torch.is_inference_mode_enabled()",
    "default dtype": "torch.get_default_dtype()",
    "autocast enabled (cpu)": "torch.is_autocast_enabled('cpu')",
    "autocast enabled (cuda)": "torch.is_autocast_enabled('cuda')",
    "autocast dtype (cpu)": "torch.get_autocast_dtype('cpu')",
    "autocast dtype (cuda)": "torch.get_autocast_dtype('cuda')",
    "deterministic algorithms": "torch.are_deterministic_algorithms_enabled()",
}
"""How a user asks for what GlobalState has another name for."""


def of_class(cls: str, name: str) -> Failure:
    subject = f"{cls}.{name}"
    return Failure(f"{subject} is what it was", "another object", causes.CODE, subject)


def of_memory(source: Source | None) -> Failure:
    subject = "an input" if source is None else str(source)
    guard = f"{subject} shares memory with the same inputs as before"
    return Failure(guard, "that it does not", causes.ALIASING, subject)


def of_shape(fact: str, place: Place | None, reads: list[str], values: tuple[Any, ...] | None) -> Failure:
    """A fact about sizes and numbers; each is told as it was found."""
    if values is None:
        return Failure(fact, "something that is no size", causes.SIZE, fact, place)
    about = {read: value for read, value in zip(reads, values, strict=True) if read in fact}
    found = " and ".join(f"{read} == {value}" for read, value in about.items())
    is_size = any(".shape[" in read for read in about)
    return Failure(fact, found, causes.SIZE if is_size else causes.INT, next(iter(about), fact), place)


# ---- tensors


TENSOR_FACTS: dict[str, tuple[str, Cause]] = {
    "size at index {n}": ("{s}.shape[{n}] == {e}", causes.SIZE),
    "stride at index {n}": ("{s}.stride({n}) == {e}", causes.STRIDE),
    "storage offset": ("{s}.storage_offset() == {e}", causes.STRIDE),
    "layout": ("{s}.layout == {e}", causes.STRIDE),
    "number of dimensions": ("{s}.dim() == {e}", causes.TENSOR),
    "dtype": ("{s}.dtype == {e}", causes.TENSOR),
    "device": ("{s}.device == torch.device('{e}')", causes.TENSOR),
    "requires_grad": ("{s}.requires_grad == {e}", causes.TENSOR),
    "type": ("type({s}) is {e}", causes.TYPE),
}
"""What a TensorSpec says of a difference -> how a user writes it, and what kind of cause it is."""


def tensor_fact(subject: str, difference: str) -> tuple[str, str, Cause]:
    what, expected, found = parsed(difference)
    name, _, index = what.partition(" at index ")
    text, cause = TENSOR_FACTS.get(
        f"{name} at index {{n}}" if index else what, ("{s}: {w} == {e}", causes.TENSOR)
    )
    return text.format(s=subject, n=index, e=expected, w=what), found, cause


def parsed(difference: str) -> tuple[str, str, str]:
    """`name: expected X, found Y`, taken apart."""
    what, _, values = difference.partition(": expected ")
    expected, _, found = values.partition(", found ")
    return what, expected, found


def tensor_facts(guard: Guard) -> list[str]:
    """Everything that a tensor's guard says that entries may differ in, one by one."""
    s, spec = guard.source, guard.expected
    facts = [
        f"type({s}) is {type_name(spec.type)}",
        f"{s}.dtype == {spec.dtype}",
        f"{s}.device == torch.device({str(spec.device)!r})",
        f"{s}.requires_grad == {spec.requires_grad}",
        f"{s}.dim() == {len(spec.sizes)}",
    ]
    facts += [f"{s}.shape[{n}] == {size}" for n, size in enumerate(spec.sizes) if size is not None]
    facts += [
        f"{s}.stride({n}) == {stride}" for n, stride in enumerate(spec.strides or ()) if stride is not None
    ]
    return facts


# ---- everything else


def cause_of(guard: Guard) -> Cause:
    if guard.check in (Check.EQUAL, Check.IS):
        kind = type(there(guard.expected))
        return next((cause for cls, cause in BY_CLASS if issubclass(kind, cls)), causes.IDENTITY)
    return CAUSES[guard.check]


BY_CLASS: list[tuple[Any, Cause]] = [
    ((bool, str, bytes, types.NoneType, types.EllipsisType, torch.dtype, torch.device), causes.FLAG),
    (int, causes.INT),
    ((float, complex), causes.FLOAT),
    (torch.Size, causes.SIZE),
    ((tuple, frozenset, range, slice), causes.FLAG),
]
"""The kind of cause when a value was compared: that of the first that fits."""

CAUSES = {
    Check.IS_NOT: causes.PRESENCE,
    Check.TYPE: causes.TYPE,
    Check.LEN: causes.LENGTH,
    Check.NONEMPTY: causes.LENGTH,
    Check.KEYS: causes.KEYS,
    Check.HAS_KEY: causes.PRESENCE,
    Check.NO_KEY: causes.PRESENCE,
    Check.NO_ATTR: causes.PRESENCE,
    Check.NO_SLOT: causes.PRESENCE,
    Check.ELEMENTS_IN_ORDER: causes.KEYS,
    Check.CODE: causes.CODE,
    Check.EMPTY_CELL: causes.PRESENCE,
    Check.LEAF: causes.TENSOR,
    Check.NO_HOOKS: causes.TENSOR,
    Check.OFFSET: causes.STRIDE,
    Check.SAME_AS: causes.ALIASING,
    Check.NOT_SAME_AS: causes.ALIASING,
}

EXISTS = {
    Access.KEY: "{w} in {b}",
    Access.ATTR: "hasattr({b}, {k!r})",
    Access.ITEM: "len({b}) > {k}",
    Access.DEQUE_ITEM: "len({b}) > {k}",
}


def type_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def shown_keys(value: Any) -> str:
    return f"[{', '.join(map(written, value))}]"


SIZED = (list, tuple, dict, set, frozenset, collections.deque, str, bytes)


def size_of(value: Any) -> str:
    """As the guard counts, whatever a subclass says."""
    base = next((base for base in SIZED if issubclass(type(value), base)), None)
    return shown(value) if base is None else str(base.__len__(value))


FOUND: dict[Check, Callable[[Any], str]] = {
    Check.TYPE: lambda value: type_name(type(value)),
    Check.LEN: size_of,
    Check.NONEMPTY: lambda value: f"length {size_of(value)}",
    Check.KEYS: lambda value: shown_keys(value) if type(value) is dict else shown(value),
    Check.HAS_KEY: lambda value: "that it is not",
    Check.NO_KEY: lambda value: "that it is",
    Check.NO_ATTR: lambda value: "that it is",
    Check.NO_SLOT: lambda value: "that it has",
    Check.CODE: lambda value: "other code",
    Check.EMPTY_CELL: lambda value: "a value",
    Check.LEAF: lambda value: "that it is otherwise",
    Check.NO_HOOKS: lambda value: "some",
    Check.OFFSET: lambda value: str(value.storage_offset()),
    Check.SAME_AS: lambda value: "another object",
    Check.NOT_SAME_AS: lambda value: "that it is",
    Check.IS_NOT: lambda value: "that it is",
}
"""How what was found is shown, where it is not the value itself."""


def shown(value: Any) -> str:
    """Without running code of the program's."""
    cls = type(value)
    if cls in CONTAINERS:
        return f"a {cls.__name__} of length {len(value)}"
    if issubclass(cls, torch.Tensor):
        return "a tensor"
    text = written(value)
    return f"another {type_name(cls)}" if text == f"<{cls.__qualname__} object>" else text


CONTAINERS = (list, tuple, dict, set, frozenset)


def located(text: str, source: Source) -> str:
    function = source.function
    return f"{text} (in {function})" if function else text


def leads_through(source: Source, place: Source) -> bool:
    at: Source | None = source
    while at is not None and at is not place:
        at = at.base
    return at is place


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
