"""Small programs, and what may change between two calls of them: see `catalogue.Program`."""

from mutation_programs import (
    arguments,
    classes,
    containers,
    instances,
    modules,
    names,
    protocols,
    state,
    tensors,
)
from mutation_programs.catalogue import Program
from mutation_programs.known import KNOWN

__all__ = ["KNOWN", "PROGRAMS", "Program"]

PROGRAMS = [
    *arguments.PROGRAMS,
    *containers.PROGRAMS,
    *instances.PROGRAMS,
    *classes.PROGRAMS,
    *names.PROGRAMS,
    *protocols.PROGRAMS,
    *modules.PROGRAMS,
    *tensors.PROGRAMS,
    *state.PROGRAMS,
]
