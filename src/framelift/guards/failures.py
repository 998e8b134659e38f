"""A guard that did not hold, in the words of the user: what was expected, what was found, and why it matters.

The native program answers with data: `_guards.GuardFailure`, `TensorDifference`, `StateDifference`. The texts
are made here, when a guard has failed. Nothing of the program is kept.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from framelift import _guards
from framelift._frame import dict_of
from framelift.core import causes
from framelift.core.breaks import Place
from framelift.core.causes import Cause
from framelift.core.weakly import there
from framelift.guards.guard import Guard, is_of_a_number, located, number
from framelift.guards.kinds import HOOKS, OWN_WAYS, Access, Check
from framelift.guards.sources import Source
from framelift.guards.value_texts import full_name, shorten, written


@dataclass(frozen=True)
class NamedRead:
    """What is read of an input, in words."""

    text: str
    subject: str
    cause: Cause


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
    mismatch: str = ""
    """Of a tensor: the same in torch's words, which people look for in logs."""

    def __str__(self) -> str:
        return f"{self.guard}, found {self.found}"

    @property
    def where(self) -> str:
        """`file:line: expression`, empty where that is not known."""
        return "" if self.place is None else self.place.where


# ---- what failed


def of_guard(guard: Guard, found: Any) -> Failure:
    if guard.check is Check.CALLS_FORWARD:
        return of_module_call(guard, found)
    subject, text, mismatch = str(guard.source), guard.text, ""
    difference = guard.expected.diff(found) if guard.check is Check.TENSOR else None
    if difference is not None:
        fact = TENSOR_FACTS[difference.fact]
        text = fact.written(guard.source, difference.expected, difference.dim)
        shown_found, cause = fact.value_text(difference.found), fact.cause
        mismatch = fact.mismatch(subject, difference)
    elif is_of_a_number(guard.source):
        subject, value = str(guard.source.base), number(guard.source, found)
        shown_found, cause = str(value), causes.INT if value.dtype.kind in "iub" else causes.FLOAT
    else:
        says = guard.check.found
        shown_found, cause = says if isinstance(says, str) else says(found), cause_of(guard)
    text = located(text, guard.source)
    return Failure(text, shorten(shown_found), cause, shorten(subject), guard.user_place, mismatch)


def of_module_call(guard: Guard, module: Any) -> Failure:
    """Says which attribute it is that a module has, or another one has, in its way to `forward`."""
    own = dict_of(module) or {}
    for name in HOOKS:
        if own.get(name):
            place = guard.source.child(Access.ATTR, name)
            return of_guard(Guard(place, Check.NONEMPTY, False, guard.place, guard.caller), own[name])
    for name in OWN_WAYS:
        if name in own:
            return of_guard(Guard(guard.source, Check.NO_ATTR, name, guard.place, guard.caller), module)
    text, found = located(guard.text, guard.source), str(guard.check.found)
    return Failure(text, found, causes.CODE, shorten(str(guard.source)), guard.user_place)


def of_access(source: Source, guards: list[Guard]) -> Failure:
    """The value that a path leads to is not there (any more)."""
    through = (guard for guard in guards if any(at is source for at in guard.source.path()))
    place = next((guard.user_place for guard in through), None)
    exists = located(source.access.exists, source)
    text = exists.format(s=source, b=source.base, k=source.key, w=written(source.key))
    return Failure(text, "no such thing", causes.PRESENCE, str(source), place)


def of_state(differences: Sequence[_guards.StateDifference]) -> Failure:
    """Several switches of torch's may differ at once: all are named."""
    if not differences:
        return Failure("torch's state is what it was", "another one", causes.STATE, "torch's state")
    guard = " and ".join(state_fact(each.name, each.expected) for each in differences)
    found = " and ".join(state_value(each.found) for each in differences)
    names = ", ".join(SWITCHES.get(each.name, each.name) for each in differences)
    return Failure(guard, found, causes.STATE, names)


def of_class(cls: str, name: str) -> Failure:
    subject = f"{cls}.{name}"
    return Failure(f"{subject} is what it was", "another object", causes.CODE, subject)


def of_memory(source: Source | None) -> Failure:
    subject = "an input" if source is None else str(source)
    guard = f"{subject} shares memory with the same inputs as before"
    return Failure(guard, "that it does not", causes.ALIASING, subject)


def of_shape(fact: str, place: Place | None, found: list[tuple[NamedRead, int | float]] | None) -> Failure:
    """A fact about sizes and numbers; each is shown as it was found."""
    if found is None:
        return Failure(fact, "something that is no size", causes.SIZE, fact, place)
    texts = " and ".join(f"{read.text} == {value}" for read, value in found)
    kinds = [read.cause for read, _ in found]
    return Failure(fact, texts, causes.SIZE if causes.SIZE in kinds else kinds[0], found[0][0].subject, place)


# ---- torch's state

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
"""An item of GlobalState -> how a user asks for it."""


def state_fact(name: str, value: Any) -> str:
    return f"{SWITCHES.get(name, name)} == {state_value(value)}"


def state_value(value: Any) -> str:
    if type(value) is tuple:  # torch function modes: devices, and the names of classes
        modes = (f"device {mode}" if isinstance(mode, torch.device) else mode for mode in value)
        return f"[{', '.join(modes)}]"
    return str(value)


# ---- tensors


@dataclass(frozen=True)
class TensorFact:
    """One of the facts that a TensorSpec describes."""

    text: str
    """As a user writes it, with the tensor `s`, the dimension `d` and the value `e`."""
    cause: Cause
    none: str = "none"
    """What the value None stands for."""
    torchs: str = ""
    """What torch's messages call it; empty where they have no word for it."""

    def written(self, source: Source, value: Any, dim: int | None = None) -> str:
        return self.text.format(s=source, d=dim, e=self.value_text(value))

    def mismatch(self, tensor: str, difference: _guards.TensorDifference) -> str:
        if not self.torchs:
            return ""
        at = "" if difference.dim is None else f" at index {difference.dim}"
        expected, found = map(self.torchs_text, (difference.expected, difference.found))
        return f"tensor '{tensor}' {self.torchs} mismatch{at}. expected {expected}, actual {found}"

    def value_text(self, value: Any) -> str:
        if value is None:
            return self.none
        return full_name(value) if isinstance(value, type) else str(value)

    def torchs_text(self, value: Any) -> str:
        """As torch's messages write it: "Float", "requires_grad=1"."""
        if type(value) is torch.dtype:
            return torch.empty(0, dtype=value, device="cpu").type().rpartition(".")[2].removesuffix("Tensor")
        return f"{self.torchs}={int(value)}" if type(value) is bool else self.value_text(value)


TENSOR_FACTS = {
    _guards.TENSOR_TYPE: TensorFact("type({s}) is {e}", causes.TYPE),
    _guards.TENSOR_DTYPE: TensorFact("{s}.dtype == {e}", causes.TENSOR, "undefined", "dtype"),
    _guards.TENSOR_DEVICE: TensorFact("{s}.device == torch.device('{e}')", causes.TENSOR, torchs="device"),
    _guards.TENSOR_LAYOUT: TensorFact("{s}.layout == {e}", causes.STRIDE),
    _guards.TENSOR_REQUIRES_GRAD: TensorFact(
        "{s}.requires_grad == {e}", causes.TENSOR, torchs="requires_grad"
    ),
    _guards.TENSOR_DIM: TensorFact("{s}.dim() == {e}", causes.TENSOR, torchs="rank"),
    _guards.TENSOR_SIZE: TensorFact("{s}.shape[{d}] == {e}", causes.SIZE, "a symbol", "size"),
    _guards.TENSOR_SYMBOLIC: TensorFact("{s}: symbolic sizes == {e}", causes.TENSOR),
    _guards.TENSOR_STRIDE: TensorFact("{s}.stride({d}) == {e}", causes.STRIDE, torchs="stride"),
    _guards.TENSOR_KEYS: TensorFact("{s}: dispatch keys == {e}", causes.TENSOR, torchs="dispatch key set"),
}


def tensor_facts(guard: Guard) -> list[str]:
    """Everything that a tensor's guard says that entries may differ in, one by one."""
    spec: _guards.TensorSpec = guard.expected
    facts: list[tuple[int, int | None, Any]] = [
        (_guards.TENSOR_TYPE, None, spec.type),
        (_guards.TENSOR_DTYPE, None, spec.dtype),
        (_guards.TENSOR_DEVICE, None, spec.device),
        (_guards.TENSOR_REQUIRES_GRAD, None, spec.requires_grad),
        (_guards.TENSOR_DIM, None, len(spec.sizes)),
    ]
    facts += [(_guards.TENSOR_SIZE, n, size) for n, size in enumerate(spec.sizes) if size is not None]
    strides = enumerate(spec.strides or ())
    facts += [(_guards.TENSOR_STRIDE, n, stride) for n, stride in strides if stride is not None]
    return [TENSOR_FACTS[fact].written(guard.source, value, dim) for fact, dim, value in facts]


# ---- everything else


def cause_of(guard: Guard) -> Cause:
    if guard.check.cause is not None:
        return guard.check.cause
    kind = type(there(guard.expected))
    return next((cause for cls, cause in BY_CLASS if issubclass(kind, cls)), causes.IDENTITY)


BY_CLASS: list[tuple[Any, Cause]] = [
    ((bool, str, bytes, types.NoneType, types.EllipsisType, torch.dtype, torch.device), causes.FLAG),
    (int, causes.INT),
    ((float, complex), causes.FLOAT),
    (torch.Size, causes.SIZE),
    ((tuple, frozenset, range, slice), causes.FLAG),
]
"""The kind of cause when a value was compared: that of the first that fits."""
