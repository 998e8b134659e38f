"""`__torch_function__` of tensor classes and torch function modes: interpreted as the program's code is."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from torch.utils._device import DeviceContext

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.trace.part import Part


class Overrides(Part):
    """Calls the handlers that torch would call."""

    def ask_class(self, owner: Any, func: Any, classes: tuple[type, ...], args: Any, kwargs: Any) -> Any:
        """Calls the `__torch_function__` of a tensor's class, or of an object."""
        handler = self.world.attributes.load(owner, "__torch_function__")
        return self.world.materialize.for_torch(self.world.calls.invoke(handler, func, classes, args, kwargs))

    def meet_mode(self, number: int, mode: Any) -> None:
        """A torch function mode from before the call: what it does is traced, what it reads is guarded."""
        if type(mode) is not DeviceContext:  # of which all is known
            self.check_mode(self.world.inputs.load(mode, self.world.inputs.root.mode(number)))

    def check_mode(self, mode: Any) -> Any:
        handler = self.world.attributes.load(mode, "__torch_function__")
        fn = handler.__func__ if type(handler) is MethodType else None
        if type(fn) is not FunctionType or not self.world.calls.interprets(fn):
            refuse(breaks.TORCH_STATE, f"the torch function mode {type(mode).__qualname__}")
        return handler

    def ask_mode(self, mode: Any, func: Any, args: Any, kwargs: Any, names_class: bool) -> Any:
        """Calls the `__torch_function__` of a mode. `names_class`: whether torch tells it the class of the
        first tensor, as it does for attributes and methods without arguments, though nobody asks that."""
        handler = self.check_mode(mode)
        subclasses = self.world.recorder.subclasses
        classes = tuple(subclasses.overloaded(args, kwargs or {}))
        if names_class and not classes:
            classes = (subclasses.class_of(args[0]),)
        given = (func, classes, args) if kwargs is None else (func, classes, args, kwargs)
        return self.world.materialize.for_torch(self.world.calls.invoke(handler, *given))

    def refuse(self, what: str, *asked: Any) -> None:
        """What a trace does itself can't be done by the class of a tensor, or by a mode, which torch asks."""
        recorder = self.world.recorder
        if recorder.modes.asks_program or recorder.subclasses.overloaded(asked, {}):
            refuse(breaks.TORCH_STATE, f"{what}, about which a __torch_function__ is asked")
