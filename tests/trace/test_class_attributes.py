"""Attributes that the program sets on classes: seen by what it does next, set by the region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint

import framelift
from check import Comparison, capture, captures, reasons
from framelift.core import breaks
from sameness import alike


def classes() -> Any:
    class Base:
        count = 0
        shared = 5

        def get(self) -> Any:
            return self.count

    class Derived(Base):
        pass

    class Slotted(Base):
        __slots__ = ("own",)

    return Base, Derived, Slotted


def sets_and_reads(x, base, derived, slotted):
    base.count = 5
    return x * base.count, base().count, derived.count, derived().get(), slotted.count


def counts(x, base, derived, slotted):
    base.count += 1
    return x * base.count


def adds_a_name(x, base, derived, slotted):
    base.added = x + 1
    return derived.added * 2, hasattr(slotted, "added"), getattr(base(), "added", None) is base.added


def hides_a_name(x, base, derived, slotted):
    derived.shared = 7
    return x * derived.shared, base.shared, super(derived, derived()).shared, slotted().shared


def adds_between(x, base, derived, slotted):
    derived.added = 3
    base.added = 4
    return x * derived.added + base.added, slotted.added


def an_instance_comes_first(x, base, derived, slotted):
    one = derived()
    one.shared = x
    base.shared = 9
    return one.shared + derived.shared


def sets_a_list(x, base, derived, slotted):
    base.held = [x]
    derived.held.append(x + 1)
    return sum(base.held)


def sets_an_outside_object(x, base, derived, slotted):
    base.other = derived
    return x * base.other.shared


def by_setattr(x, base, derived, slotted):
    setattr(derived, "count", 3)
    return x * derived().get()


def through_an_instance(x, base, derived, slotted):
    type(derived()).count = 4
    return x * derived.count


PROGRAMS = [sets_and_reads, counts, adds_a_name, hides_a_name, adds_between, an_instance_comes_first]
PROGRAMS += [sets_a_list, sets_an_outside_object, by_setattr, through_an_instance]


def after(fn: Callable[..., Any], given: Any) -> Any:
    results = [fn(torch.ones(2), *given) for _ in range(3)]
    names = {n: dict(vars(cls)) for n, cls in enumerate(given)}
    data = {
        n: {k: v for k, v in held.items() if isinstance(v, (int, list, torch.Tensor))}
        for n, held in names.items()
    }
    return results, data


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_classes_are_changed_as_eagerly(fn: Callable[..., Any]) -> None:
    Comparison().same(after(fn, classes()), after(capture(fn), classes()), fn.__name__)


def test_a_change_from_outside_is_noticed() -> None:
    base, *others = classes()
    compiled, x = capture(hides_a_name), torch.ones(2)
    for shared in (5, 6):
        base.shared = shared
        Comparison().same(hides_a_name(x, base, *others), compiled(x, base, *others), "result")
    others[0].count = base.shared = 8
    Comparison().same(hides_a_name(x, base, *others), compiled(x, base, *others), "result")


def test_attributes_of_torchs_own_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = torch.utils.checkpoint.DefaultDeviceType
    monkeypatch.setattr(defaults, "_default_device_type", None)

    def fn(x):
        return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True), defaults.get_device_type()

    compiled, x = capture(fn), torch.ones(2)
    for _ in range(2):
        Comparison().same((torch.sin(x), "cpu"), compiled(x), "result")
        assert defaults._default_device_type == "cpu"


def test_a_break_in_between() -> None:
    def fn(x, base, derived, slotted):
        base.held = x * 2
        print(end="")
        return derived.held + base.held

    Comparison().same(after(fn, classes()), after(capture(fn, fullgraph=False), classes()), "result")


def test_an_aborted_trace_leaves_classes_alone() -> None:
    def fn(x, base, derived, slotted):
        base.count = 3
        raise ValueError(vars(base)["count"])

    base, *others = classes()
    with pytest.raises(ValueError, match="3"):
        capture(fn, fullgraph=False)(torch.ones(2), base, *others)


def replaces_a_method(x, base, derived, slotted):
    base.get = lambda self: 9
    return x * derived().get()


def adds_a_special_method(x, base, derived, slotted):
    base.__len__ = lambda self: 4
    return x * len(derived())


def looks_at_all_names(x, base, derived, slotted):
    base.added = 3
    return x * vars(base)["added"]


@pytest.mark.parametrize("fn", [replaces_a_method, adds_a_special_method, looks_at_all_names])
def test_other_changes_break(fn: Callable[..., Any]) -> None:
    compiled = capture(fn, fullgraph=False)
    Comparison().same(after(fn, classes()), after(compiled, classes()), fn.__name__)
    assert breaks.ATTRIBUTE_WRITE.name in reasons(compiled)


# ---- numbers that are others in each call


def counted_on_a_class() -> Callable[..., Any]:
    class Counter:
        calls = 0
        scale = 1.0

        def total(self) -> Any:
            return self.calls * 2

    def step(x):
        Counter.calls += 1
        Counter.scale *= 1.5
        return x * Counter.calls * Counter.scale, Counter().total(), Counter().calls

    return step


def read_on_an_instance() -> Callable[..., Any]:
    class Settings:
        width = 2

    settings = Settings()

    def step(x):
        found = x * settings.width, getattr(settings, "width") + 1
        type(settings).width += 3
        return found

    return step


def looked_at_as_a_whole() -> Callable[..., Any]:
    class Settings:
        width = 2

    def step(x):
        Settings.width += 1
        return x * Settings.width, hasattr(Settings, "width")

    def names(x):
        found = vars(Settings)["width"]
        return x * found, step(x)

    return names


def inherited() -> Callable[..., Any]:
    class Base:
        width = 2

    class Derived(Base):
        pass

    def step(x):
        Base.width += 1
        return x * Derived.width + Derived().width

    return step


@pytest.mark.parametrize(
    "make, compilations",
    [(counted_on_a_class, 2), (read_on_an_instance, 2), (looked_at_as_a_whole, 6), (inherited, 6)],
)
def test_numbers_of_classes_are_symbols_when_they_have_changed(make: Any, compilations: int) -> None:
    plain, compiled = make(), framelift.compile(make(), backend="eager")
    for _ in range(6):
        alike(plain(torch.ones(2)), compiled(torch.ones(2)))
    assert captures(compiled) == compilations


def test_a_number_of_a_class_becomes_something_else() -> None:
    class Settings:
        width: Any = 2

    class Derived(Settings):
        pass

    def step(x, one):
        return x * one.width * Settings.width

    compiled = framelift.compile(step, backend="eager")
    for width in (2, 3, 4, 2.5, True, torch.tensor(3.0), property(lambda self: 7), 5):
        Settings.width = width
        for one in (Settings(), Derived()):
            if isinstance(width, property):
                with pytest.raises(TypeError):
                    compiled(torch.ones(2), one)
            else:
                alike(step(torch.ones(2), one), compiled(torch.ones(2), one))
    Derived.width = 11
    alike(step(torch.ones(2), Derived()), compiled(torch.ones(2), Derived()))
    del Settings.width
    with pytest.raises(AttributeError):
        compiled(torch.ones(2), Derived())
