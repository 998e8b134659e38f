"""Compares what is captured with calls of modules replayed, and with all of them traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import framelift
from framelift.dispatch.capture import Capture
from framelift.dispatch.restarts import CaptureRuns
from framelift.graph.origins import describe_nodes
from framelift.trace.replays import Replays


class Described(NamedTuple):
    """A capture in words: nothing in there is an object of its trace."""

    code: str
    nodes: list[dict[str, Any]]
    guards: set[str]
    class_guards: set[str]
    storages: Any
    region: str
    inputs: list[str]
    written: Any
    ops: list[Any]
    inlined_calls: int
    ended_by: str


def described(capture: Capture) -> Described:
    nodes: list[dict[str, Any]] = []
    code = ""
    if capture.graph is not None:
        describe_nodes(capture.graph)
        code = capture.graph.code
        nodes = [described_node(node) for node in capture.graph.graph.nodes]
    return Described(
        code,
        nodes,
        {f"{guard} | {guard.place} | {guard.caller}" for guard in capture.guards},
        set(map(str, capture.class_guards)),
        capture.storages,
        capture.region.source,
        list(map(str, capture.input_sources)),
        capture.written_inputs,
        list(map(str, capture.ops)),
        capture.inlined_calls,
        "" if capture.ended_by is None else f"{capture.ended_by.one_line} {capture.ended_at}",
    )


def described_node(node: torch.fx.Node) -> dict[str, Any]:
    found: dict[str, Any] = {"name": node.name, "op": node.op, "target": str(node.target)}
    for key, value in node.meta.items():
        if key in ("example_value", "val"):
            found[key] = described_value(value)
        elif key == "grapharg":
            found[key] = (str(value.source.name), value.is_tensor)
        else:
            found[key] = str(value)
    return found


def described_value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            about = (tuple(value.shape), value.stride(), value.storage_offset(), value.dtype, value.device)
            return *about, value.requires_grad, value.is_leaf, value._is_view()
    if isinstance(value, (tuple, list)):
        return [described_value(item) for item in value]
    return str(value)


def replayed_and_traced(fn: Callable[..., Any], arguments: list[Any]) -> tuple[Described, Described, int]:
    """What is captured of a call either way, and how many calls of modules were replayed."""
    count = 0
    replay = Replays.replay

    def counted(self: Any, *args: Any) -> Any:
        nonlocal count
        count += 1
        return replay(self, *args)

    with framelift.config.patch(replay_modules=False):
        CaptureRuns(fn, arguments).capture()  # type: ignore[arg-type]  # some things are found out once
    Replays.replay = counted  # type: ignore[method-assign]
    try:
        with_replays = described(CaptureRuns(fn, arguments).capture())  # type: ignore[arg-type]
    finally:
        Replays.replay = replay  # type: ignore[method-assign]
    with framelift.config.patch(replay_modules=False):
        traced = described(CaptureRuns(fn, arguments).capture())  # type: ignore[arg-type]
    return with_replays, traced, count


def check_sameness(fn: Callable[..., Any], *arguments: Any) -> int:
    """How many calls were replayed, for which the same was captured as without."""
    one, other, count = replayed_and_traced(fn, list(arguments))
    for field in Described._fields:
        assert getattr(one, field) == getattr(other, field), field
    return count
