"""The frame hook: modes, decisions, binding, callbacks, and that nothing of it leaks or gets in the way."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import gc
import importlib.machinery
import importlib.util
import inspect
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref
from types import FunctionType

import pytest

from framelift import _frame
from framelift._frame import (
    INTERCEPT,
    INTERPRET,
    LEAF,
    LOOK,
    OFF,
    RUN,
    SKIP,
    SKIP_ALL,
    THROUGH,
    UNDECIDED,
)

HERE = __file__


@pytest.fixture(scope="module", autouse=True)
def give_the_hook_back():
    """To those who registered with it when they were imported, without what was decided here about code."""
    before = {code: _frame.get_decision(code) for code in codes_of_functions()}
    yield
    policy = sys.modules.get("framelift.core.policy")
    hook = sys.modules.get("framelift.dispatch.frame_hook")
    if policy is not None:
        _frame.set_callbacks(policy.decide, hook and hook.on_cache_miss)
    if hook is not None:
        _frame.set_dispatch(sys.modules["framelift._guards"].dispatch)
    for code in codes_of_functions():
        _frame.set_decision(code, *before.get(code, (UNDECIDED, UNDECIDED)))


def codes_of_functions():
    gc.unfreeze()  # or they are not all listed
    # by exact type: a weak proxy whose object is gone can't be asked for its class
    found = {function.__code__ for function in gc.get_objects() if type(function) is FunctionType}
    gc.freeze()
    return found


@pytest.fixture(autouse=True)
def leave_no_trace():
    gc.disable()  # what a collection calls would be looked at, too
    yield
    gc.enable()
    assert (_frame.mode(), _frame.active(), _frame.installed()) == (OFF, 0, False)
    _frame.set_interceptor(None)
    _frame.set_callbacks(None, None)
    _frame.set_dispatch(None)


def decide_for_tests(run=LOOK, intercept=INTERPRET):
    """Looks at the functions of this file, and at nothing else."""

    def decide(func, code):
        return (run, intercept) if code.co_filename == HERE else (SKIP, THROUGH)

    return decide


@contextlib.contextmanager
def intercepting(interceptor, decide=None):
    _frame.set_callbacks(decide or decide_for_tests(), None)
    old = _frame.set_interceptor(interceptor)
    try:
        yield
    finally:
        _frame.set_interceptor(old)
        _frame.set_callbacks(None, None)


class Seen(list):
    """An interceptor that notes what it is given and runs the function for real, in the same mode."""

    def __call__(self, func, arguments, namespace):
        self.append((func.__name__, arguments, namespace))
        _frame.set_decision(func.__code__, UNDECIDED, THROUGH)
        try:
            args, kwargs = unbind(func, arguments)
            return _frame.native(func, *args, **kwargs)
        finally:
            _frame.set_decision(func.__code__, UNDECIDED, INTERPRET)

    @property
    def names(self):
        return [name for name, _, _ in self]


def unbind(func, arguments):
    """The positional and keyword arguments that bind() makes these arguments of."""
    code = func.__code__
    positional, rest = arguments[: code.co_argcount], arguments[code.co_argcount :]
    keyword_names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    keywords, rest = dict(zip(keyword_names, rest)), rest[len(keyword_names) :]
    if code.co_flags & inspect.CO_VARARGS:
        positional = [*positional, *rest.pop(0)]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keywords |= rest.pop(0)
    return positional, keywords


def rerun(func, arguments):
    args, kwargs = unbind(func, arguments)
    return func(*args, **kwargs)


def interpret_as(result):
    return lambda func, arguments, namespace: result


# ---- calls in a mode


@pytest.mark.parametrize(
    "caller, mode, users", [(_frame.call, RUN, 1), (_frame.native, INTERCEPT, 1), (_frame.untouched, OFF, 0)]
)
class TestCallsInAMode:
    def test_the_function_runs_in_the_mode_which_then_ends(self, caller, mode, users):
        def where():
            return _frame.mode(), _frame.active(), _frame.installed()

        assert caller(where) == (mode, users, bool(users))
        assert where() == (OFF, 0, False)

    def test_arguments_and_result_pass_through(self, caller, mode, users):
        def f(a, /, b, *args, c, **kwargs):
            return a, b, args, c, kwargs

        assert caller(f, 1, 2, 3, c=4, d=5, fn=6) == (1, 2, (3,), 4, {"d": 5, "fn": 6})

    def test_any_callable_will_do(self, caller, mode, users):
        class Thing:
            def method(self, x=0):
                return x + 1

            def __call__(self, x):
                return x + 2

        assert caller(Thing().method) == 1
        assert caller(Thing().method, 1) == 2
        assert caller(Thing(), 1) == 3
        assert caller(Thing.method, Thing(), x=4) == 5
        assert caller(functools.partial(max, 3), 4) == 4
        assert caller(len, "abc") == 3
        assert type(caller(Thing)) is Thing

    def test_exceptions_pass_through_and_end_the_mode(self, caller, mode, users):
        with pytest.raises(ZeroDivisionError):
            caller(lambda: 1 / 0)
        with pytest.raises(TypeError, match="not callable"):
            caller(3)
        with pytest.raises(TypeError, match="expected a function"):
            caller()
        with pytest.raises(TypeError, match="expected a function"):
            caller(fn=1)

    def test_called_by_unpacking(self, caller, mode, users):
        assert caller(*(max, 1, 2), **{"key": lambda x: -x}) == 1

    def test_nested_calls_restore_the_mode_around_them(self, caller, mode, users):
        def modes():
            return [_frame.mode(), caller(_frame.mode), _frame.mode()]

        assert _frame.call(modes) == [RUN, mode, RUN]
        assert _frame.native(modes) == [INTERCEPT, mode, INTERCEPT]
        assert _frame.untouched(modes) == [OFF, mode, OFF]


def test_without_callbacks_frames_just_run_and_nothing_is_remembered():
    def f(x):
        return sorted([x, 1], key=lambda y: -y)

    assert _frame.call(f, 2) == [2, 1]
    assert _frame.native(f, 2) == [2, 1]
    assert _frame.get_decision(f.__code__) == (UNDECIDED, UNDECIDED)


# ---- what is kept with a code object


def test_a_cache_is_kept_with_the_code_object():
    code = (lambda: 1).__code__
    assert _frame.get_cache(code) is None
    cache = object()
    _frame.set_cache(code, cache)
    assert _frame.get_cache(code) is cache
    _frame.set_cache(code, None)
    assert _frame.get_cache(code) is None


def test_decisions_are_kept_with_the_code_object():
    code = (lambda: 1).__code__
    _frame.set_decision(code, SKIP_ALL, LEAF)
    assert _frame.get_decision(code) == (SKIP_ALL, LEAF)
    _frame.set_cache(code, 1)
    assert _frame.get_decision(code) == (SKIP_ALL, LEAF)


def test_clear_forgets_everything():
    class Cache:
        pass

    code = (lambda: 1).__code__
    _frame.clear(code)
    cache = Cache()
    gone = weakref.ref(cache)
    _frame.set_cache(code, cache)
    _frame.set_decision(code, LOOK, INTERPRET)
    del cache
    _frame.clear(code)
    assert gone() is None
    assert _frame.get_cache(code) is None
    assert _frame.get_decision(code) == (UNDECIDED, UNDECIDED)


def test_equal_code_objects_are_kept_apart():
    one, other = (compile("1", "x", "eval") for _ in range(2))
    assert one == other
    _frame.set_cache(one, "one")
    assert _frame.get_cache(other) is None


@pytest.mark.parametrize(
    "function, args",
    [
        (_frame.get_cache, ()),
        (_frame.set_cache, (1,)),
        (_frame.get_decision, ()),
        (_frame.set_decision, (1, 1)),
        (_frame.clear, ()),
    ],
)
def test_only_code_objects_have_extras(function, args):
    with pytest.raises(TypeError, match="code"):
        function(len, *args)


@pytest.mark.parametrize("decision", [(5, 1), (1, 5), (-1, 1), (1, -1)])
def test_decisions_must_exist(decision):
    with pytest.raises(ValueError, match="no such decision"):
        _frame.set_decision((lambda: 1).__code__, *decision)


def test_the_cache_dies_with_the_code_object():
    class Cache:
        pass

    def make():
        namespace = {}
        exec("def f(): return 1", namespace)
        return namespace["f"]

    f, cache = make(), Cache()
    gone = weakref.ref(cache)
    _frame.set_cache(f.__code__, cache)
    del cache
    assert gone() is not None
    del f
    gc.collect()
    assert gone() is None


def test_code_objects_may_die_while_the_hook_is_on():
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: None)
    deaths = []

    class Cache:
        def __del__(self):
            deaths.append(user_function(1))

    def user_function(x):
        return x + 1

    def churn():
        for _ in range(100):
            namespace = {}
            exec("def f(x): return x", namespace)
            _frame.set_cache(namespace["f"].__code__, Cache())
            namespace["f"](1)
        gc.collect()

    _frame.call(churn)
    gc.collect()
    assert deaths == [2] * 100


# ---- bind


def plain(a, b=2):
    return a


def all_kinds(a, b=2, /, c=3, d=4, *args, e, f=6, **kwargs):
    return a


def only_keywords(*, a, b=2):
    return a


def only_rest(*args, **kwargs):
    return args


def captured(a, *args, **kwargs):
    return lambda: (a, args, kwargs)


@pytest.mark.parametrize(
    "func, args, kwargs, bound",
    [
        (lambda: 1, (), None, []),
        (plain, (1,), None, [1, 2]),
        (plain, (1, 5), {}, [1, 5]),
        (plain, (), {"b": 1, "a": 3}, [3, 1]),
        (all_kinds, (1,), {"e": 5}, [1, 2, 3, 4, 5, 6, (), {}]),
        (
            all_kinds,
            (1, 2, 3, 4, 5, 6),
            {"e": 7, "f": 8, "g": 9, "a": 10},
            [1, 2, 3, 4, 7, 8, (5, 6), {"g": 9, "a": 10}],
        ),
        (only_keywords, (), {"a": 1}, [1, 2]),
        (only_rest, (1, 2), {"x": 3}, [(1, 2), {"x": 3}]),
        (captured, (1, 2), {"b": 3}, [1, (2,), {"b": 3}]),
    ],
)
def test_cpython_binds(func, args, kwargs, bound):
    assert _frame.bind(func, args, kwargs) == bound


@pytest.mark.parametrize(
    "func, args, kwargs",
    [
        (plain, (), {}),
        (plain, (1, 2, 3), {}),
        (plain, (1,), {"a": 1}),
        (plain, (1,), {"c": 1}),
        (plain, (1,), {3: 1}),
        (all_kinds, (), {}),
        (all_kinds, (1,), {}),
        (all_kinds, (1, 2, 3), {"c": 3, "e": 1}),
        (only_keywords, (1,), {"a": 1}),
        (only_keywords, (), {}),
        (only_keywords, (), {"a": 1, "z": 1}),
        (lambda x, /: x, (), {"x": 1}),
    ],
)
def test_a_wrong_call_raises_cpythons_own_error(func, args, kwargs):
    with pytest.raises(TypeError) as expected:
        func(*args, **kwargs)
    with pytest.raises(TypeError) as found:
        _frame.bind(func, args, kwargs)
    assert str(found.value) == str(expected.value)
    assert _frame.bind(plain, (1,), None) == [1, 2], "the failed request is forgotten"


def test_bind_does_not_run_the_function():
    def f(x):
        raise AssertionError

    assert _frame.bind(f, (1,), None) == [1]


def test_bind_sees_defaults_as_they_are_now():
    def f(a=1, *, b=2):
        pass

    f.__defaults__, f.__kwdefaults__ = (3,), {"b": 4}
    assert _frame.bind(f, (), None) == [3, 4]


def test_generators_and_coroutines_are_bound_without_being_made():
    def generator(a, b=2):
        yield a

    async def coroutine(a, *args):
        return a

    async def async_generator(a, **kwargs):
        yield a

    assert _frame.bind(generator, (1,), None) == [1, 2]
    assert _frame.bind(coroutine, (1, 2), None) == [1, (2,)]
    assert _frame.bind(async_generator, (1,), {"x": 2}) == [1, {"x": 2}]


def test_functions_with_many_locals_are_bound():
    parameters = ", ".join(f"p{i}" for i in range(300))
    body = "\n".join(f"    v{i} = {i}" for i in range(2000))
    namespace = {}
    exec(f"def f({parameters}):\n{body}\n    return lambda: (p0, v0)", namespace)
    assert _frame.bind(namespace["f"], tuple(range(300)), None) == list(range(300))


def test_bound_arguments_are_the_objects_themselves_and_are_released():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    (bound,) = _frame.bind(lambda x: x, (thing,), None)
    assert bound is thing
    del thing, bound
    assert gone() is None


def test_python_code_that_runs_while_binding_is_not_taken_for_the_function():
    """Keywords are compared with ==, which a subclass of str may define in Python, even by the function."""

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            assert plain(7) == 7
            assert _frame.bind(plain, (8,), None) == [8, 2]
            return str(self) == other

    kwargs = {Name("a"): 1}
    assert _frame.bind(plain, (), kwargs) == [1, 2]

    class Bad(Name):
        __hash__ = str.__hash__

        def __eq__(self, other):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _frame.bind(plain, (), {Bad("a"): 1})
    assert plain(1) == 1


def test_bind_works_in_every_mode_and_is_not_intercepted():
    def bind_inside():
        return _frame.bind(plain, (1,), None), _frame.mode()

    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: None)
    assert _frame.call(bind_inside) == ([1, 2], RUN)
    with intercepting(lambda func, arguments, namespace: _frame.bind(plain, (1,), None)):
        assert _frame.native(bind_inside) == [1, 2]
        _frame.set_decision(bind_inside.__code__, UNDECIDED, THROUGH)
        _frame.set_decision(plain.__code__, UNDECIDED, INTERPRET)
        assert _frame.native(bind_inside) == ([1, 2], INTERCEPT)
        _frame.clear(plain.__code__)


def test_bind_rejects_what_is_no_python_function():
    for args in [(len, (), None), (plain, [1], None), (plain, (), 3), (functools.partial(plain), (), None)]:
        with pytest.raises(TypeError, match="takes a Python function"):
            _frame.bind(*args)
    with pytest.raises(TypeError, match="3"):
        _frame.bind(plain, ())


# ---- INTERCEPT


def test_sort_keys_are_intercepted():
    with intercepting(seen := Seen()):
        assert _frame.native(sorted, [3, 1, 2], key=lambda x: -x) == [3, 2, 1]
    assert [arguments for _, arguments, _ in seen] == [[3], [1], [2]]


def test_map_filter_and_reduce_are_intercepted():
    with intercepting(seen := Seen()):
        assert _frame.native(list, map(lambda x, y: x + y, [1, 2], [3, 4])) == [4, 6]
        assert _frame.native(list, filter(lambda x: x > 1, [1, 2])) == [2]
        assert _frame.native(functools.reduce, lambda x, y: x * y, [2, 3, 4]) == 24
    assert len(seen) == 2 + 2 + 2


def test_comparison_and_hash_in_dict_lookups_are_intercepted():
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.n == other.n

    table = {Key(1): "one", Key(2): "two"}
    with intercepting(seen := Seen()):
        assert _frame.native(table.get, Key(2)) == "two"
    assert seen.names == ["__hash__", "__eq__", "__eq__"]


def test_properties_descriptors_and_getattr_are_intercepted():
    class Thing:
        @property
        def size(self):
            return 3

        def __getattr__(self, name):
            return name

        def __len__(self):
            return 4

    with intercepting(seen := Seen()):
        assert _frame.native(getattr, Thing(), "size") == 3
        assert _frame.native(getattr, Thing(), "other") == "other"
        assert _frame.native(len, Thing()) == 4
    assert seen.names == ["size", "__getattr__", "__len__"]


def test_construction_of_instances_is_intercepted():
    class Meta(type):
        def __call__(cls, *args):
            return super().__call__(*args)

    class Thing(metaclass=Meta):
        def __new__(cls, x):
            return super().__new__(cls)

        def __init__(self, x):
            self.x = x

    with intercepting(seen := Seen()):
        assert _frame.native(Thing, 5).x == 5
    assert seen.names == ["__call__", "__new__", "__init__"]


def test_the_interceptor_gets_the_function_and_bound_arguments_and_its_result_is_the_result():
    got = []

    def f(a, b=2, *args, c=3, **kwargs):
        raise AssertionError

    def interceptor(*args):
        got.append((args, _frame.mode()))
        return "instead"

    with intercepting(interceptor):
        assert _frame.native(f, 1, c=5, d=6) == "instead"
    assert got == [((f, [1, 2, 5, (), {"d": 6}], None), OFF)]


def test_closures_and_cells_are_intercepted_before_cells_are_made():
    def outer(a):
        return lambda: a

    with intercepting(seen := Seen()):
        assert _frame.native(outer, 1)() == 1
        assert _frame.native(outer(2)) == 2
    assert seen == [("outer", [1], None), ("<lambda>", [], None)]


def test_a_leaf_is_not_looked_into():
    def leaf():
        return _frame.mode(), below()

    def below():
        return _frame.mode()

    with intercepting(interpret_as("no")):
        _frame.set_decision(leaf.__code__, UNDECIDED, LEAF)
        assert _frame.native(lambda: 1) == "no"
        assert _frame.native(leaf) == (OFF, OFF)


def test_a_through_frame_runs_and_what_it_calls_is_intercepted():
    def through():
        return _frame.mode(), below()

    def below():
        raise AssertionError

    with intercepting(interpret_as("below")):
        _frame.set_decision(through.__code__, UNDECIDED, THROUGH)
        assert _frame.native(through) == (INTERCEPT, "below")


def test_without_an_interceptor_frames_run():
    with intercepting(None):
        assert _frame.native(lambda: _frame.mode()) == INTERCEPT


def test_calls_compiled_to_specialised_instructions_are_seen():
    """Warm calls, properties and subscripts bypass the evaluator, unless there is a hook."""

    class Thing:
        def __init__(self):
            pass

        def __getitem__(self, i):
            return i

        @property
        def size(self):
            return 1

        def method(self):
            return 2

    class Overridden:
        def __getattribute__(self, name):
            return name

    def generator():
        yield leaf(0)

    def leaf(x):
        return x

    def hot(thing, overridden):
        result = []
        for i in range(50):
            result += [thing[i], thing.size, thing.method(), overridden.x, leaf(i), leaf(x=i), *generator()]
            Thing()
        return result

    for _ in range(20):
        expected = hot(Thing(), Overridden())
    counts = {}

    def missed(func, arguments):
        counts[func.__name__] = counts.get(func.__name__, 0) + 1

    _frame.set_callbacks(decide_for_tests(), missed)
    assert _frame.call(hot, Thing(), Overridden()) == expected
    names = ["__init__", "__getitem__", "size", "method", "__getattribute__", "generator"]
    assert counts == {"hot": 1, "leaf": 150} | dict.fromkeys(names, 50)


# ---- class bodies, exec, eval


def test_class_bodies_come_with_their_namespace():
    got = []

    def interceptor(func, arguments, namespace):
        got.append((func.__name__, arguments, namespace))
        namespace["x"] = 5

    def define():
        class Thing:
            x = 1

        return Thing

    with intercepting(interceptor):
        _frame.set_decision(define.__code__, UNDECIDED, THROUGH)
        assert _frame.native(define).x == 5
    ((name, arguments, namespace),) = got
    assert (name, arguments) == ("Thing", [])
    assert namespace == {"x": 5}


def test_a_class_body_in_a_prepared_namespace():
    class Namespace(dict):
        pass

    class Meta(type):
        @classmethod
        def __prepare__(cls, name, bases):
            return Namespace()

    def define():
        class Thing(metaclass=Meta):
            pass

    got = []
    with intercepting(lambda func, arguments, namespace: got.append(namespace)):
        for function in (define, Meta.__prepare__.__func__):
            _frame.set_decision(function.__code__, UNDECIDED, THROUGH)
        _frame.native(define)
    assert [type(namespace) for namespace in got] == [Namespace]


def test_exec_and_eval_come_with_their_namespace():
    got = []

    def interceptor(func, arguments, namespace):
        got.append((func.__globals__, arguments, namespace))
        return 7

    here, there = {}, {}
    with intercepting(interceptor):
        assert _frame.native(exec, compile("x = 1", HERE, "exec"), here, there) is None
        assert _frame.native(eval, compile("1 + 1", HERE, "eval"), here) == 7
    assert [g is here for g, _, _ in got] == [True, True]
    assert got[0][2] is there
    assert got[1][2] is here


def test_class_bodies_and_exec_in_run_mode():
    names = []

    def define():
        class Thing:
            x = 1

        exec(compile("y = 1", HERE, "exec"))
        return Thing

    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: names.append((func.__name__, arguments)))
    assert _frame.call(define).x == 1
    assert names == [("define", []), ("Thing", []), ("<module>", [])]


# ---- generators


def test_generators_are_intercepted_when_made_and_not_when_resumed():
    def generator(n):
        for i in range(n):
            yield helper(i), _frame.mode()

    def helper(i):
        return i

    with intercepting(seen := Seen()):
        made = _frame.native(generator, 2)
        assert seen == [("generator", [2], None)]
        assert _frame.native(list, made) == [(0, INTERCEPT), (1, INTERCEPT)]
    assert seen.names == ["generator", "helper", "helper"]


def test_generators_can_be_thrown_into_and_closed():
    def generator():
        try:
            yield 1
        except KeyError:
            yield 2
        finally:
            events.append("closed")

    events = []
    with intercepting(seen := Seen()):
        made = _frame.native(generator)
        assert _frame.native(next, made) == 1
        assert _frame.native(made.throw, KeyError()) == 2
        _frame.native(made.close)
        again = _frame.native(generator)
        next(again)
        with pytest.raises(ZeroDivisionError):
            _frame.native(again.throw, ZeroDivisionError())
    assert seen.names == ["generator"] * 2
    assert events == ["closed"] * 2


def test_coroutines_run_under_the_hook():
    async def inner(x):
        await asyncio.sleep(0)
        return x + 1

    async def outer():
        return [await inner(1), [y async for y in numbers()]]

    async def numbers():
        yield await inner(2)

    expected = [2, [3]]
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: None)
    assert _frame.call(asyncio.run, outer()) == expected
    with intercepting(seen := Seen()):
        assert _frame.native(asyncio.run, outer()) == expected
    # a finaliser of some earlier test may run meanwhile, and be seen too
    assert {"inner", "numbers"} <= set(seen.names)


# ---- RUN


def test_a_looked_at_frame_may_be_replaced():
    def f(x):
        raise AssertionError

    def region(x, y):
        return x, y, _frame.mode()

    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: (region, (func, arguments)))
    assert _frame.call(f, 3) == (f, [3], OFF)


def test_a_looked_at_frame_may_be_let_run_and_what_it_calls_is_looked_at():
    def f(x):
        return g(x), _frame.mode()

    def g(x):
        return x

    looked_at = []
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: looked_at.append((func, arguments)))
    assert _frame.call(f, 3) == (3, RUN)
    assert looked_at == [(f, [3]), (g, [3])]


def test_a_skipped_frame_runs_and_what_it_calls_is_looked_at():
    def f():
        return g(), _frame.mode()

    def g():
        raise AssertionError

    _frame.set_decision(f.__code__, SKIP, UNDECIDED)
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: (str, (func.__name__,)))
    assert _frame.call(f) == ("g", RUN)


def test_below_a_frame_that_skips_all_nothing_is_looked_at():
    def f():
        return g(), _frame.mode()

    def g():
        return _frame.mode()

    _frame.set_decision(f.__code__, SKIP_ALL, UNDECIDED)
    _frame.set_callbacks(decide_for_tests(), None)
    assert _frame.call(lambda: [f(), _frame.mode()]) == [(OFF, OFF), RUN]


def test_generator_functions_are_looked_at_when_made():
    def generator(n):
        yield from range(n)

    calls = []
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: calls.append(func.__name__))
    assert _frame.call(lambda: list(generator(3))) == [0, 1, 2]
    assert calls == ["<lambda>", "generator"]
    _frame.set_callbacks(
        decide_for_tests(),
        lambda func, arguments: (iter, ("ab",)) if func is generator else None,
    )
    assert _frame.call(lambda: list(generator(3))) == ["a", "b"]


def test_code_is_decided_once():
    asked = []

    def decide(func, code):
        asked.append((func.__code__ is code, code.co_name, _frame.mode()))
        return SKIP, THROUGH

    def f():
        return g()

    def g():
        return 1

    _frame.set_callbacks(decide, None)
    for caller in (_frame.call, _frame.native, _frame.call):
        assert caller(f) == 1
    assert asked == [(True, "f", OFF), (True, "g", OFF)]
    assert _frame.get_decision(f.__code__) == (SKIP, THROUGH)
    _frame.clear(f.__code__)
    _frame.call(f)
    assert [name for _, name, _ in asked] == ["f", "g", "f"]


def test_a_half_decided_before_stands():
    def f():
        return _frame.mode()

    _frame.set_decision(f.__code__, SKIP_ALL, UNDECIDED)
    _frame.set_callbacks(lambda func, code: (SKIP, LEAF), None)
    assert _frame.native(f) == OFF
    assert _frame.get_decision(f.__code__) == (SKIP_ALL, LEAF)


# ---- dispatch

DISPATCH = ctypes.PYFUNCTYPE(
    ctypes.c_void_p,
    ctypes.py_object,
    ctypes.py_object,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_ssize_t,
)


KEPT = []


def capsule_of(function, name=b"framelift._guards.dispatch"):
    """A capsule holds only the addresses of function and name, so they are kept here."""
    KEPT.append((function, name))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.cast(function, ctypes.c_void_p), name, None)


def set_fake_dispatch(entries):
    """A dispatch in Python: `entries(cache, func, locals)` returns None for a miss, or a 1-tuple."""

    def fake(cache, func, slots, nlocals):
        values = [ctypes.cast(slots[i], ctypes.py_object).value if slots[i] else None for i in range(nlocals)]
        hit = entries(cache, func, values)
        if hit is None:
            return None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(hit[0]))
        return id(hit[0])

    _frame.set_dispatch(capsule_of(DISPATCH(fake)))


def test_an_entry_that_holds_is_run_instead_of_the_frame():
    calls = []

    def f(a, b=2, *rest):
        unset = a
        return lambda: unset

    def entries(cache, func, values):
        calls.append((cache, func, values, _frame.mode()))
        return ("hit",)

    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: pytest.fail("missed"))
    _frame.set_cache(f.__code__, "cache")
    set_fake_dispatch(entries)
    assert _frame.call(f, 1) == "hit"
    assert calls == [("cache", f, [1, 2, (), None], OFF)]


def test_nothing_is_looked_at_while_all_is_to_run_as_it_is():
    asked = []

    def inner():
        return _frame.mode(), _frame.active()

    def switched_on_inside():
        _frame.set_eager(True)
        return inner()

    def missed(func, arguments):
        asked.append(func.__name__)

    _frame.set_callbacks(decide_for_tests(), missed)
    try:
        _frame.set_eager(True)
        assert _frame.call_in("context", inner) == (OFF, 0)
        assert _frame.call(_frame.call_in, "context", inner) == (OFF, 1)
        _frame.set_eager(False)
        assert _frame.call_in("context", inner) == (RUN, 1)
        assert _frame.call_in("context", switched_on_inside) == (RUN, 1)
    finally:
        _frame.set_eager(False)
    assert asked == ["inner", "switched_on_inside"]
    with pytest.raises(TypeError, match="expected a context"):
        _frame.call_in("context")


def test_no_entry_holds_so_missed_is_asked():
    def f(a):
        return "ran"

    _frame.set_cache(f.__code__, "cache")
    set_fake_dispatch(lambda cache, func, values: None)
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: (str, ("missed",)))
    assert _frame.call(f, 1) == "missed"
    _frame.set_callbacks(decide_for_tests(), None)
    assert _frame.call(f, 1) == "ran"


@pytest.mark.parametrize("looks", [False, True])
def test_a_frame_that_runs_as_it_is_may_be_observed(looks):
    asked, told = [], []

    def inner(n):
        return 1 / n

    def f(n):
        return inner(n)

    def missed(func, arguments):
        asked.append(func.__name__)
        return _frame.observed(told.append, looks) if func is f else None

    _frame.set_callbacks(decide_for_tests(), missed)
    assert _frame.call(f, 2) == 0.5
    assert told == [None]
    assert asked == (["f", "inner"] if looks else ["f"])
    with pytest.raises(ZeroDivisionError) as raised:
        _frame.call(f, 0)
    assert told[1] is raised.value
    assert [entry.name for entry in raised.traceback][-2:] == ["f", "inner"]


def test_what_is_told_of_a_frame_may_raise_if_the_frame_does_not():
    def f(n):
        return 1 / n

    def refuse(error):
        raise KeyError("told")

    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: _frame.observed(refuse, False))
    with pytest.raises(KeyError, match="told"):
        _frame.call(f, 2)
    with pytest.raises(ZeroDivisionError):
        _frame.call(f, 0)
    with pytest.raises(TypeError, match="observed"):
        _frame.observed(refuse)


def test_without_a_cache_dispatch_is_not_called():
    def f():
        return "ran"

    set_fake_dispatch(lambda cache, func, values: pytest.fail("called"))
    _frame.set_callbacks(decide_for_tests(), None)
    assert _frame.call(f) == "ran"
    _frame.set_cache(f.__code__, "cache")
    _frame.set_dispatch(None)
    assert _frame.call(f) == "ran"


def test_an_exception_in_dispatch_is_the_frames():
    """ctypes cannot raise out of a callback, so the dispatch is PyObject_GetAttr(cache, func)."""

    def f():
        return "ran"

    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: pytest.fail("missed"))
    _frame.set_dispatch(capsule_of(ctypes.pythonapi.PyObject_GetAttr))
    _frame.set_cache(f.__code__, object())
    with pytest.raises(TypeError, match="attribute name must be string"):
        _frame.call(f)


def test_the_cache_may_be_dropped_while_dispatch_runs():
    class Cache:
        pass

    def f():
        return "ran"

    def entries(cache, func, values):
        _frame.clear(func.__code__)
        return (type(cache).__name__,)

    set_fake_dispatch(entries)
    _frame.set_callbacks(decide_for_tests(), None)
    _frame.set_decision(f.__code__, LOOK, UNDECIDED)
    _frame.set_cache(f.__code__, Cache())
    assert _frame.call(f) == "Cache"
    assert _frame.get_cache(f.__code__) is None


def test_only_a_dispatch_capsule_will_do():
    with pytest.raises(ValueError):
        _frame.set_dispatch(3)
    with pytest.raises(ValueError):
        _frame.set_dispatch(capsule_of(ctypes.pythonapi.PyObject_Repr, b"something else"))


# ---- callbacks that raise, or answer nonsense


def raiser(*args):
    raise ZeroDivisionError("from a callback")


@pytest.mark.parametrize("caller", [_frame.call, _frame.native])
def test_an_exception_in_decide_is_the_frames_and_nothing_is_remembered(caller):
    def f(x):
        return x

    def catches(x):
        try:
            return f(x)
        except ZeroDivisionError as error:
            return str(error)

    _frame.set_decision(catches.__code__, SKIP, THROUGH)
    _frame.set_callbacks(raiser, None)
    assert caller(catches, 1) == "from a callback"
    assert _frame.get_decision(f.__code__) == (UNDECIDED, UNDECIDED)


@pytest.mark.parametrize("answer", [None, 3, (), (1,), (1, 2, 3), ("a", "b"), [1, 2], (9, 1)])
def test_a_decision_that_is_none_raises(answer):
    _frame.set_callbacks(lambda func, code: answer, None)
    with pytest.raises((TypeError, ValueError)):
        _frame.call(lambda: 1)


@pytest.mark.parametrize("answer", [3, (), (len,), (len, "abc"), (len, ["abc"]), [len, ("abc",)]])
def test_a_replacement_that_is_none_raises(answer):
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: answer)
    with pytest.raises(TypeError, match="missed must return"):
        _frame.call(lambda: 1)


def test_an_exception_in_missed_or_in_the_replacement_is_the_frames():
    def catches():
        try:
            return f()
        except ZeroDivisionError as error:
            return str(error)

    def f():
        return 1

    _frame.set_decision(catches.__code__, SKIP, THROUGH)
    _frame.set_callbacks(decide_for_tests(), raiser)
    assert _frame.call(catches) == "from a callback"
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: (raiser, ()))
    assert _frame.call(catches) == "from a callback"


def test_an_exception_in_the_interceptor_is_the_frames():
    with intercepting(raiser):
        with pytest.raises(ZeroDivisionError, match="from a callback") as caught:
            _frame.native(sorted, [1, 2], key=lambda x: x)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "raiser"
    assert "<lambda>" not in names


def test_callbacks_may_be_replaced_while_they_run():
    def interceptor(func, arguments, namespace):
        _frame.set_interceptor(None)
        _frame.set_callbacks(None, None)
        gc.collect()
        return "done"

    def decide(func, code):
        _frame.set_callbacks(lambda func, code: (SKIP, INTERPRET), None)
        gc.collect()
        return SKIP, INTERPRET

    _frame.set_interceptor(interceptor)
    _frame.set_callbacks(decide, None)
    del interceptor, decide
    assert _frame.native(lambda: 1) == "done"


def test_callbacks_may_enter_the_hook_themselves():
    def f(x):
        return g(x)

    def g(x):
        return x + 1

    def interceptor(func, arguments, namespace):
        depth.append(_frame.active())
        if func is f:
            return [
                _frame.native(g, *arguments),
                _frame.call(func, *arguments),
                _frame.untouched(func, *arguments),
                _frame.bind(func, (3,), None),
                _frame.mode(),
            ]
        return _frame.native(max, arguments[0], 5)

    depth = []
    with intercepting(interceptor, decide_for_tests(run=SKIP)):
        assert _frame.native(f, 1) == [5, 2, 2, [3], OFF]
    assert depth == [1, 2]


def test_set_interceptor_returns_the_old_one():
    assert _frame.set_interceptor(len) is None
    assert _frame.set_interceptor(None) is len
    assert _frame.set_interceptor(None) is None


# ---- recursion


def recursion_error_from(caller, function):
    with pytest.raises(RecursionError):
        caller(function)
    assert (_frame.mode(), _frame.active()) == (OFF, 0)


def test_endless_recursion_of_skipped_frames():
    def f():
        return f()

    _frame.set_callbacks(decide_for_tests(run=SKIP, intercept=THROUGH), None)
    for caller in (_frame.call, _frame.native, _frame.untouched):
        recursion_error_from(caller, f)


def test_endless_recursion_through_the_interceptor():
    def f():
        raise AssertionError

    with intercepting(lambda func, arguments, namespace: _frame.native(func)):
        recursion_error_from(_frame.native, f)
    with intercepting(lambda func, arguments, namespace: _frame.native(sorted, [1, 2], key=lambda x: func())):
        recursion_error_from(_frame.native, f)


def test_endless_recursion_through_replacements():
    def f():
        raise AssertionError

    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: (_frame.call, (func,)))
    recursion_error_from(_frame.call, f)
    partial = functools.partial(_frame.call, f)
    _frame.set_callbacks(decide_for_tests(), lambda func, arguments: (partial, ()))
    recursion_error_from(_frame.call, f)


def test_endless_recursion_through_dispatch_alone():
    """No Python frame runs: the dispatch is PyObject_CallNoArgs(cache), its other arguments unread."""

    def f():
        raise AssertionError

    _frame.set_callbacks(None, None)
    _frame.set_decision(f.__code__, LOOK, UNDECIDED)
    _frame.set_dispatch(capsule_of(ctypes.pythonapi.PyObject_CallNoArgs))
    _frame.set_cache(f.__code__, functools.partial(_frame.call, f))
    recursion_error_from(_frame.call, f)
    _frame.clear(f.__code__)


@contextlib.contextmanager
def recursion_limit(depth):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_frames_replaced_at_the_very_limit_keep_their_result():
    """Clearing a replaced frame must not fail, nor drop what the frame returned, however deep it is."""

    def leaf(a, b):
        raise AssertionError

    def dive(n, leaf=leaf):
        return leaf(n, [n]) if n == 0 else dive(n - 1)

    outcomes = set()
    with intercepting(None), recursion_limit(1000):  # libraries raise it
        _frame.set_decision(dive.__code__, SKIP, THROUGH)
        _frame.set_decision(leaf.__code__, LOOK, INTERPRET)
        _frame.set_cache(leaf.__code__, 1)
        _frame.set_dispatch(capsule_of(ctypes.pythonapi.PyNumber_Negative))
        for depth in range(0, 1100, 7):
            outcomes |= {outcome(_frame.call, dive, depth)}
        limit = next(depth for depth in range(1100) if outcome(_frame.call, dive, depth) is RecursionError)
        for depth in range(limit - 5, limit + 5):
            outcomes |= {outcome(_frame.call, dive, depth)}
    assert outcomes == {-1, RecursionError}


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error)


def test_recovering_from_recursion_errors_again_and_again():
    def f(n):
        try:
            return f(n + 1)
        except RecursionError:
            return n

    with intercepting(lambda func, arguments, namespace: _frame.native(max, g(), g())):

        def g():
            return outcome(f, 0)

        _frame.set_decision(f.__code__, SKIP, THROUGH)
        assert _frame.native(lambda: 1) > 0
        assert _frame.native(f, 0) > 0


# ---- interruption


@pytest.mark.usefixtures("ctrl_c")
def test_keyboard_interrupt_in_a_frame_or_a_callback():
    def interrupted(*args):
        signal.raise_signal(signal.SIGINT)
        return "not reached" if args else None

    for caller in (_frame.call, _frame.native, _frame.untouched):
        with pytest.raises(KeyboardInterrupt):
            caller(interrupted)
    with intercepting(interrupted), pytest.raises(KeyboardInterrupt):
        _frame.native(sorted, [1], key=lambda x: x)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_in_a_callback_waits_for_the_frame():
    def decide(fn, code):
        signal.raise_signal(signal.SIGINT)
        finished.append(sum(range(3)))
        return SKIP, THROUGH

    finished, ran = [], []

    def f():
        ran.append(1)

    _frame.set_callbacks(decide, None)
    with pytest.raises(KeyboardInterrupt) as caught:
        _frame.call(f)
    assert caught.traceback[-1].frame.code.raw is f.__code__
    assert (finished, ran) == ([3], [])


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_while_a_frame_is_replaced_is_raised_by_the_frame():
    """However the callback ends, and whatever it catches."""

    def answers(fn, arguments):
        return lambda: "replaced", ()

    def fails(fn, arguments):
        raise ValueError

    def asks(fn, arguments):
        with pytest.raises(KeyboardInterrupt):
            _frame.poll()
        assert _frame.interrupted()
        return None

    for callback in (answers, fails, asks):

        def missed(fn, arguments, callback=callback):
            signal.raise_signal(signal.SIGINT)
            return callback(fn, arguments)

        def f():
            ran.append(1)

        ran = []
        _frame.set_decision(f.__code__, LOOK, INTERPRET)
        _frame.set_callbacks(None, missed)
        with pytest.raises(KeyboardInterrupt) as caught:
            _frame.call(f)
        assert caught.traceback[-1].frame.code.raw is f.__code__
        assert ran == []
        assert not _frame.interrupted()


@pytest.mark.usefixtures("ctrl_c")
def test_what_is_called_exposed_is_interrupted_at_once():
    seen = []

    def waiting():
        signal.raise_signal(signal.SIGINT)
        seen.append("shielded")
        try:
            _frame.exposed((), exposed)
        except KeyboardInterrupt:
            seen.append("interrupted")

    def exposed():
        seen.append("not reached")

    _frame.shielded(waiting)
    assert seen == ["shielded", "interrupted"]


def test_a_lock_that_another_thread_holds_can_be_waited_for_with_signals():
    class Tick(Exception):
        pass

    def tick(number, frame):
        raise Tick

    lock, holds, leave = _frame.Lock(), threading.Event(), threading.Event()

    def hold():
        with lock, lock:
            holds.set()
            leave.wait()

    def enter():
        with lock:
            raise AssertionError

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    before = signal.signal(signal.SIGALRM, tick)
    try:
        for caller in (_frame.untouched, _frame.shielded):
            with pytest.raises(Tick):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                caller(enter)
    finally:
        signal.signal(signal.SIGALRM, before)
        leave.set()
        thread.join()
    with lock:
        pass


def test_signals_at_any_moment():
    """A timer interrupts thousands of replaced frames: each round ends with its result or the exception."""

    class Tick(Exception):
        pass

    def on_alarm(signum, frame):
        raise Tick

    def key(x):
        return -x

    old = signal.signal(signal.SIGALRM, on_alarm)
    ticks = 0
    try:
        with intercepting(lambda func, arguments, namespace: -arguments[0]):
            for _ in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005)
                    while True:
                        assert _frame.native(sorted, [1, 3, 2], key=key) == [3, 2, 1]
                except Tick:
                    ticks += 1
                assert (_frame.mode(), _frame.active(), _frame.installed()) == (OFF, 0, False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert ticks == 300


# ---- threads


def in_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


def test_other_threads_run_untouched_while_the_hook_is_installed():
    def elsewhere():
        return _frame.mode(), _frame.installed(), sorted([2, 1], key=lambda x: x)

    with intercepting(interpret_as("no"), decide_for_tests(intercept=LEAF)):
        inside = _frame.native(functools.partial(in_thread, elsewhere))
    assert inside == (OFF, True, [1, 2])


def test_the_interceptor_is_the_threads_own():
    def f():
        return "ran"

    with intercepting(interpret_as("mine")):
        assert in_thread(lambda: _frame.set_interceptor(None)) is None
        assert in_thread(lambda: _frame.native(lambda: f())) == "ran"
        assert _frame.native(f) == "mine"


def test_many_threads_in_all_modes_at_once():
    failures = []

    def looked_at(x):
        return x

    def work(n):
        try:
            _frame.set_interceptor(lambda func, arguments, namespace: (n, *arguments))
            for i in range(300):
                assert _frame.native(list, map(looked_at, [i, i])) == [(n, i)] * 2
                assert _frame.call(looked_at, i) == ("replaced", i)
                assert _frame.bind(plain, (i,), {"b": n}) == [i, n]
                assert looked_at(i) == i
                assert _frame.mode() == OFF
        except BaseException as error:
            failures.append(error)
        finally:
            _frame.set_interceptor(None)

    _frame.set_callbacks(
        lambda func, code: (LOOK, INTERPRET) if code is looked_at.__code__ else (SKIP, THROUGH),
        lambda func, arguments: (lambda x: ("replaced", x), tuple(arguments)),
    )
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


# ---- tracing, profiling, monitoring


def traced_events(set_tracer, function):
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_filename == HERE:
            events.append((event, frame.f_code.co_name))
        return tracer

    set_tracer(tracer)
    try:
        function()
    finally:
        set_tracer(None)
    return events


@pytest.mark.parametrize("set_tracer", [sys.settrace, sys.setprofile])
def test_tracers_see_the_interceptor_and_no_replaced_frame(set_tracer):
    def key(x):
        raise AssertionError

    def interceptor(func, arguments, namespace):
        return -arguments[0]

    with intercepting(interceptor):
        _frame.native(key, 1)
        events = traced_events(set_tracer, lambda: _frame.native(sorted, [1, 2], key=key))
        assert _frame.native(sorted, [1, 2], key=key) == [2, 1]
    calls = [name for event, name in events if event == "call" and name in ("key", "interceptor")]
    returns = [name for event, name in events if event == "return" and name in ("key", "interceptor")]
    assert calls == returns == ["interceptor"] * 2


def test_frames_that_run_under_the_hook_are_traced_as_ever():
    def f(x):
        y = x + 1
        return y

    _frame.set_callbacks(decide_for_tests(run=SKIP), None)
    events = traced_events(sys.settrace, lambda: _frame.call(f, 1))
    assert [event for event, name in events if name == "f"] == ["call", "line", "line", "return"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_monitoring_sees_no_replaced_frame():
    monitoring = sys.monitoring
    starts, ends = [], []

    def key(x):
        raise AssertionError

    monitoring.use_tool_id(monitoring.PROFILER_ID, "framelift tests")
    try:
        events = monitoring.events
        note_start = lambda code, offset: starts.append(code.co_name)
        note_end = lambda code, offset, value: ends.append(code.co_name)
        monitoring.register_callback(monitoring.PROFILER_ID, events.PY_START, note_start)
        monitoring.register_callback(monitoring.PROFILER_ID, events.PY_RETURN, note_end)
        with intercepting(lambda func, arguments, namespace: -arguments[0]):
            monitoring.set_events(
                monitoring.PROFILER_ID, events.PY_START | events.PY_RETURN | events.INSTRUCTION
            )
            assert _frame.native(sorted, [1, 2], key=key) == [2, 1]
            monitoring.set_events(monitoring.PROFILER_ID, 0)
    finally:
        monitoring.free_tool_id(monitoring.PROFILER_ID)
    assert "<replaced frame>" not in starts + ends
    assert "key" not in starts + ends


# ---- other evaluators


def copy_of_the_hook(directory):
    """The same extension from another file has state of its own: another evaluator to get along with."""
    path = shutil.copy(_frame.__file__, directory)
    loader = importlib.machinery.ExtensionFileLoader("framelift._frame", path)
    return importlib.util.module_from_spec(importlib.util.spec_from_loader("framelift._frame", loader))


def test_evaluators_chain(tmp_path):
    other = copy_of_the_hook(tmp_path)
    other.set_callbacks(
        lambda func, code: (LOOK, THROUGH), lambda func, arguments: seen.append(func.__name__)
    )
    seen = []

    def f():
        return _frame.mode(), other.mode()

    _frame.set_callbacks(decide_for_tests(run=SKIP), None)
    assert other.call(_frame.call, f) == (RUN, RUN)
    assert not other.installed()
    assert "f" in seen


def test_evaluators_installed_and_removed_out_of_order(tmp_path):
    """One leaves while the other is on top, and comes back over it: they must not call each other forever."""
    other = copy_of_the_hook(tmp_path)

    def f(x):
        return x + 1

    def inside_the_other(step):
        step.wait()  # our call ends in its thread
        step.wait()
        assert f(1) == 2
        assert _frame.call(f, 1) == 2
        assert _frame.bind(f, (1,), None) == [1]
        assert f(1) == 2

    def hold_ours(entered, leave):
        entered.set()
        leave.wait()

    entered, leave, step = threading.Event(), threading.Event(), threading.Barrier(2)
    holder = threading.Thread(target=_frame.call, args=(hold_ours, entered, leave))
    holder.start()
    entered.wait()
    over = threading.Thread(target=other.native, args=(inside_the_other, step))
    over.start()
    step.wait()
    leave.set()
    holder.join()
    step.wait()
    over.join()
    assert f(1) == 2
    assert _frame.call(f, 1) == 2
    # The other hook was put in over ours and took ours for what had been there before.
    restore_default_evaluator()


def restore_default_evaluator():
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    api._PyInterpreterState_SetEvalFrameFunc.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    default = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p)
    api._PyInterpreterState_SetEvalFrameFunc(api.PyInterpreterState_Get(), default)


def test_the_hook_comes_back_after_somebody_removed_it():
    def inside():
        restore_default_evaluator()
        removed = _frame.installed()
        return removed, _frame.native(_frame.installed)

    assert _frame.call(inside) == (False, True)


# ---- the handled exception


def test_swap_handled_sets_what_exc_info_shows():
    error = ValueError("one")
    assert _frame.swap_handled(error) is None
    try:
        assert sys.exc_info() == (ValueError, error, None)
        with pytest.raises(ValueError):
            exec("raise")
    finally:
        assert _frame.swap_handled(None) is error
    assert sys.exc_info() == (None, None, None)


def test_swap_handled_inside_a_handler():
    try:
        raise KeyError("real")
    except KeyError as real:
        fake = ValueError("fake")
        assert _frame.swap_handled(fake) is real
        try:
            raise TypeError
        except TypeError as error:
            assert error.__context__ is fake
        assert _frame.swap_handled(real) is fake
        assert sys.exc_info()[1] is real
    assert sys.exc_info()[1] is None


def test_swap_handled_takes_exceptions_only():
    with pytest.raises(TypeError, match="expected an exception or None"):
        _frame.swap_handled(ValueError)


# ---- leaks


def one_round():
    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __hash__(self):
            return 1

    def failing(x):
        raise AssertionError

    def generator(x):
        yield x

    def f(a, *args, b=2, **kwargs):
        return a

    namespace = {}
    exec("def g(x, y=1): return x + y", namespace)
    g = namespace["g"]
    _frame.set_cache(g.__code__, Key(1))
    _frame.native(sorted, [1, 2], key=lambda x: x)
    _frame.native(max, g(1), 2, key=g)
    _frame.native({Key(1): 1}.get, Key(1))
    _frame.native(generator, 1)
    _frame.call(f, object(), 1, 2, b=3, c=4)
    _frame.call(g, 1)
    list(_frame.call(generator, [1]))
    _frame.bind(f, ([], {}), {"c": object()})
    for wrong in ((_frame.bind, f, (), {}), (_frame.native, failing, object()), (_frame.call, failing, [1])):
        outcome(*wrong)
    _frame.swap_handled(_frame.swap_handled(ValueError()))


def test_five_thousand_rounds_leave_nothing_behind():
    def interceptor(func, arguments, namespace):
        if func.__name__ == "failing":
            raise ZeroDivisionError
        return _frame.untouched(rerun, func, arguments)

    def missed(func, arguments):
        if func.__name__ == "failing":
            raise ZeroDivisionError
        return None if func.__name__ == "g" else (rerun, (func, arguments))

    def rounds(n):
        for number in range(n):
            one_round()
            if number % 500 == 0:
                gc.collect()
        # The collector does not look through code objects: what a cache refers to is garbage a round later.
        gc.collect()
        gc.collect()
        return (
            len(gc.get_objects()),
            sys.getallocatedblocks(),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        )

    with intercepting(interceptor):
        _frame.set_callbacks(decide_for_tests(), missed)
        before = rounds(1000)
        after = rounds(5000)
    assert after[0] <= before[0] + 20
    assert after[1] <= before[1] + 200
    assert after[2] <= before[2] + 2048, "kilobytes"


def test_reference_counts_stay():
    def f(a, b=(), *rest):
        return a

    watched = [f, f.__code__, f.__globals__, None, interpret_as, f.__defaults__]
    with intercepting(interpret_as(None)):
        _frame.native(f, watched)
        before = [sys.getrefcount(obj) for obj in watched]
        for _ in range(1000):
            _frame.native(f, watched)
            _frame.bind(f, (watched,), None)
            _frame.call(f, watched)
        after = [sys.getrefcount(obj) for obj in watched]
    assert all(abs(a - b) < 20 for a, b in zip(after, before))


def test_arguments_of_a_replaced_frame_are_released_with_their_finalizers():
    events = []

    class Thing:
        def __del__(self):
            events.append(note(1))

    def note(x):
        return x

    def f(a, *rest, **kwargs):
        raise AssertionError

    with intercepting(interpret_as(5), decide_for_tests(intercept=THROUGH)):
        _frame.set_decision(f.__code__, UNDECIDED, INTERPRET)
        assert _frame.native(lambda: f(Thing(), Thing(), x=Thing())) == 5
        assert events == [1, 1, 1]
        with pytest.raises(ZeroDivisionError):
            _frame.set_interceptor(raiser)
            _frame.native(lambda: f(Thing()))
    gc.collect()
    assert events == [1, 1, 1, 1]


# ---- processes


def run_python(program):
    source = os.path.dirname(os.path.dirname(_frame.__file__))
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": source},
    )


def test_the_interpreter_may_end_while_the_hook_is_on():
    ended = run_python(
        """
        import sys, threading, time
        from framelift import _frame

        class Cache:
            def __del__(self):
                helper()

        def helper(x=1):
            return [y for y in range(x)]

        def forever():
            while True:
                helper()

        _frame.set_callbacks(lambda func, code: (_frame.LOOK, _frame.INTERPRET), lambda func, arguments: None)
        _frame.set_interceptor(lambda func, arguments, namespace: func)
        _frame.set_cache(helper.__code__, Cache())
        threading.Thread(target=_frame.call, args=(forever,), daemon=True).start()
        time.sleep(0.1)
        _frame.call(sys.exit, 7)
        """
    )
    assert (ended.returncode, ended.stderr) == (7, "")


def test_a_forked_child_goes_on():
    ended = run_python(
        """
        import os
        from framelift import _frame

        def f(x):
            return x

        def child():
            pid = os.fork()
            if pid == 0:
                os._exit(f(5) if _frame.mode() == _frame.RUN else 1)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        raise SystemExit(_frame.call(child))
        """
    )
    assert ended.returncode == 5, ended.stderr
