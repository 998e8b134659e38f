"""Tensor subclasses that wrap other tensors and say how (`__tensor_flatten__`), as AOTAutograd takes them.

In a trace such a tensor has a *face*: a fake that has its metadata, and that everybody else takes for the
tensor. Behind it the recorder keeps a real instance of the class around fakes, which operators are run on.
What the class does in its `__torch_dispatch__` is the backend's business, which traces through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type

from framelift import _guards
from framelift.core.sentinels import MISSING
from framelift.graph.fakes import Fakes
from framelift.graph.op_memory import ATOMS, Keys

is_wrapper_class = is_traceable_wrapper_subclass_type


class Wrappers:
    """The part of a recorder that knows of such tensors."""

    fakes: Fakes
    keys: Keys
    is_of_class: Callable[[FakeTensor, type], FakeTensor]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.behind: dict[int, Any] = {}
        """id of a face -> the wrapper."""
        self.faces: dict[int, FakeTensor] = {}
        """id of a wrapper -> its face."""

    def face_of(self, wrapper: Any) -> FakeTensor:
        found = self.faces.get(id(wrapper))
        if found is None:
            meta = _guards.empty_meta(tuple(wrapper.shape), wrapper.stride(), wrapper.dtype)
            found = self.fakes.wrap(meta, wrapper.device, wrapper.requires_grad and wrapper.is_leaf)
            if not wrapper.is_leaf:
                _guards.fake_history(found)
            self.faces[id(wrapper)] = found
            self.behind[id(found)] = wrapper
            self.keys.metas[id(found)] = None  # what is done to it can't be remembered by its metadata
            self.is_of_class(found, type(wrapper))
        return found

    def with_wrappers(self, value: Any) -> Any:
        """Arguments of an operator, as it is run."""
        return pytree.tree_map_only(FakeTensor, lambda fake: self.behind.get(id(fake), fake), value)

    def with_faces(self, value: Any) -> Any:
        """What it gave, as the trace knows it."""
        return pytree.tree_map_only(is_traceable_wrapper_subclass, self.face_of, value)

    def parts_of(self, face: FakeTensor) -> list[str]:
        """The names of the tensors that a wrapper holds."""
        wrapper = self.behind[id(face)]
        with torch._C.DisableTorchFunction():
            names = wrapper.__tensor_flatten__()[0]
            return [name for name in names if isinstance(getattr(wrapper, name), torch.Tensor)]

    def told_by_wrapper(self, face: FakeTensor, name: str) -> Any:
        """An attribute of a wrapper that is still there when it is taken apart and made again, or MISSING."""
        wrapper = self.behind[id(face)]
        with self.fakes, torch._C.DisableTorchFunction():
            parts, context = wrapper.__tensor_flatten__()
            inner = {part: getattr(wrapper, part) for part in parts}
            again = type(wrapper).__tensor_unflatten__(inner, context, wrapper.shape, wrapper.stride())
        found, kept = (vars(each).get(name, MISSING) for each in (wrapper, again))
        same = type(found) is type(kept) and type(found) in ATOMS and found == kept
        return found if same else MISSING
