"""Tensor subclasses: those that have a `__torch_function__`, and those that wrap other tensors.

What a `__torch_function__` does instead of torch is traced. In a trace such a tensor is a fake like any
other, and the recorder knows which class it is of. A call that is given one goes to the `__torch_function__`,
with the function that torch would name there; the graph gets what is called in the end, on plain tensors.
What lives on is made one of its class again afterwards.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.parameter
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import _pop_mode, _push_mode, get_default_nowrap_functions
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type

from framelift import _guards
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.nested import NestedTensor, face_layout
from framelift.graph.op_memory import ATOMS, Keys

if TYPE_CHECKING:
    from framelift.graph.builder import GraphBuilder
    from framelift.graph.recorder import Recorder

NO_FUNCTION = torch._C._disabled_torch_function_impl
NO_DISPATCH = torch.Tensor.__torch_dispatch__
UNINITIALIZED: Any = vars(torch.nn.parameter)["UninitializedTensorMixin"]
DEFAULT_TORCH_FUNCTION = vars(torch.Tensor)["__torch_function__"].__func__


def is_known_kind(cls: type) -> bool:
    """Whether tensors of the class are plain ones with methods of their own. What a lazy module has before
    its first input has no shape, and becomes another in place."""
    if issubclass(cls, UNINITIALIZED):
        return False
    return cls in PLAIN_CLASSES or getattr(cls, "__torch_dispatch__", None) is NO_DISPATCH


REFLECTED: dict[Any, Any] = {operator.lt: operator.gt, operator.le: operator.ge}
REFLECTED |= {swapped: fn for fn, swapped in REFLECTED.items()}
REFLECTED |= {operator.eq: operator.eq, operator.ne: operator.ne}
"""Comparison -> what it is of the operands the other way round."""


def overrides(cls: Any) -> bool:
    """Whether torch asks the class what its functions do. What it asks its own class of jagged tensors is
    torch's business: a graph holds the call itself."""
    return cls not in PLAIN_CLASSES and cls.__torch_function__ is not NO_FUNCTION and cls is not NestedTensor


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def as_one_of(tensor: torch.Tensor, cls: Any, attributes: dict[str, Any]) -> torch.Tensor:
    """What a graph has computed, as the program knows it."""
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
    with torch._C.DisableTorchFunction():
        if cls is torch.Tensor:
            made = tensor
        elif tensor.is_leaf:  # so is what the program has made
            made = tensor.detach().as_subclass(cls).requires_grad_(tensor.requires_grad)
        else:
            made = tensor.as_subclass(cls)
    made.__dict__.update(attributes)
    return made


class Subclasses:
    """The classes of a trace's tensors, and what the program has set on tensors that the trace has made."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.classes: dict[int, type] = {}
        """id of a fake -> its class, where that is known."""
        self.are_programs = False
        """Whether one of these may be of the program's."""
        self.overriding: dict[int, type] = {}
        """id of a fake -> its class, if that has a `__torch_function__`."""
        self.others: set[type] = set()
        """Classes of objects that are no tensors, and have a `__torch_function__`."""
        self.attributes: dict[int, dict[str, Any]] = {}
        """id of a fake that the trace has made -> attributes that the program has set on it."""
        self.disabled = 0
        """How many contexts are open in which the classes are not asked (`DisableTorchFunctionSubclass`)."""
        self.ask: Callable[..., Any] = lambda owner, *args: NotImplemented
        """Calls the `__torch_function__` of a tensor's class, or of an object, as the program would."""

    # ---- classes and attributes

    def class_of(self, fake: FakeTensor) -> type:
        found = self.classes.get(id(fake))
        if found is None:
            return torch.nn.Parameter if getattr(fake, "_is_param", False) else torch.Tensor
        return found

    def asks_right_first(self, operands: Any) -> bool:
        """Whether Python asks the right one of two tensors to compare itself: it is of a subclass."""
        left, right = operands
        if not type(left) is type(right) is FakeTensor:
            return False
        known, other = self.class_of(left), self.class_of(right)
        return other is not known and issubclass(other, known)

    def set_class(self, fake: FakeTensor, cls: type) -> FakeTensor:
        self.classes[id(fake)] = cls
        self.are_programs |= cls not in PLAIN_CLASSES
        if overrides(cls):
            self.overriding[id(fake)] = cls
        else:
            self.overriding.pop(id(fake), None)
        return fake

    def attributes_of(self, fake: FakeTensor) -> dict[str, Any]:
        """What the program has set on a tensor that the trace has made."""
        return self.attributes.get(id(fake), {})

    def set_attribute(self, fake: FakeTensor, name: str, value: Any) -> None:
        self.attributes.setdefault(id(fake), {})[name] = value

    def delete_attribute(self, fake: FakeTensor, name: str) -> None:
        del self.attributes[id(fake)][name]

    # ---- calls that a class answers

    @property
    def are_there(self) -> bool:
        """Whether anything that has a `__torch_function__` was met."""
        return bool(self.overriding or self.others)

    def overloaded(self, args: Any, kwargs: Any) -> dict[type, Any]:
        """The classes that are asked, in torch's order: subclasses before what they derive from. Each with
        whose `__torch_function__` it is: the class of a tensor, or the first object of any other class."""
        found: list[type] = []
        owners: dict[type, Any] = {}
        if self.disabled:
            return owners
        pending = [*args, *kwargs.values()]
        while pending:
            value = pending.pop(0)
            if isinstance(value, (tuple, list)):
                pending[:0] = value
            own = type(value)
            if own is FakeTensor:
                cls = owner = self.overriding.get(id(value))
            else:
                cls, owner = (own, value) if own in self.others else (None, None)
            if cls is not None and cls not in found:
                owners[cls] = owner
                at = next((n for n, other in enumerate(found) if issubclass(cls, other)), len(found))
                found.insert(at, cls)
        return {cls: owners[cls] for cls in found}

    @acts_for_program
    def call(self, classes: dict[type, Any], func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What the classes make of a call. torch has put the recorder's mode aside to call it."""
        _push_mode(self.recorder)
        try:
            for owner in classes.values():
                result = self.ask(owner, func, tuple(classes), args, kwargs)
                if result is not NotImplemented:
                    return result
        finally:
            _pop_mode()
        raise TypeError(f"no implementation found for '{func}' on types that implement __torch_function__")

    def read(self) -> None:
        """Around the call they may be disabled already, which is guarded."""
        self.disabled = int(not torch._C._is_torch_function_enabled())

    def disable(self) -> None:
        """The program enters `DisableTorchFunctionSubclass`."""
        self.disabled += 1

    def enable(self) -> None:
        """The program leaves it again."""
        self.disabled -= 1

    @contextlib.contextmanager
    def not_asked(self) -> Iterator[None]:
        self.disable()
        try:
            yield
        finally:
            self.enable()

    def default_torch_function(
        self,
        cls: Any,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
        perform: Callable[..., Any] | None = None,
    ) -> Any:
        """What `torch.Tensor.__torch_function__` does. `perform`: how the function is called, if otherwise
        than by recording it."""
        if not all(issubclass(cls, other) for other in types):
            return NotImplemented
        with self.not_asked():
            result = (perform or self.recorder.call)(func, tuple(args), kwargs or {})
        return result if func in get_default_nowrap_functions() else self.converted(result, cls)

    def converted(self, result: Any, cls: Any) -> Any:
        if type(result) is FakeTensor and not issubclass(self.class_of(result), cls):
            self.refuse_other_class(result, cls)
            is_input = id(result) in self.recorder.inputs.index_of
            return self.as_subclass(result, cls) if is_input else self.set_class(result, cls)
        if isinstance(result, (tuple, list)):
            return type(result)([self.converted(part, cls) for part in result])
        return result

    def refuse_other_class(self, fake: FakeTensor, cls: type) -> None:
        """A tensor that wraps others has a class of its own for good: torch raises."""
        own = self.class_of(fake)
        if is_wrapper_class(own) and not issubclass(own, cls):
            raise Break(breaks.TENSOR_KIND, f"a {own.__qualname__} that is to be a {cls.__qualname__}")

    def as_subclass(self, fake: FakeTensor, cls: type) -> FakeTensor:
        """`Tensor.as_subclass`."""
        self.refuse_other_class(fake, cls)
        with self.not_asked():
            made = self.recorder.record_call(torch.Tensor.view_as, (fake, fake), {})
        return self.set_class(made, cls)


is_wrapper_class = is_traceable_wrapper_subclass_type

MAKERS: set[Any] = set()
"""Functions that make tensors around others of plain ones."""


class Wrappers:
    """The tensors of a trace that wrap others and say how (`__tensor_flatten__`), as AOTAutograd takes them.

    Each has a *face*: a fake with its metadata, which everything else in the trace uses. Behind the face is
    the wrapper: a real instance of the class around fakes, on which operators are run. What the class does in
    its `__torch_dispatch__` is up to the backend, which traces through it.
    """

    def __init__(self, builder: GraphBuilder, keys: Keys, subclasses: Subclasses) -> None:
        self.builder = builder
        self.keys = keys
        self.subclasses = subclasses
        self.behind: dict[int, Any] = {}
        """id of a face -> the wrapper."""
        self.faces: dict[int, FakeTensor] = {}
        """id of a wrapper -> its face."""
        self.lengths: list[FakeTensor] = []
        """Inputs that nested tensors have their lengths of."""
        self.values: dict[int, int] = {}
        """id of the values of a nested tensor that comes in -> id of its face."""
        self.asked_for_sizes: set[int] = set()
        """ids of tensors that wrappers hold and that are inputs for their sizes only: the program has not
        looked at them, and gets those of the wrapper."""
        self.asked: set[int] = set()
        """Those of them that the program has."""

    def face_of(self, wrapper: Any) -> FakeTensor:
        found = self.faces.get(id(wrapper))
        if found is None:
            nested = type(wrapper) is NestedTensor
            sizes, strides = face_layout(wrapper) if nested else (tuple(wrapper.shape), wrapper.stride())
            meta = _guards.empty_meta(sizes, strides, wrapper.dtype)
            found = self.builder.fakes.wrap(meta, wrapper.device, wrapper.requires_grad and wrapper.is_leaf)
            if not wrapper.is_leaf:
                _guards.fake_history(found)
            self.faces[id(wrapper)] = found
            self.behind[id(found)] = wrapper
            self.keys.exclude(found)  # what is done to it can't be remembered by its metadata
            self.subclasses.set_class(found, type(wrapper))
            if nested:
                size = wrapper._size[wrapper._ragged_idx].node.expr
                self.builder.symbolise().nested_sizes.setdefault(size, (found, wrapper._ragged_idx))
        return found

    def nested(self, face: FakeTensor) -> Any:
        """What is behind the face of a nested tensor: it says itself which sizes it has. None for others."""
        found = self.behind.get(id(face))
        return found if type(found) is NestedTensor else None

    def with_wrappers(self, value: Any) -> Any:
        """Arguments of an operator, as it is run."""
        return pytree.tree_map_only(FakeTensor, lambda fake: self.behind.get(id(fake), fake), value)

    def with_faces(self, value: Any) -> Any:
        """What it gave, as the trace knows it."""
        return pytree.tree_map_only(is_traceable_wrapper_subclass, self.face_of, value)

    def ask_for(self, part: FakeTensor, changed: dict[int, FakeTensor]) -> None:
        """The program has the values of a nested tensor that comes in, which are another input then. A
        compiler does not know that these are one memory: nobody may write to it."""
        if id(part) in self.values:
            self.asked.add(id(part))
            self.refuse_shared(changed)

    def refuse_shared(self, changed: dict[int, FakeTensor]) -> None:
        for part in self.asked:
            if part in changed or self.values[part] in changed:
                raise Break(breaks.TENSOR_MEMORY, "a nested tensor and its `_values`, one of them changed")

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
        if builder.node_of(found) is None or id(found) in self.asked_for_sizes:
            self.asked_for_sizes.discard(id(found))
            node = builder.body.add_node("call_function", getattr, (builder.node_of(face), name))
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
