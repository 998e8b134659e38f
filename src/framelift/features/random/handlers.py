"""Calls of generators of random numbers, which the region makes anew each time (`trace/runtime_calls.py`)."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from framelift import _frame
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.features.numpy.tables import CYTHON, NUMPY_DTYPES, NUMPY_NUMBERS, Array, np
from framelift.guards.sources import Source
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import BY_CODE, BY_TYPE, rule, serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.runtime_calls import DEFAULT, WIDE, RuntimeCalls, outside_of_modes
from framelift.trace.type_rules import type_family, type_rule
from framelift.trace.world import TraceWorld

Generator: Any = torch.Generator


def rewind_random(generator: random.Random) -> Callable[[], Any]:
    return functools.partial(generator.setstate, generator.getstate())


def rewind_generator(generator: torch.Generator) -> Callable[[], Any]:
    return functools.partial(generator.set_state, generator.get_state())


type_rule(random.Random, twin=copy.copy, rewind=rewind_random)
type_rule(Generator, twin=lambda generator: generator.clone_state(), rewind=rewind_generator)
type_family(lambda cls: issubclass(cls, Generator), guarded_state=("device",))


for _fn in (torch.seed, torch.initial_seed):
    rule(_fn, refused=breaks.RANDOM, why=f"{_fn.__name__} of a torch.Generator")
for _name in ("seed", "initial_seed", "clone_state"):
    rule(getattr(Generator, _name), refused=breaks.RANDOM, why=f"torch.Generator.{_name}")


# ---- Python's


DRAWING: dict[str, type[Any]] = {
    **dict.fromkeys(("random", "uniform", "triangular", "gauss", "normalvariate", "expovariate"), float),
    **dict.fromkeys(("randint", "randrange", "getrandbits"), int),
}
"""Methods that give a number. Whether one raises depends on its arguments, not on what is drawn."""


def serve_random(name: str) -> None:
    method: Any = getattr(random.Random, name)

    @serve(method)
    def served(f: TraceFrame, generator: Any, /, *args: Any, **kwargs: Any) -> Any:
        generator, draws = opened(generator), f.world.runtime_calls
        args, kwargs = f.world.materialize.for_torch(args), f.world.materialize.for_torch(kwargs)
        if type(generator) is random.Random and draws.is_fixed((*args, *kwargs.values())):
            draws.check_place()
            example: Any = method(draws.twin(generator), *args, **kwargs)
            if type(example) is DRAWING[name] and (type(example) is float or abs(example) < WIDE):
                return draws.number(example, draws.note(method, (generator, *args), kwargs))
        return f.world.calls.native(f, method, [generator, *args], kwargs)


for _name in DRAWING:
    serve_random(_name)


@serve(random.Random.choice)
def serve_choice(f: TraceFrame, self: Any, seq: Any) -> Any:
    """Only numbers of one type are chosen from: the program may look at anything else."""
    generator, draws = opened(self), f.world.runtime_calls
    numbers: Any = f.world.materialize.for_torch(seq)
    kind = type(numbers[0]) if type(numbers) in (list, tuple) and numbers else None
    alike = kind in (int, float) and all(type(n) is kind for n in numbers) and draws.is_fixed(numbers)
    if type(generator) is not random.Random or not alike:
        return f.world.calls.native(f, random.Random.choice, [generator, numbers], None)
    draws.check_place()
    numbers = type(numbers)(numbers)  # as they are now
    example = draws.twin(generator).choice(numbers)
    return draws.number(example, draws.note(random.Random.choice, (generator, numbers), {}))


@serve(random.Random.seed)
def serve_seed(f: TraceFrame, self: Any, a: Any = None, version: Any = 2) -> Any:
    generator, draws = opened(self), f.world.runtime_calls
    given = f.world.materialize.for_torch((a, version))
    if type(generator) is not random.Random or not draws.is_fixed(given):
        return f.world.calls.native(f, random.Random.seed, [generator, *given], None)
    draws.check_place()
    draws.twin(generator).seed(*given)
    draws.note(random.Random.seed, (generator, *given), {})


@serve(random.Random)
def serve_new_random(f: TraceFrame, x: Any = None) -> Any:
    return new_stream(f, random.Random, x)


@acts_for_program
def new_stream(f: TraceFrame, cls: Any, seed: Any) -> Any:
    seed, draws = f.world.materialize.for_torch(seed), f.world.runtime_calls
    if not draws.is_fixed(seed):
        return f.world.calls.native(f, cls, [seed], None)
    return draws.made_generator(cls(seed), cls, (seed,), {})


# ---- torch's own, which the graph draws from

MANUAL_SEED: Any = inspect.unwrap(torch.manual_seed)


def seed_of(draws: RuntimeCalls, seed: Any) -> tuple[Any, Any]:
    """The seed as the region gets it, and as a number. Twice None: it is not known."""
    seed = opened(seed)
    drawn = draws.source_of(seed)
    number = seed if drawn is None else draws.numbers[drawn]
    if type(number) is not int or not 0 <= number < WIDE:
        return None, None
    return (number if drawn is None else drawn), number


@serve(MANUAL_SEED)
def serve_manual_seed(f: TraceFrame, seed: Any) -> Any:
    given, _ = seed_of(f.world.runtime_calls, seed)
    if given is None:
        return f.world.calls.native(f, torch.manual_seed, [seed], None)
    f.world.runtime_calls.at_default(torch.manual_seed, (given,))
    return DEFAULT


@serve(Generator.manual_seed, refused=breaks.RANDOM, why="torch.Generator.manual_seed")
def serve_seed_of_generator(f: TraceFrame, generator: Any, seed: Any, /) -> Any:
    generator, draws = opened(generator), f.world.runtime_calls
    given, number = seed_of(draws, seed)
    if given is None or type(generator) is not Generator:
        return f.world.calls.native(f, Generator.manual_seed, [generator, seed], None)
    if draws.is_default(generator):
        draws.at_default(Generator.manual_seed, (generator, given))
    else:
        draws.check_place()
        draws.twin(generator).manual_seed(number)
        draws.note(Generator.manual_seed, (generator, given), {})
    return generator


LATER: Any = torch._disable_dynamo(len).__code__
"""The code of torch's wrapper for functions that its compiler skips, such as `manual_seed`."""


def call_wrapped(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if fn.__wrapped__ is MANUAL_SEED:
        return world.calls.invoke(MANUAL_SEED, *args, **kwargs)
    return world.calls.by_policy(fn, args, kwargs)


BY_CODE[id(LATER)] = call_wrapped


STATE: dict[str, Any] = {"refused": breaks.RANDOM, "why": "the state of a torch.Generator"}


@serve(torch.get_rng_state, **STATE)
def serve_get_state_of_default(f: TraceFrame) -> Any:
    return f.world.runtime_calls.state_of_default(torch.get_rng_state)


@serve(Generator.get_state, **STATE)
def serve_get_state(f: TraceFrame, generator: Any, /) -> Any:
    generator, draws = opened(generator), f.world.runtime_calls
    if draws.is_default(generator):
        return draws.state_of_default(torch.get_rng_state)
    draws.check_place()
    with outside_of_modes():
        state = draws.twin(generator).get_state()
    return draws.tensor(state, draws.note(Generator.get_state, (generator,), {}))


@serve(torch.set_rng_state, **STATE)
def serve_set_state_of_default(f: TraceFrame, new_state: Any) -> Any:
    state, draws = opened(new_state), f.world.runtime_calls
    if not isinstance(state, torch.Tensor) or not draws.is_fixed(state):
        return f.world.calls.native(f, torch.set_rng_state, [state], None)
    draws.at_default(torch.set_rng_state, (state,))


@serve(Generator.set_state, **STATE)
def serve_set_state(f: TraceFrame, generator: Any, state: Any, /) -> Any:
    generator, state, draws = opened(generator), opened(state), f.world.runtime_calls
    if not isinstance(state, torch.Tensor) or not draws.is_fixed(state):
        return f.world.calls.native(f, Generator.set_state, [generator, state], None)
    if draws.is_default(generator):
        draws.at_default(torch.set_rng_state, (state,))
    else:
        draws.check_place()
        draws.note(Generator.set_state, (generator, state), {})
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
def serve_fork(f: TraceFrame, devices: Any = None, enabled: Any = True) -> Any:
    devices, enabled = opened(devices), opened(enabled)
    elsewhere = torch.accelerator.is_available() or torch.cuda.device_count() or devices not in (None, [], ())
    if elsewhere or type(enabled) is not bool:
        return f.world.calls.native(f, torch.random.fork_rng, [devices, enabled], None)
    return call(f, forked if enabled else contextlib.nullcontext, [], None)


@serve(Generator)
def serve_new_generator(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
    given = f.world.materialize.for_c([list(args), kwargs])
    return f.world.runtime_calls.new_generator(*given)


# ---- NumPy's

NAMES = """
    rand randn random random_sample uniform normal standard_normal randint integers permutation choice
    exponential standard_exponential
"""
OF_NUMPY = frozenset(NAMES.split())
"""Methods that give a number or an array. Whether one raises depends on its arguments."""


def as_tensor(drawn: Any) -> torch.Tensor:
    """What a graph is given for what NumPy has drawn."""
    return torch.from_numpy(np.asarray(drawn))


@calls_back
def drawn_by_numpy(draws: RuntimeCalls, example: Any, source: Source) -> Any:
    """What stands for what the region will draw: a break here comes too late."""
    if type(example) in (int, float):
        return draws.number(example, source)
    if (
        type(example) not in (np.ndarray, *NUMPY_NUMBERS)
        or example.dtype not in NUMPY_DTYPES
        or not example.size
    ):
        raise Break(breaks.RANDOM, f"NumPy draws a {type(example).__name__}")
    with outside_of_modes():
        tensor = as_tensor(example)
    return Array(draws.tensor(tensor, draws.note(as_tensor, (source,), {}, pure=True)))


def call_random(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of `numpy.random`, or a method of what that has."""
    world.identity.guard(fn)
    draws, shown = world.runtime_calls, world.materialize.for_torch
    given: list[Any] = [x if type(x) in STREAMS else shown(x) for x in map(opened, args)]
    keywords = shown(kwargs)
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

    def rewind_stream(stream: Any) -> Callable[[], Any]:
        if type(stream) is np.random.RandomState:
            return functools.partial(stream.set_state, stream.get_state(legacy=False))
        return functools.partial(setattr, stream.bit_generator, "state", stream.bit_generator.state)

    type_rule(*STREAMS, twin=copy.deepcopy, rewind=rewind_stream)

    @serve(np.random.RandomState)
    def serve_new_random_state(f: TraceFrame, seed: Any = None) -> Any:
        return new_stream(f, np.random.RandomState, seed)
