"""Calls of generators of random numbers, which the region makes anew each time (`trace/runtime_calls.py`)."""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
from collections.abc import Iterator
from typing import Any

import torch

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.features.numpy.arrays import CYTHON, DTYPES, NUMBERS, Array, np
from framelift.guards.sources import Source
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import BY_CODE, BY_TYPE, rule, serve
from framelift.trace.machine import TraceFrame
from framelift.trace.runtime_calls import DEFAULT, WIDE, RuntimeCalls, outside_of_modes
from framelift.trace.type_rules import type_family, type_rule
from framelift.trace.world import TraceWorld

Generator: Any = torch.Generator

type_rule(random.Random, twin=copy.copy)
type_rule(Generator, twin=lambda generator: generator.clone_state())
type_family(lambda cls: issubclass(cls, Generator), guarded_state=("device",))


def draws_of(f: TraceFrame) -> RuntimeCalls:
    return f.world.runtime_calls


def shown(f: TraceFrame, values: list[Any]) -> list[Any]:
    """Arguments with all that is in them opened; a generator is not looked at."""
    world = f.world
    streams = (Generator, random.Random)
    return [
        x if issubclass(type(x), streams) else world.materialize.for_torch(x) for x in map(opened, values)
    ]


def are_fixed(draws: RuntimeCalls, args: list[Any], kwargs: dict[str, Any]) -> bool:
    return all(map(draws.is_fixed, (*args, *kwargs.values())))


for _fn in (torch.seed, torch.initial_seed):
    rule(_fn, refused=breaks.RANDOM, why=f"{_fn.__name__} of a torch.Generator")
for _name in ("seed", "initial_seed", "clone_state"):
    rule(getattr(Generator, _name), refused=breaks.RANDOM, why=f"torch.Generator.{_name}")


# ---- Python's


DRAWING: dict[str, type] = {
    **dict.fromkeys(("random", "uniform", "triangular", "gauss", "normalvariate", "expovariate"), float),
    **dict.fromkeys(("randint", "randrange", "getrandbits"), int),
}
"""Methods that give a number, and fail by what they are given, if they do, and not by what is drawn."""


def serve_random(name: str) -> None:
    method: Any = getattr(random.Random, name)

    @serve(method)
    def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        generator, *given = shown(f, args)
        keywords = dict(zip(kwargs, shown(f, list(kwargs.values())), strict=True))
        draws = draws_of(f)
        if type(generator) is not random.Random or not are_fixed(draws, given, keywords):
            return f.world.calls.native(f, method, args, kwargs)
        draws.check_place()
        example: Any = method(draws.twin(generator), *given, **keywords)
        if type(example) is not DRAWING[name] or (type(example) is int and abs(example) >= WIDE):
            return f.world.calls.native(f, method, args, kwargs)
        number: Any = example
        return draws.number(number, draws.note(method, (generator, *given), keywords))


for _name in DRAWING:
    serve_random(_name)


@serve(random.Random.choice)
def serve_choice(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Of numbers of one kind; what else is chosen is for the program to look at."""
    generator, *given = shown(f, args)
    numbers: Any = given[0] if len(given) == 1 and not kwargs else None
    kind = type(numbers[0]) if type(numbers) in (list, tuple) and numbers else None
    draws = draws_of(f)
    alike = kind in (int, float) and all(type(n) is kind for n in numbers) and draws.is_fixed(numbers)
    if type(generator) is not random.Random or not alike:
        return f.world.calls.native(f, random.Random.choice, args, kwargs)
    draws.check_place()
    numbers = type(numbers)(numbers)  # as they are now
    example = draws.twin(generator).choice(numbers)
    return draws.number(example, draws.note(random.Random.choice, (generator, numbers), {}))


@serve(random.Random.seed)
def serve_seed(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    generator, *given = shown(f, args)
    draws = draws_of(f)
    if type(generator) is not random.Random or kwargs or not are_fixed(draws, given, {}):
        return f.world.calls.native(f, random.Random.seed, args, kwargs)
    draws.check_place()
    draws.twin(generator).seed(*given)
    draws.note(random.Random.seed, (generator, *given), {})
    return None


@serve(random.Random)
def serve_new_random(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given, draws = shown(f, args), draws_of(f)
    if kwargs or not are_fixed(draws, given, {}):
        return f.world.calls.native(f, random.Random, args, kwargs)
    return draws.made_generator(random.Random(*given), random.Random, tuple(given), {})


# ---- torch's own, which the graph draws from


@serve(inspect.unwrap(torch.manual_seed))
@serve(Generator.manual_seed, refused=breaks.RANDOM, why="torch.Generator.manual_seed")
def serve_manual_seed(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given, draws = shown(f, [*args, *kwargs.values()]), draws_of(f)
    generator = given.pop(0) if given and type(given[0]) is Generator else None
    method: Any = torch.manual_seed if generator is None else Generator.manual_seed
    seed = given[0] if len(given) == 1 else None
    drawn = draws.source_of(seed)
    number = seed if drawn is None else draws.numbers[drawn]
    if type(number) is not int or not 0 <= number < WIDE:
        return f.world.calls.native(f, method, args, kwargs)
    seed = number if drawn is None else drawn
    if generator is None:
        draws.at_default(method, (seed,))
        return DEFAULT
    if draws.is_default(generator):
        draws.at_default(method, (generator, seed))
    else:
        draws.check_place()
        draws.twin(generator).manual_seed(number)
        draws.note(method, (generator, seed), {})
    return generator


LATER: Any = torch._disable_dynamo(len).__code__
"""What torch wraps some of its functions in, `manual_seed` among them once its own compiler is imported."""


def call_wrapped(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if fn.__wrapped__ is MANUAL_SEED:
        return world.calls.invoke(MANUAL_SEED, *args, **kwargs)
    return world.calls.by_policy(fn, args, kwargs)


MANUAL_SEED: Any = inspect.unwrap(torch.manual_seed)
BY_CODE[id(LATER)] = call_wrapped


@serve(torch.get_rng_state, Generator.get_state, refused=breaks.RANDOM, why="the state of a torch.Generator")
def serve_get_state(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given, draws = shown(f, args), draws_of(f)
    if not given and not kwargs:
        return draws.state_of_default(torch.get_rng_state)
    (generator,) = given
    if draws.is_default(generator):
        return draws.state_of_default(torch.get_rng_state)
    draws.check_place()
    with outside_of_modes():
        state = draws.twin(generator).get_state()
    return draws.tensor(state, draws.note(Generator.get_state, (generator,), {}))


@serve(torch.set_rng_state, Generator.set_state, refused=breaks.RANDOM, why="the state of a torch.Generator")
def serve_set_state(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given, draws = shown(f, [*args, *kwargs.values()]), draws_of(f)
    generator = given.pop(0) if given and type(given[0]) is Generator else None
    method: Any = torch.set_rng_state if generator is None else Generator.set_state
    if len(given) != 1 or not isinstance(given[0], torch.Tensor) or not draws.is_fixed(given[0]):
        return f.world.calls.native(f, method, args, kwargs)
    if generator is None or draws.is_default(generator):
        draws.at_default(torch.set_rng_state, (given[0],))
        return None if generator is None else generator
    draws.check_place()
    draws.note(method, (generator, given[0]), {})
    return generator


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """`torch.random.fork_rng` where there is no accelerator."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


_frame.set_decision(inspect.unwrap(forked).__code__, _frame.SKIP, _frame.INTERPRET)


@serve(torch.random.fork_rng)
def serve_fork(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    names = dict(zip(("devices", "enabled"), args, strict=False)) | kwargs
    options = {name: opened(value) for name, value in names.items()}
    devices, enabled = options.pop("devices", None), options.pop("enabled", True)
    elsewhere = torch.accelerator.is_available() or torch.cuda.device_count() or devices not in (None, [], ())
    if len(args) > 2 or options or elsewhere or type(enabled) is not bool:
        return f.world.calls.native(f, torch.random.fork_rng, args, kwargs)
    return call(f, forked if enabled else contextlib.nullcontext, [], None)


@serve(Generator)
def serve_new_generator(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world = f.world
    return world.runtime_calls.new_generator(world.materialize.for_c(args), world.materialize.for_c(kwargs))


# ---- NumPy's

NAMES = """
    rand randn random random_sample uniform normal standard_normal randint integers permutation choice
    exponential standard_exponential
"""
OF_NUMPY = frozenset(NAMES.split())
"""Methods that give a number or an array, and fail by what they are given if they do."""


def as_tensor(drawn: Any) -> torch.Tensor:
    """What a graph is given for what NumPy has drawn."""
    return torch.from_numpy(np.asarray(drawn))


def drawn_by_numpy(draws: RuntimeCalls, example: Any, source: Source) -> Any:
    if type(example) in (int, float):
        return draws.number(example, source)
    if type(example) not in (np.ndarray, *NUMBERS) or example.dtype not in DTYPES or not example.size:
        raise Break(breaks.RANDOM, f"NumPy draws a {type(example).__name__}")
    with outside_of_modes():
        tensor = as_tensor(example)
    return Array(draws.tensor(tensor, draws.note(as_tensor, (source,), {}, pure=True)))


def call_random(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of `numpy.random`, or a method of what that has."""
    world.identity.guard(fn)
    given: list[Any] = [
        x if type(x) in STREAMS else world.materialize.for_torch(x) for x in map(opened, args)
    ]
    keywords = world.materialize.for_torch(kwargs)
    draws = world.runtime_calls
    stream = given[0] if given and type(given[0]) in STREAMS else None
    fixed = all(map(draws.is_fixed, (*given[stream is not None :], *keywords.values())))
    if not fixed or not config.trace_numpy:
        raise Break(breaks.RANDOM, f"numpy.random.{fn.__name__}")
    if fn is np.random.default_rng:
        return draws.made_generator(fn(*given, **keywords), fn, tuple(given), keywords)
    draws.check_place()
    if fn is np.random.seed:
        draws.twin(LEGACY).seed(*given, **keywords)
        draws.note(fn, tuple(given), keywords)
        return None
    if stream is None or fn.__name__ not in OF_NUMPY or getattr(type(stream), fn.__name__, None) is not fn:
        raise Break(breaks.RANDOM, f"numpy.random.{fn.__name__}")
    method: Any = fn
    example = method(draws.twin(stream), *given[1:], **keywords)
    return drawn_by_numpy(draws, example, draws.note(fn, tuple(given), keywords))


STREAMS: tuple[type, ...] = ()
if np is not None:
    STREAMS = (np.random.RandomState, np.random.Generator)
    LEGACY: Any = np.random.mtrand._rand
    BY_TYPE[CYTHON] = call_random
    type_rule(*STREAMS, twin=copy.deepcopy)

    @serve(np.random.RandomState)
    def serve_new_stream(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        given, draws = shown(f, args), draws_of(f)
        if kwargs or not are_fixed(draws, given, {}):
            return f.world.calls.native(f, np.random.RandomState, args, kwargs)
        made = np.random.RandomState(*given)
        return draws.made_generator(made, np.random.RandomState, tuple(given), {})
