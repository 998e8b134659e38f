"""Errors that users see; importable from `framelift.exc`."""

from __future__ import annotations


class FrameliftError(RuntimeError):
    """What all of Framelift's own errors are."""


class Unsupported(FrameliftError):
    """`fullgraph=True`, and something can't be captured."""


class TorchRuntimeError(Unsupported):
    """`fullgraph=True`, and an operator failed on the tensors without data that stand for the program's."""


class UncapturedHigherOrderOpError(Unsupported):
    """`fullgraph=True`, and an operator such as `torch.cond` can't be given these functions."""


class BackendCompilerFailed(FrameliftError):
    """The backend raised while it compiled a graph; the cause is its exception."""

    def __init__(self, backend: str, cause: BaseException) -> None:
        super().__init__(f"the backend {backend!r} raised {type(cause).__name__}: {cause}")
        self.backend = backend


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


class RanksDisagree(FrameliftError):
    """Ranks of a distributed program would compile different things, and were not told to agree."""


class RankFailed(FrameliftError):
    """Another rank could not compile what this one has compiled, or did not come to it in time."""


class RecompileError(FrameliftError):
    """Something would have to be compiled (again), and that was forbidden."""


class RecompileLimitExceeded(RecompileError):
    """`fullgraph=True`, and a function has been compiled as often as it may be."""


class FailOnRecompileLimitHit(RecompileLimitExceeded):
    """The same, with `config.fail_on_recompile_limit_hit`."""
