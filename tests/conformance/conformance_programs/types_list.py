"""Library reference: sequences, `list`, `tuple`, `range` and `slice` (4.6)."""

from __future__ import annotations

from conformance_programs._tables import Table, add_type, of_object, on

LIST: Table = {
    **of_object("[1, 2]", "[1, 3]", "__doc__"),
    "append": [*on("[1]", "2", "x", "[]", "", "1, 2"), *on("[]", "(x, x)")],
    "clear": [*on("[1, [2]]", "", "1"), *on("[]")],
    "copy": on("[1, [2], 'a']", then="r, r is a, r[1] is a[1]"),
    "count": [*on("[1, 2, 1, 'a', True]", "1", "'a'", "3", "None"), *on("[[1], [1]]", "[1]")],
    "extend": on("[1]", "[2, 3]", "(x, x)", "'ab'", "{'k': 1}", "range(2)", "(v * 2 for v in [x])", "1"),
    "index": on("['a', 'b', 'a']", "'a'", "'a', 1", "'a', -1, 3", "'z'", "'b', 2"),
    "insert": on("[1, 2, 3]", "1, 'i'", "-9, x", "99, None", "'a', 1", "1"),
    "pop": [*on("[1, 2, 3]", "", "0", "-2", "3", "'a'", "1.0"), *on("[]", "")],
    "remove": on("[1, 2, 1]", "1", "2", "9"),
    "reverse": [*on("[1, 2, 3]"), *on("[]")],
    "sort": [
        *on("[3, 1, 2]", "", "reverse=True", "key=lambda v: -v", "key=str, reverse=True", "1"),
        *on("['b', 'A', 'c']", "key=str.lower", "key=len"),
        *on("[1, 'a']", ""),
        *on("[[2], [1, 5], [1]]", "", "key=len"),
    ],
    "__add__": on("[1]", "[2, 'a']", "[x]", "(1,)", "1"),
    "__iadd__": on("[1]", "[2]", "(x,)", "'ab'", "1"),
    "__mul__": on("[1, [2]]", "2", "0", "-1", "1.5"),
    "__rmul__": on("[1, [2]]", "2", "'a'"),
    "__imul__": on("[1, [2]]", "2", "0", "'a'"),
    "__contains__": on("[1, 'a', None]", "1", "'z'", "None", "1.0"),
    "__delitem__": on("[1, 2, 3, 4]", "0", "-1", "slice(1, 3)", "slice(None, None, 2)", "9", "'a'"),
    "__getitem__": on("[1, 2, 3, 4]", "0", "-1", "slice(1, 3)", "slice(None, None, -1)", "9", "'a'", "True"),
    "__setitem__": on(
        "[1, 2, 3, 4]",
        *("0, x", "-1, 'z'", "slice(1, 3), [7]", "slice(0, 0), (x, x)", "slice(None, None, 2), 'ab'", "9, 1"),
        *("slice(None, None, 2), [1]", "'a', 1", "slice(0, 1), 5"),
    ),
    "__len__": [*on("[]"), *on("[1, [2]]")],
    "__iter__": [*on("[1, 2]", then="list(r)"), *on("[1, 2]", then="next(r), a")],
    "__reversed__": on("[1, 2, 3]", then="list(r)"),
    "__eq__": on("[1, [2], 'a']", "[1, [2], 'a']", "[1]", "(1, [2], 'a')"),
    "__ne__": on("[1, [2], 'a']", "[1, [2], 'a']", "[1]", "None"),
    "__lt__": on("[1, 2]", "[1, 3]", "[1]", "[1, 2]", "['a']", "(1,)"),
    "__ge__": on("[1, 2]", "[1, 3]", "[1]", "[1, 2]", "(1,)"),
    "__init__": on("[1, 2]", "", "[3]", "'ab'", "1", "[], []"),
    "__repr__": [*on("[1, 'a', [2.5], None]"), *on("[]")],
    "__class_getitem__": on("[]", "int", "(int, str)"),
    "__new__": on("[]", "list", "list, 1, 2", "int", "tuple"),
}
add_type("types_list", list, LIST, {"__doc__": on("[]"), "__class__": on("[]")})

TUPLE: Table = {
    **of_object("(1, 2)", "(1, 3)", "__doc__"),
    "count": on("(1, 2, 1, 'a', True)", "1", "'a'", "3"),
    "index": on("('a', 'b', 'a')", "'a'", "'a', 1", "'z'", "'b', 2"),
    "__add__": on("(1,)", "(2, 'a')", "(x,)", "[1]", "()"),
    "__mul__": on("(1, [2])", "2", "0", "1.5"),
    "__rmul__": on("(1, [2])", "2", "'a'"),
    "__contains__": on("(1, 'a', None)", "1", "'z'", "None"),
    "__getitem__": on("(1, 2, 3, 4)", "0", "-1", "slice(1, 3)", "slice(None, None, -1)", "9", "'a'"),
    "__getnewargs__": on("(1, [2])"),
    "__len__": [*on("()"), *on("(1, [2])")],
    "__iter__": on("(1, 2)", then="list(r)"),
    "__eq__": on("(1, [2], 'a')", "(1, [2], 'a')", "(1,)", "[1, [2], 'a']"),
    "__lt__": on("(1, 2)", "(1, 3)", "(1,)", "('a',)", "[1]"),
    "__hash__": [*on("(1, 'a')", then="r == hash((1, 'a'))"), *on("(1, [])")],
    "__repr__": [*on("(1, 'a', [2.5])"), *on("(1,)"), *on("()")],
    "__class_getitem__": on("()", "int", "(int, ...)"),
    "__new__": on("()", "tuple", "tuple, [1, 2]", "tuple, 'ab'", "tuple, [x]", "tuple, 1", "int"),
}
add_type("types_list", tuple, TUPLE, {"__doc__": on("()"), "__class__": on("()")})

RANGE: Table = {
    **of_object("range(3)", "range(4)", "start"),
    "count": on("range(0, 10, 2)", "4", "5", "'a'"),
    "index": on("range(0, 10, 2)", "4", "5", "'a'"),
    "__bool__": [*on("range(0)"), *on("range(3)")],
    "__contains__": on("range(0, 10, 2)", "4", "5", "4.0", "'a'"),
    "__getitem__": on("range(0, 10, 2)", "1", "-1", "slice(1, 3)", "slice(None, None, -1)", "9", "'a'"),
    "__len__": [*on("range(0)"), *on("range(10, 0, -3)")],
    "__iter__": on("range(10, 0, -3)", then="list(r)"),
    "__reversed__": on("range(10, 0, -3)", then="list(r)"),
    "__eq__": on("range(0, 3, 2)", "range(0, 4, 2)", "range(3)", "[0, 2]"),
    "__hash__": on("range(3)", then="r == hash(range(3))"),
    "__repr__": [*on("range(3)"), *on("range(1, 5, 2)")],
    "__new__": on(
        "range(1)", "range, 3", "range, 1, 5, 2", "range, 1, 2, 0", "range, 'a'", "range", "int, 3"
    ),
}
add_type(
    "types_list",
    range,
    RANGE,
    {name: on("range(1, 9, 2)") for name in ("start", "stop", "step", "__doc__", "__class__")},
)

SLICE: Table = {
    **of_object("slice(1, 2)", "slice(1, 3)", "start"),
    "indices": on("slice(None, -1, 2)", "10", "0", "-1", "'a'"),
    "__eq__": on("slice(1, 'a')", "slice(1, 'a')", "slice(1)", "None"),
    "__repr__": on("slice(1, 'a', None)"),
    "__new__": on("slice(1)", "slice, 3", "slice, 1, 'a', [2]", "slice", "slice, 1, 2, 3, 4", "int, 3"),
}
add_type(
    "types_list",
    slice,
    SLICE,
    {name: on("slice(1, 'a', [2])") for name in ("start", "stop", "step", "__doc__", "__class__")},
)
