"""Library reference: `object`, `type`, and the descriptors `property`, `classmethod`, `staticmethod` (2, 4.12)."""

from __future__ import annotations

from conformance_programs import error_of, program
from conformance_programs._tables import NAMES, Table, add_type, of_object, on


class _Point:
    """A point."""

    kind: str = "plane"

    def __init__(self, x=1, y=2):
        self.x, self.y = x, y

    def __eq__(self, other):
        return isinstance(other, _Point) and (self.x, self.y) == (other.x, other.y)

    __hash__ = None

    def __repr__(self):
        return f"_Point({self.x}, {self.y})"

    def norm(self):
        return abs(self.x) + abs(self.y)


class _Sub(_Point):
    pass


def _get(self):
    """What it is."""
    return self.x


def _set(self, value):
    self.x = value


def _delete(self):
    self.x = None


NAMES.update(Point=_Point, Sub=_Sub, get=_get, set_=_set, delete=_delete)

ADDRESSED = {
    "__hash__": "its hash is its address",
    "__reduce__": "only for protocols that nobody uses",
    "__getstate__": "what `copy` does has programs of its own",
}

OBJECT: Table = {
    **of_object("Point()", "Point(1, 3)", "x"),
    "__delattr__": on("Point()", "'x'", "'nope'", "1", "", then="r, hasattr(a, 'x')"),
    "__setattr__": on(
        "Point()", "'x', 5", "'new', 6", "'new'", "1, 2", then="r, a.x, getattr(a, 'new', None)"
    ),
    "__getattribute__": on("Point()", "'x'", "'kind'", "'nope'", "1", ""),
    "__format__": on("Point()", "''", "'nope'"),
    "__init__": on("Point()", "7", "y=8", "1, 2, 3"),
    "__lt__": on("Point()", "Point()"),
    "__reduce_ex__": on("Point()", "2", then="r[0].__name__, r[1]"),
    "__sizeof__": on("Point()", then="r > 0"),
    "__new__": on("Point()", "Point", "int", then="type(r)"),
    "__init_subclass__": on("Point()", "", "1"),
    "__subclasshook__": on("Point()", "int"),
}
add_type(
    "types_classes",
    object,
    OBJECT,
    {"__class__": on("Point()"), "__doc__": on("Point()")},
    owner="Point",
    without=ADDRESSED,
)

TYPE: Table = {
    **of_object("Point", "Sub", "__name__"),
    "mro": [*on("Sub"), *on("bool")],
    "__call__": on("Point", "", "3", "3, y=4", "1, 2, 3"),
    "__delattr__": on("int", "'nope'", "1"),
    "__dir__": [*on("Sub", then="sorted(r)"), *on("int", then="'real' in r")],
    "__format__": on("Point", "''", "'nope'"),
    "__getattribute__": on("Point", "'__name__'", "'kind'", "'nope'"),
    "__init__": on("Point", "1", "1, 2, 3, 4"),
    "__instancecheck__": on("Point", "Point()", "Sub()", "3"),
    "__subclasscheck__": on("Point", "Sub", "int", "3"),
    "__prepare__": on("type", "", "'n', ()"),
    "__or__": on("Point", "int", "None", "3"),
    "__ror__": on("Point", "None", "3"),
    "__setattr__": on("int", "'nope', 1"),
    "__sizeof__": on("Point", then="r > 0"),
    "__subclasshook__": on("Point", "int"),
    "__reduce__": on("Point"),
    "__reduce_ex__": on("Point", "2"),
    "__getstate__": on("Point", then="type(r).__name__"),
    "__new__": on("type", "type, 'N', (), {}", "type, 1", then="r.__name__"),
}
FACTS = "__name__ __qualname__ __module__ __bases__ __base__ __mro__ __basicsize__ __itemsize__ __flags__"
FACTS += " __dictoffset__ __weakrefoffset__ __text_signature__ __doc__ __class__ __type_params__"
ATTRIBUTES: Table = {
    **{name: [*on("Sub"), *on("int")] for name in FACTS.split()},
    "__annotations__": [*on("Point"), *on("int")],
    "__dict__": on("Sub", then="sorted(r), type(r)"),
    "__abstractmethods__": on("Point"),
}
WITHOUT = {
    "__hash__": "its hash is its address",
    "__subclasses__": "breaks, see the program below",
    "__init_subclass__": "is there for subclasses to be told of",
}
add_type("types_classes", type, TYPE, ATTRIBUTES, without=WITHOUT)

TEXT = dict.fromkeys(("__hash__", "__repr__", "__str__", "__format__"), "tells the address")
STATE = dict.fromkeys(("__reduce__", "__reduce_ex__", "__getstate__"), "says only that it can't be pickled")

PROPERTY: Table = {
    **of_object("property(get)", "property()", "fget"),
    "getter": on("property(get)", "delete", "None", then="r.fget, r.fset, r.fdel, r.__doc__"),
    "setter": on("property(get)", "set_", then="r.fget, r.fset, r.fdel"),
    "deleter": on("property(get)", "delete", then="r.fget, r.fset, r.fdel"),
    "__get__": [*on("property(get)", "Point()", "Point(), Point"), *on("property(get)", "None, Point", then="r is a")],
    "__set__": on("property(get, set_)", "Point(), 5"),
    "__delete__": [*on("property(get, set_, delete)", "Point()"), *on("property(get)", "Point()")],
    "__set_name__": on("property()", "Point, 'p'"),
    "__init__": on("property()", "get, set_, delete, 'doc'", "fget=get"),
    "__eq__": on("property(get)", "3"),
    "__ne__": on("property(get)", "3"),
    "__new__": on("property()", "property", then="r.fget"),
}  # fmt: skip
add_type(
    "types_classes",
    property,
    PROPERTY,
    {name: on("property(get, set_)") for name in ("fget", "fset", "fdel", "__doc__", "__isabstractmethod__", "__class__", "__name__")},
    without={**TEXT, **STATE},
)  # fmt: skip

WRAPPED = "__name__ __qualname__ __module__ __doc__ __annotations__ __func__ __wrapped__ __isabstractmethod__ __class__"


OPEN = dict.fromkeys(
    ("__setattr__", "__delattr__", "__dir__"), "has a dictionary, which a program must not change"
)


def _method_object(owner: str, result: str) -> Table:
    made = f"{owner}(get)"
    return {
        **of_object(made, f"{owner}(delete)", "__name__"),
        "__get__": [*on(made, "Point(), Point", then=result), *on(made, "None, Point", then=result)],
        "__init__": on(made, "delete", then="r, a.__func__"),
        "__eq__": on(made, "3"),
        "__ne__": on(made, "3"),
        "__new__": on(made, owner, then="type(r)"),
        "__call__": on(made, "Point()"),
    }


for _owner, _cls, _result in (
    ("classmethod", classmethod, "r.__func__, r.__self__"),
    ("staticmethod", staticmethod, "r"),
):
    add_type(
        "types_classes",
        _cls,
        _method_object(_owner, _result),
        {
            **{name: on(f"{_owner}(get)") for name in WRAPPED.split()},
            "__dict__": on(f"{_owner}(get)", then="sorted(r)"),
        },
        without={**TEXT, **STATE, **OPEN},
    )


@program
def a_class_has_descriptors_of_all_kinds(x):
    class C:
        made = 0

        def __init__(self, v):
            self._v = v

        @property
        def v(self):
            """The value."""
            return self._v * 2

        @v.setter
        def v(self, value):
            self._v = value

        @v.deleter
        def v(self):
            del self._v

        @classmethod
        def make(cls, v):
            cls.made += 1
            return cls(v)

        @staticmethod
        def twice(v):
            return v + v

    c = C.make(x)
    first = c.v
    c.v = C.twice(x)
    second = c.v
    del c.v
    return (
        first,
        second,
        error_of(lambda: c.v),
        C.made,
        C.v.__doc__,
        C.v.fget(C(x + 3)),
        c.twice(1),
        c.make(x).v,
    )


@program(breaks="address of an abstract value")
def the_default_text_of_an_object_is_its_address(x):
    y = x + 1
    return y * 2, repr(object())[:7]


@program(breaks="address of an abstract value")
def the_default_hash_of_an_object_is_its_address(x):
    y = x + 1
    return y * 2, hash(object()) != 0


@program
def objects_are_compared_by_identity(x):
    a, b = object(), object()
    return x + 1, a == a, a == b, a != b, a is b, error_of(lambda: a < b), {a: 1}.get(a), [a, b].index(b)


@program
def the_subclasses_of_a_class_are_whatever_there_is(x):
    y = x + 1
    return y * 2, _Point.__subclasses__()


class _Slotted:
    __slots__ = ("v", "w")


@program(given=lambda: (_Slotted(),))
def slots_are_set_and_deleted(x, given):
    made = _Slotted()
    seen = []
    for each in (given, made):
        each.v = x
        seen += [each.v, error_of(lambda each=each: each.w), error_of(delattr, each, "w")]
        del each.v
        seen += [hasattr(each, "v"), error_of(delattr, each, "v"), error_of(setattr, each, "nope", 1)]
    return x + 1, seen


@program
def a_class_made_by_type_is_of_the_module_that_makes_it(x):
    made = type("Made", (_Point,), {"z": 3})
    other = type.__new__(type, "Other", (), {"__module__": "m"})
    return (
        x + made().z,
        made.__module__,
        other.__module__,
        made.__qualname__,
        made.__mro__[1:],
        other.__name__,
    )
