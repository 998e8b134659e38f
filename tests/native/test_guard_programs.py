"""The guard programs, the dispatch and the tensor specs of framelift._guards."""

import collections
import ctypes
import enum
import functools
import gc
import math
import operator
import sys
import types
import weakref

import numpy as np
import pytest
import torch

from framelift import _guards as g
from framelift.guards.failures import SWITCHES, TENSOR_FACTS, state_value
from framelift.guards.guard import Check
from framelift.guards.program import READS
from framelift.guards.sources import Access


def node(access, operand=None, *checks, parent=g.FRAME, slot=g.NO_INPUT):
    return (parent, access, operand, checks, slot)


def function():
    """Any function will do as the frame's."""


class Case:
    """A program of one argument, and the frame it is evaluated in."""

    def __init__(self, *nodes, func=function, **options):
        filled = sum(1 for each in nodes if each[4] >= 0)
        self.program = g.Program(nodes, filled, **options)
        self.func = func

    def holds(self, *args):
        failure = self.program.check(self.func, args)
        assert (self.program.collect(self.func, args) is None) == (failure is not None)
        return failure is None

    def failure(self, *args):
        return self.program.check(self.func, args)


def reach(access, operand=None, func=function):
    """The value that an access finds from an argument, as a function."""
    program = g.Program([node(g.ACCESS_ARG, 0), node(access, operand, parent=0, slot=0)], 1)

    def value(parent):
        inputs = program.collect(func, [parent])
        return None if inputs is None else inputs[0]

    return value


def check(kind, operand):
    """Whether a check holds of an argument, as a function."""
    return Case(node(g.ACCESS_ARG, 0, (kind, operand))).holds


class Plain:
    pass


class Mapping(dict):
    def __getitem__(self, key):
        raise AssertionError("Python code ran")

    get = __contains__ = __getitem__


class Slotted:
    __slots__ = ("field", "other")


# ---- what Python and the extension call by the same names ----


def constants(prefix):
    return {name: value for name, value in vars(g).items() if name.startswith(prefix)}


def test_each_native_kind_has_a_row_in_python():
    assert constants("CHECK_") == {f"CHECK_{check.name}": check.code for check in Check}
    reached = [access for access in Access if access.code is not None]
    assert constants("ACCESS_") == {f"ACCESS_{access.name}": access.code for access in reached}
    assert set(Access) - set(reached) == {Access.DRAWN}
    assert set(constants("TENSOR_").values()) == set(TENSOR_FACTS)
    assert constants("READ_") == {f"READ_{name.upper()}": kind.code for name, kind in READS.items()}
    assert set(SWITCHES) < set(g.GlobalState().values())


def test_kinds_differ():
    for prefix in ("CHECK_", "ACCESS_", "TENSOR_", "READ_", "FAILED_"):
        assert len(set(constants(prefix).values())) == len(constants(prefix)) > 2


# ---- accesses ----


def test_arg():
    program = g.Program([node(g.ACCESS_ARG, 1, slot=0)], 1)
    assert program.collect(function, ["a", "b"]) == ["b"]
    assert program.collect(function, ["a"]) is None
    assert program.check(function, ["a"]) == (g.FAILED_ACCESS, 0, None, function)


def test_func_and_globals():
    program = g.Program([node(g.ACCESS_FUNC, slot=0), node(g.ACCESS_GLOBALS, slot=1)], 2)
    assert program.collect(function, []) == [function, globals()]
    assert program.collect(len, []) is None
    elsewhere = types.FunctionType(function.__code__, {"a": 1})
    assert reach(g.ACCESS_GLOBALS)(elsewhere) is elsewhere.__globals__


def test_const():
    thing = Plain()
    assert g.Program([node(g.ACCESS_CONST, thing, slot=0)], 1).collect(function, []) == [thing]


def test_attr():
    value = reach(g.ACCESS_ATTR, "field")
    thing = Plain()
    assert value(thing) is None
    for expected in ("first", "second", "second", "third"):
        thing.field = expected
        assert value(thing) == expected
        assert value(thing) == expected
    del thing.field
    assert value(thing) is None
    thing.__dict__ = {"field": "replaced"}
    assert value(thing) == "replaced"
    assert value(3) is None
    assert reach(g.ACCESS_ATTR, "pi")(math) == math.pi
    assert reach(g.ACCESS_ATTR, "__getitem__")(Mapping) is Mapping.__getitem__


def test_attr_ignores_the_class():
    class WithAttribute:
        field = 1

        def __getattr__(self, name):
            raise AssertionError("Python code ran")

        __getattribute__ = __getattr__

    assert reach(g.ACCESS_ATTR, "field")(WithAttribute()) is None


def test_attr_of_inline_values():
    """CPython keeps the attributes of new instances outside any dict."""
    case = Case(node(g.ACCESS_ARG, 0), node(g.ACCESS_ATTR, "x", (g.CHECK_EQUAL, 1), parent=0))
    for _ in range(50):
        thing = Plain()
        thing.x = 1
        assert case.holds(thing)
        thing.x = 2
        assert not case.holds(thing)
        thing.x = 1
        assert case.holds(thing)


def test_dict():
    thing = Plain()
    thing.a = 1
    assert reach(g.ACCESS_DICT)(thing) is thing.__dict__
    assert reach(g.ACCESS_DICT)(3) is None
    assert reach(g.ACCESS_DICT)(Slotted()) is None


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, Mapping])
@pytest.mark.parametrize("key", ["k", 7, 2.5, (1, "a"), b"k", None, Plain, function, torch.float32])
def test_key(kind, key):
    value = reach(g.ACCESS_KEY, key)
    mapping = kind({"another": 0})
    assert value(mapping) is None
    mapping[key] = "v"
    assert value(mapping) == "v"
    mapping[key] = "w"
    assert value(mapping) == "w"
    del mapping[key]
    assert value(mapping) is None
    mapping.update({key: "x"})
    assert value(mapping) == "x"
    mapping.clear()
    assert value(mapping) is None
    assert value([key]) is None
    assert value(key) is None


def test_key_finds_what_python_would():
    assert reach(g.ACCESS_KEY, True)({1: "one"}) == "one"
    assert reach(g.ACCESS_KEY, 1)({1.0: "one"}) == "one"
    assert reach(g.ACCESS_KEY, "a")({b"a": 1}) is None


def test_key_never_compares_in_python():
    class Key:
        def __hash__(self):
            return hash("k")

        def __eq__(self, other):
            raise AssertionError("Python code ran")

    key = Key()
    assert reach(g.ACCESS_KEY, key)({key: 1}) == 1
    # Whether these hold the key could only be told by running __eq__.
    for mapping, wanted in [({key: 1}, "k"), ({Key(): 1}, key), ({"k": 1}, key)]:
        assert reach(g.ACCESS_KEY, wanted)(mapping) is None
        assert not check(g.CHECK_NO_KEY, wanted)(mapping)


def test_enum_key():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    assert reach(g.ACCESS_KEY, Color.RED)({Color.BLUE: "b", Color.RED: "r"}) == "r"


def test_item():
    class List(list):
        def __getitem__(self, index):
            raise AssertionError("Python code ran")

    for kind in (list, tuple, List, torch.Size):
        assert reach(g.ACCESS_ITEM, 1)(kind([4, 5])) == 5
        assert reach(g.ACCESS_ITEM, 2)(kind([4, 5])) is None
    assert reach(g.ACCESS_ITEM, 0)({0: 1}) is None
    assert reach(g.ACCESS_ITEM, 0)("text") is None


def test_value_at():
    ordered = collections.OrderedDict(a=1, b=2, c=3)
    ordered.move_to_end("a")
    assert [reach(g.ACCESS_VALUE_AT, n)(ordered) for n in range(4)] == [2, 3, 1, None]
    assert [reach(g.ACCESS_VALUE_AT, n)({"a": 1}) for n in range(2)] == [1, None]

    class Own(collections.OrderedDict):
        def __iter__(self):
            raise AssertionError("no Python is run")

    assert reach(g.ACCESS_VALUE_AT, 0)(Own(a=1)) is None
    assert reach(g.ACCESS_VALUE_AT, 0)([1]) is None


def test_deque_item():
    class Deque(collections.deque):
        pass

    for kind in (collections.deque, Deque):
        assert reach(g.ACCESS_DEQUE_ITEM, 1)(kind("ab")) == "b"
        assert reach(g.ACCESS_DEQUE_ITEM, 2)(kind("ab")) is None
    assert reach(g.ACCESS_DEQUE_ITEM, 0)(["a"]) is None


def test_slot():
    value = reach(g.ACCESS_SLOT, Slotted.field)
    thing = Slotted()
    assert value(thing) is None
    thing.field = "here"
    assert value(thing) == "here"
    del thing.field
    assert value(thing) is None
    assert value(Plain()) is None
    assert value(3) is None
    with pytest.raises(TypeError, match="member descriptor"):
        reach(g.ACCESS_SLOT, property())
    with pytest.raises(TypeError, match="descriptor of a slot"):
        reach(g.ACCESS_SLOT, types.CodeType.co_argcount)


def test_cells():
    captured = "inside"

    def closure():
        return captured

    assert reach(g.ACCESS_CELL, 0)(closure) == "inside"
    assert reach(g.ACCESS_CELL_OBJECT, 0)(closure) is closure.__closure__[0]
    assert reach(g.ACCESS_CONTENTS)(closure.__closure__[0]) == "inside"
    captured = "changed"
    assert reach(g.ACCESS_CELL, 0)(closure) == "changed"
    assert reach(g.ACCESS_CELL, 1)(closure) is None
    assert reach(g.ACCESS_CELL, 0)(function) is None
    assert reach(g.ACCESS_CELL, 0)(3) is None
    assert reach(g.ACCESS_CONTENTS)(3) is None
    del closure.__closure__[0].cell_contents
    assert reach(g.ACCESS_CELL, 0)(closure) is None
    assert reach(g.ACCESS_CONTENTS)(closure.__closure__[0]) is None
    # The parent of the first node is the frame's function.
    assert g.Program([node(g.ACCESS_CELL_OBJECT, 0, slot=0)], 1).collect(closure, []) == list(
        closure.__closure__
    )


def test_defaults():
    def f(a=1, *, b=2):
        pass

    assert reach(g.ACCESS_DEFAULT, 0)(f) == 1
    assert reach(g.ACCESS_DEFAULT, 1)(f) is None
    assert reach(g.ACCESS_KWDEFAULT, "b")(f) == 2
    assert reach(g.ACCESS_KWDEFAULT, "c")(f) is None
    f.__defaults__ = (3,)
    f.__kwdefaults__ = {"b": 4}
    assert reach(g.ACCESS_DEFAULT, 0)(f) == 3
    assert reach(g.ACCESS_KWDEFAULT, "b")(f) == 4
    for access, operand in ((g.ACCESS_DEFAULT, 0), (g.ACCESS_KWDEFAULT, "b")):
        assert reach(access, operand)(function) is None
        assert reach(access, operand)(3) is None


def test_bound_method():
    method = types.MethodType(function, "self")
    assert reach(g.ACCESS_SELF)(method) == "self"
    assert reach(g.ACCESS_METHOD_FUNC)(method) is function
    assert reach(g.ACCESS_SELF)(function) is None
    assert reach(g.ACCESS_METHOD_FUNC)([].append) is None


def test_grad():
    x = torch.ones(2, requires_grad=True)
    none = Case(node(g.ACCESS_ARG, 0), node(g.ACCESS_GRAD, None, (g.CHECK_IS, None), parent=0))
    assert none.holds(x)
    x.sum().backward()
    assert not none.holds(x)
    assert reach(g.ACCESS_GRAD)(x) is x.grad
    assert none.holds(x * 2)  # not a leaf, and no warning about it
    assert reach(g.ACCESS_GRAD)(3) is None


def test_what_a_view_or_a_weak_reference_is_of():
    held = {"a": 1}
    for view in (held.keys(), held.values(), held.items(), types.MappingProxyType(held)):
        assert reach(g.ACCESS_VIEWED)(view) is held
    plain = Plain()
    reference = weakref.ref(plain)
    assert reach(g.ACCESS_REFERENT)(reference) is plain
    del plain
    dead = Case(node(g.ACCESS_ARG, 0), node(g.ACCESS_REFERENT, None, (g.CHECK_IS, None), parent=0))
    assert dead.holds(reference)


def test_native_attr():
    assert reach(g.ACCESS_NATIVE_ATTR, "real")(3.5) == 3.5
    assert reach(g.ACCESS_NATIVE_ATTR, "nothing")(3.5) is None


@pytest.mark.parametrize("view", [dict.keys, dict.values, dict.items, types.MappingProxyType])
def test_viewed(view):
    names = {"a": 1}
    assert reach(g.ACCESS_VIEWED)(view(names)) is names
    assert reach(g.ACCESS_VIEWED)(names) is None


def test_bytes():
    held = bytearray(b"ab")
    bytes_of = reach(g.ACCESS_BYTES)
    assert bytes_of(held) == b"ab"
    held += b"c"
    assert bytes_of(held) == b"abc"
    assert bytes_of(b"ab") is None


def test_native_attr_is_what_c_has_whatever_a_subclass_says():
    class Odd(collections.deque):
        maxlen = property(lambda self: 1 / 0)

        def __getattribute__(self, name):
            raise AssertionError

    class Meta(type):
        __name__ = property(lambda cls: 1 / 0)

    assert reach(g.ACCESS_NATIVE_ATTR, "maxlen")(Odd([1], 7)) == 7
    assert reach(g.ACCESS_NATIVE_ATTR, "__name__")(Meta("Named", (), {})) == "Named"
    assert reach(g.ACCESS_NATIVE_ATTR, "append")(collections.deque()) is None


def test_the_dictionary_of_an_instance_that_has_none_yet():
    Pair = type("Pair", (tuple,), {})
    pair = Pair((1, 2))
    found = reach(g.ACCESS_DICT)(pair)
    assert found == {} and found is pair.__dict__
    assert reach(g.ACCESS_DICT)(()) is None


def test_registrations():
    import abc

    class Shape(abc.ABC):
        pass

    value = reach(g.ACCESS_REGISTRATIONS)
    before = value(None)
    assert before <= abc.get_cache_token()  # those of Framelift's own doing are not counted
    Shape.register(int)
    assert value(None) == before + 1


def test_modes_by_their_number():
    with Mode() as first, Mode() as second:
        assert reach(g.ACCESS_MODE, 0)(None) is first
        assert reach(g.ACCESS_MODE, 1)(None) is second
        assert reach(g.ACCESS_MODE, 2)(None) is None


def test_facts_about_tensors():
    leaf = torch.ones(4, requires_grad=True)
    assert check(g.CHECK_LEAF, True)(leaf) and not check(g.CHECK_LEAF, True)(leaf * 2)
    assert check(g.CHECK_LEAF, False)(leaf * 2) and not check(g.CHECK_LEAF, False)(3)
    assert check(g.CHECK_OFFSET, 2)(leaf[2:]) and not check(g.CHECK_OFFSET, 2)(leaf)
    assert check(g.CHECK_NBYTES, 16)(leaf[2:]) and not check(g.CHECK_NBYTES, 16)(torch.ones(5))
    assert not check(g.CHECK_NBYTES, 16)(torch.ones(4).to_sparse()) and not check(g.CHECK_NBYTES, 16)(3)
    assert not check(g.CHECK_OFFSET, 2)(torch.ones(2).to_sparse()) and not check(g.CHECK_OFFSET, 2)(3)


def test_the_bases_of_a_class():
    class A:
        pass

    class B:
        pass

    class Item(A):
        pass

    case = Case(types=[(Item, [("mro()", Item.__mro__)])])
    assert case.holds()
    Item.other = 1
    assert case.holds()
    Item.__bases__ = (B,)
    assert case.failure() == (g.FAILED_CLASS, 0, None, "mro()")
    Item.__bases__ = (A,)
    assert case.holds()


@pytest.mark.parametrize(
    "parent",
    [
        None,
        3,
        "text",
        [],
        {},
        (),
        Plain(),
        Plain,
        function,
        math,
        len,
        collections.deque(),
        frozenset(),
        types.MethodType(len, []),
        types.CellType(),
        torch.ones(1),
        torch.Size([1]),
    ],
    ids=lambda parent: type(parent).__name__,
)
def test_wrong_parents_never_crash(parent):
    operands = {
        "ATTR": "a",
        "KEY": "a",
        "KWDEFAULT": "a",
        "NATIVE_ATTR": "a",
        "SLOT": Slotted.field,
        "ASKED": (len, "a"),
    }
    kinds = [name for name in dir(g) if name.startswith("ACCESS_")]
    assert len(kinds) == 32
    for name in kinds:
        reach(getattr(g, name), operands.get(name[7:], 0))(parent)
    operands = {
        "TYPE": int,
        "KEYS": (),
        "NO_ATTR": "a",
        "NO_SLOT": Slotted.field,
        "ELEMENTS_IN_ORDER": (),
        "TENSOR": g.TensorSpec(torch.ones(2)),
    }
    for name in dir(g):
        if name.startswith("CHECK_"):
            check(getattr(g, name), operands.get(name[6:], 0))(parent)


# ---- checks ----


def test_identity_and_type():
    a, b = [1], [1]
    assert check(g.CHECK_IS, a)(a) and not check(g.CHECK_IS, a)(b)
    assert check(g.CHECK_IS_NOT, a)(b) and not check(g.CHECK_IS_NOT, a)(a)
    assert check(g.CHECK_TYPE, list)(a)
    assert not check(g.CHECK_TYPE, int)(True)


def big(number):
    return int(str(number))  # a new object each time


CONSTANTS = [
    lambda: "tex" + str(1), lambda: b"byt" + bytes([1]), lambda: big(10**20), lambda: True, lambda: None,
    lambda: float("2.5"), lambda: float("nan"), lambda: -0.0, lambda: 0.0, lambda: complex("1+2j"),
    lambda: complex(0.0, -0.0), lambda: torch.float32, lambda: torch.device("cpu"),
    lambda: torch.device("meta"), lambda: torch.Size([big(1000), 2]), lambda: range(big(1000)),
    lambda: range(5, 5), lambda: range(0), lambda: slice(1, big(2000), None), lambda: ...,
    lambda: (1, (float("2.5"), "tex" + str(1))), lambda: (), lambda: frozenset({1, "tex" + str(1)}),
    lambda: frozenset({(big(1000), 2.5)}), lambda: 1, lambda: 1.0, lambda: torch.strided, lambda: (True,),
    lambda: (1,), lambda: frozenset({True, "tex1"}), lambda: torch.int64, lambda: (1000, 2),
]  # fmt: skip


def test_equal_constants():
    for i, make in enumerate(CONSTANTS):
        holds = check(g.CHECK_EQUAL, make())
        for j, other in enumerate(CONSTANTS):
            assert holds(other()) == (i == j), (make(), other())


def test_equal_of_other_types_is_identity():
    class Equal:
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("Python code ran")

    class Text(str):
        __eq__ = Equal.__eq__
        __hash__ = str.__hash__

    thing = Equal()
    assert check(g.CHECK_EQUAL, thing)(thing)
    assert not check(g.CHECK_EQUAL, thing)(Equal())
    assert not check(g.CHECK_EQUAL, "a")(Text("a"))
    assert not check(g.CHECK_EQUAL, (Text("a"),))((Text("a"),))
    assert not check(g.CHECK_EQUAL, frozenset({Text("a")}))(frozenset({"a"}))
    assert not check(g.CHECK_EQUAL, [1])([1])


CONTAINERS = [[], (), {}, set(), frozenset(), collections.deque(), "", b"", collections.OrderedDict()]


@pytest.mark.parametrize("kind", [type(empty) for empty in CONTAINERS])
def test_lengths(kind):
    class Lying(kind):
        def __len__(self):
            raise AssertionError("Python code ran")

    contents = {dict: {1: 2}, collections.OrderedDict: {1: 2}, str: "a", bytes: b"a"}.get(kind, [1])
    for one, none in ((kind(contents), kind()), (Lying(contents), Lying())):
        assert check(g.CHECK_LEN, 1)(one) and not check(g.CHECK_LEN, 1)(none)
        assert check(g.CHECK_LEN, 0)(none) and not check(g.CHECK_LEN, 0)(one)
        assert check(g.CHECK_NONEMPTY, True)(one) and not check(g.CHECK_NONEMPTY, True)(none)
        assert check(g.CHECK_NONEMPTY, False)(none) and not check(g.CHECK_NONEMPTY, False)(one)


def test_length_of_something_without():
    for flag in (True, False):
        assert not check(g.CHECK_NONEMPTY, flag)(3)


def test_keys():
    holds = check(g.CHECK_KEYS, ("a", 1, (2.5, None)))
    mapping = {"a": 0, 1: 0, (2.5, None): 0}
    assert holds(mapping)
    mapping["a"] = 5
    assert holds(mapping)
    mapping["new"] = 0
    assert not holds(mapping)
    del mapping["new"]
    assert holds(mapping)
    del mapping["a"]
    assert not holds(mapping)
    mapping["a"] = 0  # now last
    assert not holds(mapping)
    assert holds({"a": 0, 1: 0, (2.5, None): 0})
    assert not holds({"a": 0, True: 0, (2.5, None): 0})
    assert not holds([])
    assert check(g.CHECK_KEYS, ())({})


def test_calls_forward():
    module = torch.nn.Linear(2, 2)
    holds = check(g.CHECK_CALLS_FORWARD, None)
    assert holds(module) and holds(module)
    handle = module.register_forward_hook(lambda *args: None)
    assert not holds(module)
    handle.remove()
    assert holds(module)
    for name in ("forward", "_call_impl", "_compiled_call_impl"):
        vars(module)[name] = None
        assert not holds(module)
        del vars(module)[name]
        assert holds(module)
    hooks = vars(module).pop("_backward_hooks")
    assert not holds(module)
    for others in ({}, collections.OrderedDict(a=1), None):
        module._backward_hooks = others
        assert not holds(module)
    module._backward_hooks = hooks
    assert holds(module) and holds(torch.nn.ReLU())
    assert not holds(Plain()) and not holds(3)


def test_keys_of_an_ordered_dict():
    holds = check(g.CHECK_KEYS, ("a", "b", Plain))
    ordered = collections.OrderedDict.fromkeys(["a", "b", Plain])
    assert holds(ordered)
    ordered.move_to_end("a")  # leaves the dict underneath as it was
    assert not holds(ordered)
    ordered.move_to_end("a", last=False)
    assert holds(ordered)
    del ordered["b"]
    assert not holds(ordered)


def test_key_and_no_key():
    found, lacks = reach(g.ACCESS_KEY, "k"), check(g.CHECK_NO_KEY, "k")
    mapping = {}
    for _ in range(3):
        assert lacks(mapping) and found(mapping) is None
        mapping["k"] = 1
        assert found(mapping) == 1 and not lacks(mapping)
        mapping["k"] = 2
        assert found(mapping) == 2 and not lacks(mapping)
        del mapping["k"]
    assert not check(g.CHECK_NO_KEY, 1)({True: 0})
    assert found([]) is None and not lacks([])


def test_no_attr():
    holds = check(g.CHECK_NO_ATTR, "field")
    thing = Plain()
    for _ in range(3):
        assert holds(thing)
        thing.field = 1
        assert not holds(thing)
        del thing.field
    thing.__dict__ = {"field": 1}
    assert not holds(thing)
    assert holds(3)


def test_no_slot():
    holds = check(g.CHECK_NO_SLOT, Slotted.field)
    thing = Slotted()
    assert holds(thing)
    thing.field = None
    assert not holds(thing)
    del thing.field
    assert holds(thing)
    assert not holds(Plain())


def test_elements_in_the_order_of_iteration():
    one, other = {8, 0}, {0, 8}
    assert one == other and list(one) != list(other)
    holds = check(g.CHECK_ELEMENTS_IN_ORDER, tuple(one))
    assert holds(one) and not holds(other) and not holds({8}) and not holds([8, 0])


def test_code():
    def fn():
        return 1

    holds = check(g.CHECK_CODE, fn.__code__)
    assert holds(fn) and not holds(3)
    fn.__code__ = (lambda: 2).__code__
    assert not holds(fn)


def test_elements():
    holds = check(g.CHECK_EQUAL, frozenset({1, "a", (2, 3), Plain}))
    elements = {1, "a", (2, 3), Plain}
    assert holds(frozenset(elements))
    elements.add("b")
    assert not holds(frozenset(elements))
    elements.remove("b")
    assert holds(frozenset(elements))
    elements.remove(1)
    elements.add(True)
    assert not holds(frozenset(elements))
    elements.remove(True)
    assert not holds(frozenset(elements))
    assert not holds([1, "a", (2, 3), Plain])
    many = frozenset(range(5000)) | frozenset(map(str, range(5000)))
    assert check(g.CHECK_EQUAL, many)(frozenset([*many]))
    assert not check(g.CHECK_EQUAL, many)(many - {"7"} | {-7})


def test_tensor():
    holds = check(g.CHECK_TENSOR, g.TensorSpec(torch.ones(2, 3)))
    assert holds(torch.zeros(2, 3))
    assert not holds(torch.zeros(3, 2))
    assert not holds(None)


def test_same_as():
    nodes = [node(g.ACCESS_ARG, 0)]
    same = Case(*nodes, node(g.ACCESS_ARG, 1, (g.CHECK_SAME_AS, 0)))
    different = Case(*nodes, node(g.ACCESS_ARG, 1, (g.CHECK_NOT_SAME_AS, 0)))
    a, b = Plain(), Plain()
    assert same.holds(a, a) and not same.holds(a, b)
    assert different.holds(a, b) and not different.holds(a, a)


def test_apart():
    case = Case(node(g.ACCESS_ARG, 0), node(g.ACCESS_ARG, 1, (g.CHECK_APART, 0)))
    base, others = np.arange(12.0), torch.arange(12.0)
    values = [base, base[:4], base[4:], base[3:5], base[:0], base[8:4:-1], base.reshape(3, 4)[:, 1:3]]
    values += [others, others[:6], others[6:], others.numpy()[4:7], others[:0], torch.ones(3, device="meta")]
    for a in values:
        for b in values:
            ours = [x.numpy() if isinstance(x, torch.Tensor) and not x.is_meta else x for x in (a, b)]
            overlap = all(isinstance(x, np.ndarray) for x in ours) and np.may_share_memory(*ours)
            assert case.holds(a, b) is g.lie_apart(a, b) is not overlap, (a, b)


# ---- programs ----


def test_failure_reports():
    thing = Plain()
    thing.a = {"k": [10, 20]}
    case = Case(
        node(g.ACCESS_ARG, 0, (g.CHECK_TYPE, Plain)),
        node(g.ACCESS_ATTR, "a", (g.CHECK_TYPE, dict), (g.CHECK_LEN, 1), parent=0),
        node(g.ACCESS_KEY, "k", (g.CHECK_LEN, 2), parent=1),
        node(g.ACCESS_ITEM, 1, (g.CHECK_EQUAL, 20), (g.CHECK_IS_NOT, None), parent=2, slot=0),
    )
    assert case.program.collect(function, [thing]) == [20]
    thing.a["k"][1] = 21
    assert case.failure(thing) == (g.FAILED_CHECK, 3, 0, 21)
    thing.a["k"].append(1)
    assert case.failure(thing) == (g.FAILED_CHECK, 2, 0, thing.a["k"])
    thing.a["more"] = 1
    assert case.failure(thing) == (g.FAILED_CHECK, 1, 1, thing.a)
    thing.a = []
    assert case.failure(thing) == (g.FAILED_CHECK, 1, 0, [])
    del thing.a
    assert case.failure(thing) == (g.FAILED_ACCESS, 1, None, thing)
    assert case.failure(3) == (g.FAILED_CHECK, 0, 0, 3)


@pytest.mark.parametrize(
    ("nodes", "n_inputs", "error"),
    [
        ([node(g.ACCESS_ARG, 0, parent=0)], 0, ValueError),
        ([node(g.ACCESS_ARG, 0, parent=-2)], 0, ValueError),
        ([node(99)], 0, ValueError),
        ([node(g.ACCESS_ARG, 0, (99, None))], 0, ValueError),
        ([node(g.ACCESS_ARG, -1)], 0, ValueError),
        ([node(g.ACCESS_ARG, "0")], 0, TypeError),
        ([node(g.ACCESS_ATTR, 0)], 0, TypeError),
        ([node(g.ACCESS_KEY, [])], 0, TypeError),
        ([node(g.ACCESS_ARG, 0, (g.CHECK_SAME_AS, 1))], 0, ValueError),
        ([node(g.ACCESS_ARG, 0, (g.CHECK_TENSOR, 1))], 0, TypeError),
        ([node(g.ACCESS_ARG, 0, (g.CHECK_KEYS, []))], 0, TypeError),
        ([node(g.ACCESS_ARG, 0, (g.CHECK_ELEMENTS_IN_ORDER, {1}))], 0, TypeError),
        ([node(g.ACCESS_ARG, 0, (g.CHECK_TYPE, 1))], 0, TypeError),
        ([node(g.ACCESS_ARG, 0, slot=1)], 1, ValueError),
        ([node(g.ACCESS_ARG, 0, slot=-2)], 0, ValueError),
        ([node(g.ACCESS_ARG, 0)], 1, ValueError),
        ([node(g.ACCESS_ARG, 0, slot=0), node(g.ACCESS_ARG, 1, slot=0)], 1, ValueError),
        ([3], 0, TypeError),
        ([(1, 2)], 0, TypeError),
        ([], -1, ValueError),
    ],
)
def test_bad_programs(nodes, n_inputs, error):
    with pytest.raises(error):
        g.Program(nodes, n_inputs)


def test_bad_options():
    for options in ({"state": 3}, {"types": [3]}, {"types": [(3, ())]}, {"storages": 3}):
        with pytest.raises(TypeError):
            g.Program([], 0, **options)
    with pytest.raises(ValueError):
        g.Program([], 0, storages=((0,), (0,)))


def test_large_programs():
    """Past what is evaluated on the C stack."""
    count = 10_000
    nodes = [node(g.ACCESS_ARG, 0)]
    nodes += [node(g.ACCESS_ITEM, i, (g.CHECK_EQUAL, i), parent=0, slot=i) for i in range(count)]
    program = g.Program(nodes, count)
    assert len(program) == count + 1 and program.n_inputs == count
    assert program.collect(function, [list(range(count))]) == list(range(count))
    cache = g.Cache()
    cache.add(g.Entry(program, lambda *values: sum(values)))
    assert cache.dispatch(function, [list(range(count))]) == sum(range(count))


# ---- versions ----


def attribute_case():
    return Case(node(g.ACCESS_ARG, 0), node(g.ACCESS_ATTR, "x", (g.CHECK_EQUAL, 1000), parent=0))


def test_replaced_dict():
    case, thing = attribute_case(), Plain()
    thing.x = 1000
    assert case.holds(thing)
    thing.__dict__ = {"x": 1001}
    assert not case.holds(thing)
    thing.__dict__ = {"x": big(1000)}
    assert case.holds(thing)


def test_cleared_and_refilled_dict():
    case, thing = attribute_case(), Plain()
    thing.x = 1000
    assert case.holds(thing)
    thing.__dict__.clear()
    assert not case.holds(thing)
    thing.__dict__.update(x=1001)
    assert not case.holds(thing)
    thing.__dict__.clear()
    thing.__dict__.update(x=1000)
    assert case.holds(thing)


def test_deleted_and_readded_key():
    case, thing = attribute_case(), Plain()
    thing.x = 1000
    assert case.holds(thing)
    del thing.x
    thing.x = 1001
    assert not case.holds(thing)
    del thing.x
    thing.x = 1000
    assert case.holds(thing)


def test_reused_addresses():
    """Objects, dicts and values that come and go at the same addresses."""
    case = attribute_case()
    key_case = Case(node(g.ACCESS_ARG, 0), node(g.ACCESS_KEY, "x", (g.CHECK_EQUAL, 1000), parent=0))
    addresses = set()
    for i in range(2000):
        thing = Plain()
        thing.x = big(1000 + i % 2)
        addresses.add(id(thing.__dict__))
        assert case.holds(thing) == (i % 2 == 0)
        assert key_case.holds(thing.__dict__) == (i % 2 == 0)
        del thing
    assert len(addresses) < 1000


def test_many_objects_through_one_node():
    case = attribute_case()
    things = [Plain() for _ in range(10)]
    for i, thing in enumerate(things):
        thing.x = 1000 + i
    for _ in range(3):
        assert [case.holds(thing) for thing in things] == [True] + [False] * 9


def test_specialised_stores_change_versions():
    """The specialising interpreter has store instructions of its own."""
    case, thing = attribute_case(), Plain()
    thing.x = 1000

    def store(value):
        thing.x = value

    for i in range(200):
        value = 1000 + i % 3
        store(value)
        assert case.holds(thing) == (value == 1000)


def test_class_lookups():
    class Base:
        pass

    class Derived(Base):
        def method(self):
            pass

    method = Derived.method
    lookups = ((Derived, (("method", method), ("extra", g.MISSING))),)
    case = Case(types=lookups)
    assert case.holds() and case.holds()
    Derived.method = function
    assert case.failure() == (g.FAILED_CLASS, 0, None, "method")
    Derived.method = method
    assert case.holds() and case.holds()
    Base.extra = 1
    assert case.failure() == (g.FAILED_CLASS, 0, None, "extra")
    del Base.extra
    assert case.holds()
    Derived.unrelated = 1
    assert case.holds()
    Base.method = function  # hidden by Derived's
    assert case.holds()
    del Derived.method
    assert case.failure() == (g.FAILED_CLASS, 0, None, "method")
    Derived.method = method
    assert case.holds()


def test_class_that_runs_out_of_versions():
    """CPython 3.12 gives a class a limited number of versions."""

    class Changing:
        a = function

    case = Case(types=((Changing, (("a", function),)),))
    for i in range(1500):
        Changing.b = i
        assert case.holds()
    Changing.a = 1
    assert not case.holds()
    Changing.a = function
    assert case.holds()


def test_type_lookups_of_second_class_are_reported_with_its_index():
    case = Case(types=((int, (("real", int.real),)), (str, (("real", 1),))))
    assert case.failure() == (g.FAILED_CLASS, 1, None, "real")


# ---- storages ----


def storage_case(groups):
    count = len(groups)
    nodes = [node(g.ACCESS_ARG, i, slot=i) for i in range(count)]
    return Case(*nodes, storages=(tuple(range(count)), tuple(groups)))


def test_storages():
    x, y = torch.zeros(4), torch.zeros(4)
    case = storage_case([5, 5, 7])
    assert case.holds(x, x.view(2, 2), y)
    assert case.holds(x, x, y)
    assert case.failure(x, y, y) == (g.FAILED_STORAGE, 1, None, y)
    failure = case.failure(x, x[1:], x[2:])
    assert (failure.kind, failure.position) == (g.FAILED_STORAGE, 2) and torch.equal(failure.found, x[2:])
    assert not case.holds(x, x, 3)
    assert storage_case([]).holds()


def test_storages_of_tensors_without():
    sparse = torch.eye(2).to_sparse()
    assert storage_case([0, 1]).holds(sparse, torch.eye(2).to_sparse())
    assert not storage_case([0, 0]).holds(sparse, torch.eye(2).to_sparse())
    assert storage_case([0, 0]).holds(sparse, sparse)


def test_many_storages():
    tensors = [torch.zeros(1) for _ in range(500)]
    case = storage_case([*range(500), 250])
    assert case.holds(*tensors, tensors[250])
    assert not case.holds(*tensors, tensors[251])
    assert not case.holds(*tensors, torch.zeros(1))
    tensors[3] = tensors[4]
    assert not case.holds(*tensors, tensors[250])


# ---- global state ----


class Mode(torch.overrides.TorchFunctionMode):
    pass


class DispatchMode(torch.utils._python_dispatch.TorchDispatchMode):
    pass


class Switch:
    """Sets something and puts it back."""

    def __init__(self, setter, value, old):
        self.setter, self.value, self.old = setter, value, old

    def __enter__(self):
        self.setter(self.value)

    def __exit__(self, *exception):
        self.setter(self.old)


def setter(owner, name):
    return lambda value: setattr(owner, name, value)


STATES = {
    "grad mode: expected True, found False": torch.no_grad,
    "inference mode: expected False, found True": torch.inference_mode,
    "autocast enabled (cpu): expected False, found True": lambda: torch.autocast("cpu"),
    "autocast enabled (cuda): expected False, found True": lambda: Switch(
        lambda on: torch.set_autocast_enabled("cuda", on), True, False
    ),
    "autocast dtype (cpu): expected torch.bfloat16, found torch.float16": lambda: Switch(
        lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16
    ),
    "autocast dtype (cuda): expected torch.float16, found torch.bfloat16": lambda: Switch(
        lambda dtype: torch.set_autocast_dtype("cuda", dtype), torch.bfloat16, torch.float16
    ),
    "autocast cache enabled: expected True, found False": lambda: Switch(
        torch.set_autocast_cache_enabled, False, True
    ),
    "default dtype: expected torch.float32, found torch.float64": lambda: Switch(
        torch.set_default_dtype, torch.float64, torch.float32
    ),
    "deterministic algorithms: expected False, found True": lambda: Switch(
        torch.use_deterministic_algorithms, True, False
    ),
    "deterministic algorithms warn only: expected False, found True": lambda: Switch(
        lambda on: torch.use_deterministic_algorithms(on, warn_only=on), True, False
    ),
    "deterministic fill: expected True, found False": lambda: Switch(
        setter(torch.utils.deterministic, "fill_uninitialized_memory"), False, True
    ),
    "float32 matmul precision (cuda): expected ieee, found tf32": lambda: Switch(
        torch.set_float32_matmul_precision, "high", "highest"
    ),
    "float32 matmul precision (mkldnn): expected ieee, found bf16": lambda: Switch(
        torch.set_float32_matmul_precision, "medium", "highest"
    ),
    "float32 conv precision (cuda): expected": lambda: torch.backends.cudnn.flags(
        enabled=True, allow_tf32=False
    ),
    "flash sdp: expected True, found False": lambda: torch.nn.attention.sdpa_kernel(
        torch.nn.attention.SDPBackend.MATH
    ),
    "math sdp: expected True, found False": lambda: torch.nn.attention.sdpa_kernel(
        torch.nn.attention.SDPBackend.FLASH_ATTENTION
    ),
    "torch function modes: expected [], found [Mode]": Mode,
    "torch function modes: expected [], found [device meta]": lambda: torch.device("meta"),
    "anomaly detection: expected False, found True": torch.autograd.detect_anomaly,
    "cudnn: expected True, found False": lambda: torch.backends.cudnn.flags(enabled=False),
    "mkldnn: expected True, found False": lambda: torch.backends.mkldnn.flags(enabled=False),
    "torch function: expected enabled, found disabled for subclasses": (
        torch._C.DisableTorchFunctionSubclass
    ),
    "torch function: expected enabled, found disabled": torch._C.DisableTorchFunction,
    "torch dispatch modes: expected 0, found 1": DispatchMode,
    "excluded dispatch keys: expected": lambda: torch._C._ExcludeDispatchKeyGuard(
        torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    ),
}


def lines(state):
    """What differs, in words."""
    return [
        f"{each.name}: expected {state_value(each.expected)}, found {state_value(each.found)}"
        for each in state.diff()
    ]


@pytest.mark.parametrize("line", STATES)
def test_global_state(line):
    torch.set_float32_matmul_precision("highest")
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
        state = g.GlobalState()
        case = Case(state=state)
        assert case.holds() and state.diff() == []
        with STATES[line]():
            assert any(found.startswith(line) for found in lines(state)), lines(state)
            assert case.failure() == (g.FAILED_STATE, None, None, state.diff())
            now = g.GlobalState().values()
            assert all(each.found == now[each.name] for each in state.diff())
            assert all(each.expected == state.values()[each.name] for each in state.diff())
            assert not case.holds()
        assert case.holds() and state.diff() == []


def test_modes_are_counted_and_a_device_is_any_of_that_device():
    with Mode():
        state = g.GlobalState()
        case = Case(state=state)
        assert case.holds()
    with Mode():
        assert state.diff() == []  # which one it is has guards of its own
    with Mode(), Mode():
        assert state.diff() == [("torch function modes", ("Mode",), ("Mode", "Mode"))]
        assert lines(state) == ["torch function modes: expected [Mode], found [Mode, Mode]"]
        assert not case.holds()
    with torch.device("cpu"):
        assert state.diff() == [("torch function modes", ("Mode",), (torch.device("cpu"),))]
        assert lines(state) == ["torch function modes: expected [Mode], found [device cpu]"]
    with torch.device("cpu"):
        case = Case(state=g.GlobalState())
    with torch.device("cpu"):
        assert case.holds()
    with torch.device("meta"):
        assert not case.holds()


def test_global_state_ignores_threads():
    state, threads = g.GlobalState(), torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert state.diff() == []
    finally:
        torch.set_num_threads(threads)


# ---- tensor specs ----


class Sub(torch.Tensor):
    pass


def same(spec, tensor):
    assert spec.matches(tensor) == (spec.diff(tensor) is None)
    return spec.matches(tensor)


def base():
    return torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (lambda: base().double(), (g.TENSOR_DTYPE, None, torch.float32, torch.float64)),
        (lambda: base().to("meta"), (g.TENSOR_DEVICE, None, torch.device("cpu"), torch.device("meta"))),
        (lambda: torch.zeros(2, 5), (g.TENSOR_SIZE, 1, 3, 5)),
        (lambda: torch.zeros(2, 3, 1), (g.TENSOR_DIM, None, 2, 3)),
        (lambda: torch.zeros(3, 2).t(), (g.TENSOR_STRIDE, 0, 3, 1)),
        (lambda: base().requires_grad_(), (g.TENSOR_REQUIRES_GRAD, None, False, True)),
        (lambda: base().to_sparse(), (g.TENSOR_LAYOUT, None, torch.strided, torch.sparse_coo)),
        (lambda: base().as_subclass(Sub), (g.TENSOR_TYPE, None, torch.Tensor, Sub)),
        (lambda: torch.nn.Parameter(base()), (g.TENSOR_TYPE, None, torch.Tensor, torch.nn.Parameter)),
        (lambda: None, (g.TENSOR_TYPE, None, torch.Tensor, type(None))),
        (lambda: 3, (g.TENSOR_TYPE, None, torch.Tensor, int)),
    ],
)
def test_spec_differences(other, difference):
    spec = g.TensorSpec(base())
    assert same(spec, base()) and same(spec, torch.ones(2, 3))
    assert not same(spec, other())
    assert spec.diff(other()) == difference


def test_spec_of_other_tensors():
    makers = [
        lambda: torch.nn.Parameter(base()),
        lambda: torch.nn.Parameter(base(), requires_grad=False),
        lambda: base().as_subclass(Sub),
        lambda: torch.tensor(1.5),
        lambda: torch.zeros(0, 3),
        lambda: torch.zeros(2, 3, dtype=torch.complex64),
        lambda: torch.zeros(2, 3, dtype=torch.complex64).conj(),
        lambda: torch.zeros(2, 3, dtype=torch.complex64).conj().imag,
        lambda: base().to_sparse(),
        lambda: torch.zeros(3, 3).to_sparse(),
        lambda: base().to_sparse_csr(),
        lambda: base().to_sparse_csc(),
        lambda: base().to_mkldnn(),
        lambda: torch.quantize_per_tensor(base(), 1.0, 0, torch.qint8),
        lambda: torch.zeros(2, 3, device="meta"),
        lambda: torch.zeros(1).expand(2, 3),
        lambda: base().requires_grad_() * 2,
        lambda: torch._to_functional_tensor(base()),
    ]
    if not torch.backends.mkldnn.is_available():
        makers = [make for make in makers if "mkldnn" not in repr(make())]
    for i, make in enumerate(makers):
        spec = g.TensorSpec(make())
        assert repr(spec)
        assert [same(spec, other()) for other in makers] == [j == i for j in range(len(makers))]


def test_spec_of_an_inference_tensor():
    with torch.inference_mode():
        inference = base()
    spec = g.TensorSpec(base())
    found = spec.diff(inference)
    assert found.fact == g.TENSOR_KEYS and "DispatchKeySet" in found.expected != found.found
    assert same(g.TensorSpec(inference), inference)


def test_spec_changes_with_the_tensor():
    x = base()
    spec = g.TensorSpec(x)
    x.requires_grad_()
    assert not same(spec, x)
    x.requires_grad_(False)
    assert same(spec, x)
    x.resize_(3, 2)
    assert not same(spec, x)
    x.resize_(2, 3)
    assert same(spec, x)
    x.data = torch.zeros(2, 3, dtype=torch.float64)
    assert not same(spec, x)


def test_spec_offset():
    x = torch.zeros(10)
    assert same(g.TensorSpec(x[0:2]), x[2:4])
    offset = check(g.CHECK_OFFSET, 0)
    assert offset(x[0:2]) and not offset(x[2:4])


def test_dynamic_dims():
    spec = g.TensorSpec(torch.zeros(4, 3), dynamic=(0,))
    assert same(spec, torch.zeros(7, 3)) and same(spec, torch.zeros(1, 3))
    assert spec.diff(torch.zeros(7, 4)) == (g.TENSOR_SIZE, 1, 3, 4)
    assert spec.diff(torch.zeros(3, 7).t()) == (g.TENSOR_STRIDE, 1, 1, 7)
    inner = g.TensorSpec(torch.zeros(4, 3), dynamic=[1])
    assert same(inner, torch.zeros(4, 9))
    assert inner.diff(torch.zeros(4, 20)[:, :9]) == (g.TENSOR_STRIDE, 0, 9, 20)
    both = g.TensorSpec(torch.zeros(2, 3, 4, 5), dynamic=(0, 1, 2, 3))
    assert same(both, torch.zeros(3, 9, 7, 8))
    assert not same(both, torch.zeros(3, 9, 7, 8).to(memory_format=torch.channels_last))
    assert not same(both, torch.zeros(3, 9, 7))
    for dynamic in ((2,), (-1,)):
        with pytest.raises(ValueError):
            g.TensorSpec(torch.zeros(4, 3), dynamic=dynamic)


def test_dynamic_channels_last():
    def make(*sizes):
        return torch.zeros(sizes).to(memory_format=torch.channels_last)

    spec = g.TensorSpec(make(2, 3, 4, 5), dynamic=(0, 2, 3))
    assert same(spec, make(6, 3, 8, 9))
    assert not same(spec, torch.zeros(6, 3, 8, 9))


def test_dynamic_with_fixed_strides():
    rows = g.TensorSpec(torch.zeros(4, 8)[:, :3], dynamic=(0,))
    assert same(rows, torch.zeros(9, 8)[:, :3])
    assert not same(rows, torch.zeros(9, 7)[:, :3])
    assert not same(rows, torch.zeros(9, 3))
    expanded = g.TensorSpec(torch.zeros(1, 3).expand(4, 3), dynamic=(0,))
    assert same(expanded, torch.zeros(1, 3).expand(6, 3))
    assert not same(expanded, torch.zeros(6, 3))
    ones = g.TensorSpec(torch.zeros(2, 1, 3), dynamic=(2,))
    assert same(ones, torch.zeros(2, 1, 5))
    empty = g.TensorSpec(torch.zeros(0, 3), dynamic=(0,))
    assert same(empty, torch.zeros(5, 3))
    assert same(g.TensorSpec(torch.zeros(5, 3), dynamic=(1,)), torch.zeros(5, 0))
    sparse = g.TensorSpec(torch.eye(3).to_sparse(), dynamic=(0,))
    assert same(sparse, torch.zeros(5, 3).to_sparse()) and not same(sparse, torch.zeros(3, 5).to_sparse())


def test_free_strides():
    columns = g.TensorSpec(torch.zeros(4, 8)[:, :3], free_strides=(0, 1))
    assert columns.strides == (None, None) and columns.own_strides == {0: None, 1: None}
    assert same(columns, torch.zeros(4, 7)[:, :3]) and not same(columns, torch.zeros(5, 7)[:, :3])
    blocks = g.TensorSpec(torch.zeros(2, 8, 3)[:, :4], free_strides=(0,))
    assert blocks.strides == (None, None, 1) and blocks.own_strides == {0: None}
    assert same(blocks, torch.zeros(2, 9, 3)[:, :4]) and not same(blocks, torch.zeros(2, 9, 4)[:, :4, :3])
    assert g.TensorSpec(torch.zeros(2, 8, 3)[:, :4]).own_strides == {0: 24}
    assert (
        g.TensorSpec(torch.zeros(2, 3, 4)).own_strides
        == g.TensorSpec(torch.zeros(3).expand(2, 3)).own_strides
        == {}
    )
    assert g.TensorSpec(torch.eye(3).to_sparse()).own_strides == {}


def test_spec_properties():
    spec = g.TensorSpec(torch.nn.Parameter(torch.zeros(2, 3)))
    assert (spec.type, spec.dtype, spec.device) == (torch.nn.Parameter, torch.float32, torch.device("cpu"))
    assert (spec.sizes, spec.strides, spec.requires_grad) == ((2, 3), (3, 1), True)
    assert repr(spec) == (
        "TensorSpec(torch.nn.parameter.Parameter, torch.float32, cpu, sizes=(2, 3), strides=(3, 1),"
        " requires_grad=True)"
    )
    dynamic = g.TensorSpec(torch.zeros(2, 3), dynamic=(1,))
    assert (dynamic.sizes, dynamic.strides) == ((2, None), (None, 1))
    assert "sizes=(2, *), strides=(*, 1)" in repr(dynamic)
    sparse = g.TensorSpec(torch.eye(2).to_sparse())
    assert sparse.strides is None and "layout=Sparse" in repr(sparse)


def test_spec_of_what_cannot_be_described():
    with pytest.raises(TypeError):
        g.TensorSpec(3)
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    with pytest.raises(ValueError, match="nested"):
        g.TensorSpec(nested)


def test_spec_of_symbolic_sizes():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = mode.from_tensor(torch.zeros(4, 3), static_shapes=False)
    with pytest.raises(ValueError, match="must be dynamic"):
        g.TensorSpec(fake)
    spec = g.TensorSpec(fake, dynamic=(0, 1))
    assert same(spec, fake)
    static = mode.from_tensor(torch.zeros(4, 3), static_shapes=True)
    assert spec.diff(static) == (g.TENSOR_SYMBOLIC, None, True, False)
    assert g.TensorSpec(static).diff(fake) == (g.TENSOR_SIZE, 0, 4, None)
    assert not same(spec, static) and not same(g.TensorSpec(static), fake)


class Wrapper(torch.Tensor):
    """A subclass that answers in Python."""

    @staticmethod
    def __new__(cls, sizes):
        return torch.Tensor._make_wrapper_subclass(
            cls, sizes, dispatch_sizes_strides_policy="sizes", dispatch_device=True, dispatch_layout=True
        )

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("Python code ran")


def test_spec_never_asks_a_subclass():
    spec = g.TensorSpec(Wrapper((2, 3)))
    assert same(spec, Wrapper((2, 3)))
    assert not same(spec, Wrapper((2, 4)))
    assert not same(g.TensorSpec(base()), Wrapper((2, 3)))


def test_spec_never_asks_instancecheck():
    class Meta(type(torch.Tensor)):
        def __instancecheck__(cls, instance):
            raise AssertionError("Python code ran")

    class Picky(torch.Tensor, metaclass=Meta):
        pass

    assert same(g.TensorSpec(base().as_subclass(Picky)), base().as_subclass(Picky))
    assert not same(g.TensorSpec(base().as_subclass(Picky)), base())


# ---- cache and dispatch ----


def typed_entry(kind, region):
    return g.Entry(g.Program([node(g.ACCESS_ARG, 0, (g.CHECK_TYPE, kind), slot=0)], 1), region)


def test_dispatch():
    cache = g.Cache()
    assert len(cache) == 0 and cache.dispatch(function, [1]) is g.MISS
    ints = typed_entry(int, lambda value: value + 1)
    texts = typed_entry(str, str.upper)
    cache.add(ints)
    cache.add(texts)
    assert cache.entries() == [texts, ints]
    assert cache.dispatch(function, [1]) == 2
    assert cache.entries() == [ints, texts]
    assert cache.dispatch(function, ["a"]) == "A"
    assert cache.dispatch(function, ["b"]) == "B"
    assert cache.entries() == [texts, ints]
    assert cache.dispatch(function, [2.5]) is g.MISS
    assert (cache.hits, cache.misses, ints.hits, texts.hits) == (3, 2, 1, 2)
    cache.remove(texts)
    assert cache.entries() == [ints]
    with pytest.raises(ValueError):
        cache.remove(texts)
    cache.clear()
    assert len(cache) == 0
    with pytest.raises(TypeError):
        cache.add(3)


def test_entry():
    program, info = g.Program([], 0), {"a": 1}
    entry = g.Entry(program, len, info)
    assert (entry.program, entry.region, entry.info, entry.hits) == (program, len, info, 0)
    entry.info = 3
    assert entry.info == 3
    del entry.info
    assert entry.info is None
    with pytest.raises(AttributeError):
        entry.program = None
    with pytest.raises(TypeError):
        g.Entry(program, 3)
    with pytest.raises(TypeError):
        g.Entry(3, len)


def test_sentinels():
    assert (repr(g.MISS), repr(g.MISSING)) == ("MISS", "MISSING")
    with pytest.raises(TypeError):
        type(g.MISS)()


@pytest.mark.parametrize("count", [0, 1, 15, 16, 100])
def test_region_arguments(count):
    nodes = [node(g.ACCESS_ARG, i, slot=count - 1 - i) for i in range(count)]
    cache = g.Cache()
    cache.add(g.Entry(g.Program(nodes, count), lambda *values: values))
    args = [Plain() for _ in range(count)]
    references = [sys.getrefcount(arg) for arg in args]
    assert cache.dispatch(function, args) == tuple(reversed(args))
    assert [sys.getrefcount(arg) for arg in args] == references


def test_region_that_raises():
    cache = g.Cache()
    cache.add(typed_entry(int, lambda value: 1 / value))
    with pytest.raises(ZeroDivisionError):
        cache.dispatch(function, [0])
    assert cache.dispatch(function, [2]) == 0.5


def test_region_that_changes_the_cache():
    cache = g.Cache()

    def region(value):
        cache.clear()
        gc.collect()
        cache.add(typed_entry(str, str.upper))
        return value + 1

    cache.add(typed_entry(int, region))
    del region
    assert cache.dispatch(function, [1]) == 2
    assert cache.dispatch(function, [1]) is g.MISS
    assert cache.dispatch(function, ["a"]) == "A"


def test_recursion():
    cache = g.Cache()

    def countdown(value):
        return 0 if value == 0 else 1 + cache.dispatch(function, [value - 1])

    cache.add(typed_entry(str, len))
    cache.add(typed_entry(int, countdown))
    assert cache.dispatch(function, [150]) == 150
    assert cache.hits == 151
    with pytest.raises(RecursionError):
        cache.dispatch(function, [10**6])
    assert cache.dispatch(function, [10]) == 10


def test_nested_programs_share_memories():
    """A region enters its own program again with other objects."""
    cache, things = g.Cache(), [Plain() for _ in range(5)]
    for i, thing in enumerate(things):
        thing.x = i
    program = g.Program([node(g.ACCESS_ARG, 0), node(g.ACCESS_ATTR, "x", parent=0, slot=0)], 1)

    def region(x):
        return [x] if x == 4 else [x, *cache.dispatch(function, [things[x + 1]])]

    cache.add(g.Entry(program, region))
    assert cache.dispatch(function, [things[0]]) == [0, 1, 2, 3, 4]


def test_capsule():
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # The result as an address: ctypes can't take NULL without an exception for an object.
    prototype = ctypes.PYFUNCTYPE(
        ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.POINTER(ctypes.py_object),
        ctypes.c_ssize_t,
    )  # fmt: skip
    dispatch = prototype(pointer(g.dispatch, b"framelift._guards.dispatch"))
    cache = g.Cache()
    cache.add(typed_entry(int, lambda value: value + 1))
    assert dispatch(cache, function, (ctypes.py_object * 1)(41), 1) == id(42)
    assert dispatch(cache, function, (ctypes.py_object * 1)("text"), 1) is None
    assert dispatch(cache, function, (ctypes.py_object * 1)(), 1) is None  # an unbound local
    assert dispatch(cache, function, None, 0) is None
    assert (cache.hits, cache.misses) == (1, 3)


# ---- memory ----


def test_evaluation_does_not_leak():
    x = torch.ones(2, 3, requires_grad=True)
    x.sum().backward()
    thing = Plain()
    thing.x, thing.mapping, thing.queue = x, {"k": [1]}, collections.deque([Plain()])
    program = g.Program(
        [
            node(g.ACCESS_ARG, 0, (g.CHECK_TYPE, Plain), slot=0),
            node(g.ACCESS_ATTR, "x", (g.CHECK_TENSOR, g.TensorSpec(x)), parent=0, slot=1),
            node(g.ACCESS_GRAD, None, parent=1, slot=2),
            node(g.ACCESS_ATTR, "mapping", (g.CHECK_KEYS, ("k",)), parent=0),
            node(g.ACCESS_KEY, "k", (g.CHECK_LEN, 1), parent=3, slot=3),
            node(g.ACCESS_ATTR, "queue", parent=0),
            node(g.ACCESS_DEQUE_ITEM, 0, parent=5, slot=4),
            node(g.ACCESS_NATIVE_ATTR, "shape", (g.CHECK_EQUAL, x.shape), parent=1),
            node(g.ACCESS_ITEM, 0, (g.CHECK_EQUAL, 1), parent=4),
        ],
        5,
        g.GlobalState(),
        [(Plain, (("nothing", g.MISSING),))],
        ((1, 2), (0, 1)),
    )
    cache = g.Cache()
    cache.add(g.Entry(program, lambda *values: None))

    def round_trip():
        assert program.check(function, [thing]) is None
        assert program.collect(function, [thing]) is not None
        assert cache.dispatch(function, [thing]) is None
        thing.mapping["k"][0] = 2
        assert program.check(function, [thing]) == (g.FAILED_CHECK, 8, 0, 2)
        assert cache.dispatch(function, [thing]) is g.MISS
        thing.mapping["k"][0] = 1

    watched = [thing, x, x.grad, thing.mapping, thing.mapping["k"], thing.queue[0], program, function]
    for _ in range(10):
        round_trip()
    gc.collect()
    counts, blocks = [sys.getrefcount(each) for each in watched], sys.getallocatedblocks()
    for _ in range(10_000):
        round_trip()
    gc.collect()
    assert [sys.getrefcount(each) for each in watched] == counts
    assert abs(sys.getallocatedblocks() - blocks) < 20


def test_construction_does_not_leak():
    class Local:
        pass

    def build():
        spec, thing = g.TensorSpec(torch.ones(2)), Local()
        checks = [(g.CHECK_TENSOR, spec), (g.CHECK_ELEMENTS_IN_ORDER, (1,)), (g.CHECK_IS, thing)]
        nodes = [node(g.ACCESS_ARG, 0, *checks), node(g.ACCESS_ATTR, "name", parent=0, slot=0)]
        program = g.Program(nodes, 1, g.GlobalState(), [(Local, (("a", thing),))], ((0,), (3,)))
        cache = g.Cache()
        cache.add(g.Entry(program, len, thing))
        spec.diff(3), repr(spec), spec.sizes, spec.strides, spec.device, spec.dtype
        g.GlobalState().values(), program.check(function, [3])
        with pytest.raises(ValueError):
            g.Program([*nodes, node(99)], 1)

    for _ in range(10):
        build()
    gc.collect()
    count, blocks = sys.getrefcount(Local), sys.getallocatedblocks()
    for _ in range(1000):
        build()
    gc.collect()
    assert sys.getrefcount(Local) == count
    assert abs(sys.getallocatedblocks() - blocks) < 20


@pytest.mark.parametrize("place", ["region", "info", "operand", "check", "class", "expected"])
def test_cycles_are_collected(place):
    class Local:
        pass

    thing = Local()
    cache = thing.cache = g.Cache()
    region = (lambda kept=thing: kept) if place == "region" else len
    nodes = [
        node(g.ACCESS_CONST, thing if place == "operand" else None),
        node(g.ACCESS_CONST, None, (g.CHECK_IS_NOT, thing if place == "check" else 0)),
    ]
    lookups = []
    if place == "class":
        Local.cache = cache
        lookups = [(Local, ())]
    elif place == "expected":
        lookups = [(int, (("nothing", thing),))]
    entry = g.Entry(g.Program(nodes, 0, types=lookups), region, thing if place == "info" else None)
    cache.add(entry)
    watch = weakref.ref(Local if place == "class" else thing)
    del thing, cache, region, nodes, lookups, entry, Local
    gc.collect()
    assert watch() is None


def test_no_collection_during_an_evaluation():
    """Making an instance's dict can start a garbage collection, and that runs finalizers."""

    class Noisy:
        def __init__(self):
            self.cycle = self

        def __del__(self):
            ran.append(bool(walking))

    class Begins:
        def __call__(self):
            for _ in range(len(things) % 4):
                Noisy()
            walking.append(True)

        value = property(operator.call)  # a property of C's, but it calls Python

    class Ends(functools.partial):
        value = property(operator.call)  # and this calls C: no Python code is entered before the walk ends

    ran, walking, things = [], [], []  # things: kept, so that every dict is a new one
    begins, ends = Begins(), Ends(walking.clear)
    program = g.Program(
        [
            node(g.ACCESS_CONST, begins),
            node(g.ACCESS_NATIVE_ATTR, "value", parent=0),
            node(g.ACCESS_ARG, 0),
            node(g.ACCESS_ATTR, "x", parent=2),
            node(g.ACCESS_CONST, ends),
            node(g.ACCESS_NATIVE_ATTR, "value", parent=4),
        ],
        0,
    )
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(1, 1, 1)
        for _ in range(200):
            thing = Plain()
            thing.x = 1000
            things.append(thing)
            assert program.collect(function, [thing]) == []
    finally:
        gc.set_threshold(*thresholds)
    assert gc.isenabled()
    assert ran and not any(ran)


# ---- history ----


def test_fake_history():
    x = torch.zeros(2, 3, requires_grad=True).as_subclass(Sub).detach().requires_grad_()
    assert x.is_leaf
    g.fake_history(x)
    assert x.requires_grad and not x.is_leaf
    assert x.grad_fn.name() == "CapturedBackward"
    with pytest.raises(RuntimeError, match="no backward"):
        torch.Tensor.sum(x).backward()
    fresh = base()
    g.fake_history(fresh)
    assert fresh.requires_grad and not fresh.is_leaf
    with pytest.raises(RuntimeError):
        g.fake_history(torch.zeros(2, dtype=torch.int64))
    with pytest.raises(TypeError):
        g.fake_history(3)


def test_fake_history_of_a_fake_tensor():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(2, 3, device="meta").detach()
    g.fake_history(fake)
    assert fake.requires_grad and not fake.is_leaf
