"""Exports a program and compares the artifact with eager: as it is, saved and loaded, decomposed, and
unflattened; with the example's arguments and with others; results and the state of the module."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import framelift

Arguments = tuple[Any, ...]


class Calls(torch.nn.Module):
    """A function of one tensor, as a module."""

    def __init__(self, program: Callable[..., Any]) -> None:
        super().__init__()
        self.program = program

    def forward(self, x: torch.Tensor) -> Any:
        return self.program(x)


def same(expected: Any, found: Any) -> None:
    """Two results with the same structure, the tensors equal up to rounding."""
    a, spec = pytree.tree_flatten(expected)
    b, other = pytree.tree_flatten(found)
    assert spec == other, f"{other} instead of {spec}"
    for one, another in zip(a, b, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(another, one, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert type(one) is type(another) and one == another


def run(module: Any, args: Arguments, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, torch.Tensor]]:
    """What a call gives, what becomes of its arguments, and the buffers afterwards."""
    args, kwargs = copy.deepcopy((args, kwargs))
    torch.manual_seed(3)
    result = module(*args, **kwargs)
    buffers = dict(module.named_buffers()) if isinstance(module, torch.nn.Module) else {}
    return result, (args, kwargs), buffers


def saved_and_loaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def forms_of(program: ExportedProgram, saves: bool) -> Iterable[Any]:
    """The artifact in its forms, each with a state of its own."""
    yield copy.deepcopy(program).module()
    if saves:
        yield saved_and_loaded(program).module()
    yield copy.deepcopy(program).run_decompositions().module()
    yield torch.export.unflatten(copy.deepcopy(program))


def check_export(
    model: Any,
    args: Arguments,
    kwargs: dict[str, Any] | None = None,
    *others: Arguments,
    saves: bool = True,
    **options: Any,
) -> ExportedProgram:
    """Gives the artifact."""
    kwargs = kwargs or {}
    before = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model
    program = framelift.export(model, args, kwargs, **options)
    for given in (args, *others):
        expected = run(copy.deepcopy(before), given, kwargs)
        for module in forms_of(program, saves):
            found = run(module, given, kwargs)
            same(expected[:2], found[:2])
            for name, buffer in found[2].items():
                if name in expected[2]:
                    same(expected[2][name], buffer)
    return program
