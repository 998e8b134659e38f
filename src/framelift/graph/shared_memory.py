"""Graphs that compilers get wrong for where their inputs lie in memory, and that run as they were captured.

AOTAutograd makes writes to an input part of the tensor itself. It makes one tensor of inputs that overlap:
operators then don't notice that what they write to is what they read, and results that are views are made of
the wrong tensor. Nor does it know of memory that lies around an input, or make results views of a tensor that
wraps others and is written to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.fx

from framelift.graph.builder import GraphInput
from framelift.graph.op_memory import storage
from framelift.graph.subclasses import is_wrapper_class

OVERLAP = "inputs that overlap in memory that the graph writes to"
BEYOND = "as_strided() of an input that is a part of memory that the graph writes to"
WRAPPED = "a result with the memory that an input wraps, which the graph writes to"
AS_STRIDED = (
    torch.as_strided,
    torch.Tensor.as_strided,
    torch.Tensor.as_strided_,
    "as_strided",
    "as_strided_",
)


def why_not_compiled(
    entries: Sequence[GraphInput], written: Iterable[int], graph: torch.fx.Graph, behind: dict[int, Any]
) -> str | None:
    """`written`: the numbers of the inputs that the graph writes to. `behind`: see `Wrappers`."""
    with torch._C.DisableTorchFunction():
        touched = {storage(entries[n].value) for n in written if isinstance(entries[n].value, torch.Tensor)}
        if not touched:
            return None
        if wrapped_twice(entries, written):
            return OVERLAP
        if gives_written_wrappers([entries[n] for n in written], graph, behind):
            return WRAPPED
        groups: dict[int, list[GraphInput]] = {}
        for entry in entries:
            if isinstance(entry.value, torch.Tensor) and (where := storage(entry.value)) in touched:
                groups.setdefault(where, []).append(entry)
        shared = [group for group in groups.values() if len(group) > 1]
        if any(map(overlap, shared)) or gives_views(graph, shared):
            return OVERLAP
        parts = [entry for group in groups.values() for entry in group if not fills_its_memory(entry.value)]
        return BEYOND if parts and strides_anew(graph, parts) else None


def wrapped_twice(entries: Sequence[GraphInput], written: Iterable[int]) -> bool:
    """Whether what is written to lies in a tensor that wraps others, and in another input or part too."""
    if not any(is_wrapper_class(type(entry.value)) for entry in entries):
        return False
    memory = [[storage(tensor) for _, tensor in tensors_within(entry.value)] for entry in entries]
    held = Counter(where for each in memory for where in each)
    return any(held[where] > 1 for n in written for where in memory[n])


def gives_written_wrappers(
    written: Iterable[GraphInput], graph: torch.fx.Graph, behind: dict[int, Any]
) -> bool:
    """Whether a result has memory that an input wraps which is written to, and is not that input."""
    wrappers = [behind[id(entry.stand_in)] for entry in written if id(entry.stand_in) in behind]
    memory = {storage(tensor) for wrapper in wrappers for _, tensor in tensors_within(wrapper)}
    if not memory:
        return False
    made = [node for node in graph.output_node().all_input_nodes if node.op != "placeholder"]
    results = [node.meta.get("example_value") for node in made]
    found = [tensor for each in results for _, tensor in tensors_within(behind.get(id(each), each))]
    return any(storage(tensor) in memory for tensor in found)


def tensors_within(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], torch.Tensor]]:
    """A plain tensor itself, or those that a wrapper holds, each with the names that lead to it."""
    if is_wrapper_class(type(value)):
        for name in value.__tensor_flatten__()[0]:
            yield from tensors_within(getattr(value, name), (*path, name))
    elif isinstance(value, torch.Tensor):
        yield path, value


def overlap(group: list[GraphInput]) -> bool:
    """Whether any two lie over each other, and are not the same. Sizes that vary may have them do so."""
    if any(type(size) is not int for entry in group for size in entry.stand_in.shape):
        return True
    places = sorted({place(entry.value) for entry in group})
    ends = [end for _, end, _ in places]
    return any(begin < end for (begin, _, _), end in zip(places[1:], ends, strict=False))


def place(tensor: torch.Tensor) -> tuple[int, int, Any]:
    """Where a tensor begins and ends in its memory, in bytes, and how it lies there."""
    size, offset = tensor.element_size(), tensor.storage_offset()
    steps = sum((n - 1) * abs(step) for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    length = steps + 1 if tensor.numel() else 0
    return (
        int(offset * size),
        int((offset + length) * size),
        (tuple(tensor.shape), tensor.stride(), str(tensor.dtype)),
    )


def gives_views(graph: torch.fx.Graph, shared: list[list[GraphInput]]) -> bool:
    """Whether a result is a view of what is there more than once."""
    if not shared:
        return False
    memory = {storage(entry.stand_in) for group in shared for entry in group}
    results = [node.meta.get("example_value") for node in graph.output_node().all_input_nodes]
    return any(isinstance(result, torch.Tensor) and storage(result) in memory for result in results)


def fills_its_memory(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided:
        return True
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def strides_anew(graph: torch.fx.Graph, parts: list[GraphInput]) -> bool:
    memory = {storage(entry.stand_in) for entry in parts}
    calls = [node for node in graph.nodes if node.target in AS_STRIDED and node.all_input_nodes]
    given = [node.all_input_nodes[0].meta.get("example_value") for node in calls]
    return any(isinstance(tensor, torch.Tensor) and storage(tensor) in memory for tensor in given)
