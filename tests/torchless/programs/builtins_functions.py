"""The builtin functions, called with the program's own functions and objects."""

from programs import error_of


def any_and_all_stop_early():
    def say(x):
        print(x)
        return x

    return any(say(x) for x in (0, 1, 2)), all(say(x) for x in (1, 0, 2)), any([]), all([])


def sum_in_every_form():
    return (
        sum([1, 2, 3]),
        sum([[1], [2]], []),
        sum((0.1,) * 3),
        sum([], 5),
        sum([True, True]),
        sum(range(5), start=10),
        error_of(lambda: sum("ab")),
        error_of(lambda: sum(["a"], "")),
        error_of(lambda: sum(5)),
    )


def map_and_filter():
    return (
        list(map(str, [1, 2])),
        list(map(pow, [2, 3], [3, 2])),
        list(filter(None, [0, 1, "", "a"])),
        list(filter(lambda x: x > 1, [1, 2])),
        error_of(lambda: list(filter(5, [1]))),
        error_of(lambda: map(1)),
        error_of(lambda: list(map(1, [1]))),
    )


def print_in_every_form():
    import io
    import sys

    print(1, "two", [3], None, sep="-", end="!\n")
    print()
    print("a", "b", sep="")
    print(*"abc", sep=", ")
    target = io.StringIO()
    print("elsewhere", file=target, flush=True)
    print("x", end="")
    print("y", file=sys.stdout)
    return target.getvalue(), error_of(lambda: print(1, sep=5))


def print_calls_str_of_objects():
    class C:
        def __str__(self):
            return "as text"

    class Bad:
        def __str__(self):
            raise ValueError("no text")

    print(C(), [C()] and "list")
    return error_of(lambda: print("before", Bad()))


def getattr_setattr_delattr_hasattr():
    class C:
        @property
        def broken(self):
            raise AttributeError("inner")

    c = C()
    setattr(c, "x", 1)
    has = hasattr(c, "x"), hasattr(c, "y"), hasattr(c, "broken")
    delattr(c, "x")
    return (
        has,
        getattr(c, "x", "gone"),
        getattr(c, "broken", "default"),
        error_of(getattr, c, "x"),
        error_of(lambda: hasattr(c, 1)),
    )


def isinstance_and_callable():
    class C:
        def __call__(self): ...

    return (
        isinstance(1, (str, (int, float))),
        callable(C()),
        callable(C),
        callable(5),
        isinstance(C, type),
        issubclass(bool, int),
        error_of(isinstance, 1, "int"),
    )


def repr_ascii_format_and_chr():
    return (
        repr("a'b"),
        ascii("é"),
        format(3.14159, ".2f"),
        format("x", ">3"),
        chr(8364),
        ord("€"),
        repr([1, "a", None, {"k": (1,)}]),
        repr(b"\x00a"),
        format(5),
        error_of(format, 5, "zz"),
        error_of(chr, "a"),
    )


def divmod_pow_abs_round():
    return (
        divmod(17, 5),
        divmod(-17, 5),
        divmod(7.5, 2),
        pow(2, 10),
        pow(2, -1),
        pow(2, 10, 100),
        abs(-3),
        abs(3 + 4j),
        round(2.567, 1),
        round(-2.5),
        round(5),
        error_of(divmod, 1, 0),
        error_of(abs, "x"),
    )


def type_and_its_three_argument_form():
    class Meta(type):
        pass

    M = Meta("M", (), {})
    return (
        type(1).__name__,
        type(type).__name__,
        type(M).__name__,
        type("C", (list,), {"x": 1})([1, 2]) == [1, 2],
        type("C", (), {}).__name__,
        error_of(type, 1, 2),
        error_of(type, "a", 5, {}),
    )


def vars_dir_and_id():
    class C:
        a = 1

        def __init__(self):
            self.b = 2

    c, d = C(), C()
    return (
        vars(c),
        "a" in vars(C),
        [n for n in dir(c) if len(n) == 1],
        id(c) == id(c),
        id(c) == id(d),
        error_of(vars, 5),
    )


def zip_enumerate_and_range():
    return (
        list(zip([1, 2], "ab", (None, True))),
        dict(enumerate("ab")),
        list(range(3)),
        list(range(5, 0, -2)),
        range(3) == range(0, 3, 1),
        error_of(range),
        error_of(range, 1.5),
        error_of(enumerate, 5),
        len(range(0, 100, 7)),
    )


def constructors_of_containers():
    def g():
        yield 1
        yield 2

    return (
        list(g()),
        tuple(g()),
        set(g()),
        frozenset(g()),
        dict([(1, 2)]),
        bytes(g()),
        bytearray(2),
        str(b"x", "ascii"),
        list("ab"),
        list({"k": 1}),
        dict(zip(g(), "ab")),
        complex(1, 2),
        bool([]),
        error_of(list, 5),
        error_of(dict, [(1,)]),
    )


def constructors_call_user_protocols():
    class C:
        def __iter__(self):
            print("iter")
            return iter([1, 2])

        def keys(self):
            print("keys")
            return ["a"]

        def __getitem__(self, k):
            return k + "!"

        def __bool__(self):
            return False

        def __bytes__(self):
            return b"B"

    c = C()
    return list(c), tuple(c), dict(c), bool(c), bytes(c), sorted(c), set(c)


def hash_and_equality_of_builtins():
    return (
        hash(1) == hash(1.0),
        hash("a") == hash("a"),
        hash((1, 2)) == hash((1, 2)),
        hash(None) == hash(None),
        error_of(hash, []),
        error_of(hash, {}),
        error_of(hash, ([],)),
        hash(frozenset([1])) == hash(frozenset([1])),
    )


def open_read_and_write_a_file():
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text")
        with open(path, "w") as f:
            f.write("line 1\nline 2\n")
            print("line 3", file=f)
        with open(path) as f:
            lines = [line.rstrip() for line in f]
        with open(path, "a+") as f:
            f.writelines(["4\n", "5\n"])
            f.seek(0)
            text = f.read()
    return lines, len(text), f.closed, error_of(f.read), os.path.exists(path)


def callable_objects_from_c():
    methods = ["abc".upper, [3, 1].index, {"k": 1}.get, "{}-{}".format, str.lower, int.__add__]
    arguments = [(), (1,), ("k",), (1, 2), ("X",), (1, 2)]
    return (
        [m(*a) for m, a in zip(methods, arguments)],
        "".join(map(str.strip, [" a", "b "])),
        list(map(len, ["a", "bc"])),
    )


def min_max_sorted_reversed_of_own_iterables():
    class Bag:
        def __init__(self, *items):
            self.items = items

        def __iter__(self):
            return iter(self.items)

        def __reversed__(self):
            yield from self.items[::-1]

        def __len__(self):
            return len(self.items)

    b = Bag(3, 1, 2)
    return (
        min(b),
        max(b, key=lambda x: -x),
        sorted(b),
        list(reversed(b)),
        sum(b),
        any(b),
        len(b),
        2 in b,
        [*b],
        list(enumerate(b)),
        list(zip(b, b)),
    )


def input_replaced_stdin():
    import io
    import sys

    saved = sys.stdin
    sys.stdin = io.StringIO("first\nsecond\n")
    try:
        return input("prompt> "), input(), error_of(input)
    finally:
        sys.stdin = saved


def slice_and_super_and_property_objects():
    class A:
        def f(self):
            return "A"

    class B(A):
        f = property(lambda self: super(B, self).f())

    return B().f, slice(1, 2) == slice(1, 2, None), type(property()).__name__, property(len).fget is len


def object_and_ellipsis_and_not_implemented():
    return (
        repr(...),
        repr(NotImplemented),
        bool(...),
        type(...).__name__,
        type(None).__name__,
        error_of(lambda: object().x),
        object() == object(),
        error_of(type(None), 1),
    )
