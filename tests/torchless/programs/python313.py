"""The syntax and semantics that came with Python 3.13: type parameters with defaults as source text, and `f_locals`.

Each source defines `program`, which is called; its result is the program's.
"""

import sys
import textwrap

from programs import error_of


def _run(source):
    namespace = {"__name__": "program_of_313"}
    exec(compile(textwrap.dedent(source), "<python313>", "exec"), namespace)
    return namespace["program"]()


def type_parameters_with_defaults():
    return _run("""
        def f[A = int, *Bs = *tuple[int, str], **C = [int, str]](x: A = 5):
            return x

        class Box[T: object = str]:
            pass

        type Pair[T = bytes] = tuple[T, T]

        def program():
            defaults = [str(p.__default__) for made in (f, Box, Pair) for p in made.__type_params__]
            return f(), f(6), defaults, [p.has_default() for p in f.__type_params__]
    """)


def defaults_of_type_parameters_are_evaluated_lazily():
    return _run("""
        def f[T = undefined_yet]():
            return "fine"

        def program():
            t, = f.__type_params__
            try:
                t.__default__
            except NameError as e:
                first = str(e)
            globals()["undefined_yet"] = 5
            return f(), first, t.__default__
    """)


def f_locals_writes_through():
    x, y = 1, 2
    sys._getframe().f_locals["x"] = 10
    view = sys._getframe().f_locals
    view.update({"y": 20, "beside": 30})
    view |= {"other": 40}
    return x, y, sorted(view)[:3], locals()["beside"], view["other"], error_of(lambda: view["missing"])


def f_locals_writes_into_cells():
    x = 1

    def inner():
        return x

    view = sys._getframe().f_locals
    view["x"] = 5
    return inner(), x, view.get("x"), view.get("missing", 7), view.setdefault("x", 9), view.setdefault("z", 9)


def f_locals_of_another_frame():
    def set_there(name, value):
        sys._getframe(1).f_locals[name] = value

    x = 1
    set_there("x", 2)
    set_there("unknown", 3)
    return x, locals()["unknown"]


def f_locals_is_like_a_dictionary():
    x = 1
    view = sys._getframe().f_locals
    both = view | {"x": 2}, {"x": 3} | view
    same = view == sys._getframe().f_locals, view == {"x": 1}
    return (
        [d["x"] for d in both],
        same,
        type(view).__name__,
        isinstance(view, dict),
        len(view) > 3,
        "x" in view,
        [*view][:2],
        [*reversed(view)][-2:],
        view.keys()[:2],
        view.values()[:1],
        view.items()[:1],
        error_of(view.__delitem__, "x"),
        error_of(view.update, 5),
        error_of(hash, view),
    )


def locals_is_a_snapshot():
    x = 1
    before = locals()
    x = 2
    before["x"] = 3
    after = locals()
    return x, before["x"], after["x"], before is after


def evaluated_code_has_a_snapshot_of_its_own():
    x = 1
    exec("x = 2; y = 3")
    return x, "y" in locals(), eval("x")


def the_frame_of_a_suspended_generator_is_not_cleared():
    def g():
        yield 1
        yield 2

    it = g()
    next(it)
    return error_of(it.gi_frame.clear), list(it)


def truth_values_of_what_is_compared():
    class Odd:
        def __init__(self, truth):
            self.truth = truth

        def __bool__(self):
            print("asked", self.truth)
            return self.truth

        def __lt__(self, other):
            return Odd(self.truth)

    a, b = Odd(True), Odd(False)
    values = [not not a, not not b, not not (a < b), not not (b < a), not (a < b)]
    if a < b:
        values.append("less")
    values.append("if" if b < a else "else")
    while b:
        values.append("never")
    return values, (a and 5), (b or 6), (a < b) is True


class _Loud:
    def __bool__(self):
        raise ValueError("no truth value")

    def __lt__(self, other):
        return self


def truth_values_that_raise():
    value, caught = _Loud(), []
    try:
        if value:
            pass
    except ValueError as error:
        caught.append(str(error))
    try:
        while value < 1:
            pass
    except ValueError as error:
        caught.append(str(error))
    try:
        caught.append(not value)
    except ValueError as error:
        caught.append(str(error))
    return caught


def an_unawaited_step_of_an_asynchronous_generator():
    import warnings

    async def steps():
        yield 1

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = steps()
        for step in (made.asend(None), made.__anext__(), made.athrow(ValueError()), made.aclose()):
            del step
    return [str(warning.message) for warning in caught]


def steps_of_an_asynchronous_generator_take_turns():
    class Wait:
        def __await__(self):
            yield "waiting"

    async def steps():
        try:
            yield 1
        finally:
            await Wait()

    made = steps()
    seen = [error_of(made.asend(None).send, None)]
    closing = made.aclose()
    seen.append(closing.send(None))
    for act in (
        lambda: made.asend(None).send(None),
        lambda: made.asend(None).throw(ValueError(1)),
        lambda: made.athrow(ValueError(2)).throw(KeyError(3)),
        lambda: made.aclose().throw(KeyError(4)),
        lambda: made.asend(None).close(),
        lambda: closing.close(),
        lambda: closing.send(None),
        lambda: made.asend(None).send(None),
    ):
        seen.append(error_of(act))
    return seen


def closing_a_generator_gives_what_it_returns():
    def g(catches):
        try:
            yield 1
        except GeneratorExit:
            if catches:
                return "returned"
            raise

    results = []
    for catches in (True, False):
        it = g(catches)
        results.append(it.close())
        it = g(catches)
        next(it)
        results += [it.close(), it.close()]
    return results


def evaluators_take_their_namespaces_by_name():
    x = 1
    space = {}
    exec("y = x + 1", globals={"x": 5}, locals=space)
    return eval("x", globals={"x": 2}), eval("x", locals={"x": 3}), eval("x"), space
