"""Library reference: text, `str` (4.7)."""

from __future__ import annotations

from conformance_programs import error_of, program
from conformance_programs._tables import Table, add_type, of_object, on

CASES = "'hELLO wORLD'", "'ßa Ǆ'", "''", "'a1b2'"


def _of(*args: str, receivers: tuple[str, ...] = CASES) -> list:
    return [row for receiver in receivers for row in on(receiver, *args)]


TESTS = "'abc'", "'ABC'", "'123'", "'½'", "'²'", "' \\t'", "''", "'a b'", "'\\x00'", "'Title Case'", "'for'"
PLAIN = "capitalize casefold lower upper swapcase title"
ASKED = "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper"

METHODS: Table = {
    **of_object("'abc'", "'abd'", "__doc__"),
    **{name: [*_of(""), *on("'a'", "1")] for name in PLAIN.split()},
    **{name: [*_of("", receivers=TESTS), *on("'a'", "1")] for name in ASKED.split()},
    "center": on("'ab'", "7", "8, '*'", "1", "5, 'xx'", "'a'"),
    "ljust": on("'ab'", "7", "8, '*'", "1", "5, ''"),
    "rjust": on("'ab'", "7", "8, '*'", "1", "'5'"),
    "zfill": on("'-42'", "7", "1", "''"),
    "count": on("'banana'", "'a'", "'an', 2", "'an', 0, -3", "''", "1"),
    "encode": on("'aé€'", "", "'latin-1', 'replace'", "encoding='utf-16-le'", "'ascii'", "'nope'"),
    "endswith": on("'abc.py'", "'.py'", "('.c', '.py')", "'b', 0, 2", "'', 10", "1"),
    "startswith": on("'abc.py'", "'a'", "('x', 'ab')", "'b', 1", "('x',)", "['a']"),
    "expandtabs": on("'a\\tbc\\t'", "", "4", "tabsize=2", "'4'"),
    "find": on("'banana'", "'an'", "'an', 2", "'x'", "'a', -1", "1"),
    "rfind": on("'banana'", "'an'", "'an', 2", "'x'", "'a', 0, 3", "None"),
    "index": on("'banana'", "'an'", "'an', 2", "'x'"),
    "rindex": on("'banana'", "'an'", "'an', 0, 3", "'x'"),
    "format": [
        *on("'{} {}'", "1, 'a'", "1"),
        *on("'{0[1]} {name!r:>5}'", "[1, 2], name='n'", "[], name=1", "[1, 2]"),
        *on("'{0.real:.2f} {0.imag}'", "1.5", "'a'"),
        *on("'{:{}}|{:{w}}'", "1, 5, 2, w=3"),
        *on("'{'", "1"),
        *on("'{{}}'", ""),
    ],
    "format_map": on("'{a} {b!s}'", "{'a': 1, 'b': []}", "{'a': 1}", "None"),
    "join": [*on("', '", "['a', 'b']", "('a',)", "'abc'", "{'k': 1, 'l': x}", "[]", "[1]", "3")],
    "lstrip": on("'  xab x'", "", "' x'", "None", "1"),
    "rstrip": on("'ab x  '", "", "' x'", "None"),
    "strip": on("' x ab x '", "", "' x'", "None", "b' '"),
    "maketrans": [*on("''", "{'a': 'b', 99: None}", "'ab', 'xy'", "'ab', 'xy', 'z'", "'a', 'bc'", "1")],
    "translate": on("'abcz'", "{97: 'A', 98: None, 99: 67}", "str.maketrans('ab', 'xy', 'z')", "'xxxxx'", "1"),
    "partition": on("'a.b.c'", "'.'", "'x'", "''", "1"),
    "rpartition": on("'a.b.c'", "'.'", "'x'", "''"),
    "removeprefix": on("'TestHook'", "'Test'", "'Hook'", "1"),
    "removesuffix": on("'MiscTests'", "'Tests'", "''", "None"),
    "replace": on("'banana'", "'a', 'o'", "'an', '', 1", "'', '-'", "'a'", "1, 2"),
    "split": on("' a b  c '", "", "' '", "None, 1", "sep='b', maxsplit=1", "''", "1"),
    "rsplit": on("' a b  c '", "", "' '", "None, 1", "sep='b'", "''"),
    "splitlines": on("'a\\nb\\r\\nc\\x0bd'", "", "True", "keepends=False", "'a', 'b'"),
    "__add__": on("'ab'", "'cd'", "''", "1"),
    "__mul__": on("'ab'", "3", "0", "-1", "1.5"),
    "__rmul__": on("'ab'", "3", "'a'"),
    "__mod__": [
        *on("'%s and %r'", "(1, 'a')", "(1,)", "1"),
        *on("'%(a)05.1f %(b)-4d|'", "{'a': 2.55, 'b': 3}", "{'a': 1}", "1"),
        *on("'%%'", "()", "(1,)"),
        *on("'%c %x %o %e'", "('c', 255, 8, 1.5)", "('cc', 1, 1, 1)"),
        *on("'%d'", "'a'", "1.9", "None"),
    ],
    "__rmod__": on("'%s'", "'%d'", "1"),
    "__contains__": on("'abc'", "'b'", "''", "'x'", "1"),
    "__getitem__": on("'abcdef'", "0", "-1", "slice(1, 4)", "slice(None, None, -2)", "6", "'a'", "1.0", "True"),
    "__getnewargs__": on("'abc'"),
    "__len__": [*on("''"), *on("'aé€'")],
    "__iter__": [*on("'aé'", then="list(r)"), *on("''", then="next(r, 'end')")],
    "__format__": on("'abc'", "''", "'>6'", "'*^7.2'", "'d'", "'=5'", "1"),
    "__hash__": on("'abc'", then="r == hash('abc')"),
    "__repr__": [*on("'a\\'b\"\\n\\x00é'"), *on("''")],
    "__str__": on("'abc'", then="r, r is a"),
    "__eq__": on("'abc'", "'abc'", "'abd'", "b'abc'", "1"),
    "__lt__": on("'abc'", "'abd'", "'ab'", "'abc'", "1"),
    "__new__": on("''", "str", "str, 1", "str, b'ab', 'ascii'", "str, object=1.5", "int", "str, b'\\xff', 'ascii'"),
}  # fmt: skip

ATTRIBUTES: Table = {"__doc__": on("'a'", then="r[:20]"), "__class__": on("'a'")}

add_type("types_str", str, METHODS, ATTRIBUTES)


@program(breaks=("error of an operator", "opaque object"))
def what_c_says_of_a_tensor_names_its_class(x):
    y = x + 1
    return y * 2, error_of(lambda: "ab".__add__(x)), error_of(divmod, 7, x)
