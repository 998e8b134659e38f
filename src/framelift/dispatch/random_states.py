"""Where the generators of random numbers stand, kept and put back.

Asking Python's and NumPy's for their state makes a list of 624 numbers each time, which takes longer than
much else of a small capture. So their memory is copied instead, once it was seen on another generator that
this is the same.
"""

from __future__ import annotations

import _random
import ctypes
import functools
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from framelift import _guards

HEAD = object.__basicsize__
"""What is not a generator's own in its memory: the count of references and the type."""
PythonsGenerator = _random.Random
MERSENNE_TWISTER = 625 * 4
"""The memory that NumPy's bit generator draws from: 624 numbers and the place among them."""

Restore = Callable[[], None]
inst: Any = vars(random)["_inst"]


def save_rng_state() -> Restore:
    """Gives what puts the generators back where they stand now."""
    cpu, python = _guards.random_state(), save_python()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy = save_numpy(sys.modules["numpy.random"]) if "numpy.random" in sys.modules else None

    def restore() -> None:
        _guards.put_random_state(cpu)
        python()
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if numpy is not None:
            numpy()

    return restore


def save_python() -> Restore:
    if can_copy_python():
        return copied_python(inst)
    return functools.partial(random.setstate, random.getstate())


def copied_python(generator: Any) -> Restore:
    place, size = id(generator) + HEAD, PythonsGenerator.__basicsize__ - HEAD
    kept, normal = ctypes.string_at(place, size), generator.gauss_next

    def restore() -> None:
        ctypes.memmove(place, kept, size)
        generator.gauss_next = normal

    return restore


@functools.cache
def can_copy_python() -> bool:
    generator = random.Random(1)
    return puts_back(generator, copied_python, random.Random.getstate, random.Random.random)


def save_numpy(numpy: Any) -> Restore:
    generator = numpy.mtrand._rand
    if type(generator._bit_generator) is numpy.MT19937 and can_copy_numpy(numpy):
        return copied_numpy(generator)
    return functools.partial(numpy.set_state, numpy.get_state(legacy=False))


def copied_numpy(generator: Any) -> Restore:
    """Beside the numbers there is the second of a pair of normal ones, which the generator keeps itself."""
    bits = generator._bit_generator
    place, size = id(generator) + HEAD, type(generator).__basicsize__ - HEAD
    numbers: int = bits.ctypes.state_address
    with bits.lock:
        own, drawn = ctypes.string_at(place, size), ctypes.string_at(numbers, MERSENNE_TWISTER)

    def restore() -> None:
        with bits.lock:
            ctypes.memmove(numbers, drawn, MERSENNE_TWISTER)
            if generator._bit_generator is bits:  # its memory leads to it
                ctypes.memmove(place, own, size)

    return restore


@functools.cache
def can_copy_numpy(numpy: Any) -> bool:
    cls = numpy.RandomState
    if type(numpy.mtrand._rand) is not cls or cls.__weakrefoffset__ or cls.__dictoffset__:
        return False
    generator = cls(1)
    generator.standard_normal()
    return puts_back(generator, copied_numpy, comparable_state, cls.standard_normal)


def comparable_state(generator: Any) -> tuple[Any, ...]:
    name, numbers, *others = generator.get_state()
    return name, numbers.tobytes(), *others


def puts_back(
    generator: Any, save: Callable[[Any], Restore], state_of: Callable[[Any], Any], draw: Callable[[Any], Any]
) -> bool:
    """Whether a generator stands where it stood once its memory was copied back, and gives the same."""
    restore, before = save(generator), state_of(generator)
    drawn = [draw(generator) for _ in range(3)]
    restore()
    return bool(state_of(generator) == before and [draw(generator) for _ in range(3)] == drawn)
