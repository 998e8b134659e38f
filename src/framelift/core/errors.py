"""Errors that users see; importable from `framelift.exc`.

They have the names of torch's errors for the same occasions. While Framelift is installed in torch's place
(`framelift.install`), what is raised is also an instance of torch's class of that name, so that whoever
catches that one catches ours: `also_raised_as` says which class stands for which.
"""

from __future__ import annotations

from typing import Any


class FrameliftError(RuntimeError):
    """What all of Framelift's own errors are."""

    def __new__(cls, *args: Any, **kwargs: Any) -> FrameliftError:
        made: FrameliftError = super().__new__(also_raised_as.get(cls, cls), *args)
        return made

    def __init__(self, *args: Any) -> None:
        RuntimeError.__init__(self, *args)  # and no `__init__` of torch's, which takes other arguments

    @property
    def msg(self) -> str:
        """The message, by the name that it has in torch."""
        return str(self)


also_raised_as: dict[type[FrameliftError], type[FrameliftError]] = {}
"""Class -> the one that is raised in its place, which derives from it and from torch's of that name."""


def raised_as_both(ours: Any, torchs: Any) -> Any:
    """A class that derives from both, and is pickled as ours."""
    names = {"__module__": ours.__module__, "__qualname__": ours.__qualname__, "__doc__": ours.__doc__}

    def reduce(self: Any) -> Any:
        made = ours.__reduce__(self)
        return (ours, *made[1:])

    return type(ours.__name__, (ours, torchs), {**names, "__reduce__": reduce, "real_stack": None})


class Unsupported(FrameliftError):
    """`fullgraph=True`, and something can't be captured."""


class InternalTorchDynamoError(Unsupported):
    """`fullgraph=True`, and Framelift has made a mistake; the program is not at fault."""


class TorchRuntimeError(Unsupported):
    """`fullgraph=True`, and an operator failed on the tensors without data that stand for the program's."""


class UncapturedHigherOrderOpError(Unsupported):
    """`fullgraph=True`, and an operator such as `torch.cond` can't be given these functions."""


class BackendCompilerFailed(FrameliftError):
    """The backend raised while it compiled a graph; the cause is its exception."""

    def __init__(self, backend: str, cause: BaseException) -> None:
        super().__init__(f"backend={backend!r} raised:\n{type(cause).__name__}: {cause}")
        self.backend = self.backend_name = backend
        self.inner_exception = cause

    def __reduce__(self) -> Any:
        return type(self), (self.backend, self.inner_exception)


class WrongResult(FrameliftError):
    """What was compiled computes something else than the function (`verify`, `config.verify_correctness`)."""


class InvalidBackend(FrameliftError):
    """No backend has that name."""


class UserError(FrameliftError):
    """Framelift was asked for something that makes no sense."""


class IncorrectUsage(UserError):
    """A marker or option was used in a place it is not meant for."""


class ConstraintViolationError(UserError):
    """A dimension was marked dynamic, and the program does not work for all the sizes that that means."""


class ComptimeError(UserError, InternalTorchDynamoError):
    """A function that was given to `comptime` raised an error."""


class ComptimeAssertionError(ComptimeError, AssertionError):
    """An assertion of `comptime` does not hold: torch's raises an `AssertionError`."""


class RanksDisagree(FrameliftError):
    """Ranks of a distributed program would compile different things, and were not told to agree."""


class RankFailed(FrameliftError):
    """Another rank could not compile what this one has compiled, or did not come to it in time."""


class RecompileError(FrameliftError):
    """Something would have to be compiled (again), and that was forbidden."""


class RecompileLimitExceeded(RecompileError):
    """`fullgraph=True`, and a function has been compiled as often as it may be."""


class FailOnRecompileLimitHit(RecompileLimitExceeded):
    """The same, also with `config.fail_on_recompile_limit_hit`."""


TorchDynamoException = FrameliftError
CondOpArgsMismatchError = UncapturedHigherOrderOpError
