"""Attributes of tensors: what their fakes tell, what is guarded, what the program has set on them."""

from __future__ import annotations

import operator
from types import FunctionType, GetSetDescriptorType, UnionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift._frame import native
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import Break, refuse
from framelift.core.sentinels import MISSING
from framelift.graph import op_memory
from framelift.graph.effects import set_data
from framelift.graph.fakes import PLAIN_CLASSES as TENSORS
from framelift.graph.functions import METADATA
from framelift.graph.subclasses import overrides
from framelift.graph.symbols import SYMBOLIC
from framelift.guards.kinds import Access, Check
from framelift.interpreter.pending import opened
from framelift.trace.attributes import is_of_parameter
from framelift.trace.classes import PROTOCOL_ATTRIBUTES, is_checked_by_class, protocols_in
from framelift.trace.part import Part
from framelift.trace.shadows import DELETED, View, own_dictionary
from framelift.trace.type_rules import ABSTRACT, rule_of_type

Tensor = torch.Tensor

INSTANCE_CHECK: Any = vars(type)["__instancecheck__"]
"""What C does, unless a metaclass has an answer of its own."""

UNGUARDED_OF_INPUTS = frozenset({"grad", "_grad", "_base", "grad_fn", "_grad_fn", "_version", "__dict__"})

UNGUARDED_OF_INPUTS |= {"retains_grad", "_post_accumulate_grad_hooks"}
"""Attributes of a tensor from outside that its fake does not have, or that no guard is about."""

OF_THE_REAL_ONE = {
    **dict.fromkeys(("grad_fn", "_version", "_cdata", "_backward_hooks", "output_nr"), breaks.TENSOR_STATE),
    "_python_dispatch": breaks.TENSOR_STATE,
    **dict.fromkeys(("__dict__", "__getstate__", "__reduce__", "__sizeof__", "__dir__"), breaks.TENSOR_STATE),
    "__hash__": breaks.IDENTITY,
    "tolist": breaks.DATA_DEPENDENT_VALUE,
}
"""Attributes of which a fake has its own -> why they are not told."""


OF_C = frozenset({"_cdata", "_python_dispatch", "_has_symbolic_sizes_strides", "__weakref__", "__dict__"})
GETTERS: dict[str, Any] = {
    name: getter
    for name, getter in vars(torch._C.TensorBase).items()
    if type(getter) is GetSetDescriptorType and name not in OF_C
}
"""Attributes that torch asks modes and classes of tensors for -> what gets them."""

OF_SIZES = frozenset({"shape", "ndim", "layout", "is_nested", "nbytes"})
"""Metadata that the face of a nested tensor does not have."""


class TensorAttributes(Part):
    @acts_for_program
    def attribute(self, fake: Any, name: str) -> Any:
        cls = self.world.recorder.subclasses.class_of(fake)
        if cls not in TENSORS:
            own = self.subclass_attribute(fake, cls, name)
            if own is not MISSING:
                return own
        return self.of_any_tensor(fake, cls, name)

    @acts_for_program
    def of_any_tensor(self, fake: Any, cls: type, name: str) -> Any:
        """An attribute that every tensor has."""
        getter = GETTERS.get(name)
        if getter is not None and self.is_asked_for(fake):
            return native(getter.__get__, fake)  # the getter of the class of fakes asks nobody
        if name in METADATA:
            self.world.recorder.inputs.note_fact(name, fake)
            with torch._C.DisableTorchFunction():
                if name in OF_SIZES and (shown := self.world.recorder.wrappers.nested(fake)) is not None:
                    return getattr(shown, name)
                if name == "nbytes":  # which torch does not compute of symbols
                    return fake.numel() * fake.element_size()
                return getattr(fake, name)
        if name == "__class__":
            return self.world.recorder.subclasses.class_of(fake)
        found = self.world.classes.attribute(torch.Tensor, name)
        if is_of_parameter(cls, name):
            return self.world.attributes.bound(self.world.classes.attribute(cls, name), fake, cls, name)
        at = self.world.recorder.inputs.index_of.get(id(fake))
        if found is MISSING or name in UNGUARDED_OF_INPUTS or name in OF_THE_REAL_ONE:
            self.world.recorder.builder.tape.spoil(name)
        if found is not MISSING:
            if name == "grad_fn" and self.is_leaf(fake):
                return None
            if name == "retains_grad" and self.is_leaf(fake):
                return False
            if at is not None and name in UNGUARDED_OF_INPUTS:
                return self.input_attribute(fake, at, name)
            if name == "grad":
                return self.world.recorder.subclasses.attributes_of(fake).get(name)
            if name == "retains_grad":
                return id(fake) in self.world.recorder.histories.retained
            if name == "output_nr" and self.is_leaf(fake):
                return 0
            if name == "_base" and overrides(self.world.recorder.subclasses.class_of(fake)):
                refuse(
                    breaks.TENSOR_STATE, "Tensor._base of a result that its class has made another view of"
                )
            if name == "_version" and cls in TENSORS:
                return self.version(fake)
            if name in OF_THE_REAL_ONE:
                refuse(OF_THE_REAL_ONE[name], f"Tensor.{name}")
            if not self.world.classes.describes(type(found), "__get__"):
                return found  # the class of fakes has another `__module__`, documentation and so on
            return native(getattr, fake, name)
        own = self.own(fake, name)
        if own is not MISSING:
            return own
        if id(fake) in self.world.recorder.wrappers.behind and at is None:
            return self.wrapper_attribute(fake, name)
        text = f"'{self.world.recorder.subclasses.class_of(fake).__name__}' object has no attribute '{name}'"
        raise AttributeError(text, name=name, obj=fake)

    def is_asked_for(self, fake: Any) -> bool:
        """Whether torch asks a mode, or the class of the tensor, what an attribute is."""
        modes, subclasses = self.world.recorder.modes, self.world.recorder.subclasses
        if subclasses.are_there and subclasses.overloaded((fake,), {}):
            return True
        return modes.asks_program

    def is_leaf(self, fake: Any) -> bool:
        self.world.recorder.inputs.note_fact("is_leaf", fake)
        with torch._C.DisableTorchFunction():
            return bool(fake.is_leaf)

    def own(self, fake: Any, name: str) -> Any:
        """What the program has set on a tensor; MISSING if nothing."""
        at = self.world.recorder.inputs.index_of.get(id(fake))
        if at is None:
            return self.world.recorder.subclasses.attributes_of(fake).get(name, MISSING)
        view = self.view(at)
        own = self.world.attributes.own(view, view.outside, name)
        return MISSING if own is DELETED else own

    def wrapper_attribute(self, face: Any, name: str) -> Any:
        """What the class of a tensor around others has set on a result of its own. Only what it says beside
        its tensors is sure to be there: that is what the wrappers of a trace were made of."""
        found = self.world.recorder.wrappers.attribute(face, name)
        if type(found) not in op_memory.ATOMS:
            refuse(breaks.TENSOR_STATE, f"attribute {name!r} of a tensor that wraps others")
        return found

    def has_no_attributes(self, fake: Any) -> bool:
        """Whether the program has set nothing on a tensor."""
        at = self.world.recorder.inputs.index_of.get(id(fake))
        if at is None:
            return not self.world.recorder.subclasses.attributes_of(fake)
        view = self.view(at)
        if own_dictionary(view.outside) or view.changes():
            return False
        self.world.guards.add(view.source.child(Access.DICT), Check.KEYS, ())
        return True

    def is_bare(self, fake: Any) -> bool:
        """Whether all that there is to a tensor is its data."""
        if self.world.recorder.subclasses.class_of(fake) is not Tensor or not self.is_leaf(fake):
            return False
        plain = not fake.requires_grad and fake.layout is torch.strided and not fake.is_inference()
        return plain and opened(self.attribute(fake, "grad")) is None and self.has_no_attributes(fake)

    def view(self, at: int) -> View:
        """What the trace has read of, or set on, a tensor that came in."""
        world = self.world
        tensor = world.recorder.inputs.entries[at][1]
        view = world.attributes.views.get(id(tensor))
        if view is None:
            view = world.attributes.views[id(tensor)] = View(world.inputs.known[id(tensor)].source, tensor)
        return view

    def subclass_attribute(self, fake: Any, cls: type, name: str) -> Any:
        """What a tensor has of its class; MISSING where that is what every tensor has."""
        world = self.world
        if id(fake) in world.recorder.wrappers.behind and name in rule_of_type(cls).described_by:
            return self.description(fake, name)
        if id(fake) in world.recorder.wrappers.behind and name in world.recorder.wrappers.part_names(fake):
            part = self.part(fake, name)
            world.recorder.ask_for(part)
            return part
        found = world.classes.attribute(cls, name)
        if found is self.world.classes.attribute(torch.Tensor, name):
            return MISSING
        if not world.classes.describes(type(found), "__set__"):
            own = self.own(fake, name)
            if own is not MISSING:
                return own
        return world.attributes.bound(found, fake, cls, name)

    def part(self, face: Any, name: str) -> Any:
        """A tensor that a wrapper holds. One from outside comes in like any other: it may be known already,
        have attributes, or be asked for as something else later."""
        inputs, recorder = self.world.inputs, self.world.recorder
        at = recorder.inputs.index_of.get(id(face))
        held = {} if at is None else inputs.held.get(id(recorder.inputs.entries[at].value), {})
        if name not in held:
            return recorder.wrappers.part(face, name)
        inner, place = held[name]
        known = inputs.known.get(id(inner))
        with torch._C.DisableTorchFunction():
            fake = getattr(recorder.wrappers.behind[id(face)], name)
        if known is not None and known.opened is fake:  # it came in with the wrapper
            return fake
        if known is not None:
            return inputs.load(inner, place)
        return inputs.add_tensor(inner, place)  # guarded since the wrapper came in

    def description(self, fake: Any, name: str) -> Any:
        """What a tensor around others says of itself, which is guarded where that one comes from outside."""
        with torch._C.DisableTorchFunction():
            found = getattr(self.world.recorder.wrappers.behind[id(fake)], name)
        if rule_of_type(type(found)).by_identity:
            return self.world.inputs.load(found, self.world.inputs.root.constant(found, name))
        return found

    def input_attribute(self, fake: Any, at: int, name: str) -> Any:
        if name == "grad":
            if self.world.recorder.builder.in_backward:
                refuse(breaks.EFFECT, "Tensor.grad, read while gradients are computed")
            view = self.view(at)
            if "grad" not in view.values:
                with torch._C.DisableTorchFunction():
                    grad = view.outside.grad
                view.values["grad"] = self.world.guards.found(view.source.child(Access.GRAD), grad)
            return view.values["grad"]
        if name == "_version" and not fake.is_inference():
            return self.version_of_input(fake, at)
        refuse(breaks.TENSOR_STATE, f"Tensor.{name} of an input")

    def version_of_input(self, fake: Any, at: int) -> Any:
        """How often a tensor was written to: what it was when it came in, and the writes of the trace."""
        view, recorder = self.view(at), self.world.recorder
        if recorder.modes.may_ask or overrides(type(view.outside)):  # who would see that guards read it
            refuse(breaks.TENSOR_STATE, "Tensor._version where a mode or a class is asked for it")
        with torch._C.DisableTorchFunction():
            written, before = fake._version, view.outside._version
        came_in = self.world.guards.found(view.source.child(Access.NATIVE_ATTR, "_version"), before)
        return opened(came_in) + written if written else came_in

    def version(self, fake: Any) -> int:
        """Of a tensor that the trace has made; what lies in the memory of an input may share its versions."""
        with torch._C.DisableTorchFunction():
            if fake.is_inference() or self.world.recorder.inputs.have_memory_of(fake):
                refuse(breaks.TENSOR_STATE, "Tensor._version of a view of an input, or an inference tensor")
            return int(fake._version)

    def store(self, fake: Any, name: str, value: Any) -> None:
        found = self.world.classes.attribute(torch.Tensor, name)
        recorder = self.world.recorder
        if found is GETTERS.get(name, MISSING) is not MISSING and self.is_asked_for(fake):
            native(found.__set__, fake, opened(value))
            return
        if id(fake) in recorder.wrappers.behind and found is MISSING:
            refuse(breaks.TENSOR_STATE, f"attribute {name!r} set on a tensor that wraps others")
        if name == "requires_grad" and type(opened(value)) is bool:
            recorder.call(torch.Tensor.requires_grad_, (fake, opened(value)), {})
            return
        classes = self.world.classes
        if name == "data":
            if opened(value) is fake:
                return  # it lies there already
            value = recorder.reassignments.assign(fake, opened(value), "Tensor.data = ...", set_data)
            if id(fake) not in recorder.inputs.index_of:
                return
        elif name in ("real", "imag") and type(opened(value)) is FakeTensor:
            recorder.call(Tensor.copy_, (self.attribute(fake, name), opened(value)), {})
            return
        elif name == "grad":
            self.check_grad(fake, opened(value))
        elif found is not MISSING:
            refuse(breaks.EFFECT, f"assignment to Tensor.{name}")
        elif classes.describes(type(classes.attribute(recorder.subclasses.class_of(fake), name)), "__set__"):
            refuse(breaks.TENSOR_STATE, f"attribute {name!r} set on a tensor")
        at = recorder.inputs.index_of.get(id(fake))
        if at is None:
            recorder.subclasses.set_attribute(fake, name, value)
        else:
            self.view(at).write(name, value)

    @acts_for_program
    def delete(self, fake: Any, name: str) -> None:
        """Of an attribute that the program has set."""
        recorder, classes = self.world.recorder, self.world.classes
        cls = recorder.subclasses.class_of(fake)
        found = classes.attribute(cls, name)
        if found is not MISSING and classes.describes(type(found), "__delete__"):
            refuse(breaks.EFFECT, f"deletion of Tensor.{name}")
        if id(fake) in recorder.wrappers.behind:
            refuse(breaks.TENSOR_STATE, f"attribute {name!r} deleted from a tensor that wraps others")
        if self.own(fake, name) is MISSING:
            raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'", name=name, obj=fake)
        at = recorder.inputs.index_of.get(id(fake))
        if at is None:
            recorder.subclasses.delete_attribute(fake, name)
        else:
            self.view(at).write(name, DELETED)

    def set_data(self, fake: Any, other: Any) -> Any:
        """`Tensor.set_`."""
        at = self.world.recorder.inputs.index_of.get(id(fake))
        alias = self.world.recorder.reassignments.assign(fake, other, "Tensor.set_", Tensor.set_)
        if at is not None:
            self.view(at).write("set_", alias)
        return fake

    def check_grad(self, fake: Any, value: Any) -> None:
        """`Tensor.grad` takes what could be a gradient of the tensor; of others torch says why not."""
        if value is None:
            return
        if type(value) is not FakeTensor or value is fake:
            refuse(breaks.EFFECT, "assignment to Tensor.grad")
        alike = ("shape", "dtype", "device", "layout")
        with torch._C.DisableTorchFunction():
            if any(getattr(fake, name) != getattr(value, name) for name in alike):
                refuse(breaks.EFFECT, "assignment to Tensor.grad of something unlike the tensor")

    def is_instance(self, fake: Any, cls: Any) -> bool:
        """`isinstance`, as C does it, of the class that the fake stands for."""
        if issubclass(type(cls), UnionType):
            cls = cls.__args__
        if issubclass(type(cls), tuple):
            return any(self.is_instance(fake, item) for item in cls)
        of = self.world.recorder.subclasses.class_of(fake)
        if of is cls:
            return True  # nobody is asked
        check = self.world.classes.attribute(type(cls), "__instancecheck__")
        if check is INSTANCE_CHECK:
            return type.__subclasscheck__(cls, of)
        if is_checked_by_class(cls):
            return native(issubclass, of, cls)
        if protocols_in(cls):
            return self.follows(fake, of, cls)
        if type(check) is FunctionType:  # which may ask the tensor for attributes
            return self.world.operators.truth(self.world.calls.invoke(check, cls, fake))
        return native(isinstance, fake, cls)

    def follows(self, fake: Any, of: type, protocol: Any) -> bool:
        """What `typing` says of a tensor: its fake has members of its own, which are none of a tensor's."""
        if not getattr(protocol, "_is_runtime_protocol", False):
            return native(isinstance, fake, protocol)  # which raises
        for name in PROTOCOL_ATTRIBUTES(protocol):
            try:
                found = opened(self.world.attributes.load(fake, name))
            except AttributeError:
                return False
            if found is None and callable(getattr(protocol, name, None)):
                return False
        return True

    def index(self, key: Any) -> Any:
        """What a tensor is indexed with; objects of the program say themselves which number they are, unless
        they are sequences, which torch goes over, or integers, of which it takes the value."""
        key = opened(key)
        if type(key) is tuple:
            return tuple(map(self.index, key))
        if type(key) in ABSTRACT:
            return self.world.abstract(key).as_tensor(key)
        abstract = type(key) is FakeTensor or type(key) in SYMBOLIC
        classes, cls = self.world.classes, type(key)
        method = None if abstract else classes.own_method(key, cls, "__index__")
        if method is not None and issubclass(cls, int):
            key = int.__index__(key)
        elif method is not None and classes.attribute(cls, "__getitem__") is MISSING:
            try:
                key = native(operator.index, key)
            except (Break, RecursionError, MemoryError):
                raise
            except Exception:  # torch has an error of its own to raise
                refuse(breaks.GRAPH_ARGUMENT, f"an index that is a {cls.__qualname__}")
        return self.world.materialize.for_torch(key)
