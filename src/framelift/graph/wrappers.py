"""Tensor subclasses that wrap other tensors and say how (`__tensor_flatten__`), as AOTAutograd takes them.

In a trace such a tensor has a *face*: a fake with its metadata, which everything else in the trace uses.
Behind the face the recorder keeps the wrapper: a real instance of the class around fakes, on which operators
are run. What the class does in its `__torch_dispatch__` is up to the backend, which traces through it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type

from framelift import _guards
from framelift.core.sentinels import MISSING
from framelift.graph.builder import GraphBuilder
from framelift.graph.op_memory import ATOMS, Keys
from framelift.graph.subclasses import Subclasses

is_wrapper_class = is_traceable_wrapper_subclass_type


class Wrappers:
    """The tensors of a trace that wrap others, each with its face."""

    def __init__(self, builder: GraphBuilder, keys: Keys, subclasses: Subclasses) -> None:
        self.builder = builder
        self.keys = keys
        self.subclasses = subclasses
        self.behind: dict[int, Any] = {}
        """id of a face -> the wrapper."""
        self.faces: dict[int, FakeTensor] = {}
        """id of a wrapper -> its face."""

    def face_of(self, wrapper: Any) -> FakeTensor:
        found = self.faces.get(id(wrapper))
        if found is None:
            meta = _guards.empty_meta(tuple(wrapper.shape), wrapper.stride(), wrapper.dtype)
            found = self.builder.fakes.wrap(meta, wrapper.device, wrapper.requires_grad and wrapper.is_leaf)
            if not wrapper.is_leaf:
                _guards.fake_history(found)
            self.faces[id(wrapper)] = found
            self.behind[id(found)] = wrapper
            self.keys.exclude(found)  # what is done to it can't be remembered by its metadata
            self.subclasses.set_class(found, type(wrapper))
        return found

    def face_or_itself(self, tensor: Any) -> Any:
        """What the trace knows a tensor by."""
        return self.faces.get(id(tensor), tensor)

    def with_wrappers(self, value: Any) -> Any:
        """Arguments of an operator, as it is run."""
        return pytree.tree_map_only(FakeTensor, lambda fake: self.behind.get(id(fake), fake), value)

    def with_faces(self, value: Any) -> Any:
        """What it gave, as the trace knows it."""
        return pytree.tree_map_only(is_traceable_wrapper_subclass, self.face_of, value)

    def part_names(self, face: FakeTensor) -> list[str]:
        """The names of the tensors that a wrapper holds."""
        wrapper = self.behind[id(face)]
        with torch._C.DisableTorchFunction():
            names = wrapper.__tensor_flatten__()[0]
            return [name for name in names if isinstance(getattr(wrapper, name), torch.Tensor)]

    def part(self, face: FakeTensor, name: str) -> FakeTensor:
        """One of these tensors."""
        builder = self.builder
        with torch._C.DisableTorchFunction():
            found: FakeTensor = self.with_faces(getattr(self.behind[id(face)], name))
        if builder.node_of(found) is None:
            node = builder.body.add_node("call_function", getattr, (builder.node_of(face), name))
            node.meta["stack_trace"] = builder.where()
            builder.name_outputs(found, node)
        return found

    def attribute(self, face: FakeTensor, name: str) -> Any:
        """An attribute of a wrapper that is still there when it is taken apart and made again, or MISSING."""
        wrapper = self.behind[id(face)]
        with self.builder.fakes, torch._C.DisableTorchFunction():
            parts, context = wrapper.__tensor_flatten__()
            inner = {part: getattr(wrapper, part) for part in parts}
            again = type(wrapper).__tensor_unflatten__(inner, context, wrapper.shape, wrapper.stride())
        found, kept = (vars(each).get(name, MISSING) for each in (wrapper, again))
        same = type(found) is type(kept) and type(found) in ATOMS and found == kept
        return found if same else MISSING
