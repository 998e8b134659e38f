"""Results of graphs that are views of inputs, or of other results, made again when the graph has run.

What Inductor's code gives for such a result has the right memory, but no tensor knows of it: autograd has to
see a view of the other tensor. AOTAutograd makes it when the graph has run, by the steps that led to it; so
is it done here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from framelift.dispatch.inductor_parts import InductorParts
from framelift.dispatch.object_names import NotPortableError, is_plain

Step = tuple[str, tuple[Any, ...]]
"""The name of a step, and what torch needs to know of it; a mode is a tuple of its number."""


class View(NamedTuple):
    """A result that is a view."""

    result: int
    base: int
    """Which input or result it is a view of."""
    is_of_input: bool
    requires_grad: bool
    steps: tuple[Step, ...] | None
    """What leads from the base to it. None: its sizes and strides do."""
    is_input: bool = False
    """Whether it is that input itself."""


class Hidden:
    """A result that is not for autograd to see: it is made again outside."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def shown(value: Any) -> Any:
    return value.tensor if type(value) is Hidden else value


Maker = Callable[[Any, Any], Any]
"""Makes a view of a base, like what the graph gives for it."""


def makers(views: tuple[View, ...]) -> list[tuple[View, Maker]]:
    return [(view, maker(view)) for view in views]


def with_views(
    made: list[tuple[View, Maker]], inputs: tuple[Any, ...], found: list[Any], outputs: int
) -> list[Any]:
    """The results, with views in their places. `found`: what the graph gives, bases behind these."""
    results = found[:outputs]
    for view, make in made:
        base = inputs[view.base] if view.is_of_input else shown(found[view.base])
        results[view.result] = base if view.is_input else make(base, shown(found[view.result]))
    return results


def maker(view: View) -> Maker:
    steps = None if view.steps is None else [loaded_step(*step) for step in view.steps]

    def make(base: Any, like: Any) -> Any:
        if steps is None:
            result = base.as_strided(like.size(), like.stride(), like.storage_offset())
        else:
            result = torch._C._functionalization.apply_view_meta_sequence(base, steps)
        if base.requires_grad and not view.requires_grad:
            return result.detach()
        if view.requires_grad and not base.requires_grad:
            result.requires_grad_(True)
        return result

    return make


def loaded_step(name: str, values: tuple[Any, ...]) -> Any:
    kinds: Any = torch._C._functionalization
    mode = kinds.InverseReturnMode
    return getattr(kinds, name)(tuple(mode(*each) if type(each) is tuple else each for each in values))


# ---- taking apart


def views_of(parts: InductorParts) -> tuple[View, ...]:
    """Raises NotPortableError if one of them can't be made again."""
    found, known = [], parts.metadata
    for n, info in enumerate(known.output_info):
        kind = info.output_type.name
        if kind in NO_VIEWS:
            continue
        if kind not in OF_RESULTS and kind not in OF_INPUTS:
            raise NotPortableError(f"a result is of a kind that is not known: {kind}")
        base = info.base_idx + (known.num_outputs if kind in OF_BASES else 0)
        types = parts.input_types if kind in OF_INPUTS else parts.result_types
        steps = None
        if kind != IS_INPUT and not is_of_layout(info.view_meta_sequence, types[base], parts.result_types[n]):
            steps = plain_steps(info.view_meta_sequence)
        found.append(View(n, base, kind in OF_INPUTS, info.requires_grad, steps, kind == IS_INPUT))
    return tuple(found)


def is_of_layout(known: Any, base: torch.dtype | None, result: torch.dtype | None) -> bool:
    """Whether a view is not known by its steps, since sizes vary, and differs in sizes and strides alone."""
    if known is not None and not any(step.has_symbolic_inputs for step in known.sequence):
        return False
    if base is None or base != result or base.is_complex:
        raise NotPortableError("a result is a view of another type, with sizes that vary")
    return True


IS_INPUT = "is_input"
NO_VIEWS = frozenset({"non_alias", "unsafe_view_alias", "custom_function_view"})
OF_INPUTS = frozenset({"alias_of_input", IS_INPUT})
OF_BASES = frozenset({"alias_of_intermediate", "alias_of_intermediate_save_as_output"})
OF_RESULTS = OF_BASES | {"alias_of_intermediate_base_is_user_output"}
"""AOTAutograd's names of kinds of results."""


def plain_steps(known: Any) -> tuple[Step, ...]:
    return tuple((type(step).__name__, plain_step(step)) for step in known.sequence)


def plain_step(step: Any) -> tuple[Any, ...]:
    if not hasattr(step, "as_tuple"):
        raise NotPortableError("this torch does not tell what views are made of")
    mode = torch._C._functionalization.InverseReturnMode  # type: ignore[attr-defined]
    values = tuple((int(each),) if isinstance(each, mode) else each for each in step.as_tuple())
    if not all(type(each) in (tuple, torch.dtype) or is_plain(each) for each in values):
        raise NotPortableError(f"a result is a view by {type(step).__name__}")
    return values
