"""Torch's global flags that a program can set: what they were, how they are put back, what a trace does.

A flag that the program sets is set while tracing too, and the graph gets a call that sets it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.builder import GraphBuilder
from framelift.graph.functions import describe
from framelift.graph.torch_forms import Call, form_of

c = torch._C

autograd: Any = c._autograd


def disable_saved_tensors_hooks(message: str | None) -> None:
    """Whether hooks on saved tensors are an error, and what it says; None: they are not."""
    if message is None:
        autograd._saved_tensors_hooks_enable()
    else:
        autograd._saved_tensors_hooks_disable(message)


@form_of(disable_saved_tensors_hooks)
def write_disable_saved_tensors_hooks(call: Call) -> list[Any]:
    (message,) = call.args
    if message is None:
        call.add(autograd._saved_tensors_hooks_enable)
    else:
        call.add(autograd._saved_tensors_hooks_disable, (message,))
    return []


@contextlib.contextmanager
def without_saved_tensors_hooks() -> Iterator[None]:
    """Hooks on saved tensors are not called for what a trace, or a compiler, computes."""
    hooks = []
    while (top := autograd._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)


def set_deterministic(mode: bool, warn_only: bool) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


@form_of(set_deterministic)
def write_set_deterministic(call: Call) -> list[Any]:
    mode, warn_only = call.args
    call.add(torch.use_deterministic_algorithms, (mode,), warn_only=warn_only)
    return []


def priority_order() -> tuple[int, ...]:
    return tuple(c._get_sdp_priority_order())


SETTERS: dict[Any, tuple[Callable[[], Any], ...]] = {
    c._set_grad_enabled: (torch.is_grad_enabled,),
    torch.set_default_dtype: (torch.get_default_dtype,),
    torch.set_anomaly_enabled: (torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled),
    set_deterministic: (c._get_deterministic_algorithms, c._get_deterministic_algorithms_warn_only),
    c._set_multithreading_enabled: (c._is_multithreading_enabled,),
    c._set_view_replay_enabled: (c._is_view_replay_enabled,),
    c._set_fwd_grad_enabled: (c._is_fwd_grad_enabled,),
    disable_saved_tensors_hooks: (autograd._saved_tensors_hooks_get_disabled_error_message,),
    c._set_sdp_use_flash: (c._get_flash_sdp_enabled,),
    c._set_sdp_use_mem_efficient: (c._get_mem_efficient_sdp_enabled,),
    c._set_sdp_use_math: (c._get_math_sdp_enabled,),
    c._set_sdp_use_cudnn: (c._get_cudnn_sdp_enabled,),
    c._set_sdp_use_overrideable: (c._get_overrideable_sdp_enabled,),
    c._set_sdp_priority_order: (priority_order,),
}
"""What sets a flag -> what gives the arguments with which it would leave things as they are."""

GETTERS = tuple(itertools.chain.from_iterable(SETTERS.values()))

CASTERS = (torch.is_autocast_enabled, torch.get_autocast_dtype)
CASTING = tuple(functools.partial(get, device) for device in ("cpu", "cuda") for get in CASTERS)


def setting_of(setter: Any) -> tuple[Any, ...]:
    return tuple(get() for get in SETTERS[setter])


IGNORED_FLAGS = frozenset({c._set_multithreading_enabled, c._set_view_replay_enabled})
"""Setters of flags that do not concern what a graph computes."""

OPERATOR_FLAGS = (torch.set_default_dtype, set_deterministic)
"""Setters of flags that operators read as they run. Compilers leave that to the call, so a graph has one
setting of them."""

OF_DEFAULT_DTYPE = frozenset(
    {torch.ones, torch.zeros, torch.empty, torch.rand, torch.randn, torch.eye, torch.linspace, torch.logspace}
)
"""Functions that make a tensor of the default dtype if they are given no other."""

BUILTINS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
RENAMED = {"truediv": "div", "invert": "bitwise_not", "pos": "positive"}
"""Python's names of operators -> those of ATen's."""


@functools.cache
def is_pointwise(func: Any) -> bool:
    """Whether a function of C's computes each element of what lies in the same place, on its own."""
    name = func.__name__.strip("_")
    found = getattr(torch.ops.aten, RENAMED.get(name, name), None)
    overloads = [getattr(found, each, None) for each in ("default", "Tensor", "self")]
    known = [each for each in overloads if each is not None and "Tensor" in str(each._schema)]
    return bool(known) and all([torch.Tag.pointwise in each.tags for each in known])


def is_indifferent(func: Any, setter: Any, args: Any) -> bool:
    """Whether an operator does the same whatever a flag says."""
    if not isinstance(func, BUILTINS) or not is_pointwise(func):
        return False
    if setter is set_deterministic:
        return True
    return all([isinstance(value, torch.Tensor) and value.is_floating_point() for value in args])


Settings = list[tuple[Any, tuple[Any, ...]]]


def set_flags(settings: Settings) -> Settings:
    """Sets flags; gives what undoes it."""
    before = [(setter, setting_of(setter)) for setter, _ in settings]
    for setter, args in settings:
        setter(*args)
    return before[::-1]


flags_lock = _frame.Lock()
"""Held by whoever sets flags that other threads see too, until they are back: traces, and torch's
compilers (AOTAutograd traces in anomaly mode). Who holds it sees the flags as the program has set them."""


def by_setter(values: list[Any]) -> dict[Any, tuple[Any, ...]]:
    found = iter(values)
    return {setter: tuple(itertools.islice(found, len(getters))) for setter, getters in SETTERS.items()}


class TorchState:
    """What the flags were when this was made."""

    def __init__(self) -> None:
        with flags_lock:
            self.values = [get() for get in GETTERS]
        self.casting: list[Any] = [get() for get in CASTING]
        self.cached = torch.is_autocast_cache_enabled()
        self.nesting = autocast_nesting()

    @property
    def settings(self) -> dict[Any, tuple[Any, ...]]:
        return by_setter(self.values)

    def changed(self) -> dict[Any, tuple[Any, ...]]:
        """Flags that have been set since, and how."""
        now = [get() for get in GETTERS]
        if now == self.values:
            return {}
        before = self.settings
        return {setter: args for setter, args in by_setter(now).items() if args != before[setter]}

    def restore(self) -> None:
        with flags_lock, torch._C.DisableTorchFunction():  # modes of the program's don't see it
            for setter in self.changed():
                setter(*self.settings[setter])
        if [get() for get in CASTING] != self.casting:
            for n, device in enumerate(("cpu", "cuda")):
                torch.set_autocast_enabled(device, self.casting[2 * n])
                torch.set_autocast_dtype(device, self.casting[2 * n + 1])
        torch.set_autocast_cache_enabled(self.cached)

    def __enter__(self) -> TorchState:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.restore()
        leave_autocast(self.nesting)


def autocast_nesting() -> int:
    """How often autocast has been entered, which can only be asked by entering it."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def leave_autocast(nesting: int) -> None:
    """What was entered since it had been entered so often is left."""
    for _ in range(autocast_nesting() - nesting):
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()


@contextlib.contextmanager
def plain_engine() -> Iterator[None]:
    """Gradients are computed by autograd's engine itself, even where backward passes are captured."""
    engine = torch._C._dynamo.compiled_autograd  # the engine's own flag (see `api/compiled_autograd.py`)
    before = engine.set_autograd_compiler(None, False)
    try:
        yield
    finally:
        engine.set_autograd_compiler(*before)


def read_operator_flags() -> Settings:
    return [(setter, setting_of(setter)) for setter in OPERATOR_FLAGS]


class TorchFlags:
    """The flags in one trace: the program's, the trace's and the graph's."""

    state: tuple[Any, ...]
    """The flags that the op memory looks at, as captured code has set them last."""
    began: TorchState
    """The flags when the part of the graph begins that has not been replayed for gradients."""
    grad_before: bool
    """Whether gradients were on when the trace began."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.operator_flags_set = False
        """Whether the program has set flags that operators read as they run."""
        self.operator_flags: Settings | None = None
        """Those of the recorded operators, if the program has set any of them."""

    def enter(self) -> None:
        self.grad_before = torch.is_grad_enabled()
        self.read()

    def read(self) -> None:
        """Captured code has set flags."""
        self.state = op_memory.state()

    def set_flag(self, setter: Callable[..., Any], settings: tuple[Any, ...]) -> None:
        """The program sets a flag: so does the trace, and the graph."""
        if setter in OPERATOR_FLAGS and self.builder.calls and self.operator_flags is None:
            self.operator_flags = read_operator_flags()
        with torch._C.DisableTorchFunction():
            setter(*settings)
        if setter in OPERATOR_FLAGS:
            self.read()
            self.operator_flags_set = True
        elif setter not in IGNORED_FLAGS:
            self.add_setter(setter, settings)

    def add_setter(self, target: Callable[..., Any], args: tuple[Any, ...]) -> torch.fx.Node:
        """The graph sets what the trace has set."""
        node = self.builder.add_effect(target, args)
        self.read()
        return node

    def check_operator_flags(self, func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """An operator is recorded: under the same flags as all others that look at them. Gives its keyword
        arguments, with what a flag would say of them."""
        now = read_operator_flags()
        if self.operator_flags is None:
            if not all([is_indifferent(func, setter, args) for setter in OPERATOR_FLAGS]):
                self.operator_flags = now
            return kwargs
        for setter, setting in now:
            if (setter, setting) in self.operator_flags or is_indifferent(func, setter, args):
                continue
            if setter is torch.set_default_dtype and func in OF_DEFAULT_DTYPE and "out" not in kwargs:
                dtype = kwargs.get("dtype")
                kwargs = {**kwargs, "dtype": setting[0] if dtype is None else dtype}
                continue
            raise Break(breaks.EFFECT, f"{describe(func)}, after {setter.__name__} between operators")
        return kwargs

    def settings_to_apply(self) -> Settings:
        """What whoever runs the graph has to set for it."""
        return [found for found in self.operator_flags or () if found[1] != self.began.settings[found[0]]]

    @contextlib.contextmanager
    def grad_mode(self, enabled: bool | None) -> Iterator[None]:
        """Gradients are on or off, and the graph does not say so: the operator around sees to that. With None
        all stays as it is."""
        if enabled is None:
            yield
            return
        before = torch.is_grad_enabled()
        self.set_grad(enabled)
        try:
            yield
        finally:
            self.set_grad(before)

    def set_grad(self, enabled: bool) -> None:
        with torch._C.DisableTorchFunction():
            torch._C._set_grad_enabled(enabled)
        self.read()
