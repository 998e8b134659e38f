"""The errors that Framelift raises."""

from framelift.core.errors import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    FrameliftError,
    IncorrectUsage,
    InvalidBackend,
    RecompileError,
    RecompileLimitExceeded,
    Unsupported,
    UserError,
)

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "FrameliftError",
    "IncorrectUsage",
    "InvalidBackend",
    "RecompileError",
    "RecompileLimitExceeded",
    "Unsupported",
    "UserError",
]
