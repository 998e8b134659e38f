"""Programs without data: arguments, parameters and buffers that are torch's fake tensors.

A capture makes fakes of its own of real tensors. While a program is captured, real tensors of the same shape
stand for those that are fake already: nothing ever looks at their data, so memory for it is asked for and
never touched. The artifact has the program's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree

from framelift.core.errors import UserError
from framelift.graph.symbols import SYMBOLIC


class StandIns:
    """Real tensors, each for one that has no data."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made: dict[int, torch.Tensor] = {}
        """id of a tensor without data -> what stands for it."""
        self.fakes: dict[int, FakeTensor] = {}
        """id of what stands for one -> the one without data."""

    def of_tree(self, tree: Any) -> Any:
        leaves, spec = pytree.tree_flatten(tree)
        if not any(isinstance(leaf, FakeTensor) for leaf in leaves):
            return tree
        return pytree.tree_unflatten([self.of(leaf, "an argument") for leaf in leaves], spec)

    def of(self, value: Any, what: str) -> Any:
        """What stands for a value: itself, if it has data."""
        if not isinstance(value, FakeTensor):
            return value
        if id(value) not in self.made:
            made = self.made[id(value)] = self.make(value, what)
            self.fakes[id(made)] = value
        return self.made[id(value)]

    def make(self, fake: FakeTensor, what: str) -> torch.Tensor:
        if any(type(size) in SYMBOLIC for size in (*fake.size(), *fake.stride())):
            raise UserError(
                f"{self.name}: {what} is a fake tensor of sizes that are symbols already; give one of "
                "definite sizes, and say in dynamic_shapes which of them may vary"
            )
        about: dict[str, Any] = {"dtype": fake.dtype, "device": fake.device}
        try:
            with unset_fake_temporarily():
                made = torch.empty_strided(fake.size(), fake.stride(), **about)
        except (RuntimeError, AssertionError) as error:
            first = str(error).partition("\n")[0]
            raise UserError(
                f"{self.name}: {what} is a fake tensor on {fake.device}, where no tensor can be made to "
                f"capture the program with: {first}"
            ) from None
        if isinstance(fake, torch.nn.Parameter):
            return torch.nn.Parameter(made, requires_grad=fake.requires_grad)
        return made.requires_grad_(fake.requires_grad)

    @contextlib.contextmanager
    def in_module(self, root: torch.nn.Module | None) -> Iterator[None]:
        """Within this the module has real parameters, buffers and other tensors."""
        replaced: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for module in () if root is None else root.modules():
                for held in (module._parameters, module._buffers, vars(module)):
                    for name, value in list(held.items()):
                        if isinstance(value, FakeTensor):
                            held[name] = self.of(value, f"the tensor {name} of the module")
                            replaced.append((held, name, value))
            yield
        finally:
            for held, name, value in replaced:
                held[name] = value

    def give_back(self, made: torch.nn.Module) -> None:
        """The module that was made of the capture has the program's own tensors."""
        if not self.fakes:
            return
        for module in made.modules():
            for held in (module._parameters, module._buffers, vars(module)):
                for name, value in list(held.items()):
                    held[name] = self.fakes.get(id(value), value)
