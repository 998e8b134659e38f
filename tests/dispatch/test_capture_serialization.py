"""Captures that are saved and loaded: every field is kept, rebuilt, or declared not to be."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
import torch.fx
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import framelift  # noqa: F401 (which registers everything)
from framelift.dispatch.capture import KEPT, Capture
from framelift.dispatch.capture_serialization import fields_of, load_capture, save_capture
from framelift.dispatch.object_names import NotPortableError
from framelift.dispatch.restarts import CaptureRuns
from framelift.graph.torch_flags import TorchState

WAYS = {"saved", "rebuilt", "local", "refused"}


def test_each_field_says_how_it_is_kept() -> None:
    """A new field of `Capture` needs one of the kinds of metadata in `dispatch/capture.py`."""
    unknown = [each.name for each in dataclasses.fields(Capture) if each.metadata.get(KEPT) not in WAYS]
    assert not unknown
    for each in dataclasses.fields(Capture):
        has_default = (
            each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
        )
        assert has_default or each.metadata[KEPT] not in ("local", "refused"), f"{each.name} has no default"


# ---- programs


def doubled(grad: torch.Tensor) -> torch.Tensor:
    return grad + 1


def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    return CheckpointPolicy.MUST_SAVE


def contexts() -> Any:
    return create_selective_checkpoint_contexts(policy)


def body(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).sin()


def plain(x: torch.Tensor) -> Any:
    return {"y": x.sin() + 1, "n": x.dim()}


def with_flags(x: torch.Tensor) -> Any:
    torch.set_default_dtype(torch.float64)
    made = torch.ones(3) + x
    torch.set_default_dtype(torch.float32)
    return made


def with_hooks(x: torch.Tensor) -> Any:
    y = x * 2
    y.register_hook(doubled)
    return y * 2, y * 3


def with_bodies(x: torch.Tensor) -> Any:
    return checkpoint(body, x, use_reentrant=False, context_fn=contexts)


def with_leaves(x: torch.Tensor) -> Any:
    x.requires_grad_()
    return x * 2


def without_graph(x: torch.Tensor) -> Any:
    return math.sqrt(4.0)


LINEAR = nn.Linear(3, 3)


def with_module(x: torch.Tensor) -> Any:
    return LINEAR(x).split(1, dim=1)


def with_state(x: torch.Tensor) -> Any:
    return x + torch.get_num_threads(), torch.get_float32_matmul_precision()


def with_arrays(x: torch.Tensor) -> Any:
    return torch.from_numpy(x.numpy() * 2)


def square() -> torch.Tensor:
    return torch.arange(9.0).view(3, 3)


PROGRAMS: dict[Any, Any] = {
    plain: square,
    with_flags: lambda: torch.ones(3),
    with_hooks: lambda: square().requires_grad_(),
    with_bodies: lambda: square().requires_grad_(),
    with_leaves: square,
    without_graph: square,
    with_module: square,
    with_state: square,
    with_arrays: square,
}


def captured(fn: Any, x: torch.Tensor) -> Capture:
    return CaptureRuns(fn, [x], keeps_lines=True).capture()


@pytest.mark.parametrize("fn", PROGRAMS)
def test_what_is_loaded_is_what_was_saved(fn: Any) -> None:
    x = PROGRAMS[fn]()
    capture = captured(fn, x)
    loaded = load_capture(save_capture(capture, fn, [x]), fn, [x])
    for field, value in fields_of(capture, "saved"):
        assert facts(getattr(loaded, field.name)) == facts(value), field.name
    for field, value in fields_of(loaded, "local"):
        assert value in (0, 0.0, []), field.name
    for one, other in zip(loaded.example_inputs, capture.example_inputs, strict=True):
        assert torch.equal(one, other) and facts(one) == facts(other) and one.is_leaf == other.is_leaf
    assert loaded.program.native.collect(fn, [x]) is not None


def facts(value: Any) -> Any:
    """What of a part of a capture must be the same."""
    if isinstance(value, torch.fx.GraphModule):
        nodes = [
            (n.op, n.name, n.target, str(n.args), str(n.kwargs), facts(n.meta)) for n in value.graph.nodes
        ]
        return nodes, {name: facts(body) for name, body in value.named_children()}, value.meta
    if isinstance(value, torch.Tensor):
        return value.dtype, value.device, value.shape, value.stride(), value.requires_grad
    if isinstance(value, dict):
        return {name: facts(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [facts(each) for each in value]
    if dataclasses.is_dataclass(value) and type(value).__name__ == "Region":
        return value.name, value.source, facts(value.inputs), sorted(value.constants), value.has_graph
    return value if isinstance(value, (int, float, str, set, type(None))) or callable(value) else str(value)


def test_flags_hooks_and_bodies_are_among_what_is_saved() -> None:
    """Else the test above would say nothing of them."""
    captures = {fn: captured(fn, make()) for fn, make in PROGRAMS.items()}
    assert captures[with_flags].setting and captures[with_hooks].run_as_captured
    assert captures[with_leaves].leaf_inputs == [0] and captures[without_graph].graph is None
    assert all(each.lines for each in captures.values() if each.graph is not None)
    checkpointed = captures[with_bodies].graph
    assert checkpointed is not None and any(body.meta for _, body in checkpointed.named_children())
    for fn, capture in captures.items():
        nodes = (
            [] if capture.graph is None else [n for n in capture.graph.graph.nodes if n.op == "placeholder"]
        )
        assert all("example_value" in node.meta for node in nodes), fn


# ---- what is not saved


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print(end="")
    return y * 2


KEY = object()
TABLE = {KEY: 3.0}


def by_identity(x: torch.Tensor) -> torch.Tensor:
    return x * TABLE[KEY]


def test_what_makes_no_sense_elsewhere_is_refused() -> None:
    x = torch.ones(2)
    with pytest.raises(NotPortableError, match="it breaks .run-time effect."):
        save_capture(captured(printing, x), printing, [x])
    with pytest.raises(NotPortableError, match="builtins.object"):
        save_capture(captured(by_identity, x), by_identity, [x])


@pytest.mark.parametrize(
    "name", [each.name for each in dataclasses.fields(Capture) if "reason" in each.metadata]
)
def test_a_capture_that_has_what_is_refused_is_not_saved(name: str) -> None:
    capture = captured(plain, square())
    break_ = captured(printing, torch.ones(2)).ended_by
    setattr(capture, name, break_ if name == "ended_by" else [capture])
    with pytest.raises(NotPortableError):
        save_capture(capture, plain, [square()])


def test_a_capture_holds_for_what_it_was_made_for_only() -> None:
    data = save_capture(captured(plain, square()), plain, [square()])
    with pytest.raises(NotPortableError, match="a guard does not hold here"):
        load_capture(data, plain, [torch.ones(4)])
    with pytest.raises(NotPortableError, match="it is of other code"):
        load_capture(data, with_flags, [square()])
    with TorchState(), pytest.raises(NotPortableError, match="grad mode"):
        torch.set_grad_enabled(False)
        load_capture(data, plain, [square()])
