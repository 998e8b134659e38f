"""Language reference: data model (3), execution model (4), function and class definitions (8.7, 8.8)."""

from __future__ import annotations

import functools

from conformance_programs import error_of, program

_level = "module"


@program
def closures_see_later_values(x):
    fs = []
    for i in range(3):
        fs.append(lambda: i)
    late = [f() for f in fs]
    bound = [(lambda n=i: n) for i in range(3)]
    return x + 1, late, [f() for f in bound]


@program
def closures_are_returned_and_go_on(x):
    def counter():
        n = 0

        def step(by=1):
            nonlocal n
            n += by
            return n

        return step

    a, b = counter(), counter()
    return x + a() + a(2), b(), a


@program
def names_are_local_when_assigned_anywhere(x):
    def f():
        return _level
        _level = 1

    def g():
        if False:
            v = 1
        return v

    def h():
        def inner():
            return v

        out = error_of(inner)
        v = 2
        return out, inner()

    return x + 1, error_of(f), error_of(g), h()


@program
def class_bodies_have_a_scope_that_methods_do_not_see(x):
    n = "function"

    class C:
        n = "class"
        m = n
        k = [n for _ in range(1)]
        f = lambda self: n  # noqa: E731

        def g(self):
            return n, self.n, __class__.__name__

    return x + 1, C.m, C.k, C().f(), C().g()


@program
def builtins_are_found_last_and_can_be_hidden(x):
    len = lambda v: "mine"  # noqa: A001, E731
    return x + 1, len([]), error_of(lambda: undefined_name)  # noqa: F821


@program
def parameters_of_every_kind(x):
    def f(a, b=1, /, c=2, *args, d, e=3, **kwargs):
        return a, b, c, args, d, e, kwargs

    return (
        x + 1, f(x, d=4), f(1, 2, 3, 4, 5, d=6, e=7, g=8), f(1, c=9, d=x), error_of(f), error_of(f, 1),
        error_of(lambda: f(a=1, d=2)), error_of(lambda: f(1, 2, 3, c=4, d=5)), f(1, d=1, a=2, b=3),
    )  # fmt: skip


@program
def defaults_are_shared(x):
    def f(v, seen=[]):  # noqa: B006
        seen.append(v)
        return list(seen)

    return x + 1, f(1), f(x), f.__defaults__


@program
def annotations_of_functions(x):
    def f(a: int, *args: "str", b: list[int] = 3, **kw: None) -> bool:
        return a

    return x + f(1), f.__annotations__


@program
def attributes_of_functions(x):
    def f(a, b=1, *, c=2):
        """Says what it does."""
        return a

    f.own = x
    names = f.__name__, f.__qualname__, f.__doc__, f.__defaults__, f.__kwdefaults__, f.__module__
    f.__name__ = "renamed"
    f.__defaults__ = (5,)
    return f.own + 1, names, f.__name__, f.__code__.co_varnames, f.__code__.co_argcount, f.__dict__, f


@program
def decorators_apply_from_the_inside_out(x):
    def tag(name):
        def decorate(fn):
            @functools.wraps(fn)
            def wrapper(*args):
                return name, fn(*args)

            return wrapper

        return decorate

    @tag("outer")
    @tag("inner")
    def f(v):
        """Documented."""
        return v + 1

    @lambda cls: (cls.__name__, cls)
    class C:
        pass

    return f(x), f.__name__, f.__doc__, C[0]


@program
def recursion(x):
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)

    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return x * fact(5), even(10), odd(7)


@program
def classes_inherit(x):
    class A:
        tag = "a"

        def f(self):
            return ["A"]

    class B(A):
        def f(self):
            return ["B", *super().f()]

    class C(A):
        tag = "c"

        def f(self):
            return ["C", *super().f()]

    class D(B, C):
        def f(self):
            return ["D", *super().f()]

    return x + 1, D().f(), D.tag, [cls.__name__ for cls in D.__mro__], D.__bases__ == (B, C), issubclass(D, A)


@program
def classes_that_can_not_be(x):
    class A:
        pass

    class B(A):
        pass

    return (
        x + 1, error_of(lambda: type("C", (A, B), {})), error_of(lambda: type("C", (bool,), {})),
        error_of(lambda: type("C", (3,), {})), error_of(lambda: type("C", (int, str), {})),
    )  # fmt: skip


@program
def class_bodies_run(x):
    seen = []

    class C:
        seen.append("body")
        for i in range(3):
            seen.append(i)
        if i == 2:
            chosen = "two"
        try:
            raise KeyError
        except KeyError:
            seen.append("caught")
        here = sorted(name for name in locals() if not name.startswith("_"))
        del i

    return x + len(seen), seen, C.chosen, C.here, hasattr(C, "i")


@program
def metaclasses_are_told(x):
    seen = []

    class Meta(type):
        @classmethod
        def __prepare__(mcs, name, bases, **kwargs):
            seen.append(("prepare", name, kwargs))
            return {"prepared": 1}

        def __new__(mcs, name, bases, namespace, **kwargs):
            seen.append(("new", "prepared" in namespace))
            return super().__new__(mcs, name, bases, namespace)

        def __init__(cls, name, bases, namespace, **kwargs):
            seen.append(("init", kwargs))
            super().__init__(name, bases, namespace)

        def __call__(cls, *args):
            seen.append("call")
            return super().__call__(*args)

    class C(metaclass=Meta, option=2):
        def __init__(self, v):
            self.v = v

    return C(x).v + 1, seen, type(C).__name__, C.prepared


@program
def subclasses_and_attributes_are_told(x):
    seen = []

    class Named:
        def __set_name__(self, owner, name):
            seen.append((owner.__name__, name))

    class Base:
        def __init_subclass__(cls, /, tag=None, **kwargs):
            seen.append((cls.__name__, tag))

    class Sub(Base, tag="t"):
        a = Named()
        b = Named()

    return x + len(seen), seen


@program
def generic_classes(x):
    class Box:
        def __class_getitem__(cls, item):
            return cls.__name__, item

    class Base:
        def __mro_entries__(self, bases):
            return (Box,)

    class Derived(Base()):
        pass

    return (
        x + 1,
        Box[int, 3],
        Derived.__bases__ == (Box,),
        len(Derived.__orig_bases__),
        list[int],
        dict[str, int].__args__,
    )


@program
def attribute_access_by_hand(x):
    class C:
        fixed = 1

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return "missing", name

        def __setattr__(self, name, value):
            super().__setattr__(name, ("set", value))

        def __delattr__(self, name):
            super().__delattr__(name)

    c = C()
    c.v = x
    found = c.v, c.fixed, c.nope, error_of(lambda: c._private)
    del c.v
    return x + 1, found, c.v


@program
def descriptors_in_order(x):
    class Data:
        def __get__(self, obj, cls):
            return "data", obj is None

        def __set__(self, obj, value):
            obj.__dict__["data"] = value

    class NonData:
        def __get__(self, obj, cls):
            return "non-data", obj is None

    class C:
        data, non = Data(), NonData()

    c = C()
    before = c.data, c.non, C.data, C.non
    c.data, c.__dict__["non"] = x, 2
    return x + 1, before, c.data, c.non, c.__dict__["data"]


@program
def objects_are_equal_hashed_and_ordered_as_they_say(x):
    class V:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n if isinstance(other, V) else NotImplemented

        def __hash__(self):
            return hash(self.n)

        def __lt__(self, other):
            return self.n < other.n

    vs = [V(2), V(1), V(2)]
    return (
        x + len(set(vs)), [v.n for v in sorted(vs)], V(1) == V(1), V(1) != V(2), V(1) == 3, V(3) > V(1),
        {V(1): "one"}[V(1)], vs.index(V(1)), error_of(lambda: V(1) <= V(2)), max(vs).n,
    )  # fmt: skip


@program
def slots(x):
    class S:
        __slots__ = ("a", "b")

    class T(S):
        pass

    s, t = S(), T()
    s.a, t.c = x, 1
    return (
        s.a + 1,
        error_of(lambda: s.b),
        error_of(setattr, s, "c", 1),
        t.__dict__,
        error_of(lambda: s.__dict__),
        S.__slots__,
    )


@program
def multiple_names_for_one_object(x):
    a = [x]
    b, c = a, list(a)
    b.append(1)
    return x + 1, a is b, a is c, len(a), len(c), a


@program
def exceptions_unwind_to_the_handler(x):
    seen = []

    def inner():
        try:
            {}["k"]
        finally:
            seen.append("inner")

    def outer():
        try:
            inner()
        except TypeError:
            seen.append("wrong")
        finally:
            seen.append("outer")

    try:
        outer()
    except LookupError as error:
        seen.append(repr(error))
    return x + len(seen), seen


@program
def dynamic_names_are_what_the_program_made(x):
    class C:
        pass

    for n, name in enumerate(["a", "b"]):
        setattr(C, name, x + n)
    C.made = lambda self: self.a + self.b
    return C().made(), sorted(name for name in vars(C) if len(name) == 1)


@program(given=lambda: (lambda v: v + 1, [lambda v: v * 2]))
def functions_that_are_given(x, f, others):
    for g in others:
        x = g(f(x))
    return x, f.__name__


@program(breaks=("object with a finaliser", "place that can't be left", "value that can't be rebuilt"))
def finalisers_run_when_an_object_is_dropped(x):
    seen = []

    class F:
        def __del__(self):
            seen.append("gone")

    y = x + 1
    f = F()
    del f
    return y * 2, seen
