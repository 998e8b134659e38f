"""The errors that Framelift raises."""

from framelift.core.errors import (
    BackendCompilerFailed,
    FrameliftError,
    IncorrectUsage,
    InvalidBackend,
    Unsupported,
    UserError,
)

__all__ = [
    "BackendCompilerFailed",
    "FrameliftError",
    "IncorrectUsage",
    "InvalidBackend",
    "Unsupported",
    "UserError",
]
