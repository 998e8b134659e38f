"""Annotations, decorators, and what they do to functions and classes."""

import functools

from programs import error_of


def annotations_of_functions():
    def f(a: int, b: "text" = 1, *args: float, c: list[int], **kw: dict) -> bool:
        local: int = 5
        return local

    return {
        k: v if isinstance(v, str) else getattr(v, "__name__", str(v)) for k, v in f.__annotations__.items()
    }, f(1, c=[])


def annotations_are_evaluated_in_order():
    def say(x):
        print(x)
        return x

    def f(a: say(1), b: say(2) = say("default"), *, c: say(3) = say("kw default")) -> say(4):
        pass

    return f.__annotations__, f.__defaults__, f.__kwdefaults__


def annotations_of_locals_are_not_evaluated():
    x: undefined_name = 1
    y: also_undefined
    (z): undefined = 3
    return x, z, error_of(lambda: y)


def annotations_of_attributes_and_items_are_evaluated_but_not_stored():
    class Box:
        pass

    def say(x):
        print(x)
        return x

    box, items = Box(), {}
    box.a: say("annotation") = say("value")
    items["k"]: int = 1
    return vars(box), items


def annotations_in_a_class_body():
    class C:
        a: int
        b: "later" = 2
        c: list = []
        (d): int = 4

        def method(self): ...

    return {k: getattr(v, "__name__", v) for k, v in C.__annotations__.items()}, hasattr(C, "a"), C.b, C.d


def annotations_in_a_module():
    namespace = {}
    exec("x: int = 1\ny: str\ndef f(): ...\nif x:\n    z: float = 2.0\n", namespace)
    return {k: v.__name__ for k, v in namespace["__annotations__"].items()}, "y" in namespace


def an_undefined_annotation_leaves_the_program():
    def f(x: undefined_type):
        pass


def decorators_are_applied_bottom_up():
    def mark(name):
        print("made", name)

        def decorate(f):
            print("applied", name)
            return lambda *a: f"{name}({f(*a)})"

        return decorate

    @mark("outer")
    @mark("inner")
    def f(x):
        return x

    return f(5)


def decorators_are_any_expression():
    table = {"double": lambda f: lambda x: 2 * f(x)}

    class Registry:
        def __init__(self):
            self.known = []

        def register(self, f):
            self.known.append(f.__name__)
            return f

    registry = Registry()

    @table["double"]
    @registry.register
    @(lambda f: f)
    def g(x):
        return x + 1

    return g(1), registry.known


def a_decorator_can_be_a_class():
    class Counted:
        def __init__(self, f):
            functools.update_wrapper(self, f)
            self.f, self.n = f, 0

        def __call__(self, *args, **kwargs):
            self.n += 1
            return self.f(*args, **kwargs)

        def __get__(self, instance, owner):
            return self if instance is None else functools.partial(self, instance)

    @Counted
    def f(x):
        """Doc of f."""
        return x

    class C:
        @Counted
        def m(self, x):
            return type(self).__name__, x

    f(1)
    f(2)
    return f.n, f.__name__, f.__doc__, C().m(5), C().m(x=6), C.m.n


def decorators_with_optional_arguments():
    def repeat(f=None, *, times=2):
        if f is None:
            return lambda g: repeat(g, times=times)

        @functools.wraps(f)
        def wrapper(*args):
            return [f(*args) for _ in range(times)]

        return wrapper

    @repeat
    def a():
        return "a"

    @repeat(times=3)
    def b(x):
        return x

    return a(), b(1), a.__name__


def a_decorator_that_fails():
    def bad(f):
        raise ValueError(f"refused {f.__name__}")

    def define():
        @bad
        def f(): ...

    def not_callable():
        @5
        def f(): ...

    return error_of(define), error_of(not_callable)


def class_decorators():
    def add_repr(cls):
        cls.__repr__ = lambda self: (
            f"{cls.__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"
        )
        return cls

    def singleton(cls):
        return cls()

    @add_repr
    class P:
        def __init__(self, x):
            self.x = x

    @singleton
    class Config:
        debug = True

    return repr(P(1)), Config.debug, isinstance(Config, type)


def decorated_methods_properties_and_statics():
    def shout(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs).upper() + "!"

        return wrapper

    class C:
        name = "c"

        @shout
        def m(self):
            return self.name

        @classmethod
        @shout
        def k(cls):
            return cls.__name__ + "lass"

        @staticmethod
        @shout
        def s(x):
            return x

        @property
        @shout
        def p(self):
            return "prop"

    c = C()
    return c.m(), C.k(), C.s("x"), c.p


def a_type_checking_decorator():
    import inspect

    def checked(f):
        signature = inspect.signature(f)

        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            for name, value in bound.arguments.items():
                kind = f.__annotations__.get(name)
                if kind is not None and not isinstance(value, kind):
                    raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
            result = f(*args, **kwargs)
            expected = f.__annotations__.get("return")
            if expected is not None and not isinstance(result, expected):
                raise TypeError(f"{f.__name__} returned {type(result).__name__}")
            return result

        return wrapper

    @checked
    def repeat(text: str, times: int = 2) -> str:
        return text * times if times else None

    return (
        repeat("ab"),
        error_of(repeat, 5),
        error_of(repeat, "a", times="x"),
        error_of(repeat, "a", 0),
        error_of(repeat),
    )


def a_contract_decorator_with_pre_and_post_conditions():
    def contract(pre=None, post=None):
        def decorate(f):
            @functools.wraps(f)
            def wrapper(*args):
                if pre is not None:
                    assert pre(*args), f"precondition of {f.__name__} failed for {args}"
                result = f(*args)
                if post is not None:
                    assert post(result, *args), f"postcondition of {f.__name__} failed: {result}"
                return result

            return wrapper

        return decorate

    @contract(pre=lambda x: x >= 0, post=lambda r, x: r * r <= x < (r + 1) ** 2)
    def root(n):
        r = 0
        while (r + 1) ** 2 <= n:
            r += 1
        return r if n != 7 else 100

    return root(16), root(17), error_of(root, -1), error_of(root, 7)


def a_command_line_router_with_decorators():
    routes = {}

    def route(pattern, **defaults):
        def decorate(f):
            routes[tuple(pattern.split())] = f, defaults
            return f

        return decorate

    @route("add <a> <b>")
    def add(a, b):
        return int(a) + int(b)

    @route("greet <name>", greeting="Hello")
    def greet(name, greeting):
        return f"{greeting}, {name}"

    @route("help")
    def help_():
        return sorted(" ".join(p) for p in routes)

    def dispatch(line):
        words = line.split()
        for pattern, (f, defaults) in routes.items():
            if len(pattern) != len(words):
                continue
            arguments = {}
            for part, word in zip(pattern, words):
                if part.startswith("<"):
                    arguments[part[1:-1]] = word
                elif part != word:
                    break
            else:
                return f(**{**defaults, **arguments})
        raise LookupError(f"no route for {line!r}")

    return [
        dispatch("add 2 3"),
        dispatch("greet Ann"),
        dispatch("help"),
        error_of(dispatch, "fly away"),
        error_of(dispatch, "add x 1"),
    ]


def type_variables_name_the_module_that_makes_them():
    import typing

    made = [typing.TypeVar("T"), typing.NewType("N", int), typing.NamedTuple("P", [("a", int)])]
    return [thing.__module__ == __name__ for thing in made]
