"""Guards as data: a fact about a source that the compiled result relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from framelift import _guards
from framelift.core.breaks import Place
from framelift.core.errors import UserError
from framelift.core.sentinels import MISSING, Sentinel
from framelift.core.weakly import there, weakly
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.guards.value_texts import full_name, written


@dataclass(slots=True, eq=False)
class Guard:
    source: Source
    check: Check
    expected: Any
    place: Place | None
    caller: Place | None = None
    """The user's line, where `place` is in a library's code."""

    @property
    def user_place(self) -> Place | None:
        return self.caller or self.place

    def __str__(self) -> str:
        """As the user would write it; of a variable of an inner frame, with that function's name."""
        return located(self.text, self.source)

    @property
    def text(self) -> str:
        text = self.check.text
        if is_of_a_number(self.source):
            return text.format(s=self.source.base, e=number(self.source, self.expected))
        if self.check is Check.IS and type(self.expected) is bool:
            text = Check.EQUAL.text
        return text.format(s=self.source, e=self.check.operand.text(self.expected))


def located(text: str, source: Source) -> str:
    function = source.function
    return f"{text} (in {function})" if function else text


def is_of_a_number(source: Source) -> bool:
    """Whether it is the bytes that one of NumPy's numbers is made of."""
    return source.access is Access.BYTES and source.key is not None


def number(source: Source, data: bytes) -> Any:
    import numpy

    return numpy.frombuffer(data, source.key)[0]


class Described(str):
    """What is kept of an object that was found on a class."""


CONSTANTS = (type(None), bool, int, float, str)


@dataclass(slots=True, eq=False)
class ClassGuard:
    """A class lookup the trace relied on: `name` on `cls` finds this very object (or nothing)."""

    cls: Any
    name: str
    found: Any

    def let_go(self) -> None:
        self.cls = weakly(self.cls)
        if type(self.found) not in (*CONSTANTS, Sentinel):
            self.found = Described(written(self.found))

    @property
    def place(self) -> str:
        return full_name(there(self.cls))

    def __str__(self) -> str:
        if self.found is MISSING:
            return f"{self.place} has no attribute {self.name!r}"
        found = self.found if type(self.found) is Described else written(self.found)
        return f"{self.place}.{self.name} is {found}"


NAMES_OF_SPECIAL_METHODS = """
    eq ne lt le gt ge hash bool len length_hint iter next contains getitem missing reversed call
    index int float complex round trunc floor ceil str repr format add radd iadd sub rsub isub mul
    rmul imul matmul rmatmul imatmul truediv rtruediv itruediv floordiv rfloordiv ifloordiv mod
    rmod imod divmod rdivmod pow rpow ipow lshift rlshift ilshift rshift rrshift irshift and rand
    iand or ror ior xor rxor ixor neg pos abs invert getattr getattribute class bytes fspath torch_function
"""

SPECIAL_METHODS = tuple(f"__{name}__" for name in NAMES_OF_SPECIAL_METHODS.split())
"""The methods that C looks up on a class by itself."""


@dataclass(slots=True, eq=False)
class SpecialMethods:
    """A class lookup for each of `SPECIAL_METHODS`, as one fact."""

    cls: Any
    found: tuple[Any, ...]
    """`_guards.MISSING` where nothing; empty once it was let go of."""

    @property
    def name(self) -> str:
        return "special methods"

    @property
    def lookups(self) -> list[ClassGuard]:
        """The same, one by one."""
        each = zip(SPECIAL_METHODS, self.found, strict=True)
        return [
            ClassGuard(self.cls, name, MISSING if found is _guards.MISSING else found) for name, found in each
        ]

    def let_go(self) -> None:
        self.cls, self.found = weakly(self.cls), ()

    @property
    def place(self) -> str:
        return full_name(there(self.cls))

    def __str__(self) -> str:
        return f"the special methods of {self.place} are what they were"


ClassFact = ClassGuard | SpecialMethods


def one_by_one(facts: Iterable[ClassFact]) -> list[ClassGuard]:
    """All lookups, before they are let go of."""
    return [each for fact in facts for each in (fact.lookups if type(fact) is SpecialMethods else [fact])]  # type: ignore[misc]


numpy_numbers: set[Any] = set()
"""The types of NumPy's numbers, once the program has imported it."""
VARIES = "varies"
"""In the place of a value that a capture relies on: it was a symbol already."""


STRIDE = "{0}.stride({1})"
"""How a stride is named that follows from nothing else."""


LONGEST_TEXT = 256
"""Longer ones are not kept."""


def relied_on(guards: Iterable[Guard], of_classes: Iterable[ClassFact] = ()) -> dict[str, Any]:
    """The sizes, strides, numbers and texts that a capture was made for, by where they were found."""
    found: dict[Source, Any] = {}
    strides: dict[str, Any] = {}
    for guard in guards:
        if guard.check is Check.TENSOR:
            found[guard.source] = guard.expected.sizes
            for dim, stride in guard.expected.own_strides.items():
                strides[STRIDE.format(guard.source, dim)] = VARIES if stride is None else stride
        elif guard.check is Check.EQUAL and type(guard.expected) in (int, float):
            found[guard.source] = guard.expected
        elif guard.check is Check.EQUAL and type(guard.expected) is str:
            if len(guard.expected) <= LONGEST_TEXT:
                found[guard.source] = guard.expected
        elif guard.check is Check.EQUAL and type(guard.expected) in (tuple, torch.Size):
            for n, item in enumerate(guard.expected):
                if type(item) is int or type(item) is float:
                    found[guard.source.child(Access.ITEM, n)] = item
        elif guard.source.access is Access.BYTES and guard.source.base is not None:
            found[guard.source.base] = guard.expected  # a number of NumPy's
        elif guard.check is Check.TYPE and (
            guard.expected is int or guard.expected is float or guard.expected in numpy_numbers
        ):
            found.setdefault(guard.source, VARIES)
    numbers = {
        f"{there(fact.cls).__qualname__}.{fact.name}": fact.found
        for fact in of_classes
        if type(fact.found) in (int, float) and there(fact.cls) is not None
    }
    return numbers | {str(source): value for source, value in found.items()} | strides


@dataclass(frozen=True)
class FilteredSource:
    """Where a guard's value is found, with the questions that torch's filters ask of it."""

    name: str
    through_module: bool
    """Whether it is found in a `torch.nn.Module`."""
    through_torchs_module: bool
    """Whether all modules on the way are of torch's own classes."""

    def is_unspecialized_nn_module(self) -> bool:
        return self.through_module

    def is_unspecialized_builtin_nn_module(self) -> bool:
        return self.through_torchs_module


@dataclass(frozen=True)
class FilteredGuard:
    """A guard itself, as far as filters look at it."""

    name: str
    source: FilteredSource


@dataclass(frozen=True)
class GuardFilterEntry:
    """A guard, as the `guard_filter_fn` of `compile` sees it."""

    name: str
    """What it is about: `x`, `self.scale`."""
    has_value: bool
    value: Any
    """What is found there; where that is not kept, what is expected."""
    guard_type: str
    """The kind of fact, by torch's name: `TENSOR_MATCH`, `TYPE_MATCH`, `CONSTANT_MATCH`, `ID_MATCH`..."""
    derived_guard_types: tuple[str, ...]
    """How it is checked: torch's name (`EQUALS_MATCH`, `BOOL_MATCH`...) and Framelift's (`EQUAL`, `IS`)."""
    is_global: bool
    orig_guard: FilteredGuard
    text: str
    """As messages write it: `n == 2`."""


TORCHS_NAMES = {
    Check.IS: "ID_MATCH",
    Check.TYPE: "TYPE_MATCH",
    Check.EQUAL: "EQUALS_MATCH",
    Check.LEN: "SEQUENCE_LENGTH",
    Check.NONEMPTY: "SEQUENCE_LENGTH",
    Check.KEYS: "DICT_KEYS_MATCH",
    Check.NO_KEY: "DICT_CONTAINS",
    Check.NO_ATTR: "NOT_PRESENT_IN_GENERIC_DICT",
    Check.NO_SLOT: "HASATTR",
    Check.CODE: "CLOSURE_MATCH",
    Check.TENSOR: "TENSOR_MATCH",
    Check.SAME_AS: "DUPLICATE_INPUT",
    Check.NOT_SAME_AS: "NO_TENSOR_ALIASING",
}
"""What torch calls a kind of guard; others go by their own name."""
NAMES_OF_CONSTANTS = {bool: "BOOL_MATCH", type(None): "NONE_MATCH"}
"""What torch calls the check of one; those of other classes are compared."""


def torchs_names(guard: Guard) -> tuple[str, str]:
    """What torch calls a guard, and the way in which it is checked."""
    kind = type(there(guard.expected))
    if guard.check in (Check.EQUAL, Check.IS) and (kind in CONSTANTS or kind is type(None)):
        return "CONSTANT_MATCH", NAMES_OF_CONSTANTS.get(kind, "EQUALS_MATCH")
    name = TORCHS_NAMES.get(guard.check, guard.check.name)
    return name, name


GuardFilter = Callable[[list[GuardFilterEntry]], Sequence[bool]]


def thinned(
    guards: list[Guard],
    keeps: GuardFilter | None,
    sources: list[Source],
    values: Callable[[Source], Any] = lambda source: MISSING,
) -> list[Guard]:
    """The guards that the filter keeps. A guard also stays if other values are reached through its source.
    `values` says what is found at a source, as far as that is known."""
    if keeps is None:
        return guards
    entries = [filter_entry(guard, values) for guard in guards]
    try:
        kept = list(keeps(entries))
    except Exception as error:
        raise UserError(f"guard_filter_fn raised {type(error).__name__}: {error}") from error
    if len(kept) != len(guards):
        raise UserError(f"guard_filter_fn gave {len(kept)} answers for {len(guards)} guards")
    bases = {at.base for source in (*sources, *(guard.source for guard in guards)) for at in source.path()}
    return [guard for guard, wanted in zip(guards, kept, strict=True) if wanted or guard.source in bases]


def filter_entry(guard: Guard, values: Callable[[Source], Any]) -> GuardFilterEntry:
    path = list(guard.source.path())
    ways = {at.access for at in path}
    is_global = Access.GLOBALS in ways and not ways & {Access.ARG, Access.FUNC}
    modules = [type(found) for found in map(values, path) if isinstance(found, torch.nn.Module)]
    torchs = bool(modules) and all(kind.__module__.startswith("torch.nn.") for kind in modules)
    name, found = str(guard.source), values(guard.source)
    kind, checked = torchs_names(guard)
    return GuardFilterEntry(
        name,
        found is not MISSING or kind == "CONSTANT_MATCH",
        there(guard.expected) if found is MISSING else found,
        kind,
        (checked, guard.check.name),
        is_global,
        FilteredGuard(name, FilteredSource(name, bool(modules), torchs)),
        str(guard),
    )
