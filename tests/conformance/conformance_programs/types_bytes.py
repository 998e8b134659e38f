"""Library reference: binary sequences, `bytes`, `bytearray` and `memoryview` (4.8)."""

from __future__ import annotations

from conformance_programs import error_of, program
from conformance_programs._tables import Row, Table, add_type, of_object, on

PLAIN = "capitalize lower upper swapcase title"
ASKED = "isalnum isalpha isascii isdigit islower isspace istitle isupper"


def _of_both(make: str) -> Table:
    """The methods that `bytes` and `bytearray` share; `make` writes a receiver of a bytes literal."""

    def of(literal: str, *args: str, then: str = "r") -> list[Row]:
        return on(make.format(literal), *args, then=then)

    return {
        **of_object(make.format("b'abc'"), make.format("b'abd'"), "__doc__"),
        **{name: [*of("b'hELLO wORLD'"), *of("b''"), *of("b'a'", "1")] for name in PLAIN.split()},
        **{name: [*of("b'abc'"), *of("b'A1 '"), *of("b'\\xff'"), *of("b''")] for name in ASKED.split()},
        "center": of("b'ab'", "7", "8, b'*'", "1", "5, 'x'"),
        "ljust": of("b'ab'", "7", "8, b'*'", "5, b''"),
        "rjust": of("b'ab'", "7", "8, bytearray(b'*')", "'5'"),
        "zfill": of("b'-42'", "7", "1", "''"),
        "count": of("b'banana'", "b'a'", "b'an', 2", "97", "b''", "300", "'a'"),
        "decode": [*of("b'a\\xc3\\xa9'", "", "'latin-1'", "'ascii', 'ignore'", "'ascii'", "encoding='nope'")],
        "endswith": of("b'abc.py'", "b'.py'", "(b'.c', b'.py')", "b'b', 0, 2", "'py'"),
        "startswith": of("b'abc.py'", "b'a'", "(b'x', b'ab')", "b'b', 1", "[b'a']"),
        "expandtabs": of("b'a\\tbc\\t'", "", "4", "tabsize=2"),
        "find": of("b'banana'", "b'an'", "b'an', 2", "b'x'", "110", "'a'"),
        "rfind": of("b'banana'", "b'an'", "b'an', 0, 3", "97"),
        "index": of("b'banana'", "b'an'", "97, 2", "b'x'"),
        "rindex": of("b'banana'", "b'an'", "b'x'"),
        "fromhex": of("b''", "'61 62'", "'6'", "b'61'"),
        "hex": of("b'abc'", "", "'-'", "sep=':', bytes_per_sep=2", "'--'"),
        "join": of("b', '", "[b'a', b'b']", "(bytearray(b'a'), b'')", "{b'k': x}", "['a']", "b'ab'"),
        "lstrip": of("b'  xab x'", "", "b' x'", "' '"),
        "rstrip": of("b'ab x  '", "", "b' x'"),
        "strip": of("b' x ab x '", "", "b' x'", "None"),
        "maketrans": of("b''", "b'ab', b'xy'", "b'a', b'bc'"),
        "translate": of("b'abcz'", "None, b'b'", "bytes.maketrans(b'ab', b'xy')", "b'short'", "None, delete=b'z'"),
        "partition": of("b'a.b.c'", "b'.'", "b'x'", "b''"),
        "rpartition": of("b'a.b.c'", "b'.'", "b'x'", "1"),
        "removeprefix": of("b'TestHook'", "b'Test'", "b'Hook'", "'Test'"),
        "removesuffix": of("b'MiscTests'", "b'Tests'", "b''"),
        "replace": of("b'banana'", "b'a', b'o'", "b'an', b'', 1", "b'a'"),
        "split": of("b' a b  c '", "", "b' '", "None, 1", "sep=b'b', maxsplit=1", "b''"),
        "rsplit": of("b' a b  c '", "", "b' '", "None, 1"),
        "splitlines": of("b'a\\nb\\r\\nc'", "", "True", "keepends=False"),
        "__add__": of("b'ab'", "b'cd'", "bytearray(b'')", "'a'", "1"),
        "__mul__": of("b'ab'", "3", "0", "1.5"),
        "__rmul__": of("b'ab'", "3", "b'a'"),
        "__mod__": [*of("b'%s and %d'", "(b'a', 1)", "(1,)"), *of("b'%(k)a'", "{b'k': 'é'}", "{}"), *of("b'%%'", "()")],
        "__rmod__": of("b'%s'", "1"),
        "__contains__": of("b'abc'", "b'b'", "98", "300", "'a'"),
        "__getitem__": of("b'abcdef'", "0", "-1", "slice(1, 4)", "slice(None, None, -2)", "6", "'a'"),
        "__len__": [*of("b''"), *of("b'abc'")],
        "__iter__": of("b'ab'", then="list(r)"),
        "__eq__": of("b'abc'", "b'abc'", "bytearray(b'abc')", "'abc'"),
        "__lt__": of("b'abc'", "b'abd'", "bytearray(b'ab')", "'abd'"),
        "__buffer__": of("b'abc'", "0", then="bytes(r)"),
    }  # fmt: skip


BYTES: Table = {
    **_of_both("{}"),
    "__bytes__": on("b'abc'", then="r, r is a"),
    "__getnewargs__": on("b'abc'"),
    "__hash__": on("b'abc'", then="r == hash(b'abc')"),
    "__new__": on("b''", "bytes", "bytes, 3", "bytes, [1, 2]", "bytes, 'é', 'utf-8'", "bytes, [300]", "bytes, 'a'", "int"),
}  # fmt: skip
add_type("types_bytes", bytes, BYTES, {"__doc__": on("b'a'", then="r[:20]"), "__class__": on("b'a'")})

BYTEARRAY: Table = {
    **_of_both("bytearray({})"),
    "append": on("bytearray(b'ab')", "99", "300", "'a'"),
    "clear": on("bytearray(b'ab')", "", "1"),
    "copy": on("bytearray(b'ab')", then="r, r is a"),
    "extend": on("bytearray(b'ab')", "b'cd'", "[1, 2]", "['a']", "1"),
    "insert": on("bytearray(b'ab')", "1, 120", "-9, 120", "0, 'a'"),
    "pop": [*on("bytearray(b'abc')", "", "0", "7"), *on("bytearray()", "")],
    "remove": on("bytearray(b'abca')", "97", "120", "'a'"),
    "reverse": on("bytearray(b'abc')"),
    "__alloc__": on("bytearray(b'')"),
    "__delitem__": on("bytearray(b'abcdef')", "0", "slice(1, 4)", "slice(None, None, 2)", "9", "'a'"),
    "__setitem__": on("bytearray(b'abcdef')", "0, 120", "slice(1, 3), b'xyz'", "slice(None, None, 2), b'xyz'", "9, 1", "0, 300"),
    "__iadd__": on("bytearray(b'ab')", "b'cd'", "bytearray(b'e')", "'a'"),
    "__imul__": on("bytearray(b'ab')", "2", "0", "'a'"),
    "__init__": on("bytearray(b'ab')", "", "3", "[1, 2]", "'é', 'utf-8'", "'a'"),
    "__release_buffer__": on("bytearray(b'ab')", "1"),
    "__new__": on("bytearray()", "bytearray", "bytearray, 3", "int"),
}  # fmt: skip
add_type(
    "types_bytes",
    bytearray,
    BYTEARRAY,
    {"__doc__": on("bytearray()", then="r[:20]"), "__class__": on("bytearray()")},
)

VIEW = "memoryview(b'abcdef')"
WRITABLE = "memoryview(bytearray(b'abcdef'))"
MEMORYVIEW: Table = {
    **of_object(VIEW, "memoryview(b'abc')", "nbytes"),
    "cast": [*on(VIEW, "'h'", "'B', [2, 3]", "'q'", then="r.tolist()"), *on(VIEW, "'zz'")],
    "hex": on(VIEW, "", "'-'", "'-', 2"),
    "tobytes": on(VIEW, "", "'C'", "order='F'", "'X'"),
    "tolist": [*on(VIEW), *on("memoryview(b'abcd').cast('B', [2, 2])")],
    "toreadonly": on(WRITABLE, then="r.readonly, bytes(r)"),
    "__getitem__": [*on(VIEW, "0", "-1", "9", "'a'"), *on(VIEW, "slice(1, 4)", "slice(None, None, 2)", then="bytes(r)")],
    "__setitem__": [*on(WRITABLE, "0, 120", "slice(0, 2), b'xy'", "0, 300", "0, 'a'", then="bytes(a)"), *on(VIEW, "0, 1")],
    "__delitem__": on(WRITABLE, "0"),
    "__len__": on(VIEW),
    "__iter__": on(VIEW, then="list(r)"),
    "__hash__": [*on(VIEW, then="r == hash(b'abcdef')"), *on(WRITABLE)],
    "__buffer__": on(VIEW, "0", then="bytes(r)"),
    "__release_buffer__": on(VIEW, "1"),
    "__getstate__": on(VIEW),
    "_from_flags": on("memoryview", "b'abc', 0", then="bytes(r)"),
    "__new__": on(VIEW, "memoryview, b'ab'", "memoryview, 'a'", "int", then="r"),
}  # fmt: skip
ATTRIBUTES: Table = {
    **{
        name: [*on(VIEW), *on(WRITABLE)]
        for name in "c_contiguous contiguous f_contiguous format itemsize".split()
    },
    **{name: on(VIEW) for name in "nbytes ndim readonly shape strides suboffsets".split()},
    "obj": [*on(VIEW), *on(WRITABLE, then="r[:2]")],
    "__doc__": on(VIEW, then="r[:20]"),
    "__class__": on(VIEW),
}
WITHOUT = {
    **dict.fromkeys(("__repr__", "__str__", "__format__"), "its text is its address"),
    **dict.fromkeys(
        ("release", "__enter__", "__exit__"), "a released view equals none: see the program below"
    ),
}
add_type("types_bytes", memoryview, MEMORYVIEW, ATTRIBUTES, forms=("inside",), without=WITHOUT)


@program
def a_view_is_released(x):
    with memoryview(bytearray(b"abc")) as view:
        view[0] = 120
        held = bytes(view)
    late = error_of(lambda: view[0])
    other = memoryview(b"ab")
    other.release()
    return x + len(held), held, late, error_of(other.tobytes), error_of(other.__enter__)


@program(breaks="opaque object", given=lambda: (memoryview(b"abc"),))
def a_view_from_outside_is_of_memory_that_others_write_to(x, view):
    return x + len(view), view[0], view.nbytes
