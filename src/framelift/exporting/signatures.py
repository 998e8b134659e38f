"""How a program is called: the arguments as leaves, in the order of the call, and what they are named."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from framelift.core.errors import UserError
from framelift.exporting.stand_ins import StandIns

PLAIN = (int, float, complex, str, bool, type(None), torch.dtype, torch.device, torch.layout)
"""Types of leaves that an artifact takes beside tensors: it checks that they are what they were."""

REGISTER = (
    "torch.export.register_dataclass for a dataclass, torch.utils._pytree.register_pytree_node for any other"
)
FRAME_NAMES = ("args", "kwargs")
"""What the frame that is captured calls the two parts of a call."""
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass
class Call:
    """A program, and the arguments that it is exported with."""

    target: Callable[..., Any]
    name: str
    signature: inspect.Signature
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]
    paths: list[str]
    """Each leaf as the program writes it: `x`, `batch['mask']`."""
    sources: list[str]
    """Each leaf as the frame that is captured finds it: `args[0]`, `kwargs['batch']['mask']`."""
    spec: Any
    """How the leaves make up `(args, kwargs)`."""
    given: tuple[Any, ...]
    """`(args, kwargs)` as they were given: some may have no data, for which others stand in a capture."""
    stand_ins: StandIns

    @property
    def root(self) -> torch.nn.Module | None:
        """The module whose parameters and buffers are those of the artifact."""
        owner = getattr(self.target, "__self__", self.target)
        return owner if isinstance(owner, torch.nn.Module) else None

    @property
    def bound(self) -> dict[str, Any]:
        """Parameter -> what it is given."""
        return self.signature.bind(*self.args, **self.kwargs).arguments

    @property
    def argument_names(self) -> list[str]:
        """One for each positional argument, then one for each keyword."""
        names: list[str] = []
        for parameter in self.signature.parameters.values():
            if parameter.kind in POSITIONAL and len(names) < len(self.args):
                names.append(parameter.name)
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}_{n}" for n in range(len(self.args) - len(names))]
        return names + list(self.kwargs)


def call_of(target: Any, args: Any, kwargs: Any) -> Call:
    """The call that is to be exported; says what is wrong with it, if something is."""
    name = check_target(target)
    if not isinstance(args, tuple):
        raise UserError(f"args must be a tuple of the program's arguments, not a {type(args).__name__}")
    if not isinstance(kwargs, (dict, type(None))):
        raise UserError(f"kwargs must be a dictionary of arguments by name, not a {type(kwargs).__name__}")
    args, kwargs = tuple(args), dict(kwargs or {})
    signature = signature_of(target, args, kwargs)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UserError(f"{name}{signature} can't be called with these arguments: {error}") from None
    given = apart(args, kwargs, target)
    stand_ins = StandIns(name)
    args, kwargs = stand_ins.of_tree(given)
    try:
        found, spec = flat_with_paths((args, kwargs))
    except ValueError as error:  # of a class that was registered without the names of its parts
        raise UserError(f"{name}: {error}") from None
    leaves = [leaf for _, leaf in found]
    made = Call(target, name, signature, args, kwargs, leaves, [], [], spec, given, stand_ins)
    made.paths = [path_text(path, made.argument_names) for path, _ in found]
    made.sources = [FRAME_NAMES[path[0].idx] + pytree.keystr(path[1:]) for path, _ in found]
    for path, leaf in zip(made.paths, made.leaves, strict=True):
        check_leaf(name, path, leaf)
    return made


def check_target(target: Any) -> str:
    """Says what is wrong with a program, if it is none that can be exported; gives its name."""
    name = getattr(target, "__qualname__", None) or type(target).__name__
    if isinstance(target, type) or not callable(target):
        what = f"the class {name}" if isinstance(target, type) else f"a {type(target).__name__}"
        raise UserError(f"export takes a module or a function, not {what}")
    if isinstance(target, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise UserError(f"{name} was compiled by TorchScript: export what it was made of")
    return name


def flat_with_paths(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    found, spec = pytree.tree_flatten_with_path(tree)
    return list(found), spec


def signature_of(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.Signature:
    try:
        return inspect.signature(target.forward if isinstance(target, torch.nn.Module) else target)
    except (TypeError, ValueError):  # a function of C's that does not say
        kind = inspect.Parameter
        named = [kind(f"args_{n}", kind.POSITIONAL_ONLY) for n in range(len(args))]
        return inspect.Signature([*named, *(kind(key, kind.KEYWORD_ONLY) for key in kwargs)])


def apart(args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> tuple[Any, Any]:
    """A tensor that is passed twice, or is the module's own, is two things to the artifact: which of its
    inputs will be one object is not known."""
    owner = getattr(target, "__self__", target)
    seen: set[int] = set()
    if isinstance(owner, torch.nn.Module):
        seen = {id(tensor) for tensor in (*owner.parameters(), *owner.buffers())}
    leaves, spec = pytree.tree_flatten((args, kwargs))
    changed = False
    for n, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and id(leaf) in seen:
            leaves[n] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
            changed = True
        seen.add(id(leaf))
    return pytree.tree_unflatten(leaves, spec) if changed else (args, kwargs)


def path_text(path: tuple[Any, ...], names: list[str]) -> str:
    """A leaf as the program writes it."""
    (_, argument, *inner) = path
    first = names[argument.idx] if isinstance(argument, pytree.SequenceKey) else argument.key
    return f"{first}{pytree.keystr(tuple(inner))}"


def check_leaf(name: str, path: str, leaf: Any) -> None:
    if isinstance(leaf, (torch.Tensor, *PLAIN)) or is_scripted(leaf):
        return
    cls = type(leaf)
    raise UserError(
        f"{name}: {path} is a {cls.__qualname__}, of which torch does not know what tensors it holds. It "
        f"looks like one of the inputs with type `{cls}` is not supported or pytree-flattenable. "
        f"Pass them on their own, or register the class: {REGISTER}"
    )


def is_scripted(leaf: Any) -> bool:
    """Whether it is an object that operators of C++ take."""
    return isinstance(leaf, torch.ScriptObject)
