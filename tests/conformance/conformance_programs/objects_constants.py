"""Objects from outside that are constants: they are guarded by value, or by identity."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import typing
import uuid

import torch

from conformance_programs._objects import Kind, chapter


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

    @property
    def upper(self):
        return self.value.upper()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Text(str, enum.Enum):
    A = "a"
    B = "b"


class Name(str):
    """A string with attributes."""

    def shout(self):
        return self.upper() + "!"


class Count(int):
    @property
    def next(self):
        return Count(self + 1)


class Share(float):
    unit = "part"


def named(text, note):
    made = Name(text)
    made.note = note
    return made


chapter(
    Kind("none", lambda: None, lambda: 0),
    Kind("true", lambda: True, lambda: False, "number: v + 1, v & True, v ^ False, x * v, torch.where(x > 0, x, v)"),
    Kind(
        "integer",
        lambda: 7,
        lambda: -3,
        """
        number: v + 1, v // 2, v % 3, -v, v * x, x + v, abs(v), v ** 2, divmod(v, 2), v.bit_length()
        converted: int(v), float(v), complex(v), str(v), hex(v), bool(v), v.real
        index: [1, 2, 3][v % 3], list(range(abs(v))), "a" * v, x[: abs(v) % 3]
        """,
    ),
    Kind("large_integer", lambda: 2**70, lambda: 2**71 + 1, "number: v + 1, v >> 60, v % 10, v * 2"),
    Kind("floating", lambda: 2.5, lambda: -0.0, "number: v + 1, v * 2, round(v), v.is_integer(), x * v, x + v, int(v)"),
    Kind("infinite", lambda: float("inf"), lambda: float("-inf"), "number: v > 1, -v, x < v, x * 0 + v"),
    Kind("not_a_number", lambda: float("nan"), own="number: v == v, v != v, x + v", without="equal ordered hashed"),
    Kind("complex", lambda: 1 + 2j, lambda: 2j, "number: v + 1, v.real, v.imag, v.conjugate(), abs(v), x * v"),
    Kind(
        "string",
        lambda: "abc",
        lambda: "xyzw",
        """
        methods: v.upper(), v.split("b"), v.replace("a", "c"), v.startswith("a"), v.encode(), v.join(["1", "2"])
        indexed: v[0], v[-1], v[1:], v[::-1]
        joined: v + "d", "d" + v, v * 2, "%s-%s" % (v, v), f"{v:>6}", getattr(x, "ndim" if v else "shape")
        matched: "a" in v, v.find("c"), v == "abc", v > "abb"
        """,
    ),
    Kind("empty_string", lambda: "", lambda: "a", "joined: v + 'd', v.split(',')", without="unpacked"),
    Kind("bytes", lambda: b"abc", lambda: b"xy", "methods: v.decode(), v[0], v[1:], v.hex(), v + b'd', v.find(b'c')"),
    Kind("ellipsis", lambda: ..., own="index: x[v], x[v, 0]"),
    Kind("not_implemented", lambda: NotImplemented, without="truth"),
    Kind(
        "dtype",
        lambda: torch.float32,
        lambda: torch.float64,
        """
        attributes: v.is_floating_point, v.itemsize, v.is_complex
        used: x.to(v), torch.zeros(2, dtype=v), x.dtype == v, torch.finfo(v).eps, {torch.float32: "single"}.get(v)
        """,
    ),
    Kind(
        "device",
        lambda: torch.device("cpu"),
        lambda: torch.device("cpu", 0),
        "attributes: v.type, v.index\nused: x.to(v), torch.zeros(2, device=v), x.device == v",
    ),
    Kind("layout", lambda: torch.strided, lambda: torch.sparse_coo, "used: x.layout == v, x.layout is v", {"copied": "unknown native function", "deeply_copied": "unknown native function"}),
    Kind(
        "memory_format",
        lambda: torch.contiguous_format,
        lambda: torch.preserve_format,
        "used: x.clone(memory_format=v)",
    ),
    Kind(
        "enum",
        lambda: Colour.RED,
        lambda: Colour.BLUE,
        """
        attributes: v.name, v.value, v.upper, v.__class__.__name__
        compared: v is Colour.RED, v == Colour.BLUE, v in (Colour.RED,), v in Colour, {Colour.RED: 1}.get(v, 2)
        looked_up: Colour(v.value), Colour[v.name], list(Colour), len(Colour)
        """,
        scope={"Colour": Colour},
    ),
    Kind("int_enum", lambda: Level.LOW, lambda: Level.HIGH, "number: v + 1, v < 2, x * v, [4, 5, 6][v]\nname: v.name"),
    Kind(
        "flag",
        lambda: Rights.READ | Rights.WRITE,
        lambda: Rights.READ,
        "bits: Rights.READ in v, v & Rights.READ, v | Rights.WRITE, ~v, bool(v & Rights.WRITE)",
        scope={"Rights": Rights},
    ),
    Kind("str_enum", lambda: Text.A, lambda: Text.B, "compared: v == 'a', v.value, v.upper(), 'a' in {v: 1}"),
    Kind(
        "pattern",
        lambda: re.compile("(a)b+"),
        lambda: re.compile("x"),
        "used: v.match('abb') is None, v.sub('-', 'zabbz'), v.pattern, v.findall('abab'), v.flags",
    ),
    Kind("match", lambda: re.match("(a)(?P<n>b+)", "abb"), own="used: v.group(1), v['n'], v.span(), v.groups(), v.groupdict()"),
    Kind("list_alias", lambda: list[int], lambda: dict[str, int], "parts: v.__origin__, v.__args__, typing.get_origin(v)", scope={"typing": typing}, without="unpacked iterated enumerated contained"),
    Kind("union", lambda: int | str, lambda: int | None, "parts: typing.get_args(v), isinstance(3, v), v.__args__", scope={"typing": typing}),
    Kind("optional", lambda: typing.Optional[int], lambda: typing.Union[int, str], "parts: typing.get_args(v), typing.get_origin(v) is typing.Union", scope={"typing": typing}),
    Kind("type_variable", lambda: typing.TypeVar("T"), own="parts: v.__name__, v.__constraints__", without="text"),
    Kind("any", lambda: typing.Any, own="parts: v is typing.Any", scope={"typing": typing}),
    Kind("literal", lambda: typing.Literal["a", 1], lambda: typing.Literal["b"], "parts: typing.get_args(v)", scope={"typing": typing}, without="unpacked iterated enumerated contained"),
    Kind("torch_version", lambda: torch.__version__, own="compared: v >= '1.0', v > '99.0', v >= (2, 0), v.split('.')[0], v[0]"),
    Kind(
        "date",
        lambda: datetime.date(2024, 2, 29),
        lambda: datetime.date(2025, 1, 1),
        "parts: v.year, v.isoformat(), v.weekday(), v.replace(day=1), v.strftime('%d')",
    ),
    Kind(
        "datetime",
        lambda: datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc),
        lambda: datetime.datetime(2025, 1, 1, tzinfo=datetime.timezone.utc),
        "parts: v.hour, v.isoformat(), v.date(), v.timestamp(), v - v, v.tzinfo",
    ),
    Kind("timedelta", lambda: datetime.timedelta(days=1, seconds=5), lambda: datetime.timedelta(2), "parts: v.days, v.total_seconds(), v + v, v / 2, -v"),
    Kind("time", lambda: datetime.time(12, 30), lambda: datetime.time(1), "parts: v.hour, v.isoformat(), v.replace(hour=2)"),
    Kind("timezone", lambda: datetime.timezone(datetime.timedelta(hours=2)), own="parts: v.utcoffset(None)"),
    Kind(
        "path",
        lambda: pathlib.PurePosixPath("/a/b.txt"),
        lambda: pathlib.PurePosixPath("c/d"),
        "parts: v.name, v.suffix, v.parent, v.parts, v / 'c', str(v), v.with_suffix('.py'), v.is_absolute()",
    ),
    Kind("concrete_path", lambda: pathlib.Path("/a/b.txt"), lambda: pathlib.Path("c"), "parts: v.name, v.stem, v / 'c'"),
    Kind("decimal", lambda: decimal.Decimal("1.10"), lambda: decimal.Decimal("3"), "number: v + 1, v * v, int(v), float(v), v.quantize(decimal.Decimal('0.1'))", scope={"decimal": decimal}),
    Kind("fraction", lambda: fractions.Fraction(1, 3), lambda: fractions.Fraction(2, 3), "number: v + 1, v * v, v.numerator, v.denominator, float(v)"),
    Kind("uuid", lambda: uuid.UUID(int=5), lambda: uuid.UUID(int=6), "parts: v.hex, v.int, str(v)"),
    Kind("user_string", lambda: named("abc", "n"), lambda: named("xyz", "m"), "methods: v.shout(), v.note, v.upper(), v[0], v + 'd', v.__dict__"),
    Kind("user_integer", lambda: Count(3), lambda: Count(4), "methods: v.next, v + 1, type(v.next).__name__, x * v, [1] * v"),
    Kind("user_float", lambda: Share(0.5), lambda: Share(0.25), "methods: v.unit, v + 1, x * v"),
    Kind("slice", lambda: slice(0, 2), lambda: slice(1, None), "parts: v.start, v.stop, v.step, x[v], [1, 2, 3][v], v.indices(3)"),
    Kind("range", lambda: range(1, 8, 2), lambda: range(3), "parts: v.start, v.step, v[1], v[-1], v[1:], 3 in v, v.index(1), list(reversed(v))"),
    Kind("size", lambda: torch.Size([2, 3]), lambda: torch.Size([4]), "parts: v[0], v.numel(), v[-1:], v + (1,), torch.zeros(v), (2, 3) == v"),
)  # fmt: skip
