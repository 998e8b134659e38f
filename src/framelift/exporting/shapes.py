"""Which sizes and numbers of the arguments may vary, from what `dynamic_shapes` says in any of torch's forms;
and what is told when the program can't have them vary so.

The program is captured with a symbol for each dimension that may vary, free of any relation to others. What
it turned out to need is then asked of `torch.export`, which knows what the dimensions were declared to be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Any

import torch
from torch.export import AdditionalInputs, Dim, ShapesCollection
from torch.export import dynamic_shapes as torchs
from torch.fx.experimental import symbolic_shapes
from torch.utils import _pytree as pytree

from framelift.core.errors import ConstraintViolationError, UserError
from framelift.exporting.signatures import Call
from framelift.graph import dimensions
from framelift.guards.sources import Source
from framelift.trace.dynamism import Dynamism

INTEGER = getattr(torchs, "_IntWrapper", None)
"""What torch puts a number into, to say of it that it varies."""


MORE = (
    "\nFor more information",
    " For more information about this error",
    "\nThe error above occurred when calling torch.export",
)
"""Where torch's messages go over to what to read or run next."""


class DeclaredSizesError(ConstraintViolationError, symbolic_shapes.ConstraintViolationError):
    """The program does not work for all the sizes that `dynamic_shapes` declares."""


class FreeDim(dimensions.Dim):
    """A dimension that is a symbol of its own, of which nothing is demanded."""

    def constraint(self) -> Any:
        return None


FREE = FreeDim(demanded=True)


class DeclaredDynamism(Dynamism):
    """Symbols for what was declared to vary, and for nothing else."""

    def __init__(self) -> None:
        super().__init__(False)
        self.of_tensors: dict[int, dict[int, dimensions.Dim]] = {}
        """id of a tensor among the arguments -> its dimensions that vary."""
        self.number_paths: set[str] = set()
        """Where numbers are found that vary, as the sources of a capture are written."""

    def dims(self, source: Source, tensor: torch.Tensor) -> dict[int, dimensions.Dim]:
        return self.of_tensors.get(id(tensor), {})

    def number(self, source: Source, value: int | float, modules: Collection[Source] = ()) -> bool:
        return str(source) in self.number_paths


def declared(call: Call, dynamic_shapes: Any) -> tuple[Any, DeclaredDynamism]:
    """The declaration as a tree that follows the parameters, and what it says of each leaf."""
    found = DeclaredDynamism()
    if dynamic_shapes is None or (isinstance(dynamic_shapes, (dict, tuple, list)) and not dynamic_shapes):
        return None, found
    spec = as_tree(call, dynamic_shapes)
    leaves = [INTEGER(leaf) if type(leaf) is int and INTEGER else leaf for leaf in call.leaves]
    args, kwargs = pytree.tree_unflatten(leaves, call.spec)
    given = call.signature.bind(*args, **kwargs).arguments
    tree: Any = type(spec)(given.values()) if isinstance(spec, (tuple, list)) else given

    def note(path: Any, value: Any, shape: Any) -> None:
        if isinstance(value, torch.Tensor):
            dims = shape if isinstance(shape, dict) else dict(enumerate(shape or ()))
            for dim in dims:
                if type(dim) is not int or not 0 <= dim < value.dim():
                    sizes = tuple(value.shape)
                    raise UserError(f"a tensor of shape {sizes} has no dimension {dim!r} that could vary")
            check_example(call, value, dims)
            varying = {dim: FREE for dim, size in dims.items() if may_vary(size)}
            found.of_tensors.setdefault(id(value), {}).update(varying)
        elif INTEGER is not None and isinstance(value, INTEGER) and may_vary(shape):
            number = next(n for n, leaf in enumerate(leaves) if leaf is value)
            found.number_paths.add(call.sources[number])

    try:
        torchs._check_dynamic_shapes(given, spec)
        torchs._tree_map_with_path(note, tree, spec, tree_name="inputs")
    except DeclaredSizesError:
        raise
    except Exception as error:
        raise UserError(f"{call.name}: {in_short(error)}") from None
    return spec, found


def check_example(call: Call, tensor: torch.Tensor, dims: dict[int, Any]) -> None:
    """Says which size of an example is none that was declared."""
    path = next((at for at, leaf in zip(call.paths, call.leaves, strict=True) if leaf is tensor), "a tensor")
    for dim, declaration in dims.items():
        size = tensor.shape[dim]
        bounds = getattr(declaration, "min", None), getattr(declaration, "max", None)
        low, high = [bound if type(bound) is int else size for bound in bounds]
        if (type(declaration) is int and declaration != size) or not low <= size <= high:
            raise DeclaredSizesError(
                f"{call.name}: {path} has size {size} in dimension {dim}, but dynamic_shapes says "
                f"{declaration}: examples have to be of sizes that are declared"
            )


def as_tree(call: Call, dynamic_shapes: Any) -> Any:
    if not isinstance(dynamic_shapes, (AdditionalInputs, ShapesCollection)):
        if not isinstance(dynamic_shapes, (dict, tuple, list)):
            raise UserError(
                f"{call.name}: dynamic_shapes must be a dictionary by argument, a tuple or list of one entry "
                "for each argument, a ShapesCollection or AdditionalInputs, "
                f"not a {type(dynamic_shapes).__name__}"
            )
        return dynamic_shapes

    def called(*args: Any, **kwargs: Any) -> None: ...

    vars(called)["__signature__"] = call.signature
    try:
        return dynamic_shapes.dynamic_shapes(called, call.args, call.kwargs)
    except (TypeError, ValueError, AssertionError) as error:
        what = f"{type(dynamic_shapes).__name__} does not fit the arguments"
        raise UserError(f"{call.name}: {what}: {in_short(error)}") from None


def may_vary(size: Any) -> bool:
    """Whether a dimension's declaration lets it vary."""
    return isinstance(size, Dim) or (size is not None and type(size) is not int and size != Dim.STATIC)


def in_short(error: BaseException) -> str:
    """torch's message without where to read more."""
    text = str(error)
    for more in MORE:
        text = text.split(more)[0]
    return text.replace(' For more information, run with TORCH_LOGS="+dynamic".', "").strip()


# ---- violations


def violation(call: Call, error: BaseException, dynamic_shapes: Any) -> DeclaredSizesError:
    """What the program needs of its sizes, all of it, and a declaration that says so."""
    text = in_short(error)
    lines = [f"{call.name} does not work for all the sizes that dynamic_shapes declares.", text]
    corrected = corrected_spec(call, text, dynamic_shapes)
    if corrected is not None:
        lines += ["", "With this declaration it does:", *corrected]
    return DeclaredSizesError("\n".join(lines))


def corrected_spec(call: Call, text: str, dynamic_shapes: Any) -> list[str] | None:
    """Statements that declare what torch found, to be pasted; None where it found no way."""
    if not isinstance(dynamic_shapes, (dict, tuple, list)):
        return None
    fixed = with_constants(call, text, dynamic_shapes)
    if "Suggested fixes:" in text:
        try:
            fixed = torchs.refine_dynamic_shapes_from_suggested_fixes(text, fixed)
        except Exception:  # of relations that no declaration can say
            return None
    elif fixed is dynamic_shapes:
        return None
    roots: dict[str, str] = {}
    written = spelled(fixed, roots)
    return [*(f"{name} = {made}" for name, made in sorted(roots.items())), f"dynamic_shapes = {written}"]


CONSTANT = re.compile(
    r"You marked L\['(\w+)'\](\S*?)(?:\.size\(\)\[(\d+)\])? as dynamic but .* constant \((\d+)\)"
)
KEY = re.compile(r"\[('[^']*'|\d+)\]")
"""Where torch found something that has no name."""


def with_constants(call: Call, text: str, dynamic_shapes: Any) -> Any:
    """A declaration in which what `Dim.DYNAMIC` let vary is what the program fixes it to."""
    names = list(call.bound)
    for name, inner, dim, value in CONSTANT.findall(text):
        if KEY.sub("", inner) or name not in names:
            continue  # not found by keys alone
        first = name if isinstance(dynamic_shapes, dict) else names.index(name)
        keys = [first, *map(ast.literal_eval, KEY.findall(inner))]
        keys += [int(dim)] if dim else []
        dynamic_shapes = replaced(dynamic_shapes, keys, int(value) if dim else None)
    return dynamic_shapes


def replaced(tree: Any, keys: list[Any], value: Any) -> Any:
    """A declaration with another one for a dimension that no `Dim` names."""
    if not keys:
        return tree if isinstance(tree, Dim) else value
    key, *others = keys
    if isinstance(tree, dict) and key in tree:
        return {**tree, key: replaced(tree[key], others, value)}
    if isinstance(tree, (tuple, list)) and type(key) is int and key < len(tree):
        items = [replaced(item, others, value) if n == key else item for n, item in enumerate(tree)]
        return type(tree)(items)
    return tree


def spelled(shape: Any, roots: dict[str, str]) -> str:
    """A declaration as source; `roots` are the dimensions that it needs to be there."""
    if isinstance(shape, dict):
        return "{" + ", ".join(f"{key!r}: {spelled(value, roots)}" for key, value in shape.items()) + "}"
    if isinstance(shape, (tuple, list)):
        inner = ", ".join(spelled(value, roots) for value in shape)
        if isinstance(shape, list):
            return f"[{inner}]"
        return f"({inner},)" if len(shape) == 1 else f"({inner})"
    if isinstance(shape, Dim):
        root = getattr(shape, "root", shape)
        roots[root.__name__] = made_by(root)
        return shape.__name__
    hint = getattr(shape, "type", None)
    if hint is not None:
        return f"Dim.{hint.name}"
    return repr(shape)


def made_by(dim: Any) -> str:
    bounds = [f"min={dim.min}"] if dim.min else []
    bounds += [f"max={dim.max}"] if isinstance(dim.max, int) or str(dim.max).isdigit() else []
    return f"Dim({', '.join([repr(dim.__name__), *bounds])})"
