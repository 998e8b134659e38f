"""Special methods that the language itself calls, one by one."""

from programs import error_of


def containers_by_special_methods():
    class Box:
        def __init__(self):
            self.items = {}

        def __getitem__(self, key):
            print("getitem", key)
            return self.items[key]

        def __setitem__(self, key, value):
            print("setitem", key, value)
            self.items[key] = value

        def __delitem__(self, key):
            print("delitem", key)
            del self.items[key]

        def __len__(self):
            return len(self.items)

        def __iter__(self):
            return iter(sorted(self.items))

        def __reversed__(self):
            return reversed(sorted(self.items))

        def __contains__(self, key):
            return key in self.items

    b = Box()
    b["x"] = 1
    b["y"] = 2
    b["x"] += 10
    del b["y"]
    b["z"], b["w"] = 3, 4
    return b["x"], len(b), list(b), list(reversed(b)), "y" in b, error_of(lambda: b["nope"])


def subscripts_of_every_shape():
    class Shape:
        def __getitem__(self, index):
            return index

    s = Shape()
    results = [s[1], s[1, 2], s[1,], s[...], s[None], s[()], s["a", :], s[s[0]]]
    slices = [s[1:2], s[:], s[::2], s[1:2, 3:4], s[..., 1:]]
    return [repr(r) for r in results + slices]


def old_style_iteration_over_getitem():
    class Numbers:
        def __getitem__(self, i):
            if i == 3:
                raise IndexError("end")
            return i * i

    return list(Numbers()), [x for x in Numbers()], tuple(reversed([*Numbers()])), max(Numbers())


def iteration_with_iter_and_next():
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            print("iter")
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    total = 0
    for x in Countdown(3):
        total += x
    return total, list(Countdown(2)), [*Countdown(2)], dict.fromkeys(Countdown(2)), sum(Countdown(4))


def objects_that_cannot_be_iterated():
    class NoIter:
        pass

    class WrongIter:
        def __iter__(self):
            return 5

    class Disabled:
        __iter__ = None

        def __getitem__(self, i):
            return i

    def loop(x):
        for _ in x:
            pass

    return [
        error_of(loop, NoIter()),
        error_of(loop, WrongIter()),
        error_of(loop, Disabled()),
        error_of(loop, 5),
    ]


def str_and_repr():
    class Both:
        def __str__(self):
            return "str"

        def __repr__(self):
            return "repr"

    class OnlyRepr:
        def __repr__(self):
            return "only"

    b, o = Both(), OnlyRepr()
    return (
        str(b),
        repr(b),
        f"{b} {b!r} {b!s}",
        "%s %r" % (b, b),
        str([b]),
        str(o),
        f"{o}",
        ascii(b),
        "{!r:>6}".format(b),
    )


def repr_that_is_not_a_string_is_an_error():
    class Bad:
        def __repr__(self):
            return 5

        def __str__(self):
            return None

        def __format__(self, spec):
            return 3

    return error_of(lambda: repr(Bad())), error_of(lambda: str(Bad())), error_of(lambda: f"{Bad()}")


def format_receives_the_specification():
    class F:
        def __format__(self, spec):
            return f"<{spec}>"

    width = 7
    return f"{F()}", f"{F():abc}", f"{F():{width}.{width}}", format(F(), "x"), "{0:y} {0}".format(F())


def hash_and_equality_work_together():
    class Key:
        def __init__(self, k):
            self.k = k

        def __hash__(self):
            return hash(self.k)

        def __eq__(self, other):
            return isinstance(other, Key) and self.k == other.k

    d = {Key(1): "a"}
    d[Key(1)] = "b"
    return len(d), d[Key(1)], Key(2) in d, len({Key(1), Key(1), Key(2)})


def equality_without_hash_makes_unhashable():
    class E:
        def __eq__(self, other):
            return True

    return error_of(lambda: hash(E())), error_of(lambda: {E(): 1}), E.__hash__, error_of(lambda: {E()})


def conversions_to_numbers():
    class N:
        def __int__(self):
            return 3

        def __float__(self):
            return 2.5

        def __complex__(self):
            return 1 + 2j

        def __bool__(self):
            return False

        def __index__(self):
            return 4

    n = N()
    return int(n), float(n), complex(n), bool(n), [10, 20, 30, 40, 50][n], "x" * n, range(10)[n], bytes(n)


def conversions_that_return_the_wrong_type():
    class W:
        def __int__(self):
            return "x"

        def __float__(self):
            return 1

        def __index__(self):
            return 1.5

        def __hash__(self):
            return "h"

        def __len__(self):
            return "l"

    w = W()
    return [error_of(lambda: convert(w)) for convert in (int, float, hash, len, range, lambda x: [1][x])]


def length_hint_and_len():
    class Hinted:
        def __init__(self):
            self.left = 3

        def __iter__(self):
            return self

        def __next__(self):
            self.left -= 1
            if self.left < 0:
                raise StopIteration
            return self.left

        def __length_hint__(self):
            print("hint")
            return self.left

    return list(Hinted()), error_of(lambda: len(Hinted()))


def enter_and_exit_are_called_on_the_type():
    class Manager:
        def __enter__(self):
            return "entered"

        def __exit__(self, *exc_info):
            return exc_info[0] is KeyError

    with Manager() as value:
        raise KeyError
    m = Manager()
    m.__enter__ = lambda: "not used"
    with m as again:
        pass
    return value, again


def missing_is_called_by_dict_subclasses():
    class Squares(dict):
        def __missing__(self, key):
            print("missing", key)
            self[key] = key * key
            return self[key]

    s = Squares()
    return s[3], s[3], s.get(4), 5 in s, dict(s)


def instancecheck_and_subclasscheck():
    class Meta(type):
        def __instancecheck__(cls, instance):
            print("instancecheck")
            return hasattr(instance, "quack")

        def __subclasscheck__(cls, sub):
            print("subclasscheck")
            return "quack" in vars(sub)

    class Duck(metaclass=Meta):
        pass

    class Robot:
        quack = True

    return isinstance(Robot(), Duck), isinstance(5, Duck), issubclass(Robot, Duck), isinstance(Duck(), Duck)


def sum_uses_reflected_add():
    class Money:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return Money(self.n + other.n)

        def __radd__(self, other):
            print("radd", other)
            return self if other == 0 else NotImplemented

    return sum([Money(1), Money(2), Money(3)]).n, error_of(lambda: sum([Money(1)], "x"))


def an_instance_called_with_everything():
    class Recorder:
        def __call__(self, *args, **kwargs):
            return len(args), sorted(kwargs)

    r = Recorder()
    return r(), r(1), r(a=1), r(*range(5), **dict(z=1, y=2)), [*map(r, [1], [2])]


def bytes_and_fspath_protocols():
    import os

    class P:
        def __bytes__(self):
            return b"bytes"

        def __fspath__(self):
            return "/some/path"

    return bytes(P()), os.fspath(P()), os.path.join(P(), "x")


def a_polynomial_class():
    class Polynomial:
        def __init__(self, *coefficients):
            while coefficients and coefficients[-1] == 0:
                coefficients = coefficients[:-1]
            self.c = coefficients

        def __call__(self, x):
            result = 0
            for c in reversed(self.c):
                result = result * x + c
            return result

        def __add__(self, other):
            if isinstance(other, (int, float)):
                other = Polynomial(other)
            longer, shorter = sorted((self.c, other.c), key=len, reverse=True)
            return Polynomial(*(a + (shorter[i] if i < len(shorter) else 0) for i, a in enumerate(longer)))

        __radd__ = __add__

        def __mul__(self, other):
            if not isinstance(other, Polynomial):
                return Polynomial(*(other * c for c in self.c))
            out = [0] * (len(self.c) + len(other.c))
            for i, a in enumerate(self.c):
                for j, b in enumerate(other.c):
                    out[i + j] += a * b
            return Polynomial(*out)

        __rmul__ = __mul__

        def __getitem__(self, power):
            return self.c[power] if power < len(self.c) else 0

        def __eq__(self, other):
            return self.c == getattr(other, "c", None)

        def __str__(self):
            terms = [f"{c}x^{i}" if i else str(c) for i, c in enumerate(self.c) if c]
            return " + ".join(reversed(terms)) or "0"

        def __len__(self):
            return len(self.c)

    p, q = Polynomial(1, 2), Polynomial(0, 0, 3)
    return [
        str(p + q),
        str(p * q),
        (p * p)(3),
        str(2 * p + 1),
        p == Polynomial(1, 2, 0),
        q[2],
        q[9],
        bool(Polynomial()),
        str(Polynomial()),
    ]


def reversed_len_and_bool_of_a_ring_buffer():
    class Ring:
        def __init__(self, size):
            self.data, self.size, self.start = [], size, 0

        def append(self, x):
            if len(self.data) < self.size:
                self.data.append(x)
            else:
                self.data[self.start] = x
                self.start = (self.start + 1) % self.size

        def __len__(self):
            return len(self.data)

        def __getitem__(self, i):
            if isinstance(i, slice):
                return [self[j] for j in range(*i.indices(len(self)))]
            if not -len(self) <= i < len(self):
                raise IndexError(f"ring index {i} out of range")
            return self.data[(self.start + i) % len(self.data)]

    r = Ring(3)
    empty = bool(r)
    for x in "abcde":
        r.append(x)
    return empty, list(r), list(reversed(r)), r[-1], r[1:], r[::-1], error_of(lambda: r[3]), "d" in r
