"""contextlib and collections, driven by the program's own classes and functions."""

import collections
import contextlib

from programs import error_of


def suppress_and_closing():
    class Resource:
        def close(self):
            print("closed")

    log = []
    with contextlib.suppress(KeyError, ZeroDivisionError):
        log.append(1)
        1 / 0
        log.append("never")
    with contextlib.closing(Resource()) as r:
        log.append(type(r).__name__)
    return log, error_of(_suppress_wrong)


def _suppress_wrong():
    with contextlib.suppress(KeyError):
        raise ValueError("not suppressed")


def exit_stack_unwinds_in_reverse():
    def note(*args, **kwargs):
        print("callback", args, kwargs)

    class M:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            print("enter", self.name)
            return self.name

        def __exit__(self, kind, *rest):
            print("exit", self.name, kind and kind.__name__)
            return self.name == "b"

    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(M(n)) for n in "abc"]
        stack.callback(note, 1, k=2)
        stack.push(lambda kind, error, tb: print("pushed", kind.__name__))
        raise ValueError("x")
    return names


def exit_stack_with_errors_in_exits():
    def bad(message):
        raise RuntimeError(message)

    try:
        with contextlib.ExitStack() as stack:
            stack.callback(bad, "first registered")
            stack.callback(bad, "second registered")
            raise ValueError("body")
    except RuntimeError as e:
        return str(e), repr(e.__context__), repr(e.__context__.__context__)


def exit_stack_pop_all():
    with contextlib.ExitStack() as stack:
        stack.callback(print, "cleanup")
        kept = stack.pop_all()
    print("after the block")
    kept.close()


def redirect_stdout_inside_a_program():
    import io

    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        print("captured")
        with contextlib.redirect_stdout(io.StringIO()) as inner:
            print("deeper")
    print("visible")
    return buffer.getvalue(), inner.getvalue()


def nullcontext_and_context_decorator():
    class track(contextlib.ContextDecorator):
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            print(">", self.name)

        def __exit__(self, *exc_info):
            print("<", self.name, exc_info[0] and exc_info[0].__name__)

    @track("f")
    def f(x):
        return 1 / x

    with contextlib.nullcontext(5) as five:
        pass
    return f(2), error_of(f, 0), five


def a_context_manager_that_handles_generator_exit():
    @contextlib.contextmanager
    def managed():
        try:
            yield "value"
        except GeneratorExit:
            print("generator exit")
            raise
        finally:
            print("finally")

    def consumer():
        with managed() as v:
            yield v
            yield "second"

    g = consumer()
    next(g)
    g.close()


def deques():
    d = collections.deque([1, 2, 3], maxlen=4)
    d.append(4)
    d.append(5)
    d.appendleft(0)
    d.rotate(1)
    popped = d.pop(), d.popleft()
    d.extendleft("ab")
    return (
        list(d),
        popped,
        d.maxlen,
        d[0],
        3 in d,
        list(reversed(d)),
        d.count(2),
        error_of(lambda: collections.deque().pop()),
        error_of(lambda: d[10]),
    )


def ordered_dicts():
    d = collections.OrderedDict(a=1, b=2, c=3)
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    first = d.popitem(last=False)
    return list(d), first, d == {"a": 1, "b": 2}, d == collections.OrderedDict(a=1, b=2), list(reversed(d))


def counters():
    c = collections.Counter(a=3, b=1)
    d = collections.Counter("abbb")
    return (
        dict(c + d),
        dict(c - d),
        dict(c & d),
        dict(c | d),
        sorted(c.elements()),
        c["none"],
        (+collections.Counter(a=-1, b=2)).most_common(),
        c > collections.Counter(a=1),
    )


def default_dicts():
    calls = []

    def factory():
        calls.append(len(calls))
        return len(calls)

    d = collections.defaultdict(factory)
    d["x"], d["y"], d["x"]
    d.get("z")
    tree = lambda: collections.defaultdict(tree)
    t = tree()
    t["a"]["b"]["c"] = 1
    plain = collections.defaultdict()
    return (
        dict(d),
        calls,
        dict(t["a"]["b"]),
        error_of(lambda: plain["k"]),
        error_of(lambda: collections.defaultdict(5)),
    )


def chain_maps():
    base, local = {"x": 1, "y": 2}, {"x": 10}
    c = collections.ChainMap(local, base)
    c["z"] = 5
    child = c.new_child({"y": 0})
    return c["x"], c["y"], sorted(c), local, child["y"], child.parents["y"], error_of(lambda: c["q"])


def user_containers():
    class Lower(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

        def __contains__(self, key):
            return super().__contains__(key.lower())

    class Evens(collections.UserList):
        def append(self, x):
            if x % 2 == 0:
                super().append(x)

    d = Lower({"A": 1}, B=2)
    d.update(C=3)
    e = Evens([1])
    e.append(2)
    e.append(3)
    return dict(d), "a" in d, "C" in d, list(e), list(e + [5])


def own_mappings_get_their_mixins():
    from collections.abc import MutableMapping

    class Reverse(MutableMapping):
        def __init__(self, *args, **kwargs):
            self.data = {}
            self.update(*args, **kwargs)

        def __getitem__(self, key):
            return self.data[key[::-1]]

        def __setitem__(self, key, value):
            self.data[key[::-1]] = value

        def __delitem__(self, key):
            del self.data[key[::-1]]

        def __iter__(self):
            return (k[::-1] for k in self.data)

        def __len__(self):
            return len(self.data)

    r = Reverse(abc=1, xy=2)
    return (
        r["abc"],
        r.data,
        "xy" in r,
        r.get("q", 0),
        r.pop("xy"),
        r.setdefault("n", 5),
        sorted(r.items()),
        r == {"abc": 1, "n": 5},
        error_of(r.pop, "zz"),
        {**r},
    )


def own_sequences_and_sets_get_their_mixins():
    from collections.abc import Sequence, Set

    class Squares(Sequence):
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            if not 0 <= i < self.n:
                raise IndexError(i)
            return i * i

    class Bits(Set):
        def __init__(self, items=()):
            self.mask = sum({1 << i for i in items})

        def __contains__(self, i):
            return bool(self.mask >> i & 1)

        def __iter__(self):
            return (i for i in range(self.mask.bit_length()) if i in self)

        def __len__(self):
            return self.mask.bit_count()

    s, a, b = Squares(5), Bits([1, 3]), Bits([3, 4])
    return [
        list(s),
        9 in s,
        s.index(4),
        list(reversed(s)),
        s.count(1),
        sorted(a | b),
        list(a & b),
        list(a - b),
        list(a ^ b),
        a <= b,
        a & b <= a,
        a == {1, 3},
        a.isdisjoint([9]),
    ]


def an_abstract_container_cannot_be_made():
    from collections.abc import Mapping

    class Half(Mapping):
        def __len__(self):
            return 0

    return Half()


def an_undo_stack_with_context_managers():
    class Document:
        def __init__(self):
            self.text, self.undo_log = "", []

        @contextlib.contextmanager
        def edit(self, name):
            before = self.text
            try:
                yield self
            except ValueError as e:
                self.text = before
                print(f"{name} failed: {e}")
            else:
                self.undo_log.append((name, before))

        def undo(self):
            name, self.text = self.undo_log.pop()
            return name

    d = Document()
    with d.edit("write"):
        d.text += "hello"
    with d.edit("shout") as same:
        same.text = d.text.upper()
    with d.edit("fail"):
        d.text += "???"
        raise ValueError("no question marks")
    return d.text, d.undo(), d.text, len(d.undo_log), d.undo(), d.text, error_of(d.undo)
