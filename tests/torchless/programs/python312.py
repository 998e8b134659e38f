"""The syntax and semantics that came with Python 3.12, as source text that only 3.12 compiles.

Each source defines `program`, which is called; its result is the program's.
"""

import textwrap


def _run(source):
    namespace = {"__name__": "program_of_312"}
    exec(compile(textwrap.dedent(source), "<python312>", "exec"), namespace)
    return namespace["program"]()


def generic_functions():
    return _run("""
        def first[T](items: list[T], default: T | None = None) -> T:
            return items[0] if items else default

        def program():
            names = [str(p) for p in first.__type_params__]
            return first([1, 2]), first([], "d"), names, str(first.__annotations__["return"])
    """)


def generic_functions_with_bounds_and_constraints():
    return _run("""
        def f[A: int, B: (str, bytes), *Cs, **P](x=5, *, k=6):
            return x, k

        def program():
            a, b, c, p = f.__type_params__
            constraints = [t.__name__ for t in b.__constraints__]
            return f(), a.__bound__.__name__, constraints, type(c).__name__, type(p).__name__, f(1, k=2)
    """)


def bounds_are_evaluated_lazily():
    return _run("""
        def f[T: undefined_yet]():
            return "fine"

        def program():
            t, = f.__type_params__
            try:
                t.__bound__
            except NameError as e:
                first = str(e)
            globals()["undefined_yet"] = 5
            return f(), first, t.__bound__
    """)


def constraints_are_evaluated_lazily():
    return _run("""
        def say(x):
            print("evaluated", x)
            return x

        def f[T: (say(int), say(str))](): ...

        def program():
            print("before")
            return [c.__name__ for c in f.__type_params__[0].__constraints__]
    """)


def generic_classes():
    return _run("""
        class Stack[T]:
            kind = "stack"

            def __init__(self, *items: T):
                self.items = list(items)

            def push[U](self, item: T, tag: U = None) -> "Stack[T]":
                self.items.append((item, tag) if tag else item)
                return self

            @classmethod
            def of(cls, x: T):
                return cls(x)

        class Named[T](Stack[T]):
            def __init__(self, name, *items):
                super().__init__(*items)
                self.name = name

            def get(self):
                return self.name, self.items, super().kind

        def program():
            items = Stack(1).push(2).push(3, "t").items, Stack[int].of(5).items, Named("n", 1).push(2).get()
            parameters = str(Stack.__type_params__), Stack.push.__type_params__[0].__name__
            return items, parameters, [b.__name__ for b in Named.__mro__], str(Stack.__orig_bases__[0])
    """)


def generic_class_scopes():
    return _run("""
        def program():
            outer = "outer"

            class C[T]:
                direct = T.__name__
                enclosing = outer

                def method(self):
                    return T.__name__, outer, __class__.__name__

                class Inner[U]:
                    names = T.__name__, U.__name__

            return C.direct, C.enclosing, C().method(), C.Inner.names
    """)


def generic_classes_with_keywords_and_metaclasses():
    return _run("""
        class Meta(type):
            def __new__(meta, name, bases, namespace, **kwargs):
                print("new", name, [getattr(b, "__name__", str(b)) for b in bases], kwargs)
                return super().__new__(meta, name, bases, namespace)

            def __init__(cls, *args, **kwargs):
                super().__init__(*args)

        class Base: ...

        def program():
            class C[T](Base, metaclass=Meta, option=1):
                value: T

            return type(C).__name__, str(C.__annotations__["value"]), isinstance(C(), Base)
    """)


def type_statements():
    return _run("""
        type Number = int | float
        type Pair[T] = tuple[T, T]
        type Recursive = list[Recursive] | int

        def program():
            type Local = list[Number]
            number = str(Number), str(Number.__value__), Number.__name__, type(Number).__name__
            pair = str(Pair.__type_params__), str(Pair[int]), Pair[int].__origin__ is Pair
            return number, pair, str(Recursive.__value__), str(Local.__value__)
    """)


def type_statements_are_lazy():
    return _run("""
        type Later = print("evaluated") or undefined

        def program():
            try:
                Later.__value__
            except NameError as e:
                return str(e)
    """)


def type_aliases_in_class_scopes():
    return _run("""
        def program():
            base = int

            class C:
                element = str
                type Alias = dict[element, base]

                def f[T: (element, base)](self, x: T = element) -> T:
                    return x.__name__

            constraints = [c.__name__ for c in C.f.__type_params__[0].__constraints__]
            return str(C.Alias.__value__), C().f(), constraints
    """)


def names_in_class_annotation_scopes_fall_back_to_globals():
    return _run("""
        element = "global"

        class C:
            type Alias = (element, missing_for_now)
            element = "class"

        def program():
            globals()["missing_for_now"] = "added"
            return C.Alias.__value__
    """)


def f_strings_with_the_same_quotes_inside():
    return _run("""
        def program():
            d = {"k": [1, 2]}
            return f"{d["k"]}", f"{f"{f"{1 + 1}"}"}", f"{", ".join(str(x) for x in d["k"])}", f'{d['k'][0]}'
    """)


def f_strings_with_backslashes_and_comments():
    return _run('''
        def program():
            words = ["a", "b"]
            return f"{"\\n".join(words)}", f"""{
                words[0]  # a comment
                + "!"
            }""", f"{'\\t' + 'x'!r}"
    ''')


def f_strings_deeply_nested_with_specifications():
    return _run("""
        def program():
            width, x = 8, 3.14159
            pad = lambda n: f"{n:{"0"}{width}d}"
            return f"{x:{width}.{f"{2}"}f}", f"{f"{x!r:>{width + 4}}":*^20}", f"{f"{pad(42)}"!r}"
    """)


def a_comprehension_has_no_frame_of_its_own():
    return _run("""
        import sys

        def program():
            outer = 1
            names = [sys._getframe().f_code.co_name for _ in range(1)]
            seen = [sorted(locals()) for inner in range(1)]
            generator = list(sys._getframe().f_code.co_name for _ in range(1))
            return names, seen, generator, outer
    """)


def inlined_comprehensions_restore_the_shadowed_variable():
    return _run("""
        def program():
            x = "kept"
            a = [x for x in range(3)]
            b = {x: [x for x in "ab"] for x in range(2)}
            try:
                [1 // x for x in (1, 0)]
            except ZeroDivisionError:
                after = x
            del x
            c = [x for x in range(2)]
            try:
                x
            except UnboundLocalError as e:
                return a, b, after, c, str(e)
    """)


def inlined_comprehensions_with_cells():
    return _run("""
        def program():
            x = "outer"
            readers = [lambda: x for x in range(2)]
            here = lambda: x
            nested = [[(lambda: (x, y)) for y in range(2)] for x in range(2)]
            return [r() for r in readers], here(), [[f() for f in row] for row in nested], x
    """)


def inlined_comprehensions_in_class_bodies_and_modules():
    return _run("""
        x = "module"
        at_module = [x for x in range(2)]
        after_module = x

        class C:
            x = "class"
            items = [x for x in range(2)]
            after = x
            lambdas = [(lambda: i) for i in range(2)]

        def program():
            return at_module, after_module, C.items, C.after, [f() for f in C.lambdas], "i" in vars(C)
    """)


def locals_inside_an_inlined_comprehension_include_the_outer_ones():
    return _run("""
        def program():
            a = 1
            return [sorted(locals()) for b in range(1)], [{**locals()}["a"] for _ in "x"]
    """)


def super_inside_an_inlined_comprehension():
    return _run("""
        class A:
            def f(self, n):
                return n * 10

        class B(A):
            def all(self):
                return [super().f(i) for i in range(3)], {i: super(B, self).f(i) for i in range(2)}

        def program():
            return B().all()
    """)


def overridden_type_parameters_and_mangling():
    return _run("""
        class C[__T]:
            names = __T.__name__

            def f[T](self, T=5):
                return T

        def program():
            return C.names, C().f(), C.__type_params__[0].__name__
    """)


def generic_async_functions_and_generators():
    return _run("""
        import asyncio

        async def pause[T](x: T) -> T:
            await asyncio.sleep(0)
            return x

        def count[T](*items: T):
            yield from items

        async def stream[T](*items: T):
            for i in items:
                yield await pause(i)

        async def main():
            return await pause(1), list(count(2, 3)), [x async for x in stream(4, 5)]

        def program():
            return asyncio.run(main())
    """)


def decorated_generic_functions():
    return _run("""
        def decorate(f):
            print("decorating", f.__name__, f.__type_params__)
            return f

        def program():
            @decorate
            def f[T](x: T = print("default")) -> T:
                return x

            return f(1), f.__defaults__
    """)


def itertools_batched_and_other_new_library_parts():
    return _run("""
        import itertools
        from typing import override

        class A:
            def f(self): return 1

        class B(A):
            @override
            def f(self): return 2

        def program():
            return list(itertools.batched("abcde", 2)), B().f(), B.f.__override__
    """)


def slices_are_hashable():
    return _run("""
        def program():
            return {slice(1, 2): "s"}[1:2], hash(slice(1, 2)) == hash(slice(1, 2))
    """)


def buffer_protocol_in_python():
    return _run("""
        class Buffer:
            def __init__(self):
                self.data = bytearray(b"abc")

            def __buffer__(self, flags):
                print("buffer")
                return memoryview(self.data)

            def __release_buffer__(self, view):
                print("release")

        def program():
            b = Buffer()
            with memoryview(b) as view:
                view[0] = 90
            return bytes(b.data)
    """)


def a_typed_event_bus():
    return _run("""
        from collections import defaultdict
        from dataclasses import dataclass
        from typing import Callable

        type Handler[E] = Callable[[E], None]

        @dataclass
        class Clicked:
            x: int

        @dataclass
        class Typed:
            text: str

        class Bus[E]:
            def __init__(self):
                self.handlers: defaultdict[type, list[Handler]] = defaultdict(list)

            def on[T](self, kind: type[T]):
                def register(handler: Handler[T]) -> Handler[T]:
                    self.handlers[kind].append(handler)
                    return handler
                return register

            def emit(self, event: E) -> int:
                for handler in (found := self.handlers[type(event)]):
                    handler(event)
                return len(found)

        def program():
            bus, log = Bus[Clicked | Typed](), []

            @bus.on(Clicked)
            def clicked(e):
                log.append(f"{e.x=}")

            @bus.on(Typed)
            @bus.on(Clicked)
            def anything(e):
                log.append(f"{type(e).__name__}({", ".join(f"{k}={v!r}" for k, v in vars(e).items())})")

            return bus.emit(Clicked(3)), bus.emit(Typed("q")), bus.emit(5), log
    """)
