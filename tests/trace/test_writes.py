"""What a captured function writes to the outside is what it writes eagerly: the same objects, in place."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import sys
import types
from typing import Any

import pytest
import torch

import framelift
from check import Bag, capture
from sameness import State, alike, check_calls


def x2() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


class Box:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Slots:
    __slots__ = ("a", "b", "gone")

    def __init__(self) -> None:
        self.a, self.b = 1, [2]


class Logged:
    """Attributes go through the class's own methods."""

    def __init__(self) -> None:
        object.__setattr__(self, "log", [])
        object.__setattr__(self, "_x", 1)

    def __setattr__(self, name: str, value: Any) -> None:
        self.log.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self.log.append(f"del {name}")
        object.__delattr__(self, name)

    @property
    def x(self) -> Any:
        return self._x

    @x.setter
    def x(self, value: Any) -> None:
        self._x = value

    @x.deleter
    def x(self) -> None:
        self._x = None


class Positive:
    """A data descriptor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        return self if obj is None else obj.__dict__.get(self.name, 0)

    def __set__(self, obj: Any, value: Any) -> None:
        obj.__dict__[self.name] = abs(value)


class Measured:
    size = Positive()


class Names(list):
    def __init__(self, *items: Any) -> None:
        super().__init__(items)
        self.changes = 0

    def append(self, item: Any) -> None:
        self.changes += 1
        super().append(item)


class Table(dict):
    __slots__ = ("hits", "unset")


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=list)


# ---- attributes


def set_and_add(x, box):
    box.n = 5
    box.calls += 1
    box.fresh = x + box.n
    return box.fresh * 2


def set_many_in_order(x, box):
    box.c, box.b, box.a = 1, 2, 3
    box.c = x + 1


def delete(x, box):
    y = x + box.n
    del box.n
    box.n = 1
    box.calls = y


def delete_for_good(x, box):
    if hasattr(box, "items"):
        box.kept = x + 1
        del box.items


def set_then_delete(x, box):
    box.temporary = x + 1
    y = box.temporary * 2
    del box.temporary
    box.n = y


def set_then_read(x, box):
    box.n = x + 1
    return box.n * 2, box


def swap(x, box):
    box.n, box.items = box.items, box.n
    return x + 1


def rotate_between_objects(x, a, b):
    a.n, b.n = b.n, a.n
    a.other, b.other = b, a
    return x + 1


def through_dict(x, box):
    box.__dict__["n"] = x + 1
    vars(box)["new"] = 3
    return box.n * box.new


def dict_updated(x, box):
    d = vars(box)
    d.update(a=x + 1, n=7)
    del d["calls"]
    d["calls"] = 0
    return box.a, box.n, sorted(d)[0]


def deleted_then_through_dict(x, box):
    del box.calls
    box.n = 4
    box.__dict__["n"] = x + 1
    box.__dict__["calls"] = len(vars(box))
    return box.n, "calls" in vars(box)


def set_by_name(x, box):
    for name in ("p", "q"):
        setattr(box, name, x + len(name))
    delattr(box, "p")
    return getattr(box, "p", None), box.q


def restored(x, box):
    before = box.n
    box.n = 100
    y = x + box.n
    box.n = before
    return y


def stores_itself(x, box):
    box.me = box
    box.pair = (box, x + 1)


def new_in_old(x, box):
    made = Box(owner=box, t=x + 1)
    box.child = made
    box.items.append(made)
    return made


def old_in_new(x, box):
    return Box(first=box, second=box.items, t=x + 1)


def moved(x, a, b):
    b.items, a.items = a.items, None
    b.items.append(x + 1)


def appended_to_attribute(x, box):
    box.items.append(x + len(box.items))
    box.items += [1]


def copied_attribute(x, box):
    box.items = [*box.items, x + 1]


def tensor_attribute(x, box):
    box.state = x + 1 if box.calls == 0 else box.state * 2 + x
    box.calls = 1
    return box.state


def by_callee(x, box):
    def bump(b, by):
        b.n += by
        return b.n

    return [x + bump(box, i) for i in range(3)]


def in_comprehension(x, box):
    return {k: box.items.append(k) for k in "ab"}, x + 1


def other_attribute_of_result(x, box):
    box.result = [x + 1]
    return box.result


ATTRIBUTES = [
    *(
        set_and_add,
        set_many_in_order,
        delete,
        delete_for_good,
        set_then_delete,
        set_then_read,
        swap,
        through_dict,
    ),
    *(
        dict_updated,
        deleted_then_through_dict,
        set_by_name,
        restored,
        stores_itself,
        new_in_old,
        old_in_new,
        appended_to_attribute,
    ),
    *(copied_attribute, tensor_attribute, by_callee, in_comprehension, other_attribute_of_result),
]


@pytest.mark.parametrize("program", ATTRIBUTES, ids=lambda fn: fn.__name__)
def test_attributes_are_written_as_eagerly(program):
    check_calls(lambda: (program, x2(), Box(n=3, calls=0, items=[1, 2])))


@pytest.mark.parametrize("program", [rotate_between_objects, moved], ids=lambda fn: fn.__name__)
def test_attributes_of_two_objects(program):
    check_calls(lambda: (program, x2(), Box(n=3, items=[1]), Box(n=4, items=[2])), calls=1)


@pytest.mark.parametrize("program", [rotate_between_objects], ids=lambda fn: fn.__name__)
def test_one_object_as_both(program):
    check_calls(lambda: (program, x2(), *[Box(n=3, items=[1])] * 2))


def slots_written(x, s):
    s.a += 1
    s.b.append(x + s.a)
    s.b, s.a = s.a, s.b
    s.gone = 1
    del s.gone
    s.a, s.b = s.b, s.a


def properties_set(x, logged):
    logged.x = x + 1
    logged.y = logged.x * 2
    logged.z = 1
    del logged.z
    del logged.x


def descriptor_set(x, measured):
    measured.size = -3
    measured.size += 1
    return x + measured.size


def bag_used(x, bag):
    bag["a"] = x + 1
    bag["b"] = bag["a"] * 2
    del bag["a"]
    bag += {"c": 3}
    return bag["c"]


def names_used(x, names):
    names.append(x + 1)
    names.changes += 10
    names.note = len(names)
    del names[0]


def table_used(x, table):
    table["a"] = x + 1
    table.hits += 1
    table.unset = table["b"]
    del table.unset


def config_used(x, config):
    config.scale *= 2
    config.names.append(config.scale)
    return x * config.scale


def namespace_used(x, space):
    space.a = x + 1
    space.b.append(space.a)


class Both:
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.slot, self.n = 1, 2


def slot_and_dict(x, both):
    both.slot += 1
    vars(both)["new"] = x + both.slot
    both.slot += 1
    del vars(both)["n"]
    both.n = sorted(vars(both))


def table() -> Table:
    made = Table(b=2)
    made.hits = 0
    return made


OBJECTS = {
    slots_written: Slots,
    properties_set: Logged,
    descriptor_set: Measured,
    bag_used: Bag,
    names_used: lambda: Names(1, 2),
    table_used: table,
    config_used: Config,
    namespace_used: lambda: types.SimpleNamespace(b=[]),
}


@pytest.mark.parametrize("program", OBJECTS, ids=lambda fn: fn.__name__)
def test_objects_of_all_kinds_are_changed_as_eagerly(program):
    check_calls(lambda: (program, x2(), OBJECTS[program]()))


def test_dict_of_an_object_with_slots_is_left_to_python():
    check_calls(lambda: (slot_and_dict, x2(), Both()), calls=2, fullgraph=False)


@pytest.mark.parametrize("written", ["object", "dictionary"])
def test_a_namespace_given_as_a_plain_dictionary_too(written):
    def fn(x, box, own):
        if written == "object":
            box.n = 5
        else:
            own["n"] = 5
        return x + own["n"] + box.n

    def make():
        box = Box(n=1)
        return fn, x2(), box, box.__dict__

    check_calls(make, fullgraph=False)


def name_written_through_globals(x: torch.Tensor) -> torch.Tensor:
    names = globals()  # a break: the dictionary is there as a value from here on
    names["written_through_globals"] = 5
    return x + written_through_globals  # type: ignore[name-defined]  # noqa: F821


def name_written_through_a_namespace(x: torch.Tensor, box: Box) -> torch.Tensor:
    names = vars(box)
    print(end="")
    names["late"] = 5
    return x + box.late  # type: ignore[attr-defined]


def test_a_name_that_its_dictionary_was_given() -> None:
    try:
        for _ in range(2):
            globals().pop("written_through_globals", None)
            found = framelift.compile(name_written_through_globals, backend="eager")(torch.ones(2))
            assert torch.equal(found, torch.ones(2) + 5)
            found = framelift.compile(name_written_through_a_namespace, backend="eager")(torch.ones(2), Box())
            assert torch.equal(found, torch.ones(2) + 5)
    finally:
        globals().pop("written_through_globals", None)


def test_an_object_with_slots_only_that_holds_none() -> None:
    def f(x: torch.Tensor, slots: Slots) -> Any:
        slots.a = slots.a or x.sum()
        return x + 1, slots.b is None

    def given() -> tuple[Any, ...]:
        made: Any = Slots()
        made.a = made.b = None
        return f, torch.ones(2), made

    check_calls(given, calls=1)


MISSING_SLOTS = {
    "read": lambda it: it.gone,
    "set": lambda it: setattr(it, "other", 1),
    "deleted": lambda it: delattr(it, "other"),
}


@pytest.mark.parametrize("act", MISSING_SLOTS.values(), ids=list(MISSING_SLOTS))
def test_what_python_says_of_slots(act: Any) -> None:
    def f(x: torch.Tensor, slots: Slots) -> Any:
        try:
            act(slots)
        except AttributeError as error:
            return x + 1, str(error)
        return x, None

    check_calls(lambda: (f, torch.ones(2), Slots()))


def test_dict_of_an_empty_object():
    def fn(x, box):
        found = vars(box)
        found[f"n{len(found)}"] = x + 1
        return box.__dict__ is found

    check_calls(lambda: (fn, x2(), Box()))


def test_names_written_in_the_order_of_their_first_write():
    def fn(x, box):
        box.first = 1
        box.second = x + 1
        box.first = 2

    check_calls(lambda: (fn, x2(), Box()), calls=1)


# ---- lists


LISTS = {
    "append": lambda x, l: l.append(x + 1),
    "extend": lambda x, l: l.extend([x + 1, l[0]]),
    "extend with itself": lambda x, l: (l.extend(l), x + 1),
    "insert": lambda x, l: l.insert(1, x + 1),
    "pop": lambda x, l: (l.pop(), l.pop(0), x + 1),
    "remove": lambda x, l: (l.remove(3), l.append(3), x + 1),
    "sort": lambda x, l: (l.sort(reverse=True), x + l[0]),
    "sort by key": lambda x, l: (l.sort(key=lambda v: -v), x + l[0]),
    "reverse": lambda x, l: (l.reverse(), x + l[0]),
    "item": lambda x, l: l.__setitem__(1, x + l[1] if isinstance(l[1], int) else x),
    "slice": lambda x, l: (l.__setitem__(slice(1, 3), [7, 8, 9]), x + l[1]),
    "extended slice": lambda x, l: (l.__setitem__(slice(None, None, 2), [0] * len(l[::2])), x + l[1]),
    "delete item": lambda x, l: (l.__delitem__(0), x + l[0], l.append(1)),
    "delete slice": lambda x, l: (l.__delitem__(slice(1, None)), x + l[0]),
    "clear": lambda x, l: (l.clear(), x + 1),
    "clear and fill": lambda x, l: (l.clear(), l.append(x + 1)),
    "swap": lambda x, l: (exec_swap(l), x + 1),
    "nested": lambda x, l: l.append([x + 1, [l]]),
    "holds itself": lambda x, l: (l.append(l), x + 1),
    "restored": lambda x, l: (l.append(1), x + len(l), l.pop()),
}


def exec_swap(items):
    items[0], items[-1] = items[-1], items[0]


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_changed_as_eagerly(name):
    check_calls(lambda: (LISTS[name], x2(), [3, 1, 2, 4]), calls=2)


def augmented(x, items):
    before = items
    items += [x + 1]
    items *= 2
    return before is items, items


def through_two_names(x, a, b):
    a.append(x + 1)
    b.append(2)
    return len(a), a is b


def test_lists_are_augmented_as_eagerly():
    check_calls(lambda: (augmented, x2(), [1]))


def test_one_list_through_two_names():
    check_calls(lambda: (through_two_names, x2(), *[[1]] * 2))


def test_the_same_code_with_one_list_and_then_two():
    one = [0]
    compiled = framelift.compile(through_two_names, backend="eager", fullgraph=True)
    two = [0], [0]
    assert compiled(x2(), *two)[1] is False and list(map(len, two)) == [2, 2]
    assert compiled(x2(), one, one)[1] is True and len(one) == 3
    two = [0], [0]
    assert compiled(x2(), *two)[1] is False and list(map(len, two)) == [2, 2]


def test_a_list_written_and_another_only_looked_up_may_turn_out_to_be_one():
    def fn(x, a, b):
        a["k"] = 1
        return x + b["k"]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1), {"k": 5}, {"k": 5}).item() == 5
    shared = {"k": 5}
    assert compiled(torch.zeros(1), shared, shared).item() == 1


def test_an_object_written_and_another_only_read_may_turn_out_to_be_one():
    def fn(x, a, b):
        a.n = 1
        return x + b.n

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1), Box(n=5), Box(n=5)).item() == 5
    shared = Box(n=5)
    assert compiled(torch.zeros(1), shared, shared).item() == 1


# ---- dictionaries


def reinserted(x, d):
    value = d.pop("a")
    d["a"] = value
    return x + 1


def iterated(x, d):
    for key in list(d):
        d[key + "_"] = d.pop(key)
    return x + 1


def keyed_by_object(x, d):
    key = next(iter(d))
    d[key] = x + 1
    d[("t", 1)] = 2


def merged(x, d):
    before = d
    d |= {"b": x + 1, "z": 0}
    return d is before


DICTS = {
    "set": lambda x, d: d.__setitem__("a", x + 1),
    "new key": lambda x, d: d.setdefault("new", x + 1),
    "setdefault of one that is there": lambda x, d: (d.setdefault("a", 5), x + 1),
    "delete": lambda x, d: (d.pop("a", None), x + 1),
    "update": lambda x, d: d.update(a=x + 1, y=2),
    "popitem": lambda x, d: (d.popitem(), x + 1, d.update(q=1)),
    "clear": lambda x, d: (d.clear(), x + 1),
    "clear and fill": lambda x, d: (d.clear(), d.update(z=x + 1, a=1)),
    "order": reinserted,
    "all keys": iterated,
    "merge": merged,
    "holds itself": lambda x, d: (d.__setitem__("me", d), x + 1),
    "other key": keyed_by_object,
    "items": lambda x, d: [d.__setitem__(k, (v, x + 1)) for k, v in list(d.items())],
}


@pytest.mark.parametrize("name", DICTS)
def test_dicts_are_changed_as_eagerly(name):
    check_calls(lambda: (DICTS[name], x2(), {"a": 1, "b": [2], "c": 3}), calls=2)


def ordered_moves(x, d):
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    d["b"] = x + 1


def ordered_pops(x, d):
    d.popitem(last=False)
    d["new"] = x + 1
    d["a"] = 9


def default_made(x, d):
    d["missing"].append(x + 1)
    d["missing"].append(d["other"])
    return "never" in d


def default_of_outside_function(x, d):
    return d["missing"] + x


def default_replaced(x, d):
    d["a"].append(x + 1)
    d.default_factory = dict if d.default_factory is list else list


def counted(x, c):
    for letter in "abca":
        c[letter] += 1
    c.update("zz")
    return x + c["z"]


MAPPINGS = {
    ordered_moves: lambda: collections.OrderedDict(a=1, b=2, c=3),
    ordered_pops: lambda: collections.OrderedDict(a=1, b=2, c=3),
    default_made: lambda: collections.defaultdict(list),
    default_of_outside_function: lambda: collections.defaultdict(lambda: 3),
    default_replaced: lambda: collections.defaultdict(list, a=[]),
    counted: lambda: collections.Counter(a=2),
}


@pytest.mark.parametrize("program", MAPPINGS, ids=lambda fn: fn.__name__)
def test_mappings_are_changed_as_eagerly(program):
    made = MAPPINGS[program]
    check_calls(lambda: (program, x2(), made()), calls=1 if program is ordered_pops else 2)


# ---- sets and deques


SETS = {
    "add": lambda x, s: (s.add(9), x + len(s)),
    "discard": lambda x, s: (s.discard(1), x + len(s)),
    "update": lambda x, s: (s.update({1, 7}), s.add("z"), x + 1),
    "clear": lambda x, s: (s.clear(), x + 1),
    "in place": lambda x, s: (s.__iand__({1, 2, 5}), s.__ior__({8}), x + len(s)),
    "new object": lambda x, s: s.add(Unhashed(x + 1)) or len(s),
}


class Unhashed:
    def __init__(self, t: Any) -> None:
        self.t = t

    def __hash__(self) -> int:
        return 3

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Unhashed)


GONE = []


class Finalised(dict):
    def __del__(self) -> None:
        GONE.append(self.get("n"))


def test_what_stands_for_a_container_is_not_finalised():
    def fn(x, table):
        table["n"] = 2
        return x + table["n"]

    GONE.clear()
    table = Finalised(n=1)
    assert framelift.compile(fn, backend="eager")(x2(), table).tolist() == (x2() + 2).tolist()
    assert GONE == []
    del table
    assert GONE == [2]


def test_attributes_of_an_ordered_dictionary():
    def fn(x, table):
        table.seen = table.seen + 1
        table.copied = x + table.seen

    def made():
        table = collections.OrderedDict(a=1)
        table.seen = 0
        return fn, x2(), table

    check_calls(made)


class Moody:
    """Hashes until it is told not to."""

    refuses = False

    def __hash__(self) -> int:
        if self.refuses:
            raise LookupError("moody")
        return 5


def test_a_key_that_does_not_hash_any_more():
    def fn(x, table):
        key = Moody()
        table[key] = x + 1
        key.refuses = True
        try:
            table[key]
        except LookupError:
            return len(table)

    (table,), (eager,) = [{}], [{}]
    assert framelift.compile(fn, backend="eager")(x2(), table) == fn(x2(), eager) == 1
    assert [type(key) for key in table] == [Moody]


@pytest.mark.parametrize("name", SETS)
def test_sets_are_changed_as_eagerly(name):
    check_calls(lambda: (SETS[name], x2(), {1, 2, 3}))


def roomy() -> set[int]:
    """A set whose table is larger than that of {1, 2, 3}: what is added lands elsewhere."""
    s = set(range(100))
    s -= {0, *range(4, 100)}
    return s


def popped() -> set[int]:
    """The next one it pops is not the first."""
    s = {1, 2, 3}
    s.add(s.pop())
    return s


HISTORIES = {
    "add": lambda x, s: (s.add(8), list(s), x + 1),
    "update": lambda x, s: (s.update([8, 16]), [x + e for e in s]),
    "another": lambda x, s: (s.add(8), list(s | {64}), x + 1),
    "pop": lambda x, s: (s.pop(), x + 1),
}


@pytest.mark.parametrize("made", [roomy, popped])
@pytest.mark.parametrize("name", HISTORIES)
def test_the_history_of_a_set_shows(name, made):
    check_calls(lambda: (HISTORIES[name], x2(), made()), calls=2, fullgraph=False)


DEQUES = {
    "append": lambda x, q: (q.appendleft(0), q.append(x + 1)),
    "pop": lambda x, q: (q.pop(), q.popleft(), q.extend([x + 1, 5])),
    "rotate": lambda x, q: (q.rotate(2), x + 1),
    "item": lambda x, q: q.__setitem__(0, x + 1),
    "clear": lambda x, q: (q.clear(), q.append(x + 1)),
    "extendleft": lambda x, q: q.extendleft([x + 1, 7]),
}


@pytest.mark.parametrize("maxlen", [None, 4])
@pytest.mark.parametrize("name", DEQUES)
def test_deques_are_changed_as_eagerly(name, maxlen):
    check_calls(lambda: (DEQUES[name], x2(), collections.deque([1, 2, 3, 4], maxlen)))


def test_an_iterator_over_a_deque_does_not_mind_other_items():
    def fn(x, q):
        q[1] = x + 1
        q[2] = 5

    q = collections.deque([1, 2, 3])
    held = iter(q)
    framelift.compile(fn, backend="eager")(x2(), q)
    assert [type(item) for item in held] == [int, torch.Tensor, int]


# ---- scopes

counter = 0
history: list[Any] = []


def globals_written(x):
    global counter, made_here, unmade
    counter += 1
    made_here = x + counter
    unmade = 1
    del unmade
    history.append(counter)
    return made_here


def test_globals_are_written_as_eagerly():
    def run(fn):
        global counter
        counter = 0
        history.clear()
        globals().pop("made_here", None)
        results = [fn(x2()) for _ in range(3)]
        return results, counter, list(history), made_here, "unmade" in globals()

    alike(run(globals_written), run(framelift.compile(globals_written, backend="eager", fullgraph=True)))


def test_attributes_of_python_modules_are_written_as_eagerly():
    module = types.ModuleType("made_for_test")
    module.n = 0
    module.items = []

    def fn(x, m):
        m.n += 1
        m.items.append(m.n)
        m.fresh = x + m.n
        return m.fresh

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in range(1, 4):
        torch.testing.assert_close(compiled(x2(), module), x2() + n)
        assert module.n == n and len(module.items) == n


def make_closure():
    total, items = 0, []

    def inner(x, by=2):
        nonlocal total
        total += by
        items.append(total)
        return x + total

    return inner, x2(), State([items])


def make_shared_closure():
    total = 0

    def add(x):
        nonlocal total
        total += 1
        return x + total

    def twice(x):
        nonlocal total
        total *= 2
        return add(add(x)) + total

    return twice, x2(), State([add, lambda: total])


def make_deleted_cell():
    value = [1]

    def inner(x):
        nonlocal value
        y = x + value[0]
        del value
        value = [y]
        value = [2]
        return y

    return inner, x2()


def make_new_function_in_cell():
    current = None

    def inner(x):
        nonlocal current
        y = x + 1
        current = lambda: y
        return y

    return inner, x2(), State([inner])


@pytest.mark.parametrize(
    "make",
    [make_closure, make_shared_closure, make_deleted_cell, make_new_function_in_cell],
    ids=lambda f: f.__name__,
)
def test_closure_cells_are_written_as_eagerly(make):
    check_calls(make)


def make_defaults():
    def inner(x, seen=[]):
        seen.append(len(seen))
        return x + len(seen)

    return inner, x2(), State([inner])


def test_a_default_that_is_changed():
    check_calls(make_defaults)


# ---- modules


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(1))
        self.calls = 0
        self.last = None
        self.log = []

    def forward(self, x):
        self.calls += 1
        self.last = self.linear(x)
        self.seen += 1
        self.log.append(self.calls)
        return self.last


class Rebinding(Counting):
    def forward(self, x):
        self.seen = self.seen + x.sum()
        return self.linear(x) * self.seen


class Registering(Counting):
    def forward(self, x):
        if not hasattr(self, "late"):
            self.register_buffer("late", x.sum())
            self.extra = torch.nn.Identity() if False else None
        return self.linear(x) + self.late


class Submodule(Counting):
    def forward(self, x):
        self.alias = self.linear
        self.add_module("second", self.linear)
        return self.second(x) + self.alias(x)


class Unregistering(Counting):
    def forward(self, x):
        y = self.linear(x)
        if "seen" in self._buffers:
            del self.seen
        return y


class Hidden(Counting):
    def forward(self, x):
        object.__setattr__(self, "hidden", [x + 1])
        self.training = not self.training
        return self.linear(x) + self.hidden[0]


@pytest.mark.parametrize(
    "cls", [Counting, Rebinding, Registering, Submodule, Unregistering, Hidden], ids=lambda cls: cls.__name__
)
def test_modules_are_written_as_eagerly(cls):
    def make():
        torch.manual_seed(0)
        module = cls()
        return module.forward, x2(), State([module])

    check_calls(make)


# ---- nothing is written when the trace is abandoned


def broken_after_writes(x, box, items, table):
    global counter
    counter += 1
    box.n += 1
    box.new = x + 1
    items.append(box.n)
    items.sort()
    table["k"] = items
    del table["gone"]
    x.add_(1)
    sys.getrefcount(x)
    return x * 2


def raises_after_writes(x, box, items, table):
    box.n += 1
    items.append(1)
    table["k"] = x + 1
    raise KeyError("late")


def world_of(fn):
    return fn, x2(), Box(n=1, tag="t"), [3, 1], {"k": 0, "gone": 1}


def test_a_break_after_writes_writes_once():
    check_calls(lambda: world_of(broken_after_writes), calls=1, fullgraph=False)


def test_an_abandoned_trace_writes_nothing():
    global counter
    counter = 0
    (fn, *args), (_, *before) = world_of(broken_after_writes), world_of(broken_after_writes)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(fn, backend="eager", fullgraph=True)(*args)
    alike(before, args)
    assert counter == 0


def test_an_exception_after_writes_leaves_them_as_python_does():
    (_, *eager), (fn, *args) = world_of(raises_after_writes), world_of(raises_after_writes)
    compiled = framelift.compile(fn, backend="eager")
    for call, given in ((fn, eager), (compiled, args)):
        for _ in range(2):
            with pytest.raises(KeyError):
                call(*given)
    alike(eager, args)


class Counting:
    def __init__(self) -> None:
        self.count = 0

    def __get__(self, obj: Any, cls: type) -> int:
        self.count += 1
        return self.count


def test_what_a_new_class_inherits_from_outside_is_written_there() -> None:
    class Base:
        registry: list[int] = []
        counting = Counting()

    def f(x: torch.Tensor) -> torch.Tensor:
        class Derived(Base):
            pass

        Derived.registry.append(1)
        Derived().registry.append(Derived().counting)
        return x + len(Base.registry)

    compiled = framelift.compile(f, backend="eager")
    for n in (1, 2, 3):
        assert compiled(torch.zeros(1)).item() == 2 * n
    assert Base.registry == [1, 1, 1, 2, 1, 3]


def test_a_class_that_a_trace_made_does_not_stay_among_the_subclasses() -> None:
    class Base:
        pass

    def f(x: torch.Tensor) -> Any:
        class Derived(Base):
            pass

        y = x + len(Derived.__name__)
        return y, Derived, Base.__subclasses__()

    _, made, subclasses = framelift.compile(f, backend="eager")(torch.zeros(1))
    assert subclasses == [made]


def test_names_set_in_builtins_are_found_by_whoever_lacks_them():
    def of_builtins(x):
        return x * factor  # noqa: F821

    def f(x):
        builtins.factor = 2
        try:
            first = of_builtins(x)
            builtins.factor = 3
            return first, of_builtins(x)
        finally:
            del builtins.factor

    compiled = capture(f, fullgraph=False)
    for _ in range(2):
        first, second = compiled(torch.ones(2))
        assert torch.equal(first, torch.full((2,), 2.0)) and torch.equal(second, torch.full((2,), 3.0))
    assert not hasattr(builtins, "factor")
