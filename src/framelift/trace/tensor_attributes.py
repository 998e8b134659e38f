"""Attributes of tensors: what their fakes tell, what is guarded, what the program has set on them."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.sentinels import MISSING
from framelift.features.collectives.values import DESCRIBED, IDENTICAL
from framelift.graph import op_memory
from framelift.graph.data_reassignment import set_data
from framelift.graph.fakes import PLAIN_CLASSES as TENSORS
from framelift.graph.functions import METADATA
from framelift.graph.subclasses import overrides
from framelift.guards.guard import Check
from framelift.guards.sources import Access
from framelift.interpreter.pending import opened
from framelift.trace.attributes import Attributes
from framelift.trace.views import DELETED, View, own_dictionary

native = _frame.native
Tensor = torch.Tensor

UNGUARDED_OF_INPUTS = frozenset({"grad", "_grad", "_base", "grad_fn", "_grad_fn", "_version", "__dict__"})
UNGUARDED_OF_INPUTS |= {"retains_grad", "_post_accumulate_grad_hooks"}
"""Attributes of a tensor from outside that its fake does not have, or that no guard is about."""

OF_THE_REAL_ONE = {
    **dict.fromkeys(("grad_fn", "_version", "_cdata", "_backward_hooks", "output_nr"), breaks.INTERNAL),
    **dict.fromkeys(("__dict__", "__getstate__", "__reduce__", "__sizeof__", "__dir__"), breaks.INTERNAL),
    "__hash__": breaks.IDENTITY,
    "tolist": breaks.DATA_DEPENDENT_VALUE,
}
"""Attributes of which a fake has its own -> why they are not told."""


class TensorAttributes(Attributes):
    # ---- reading

    def tensor_attr(self, fake: Any, name: str) -> Any:
        cls = self.recorder.subclasses.class_of(fake)
        if cls not in TENSORS:
            own = self.subclass_attr(fake, cls, name)
            if own is not MISSING:
                return own
        if name in METADATA and self.recorder.modes.active:
            return native(getattr, fake, name)  # torch asks these
        if name in METADATA:
            self.recorder.inputs.note_fact(name, fake)
            with torch._C.DisableTorchFunction():
                if name == "nbytes":  # which torch does not compute of symbols
                    return fake.numel() * fake.element_size()
                return getattr(fake, name)
        if name == "__class__":
            return self.recorder.subclasses.class_of(fake)
        found = super().class_attribute(torch.Tensor, name)
        at = self.recorder.inputs.index_of.get(id(fake))
        if found is not MISSING:
            if name == "grad_fn" and self.tensor_attr(fake, "is_leaf"):
                return None
            if name == "retains_grad" and self.tensor_attr(fake, "is_leaf"):
                return False
            if at is not None and name in UNGUARDED_OF_INPUTS:
                return self.input_tensor_attr(fake, at, name)
            if name == "grad":
                return self.recorder.subclasses.attributes_of(fake).get(name)
            if name == "retains_grad":
                return id(fake) in self.recorder.histories.retained
            if name == "output_nr" and self.tensor_attr(fake, "is_leaf"):
                return 0
            if name in OF_THE_REAL_ONE:
                return self.refuse(OF_THE_REAL_ONE[name], f"Tensor.{name}")
            return native(getattr, fake, name)
        own = self.tensor_dict_attr(fake, name)
        if own is not MISSING:
            return own
        if id(fake) in self.recorder.wrappers.behind and at is None:
            return self.wrapper_attr(fake, name)
        text = f"'{self.recorder.subclasses.class_of(fake).__name__}' object has no attribute '{name}'"
        raise AttributeError(text, name=name, obj=fake)

    def tensor_dict_attr(self, fake: Any, name: str) -> Any:
        """What the program has set on a tensor; MISSING if nothing."""
        at = self.recorder.inputs.index_of.get(id(fake))
        if at is None:
            return self.recorder.subclasses.attributes_of(fake).get(name, MISSING)
        view = self.tensor_view(at)
        own = self.own_attr(view, view.outside, name)
        return MISSING if own is DELETED else own

    def wrapper_attr(self, face: Any, name: str) -> Any:
        """What the class of a tensor around others has set on a result of its own. Only what it says beside
        its tensors is sure to be there: that is what the wrappers of a trace were made of."""
        found = self.recorder.wrappers.attribute(face, name)
        if type(found) not in op_memory.ATOMS:
            self.refuse(breaks.INTERNAL, f"attribute {name!r} of a tensor that wraps others")
        return found

    def has_no_attributes(self, fake: Any) -> bool:
        """Whether the program has set nothing on a tensor."""
        at = self.recorder.inputs.index_of.get(id(fake))
        if at is None:
            return not self.recorder.subclasses.attributes_of(fake)
        view = self.tensor_view(at)
        if own_dictionary(view.outside) or view.changes():
            return False
        self.guard(view.source.child(Access.DICT), Check.KEYS, ())
        return True

    def is_bare(self, fake: Any) -> bool:
        """Whether all that there is to a tensor is its data."""
        if self.recorder.subclasses.class_of(fake) is not Tensor or not self.tensor_attr(fake, "is_leaf"):
            return False
        plain = not fake.requires_grad and fake.layout is torch.strided and not fake.is_inference()
        return plain and opened(self.tensor_attr(fake, "grad")) is None and self.has_no_attributes(fake)

    def tensor_view(self, at: int) -> View:
        """What the trace has read of, or set on, a tensor that came in."""
        tensor = self.recorder.inputs.entries[at][1]
        view = self.views.get(id(tensor))
        if view is None:
            view = self.views[id(tensor)] = View(self.known[id(tensor)].source, tensor)
        return view

    def subclass_attr(self, fake: Any, cls: type, name: str) -> Any:
        """What a tensor has of its class; MISSING where that is what every tensor has."""
        if id(fake) in self.recorder.wrappers.behind and name in DESCRIBED.get(cls, ()):
            return self.description(fake, name)
        if id(fake) in self.recorder.wrappers.behind and name in self.recorder.wrappers.part_names(fake):
            return self.recorder.wrappers.part(fake, name)
        found = self.class_attribute(cls, name)
        if found is super().class_attribute(torch.Tensor, name):
            if name in METADATA and overrides(cls):
                return native(getattr, fake, name)  # torch asks the class
            return MISSING
        if not self.describes(type(found), "__set__"):
            own = self.tensor_dict_attr(fake, name)
            if own is not MISSING:
                return own
        return self.bound(found, fake, cls, name)

    def description(self, fake: Any, name: str) -> Any:
        """What a tensor around others says of itself, which is guarded where that one comes from outside."""
        with torch._C.DisableTorchFunction():
            found = getattr(self.recorder.wrappers.behind[id(fake)], name)
        if type(found) in IDENTICAL:
            return self.load(found, self.root.constant(found, name))
        return found

    def input_tensor_attr(self, fake: Any, at: int, name: str) -> Any:
        if name == "grad":
            if self.recorder.builder.in_backward:
                self.refuse(breaks.EFFECT, "Tensor.grad, read while gradients are computed")
            view = self.tensor_view(at)
            if "grad" not in view.values:
                with torch._C.DisableTorchFunction():
                    grad = view.outside.grad
                view.values["grad"] = self.found_at(view.source.child(Access.GRAD), grad)
            return view.values["grad"]
        return self.refuse(breaks.INTERNAL, f"Tensor.{name} of an input")

    # ---- writing

    def store_tensor_attr(self, fake: Any, name: str, value: Any) -> None:
        found = super().class_attribute(torch.Tensor, name)
        if id(fake) in self.recorder.wrappers.behind and found is MISSING:
            self.refuse(breaks.INTERNAL, f"attribute {name!r} set on a tensor that wraps others")
        if name == "requires_grad" and type(opened(value)) is bool:
            self.recorder.call(torch.Tensor.requires_grad_, (fake, opened(value)), {})
            return
        if name == "data":
            value = self.recorder.reassignments.assign(fake, opened(value), "Tensor.data = ...", set_data)
            if id(fake) not in self.recorder.inputs.index_of:
                return
        elif name in ("real", "imag") and type(opened(value)) is FakeTensor:
            self.recorder.call(Tensor.copy_, (self.tensor_attr(fake, name), opened(value)), {})
            return
        elif name == "grad":
            self.check_grad(fake, opened(value))
        elif found is not MISSING:
            self.refuse(breaks.EFFECT, f"assignment to Tensor.{name}")
        elif self.describes(
            type(self.class_attribute(self.recorder.subclasses.class_of(fake), name)), "__set__"
        ):
            self.refuse(breaks.INTERNAL, f"attribute {name!r} set on a tensor")
        at = self.recorder.inputs.index_of.get(id(fake))
        if at is None:
            self.recorder.subclasses.set_attribute(fake, name, value)
        else:
            self.tensor_view(at).write(name, value)

    def set_tensor(self, fake: Any, other: Any) -> Any:
        """`Tensor.set_`."""
        at = self.recorder.inputs.index_of.get(id(fake))
        alias = self.recorder.reassignments.assign(fake, other, "Tensor.set_", Tensor.set_)
        if at is not None:
            self.tensor_view(at).write("set_", alias)
        return fake

    def check_grad(self, fake: Any, value: Any) -> None:
        """`Tensor.grad` takes what could be a gradient of the tensor; of others torch says why not."""
        if value is None:
            return
        if type(value) is not FakeTensor or value is fake:
            self.refuse(breaks.EFFECT, "assignment to Tensor.grad")
        alike = ("shape", "dtype", "device", "layout")
        with torch._C.DisableTorchFunction():
            if any(getattr(fake, name) != getattr(value, name) for name in alike):
                self.refuse(breaks.EFFECT, "assignment to Tensor.grad of something unlike the tensor")
