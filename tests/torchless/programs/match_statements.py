"""match and case: every kind of pattern."""

from dataclasses import dataclass

from programs import error_of


@dataclass
class _Point:
    x: int
    y: int


@dataclass
class _Circle:
    center: _Point
    radius: int


def literal_patterns():
    def f(x):
        match x:
            case 0:
                return "zero"
            case -1 | 1.5:
                return "minus one or one and a half"
            case "text" | b"bytes":
                return "text"
            case None:
                return "none"
            case True:
                return "true"
            case 1 + 2j:
                return "complex"
        return "nothing"

    return [f(x) for x in (0, 0.0, False, -1, 1.5, "text", b"bytes", None, True, 1, 1 + 2j, [])]


def capture_and_wildcard_patterns():
    def f(x):
        match x:
            case [a, _]:
                return "pair", a
            case other:
                return "other", other

    def g(x):
        match x:
            case 1:
                pass
            case _:
                return "default"

    return f([1, 2]), f((3, 4)), f("ab"), f(5), g(1), g(2)


def sequence_patterns():
    def f(x):
        match x:
            case []:
                return "empty"
            case [1]:
                return "just one"
            case [x, y]:
                return x, y
            case [1, *rest]:
                return "one and", rest
            case [*start, "end"]:
                return start, "and end"
            case [first, *_, last]:
                return first, last

    return [
        f(x)
        for x in (
            [],
            (1,),
            [5, 6],
            [1, 2, 3],
            ["a", "b", "end"],
            range(4),
            "abc",
            b"abc",
            {1, 2, 3},
            bytearray(b"x"),
        )
    ]


def mapping_patterns():
    def f(x):
        match x:
            case {"kind": "a", "value": value}:
                return "a", value
            case {"kind": kind, **rest}:
                return kind, rest
            case {1: "one", None: n}:
                return "numbers", n
            case {}:
                return "some mapping"
            case _:
                return "no mapping"

    return [
        f(x)
        for x in (
            {"kind": "a", "value": 1, "more": 2},
            {"kind": "b", "z": 1},
            {1: "one", None: 0},
            {},
            {"q": 1},
            [],
        )
    ]


def mapping_patterns_do_not_trigger_missing():
    from collections import defaultdict

    d = defaultdict(list)
    match d:
        case {"key": value}:
            return "matched", value
        case _:
            return "not matched", dict(d)


def class_patterns_by_position_and_keyword():
    def f(shape):
        match shape:
            case _Point(0, 0):
                return "origin"
            case _Point(x=0, y=y):
                return "on the y axis", y
            case _Point(x, y) if x == y:
                return "diagonal", x
            case _Point():
                return "somewhere"
            case _Circle(_Point(x=cx), radius=r) if r > 10:
                return "big circle", cx
            case _Circle(center=_Point(0, 0) as center):
                return "centered", center.x
            case _Circle():
                return "circle"

    shapes = [
        _Point(0, 0),
        _Point(0, 5),
        _Point(3, 3),
        _Point(1, 2),
        _Circle(_Point(7, 0), 11),
        _Circle(_Point(0, 0), 1),
        _Circle(_Point(1, 1), 1),
        5,
    ]
    return [f(s) for s in shapes]


def class_patterns_of_builtins():
    def f(x):
        match x:
            case bool(b):
                return "bool", b
            case int(n) | float(n):
                return "number", n
            case str() as s if s.isupper():
                return "shout", s
            case str(s):
                return "str", s
            case list([first, *_]) | tuple((first, *_)):
                return "non-empty", first
            case dict({"k": v}):
                return "dict", v
            case type():
                return "class", x.__name__
            case object(__class__=c):
                return "object", c.__name__

    return [f(x) for x in (True, 1, 2.5, "ABC", "abc", [9], (8, 7), {"k": 6}, int, [], set())]


def or_patterns_and_as_patterns():
    def f(x):
        match x:
            case ("a" | "b") as letter:
                return "letter", letter
            case [("x" | "y") as axis, int() | float() as n] | (int() as n, str() as axis):
                return axis, n
            case {"t": (1 | 2 | 3) as t} | {"u": t}:
                return t

    return [f(x) for x in ("a", "c", ["x", 1], (2, "z"), {"t": 2}, {"t": 9, "u": 8}, {"t": 9})]


def guards_are_evaluated_after_binding():
    log = []

    def check(x):
        log.append(x)
        return x > 2

    def f(x):
        match x:
            case [a, b] if check(a):
                return "first", a
            case [a, b] if check(b):
                return "second", b
            case [a, b]:
                return "third", a + b

    return f([1, 2]), f([1, 3]), f([3, 0]), log


def value_patterns_compare_with_dotted_names():
    class Color:
        RED, GREEN = "red", "green"

    def f(x):
        match x:
            case Color.RED:
                return 1
            case [Color.GREEN, *_]:
                return 2
            case {"c": Color.RED}:
                return 3
        return 0

    return [f(x) for x in ("red", ["green", 1], {"c": "red"}, "green")]


def names_stay_bound_after_a_failed_match():
    match [1, 2, 3]:
        case [a, b]:
            pass
        case [a, b, 99]:
            pass
        case _:
            pass
    match (1, 2):
        case (p, 5):
            pass
        case (p, q):
            pass
    return p, q, "a" in locals()


def the_subject_is_evaluated_once():
    def subject():
        print("evaluated")
        return 2, 3

    match subject():
        case (1, x):
            return "one", x
        case (2, 4):
            return "four"
        case (2, x):
            return "two", x


def subjects_with_commas_and_walrus():
    match 1, [2, 3]:
        case int(a), [b, *c]:
            first = a, b, c
    match value := 5:
        case 5:
            return first, value


def match_args_direct_the_positions():
    class Custom:
        __match_args__ = ("b", "a")

        def __init__(self, a, b):
            self.a, self.b = a, b

    match Custom(1, 2):
        case Custom(x, y):
            return x, y


def errors_of_class_patterns():
    class NoArgs:
        pass

    class BadArgs:
        __match_args__ = ["a"]

    class WrongElement:
        __match_args__ = (1,)

    class Twice:
        __match_args__ = ("a",)
        a = 1

    def no_args():
        match NoArgs():
            case NoArgs(1):
                pass

    def bad_args():
        match BadArgs():
            case BadArgs(1):
                pass

    def wrong_element():
        match WrongElement():
            case WrongElement(1):
                pass

    def too_many():
        match _Point(1, 2):
            case _Point(1, 2, 3):
                pass

    def twice():
        match Twice():
            case Twice(1, a=1):
                pass

    def not_a_class():
        five = 5
        match 1:
            case five():
                pass

    return [error_of(f) for f in (no_args, bad_args, wrong_element, too_many, twice, not_a_class)]


def attribute_errors_and_other_errors_in_class_patterns():
    class Lazy:
        __match_args__ = ("value",)

        def __init__(self, error):
            self.error = error

        @property
        def value(self):
            raise self.error

    def f(x):
        match x:
            case Lazy(1):
                return "matched"
            case _:
                return "fell through"

    return f(Lazy(AttributeError("absent"))), error_of(f, Lazy(KeyError("other")))


def custom_sequences_and_mappings():
    from collections.abc import Mapping, Sequence

    class Seq(Sequence):
        def __len__(self):
            print("len")
            return 3

        def __getitem__(self, i):
            print("item", i)
            if i >= 3:
                raise IndexError
            return i * 10

    class Map(Mapping):
        def __getitem__(self, key):
            print("key", key)
            return {"a": 1}[key]

        def get(self, key, default=None):
            print("get", key)
            return {"a": 1}.get(key, default)

        def __iter__(self):
            return iter("a")

        def __len__(self):
            return 1

    results = []
    for subject in (Seq(), Map()):
        match subject:
            case [0, middle, *rest]:
                results.append((middle, rest))
            case {"a": value}:
                results.append(value)
    return results


def equality_in_patterns_is_users_equality():
    class Any:
        def __eq__(self, other):
            print("compared with", other)
            return other == 3

    match Any():
        case 1:
            return "one"
        case 3:
            return "three"


def match_in_a_loop_with_break_and_continue():
    log = []
    for command in ["go north", "look", "", "go", "quit", "look"]:
        match command.split():
            case []:
                continue
            case ["go", direction]:
                log.append(f"going {direction}")
            case ["quit"]:
                break
            case [verb]:
                log.append(f"{verb} what?" if verb == "go" else verb)
    else:
        log.append("never")
    return log


def match_inside_a_generator_and_try():
    def tokens(items):
        for item in items:
            try:
                match item:
                    case int(n) if n > 0:
                        yield "positive", 10 // n
                    case int(n):
                        yield "other", 10 // n
                    case str(s):
                        yield "text", s
                    case _:
                        raise TypeError(f"unexpected {item!r}")
            except (ZeroDivisionError, TypeError) as e:
                yield "error", str(e)

    return list(tokens([5, "x", 0, -2, None]))


def soft_keywords_are_names_elsewhere():
    match = {"case": 1}
    case = match["case"]
    match["_"] = _ = 5
    return match, case, _


def an_expression_simplifier():
    def simplify(e):
        match e:
            case ("+", a, b):
                match simplify(a), simplify(b):
                    case 0, x:
                        return x
                    case x, 0:
                        return x
                    case int(x), int(y):
                        return x + y
                    case x, y:
                        return "+", x, y
            case ("*", a, b):
                match simplify(a), simplify(b):
                    case (0, _) | (_, 0):
                        return 0
                    case (1, x) | (x, 1):
                        return x
                    case int(x), int(y):
                        return x * y
                    case x, y:
                        return "*", x, y
            case ("-", a):
                return simplify(("*", -1, a))
            case int() | str():
                return e
            case [op, *_]:
                raise ValueError(f"unknown operator {op!r}")

    return [
        simplify(("+", ("*", 1, "x"), ("*", 0, "y"))),
        simplify(("*", ("+", 1, 2), ("+", "z", 0))),
        simplify(("-", 4)),
        simplify(("-", "q")),
        error_of(simplify, ("/", 1, 2)),
    ]


def a_json_shape_checker():
    def shape(value):
        match value:
            case None | bool() | int() | float():
                return type(value).__name__
            case str(s) if len(s) > 3:
                return "long str"
            case str():
                return "str"
            case []:
                return "[]"
            case [only]:
                return f"[{shape(only)}]"
            case [first, *rest] if all(shape(r) == shape(first) for r in rest):
                return f"[{shape(first)} x{len(rest) + 1}]"
            case [*items]:
                return f"[{', '.join(map(shape, items))}]"
            case {"type": str(t), **rest}:
                return f"{t}<{', '.join(f'{k}: {shape(v)}' for k, v in rest.items())}>"
            case {**items}:
                return "{" + ", ".join(f"{k}: {shape(v)}" for k, v in items.items()) + "}"

    return shape(
        {
            "a": [1, 2, 3],
            "b": [1, "x", None],
            "c": {"type": "user", "name": "Anna", "tags": []},
            "d": ["x"],
            "e": True,
        }
    )


def a_mapping_whose_get_is_no_method():
    class Found(dict):
        @staticmethod
        def get(key, default=None):
            return key * 2

    match Found():
        case {"foo": bar}:
            return bar
