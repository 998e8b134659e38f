"""Library reference: numbers, `int`, `float`, `complex` and `bool` (4.4, 4.3)."""

from __future__ import annotations

import sys

from conformance_programs._tables import Table, add_type, of_object, on

ARITHMETIC = "add sub mul truediv floordiv mod divmod pow"
BITS = "and or xor lshift rshift"
COMPARISONS = "eq ne lt le gt ge"


def _binary(receivers: tuple[str, ...], names: str, *others: str) -> Table:
    return {
        f"__{side}{name}__": [row for receiver in receivers for row in on(receiver, *others)]
        for name in names.split()
        for side in ("", "r")
    }


def _compared(receiver: str, *others: str) -> Table:
    return {f"__{name}__": on(receiver, *others) for name in COMPARISONS.split()}


def _whole(make: str, other: str) -> Table:
    """What `int` and `bool` have."""
    return {
        **of_object(make, other, "real"),
        **_binary((make,), ARITHMETIC, "3", "-2", "0", "2.5", "'a'"),
        "__add__": on(make, "3", "'a'", "x"),
        "__mul__": on(make, "-2", "'a'", "x"),
        "__rtruediv__": on(make, "3", "x"),
        **_binary((make,), BITS, "3", "0", "-1", "True", "1.5"),
        **_compared(make, "7", "7.0", other, "True", "'a'"),
        **{f"__{name}__": on(make) for name in "abs bool ceil float floor index int invert neg pos trunc".split()},
        "__round__": on(make, "", "1", "-1", "None", "'a'"),
        "__getnewargs__": on(make),
        "__format__": on(make, "''", "'5'", "'x'", "'08b'", "'+,d'", "'.2f'", "'s'", "1"),
        "__hash__": on(make),
        "as_integer_ratio": on(make),
        "bit_count": on(make),
        "bit_length": on(make),
        "conjugate": on(make),
        "is_integer": on(make),
        "to_bytes": on(make, "2, 'big'", "length=3, byteorder='little', signed=True", "", "1, 'nope'", "0, 'big'"),
        "from_bytes": on(make, "b'\\x01\\x02', 'big'", "[1, 2], byteorder='little'", "b'\\xff', 'big', signed=True", "'a'"),
    }  # fmt: skip


INT: Table = {
    **_whole("7", "8"),
    "__pow__": [*on("7", "3", "-1", "0", "0.5", "2, 5", "-1, 5", "2, 0", "'a'"), *on("-8", "2", "0.5"), *on("0", "-1")],
    "__rpow__": on("7", "3", "-1", "2.0", "'a'"),
    "__lshift__": on("7", "3", "0", "-1", "1.5"),
    "__new__": on("0", "int", "int, '12'", "int, 'ff', 16", "int, 2.9", "int, 'a'", "int, '1', 99", "str"),
}  # fmt: skip
DATA = "real imag numerator denominator __class__".split()
add_type(
    "types_numbers",
    int,
    INT,
    {**{name: [*on("7"), *on("-3")] for name in DATA}, "__doc__": on("7", then="r[:9]")},
)

BOOL: Table = {
    **_whole("True", "False"),
    "__and__": on("True", "False", "True", "3", "1.5"),
    "__or__": on("False", "True", "0", "1.5"),
    "__new__": on("True", "bool", "bool, []", "bool, [0]", "bool, 1, 2", "int"),
}
add_type(
    "types_numbers",
    bool,
    BOOL,
    {**{name: [*on("True"), *on("False")] for name in DATA}, "__doc__": on("True", then="r[:9]")},
    # which warns from 3.12 on, in a scope that is no module's
    breaks={
        ("__invert__", form): "run-time effect"
        for form in ("inside", "outside")
        if sys.version_info >= (3, 12)
    },
)

FLOAT: Table = {
    **of_object("2.5", "3.5", "real"),
    **_binary(("2.5", "-0.0"), ARITHMETIC, "3", "-2.0", "0", "0.5", "'a'"),
    **_compared("2.5", "7", "2.5", "float('nan')", "True", "'a'"),
    **{
        f"__{name}__": [*on("2.5"), *on("-1.5")]
        for name in "abs bool ceil float floor int neg pos trunc".split()
    },
    "__int__": [*on("2.5"), *on("float('inf')"), *on("float('nan')")],
    "__round__": [*on("2.5", "", "1", "-1", "None", "'a'"), *on("0.125", "2")],
    "__getnewargs__": on("2.5"),
    "__format__": on("1234.5678", "''", "'.2f'", "'10.3e'", "'+,.1f'", "'%'", "'g'", "'d'", "1"),
    "__hash__": [*on("2.5"), *on("2.0", then="r == hash(2)")],
    "__repr__": [*on("2.5"), *on("1e100"), *on("-0.0"), *on("float('inf')")],
    "as_integer_ratio": [*on("2.5"), *on("float('inf')")],
    "conjugate": on("2.5"),
    "is_integer": [*on("2.5"), *on("2.0")],
    "hex": [*on("2.5"), *on("-0.0")],
    "fromhex": on("0.0", "'0x1.4p+1'", "'nan'", "'zz'", "1"),
    "__getformat__": on("0.0", "'double'", "'nope'"),
    "__setformat__": on("0.0", "'nope', 'unknown'"),
    "__new__": on("0.0", "float", "float, '1.5'", "float, 'inf'", "float, 'a'", "float, []", "int"),
}
add_type(
    "types_numbers",
    float,
    FLOAT,
    {"real": on("2.5"), "imag": on("2.5"), "__class__": on("2.5"), "__doc__": on("2.5", then="r[:9]")},
)

COMPLEX: Table = {
    **of_object("(1+2j)", "(1+3j)", "real"),
    **_binary(("(1+2j)",), "add sub mul truediv pow", "3", "2.5", "(2-1j)", "0", "'a'"),
    **_compared("(1+2j)", "(1+2j)", "1", "'a'"),
    **{f"__{name}__": [*on("(3+4j)"), *on("0j")] for name in "abs bool complex neg pos".split()},
    "__getnewargs__": on("(1+2j)"),
    "__format__": on("(1.5+2j)", "''", "'.2f'", "'>12'", "'d'"),
    "__hash__": [*on("(1+2j)"), *on("(2+0j)", then="r == hash(2)")],
    "__repr__": [*on("(1+2j)"), *on("-0j"), *on("complex('nan+infj')")],
    "conjugate": on("(1+2j)"),
    "__new__": on(
        "0j", "complex", "complex, '1+2j'", "complex, 1, 2", "complex, imag=3", "complex, 'a'", "int"
    ),
}
add_type(
    "types_numbers",
    complex,
    COMPLEX,
    {"real": on("(1+2j)"), "imag": on("(1+2j)"), "__class__": on("0j"), "__doc__": on("0j", then="r[:9]")},
)
