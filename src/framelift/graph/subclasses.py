"""Tensor subclasses that have a `__torch_function__`: what they do instead of torch is traced.

In a trace such a tensor is a fake like any other, and the recorder knows which class it is of. A call that is
given one goes to the class's `__torch_function__`, with the function that torch would name there; the graph
gets what is called in the end, on plain tensors. What lives on is made one of its class again afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.overrides import _pop_mode, _push_mode, get_default_nowrap_functions

from framelift.core.blame import acts_for_program
from framelift.graph.fakes import PLAIN_CLASSES

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder

NO_FUNCTION = torch._C._disabled_torch_function_impl
NO_DISPATCH = torch.Tensor.__torch_dispatch__
DEFAULT_TORCH_FUNCTION = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


def is_known_kind(cls: type) -> bool:
    """Whether tensors of the class are plain ones with methods of their own. What a lazy module has before
    its first input has no shape, and becomes another in place."""
    if issubclass(cls, UninitializedTensorMixin):
        return False
    return cls in PLAIN_CLASSES or getattr(cls, "__torch_dispatch__", None) is NO_DISPATCH


def overrides(cls: Any) -> bool:
    """Whether torch asks the class what its functions do."""
    return cls not in PLAIN_CLASSES and cls.__torch_function__ is not NO_FUNCTION


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def as_one_of(tensor: torch.Tensor, cls: Any, attributes: dict[str, Any]) -> torch.Tensor:
    """What a graph has computed, as the program knows it."""
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
    with torch._C.DisableTorchFunctionSubclass():
        made = tensor.as_subclass(cls) if cls is not torch.Tensor else tensor
    made.__dict__.update(attributes)
    return made


class Subclasses:
    """The classes of a trace's tensors, and what the program has set on tensors that the trace has made."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.classes: dict[int, type] = {}
        """id of a fake -> its class, where that is known."""
        self.overriding: dict[int, type] = {}
        """id of a fake -> its class, if that has a `__torch_function__`."""
        self.attributes: dict[int, dict[str, Any]] = {}
        """id of a fake that the trace has made -> attributes that the program has set on it."""
        self.disabled = 0
        """How many contexts are open in which the classes are not asked."""
        self.ask: Callable[..., Any] = lambda cls, *args: NotImplemented
        """Calls the `__torch_function__` of a class, as the program would."""

    # ---- classes and attributes

    def class_of(self, fake: FakeTensor) -> type:
        found = self.classes.get(id(fake))
        if found is None:
            return torch.nn.Parameter if getattr(fake, "_is_param", False) else torch.Tensor
        return found

    def set_class(self, fake: FakeTensor, cls: type) -> FakeTensor:
        self.classes[id(fake)] = cls
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

    # ---- calls that a class answers

    def overloaded(self, args: Any, kwargs: Any) -> list[type]:
        """The classes that are asked, in torch's order: subclasses before what they derive from."""
        found: list[type] = []
        if self.disabled:
            return found
        pending = [*args, *kwargs.values()]
        while pending:
            value = pending.pop(0)
            if isinstance(value, (tuple, list)):
                pending[:0] = value
            cls = self.overriding.get(id(value)) if type(value) is FakeTensor else None
            if cls is not None and cls not in found:
                at = next((n for n, other in enumerate(found) if issubclass(cls, other)), len(found))
                found.insert(at, cls)
        return found

    @acts_for_program
    def call(self, classes: list[type], func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What the classes make of a call. torch has put the recorder's mode aside to call it."""
        _push_mode(self.recorder)
        try:
            for cls in classes:
                result = self.ask(cls, func, tuple(classes), args, kwargs)
                if result is not NotImplemented:
                    return result
        finally:
            _pop_mode()
        raise TypeError(f"no implementation found for '{func}' on types that implement __torch_function__")

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
        self, cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What `torch.Tensor.__torch_function__` does."""
        if not all(issubclass(cls, other) for other in types):
            return NotImplemented
        with self.not_asked():
            result = self.recorder.call(func, tuple(args), kwargs or {})
        return result if func in get_default_nowrap_functions() else self.converted(result, cls)

    def converted(self, result: Any, cls: Any) -> Any:
        if type(result) is FakeTensor and not issubclass(self.class_of(result), cls):
            is_input = id(result) in self.recorder.inputs.index_of
            return self.as_subclass(result, cls) if is_input else self.set_class(result, cls)
        if isinstance(result, (tuple, list)):
            parts = [self.converted(part, cls) for part in result]
            return type(result)(parts)
        return result

    def as_subclass(self, fake: FakeTensor, cls: type) -> FakeTensor:
        """`Tensor.as_subclass`."""
        with self.not_asked():
            made = self.recorder.record_call(torch.Tensor.view_as, (fake, fake), {})
        return self.set_class(made, cls)
