"""What was captured is checked each time: something changes between the calls, and the results follow.

Each row is a function, what it is given, and what happens to that after the first and after the second call.
"""

from __future__ import annotations

import abc
import collections
import enum
import functools
import types
import weakref

import torch

from conformance_programs import add


class _Thing:
    kind = "thing"

    def __init__(self, value=1):
        self.value = value

    def total(self):
        return self.value + 1

    def __len__(self):
        return 2


class _Slotted:
    __slots__ = ("a", "b")


class _Counted:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, _Counted) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


class _Colour(enum.Enum):
    RED = 1
    BLUE = 2


def _class(**names):
    """A class of its own for each run."""
    return type("Made", (_Thing,), {"__qualname__": "_class.<locals>.Made", **names})


def _low():
    class High(_Thing):
        kind = "high"

    class Low(High):
        pass

    return Low


def _slotted(**values):
    made = _Slotted()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _function(number):
    """A function of its own, with a cell and a default."""

    def scaled(value, by=2):
        return value * by + number

    return scaled


def _other(value, by=2):
    return value - by


def _module(**names):
    made = types.ModuleType("made")
    vars(made).update(names)
    return made


def _abstract():
    return abc.ABCMeta("Made", (), {"__qualname__": "_abstract.<locals>.Made"})


def _hook(module, args, result):
    return result + 5


def _set(obj, **names):
    for name, value in names.items():
        setattr(obj, name, value)


def _scaled(x, value):
    """A result that tells which value it was made from."""
    return x + 1, value, type(value).__name__


def _row(name, fn, given, *changes, breaks=()):
    def then(n, *held):
        return changes[n](*held) if n < len(changes) else None

    add(f"objects_changes::{name}", fn, given=given, then=then, breaks=breaks)


def _replaced(name, *values, fn=_scaled):
    """The argument is another one each time."""
    first, *others = values
    _row(name, fn, lambda: (first(),), *(lambda old, made=made: (made(),) for made in others))


# Another argument

_replaced("an_integer", lambda: 1, lambda: 2, lambda: 3)
_replaced("an_integer_becomes_a_boolean", lambda: 1, lambda: True, lambda: 1.0)
_replaced("zero_becomes_negative_zero", lambda: 0.0, lambda: -0.0, lambda: 0)
_replaced("a_number_becomes_text", lambda: 1, lambda: "1", lambda: None)
_replaced("text", lambda: "a", lambda: "b", lambda: "")
_replaced("text_becomes_bytes", lambda: "a", lambda: b"a", lambda: "a")
_replaced("none_becomes_a_tensor", lambda: None, lambda: torch.ones(2), lambda: None)
_replaced("a_list_becomes_a_tuple", lambda: [1, 2], lambda: (1, 2), lambda: [1, 2])
_replaced("a_list_grows", lambda: [1], lambda: [1, 2], lambda: [])
_replaced("a_tuple_becomes_a_size", lambda: (1, 2), lambda: torch.Size([1, 2]), lambda: (1, 2))
_replaced(
    "a_dictionary_in_another_order", lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}, lambda: {"a": 1}
)
_replaced(
    "a_dictionary_becomes_ordered",
    lambda: {"a": 1},
    lambda: collections.OrderedDict(a=1),
    lambda: collections.Counter(a=1),
)
_replaced("a_set", lambda: {1, 2}, lambda: {1, 3}, lambda: frozenset((1, 2)))
_replaced("an_enumeration", lambda: _Colour.RED, lambda: _Colour.BLUE, lambda: 1)
_replaced("a_class", lambda: int, lambda: float, lambda: "int")
_replaced("a_function", lambda: len, lambda: max, lambda: _other)
_replaced(
    "a_closure_made_anew", lambda: _function(1), lambda: _function(2), lambda: _other, fn=lambda x, f: f(x)
)
_replaced(
    "a_partial",
    lambda: functools.partial(_other, by=1),
    lambda: functools.partial(_other, by=3),
    lambda: _other,
    fn=lambda x, f: f(x),
)
_replaced(
    "a_method_of_another_object",
    lambda: _Thing(1).total,
    lambda: _Thing(2).total,
    lambda: _other.__get__(3),
    fn=lambda x, f: x + f() if f.__name__ == "total" else x,
)
_replaced("a_slice", lambda: slice(0, 1), lambda: slice(1, 3), lambda: 0, fn=lambda x, part: x[part] + 1)
_replaced(
    "a_range", lambda: range(2), lambda: range(1, 3), lambda: [0, 1], fn=lambda x, numbers: x + sum(numbers)
)
_replaced(
    "a_dtype",
    lambda: torch.float32,
    lambda: torch.float64,
    lambda: torch.int32,
    fn=lambda x, kind: x.to(kind) + 1,
)
_replaced(
    "the_shape_of_a_tensor",
    lambda: torch.ones(3),
    lambda: torch.ones(1),
    lambda: torch.ones(2, 3),
    fn=lambda x, y: x + y,
)
_replaced(
    "the_dtype_of_a_tensor",
    lambda: torch.ones(3),
    lambda: torch.ones(3, dtype=torch.float64),
    lambda: torch.ones(3, dtype=torch.bool),
    fn=lambda x, y: (x + y, y.dtype),
)
_replaced(
    "the_strides_of_a_tensor",
    lambda: torch.ones(3, 3),
    lambda: torch.ones(3, 3).t().contiguous().t(),
    lambda: torch.ones(9)[::3].expand(3, 3),
    fn=lambda x, y: (x + y, y.stride(), y.is_contiguous()),
)
_replaced(
    "a_tensor_requires_grad",
    lambda: torch.ones(3),
    lambda: torch.ones(3, requires_grad=True),
    lambda: torch.ones(3),
    fn=lambda x, y: (x + y, y.requires_grad),
)
_replaced(
    "a_tensor_becomes_a_parameter",
    lambda: torch.ones(3),
    lambda: torch.nn.Parameter(torch.ones(3)),
    lambda: 1.0,
    fn=lambda x, y: (x + y, isinstance(y, torch.nn.Parameter)),
)
_replaced(
    "an_instance_of_another_class",
    lambda: _Thing(1),
    lambda: _class(kind="made")(1),
    lambda: types.SimpleNamespace(value=1, kind="n"),
    fn=lambda x, thing: (x + thing.value, thing.kind),
)
_replaced(
    "a_module_with_another_number",
    lambda: torch.nn.Dropout(0.0),
    lambda: torch.nn.Dropout(0.0, inplace=True),
    lambda: torch.nn.ReLU(),
    fn=lambda x, module: (module(x + 1), repr(module)),
)

# The same argument, changed

_row(
    "an_attribute",
    lambda x, t: x + t.value,
    lambda: (_Thing(1),),
    lambda t: _set(t, value=5),
    lambda t: _set(t, value=torch.ones(3)),
)
_row(
    "an_attribute_is_deleted",
    lambda x, t: (x + 1, getattr(t, "value", None)),
    lambda: (_Thing(1),),
    lambda t: delattr(t, "value"),
    lambda t: _set(t, value=2),
)
_row(
    "an_attribute_hides_that_of_the_class",
    lambda x, t: (x + 1, t.kind),
    lambda: (_Thing(1),),
    lambda t: _set(t, kind="own"),
    lambda t: delattr(t, "kind"),
)
_row(
    "an_attribute_hides_a_method",
    lambda x, t: x + t.total(),
    lambda: (_Thing(1),),
    lambda t: _set(t, total=lambda: 50),
    lambda t: delattr(t, "total"),
)
_row(
    "an_attribute_is_new",
    lambda x, t: (x + 1, hasattr(t, "extra"), list(vars(t))),
    lambda: (_Thing(1),),
    lambda t: _set(t, extra=1),
    lambda t: delattr(t, "extra"),
)
_row(
    "the_class_of_an_object",
    lambda x, t: (x + t.total(), type(t).__name__),
    lambda: (_Thing(1),),
    lambda t: _set(t, __class__=_class(total=lambda self: 7)),
    lambda t: _set(t, __class__=_Thing),
)
_row(
    "a_slot", lambda x, t: x + t.a, lambda: (_slotted(a=1),), lambda t: _set(t, a=2), lambda t: _set(t, a=2.5)
)
_row(
    "a_slot_is_emptied",
    lambda x, t: (x + 1, hasattr(t, "b")),
    lambda: (_slotted(b=1),),
    lambda t: delattr(t, "b"),
    lambda t: _set(t, b=None),
)
_row(
    "an_element",
    lambda x, held: (x + held[0], held[-1]),
    lambda: ([1, 2],),
    lambda held: held.__setitem__(0, 5),
    lambda held: held.append(7),
)
_row(
    "an_element_deep_inside",
    lambda x, held: x * held["a"][0].value["k"],
    lambda: ({"a": [_Thing({"k": 2})]},),
    lambda held: held["a"][0].value.update(k=3),
    lambda held: held["a"].insert(0, _Thing({"k": 4})),
)
_row(
    "the_length_of_a_list",
    lambda x, held: x + len(held),
    lambda: ([1],),
    lambda held: held.extend([2, 3]),
    lambda held: held.clear(),
)
_row(
    "the_truth_of_a_list",
    lambda x, held: x + (1 if held else 2),
    lambda: ([],),
    lambda held: held.append(0),
    lambda held: held.clear(),
)
_row(
    "a_key_appears",
    lambda x, held: (x + 1, "k" in held, held.get("k", 0)),
    lambda: ({},),
    lambda held: held.update(k=1),
    lambda held: held.clear(),
)
_row(
    "a_key_that_is_not_asked_for",
    lambda x, held: x + held["a"],
    lambda: ({"a": 1},),
    lambda held: held.update(b=2),
    lambda held: held.update(a=3),
)
_row(
    "the_order_of_keys",
    lambda x, held: (x + 1, list(held)),
    lambda: (collections.OrderedDict(a=1, b=2),),
    lambda held: held.move_to_end("a"),
    lambda held: held.pop("b") and None,
)
_row(
    "a_set_changes",
    lambda x, held: (x + 1, 1 in held, len(held)),
    lambda: ({1},),
    lambda held: held.add(2),
    lambda held: held.discard(1),
)
_row(
    "a_queue_changes",
    lambda x, held: (x + held[0], len(held), held.maxlen),
    lambda: (collections.deque([1], 3),),
    lambda held: held.appendleft(4),
    lambda held: held.rotate(1),
)
_row(
    "a_default_factory_changes",
    lambda x, held: (x + 1, held.default_factory()),
    lambda: (collections.defaultdict(int),),
    lambda held: _set(held, default_factory=list),
    lambda held: _set(held, default_factory=dict),
)
_row(
    "a_viewed_dictionary_changes",
    lambda x, held, view: (x + 1, list(view), "b" in view),
    lambda: (lambda d: (d, d.keys()))({"a": 1}),
    lambda held, view: held.update(b=1),
    lambda held, view: held.pop("a") and None,
)
_row(
    "a_proxied_dictionary_changes",
    lambda x, held, proxy: (x + proxy["a"], len(proxy)),
    lambda: (lambda d: (d, types.MappingProxyType(d)))({"a": 1}),
    lambda held, proxy: held.update(a=4),
    lambda held, proxy: held.update(b=1),
)
_row(
    "the_keywords_of_a_partial",
    lambda x, f: f(x),
    lambda: (functools.partial(_other, by=1),),
    lambda f: f.keywords.update(by=5),
    lambda f: f.keywords.clear(),
)
_row(
    "what_a_weak_reference_refers_to",
    lambda x, held, reference: x + (reference().value if reference() else 9),
    lambda: (lambda t: ([t], weakref.ref(t)))(_Thing(3)),
    lambda held, reference: _set(held[0], value=4),
    lambda held, reference: held.clear(),
)
_row(
    "a_tensor_in_place",
    lambda x, y: x + y,
    lambda: (torch.ones(3),),
    lambda y: (y.fill_(5),),
    lambda y: (y.resize_(1),),
)
_row(
    "a_tensor_gets_an_attribute",
    lambda x, y: (x + y, getattr(y, "note", None)),
    lambda: (torch.ones(3),),
    lambda y: _set(y, note="n"),
    lambda y: delattr(y, "note"),
)
_row(
    "a_tensor_gets_a_gradient",
    lambda x, y: (x + y.detach(), y.grad is None),
    lambda: (torch.ones(3, requires_grad=True),),
    lambda y: _set(y, grad=torch.ones(3)),
    lambda y: _set(y, grad=None),
)
_row(
    "a_hashed_object_changes",
    lambda x, key, table: (x + 1, key in table, table.get(key)),
    lambda: (_Counted(1), {_Counted(1): "one"}),
    lambda key, table: _set(key, n=2),
    lambda key, table: _set(key, n=1),
)

# Classes, functions and modules

_row(
    "an_attribute_of_a_class",
    lambda x, cls: (x + 1, cls.kind, cls().kind),
    lambda: (_class(kind="a"),),
    lambda cls: _set(cls, kind="b"),
    lambda cls: delattr(cls, "kind"),
)
_row(
    "a_method_of_a_class",
    lambda x, t: x + t.total(),
    lambda: (_class()(),),
    lambda t: _set(type(t), total=lambda self: 30),
    lambda t: delattr(type(t), "total"),
)
_row(
    "a_special_method_of_a_class",
    lambda x, t: x + len(t),
    lambda: (_class()(),),
    lambda t: _set(type(t), __len__=lambda self: 30),
    lambda t: delattr(type(t), "__len__"),
)
_row(
    "a_class_gets_a_truth",
    lambda x, t: x + (1 if t else 2),
    lambda: (_class()(),),
    lambda t: _set(type(t), __bool__=lambda self: False),
    lambda t: delattr(type(t), "__bool__"),
)
_row(
    "a_method_becomes_a_property",
    lambda x, t: (x + 1, t.kind),
    lambda: (_class()(),),
    lambda t: _set(type(t), kind=property(lambda self: "property")),
    lambda t: delattr(type(t), "kind"),
)
_row(
    "a_class_gets_a_hook_for_attributes",
    lambda x, t: (x + 1, getattr(t, "none", "default")),
    lambda: (_class()(),),
    lambda t: _set(type(t), __getattr__=lambda self, name: name),
    lambda t: delattr(type(t), "__getattr__"),
)
_row(
    "a_class_gets_a_way_to_be_compared",
    lambda x, t, other: (x + 1, t == other),
    lambda: (lambda cls: (cls(), cls()))(_class()),
    lambda t, other: _set(type(t), __eq__=lambda self, other: "equal"),
    lambda t, other: delattr(type(t), "__eq__"),
)
_row(
    "the_bases_of_a_class",
    lambda x, t: (x + 1, isinstance(t, _Slotted), t.kind),
    lambda: (_low()(),),
    lambda t: _set(type(t), __bases__=(_Thing,)),
)
_row(
    "a_class_is_registered",
    lambda x, cls, t: (x + 1, isinstance(t, cls)),
    lambda: (_abstract(), _Thing()),
    lambda cls, t: cls.register(_Thing) and None,
)
_row(
    "the_code_of_a_function",
    lambda x, f: f(x),
    lambda: (types.FunctionType(_other.__code__, globals(), "f", (1,)),),
    lambda f: _set(f, __code__=(lambda value, by: value * by).__code__),
)
_row(
    "the_defaults_of_a_function",
    lambda x, f: f(x),
    lambda: (_function(1),),
    lambda f: _set(f, __defaults__=(5,)),
    lambda f: _set(f, __defaults__=(torch.ones(3),)),
)
_row(
    "the_cell_of_a_function",
    lambda x, f: f(x),
    lambda: (_function(1),),
    lambda f: _set(f.__closure__[0], cell_contents=8),
    lambda f: _set(f.__closure__[0], cell_contents=torch.ones(3)),
)
_row(
    "an_attribute_of_a_function",
    lambda x, f: (f(x), getattr(f, "note", None)),
    lambda: (_function(1),),
    lambda f: _set(f, note="n"),
    lambda f: delattr(f, "note"),
)
_row(
    "a_name_in_a_module",
    lambda x, module: x + module.number,
    lambda: (_module(number=1),),
    lambda module: _set(module, number=4),
    lambda module: _set(module, number=torch.ones(3)),
)
_row(
    "a_name_in_a_module_is_new",
    lambda x, module: (x + 1, getattr(module, "number", None)),
    lambda: (_module(),),
    lambda module: _set(module, number=4),
    lambda module: delattr(module, "number"),
)
_row(
    "a_parameter_is_replaced",
    lambda x, module: module(x),
    lambda: (torch.nn.LayerNorm(3),),
    lambda module: _set(module, weight=torch.nn.Parameter(torch.full((3,), 2.0))),
    lambda module: _set(module, weight=None),
)
_row(
    "a_submodule_is_replaced",
    lambda x, module: module(x),
    lambda: (torch.nn.Sequential(torch.nn.ReLU()),),
    lambda module: module.__setitem__(0, torch.nn.Tanh()),
    lambda module: module.append(torch.nn.ReLU()) and None,
)
_row(
    "a_module_is_put_to_use",
    lambda x, module: (module(x + 1), module.training),
    lambda: (torch.nn.Dropout(0.0),),
    lambda module: module.eval() and None,
    lambda module: module.train() and None,
)
_row(
    "a_hook_is_added",
    lambda x, module: module(x),
    lambda: (torch.nn.ReLU(),),
    lambda module: module._forward_hooks.update({0: _hook}),
    lambda module: module._forward_hooks.clear(),
)
_row(
    "a_buffer_is_added",
    lambda x, module: (module(x), [name for name, _ in module.named_buffers()]),
    lambda: (torch.nn.ReLU(),),
    lambda module: module.register_buffer("extra", torch.ones(1)),
    lambda module: delattr(module, "extra"),
)
