"""The registry of rules for types (`trace/type_rules.py`)."""

import collections
import gc
import weakref

import pytest

import framelift.features.all  # noqa: F401 (registers the rules)
from framelift.trace.type_rules import rule_of_type, type_rule, wrap_opaque


def test_a_type_has_one_entry_for_a_facet() -> None:
    class Own:
        pass

    type_rule(Own, opaque=True)
    type_rule(Own, by_identity=True)
    with pytest.raises(AssertionError, match="two entries for by_identity"):
        type_rule(Own, by_identity=False)
    assert rule_of_type(Own).opaque and rule_of_type(Own).by_identity


def test_an_entry_comes_before_what_a_class_was_judged_to_be() -> None:
    class Own:
        pass

    class Derived(Own):
        pass

    judged = rule_of_type(Own)
    assert not judged.opaque
    type_rule(Own, wrap=wrap_opaque, opaque=True)
    assert rule_of_type(Own).opaque and not rule_of_type(Derived).opaque
    assert rule_of_type(Own).rebuild is judged.rebuild


@pytest.mark.parametrize("base", [list, dict, collections.OrderedDict, collections.deque, set, frozenset])
def test_a_subclass_has_the_shadow_of_its_container(base: type) -> None:
    derived = type("Derived", (base,), {})
    assert rule_of_type(derived).container is base
    assert rule_of_type(derived).shadow is rule_of_type(base).shadow
    assert rule_of_type(derived).changes is rule_of_type(base).changes


def test_no_metaclass_is_asked_about_its_classes() -> None:
    asked = []

    class Meta(type):
        def __hash__(cls) -> int:
            asked.append("hash")
            return 1

        def __eq__(cls, other: object) -> bool:
            asked.append("eq")
            return cls is other

        def __getattr__(cls, name: str) -> object:
            asked.append(name)
            raise AttributeError(name)

    class Own(list, metaclass=Meta):
        pass

    asked.clear()
    assert rule_of_type(Own) is rule_of_type(Own)
    assert asked == []


def test_a_rule_does_not_keep_its_class_alive() -> None:
    class Own:
        pass

    rule_of_type(Own)
    there = weakref.ref(Own)
    del Own
    gc.collect()
    assert there() is None
