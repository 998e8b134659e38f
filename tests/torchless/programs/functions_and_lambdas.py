"""Function objects: their attributes, lambdas, nesting, and functions as data."""

import types

from programs import error_of


def attributes_of_a_function():
    def f(a, b=1, *args, c, d=2, **kwargs):
        """Docs."""
        local = a
        return local

    return [
        f.__name__, f.__qualname__, f.__doc__, f.__defaults__, f.__kwdefaults__, f.__module__, f.__dict__,
        f.__code__.co_varnames, f.__code__.co_argcount, f.__code__.co_kwonlyargcount, f.__code__.co_name,
    ]  # fmt: skip


def functions_carry_their_own_attributes():
    def f():
        f.calls += 1
        return f.calls

    f.calls = 0
    f()
    f()
    f.tag = "t"
    del f.tag
    return f.calls, f.__dict__, error_of(lambda: f.tag)


def lambdas_in_all_forms():
    return [
        (lambda: 1)(),
        (lambda x, y=2: x + y)(1),
        (lambda *a, **k: (a, k))(1, z=2),
        (lambda x, /, y, *, z: (x, y, z))(1, y=2, z=3),
        (lambda x: lambda y: x * y)(3)(4),
        (lambda: (yield))().__class__.__name__,
        (lambda n: 1 if n < 2 else n)(5),
        (lambda: None).__name__,
    ]


def a_function_without_return_gives_none():
    def nothing():
        1 + 1

    def bare():
        return

    def some(x):
        if x:
            return x

    return nothing(), bare(), some(0), some(1)


def a_function_can_be_renamed_and_redocumented():
    def f():
        """Old."""

    f.__name__ = "g"
    f.__qualname__ = "Outer.g"
    f.__doc__ = "New."
    return f.__name__, f.__qualname__, f.__doc__, error_of(lambda: f(1))


def the_code_of_a_function_can_be_exchanged():
    def f(x):
        return x + 1

    def g(x):
        return x * 100

    before = f(2)
    f.__code__ = g.__code__
    return before, f(2), error_of(lambda: setattr(f, "__code__", 5))


def code_with_other_free_variables_is_refused():
    x = 1

    def f():
        return x

    def g():
        return 1

    g.__code__ = f.__code__


def functions_made_by_hand_from_code():
    def template(a, b=5):
        return a + b + extra

    made = types.FunctionType(template.__code__, {"extra": 100}, "made", (7,))
    return made(1), made(1, 1), made.__name__, error_of(lambda: template(1))


def functions_made_by_hand_with_a_closure():
    def outer():
        x = 1

        def inner():
            return x

        return inner

    cell = types.CellType(99)
    f = outer()
    g = types.FunctionType(f.__code__, globals(), None, None, (cell,))
    cell.cell_contents += 1
    return f(), g(), g.__name__


def nested_functions_have_qualified_names():
    class C:
        def m(self):
            def inner():
                class D:
                    pass

                return D

            return inner

    inner = C().m()
    return [C.m.__qualname__, inner.__qualname__, inner().__qualname__, (lambda: 0).__qualname__]


def redefinition_of_a_function_in_the_same_scope():
    def f():
        return 1

    g = f

    def f():
        return 2

    return g(), f()


def conditional_definition():
    results = []
    for flag in (True, False):
        if flag:

            def f():
                return "yes"

        else:

            def f():
                return "no"

        results.append(f())
    return results


def functions_in_containers():
    operations = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "max": max, "call": lambda f, x: f(x)}
    return [operations["+"](1, 2), operations["-"](5, 3), operations["max"](4, 9), operations["call"](str, 5)]


def a_function_bound_by_hand_becomes_a_method():
    class C:
        n = 5

    def get(self, k):
        return self.n * k

    c = C()
    bound = get.__get__(c)
    c.attached = get
    C.attached_to_class = get
    method = types.MethodType(get, c)
    return bound(2), c.attached(c, 3), c.attached_to_class(4), method(5), bound == method


def a_docstring_is_the_first_statement_only():
    def documented():
        "yes"

    def computed():
        f"no {1}"

    def late():
        x = 1
        "no"
        return x

    return documented.__doc__, computed.__doc__, late.__doc__


def a_shunting_yard_calculator():
    import re

    binary = {
        "+": (1, lambda a, b: a + b),
        "-": (1, lambda a, b: a - b),
        "*": (2, lambda a, b: a * b),
        "/": (2, lambda a, b: a / b),
        "^": (3, lambda a, b: a**b),
    }

    def evaluate(text):
        values, operators = [], []

        def apply():
            symbol = operators.pop()
            b, a = values.pop(), values.pop()
            values.append(binary[symbol][1](a, b))

        for token in re.findall(r"\d+\.?\d*|[-+*/^()]", text):
            if token == "(":
                operators.append(token)
            elif token == ")":
                while operators[-1] != "(":
                    apply()
                operators.pop()
            elif token in binary:
                level = binary[token][0]
                while (
                    operators and operators[-1] != "(" and binary[operators[-1]][0] >= level and token != "^"
                ):
                    apply()
                operators.append(token)
            else:
                values.append(float(token) if "." in token else int(token))
        while operators:
            apply()
        (result,) = values
        return result

    return [
        evaluate("1 + 2 * 3"),
        evaluate("(1 + 2) * 3"),
        evaluate("2 ^ 3 ^ 2"),
        evaluate("7 / 2 - 1.5"),
        error_of(evaluate, "1 +"),
    ]


def a_pipeline_of_named_steps():
    def step(name, **options):
        def decorate(f):
            f.step = name, options
            return f

        return decorate

    @step("strip")
    def strip(text):
        return text.strip()

    @step("repeat", times=2)
    def repeat(text):
        return text * repeat.step[1]["times"]

    @step("shout", mark="!")
    def shout(text):
        return text.upper() + shout.step[1]["mark"]

    text = "  hey "
    for f in (strip, repeat, shout):
        before, text = text, f(text)
        print(f"{f.step[0]}: {before!r} -> {text!r}")
    return text


def church_numerals():
    zero = lambda f: lambda x: x
    successor = lambda n: lambda f: lambda x: f(n(f)(x))
    plus = lambda m: lambda n: lambda f: lambda x: m(f)(n(f)(x))
    times = lambda m: lambda n: lambda f: m(n(f))
    number = lambda n: n(lambda x: x + 1)(0)
    two = successor(successor(zero))
    three = successor(two)
    return number(plus(two)(three)), number(times(two)(three)), number(two(three))


def the_y_combinator():
    fix = lambda f: (lambda x: x(x))(lambda y: f(lambda *args: y(y)(*args)))
    factorial = fix(lambda self: lambda n: 1 if n == 0 else n * self(n - 1))
    return [factorial(n) for n in range(6)]


def a_function_with_more_than_256_constants_and_jumps():
    source = "def f(x):\n" + "".join(f"    if x == {i}: return 'case {i * 1000}'\n" for i in range(400))
    namespace = {}
    exec(source, namespace)
    return [namespace["f"](i) for i in (0, 1, 255, 256, 399, 400)]
