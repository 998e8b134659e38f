"""Classes that the standard library builds: dataclasses, enumerations, named tuples, typed dicts."""

import dataclasses
import enum
from collections import namedtuple
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from programs import error_of


def a_plain_dataclass():
    @dataclass
    class Point:
        x: int
        y: int = 0

    p = Point(1)
    p.y += 5
    return (
        repr(p),
        p == Point(1, 5),
        p != Point(1),
        error_of(Point),
        error_of(lambda: Point(1, 2, 3)),
        error_of(lambda: hash(p)),
        Point.__match_args__,
    )


def dataclass_fields_with_factories_and_options():
    @dataclass
    class Item:
        name: str
        tags: list = field(default_factory=list)
        secret: str = field(default="s", repr=False, compare=False)
        count: int = field(default=0, init=False)
        kinds: ClassVar[int] = 3

    a, b = Item("a"), Item("b", ["t"], secret="other")
    a.tags.append("x")
    return (
        repr(a),
        repr(b),
        [f.name for f in dataclasses.fields(a)],
        Item("q", secret="1") == Item("q", secret="2"),
        Item.kinds,
    )


def post_init_and_init_vars():
    @dataclass
    class Rectangle:
        w: int
        h: int
        scale: dataclasses.InitVar[int] = 1
        area: int = field(init=False)

        def __post_init__(self, scale):
            self.area = self.w * self.h * scale

    return repr(Rectangle(2, 3)), Rectangle(2, 3, 10).area


def frozen_ordered_and_slotted_dataclasses():
    @dataclass(frozen=True, order=True, slots=True)
    class Version:
        major: int
        minor: int = 0

    a, b = Version(1), Version(1, 2)

    def assign():
        a.major = 5

    def delete():
        del a.major

    return (
        a < b,
        max(a, b) == b,
        hash(a) == hash(Version(1)),
        {a: 1}[Version(1)],
        error_of(assign),
        error_of(delete),
        hasattr(a, "__dict__"),
        error_of(lambda: a < 5),
    )


def keyword_only_and_inherited_dataclasses():
    @dataclass
    class Base:
        a: int
        _: dataclasses.KW_ONLY
        b: int = 2

    @dataclass(kw_only=True)
    class Child(Base):
        c: int

        def total(self):
            return self.a + self.b + self.c

    return (
        repr(Child(1, c=3)),
        Child(a=1, b=5, c=6).total(),
        error_of(lambda: Child(1, 2)),
        error_of(lambda: Child(1)),
    )


def dataclass_helpers():
    @dataclass
    class Inner:
        v: int

    @dataclass
    class Outer:
        items: list
        inner: Inner

    o = Outer([Inner(1), Inner(2)], Inner(3))
    changed = dataclasses.replace(o, inner=Inner(9))
    return (
        dataclasses.asdict(o),
        dataclasses.astuple(o),
        repr(changed),
        dataclasses.is_dataclass(Outer),
        error_of(lambda: dataclasses.replace(o, nope=1)),
    )


def dataclass_definition_errors():
    def mutable():
        @dataclass
        class C:
            x: list = []

    def order():
        @dataclass
        class C:
            x: int = 1
            y: int

    return error_of(mutable), error_of(order)


def make_dataclass_at_run_time():
    C = dataclasses.make_dataclass(
        "C", [("x", int), ("y", int, field(default=5))], namespace={"total": lambda self: self.x + self.y}
    )
    return repr(C(1)), C(1, 2).total()


def an_enumeration():
    class Color(enum.Enum):
        RED = 1
        GREEN = "g"
        CRIMSON = 1

        @property
        def title(self):
            return self.name.title()

        @classmethod
        def default(cls):
            return cls.GREEN

    return [
        Color.RED.name,
        Color.RED.value,
        str(Color.RED),
        repr(Color.GREEN),
        Color("g") is Color.GREEN,
        Color["RED"] is Color.RED,
        Color.CRIMSON is Color.RED,
        [c.name for c in Color],
        len(Color),
        Color.RED in Color,
        Color.RED.title,
        Color.default().name,
        isinstance(Color.RED, Color),
        error_of(lambda: Color(99)),
        error_of(lambda: Color["BLUE"]),
        error_of(lambda: setattr(Color, "RED", 5)),
        list(Color.__members__),
        {Color.RED: 1}[Color(1)],
    ]


def auto_int_and_flag_enumerations():
    class Level(enum.IntEnum):
        LOW = enum.auto()
        HIGH = enum.auto()

    class Perm(enum.Flag):
        R = enum.auto()
        W = enum.auto()
        X = enum.auto()
        RW = R | W

    class Text(enum.StrEnum):
        A = enum.auto()

    p = Perm.R | Perm.X
    return [
        Level.LOW < Level.HIGH,
        Level.HIGH + 1,
        sorted([Level.HIGH, Level.LOW])[0].name,
        Perm.R in p,
        Perm.W in p,
        (p & Perm.RW).name,
        (~p).name,
        p.value,
        bool(Perm(0)),
        [f.name for f in Perm.RW],
        Text.A == "a",
        f"{Text.A}-{Level.LOW}",
        Text.A.upper(),
    ]


def enumerations_with_init_and_behaviour():
    class Planet(enum.Enum):
        EARTH = (6, 10)
        MARS = (1, 4)

        def __init__(self, mass, radius):
            self.mass, self.radius = mass, radius

        def heavier(self, other):
            return self if self.mass > other.mass else other

        @classmethod
        def _missing_(cls, value):
            print("missing", value)
            return cls.MARS if value == "red" else None

    return (
        Planet.EARTH.mass,
        Planet.MARS.heavier(Planet.EARTH).name,
        Planet("red").name,
        error_of(lambda: Planet("blue")),
        Planet.EARTH.value,
    )


def enumerations_in_match_statements():
    class Light(enum.Enum):
        RED, AMBER, GREEN = range(3)

    def after(light):
        match light:
            case Light.RED:
                return Light.GREEN
            case Light.GREEN:
                return Light.AMBER
            case Light.AMBER:
                return Light.RED
            case _:
                return None

    light, seen = Light.RED, []
    for _ in range(4):
        seen.append(light.name)
        light = after(light)
    return seen, after("x")


def enumeration_errors_leave_the_program():
    class Color(enum.Enum):
        RED = 1

    return Color(2)


def functional_enumeration_and_unique():
    Animal = enum.Enum("Animal", "CAT DOG")

    def duplicates():
        @enum.unique
        class Twice(enum.Enum):
            A = 1
            B = 1

    def extend():
        class More(Animal):
            BIRD = 3

    return [a.value for a in Animal], error_of(duplicates), error_of(extend)


def named_tuples():
    Point = namedtuple("Point", "x y z", defaults=[0])
    p = Point(1, y=2)
    x, *rest = p
    return [
        p.x,
        p[1],
        repr(p),
        p == (1, 2, 0),
        x,
        rest,
        p._replace(z=9),
        p._asdict(),
        Point._fields,
        Point._make([4, 5, 6]).z,
        error_of(lambda: Point(1)),
        error_of(lambda: setattr(p, "x", 5)),
        hash(p) == hash((1, 2, 0)),
        isinstance(p, tuple),
        max(Point(1, 2), Point(1, 3)).y,
    ].__repr__()


def typed_named_tuples_with_methods():
    class Person(NamedTuple):
        name: str
        age: int = 0

        @property
        def adult(self):
            return self.age >= 18

        def older(self, by=1):
            return self._replace(age=self.age + by)

    p = Person("Ann", 17)
    match p.older():
        case Person(name, age):
            return name, age, p.adult, p.older(5).adult, Person.__annotations__["age"].__name__, tuple(p)


def the_module_of_generated_classes():
    return (
        namedtuple("N", "a").__module__ == __name__,
        enum.Enum("E", "A").__module__ == __name__,
        dataclasses.make_dataclass("D", []).__module__,
    )


def a_simple_namespace():
    from types import SimpleNamespace

    n = SimpleNamespace(a=1, b=[2])
    n.c = n.a + 1
    del n.a
    return repr(n), n == SimpleNamespace(b=[2], c=2), vars(n), error_of(lambda: n.a)


def an_order_system_with_dataclasses_and_enums():
    class Status(enum.Enum):
        NEW = "new"
        PAID = "paid"
        SHIPPED = "shipped"

        def next(self):
            members = list(type(self))
            i = members.index(self) + 1
            if i == len(members):
                raise ValueError(f"{self.value} is the last status")
            return members[i]

    @dataclass(order=True)
    class Line:
        price: float
        product: str = field(compare=False)
        quantity: int = field(default=1, compare=False)

        @property
        def total(self):
            return self.price * self.quantity

    @dataclass
    class Order:
        lines: list[Line] = field(default_factory=list)
        status: Status = Status.NEW
        history: list[str] = field(default_factory=list, repr=False)

        def add(self, product, price, **options):
            self.lines.append(Line(price, product, **options))
            return self

        def advance(self):
            before, self.status = self.status, self.status.next()
            self.history.append(f"{before.value}->{self.status.value}")

        def __len__(self):
            return sum(line.quantity for line in self.lines)

    order = Order().add("pen", 1.5, quantity=4).add("book", 12.0)
    order.advance()
    order.advance()
    return (
        repr(order),
        len(order),
        max(order.lines).product,
        sum(line.total for line in order.lines),
        order.history,
        error_of(order.advance),
    )
