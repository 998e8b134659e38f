"""User objects: attributes, dataclasses, weak references, copies."""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
import weakref
from dataclasses import InitVar, dataclass, field
from typing import ClassVar

import torch

from conformance_programs import error_of, program


class _Plain:
    scale = 2

    def __init__(self, value=None):
        self.value = value


@program(given=lambda: (_Plain(torch.ones(3)),))
def attributes_are_read_and_written(x, o):
    o.value = o.value + x
    o.new = getattr(o, "new", 0) + 1
    return o.value * o.scale * o.new


@program(given=lambda: (_Plain(torch.ones(3)),))
def attributes_are_deleted(x, o):
    o.temporary = x
    del o.temporary
    return x + 1, hasattr(o, "temporary"), error_of(lambda: o.temporary), error_of(delattr, o, "never")


@program(given=lambda: (_Plain(torch.ones(3)),))
def vars_of_a_given(x, o):
    vars(o)["other"] = x
    o.__dict__.update(third=3)
    return sorted(vars(o)), o.other + o.third, "value" in o.__dict__, len(o.__dict__)


@program(given=lambda: (_Plain(torch.ones(3)),), breaks="attribute that can't be set")
def the_dict_of_a_given_is_replaced(x, o):
    o.__dict__ = {"value": x * 2}
    return o.value


@program
def the_dict_of_an_inside_object(x):
    o = _Plain(x)
    o.__dict__["a"] = x + 1
    saved = dict(vars(o))
    o.__dict__.clear()
    o.__dict__.update(saved)
    return o.a, list(vars(o)), vars(o) is o.__dict__


@program(given=lambda: (_Plain(),))
def objects_refer_to_each_other(x, o):
    o.value = inner = _Plain(x)
    inner.value = o
    return o.value.value is o, x + 1


@program(given=lambda: (_Plain(torch.ones(3)),))
def getattr_setattr_by_name(x, o):
    for name in ("a", "b"):
        setattr(o, name, getattr(o, name, x) * 2)
    return {name: getattr(o, name) for name in ("a", "b", "value")}


@program(given=lambda: (_Plain(1), _Plain(2)))
def instances_are_told_apart(x, a, b):
    return x + 1, a is b, a == b, a != b, a in [b], [a, b].index(b), {a: 1}[a], len({a, b, a})


@program(given=lambda: (types.SimpleNamespace(a=1, b=torch.ones(3)),))
def a_given_namespace(x, space):
    space.a += 1
    space.c = x
    return space.b * space.a, sorted(vars(space)), hasattr(space, "z")


@program
def a_namespace_made_inside(x):
    space = types.SimpleNamespace(a=x, b=2)
    space.c = space.a * space.b
    return space, space.c, space == types.SimpleNamespace(a=1), repr(types.SimpleNamespace(q=1))


# Dataclasses


@dataclass
class _Point:
    a: object
    b: int = 2
    c: list = field(default_factory=list)
    total: ClassVar[int] = 5


@dataclass(frozen=True)
class _Frozen:
    a: object
    b: int = 1


@dataclass(slots=True)
class _Slots:
    a: object
    b: int = 1


@dataclass(order=True)
class _Ordered:
    rank: int
    value: object = field(default=None, compare=False)


@dataclass
class _Derived(_Point):
    d: float = 0.5
    made: object = field(init=False, repr=False)
    scale: InitVar[int] = 3

    def __post_init__(self, scale):
        self.made = self.a * scale


@dataclass(kw_only=True)
class _Keywords:
    a: object
    b: int = 1


@dataclass(frozen=True, eq=True, unsafe_hash=False)
class _Key:
    name: str
    n: int = 0


@dataclass(eq=False, repr=False)
class _Bare:
    a: int = 1


@program
def dataclass_inside(x):
    p = _Point(x, c=[1])
    p.b += 1
    p.c.append(x)
    return p, p.a * p.b, _Point(1) == _Point(1), _Point(1) == _Point(2), repr(_Point("q"))


@program(given=lambda: (_Point(torch.ones(3)),))
def dataclass_given(x, p):
    p.a = p.a + x
    p.c.append(p.b)
    return p.a * p.b, len(p.c), p.total


@program(given=lambda: (_Frozen(torch.ones(3)),))
def frozen(x, p):
    q = dataclasses.replace(p, a=x)
    error = error_of(setattr, p, "a", 1)
    return q.a + p.a, error, hash(_Frozen(1)) == hash(_Frozen(1)), q


@program(given=lambda: (_Slots(torch.ones(3)),))
def slots(x, p):
    p.b += 1
    q = _Slots(x)
    return p.a * p.b + q.a, q, error_of(setattr, q, "z", 1)[0], hasattr(q, "__dict__")


@program
def order(x):
    several = [_Ordered(3, x), _Ordered(1, x + 1), _Ordered(2)]
    return (
        min(several).value,
        sorted(several)[1].rank,
        _Ordered(1) < _Ordered(2),
        _Ordered(1) == _Ordered(1, x),
    )


@program(given=lambda: ([_Ordered(3), _Ordered(1)],))
def order_of_given(x, several):
    several.sort()
    return x * max(several).rank, [each.rank for each in several], several[0] <= several[1]


@program
def post_init_and_init_var(x):
    d = _Derived(x, scale=4)
    return d.made, d, [f.name for f in dataclasses.fields(d)], hasattr(d, "scale"), repr(_Derived(1))


@program
def keyword_only(x):
    return _Keywords(a=x).a + 1, error_of(_Keywords, 1), _Keywords(a=1, b=2)


@program
def fields_and_asdict(x):
    p = _Point(1, 2, [_Point(3)])
    names = [(f.name, f.init, f.repr) for f in dataclasses.fields(_Point)]
    return x + 1, names, dataclasses.asdict(p), dataclasses.astuple(p), dataclasses.is_dataclass(p)


@program
def asdict_with_a_factory(x):
    made = dataclasses.asdict(_Point("a"), dict_factory=lambda pairs: sorted(pairs)[:2])
    return x + 1, made, dataclasses.MISSING is dataclasses.fields(_Point)[0].default


@program(given=lambda: (_Point(1, 2, ["a"]),))
def asdict_of_a_given(x, p):
    return x * p.a, dataclasses.asdict(p), dataclasses.astuple(p)


@program(given=lambda: (_Point(1, 2),))
def replace_of_a_given(x, p):
    q = dataclasses.replace(p, a=x, b=p.b + 1)
    return q.a * q.b, q.c is p.c, error_of(dataclasses.replace, p, z=1)[0]


@program
def dataclasses_are_keys(x):
    table = {_Key("a"): x, _Key("b", 1): x * 2}
    return table[_Key("a")] + table[_Key("b", 1)], _Key("z") in table, len({_Key("q"), _Key("q")})


@program
def equality_by_identity(x):
    a, b = _Bare(), _Bare()
    return x + 1, a == b, a == a, len({a, b})


@program
def dataclasses_are_matched(x):
    match _Point(x, 3):
        case _Point(value, 2):
            return value
        case _Point(value, b) if b > 2:
            return value * b


@program
def make_dataclass_is_called(x):
    Made = dataclasses.make_dataclass("Made", ["a", ("b", int, field(default=2))])
    return Made(x).a * Made(x).b, [f.name for f in dataclasses.fields(Made)]


@program
def a_frozen_dataclass_made_inside(x):
    @dataclass(frozen=True, order=True, slots=True)
    class Local:
        a: int
        b: object = field(default=None, compare=False, hash=False)

    p = Local(1, x)
    return (
        p.b + p.a,
        Local(1) < Local(2),
        hash(Local(1)) == hash(Local(1, 2)),
        error_of(setattr, p, "a", 2)[0],
    )


@program
def an_inherited_dataclass_made_inside(x):
    @dataclass
    class Local(_Point):
        e: object = None

        def total_of(self):
            return self.a * self.b + self.e

    return Local(x, e=1).total_of(), Local.__match_args__, Local(1) == _Point(1)


@program
def a_wrong_dataclass(x):
    def define():
        @dataclass
        class Wrong:
            a: list = []

    return x + 1, error_of(define)


@program
def field_metadata(x):
    @dataclass
    class Local:
        a: int = field(default=1, metadata={"unit": "m"})

    (only,) = dataclasses.fields(Local)
    return x * Local().a, only.metadata["unit"], only.default, only.type, only.kw_only


# Weak references


@program(given=lambda: (_Plain(torch.ones(3)),))
def a_weak_reference_to_a_given(x, o):
    reference = weakref.ref(o)
    return reference() is o, x + reference().value


@program
def a_weak_reference_to_an_inside_object(x):
    o = _Plain(x)
    reference = weakref.ref(o)
    return reference().value + 1, reference() is o


@program(given=lambda: (lambda o: (o, weakref.ref(o)))(_Plain(torch.ones(3))))
def a_given_weak_reference(x, o, reference):
    return x + reference().value, reference() is o


@program(given=lambda: (_Plain(1), weakref.WeakKeyDictionary(), weakref.WeakValueDictionary()))
def weak_dictionaries(x, o, keyed, valued):
    keyed[o] = keyed.get(o, 0) + 1
    valued["o"] = o
    return x * keyed[o], valued["o"] is o, len(keyed), "o" in valued, list(valued)


@program(
    given=lambda: (_Plain(1), weakref.WeakSet()),
    breaks=("iterator from before", "order of a set"),
)
def weak_sets(x, o, several):
    several.add(o)
    return x + len(several), o in several, [each is o for each in several]


_TARGET = _Plain(torch.ones(3))
_PROXY = weakref.proxy(_TARGET)


@program(breaks="opaque object")
def a_proxy_from_outside(x):
    y = x + 1
    return y + _PROXY.value


@program(given=lambda: (_Plain(torch.ones(3)),), breaks="unknown native function")
def a_weak_method(x, o):
    o.method = 1
    reference = weakref.WeakMethod(_Holder(x).get)
    return x + 1, reference() is None or True


class _Holder:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


# Copies


@program(given=lambda: (_Point(1, 2, [3, [4]]),))
def copies_of_a_given_dataclass(x, p):
    shallow, deep = copy.copy(p), copy.deepcopy(p)
    deep.c[1].append(5)
    return x * shallow.a, shallow.c is p.c, deep.c, p.c


@program(given=lambda: (_Plain([1, {"a": (2, [3])}]),))
def deep_copies_of_containers(x, o):
    made = copy.deepcopy(o)
    made.value[1]["a"][1].append(4)
    return x + 1, made.value, o.value


@program
def deep_copies_keep_what_is_shared(x):
    inner = [1]
    outer = [inner, inner, {"k": inner}]
    outer.append(outer)
    made = copy.deepcopy(outer)
    return x + 1, made[0] is made[1], made[2]["k"] is made[0], made[3] is made, made[0] is inner


@program
def copies_of_many_kinds(x):
    values = [1, "a", (1, [2]), [x], {"a": x}, {1, 2}, frozenset([1]), range(3), None, len, int, b"a", 1j]
    made = [copy.copy(value) for value in values]
    return x + 1, made, [a is b for a, b in zip(values, made, strict=True)]


@program
def copies_of_slots(x):
    made = copy.copy(_Slots(x, 3))
    return made.a + made.b


@program(given=lambda: (_Slots(torch.ones(3)),))
def copies_of_given_slots(x, o):
    made = copy.copy(o)
    return x + made.a, made is o


@program
def copies_of_bound_methods_and_partials(x):
    holder = _Holder([1])
    method = copy.copy(holder.get)
    partial = copy.copy(functools.partial(torch.add, x))
    return method() is holder.value, partial(1)


@program
def a_deep_copy_of_a_tensor(x):
    y = x + 1
    return y * 2, copy.deepcopy([x])


@program
def deepcopy_with_a_memo(x):
    shared = [1]
    memo = {}
    a, b = copy.deepcopy(shared, memo), copy.deepcopy(shared, memo)
    return x + 1, a is b, a is shared


@program
def an_uncopyable_object(x):
    class Never:
        def __reduce_ex__(self, protocol):
            raise TypeError("never copied")

    return (
        x + 1,
        error_of(copy.copy, Never()),
        error_of(copy.deepcopy, [Never()]),
        issubclass(copy.Error, Exception),
    )
