"""Library reference: mappings and sets, `dict`, its views, `set` and `frozenset` (4.9, 4.10)."""

from __future__ import annotations

from conformance_programs._tables import Row, Table, add_type, of_object, on

PAIR = "{'a': 1, 'b': [2]}"
DICT: Table = {
    **of_object("{'a': 1}", "{'a': 2}", "__doc__"),
    "clear": on(PAIR, "", "1"),
    "copy": on(PAIR, then="r, r is a, r['b'] is a['b']"),
    "fromkeys": on("{}", "'ab'", "[1, 2], []", "(1, 2), x", "{3: 4}", "1", "[[]]"),
    "get": on(PAIR, "'a'", "'z'", "'z', x", "'b', 0", "[]", ""),
    "items": on(PAIR, then="list(r), len(r)"),
    "keys": on(PAIR, then="list(r), 'a' in r"),
    "values": on(PAIR, then="list(r), 1 in r"),
    "pop": [*on(PAIR, "'a'", "'z', x", "'z'", "[]"), *on("{}", "1")],
    "popitem": [*on(PAIR, "", "1"), *on("{}")],
    "setdefault": on(PAIR, "'a', 5", "'z', x", "'y'", "[], 1", ""),
    "update": on(
        PAIR,
        *("{'c': 3, 'a': x}", "[('d', 4)]", "e=5, a=6", "{1: 2}, f=x", "", "1", "[1]", "[(1, 2, 3)]"),
        "zip('hi', [x, x])",
    ),
    "__contains__": on(PAIR, "'a'", "'z'", "1", "[]"),
    "__delitem__": on(PAIR, "'a'", "'z'", "[]"),
    "__getitem__": on(PAIR, "'a'", "'z'", "[]", "b'a'"),
    "__setitem__": on(PAIR, "'a', x", "(1, 2), 3", "'n', None", "[], 1"),
    "__len__": [*on("{}"), *on(PAIR)],
    "__iter__": [*on(PAIR, then="list(r)"), *on(PAIR, then="next(r)")],
    "__reversed__": on(PAIR, then="list(r)"),
    "__or__": on(PAIR, "{'c': x}", "{'a': 0}", "[('a', 1)]", "None"),
    "__ror__": on(PAIR, "{'c': 3}", "[('a', 1)]"),
    "__ior__": on(PAIR, "{'c': x}", "[('a', 1)]", "None"),
    "__eq__": on(PAIR, "{'b': [2], 'a': 1}", "{'a': 1}", "[('a', 1)]"),
    "__init__": on(PAIR, "", "{'c': 3}", "[('d', x)]", "e=5", "1", "[1]"),
    "__repr__": [*on(PAIR), *on("{}")],
    "__class_getitem__": on("{}", "(str, int)"),
    "__new__": on("{}", "dict", "dict, 1, 2", "int"),
}
add_type("types_dict", dict, DICT, {"__doc__": on("{}", then="r[:9]"), "__class__": on("{}")})

SETLIKE = {
    "__and__": ("{'a', 'z'}", "{'a': 1}.keys()", "['a']", "1"),
    "__rand__": ("{'a', 'z'}", "['a']"),
    "__or__": ("{'z'}", "['y']", "1"),
    "__ror__": ("{'z'}", "['y']"),
    "__sub__": ("{'a', 'z'}", "['a']", "1"),
    "__rsub__": ("{'a', 'z'}", "['a']"),
    "__xor__": ("{'a', 'z'}", "['a']", "1"),
    "__rxor__": ("{'a', 'z'}", "['a']"),
    "isdisjoint": ("{'a'}", "['z']", "1"),
}


def _view(make: str, element: str) -> Table:
    rows = lambda *args, then="r": on(make, *args, then=then)
    return {
        **of_object(make, "{'a', 'b', 'c'}", "__doc__"),
        # in an order that does not depend on how texts are hashed in this process
        **{
            name: rows(*args, then="sorted(r, key=str) if type(r) is set else r")
            for name, args in SETLIKE.items()
        },
        "__repr__": rows(),
        "__str__": rows(),
        "__contains__": rows(element, "'z'", "1"),
        "__iter__": rows(then="list(r)"),
        "__reversed__": rows(then="list(r)"),
        "__len__": rows(),
        "__eq__": rows("{'a', 'b'}", make, "['a', 'b']"),
        "__hash__": rows(),
    }


VIEWED: Table = {
    "mapping": on("{'a': 1}.keys()", then="dict(r), type(r)"),
    "__doc__": on("{'a': 1}.keys()"),
    "__class__": on("{'a': 1}.keys()"),
}
of_kind = lambda table, kind: {
    name: [Row(row.receiver.replace("keys", kind), row.args, row.then) for row in rows]
    for name, rows in table.items()
}
MADE = {"__new__": "can't be made but by a dictionary"}
add_type("types_dict", type({}.keys()), _view("{'a': 1, 'b': 2}.keys()", "'a'"), VIEWED, without=MADE)
add_type(
    "types_dict",
    type({}.items()),
    _view("{'a': 1, 'b': 2}.items()", "('a', 1)"),
    of_kind(VIEWED, "items"),
    without=MADE,
)
VALUES = {
    **of_object("{'a': 1, 'b': 2}.values()", "{}.values()", "__doc__"),
    "__iter__": on("{'a': 1, 'b': [2]}.values()", then="list(r)"),
    "__reversed__": on("{'a': 1, 'b': [2]}.values()", then="list(r)"),
    "__len__": on("{'a': 1, 'b': [2]}.values()"),
}
ADDRESS = {"__hash__": "its hash is its address", **MADE}
add_type("types_dict", type({}.values()), VALUES, of_kind(VIEWED, "values"), without=ADDRESS)


def _set_of(make: str) -> Table:
    rows = lambda *args, then="r": on(make.format("1, 2, 3"), *args, then=then)
    return {
        **of_object(make.format("1"), make.format("1, 2"), "__doc__"),
        "copy": rows(then="r, type(r)"),
        "difference": rows("[1]", "{1}, (2,)", "", "1", "[[]]"),
        "intersection": rows("[1, 7]", "{1}, (1, 2)", "", "1"),
        "isdisjoint": rows("[1]", "{7}", "{7: x}", "1"),
        "issubset": rows("[1, 2, 3, 4]", "{1}", "1"),
        "issuperset": rows("[1, 2]", "{7}", "1"),
        "symmetric_difference": rows("[1, 7]", "1"),
        "union": rows("[1, 7]", "{8}, (9,)", "", "{6: x}", "1", "[[]]"),
        **{f"__{name}__": rows("{1, 7}", "frozenset({2})", "[1]") for name in ("and", "or", "sub", "xor")},
        **{f"__r{name}__": rows("{1, 7}", "frozenset({2})", "[1]") for name in ("and", "or", "sub", "xor")},
        "__contains__": rows("1", "7", "'a'", "[]"),
        "__len__": [*rows(), *on(make.format("0"))],
        "__iter__": rows(then="sorted(r)"),
        "__eq__": rows("{1, 2, 3}", "frozenset([1, 2, 3])", "[1, 2, 3]"),
        "__lt__": rows("{1, 2, 3, 4}", "{1, 2, 3}", "[1]"),
        "__le__": rows("{1, 2, 3}", "{1}", "[1]"),
        "__gt__": rows("{1}", "{1, 2, 3}", "[1]"),
        "__ge__": rows("{1, 2, 3}", "{7}", "[1]"),
        "__repr__": on(make.format("1")),
        "__class_getitem__": rows("int"),
    }


SET: Table = {
    **_set_of("{{{}}}"),
    "add": on("{1, 2}", "3", "1", "'a'", "[]", ""),
    "clear": on("{1, 2}", "", "1"),
    "discard": on("{1, 2}", "1", "9", "[]"),
    "pop": [*on("{1}"), *on("set()"), *on("{1}", "1")],
    "remove": on("{1, 2}", "1", "9", "[]"),
    "update": on("{1, 2}", "[3]", "{4}, (5,)", "{6: x}", "'ab'", "", "1", "[[]]"),
    "difference_update": on("{1, 2}", "[1]", "{4}, (2,)", "", "1"),
    "intersection_update": on("{1, 2}", "[1]", "{1, 2}, (2,)", "", "1"),
    "symmetric_difference_update": on("{1, 2}", "[1, 7]", "1"),
    **{
        f"__i{name}__": on("{1, 2}", "{1, 7}", "frozenset({2})", "[1]")
        for name in ("and", "or", "sub", "xor")
    },
    "__init__": on("{1, 2}", "", "[3]", "'ab'", "1", "[], []"),
    "__new__": on("set()", "set", "set, 1, 2", "int"),
}
add_type("types_dict", set, SET, {"__doc__": on("{1}", then="r[:9]"), "__class__": on("{1}")})

FROZENSET: Table = {
    **_set_of("frozenset([{}])"),
    "__hash__": on("frozenset([1, 2])", then="r == hash(frozenset([2, 1]))"),
    "__new__": on(
        "frozenset()",
        "frozenset",
        "frozenset, [1, 2]",
        "frozenset, 'ab'",
        "frozenset, [[]]",
        "frozenset, 1",
        "int",
    ),
}
add_type(
    "types_dict",
    frozenset,
    FROZENSET,
    {"__doc__": on("frozenset()", then="r[:9]"), "__class__": on("frozenset()")},
)
