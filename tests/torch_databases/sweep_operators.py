"""Every operator in torch's own database, captured and compared with eager, bit for bit.

`python tests/torch_databases/sweep_operators.py [NAME ...]` runs all of them, or those named, and prints the
share that is captured; `test_operator_database.py` runs a sample. Each operator is called as a function, as a
method and in place, where it has these forms, with the first samples that the database has for it, and
differentiated.
"""

from __future__ import annotations

import collections
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framelift  # noqa: E402
import framelift.exc  # noqa: E402
from check import difference  # noqa: E402
from framelift.testing import clone_inputs  # noqa: E402

for _module in list(sys.modules.values()):
    # The database seeds the generator before a random operator is called; here that is the comparison's job.
    if getattr(_module, "__name__", "").startswith("torch.testing._internal") and hasattr(
        _module, "wrapper_set_seed"
    ):
        _module.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

# Importing the database makes TorchScript's functions Python code that calls them.
torch._C.ScriptFunction.__call__ = common_utils.func_call
torch._C.ScriptMethod.__call__ = common_utils.meth_call

# Importing the database forbids, for the rest of the process, to set torch.backends' flags.
setattr(torch.backends, "__allow_nonbracketed_mutation_flag", True)

SAMPLES = {"eager": 2, "aot_eager": 1, "dynamic": 1}
"""How many samples of each operator are run, by setting."""

CAPTURED = "captured"

DATA, SHAPE, NO_FAKE = "data-dependent value", "data-dependent shape", "operator without a fake kernel"
BRANCH, KIND = "data-dependent branch", "unsupported kind of tensor"

BREAKS = {
    **dict.fromkeys(("allclose", "equal", "corrcoef", "cov", "narrow", "tensor_split"), DATA),
    **dict.fromkeys(("nn.functional.one_hot", "nn.functional.gaussian_nll_loss"), DATA),
    **dict.fromkeys(("argwhere", "bincount", "unique"), SHAPE),
    **dict.fromkeys(
        ("combinations", "linalg.lstsq", "linalg.lstsq.grad_oriented", "nn.functional.ctc_loss"), SHAPE
    ),
    **dict.fromkeys(("geqrf", "histogram", "histogramdd", "to_sparse"), NO_FAKE),
    **dict.fromkeys(("sparse.mm.reduce", "sparse.sampled_addmm"), KIND),
    "resize_": "memory of a tensor",  # of inputs
    "torch._scaled_mm_v2": "opaque object",  # an enumeration of pybind11's
}
"""Operators that break with some of their samples -> the reason."""


@dataclass
class Case:
    """One call of an operator: `fn(input, args, kwargs)`."""

    name: str
    fn: Callable[..., Any]
    sample: SampleInput = field(repr=False)

    def arguments(self) -> tuple[Any, ...]:
        return clone_inputs((self.sample.input, self.sample.args, self.sample.kwargs))


def name_of(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def cases(op: OpInfo, count: int) -> Iterator[Case]:
    taken = samples(op, count)
    for form in ("op", "method_variant", "inplace_variant"):
        call = getattr(op, form)
        if call is None:
            continue
        for n, sample in enumerate(taken):
            suffix = {"op": "", "method_variant": " method", "inplace_variant": " in place"}[form]
            yield Case(
                f"{name_of(op)}{suffix} {n}", in_place(call) if suffix == " in place" else plain(call), sample
            )


def plain(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, args, kwargs: call(self, *args, **kwargs)


def in_place(call: Callable[..., Any]) -> Callable[..., Any]:
    """On a copy: a leaf that requires a gradient may not be changed."""

    def run(self: Any, args: Any, kwargs: Any) -> Any:
        copy = self.clone() if isinstance(self, torch.Tensor) else [item.clone() for item in self]
        return call(copy, *args, **kwargs), copy

    return run


def samples(op: OpInfo, count: int) -> list[SampleInput]:
    if not op.dtypes:
        return []
    dtype = torch.float32 if torch.float32 in op.dtypes else min(op.dtypes, key=str)
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    found = op.sample_inputs("cpu", dtype, requires_grad=grad)
    return [sample for sample, _ in zip(found, range(count))]


# ---- what becomes of a case


SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {"backend": "eager"},
    "aot_eager": {"backend": "aot_eager"},
    "dynamic": {"backend": "eager", "dynamic": True},
}


def outcome(case: Case, setting: str = "eager") -> str | None:
    """CAPTURED, the name of the break's reason, or what went wrong; None where eager raises."""
    mine, theirs = case.arguments(), case.arguments()
    try:
        want = run(case.fn, mine)
    except Exception:
        return None
    compiled = framelift.compile(case.fn, fullgraph=True, **SETTINGS[setting])
    try:
        got = run(compiled, theirs)
    except framelift.exc.Unsupported:
        record = next(r for r in compiled._framelift_context.code_states.values() if r.breaks)
        return record.breaks[0].reason.name
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error):.300}"
    finally:
        compiled._framelift_context.forget()
    found = told_apart(case, want, got, exact=setting != "aot_eager")
    return CAPTURED if found is None else f"differs: {found}"


def run(fn: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """One call and its backward pass, and all that a program could see of it afterwards."""
    torch.manual_seed(0)
    result = fn(*arguments)
    random = torch.get_rng_state()
    return {
        "result": result,
        "arguments": arguments,
        "random numbers": random,
        "gradients": gradients(result, arguments),
    }


def gradients(result: Any, arguments: Any) -> list[torch.Tensor | None] | str:
    """What comes to the arguments when everything in a result is differentiated; or why nothing does."""
    roots = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [t for t in pytree.tree_leaves(arguments) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not (roots and leaves):
        return []
    torch.manual_seed(1)
    try:
        weights = [torch.randn_like(root) for root in roots]
        return list(torch.autograd.grad(roots, leaves, weights, allow_unused=True))
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__


def told_apart(case: Case, want: dict[str, Any], got: dict[str, Any], exact: bool) -> str | None:
    """The first thing in which two runs differ. AOTAutograd's decompositions may round differently."""
    values = "empty" not in case.name  # what was not initialised
    if exact or not values:
        return difference(want, got, values, "call")
    ours, theirs = pytree.tree_flatten(got), pytree.tree_flatten(want)
    if ours[1] != theirs[1]:
        return "the structure of the result"
    try:
        for a, b in zip(ours[0], theirs[0], strict=True):
            if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b, equal_nan=True)
            elif a != b and a == a:
                return f"{a!r}, not {b!r}"
    except AssertionError as error:
        return str(error).replace("\n", " ")[:200]
    return None


def sweep(names: list[str], settings: Iterable[str] = SETTINGS) -> dict[str, list[str]]:
    """What becomes of them -> which, and in what setting."""
    found: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
    for op in op_db:
        if names and op.name not in names and name_of(op) not in names:
            continue
        for setting in settings:
            for case in cases(op, SAMPLES[setting]):
                result = outcome(case, setting)
                if result is not None:
                    found[result].append(f"{case.name} {setting}")
    return found


@dataclass
class Share:
    """How much of what was run is captured."""

    captured: int
    total: int
    possible: int
    """Without those that need data, or an operator's fake kernel that torch has not."""

    @classmethod
    def of(cls, found: dict[str, list[str]]) -> Share:
        total = sum(map(len, found.values()))
        needs_data = sum(len(found.get(reason, ())) for reason in (DATA, BRANCH, SHAPE, NO_FAKE))
        return cls(len(found.get(CAPTURED, ())), total, total - needs_data)

    def __str__(self) -> str:
        whole = f"{self.captured} of {self.total} captured ({self.captured / max(self.total, 1):.1%})"
        share = self.captured / max(self.possible, 1)
        return f"{whole}, of the {self.possible} that can be run without data {share:.1%}"


def report(found: dict[str, list[str]]) -> None:
    for result, where in sorted(found.items()):
        if result != CAPTURED:
            print(f"{result}\n    {', '.join(where)}")
    print(Share.of(found))


def main(names: list[str]) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # the tensors are small
    report(sweep(names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
