"""The errors that Framelift raises."""

from framelift.core.errors import (
    BackendCompilerFailed,
    ConstraintViolated,
    FrameliftError,
    IncorrectUsage,
    InvalidBackend,
    Unsupported,
    UserError,
)

__all__ = [
    "BackendCompilerFailed",
    "ConstraintViolated",
    "FrameliftError",
    "IncorrectUsage",
    "InvalidBackend",
    "Unsupported",
    "UserError",
]
