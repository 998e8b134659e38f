"""The grammar of random programs: one module for each area."""

from __future__ import annotations

from .area import Area
from .arrays import ARRAYS
from .classes import CLASSES
from .failures import FAILURES
from .hooks import HOOKS
from .identity import IDENTITY
from .interrupts import INTERRUPTED_MODULES, INTERRUPTS
from .language import LANGUAGE
from .modules import MODULES
from .nested import NESTED, REPEATED
from .numbers import NUMBERS
from .optimizers import OPTIMIZERS, TRAINING
from .structures import STRUCTURES
from .subclasses import SUBCLASSES
from .switches import SWITCHES
from .tensors import TENSORS

AREAS: dict[str, Area] = {
    area.name: area
    for area in (
        *(LANGUAGE, NUMBERS, FAILURES, SWITCHES, MODULES, HOOKS, OPTIMIZERS, TRAINING, SUBCLASSES),
        *(IDENTITY, NESTED, REPEATED, STRUCTURES, ARRAYS, TENSORS),
        *(CLASSES, INTERRUPTS, INTERRUPTED_MODULES),
    )
}
