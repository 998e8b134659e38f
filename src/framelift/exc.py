"""The errors that Framelift raises."""

from framelift.core.errors import (
    BackendCompilerFailed,
    ConstraintViolated,
    FailOnRecompileLimitHit,
    FrameliftError,
    IncorrectUsage,
    InvalidBackend,
    RankFailed,
    RanksDisagree,
    RecompileError,
    RecompileLimitExceeded,
    Unsupported,
    UserError,
    WrongResult,
)

__all__ = [
    "BackendCompilerFailed",
    "ConstraintViolated",
    "FailOnRecompileLimitHit",
    "FrameliftError",
    "IncorrectUsage",
    "InvalidBackend",
    "RankFailed",
    "RanksDisagree",
    "RecompileError",
    "RecompileLimitExceeded",
    "Unsupported",
    "UserError",
    "WrongResult",
]
