"""Why something is compiled again: each kind of cause has a stable name, an explanation and a hint.

The counterpart of `breaks`: a guard that fails is of one of these kinds, and a kind that keeps coming
back is told together with what can be done about it. `{subject}` in a hint is what the guard is about.
"""

from __future__ import annotations

from dataclasses import dataclass

from framelift.core.breaks import Explained, Registry

Cause = Explained
CAUSES = Registry()
cause = CAUSES.add

SIZE = cause(
    "tensor size",
    "A size that keeps changing was compiled in as a constant.",
    "Compile with dynamic=True, or mark the dimension with framelift.mark_dynamic.",
)
STRIDE = cause(
    "tensor layout",
    "The strides, offset or layout of a tensor were compiled in.",
    "Pass `{subject}.contiguous()`, or tensors that are laid out in one way.",
)
TENSOR = cause(
    "tensor properties",
    "The dtype, device, number of dimensions or requires_grad of a tensor is what the graph was made for.",
    "Convert `{subject}` before the call, or compile one function for each kind.",
)
INT = cause(
    "integer",
    "An int that keeps changing was compiled in as a constant.",
    "Compile with dynamic=True, or pass `{subject}` as a tensor.",
)
FLOAT = cause(
    "float",
    "A float that keeps changing was compiled in as a constant.",
    "Make it a tensor: pass torch.tensor(value) as `{subject}`.",
)
FLAG = cause(
    "flag",
    "A bool, a string or another constant decides what is done: one entry for each is as it should be.",
    "Raise recompile_limit to the number of values that `{subject}` takes, or compile one function for each.",
)
IDENTITY = cause(
    "identity of an object",
    "The function relied on this very object, and it is another one each time.",
    "Make `{subject}` once, outside of what is called again and again, and pass that one.",
)
TYPE = cause(
    "type",
    "A value is of another type than before: one entry for each is as it should be.",
    "Pass `{subject}` always as the same type, or raise recompile_limit.",
)
LENGTH = cause(
    "length of a container",
    "The function looked into a container whose length keeps changing.",
    "Preallocate `{subject}`, or keep it in a tensor; a list that is only appended to is not looked into.",
)
KEYS = cause(
    "contents of a container",
    "The function looked at all keys or elements of a container, and those keep changing.",
    "Read only the keys of `{subject}` that are needed, or keep them the same.",
)
PRESENCE = cause(
    "presence of a name",
    "An attribute, key, item or variable came or went.",
    "Set `{subject}` to None in the beginning, instead of adding or removing it.",
)
CODE = cause(
    "changed function or class",
    "A function's code or a class attribute was replaced after it had been captured.",
    "Change functions and classes before the first call.",
)
ALIASING = cause(
    "which objects are the same",
    "Two values were the same object (or shared memory) when the function was captured, or were not.",
    "Pass distinct objects, or always the same ones; clone a tensor that overlaps another one.",
)
STATE = cause(
    "torch's global state",
    "The graph depends on a switch of torch's, which was thrown.",
    "Keep `{subject}` the same for all calls; where both are needed, one entry for each is as it should be.",
)

OFTEN = 3
"""From how many recompilations of one kind on something is suggested."""


@dataclass(frozen=True)
class Suggestion:
    """What is said of a kind of cause that keeps coming back."""

    cause: Cause
    times: int
    subject: str

    def lines(self) -> list[str]:
        return [
            f"Why so often ({self.cause.name}, {self.times} times): {self.cause.explanation}",
            f"What to do: {self.cause.hint}".format(subject=self.subject),
        ]


def suggestion(causes: list[tuple[Cause, str]], of: Cause | None = None) -> Suggestion | None:
    """About one kind, or the one that is there most often (of two, the later): causes come with their
    subjects, the latest last."""
    kinds = [kind for kind, _ in causes]
    often = of or max(reversed(kinds), key=kinds.count, default=None)
    if often is None or kinds.count(often) < OFTEN:
        return None
    subject = [subject for kind, subject in causes if kind is often][-1]
    return Suggestion(often, kinds.count(often), subject)
