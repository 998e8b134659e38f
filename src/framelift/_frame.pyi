"""The frame-evaluation hook (PEP 523), in C: see native/frame.c for what each mode means."""

from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any, Final, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Modes of a thread.
OFF: Final = 0
RUN: Final = 1
INTERCEPT: Final = 2

# Decisions about a code object, in mode RUN and in mode INTERCEPT.
UNDECIDED: Final = 0
SKIP: Final = 1
SKIP_ALL: Final = 2
LOOK: Final = 3

LEAF: Final = 1
THROUGH: Final = 2
INTERPRET: Final = 3
REFUSE: Final = 4

# Called with function, bound arguments, and the namespace of a class body or exec() (else None).
Interceptor = Callable[[FunctionType, list[Any], Mapping[str, Any] | None], object]
# Returns (run decision, intercept decision).
Decide = Callable[[FunctionType, CodeType], tuple[int, int]]
# Returns what to call in the frame's place; None: let it run; False: that, and look at nothing below it.
Missed = Callable[
    [FunctionType, list[Any]], tuple[Callable[..., object], tuple[Any, ...]] | Literal[False] | None
]

def call(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
def call_in(context: object, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
def native(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
def untouched(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
def bind(func: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any] | None, /) -> list[Any]: ...
def set_interceptor(interceptor: Interceptor | None, /) -> Interceptor | None: ...
def set_callbacks(decide: Decide | None, missed: Missed | None, /) -> None: ...
def set_dispatch(capsule: object | None, /) -> None: ...
def get_cache(code: CodeType, context: object | None = None, /) -> Any: ...
def set_cache(code: CodeType, cache: object | None, context: object | None = None, /) -> None: ...
def get_decision(code: CodeType, /) -> tuple[int, int]: ...
def set_decision(code: CodeType, run: int, intercept: int, /) -> None: ...
def clear(code: CodeType, /) -> None: ...
def mode() -> int: ...
def context() -> Any: ...
def active() -> int: ...
def installed() -> bool: ...
def swap_handled(exception: BaseException | None, /) -> BaseException | None: ...

class Stop:
    """What a region returns that ends in the middle of its frame: `step(*args)` does what comes next, and
    `then` of what that gave (None without a step) is the function that goes on, and its arguments."""

    def __new__(
        cls,
        step: Callable[..., object] | None,
        args: tuple[Any, ...],
        then: Callable[[Any], tuple[FunctionType, tuple[Any, ...]]],
        /,
    ) -> Stop: ...
