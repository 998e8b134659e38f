"""Programs that break the capture do compiled what they do eagerly.

Every case of `break_programs/` is made for each run. The runs go in lockstep, call by call, each in a world
of its own: its folder, its random numbers, its module globals and class attributes. After each call
everything that can be seen of it is compared: result, exception with its traceback, output, warnings,
records, files, arguments and state. The catalogue itself is checked too: its cases are deterministic, those
that should break do, and none is left out.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import inspect
import io
import random
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import break_programs  # noqa: E402
from break_programs import BREAKERS, CATALOGUE, RECORDS, Case, Keywords, Maker, Notice, case, made  # noqa: E402

import framelift  # noqa: E402
from sameness import DRAINED, PARTS, Sameness  # noqa: E402

PROGRAMS = HERE / "break_programs"
PARTS[break_programs.Hidden] = lambda hidden: None
CHAPTERS = {
    path.stem: importlib.import_module(f"break_programs.{path.stem}")
    for path in sorted(PROGRAMS.glob("[!_]*.py"))
}

AT_LEAST = {
    "instructions": 160,
    "loaded_stack": 45,
    "loops": 70,
    "exceptions": 70,
    "managers": 45,
    "depth": 60,
    "cells": 50,
    "effects": 65,
    "values": 55,
    "changes": 50,
}
"""Chapter -> how many programs it has."""

ENDS_LATE = "what dies within a captured stretch is finalised at the end of the stretch"
KNOWN: dict[str, str] = {
    "effects_in_order::finalizers_run_in_order[nothing]": ENDS_LATE,
    "instructions_definitions::frames_of_the_callers": "what is not read again is not handed over",
    "depth_through_c::lru_cache_around_a_break[nothing]": "a captured call does not go through the cache",
}
"""Case -> how it differs today."""


# Running


@dataclass
class World:
    """What programs change besides their arguments. It is in force only while one of its calls runs."""

    folder: Path
    watched: list[Any]
    namespaces: list[dict[str, Any]] = field(default_factory=list)
    chance: tuple[Any, torch.Tensor] | None = None
    modules: dict[str, types.ModuleType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.namespaces = [dict(vars(owner)) for owner in self.watched]

    def watch(self, owners: Sequence[Any]) -> None:
        self.watched += owners
        self.namespaces += [dict(vars(owner)) for owner in owners]

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        before = [dict(vars(owner)) for owner in self.watched]
        modules = set(sys.modules)
        chance = random.getstate(), torch.get_rng_state()
        with contextlib.chdir(self.folder):
            sys.path.insert(0, str(self.folder))
            sys.modules.update(self.modules)
            self.take_chances()
            for owner, names in zip(self.watched, self.namespaces, strict=True):
                put(owner, names)
            try:
                yield
            finally:
                self.namespaces = [dict(vars(owner)) for owner in self.watched]
                for owner, names in zip(self.watched, before, strict=True):
                    put(owner, names)
                self.chance = random.getstate(), torch.get_rng_state()
                random.setstate(chance[0])
                torch.set_rng_state(chance[1])
                self.modules = {name: sys.modules.pop(name) for name in self.new_modules(modules)}
                sys.path.remove(str(self.folder))

    def take_chances(self) -> None:
        if self.chance is None:
            random.seed(0)
            torch.default_generator.manual_seed(0)
        else:
            random.setstate(self.chance[0])
            torch.set_rng_state(self.chance[1])

    def new_modules(self, known: set[str]) -> list[str]:
        files = {name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - known}
        return [name for name, file in files.items() if (file or "").startswith(str(self.folder))]

    def seen(self) -> Any:
        """What is compared: the names that programs have set, the files they have written."""
        changed = [
            changes(vars(owner), names) for owner, names in zip(self.watched, self.namespaces, strict=True)
        ]
        files = {path.name: path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()}
        return changed, files, hash((self.chance[0], bytes(self.chance[1].numpy())))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in {**before, **after} if not name.startswith("__")]
    return {
        name: after.get(name, "deleted")
        for name in names
        if name not in before or name not in after or after[name] is not before[name]
    }


def put(owner: Any, names: dict[str, Any]) -> None:
    """Makes the attributes of a class or module these."""
    missing = object()
    for name in set(vars(owner)) - set(names):
        delattr(owner, name)
    for name, value in names.items():
        if vars(owner).get(name, missing) is not value:
            setattr(owner, name, value)


SWITCHES: dict[Callable[[], Any], Callable[[Any], Any]] = {
    torch.is_grad_enabled: torch.set_grad_enabled,
    torch.is_anomaly_enabled: torch.set_anomaly_enabled,
    torch.get_default_dtype: torch.set_default_dtype,
    lambda: torch.is_autocast_enabled("cpu"): lambda on: torch.set_autocast_enabled("cpu", on),
}
"""What a call may leave switched: how it is read, and put back."""


@dataclass
class Outcome:
    result: Any
    error: BaseException | None
    printed: str
    warned: list[tuple[str, int]]
    records: list[Any]
    switches: list[Any]


def observed(
    fn: Callable[..., Any], arguments: tuple[Any, ...], then: Callable[[Any], Any] | None
) -> Outcome:
    kwargs = arguments[-1] if arguments and isinstance(arguments[-1], Keywords) else {}
    args = arguments[:-1] if kwargs else arguments
    printed, result, error = io.StringIO(), None, None
    switches = [read() for read in SWITCHES]
    RECORDS.clear()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = fn(*args, **kwargs)
            result = (result, then(result)) if then else result
        except (Exception, SystemExit, break_programs.Leaving) as raised:
            error = raised
    notices = [(str(w.message), w.lineno) for w in warned if issubclass(w.category, Notice)]
    left = [read() for read in SWITCHES]
    for put_back, before in zip(SWITCHES.values(), switches, strict=True):
        put_back(before)
    return Outcome(result, error, printed.getvalue(), notices, list(RECORDS), left)


class Side:
    """One run of a case."""

    def __init__(self, name: str, maker: Maker, folder: Path, wrap: Callable[[Any], Any]) -> None:
        self.world = World(folder, [CHAPTERS[name.partition("::")[0]], RemovableHandle])
        with self.world.in_force():
            self.case: Case = made(maker)
        self.world.watch(self.case.watched)
        self.fn = wrap(self.case.fn)
        self.outcomes: list[Outcome] = []

    def call(self, n: int) -> None:
        with self.world.in_force():
            self.outcomes.append(observed(self.fn, self.case.calls[n], self.case.then))

    def seen(self) -> Any:
        outcomes = [tuple(vars(outcome).values()) for outcome in self.outcomes]
        calls = self.case.calls[: len(outcomes)]
        return outcomes, calls, self.case.state, self.case.fn, self.world.seen()


def lockstep(name: str, maker: Maker, compile: Callable[[Any], Any]) -> None:
    """Runs the case eagerly, eagerly again and compiled; compares after each call what was seen so far."""
    with tempfile.TemporaryDirectory() as folder:
        eager, again = (Side(name, maker, Path(folder, side), lambda fn: fn) for side in ("eager", "again"))
        other = Side(name, maker, Path(folder, "compiled"), compile)
        for n in range(len(eager.case.calls)):
            for side in (eager, again, other):
                side.call(n)
            compare(eager, other, f"compiled, after call {n}")
        compare(eager, again, "eagerly again")


def compare(eager: Side, other: Side, when: str) -> None:
    expected, found = eager.outcomes[-1], other.outcomes[-1]
    if expected.error is None and found.error is not None:
        raise found.error
    assert found.printed == expected.printed, when
    Sameness().same(eager.seen(), other.seen(), f"{when}: (outcomes, calls, state, fn, world)")


compiled = functools.partial(framelift.compile, backend="eager")


def breaks() -> int:
    return sum(framelift.counters["graph_break"].values())


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    framelift.reset()
    yield
    framelift.reset()
    DRAINED.clear()


# The programs


def marked(names: Iterable[str]) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=KNOWN[name]))
        if name in KNOWN
        else name
        for name in names
    ]


@pytest.mark.parametrize("name", marked(CATALOGUE.cases))
def test_compiled_as_eagerly(name: str) -> None:
    lockstep(name, CATALOGUE.cases[name], compiled)
    # regions warn by themselves, and know where objects from outside are
    assert breaks() or name.endswith(("[warn]", "[id]")), "the program never broke"


@pytest.mark.parametrize("name", marked(CATALOGUE.unbroken))
def test_compiled_as_eagerly_without_the_break(name: str) -> None:
    lockstep(name, CATALOGUE.unbroken[name], compiled)


# The catalogue


@pytest.mark.parametrize("breaker", BREAKERS)
def test_breaker_breaks(breaker: str) -> None:
    def alone(x: torch.Tensor) -> torch.Tensor:
        return BREAKERS[breaker](x * 2) + 1

    lockstep(next(iter(CHAPTERS)) + "::", lambda: case(alone), compiled)
    assert breaks()


def test_no_program_is_left_out() -> None:
    public = {
        value
        for chapter in CHAPTERS.values()
        for name, value in vars(chapter).items()
        if inspect.isfunction(value) and value.__module__ == chapter.__name__ and not name.startswith("_")
    }
    assert public == set(CATALOGUE.programs)
    assert set(KNOWN) <= {*CATALOGUE.cases, *CATALOGUE.unbroken}


def test_size_of_the_catalogue() -> None:
    sizes = collections.Counter(name.partition("::")[0] for name in CATALOGUE.programs.values())
    for chapter, least in AT_LEAST.items():
        assert sum(size for module, size in sizes.items() if module.startswith(chapter)) >= least, chapter
