"""How a client compiles: not at all, with torch.compile, with Framelift, with that behind torch's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import framelift

BACKEND = "eager"
"""Runs graphs as they are, so that results differ from eager's by no rounding."""


@dataclass(frozen=True)
class How:
    name: str
    compile: Callable[..., Any]
    compiles: bool = True
    """Whether libraries that compile by themselves are told to; they do so by torch's name."""
    known: bool = True
    """Whether libraries are told what is compiled: without `install()` a module is just of its class."""


def plainly(fn: Any, **options: Any) -> Any:
    return fn


def with_torch(fn: Any, **options: Any) -> Any:
    return torch.compile(fn, backend=BACKEND, **options)


def with_framelift(fn: Any, **options: Any) -> Any:
    return framelift.compile(fn, backend=BACKEND, **options)


EAGER = How("eager", plainly, compiles=False, known=False)
TORCH = How("torch.compile", with_torch)
DIRECT = How("framelift.compile", with_framelift, known=False)
INSTALLED = How("framelift.install()", with_torch)
WAYS = (EAGER, TORCH, DIRECT, INSTALLED)

Program = Callable[[How], Any]


@dataclass(frozen=True)
class Client:
    """A program, which gives what to compare with eager's."""

    packages: tuple[str, ...]
    program: Program
    by_library: bool
    """Whether the library itself calls torch.compile, and the program does not compile."""

    def ways(self) -> tuple[How, ...]:
        return tuple(how for how in WAYS if not (self.by_library and how is DIRECT))


CLIENTS: dict[str, Client] = {}
"""What is done -> who does it."""


def client(what: str, *packages: str, by_library: bool = False) -> Callable[[Program], Program]:
    def register(program: Program) -> Program:
        CLIENTS[what] = Client(packages, program, by_library)
        return program

    return register
