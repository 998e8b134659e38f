"""copy, pickle and inspect on the program's own objects and functions."""

import copy
import inspect
import pickle

from programs import error_of


class _Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)


class _Slotted:
    __slots__ = ("a", "b")


class _Stateful:
    def __init__(self, value):
        self.value, self.cache = value, "big"

    def __getstate__(self):
        print("getstate")
        return {"value": self.value}

    def __setstate__(self, state):
        print("setstate", state)
        self.__dict__.update(state, cache="rebuilt")


class _Reduced:
    def __init__(self, *args):
        print("made with", args)
        self.args = args

    def __reduce__(self):
        return type(self), self.args


class _NewArgs(tuple):
    def __new__(cls, a, b):
        print("new", a, b)
        return super().__new__(cls, (a, b))

    def __getnewargs__(self):
        return tuple(self)


def _documented(a, b: int = 2, *args, c, d=4, **kwargs) -> str:
    """A function to look at."""
    return "x"


def shallow_and_deep_copies():
    a = {"list": [1, [2]], "point": _Point(1, [2])}
    s, d = copy.copy(a), copy.deepcopy(a)
    a["list"][1].append(3)
    a["point"].y.append(4)
    return (
        s["list"],
        d["list"],
        s["point"].y,
        d["point"].y,
        s["point"] is a["point"],
        d["point"] is a["point"],
    )


def deep_copies_keep_sharing_and_cycles():
    shared = [1]
    a = [shared, shared]
    a.append(a)
    b = copy.deepcopy(a)
    b[0].append(2)
    return b[0] is b[1], b[2] is b, a[0], b[1]


def copy_hooks():
    class C:
        def __init__(self, x):
            self.x = x

        def __copy__(self):
            return C(f"copy of {self.x}")

        def __deepcopy__(self, memo):
            return C(f"deep copy of {self.x}")

    c = C("c")
    return copy.copy(c).x, copy.deepcopy(c).x, copy.deepcopy([c, c])[0].x


def pickling_own_objects():
    p = pickle.loads(pickle.dumps([_Point(1, 2), {"k": _Point(3, (4,))}]))
    s = _Slotted()
    s.a = 5
    t = pickle.loads(pickle.dumps(s))
    return p[0].x, p[1]["k"].y, p[0] == _Point(1, 2), t.a, hasattr(t, "b")


def pickling_with_state_hooks():
    s = pickle.loads(pickle.dumps(_Stateful(5)))
    r = pickle.loads(pickle.dumps(_Reduced(1, 2)))
    n = pickle.loads(pickle.dumps(_NewArgs(1, 2)))
    c = copy.copy(_Stateful(6))
    return s.value, s.cache, r.args, tuple(n), c.cache


def pickling_functions_and_classes_by_name():
    return (
        pickle.loads(pickle.dumps(_documented)) is _documented,
        pickle.loads(pickle.dumps(_Point)) is _Point,
        pickle.loads(pickle.dumps(len)) is len,
    )


def things_that_cannot_be_pickled():
    def local():
        pass

    def generator():
        yield

    def message(x):
        kind, text = error_of(pickle.dumps, x)
        return kind, text.partition(" at 0x")[0].partition("<function ")[0]

    return message(lambda: 0), message(local), message(generator()), message([1, {"k": local}])


def signatures():
    class C:
        def __init__(self, x, *, y=1): ...

        def m(self, z): ...

        def __call__(self, q): ...

    signature = inspect.signature(_documented)
    return [
        str(signature),
        list(signature.parameters),
        signature.parameters["a"].kind.name,
        signature.parameters["d"].default,
        str(inspect.signature(C)),
        str(inspect.signature(C(1).m)),
        str(inspect.signature(C(1))),
        str(inspect.signature(lambda *a, k: 0)),
        error_of(inspect.signature, 5),
    ]


def binding_arguments():
    signature = inspect.signature(_documented)
    bound = signature.bind(1, c=3, z=26)
    before = dict(bound.arguments)
    bound.apply_defaults()
    return (
        before,
        dict(bound.arguments),
        bound.args,
        bound.kwargs,
        error_of(signature.bind, 1),
        error_of(signature.bind),
        signature.bind_partial(1).arguments["a"],
    )


def what_kind_of_thing_is_it():
    class C:
        def m(self): ...

        @classmethod
        def k(cls): ...

        @property
        def p(self): ...

    def g():
        yield

    async def a(): ...

    return [
        inspect.isfunction(g),
        inspect.isgeneratorfunction(g),
        inspect.iscoroutinefunction(a),
        inspect.ismethod(C().m),
        inspect.ismethod(C.k),
        inspect.isfunction(C.m),
        inspect.isclass(C),
        inspect.isbuiltin(len),
        inspect.isroutine(C.m),
        inspect.isdatadescriptor(C.p),
        inspect.ismodule(inspect),
        inspect.isgenerator(g()),
        inspect.isabstract(C),
    ]


def members_and_documentation():
    class Base:
        def documented(self):
            """From the base."""

    class C(Base):
        """Class doc."""

        x = 1

        def documented(self): ...

    return (
        [n for n, _ in inspect.getmembers(C) if not n.startswith("_")],
        inspect.getdoc(C),
        inspect.getdoc(C.documented),
        [c.__name__ for c in inspect.getmro(C)],
        inspect.getdoc(_documented),
    )


def static_lookup_does_not_trigger_hooks():
    class C:
        @property
        def p(self):
            print("triggered")
            return 1

        def __getattr__(self, name):
            print("getattr")
            return 2

    c = C()
    return (
        type(inspect.getattr_static(c, "p")).__name__,
        error_of(inspect.getattr_static, c, "zz"),
        inspect.getattr_static(c, "zz", "default"),
        c.p,
        c.zz,
    )


def closure_variables():
    outer = 5

    def f():
        return outer + len([]) + (1 if _Point else 0)

    found = inspect.getclosurevars(f)
    return found.nonlocals, sorted(found.globals), sorted(found.builtins), inspect.unwrap(f) is f


def the_current_frame():
    def inner():
        frame = inspect.currentframe()
        return (
            frame.f_code.co_name,
            sorted(frame.f_locals),
            frame.f_back.f_code.co_name,
            frame.f_globals["__name__"] == __name__,
        )

    return inner()


def the_callers_name():
    import sys

    def who():
        return sys._getframe(1).f_code.co_name

    def caller():
        return who()

    return caller(), who()


def generator_and_coroutine_states():
    def g():
        x = 1
        yield x
        yield inspect.getgeneratorstate(it)

    async def c():
        y = 2

    it = g()
    states = [
        inspect.getgeneratorstate(it),
        next(it),
        sorted(inspect.getgeneratorlocals(it)),
        next(it),
        next(it, "end"),
        inspect.getgeneratorstate(it),
    ]
    coroutine = c()
    states.append(inspect.getcoroutinestate(coroutine))
    coroutine.close()
    return states, inspect.getcoroutinestate(coroutine)


def type_hints():
    import typing

    class C:
        x: "int"
        y: typing.Optional[str] = None

        def m(self, a: "list[C]") -> "typing.Any": ...

    hints = typing.get_type_hints(C)
    return (
        hints["x"].__name__,
        str(hints["y"]),
        error_of(typing.get_type_hints, C.m),
        typing.get_args(dict[str, int]) == (str, int),
        typing.get_origin(list[int]) is list,
    )


def generics_and_protocols():
    from typing import Generic, Protocol, TypeVar, runtime_checkable

    T = TypeVar("T")

    class Stack(Generic[T]):
        def __init__(self):
            self.items: list[T] = []

        def push(self, item: T) -> "Stack[T]":
            self.items.append(item)
            return self

    @runtime_checkable
    class HasPush(Protocol):
        def push(self, item): ...

    s = Stack[int]().push(1).push(2)
    return (
        s.items,
        isinstance(s, HasPush),
        isinstance(5, HasPush),
        Stack[int].__origin__ is Stack,
        Stack.__parameters__ == (T,),
        error_of(lambda: HasPush()),
    )
