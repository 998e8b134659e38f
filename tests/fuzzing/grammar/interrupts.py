"""Calls that are interrupted at some moment, then programs as usual."""

from __future__ import annotations

import dataclasses

from .language import LANGUAGE
from .modules import MODULES

MOMENTS = [n * n * 7 + 3 * n + 1 for n in range(60)]
"""After how many calls of functions, of Python's and of C's, the interrupt comes."""

UNSAFE = ("swallow", "error", "raise", "try", "through", "group", "generator", "loop left early")
"""Statements that might handle an interrupt, or leave something open after it."""

INTERRUPTS = dataclasses.replace(
    LANGUAGE,
    name="interrupts",
    size=(2, 5),
    helpers=1,
    statements=[entry for entry in LANGUAGE.statements if not any(word in entry.name for word in UNSAFE)],
    options=[{"interrupt": moment} for moment in MOMENTS],
)

INTERRUPTED_MODULES = dataclasses.replace(
    MODULES,
    name="interrupted modules",
    edits=[],
    background=INTERRUPTS.statements,
    options=[
        {"interrupt": moment, "backend": backend} for moment in MOMENTS for backend in ("eager", "aot_eager")
    ],
)
