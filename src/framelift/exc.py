"""The errors that Framelift raises."""

from framelift.core.errors import (
    BackendCompilerFailed,
    ConstraintViolationError,
    FailOnRecompileLimitHit,
    FrameliftError,
    IncorrectUsage,
    InvalidBackend,
    RankFailed,
    RanksDisagree,
    RecompileError,
    RecompileLimitExceeded,
    TorchRuntimeError,
    UncapturedHigherOrderOpError,
    Unsupported,
    UserError,
    WrongResult,
)

__all__ = [
    "BackendCompilerFailed",
    "ConstraintViolationError",
    "FailOnRecompileLimitHit",
    "FrameliftError",
    "IncorrectUsage",
    "InvalidBackend",
    "RankFailed",
    "RanksDisagree",
    "RecompileError",
    "RecompileLimitExceeded",
    "TorchRuntimeError",
    "UncapturedHigherOrderOpError",
    "Unsupported",
    "UserError",
    "WrongResult",
]
