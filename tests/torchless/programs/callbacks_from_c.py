"""Python functions that CPython's C code calls: every way in that a program commonly uses."""

import functools
import json
import re

from programs import error_of


def re_sub_with_a_function():
    def double(m):
        print("match", m.group())
        return str(int(m.group()) * 2)

    def bad(m):
        raise ValueError(f"refused {m.group()}")

    return (
        re.sub(r"\d+", double, "a1b22c"),
        error_of(re.sub, "a", bad, "xax"),
        error_of(re.sub, "a", lambda m: 5, "xax"),
    )


def json_with_default_and_hooks():
    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    def default(o):
        if isinstance(o, Point):
            return {"x": o.x, "y": o.y}
        if isinstance(o, (set, frozenset)):
            return sorted(o)
        raise TypeError(f"cannot encode {type(o).__name__}")

    text = json.dumps({"p": Point(1, [2]), "s": {3, 1}}, default=default)
    back = json.loads(
        text,
        object_hook=lambda d: tuple(d.values()) if set(d) == {"x", "y"} else d,
        parse_int=lambda s: int(s) * 10,
    )
    return (
        text,
        back,
        error_of(json.dumps, object, default=default),
        error_of(json.dumps, {1j: 1}),
        error_of(json.loads, "{bad"),
    )


def a_json_encoder_subclass():
    class Encoder(json.JSONEncoder):
        def default(self, o):
            return f"<{type(o).__name__}>" if isinstance(o, complex) else super().default(o)

    return json.dumps([1j, {"k": 2j}], cls=Encoder), error_of(json.dumps, {1, 2}, cls=Encoder)


def dict_lookups_call_hash_and_eq():
    log = []

    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            log.append(f"hash {self.n}")
            return self.n % 2

        def __eq__(self, other):
            log.append(f"{self.n} == {other.n}")
            return self.n == other.n

    d = {Key(i): i for i in (1, 3)}
    found = d.get(Key(3)), Key(5) in d, d.setdefault(Key(1), "new"), d.pop(Key(3))
    return found, log


def list_methods_call_eq():
    class Fuzzy:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            n = getattr(other, "n", other)
            print(self.n, "==", n)
            return abs(self.n - n) <= 1

    items = [Fuzzy(1), Fuzzy(5), Fuzzy(9)]
    return (
        items.index(6),
        items.count(2),
        8 in items,
        [1, 5] == [Fuzzy(1), Fuzzy(7)],
        error_of(items.remove, 100),
    )


def sorting_reducing_and_mapping():
    log = []

    def logged(name, f):
        def wrapper(*args):
            log.append((name, args))
            return f(*args)

        return wrapper

    return [
        sorted("ba", key=logged("key", ord)),
        functools.reduce(logged("reduce", lambda a, b: a + b), [1, 2, 3]),
        list(map(logged("map", str), [1])),
        list(filter(logged("filter", bool), [0, 1])),
        max([1, 2], key=logged("max", lambda x: -x)),
        log,
    ]


def exceptions_travel_through_c():
    def fail(*args):
        raise LookupError(f"from the callback {args}")

    return [
        error_of(sorted, [1, 2], key=fail),
        error_of(functools.reduce, fail, [1, 2]),
        error_of(lambda: list(map(fail, [1]))),
        error_of(lambda: list(filter(fail, [1]))),
        error_of(max, [1], key=fail),
        error_of(re.sub, "a", fail, "a")[0],
        error_of(json.dumps, object, default=lambda o: fail()),
        error_of(lambda: any(map(fail, [1]))),
    ]


def an_exception_through_c_leaves_the_program():
    def key(x):
        return {"a": 1}[x]

    return sorted(["a", "b"], key=key)


def the_context_of_an_exception_through_c():
    def key(x):
        try:
            return {}[x]
        except KeyError:
            raise ValueError(f"no key {x}")

    sorted([1], key=key)


def generators_drained_by_c():
    def g(log):
        try:
            for i in range(3):
                log.append(i)
                yield i
        finally:
            log.append("closed")

    logs = [[] for _ in range(5)]
    results = [
        list(g(logs[0])),
        1 in g(logs[1]),
        dict.fromkeys(g(logs[2])),
        "".join(str(x) for x in g(logs[3])),
        next(iter(g(logs[4]))),
    ]
    return results, logs[:4], logs[4][:1]


def str_join_format_and_percent_call_back():
    class S:
        def __str__(self):
            return "s!"

        def __repr__(self):
            return "r!"

        def __format__(self, spec):
            return f"f{spec}!"

        def __getattr__(self, name):
            return f"attr {name}"

        def __getitem__(self, key):
            return f"item {key}"

    s = S()
    return (
        "{0:x} {0!s} {0!r} {0.name} {0[key]}".format(s),
        "%s %r" % (s, s),
        "-".join(map(str, [s])),
        f"{s:q}",
        str([s]),
    )


def missing_len_contains_and_iter_from_c():
    class D(dict):
        def __missing__(self, key):
            return f"missing {key}"

    return (
        D()["k"],
        "%(x)s" % D(),
        "{y}".format_map(D()),
        [*map(D().__getitem__, "ab")],
        eval("undefined_name", {}, D()),
    )


def constructors_called_from_c():
    class Item:
        made = 0

        def __init__(self, x):
            type(self).made += 1
            self.x = x

        def __repr__(self):
            return f"Item({self.x})"

    items = list(map(Item, "ab"))
    from collections import defaultdict

    class Default:
        def __init__(self):
            self.value = Item.made

    d = defaultdict(Default)
    return repr(items), d["k"].value, Item.made, sorted([Item(2), Item(1)], key=lambda i: i.x)[0].x


def descriptors_and_getattr_called_from_c():
    import operator

    class C:
        @property
        def p(self):
            print("property")
            return 1

        def __getattr__(self, name):
            print("getattr", name)
            return len(name)

    return (
        operator.attrgetter("p", "abc")(C()),
        getattr(C(), "p"),
        list(map(operator.attrgetter("xy"), [C()])),
        hasattr(C(), "z"),
    )


def lambdas_as_callbacks_with_closures_that_write():
    total = 0

    def add(x):
        nonlocal total
        total += x
        return total

    first = list(map(add, [1, 2, 3]))
    second = sorted([3, 1], key=add)
    return first, second, total


def callbacks_that_call_c_that_calls_back():
    def outer(x):
        return sum(map(inner, range(x)))

    def inner(y):
        return max(range(y + 1), key=lambda z: -abs(z - y))

    return sorted(
        [3, 1, 2], key=lambda x: functools.reduce(lambda a, b: a - b, map(outer, range(x + 1)), 0)
    ), outer(4)


def weak_references_and_finalizers():
    import weakref

    class Thing:
        pass

    t = Thing()
    r = weakref.ref(t, lambda ref: print("gone", ref() is None))
    f = weakref.finalize(t, print, "finalized", sep="|")
    alive = r() is t, f.alive
    del t
    return alive, r() is None, f.alive


def threads_run_python_functions():
    import threading

    results = []

    def work(n):
        results.append(sum(range(n)))

    for n in (10, 20):
        thread = threading.Thread(target=work, args=(n,))
        thread.start()
        thread.join()
    local = threading.local()
    local.x = 5
    return results, local.x


def csv_xml_and_other_parsers_call_back():
    import csv
    import io
    from html.parser import HTMLParser

    class Links(HTMLParser):
        def __init__(self):
            super().__init__()
            self.links = []

        def handle_starttag(self, tag, attrs):
            if tag == "a":
                self.links.append(dict(attrs).get("href"))

        def handle_data(self, data):
            self.links.append(data)

    class Lines:
        def __init__(self):
            self.out = []

        def write(self, text):
            self.out.append(text)

    parser = Links()
    parser.feed("<p><a href='x'>one</a><a>two</a>")
    target = Lines()
    csv.writer(target).writerows([[1, "a,b"], [None, 'q"']])
    rows = list(csv.DictReader(io.StringIO("n,m\n1,2\n3,4\n")))
    return parser.links, target.out, rows


def logging_handlers_and_filters():
    import logging

    class Collect(logging.Handler):
        def __init__(self):
            super().__init__()
            self.records = []

        def emit(self, record):
            self.records.append(f"{record.levelname}:{record.getMessage()}")

    logger = logging.Logger("program")
    handler = Collect()
    handler.addFilter(lambda record: "secret" not in record.getMessage())
    logger.addHandler(handler)
    logger.info("hello %s", "world")
    logger.warning("secret %d", 5)
    try:
        1 / 0
    except ZeroDivisionError:
        logger.exception("failed")
    return handler.records


def warnings_raised_by_a_program():
    import warnings

    def old():
        warnings.warn("old is deprecated", DeprecationWarning, stacklevel=2)
        return 5

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = old()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = error_of(old)
    return value, [(w.category.__name__, str(w.message)) for w in caught], error


def struct_array_and_buffers_with_own_objects():
    import array
    import struct

    class N:
        def __index__(self):
            print("index")
            return 7

        def __float__(self):
            print("float")
            return 2.5

    a = array.array("i", [1, 2])
    a.append(N())
    return (
        struct.pack("<hf", N(), N()),
        a.tolist(),
        array.array("d", [N()])[0],
        error_of(struct.pack, "h", "x"),
    )
