"""Every module in torch's own database, captured and compared with eager, bit for bit.

`python tests/torch_databases/sweep_modules.py [NAME ...]` runs all of them, or those named, and prints the
share that is captured; `test_module_database.py` runs fewer. Each module is made with samples that the
database has for it, spread over all of them, and called twice, in training and in evaluation, under every
setting: outputs, gradients of inputs and parameters, buffers, what is left of the inputs and the random
numbers that come next are eager's.
"""

from __future__ import annotations

import collections
import copy
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framelift  # noqa: E402
import framelift.exc  # noqa: E402
from check import difference  # noqa: E402
from framelift.testing import clone_inputs  # noqa: E402
from torch_databases.sweep_operators import (  # noqa: E402
    BRANCH,
    CAPTURED,
    DATA,
    NO_FAKE,
    SHAPE,
    report,
)

SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {"backend": "eager"},
    "aot_eager": {"backend": "aot_eager"},
    "dynamic": {"backend": "eager", "dynamic": True},
    "dynamic aot_eager": {"backend": "aot_eager", "dynamic": True},
}

SAMPLES = {"eager": 4, "aot_eager": 1, "dynamic": 4, "dynamic aot_eager": 1}
"""How many samples of each module are run, in either mode; AOTAutograd takes ten times as long."""

CALLS = 2
"""How often each module is called: the second time an entry is found."""

IN_DOUBLE = "nn.FractionalMaxPool"
"""The database's samples for these have random numbers in double precision."""

BREAKS = {
    **dict.fromkeys(("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d", "nn.GaussianNLLLoss"), DATA),
    **dict.fromkeys(("nn.TransformerEncoder", "nn.Transformer"), BRANCH),  # is this mask a causal one?
    "nn.CTCLoss": SHAPE,
}
"""Modules that break with some of their samples -> the reason."""

ROUNDED = frozenset({"nn.LSTM", "nn.MultiLabelMarginLoss", "nn.MultiMarginLoss", "nn.Softshrink"})
"""Modules that AOTAutograd decomposes into operators that round differently: compared within tolerances."""


@dataclass
class Case:
    """One sample of a module, in one mode, under one setting."""

    info: ModuleInfo
    number: int
    training: bool
    setting: str
    sample: ModuleInput = field(repr=False)

    def __str__(self) -> str:
        mode = "training" if self.training else "evaluation"
        return f"{self.info.name} {self.number} {mode} {self.setting}"

    @property
    def rounded(self) -> bool:
        return self.info.name in ROUNDED and "aot" in self.setting

    def module(self) -> nn.Module:
        """A lazy one has seen its first input."""
        torch.manual_seed(0)
        given = clone_inputs((self.sample.constructor_input.args, self.sample.constructor_input.kwargs))
        made: nn.Module = self.info.module_cls(*given[0], **given[1])
        if self.info.is_lazy:
            args, kwargs = self.arguments()
            made(*args, **kwargs)
        return made.train(self.training)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given: tuple[tuple[Any, ...], dict[str, Any]] = clone_inputs(
            (self.sample.forward_input.args, self.sample.forward_input.kwargs)
        )
        return given


def samples(info: ModuleInfo, training: bool) -> list[ModuleInput]:
    dtype = torch.float64 if info.name.startswith(IN_DOUBLE) else torch.float32
    torch.manual_seed(0)
    found = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    return [sample for sample in found if sample.forward_input is not None]


def cases(
    info: ModuleInfo, settings: tuple[str, ...] = tuple(SETTINGS), count: int | None = None
) -> Iterator[Case]:
    for training in (True, False):
        found = samples(info, training)
        for setting in settings:
            for n in spread(len(found), count or SAMPLES[setting]):
                yield Case(info, n, training, setting, found[n])


def spread(length: int, count: int) -> list[int]:
    """So many places in a sequence."""
    return sorted({k * length // count for k in range(count)} if length else ())


# ---- what becomes of a case


def outcome(case: Case) -> str | None:
    """CAPTURED, the name of the break's reason, or what went wrong; None where eager raises."""
    try:
        eager = case.module()
        module = copy.deepcopy(eager)
        want = [run(eager, eager, *case.arguments(), seed) for seed in range(CALLS)]
    except Exception:
        return None
    compiled: Any = framelift.compile(module, fullgraph=True, **SETTINGS[case.setting])
    try:
        got = [run(compiled, module, *case.arguments(), seed) for seed in range(CALLS)]
    except framelift.exc.Unsupported:
        record = next(r for r in compiled._framelift_context.code_states.values() if r.breaks)
        return record.breaks[0].reason.name
    except Exception as error:
        if isinstance(error.__cause__, UnsupportedOperatorException):
            return NO_FAKE  # of a backward pass
        return f"raises {type(error).__name__}: {str(error):.300}"
    finally:
        compiled._framelift_context.forget()
    found = next((d for a, b in zip(want, got, strict=True) if (d := told_apart(case, a, b))), None)
    return CAPTURED if found is None else f"differs: {found}"


def told_apart(case: Case, want: dict[str, Any], got: dict[str, Any]) -> str | None:
    if not case.rounded:
        return difference(want, got, path="")
    try:
        torch.testing.assert_close(got, want)
    except AssertionError as error:
        return str(error).replace("\n", " ")
    return difference(want, got, values=False, path="")


def run(callee: Any, module: nn.Module, args: Any, kwargs: Any, seed: int) -> dict[str, Any]:
    """One call and its backward pass, and all that a program could see of it afterwards."""
    torch.manual_seed(seed)
    module.zero_grad()
    out = callee(*args, **kwargs)
    random = torch.get_rng_state()
    roots = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    torch.manual_seed(100 + seed)
    weights = [torch.randn_like(root) for root in roots]
    if roots:
        torch.autograd.backward(roots, weights)
    return {
        "output": clone_inputs(pytree.tree_map(detached, out)),
        "requires_grad": [root.requires_grad for root in pytree.tree_leaves(out) if torch.is_tensor(root)],
        "inputs": clone_inputs(pytree.tree_map(detached, (args, kwargs))),
        "gradients": [t.grad for t in pytree.tree_leaves((args, kwargs)) if torch.is_tensor(t)],
        "state": clone_inputs({**module.state_dict()}),
        "parameters' gradients": {name: p.grad for name, p in module.named_parameters()},
        "random numbers": random,
    }


def detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


# ---- all of them


def sweep(names: list[str]) -> dict[str, list[str]]:
    """What becomes of them -> which."""
    found: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
    for info in module_db:
        if names and info.name not in names:
            continue
        for case in cases(info):
            result = outcome(case)
            if result is not None:
                found[result].append(str(case))
    return found


def main(names: list[str]) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # the modules are small
    report(sweep(names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
