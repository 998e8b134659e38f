"""What a graph relies on of its inputs, as a module that the graph calls first: `_guards_fn`, as it is in the
modules of torch's own artifacts.

It is a graph of plain Python's operators and `torch._assert`, so that it is copied, pickled, written to a
folder and captured again with the graph that it belongs to.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP

from framelift.exporting.argument_checks import OF_TYPE
from framelift.exporting.capture import CapturedProgram
from framelift.exporting.shapes import DeclaredDynamism
from framelift.exporting.signatures import PLAIN, Call
from framelift.exporting.size_checks import needed
from framelift.graph.symbols import SYMBOLIC, At, Read

NAME = "_guards_fn"

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.And: operator.and_,
    ast.Or: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

NAMES: dict[str, Any] = {
    **{**SYMPY_INTERP, "math": math, "max": max, "min": min, "round": round, "round_to": round},
    **{"int": int, "float": float, "abs": abs},
}
"""What facts call."""


class UnknownTerm(Exception):
    """A fact that these nodes can't compute."""


@dataclass
class Checks:
    """The checks of one graph, in the making."""

    call: Call
    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    leaves: list[torch.fx.Node] = field(default_factory=list)
    read: dict[tuple[Any, ...], torch.fx.Node] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.leaves = [self.graph.placeholder(f"leaf_{n}") for n in range(len(self.call.leaves))]

    def require(self, condition: torch.fx.Node, text: str) -> None:
        self.graph.call_function(torch._assert, (condition, f"Guard failed: {text}"))
        self.told.add(text)

    def equal(self, found: Any, expected: Any, text: str) -> None:
        if text not in self.told:
            self.require(self.graph.call_function(operator.eq, (found, expected)), text)

    def of_leaf(self, leaf: int, method: str, *arguments: int) -> torch.fx.Node:
        key = (leaf, method, *arguments)
        if key not in self.read:
            self.read[key] = self.graph.call_method(method, (self.leaves[leaf], *arguments))
        return self.read[key]

    def size(self, leaf: int, dim: int, expected: int) -> None:
        self.equal(
            self.of_leaf(leaf, "size", dim), expected, f"{self.path(leaf)}.size()[{dim}] == {expected}"
        )

    def path(self, leaf: int) -> str:
        return self.call.paths[leaf]

    def rank(self, leaf: int) -> None:
        rank = self.call.leaves[leaf].dim()
        self.equal(self.of_leaf(leaf, "dim"), rank, f"{self.path(leaf)}.dim() == {rank}")

    def dtype(self, leaf: int) -> None:
        dtype = self.call.leaves[leaf].dtype
        found = self.graph.call_function(getattr, (self.leaves[leaf], "dtype"))
        self.equal(found, dtype, f"{self.path(leaf)}.dtype == {dtype}")

    def fact(self, text: str, names: dict[str, Any], shown: str) -> None:
        """`names` are the nodes and numbers that the names of the text stand for."""
        if shown not in self.told:
            self.require(Terms(self.graph, names).node(ast.parse(text, mode="eval").body), shown)

    def as_module(self) -> torch.fx.GraphModule | None:
        if not self.told:
            return None
        self.graph.eliminate_dead_code()
        self.graph.output(True)
        return torch.fx.GraphModule({}, self.graph, class_name="GuardsFn")


@dataclass
class Terms:
    """An expression as nodes."""

    graph: torch.fx.Graph
    names: dict[str, Any]

    def node(self, term: ast.expr) -> Any:
        apply = self.graph.call_function
        match term:
            case ast.Constant():
                return term.value
            case ast.Name() if term.id in self.names:
                return self.names[term.id]
            case ast.BinOp() if type(term.op) in OPERATORS:
                return apply(OPERATORS[type(term.op)], (self.node(term.left), self.node(term.right)))
            case ast.UnaryOp() if type(term.op) in OPERATORS:
                return apply(OPERATORS[type(term.op)], (self.node(term.operand),))
            case ast.BoolOp():
                return self.joined(OPERATORS[type(term.op)], [self.node(value) for value in term.values])
            case ast.Compare() if all(type(op) in OPERATORS for op in term.ops):
                sides = [self.node(side) for side in (term.left, *term.comparators)]
                pairs = zip(term.ops, sides[:-1], sides[1:], strict=True)
                return self.joined(
                    operator.and_, [apply(OPERATORS[type(op)], (left, right)) for op, left, right in pairs]
                )
            case ast.Call(func=ast.Attribute(value=tensor, attr="size")):
                return self.graph.call_method("size", (self.node(tensor),))
            case ast.Call(keywords=[]):
                return apply(function(term.func), tuple(self.node(argument) for argument in term.args))
            case ast.Subscript():
                return apply(operator.getitem, (self.node(term.value), self.node(term.slice)))
        raise UnknownTerm(ast.unparse(term))

    def joined(self, join: Callable[..., Any], conditions: list[Any]) -> Any:
        first, *rest = conditions
        for condition in rest:
            first = self.graph.call_function(join, (first, condition))
        return first


def function(named: ast.expr) -> Callable[..., Any]:
    match named:
        case ast.Name() if named.id in NAMES:
            return NAMES[named.id]
        case ast.Attribute(value=ast.Name(id=module)) if module in NAMES:
            found = getattr(NAMES[module], named.attr, None)
            if callable(found):
                return found
    raise UnknownTerm(ast.unparse(named))


def call_first(module: torch.fx.GraphModule, checks: Checks, described: dict[str, Any]) -> None:
    """Has a graph check its inputs before it does anything. `described` is what nodes say of where they come
    from."""
    made = checks.as_module()
    if made is None:
        return
    module.add_submodule(NAME, made)
    placeholders = module.graph.find_nodes(op="placeholder")
    with module.graph.inserting_after(placeholders[-1]):
        held = module.graph.call_module(NAME, tuple(placeholders))
    with module.graph.inserting_after(held):
        # which no pass takes out
        asserted = module.graph.call_function(torch._assert, (held, "guards hold"))
    for node in (held, asserted):
        node.meta |= described
        node.meta["source_fn_stack"] = [(node.name, node.target)]
    module.recompile()


# ---- what is checked


def checks_of_program(
    call: Call, program: CapturedProgram, dynamism: DeclaredDynamism, shown: Sequence[str]
) -> Checks:
    """What the capture relies on. `shown` are its facts about sizes, as the program would write them."""
    checks = Checks(call)
    read = {str(guard.source) for guard in program.guards}
    fakes = {id(each.value): each.node.meta.get("example_value") for each in program.inputs}
    for n, leaf in enumerate(call.leaves):
        if call.sources[n] not in read and id(leaf) not in fakes:
            continue
        if isinstance(leaf, torch.Tensor):
            checks.rank(n)
            for dim in fixed_dims(leaf, dynamism, fakes.get(id(leaf))):
                checks.size(n, dim, leaf.shape[dim])
            if program.asked.get(id(leaf), frozenset()) & OF_TYPE:
                checks.dtype(n)
        elif isinstance(leaf, PLAIN) and call.sources[n] not in dynamism.number_paths:
            checks.equal(checks.leaves[n], leaf, f"{call.paths[n]} == {leaf!r}")
    relied_on = set(needed(program.facts, program.reads))
    names = dict(read_nodes(checks, program))
    try:
        for fact, text in zip(program.facts, shown, strict=True):
            if fact.text in relied_on:
                checks.fact(fact.text, names, text)
    except UnknownTerm:
        add_exact_sizes(checks)
    return checks


def fixed_dims(leaf: torch.Tensor, dynamism: DeclaredDynamism, fake: Any) -> list[int]:
    """The dimensions that are no symbols."""
    varying = dynamism.of_tensors.get(id(leaf), {})
    definite = [dim for dim, size in enumerate(() if fake is None else fake.shape) if type(size) is int]
    return [dim for dim in range(leaf.dim()) if dim not in varying or dim in definite]


def read_nodes(checks: Checks, program: CapturedProgram) -> Iterator[tuple[str, Any]]:
    """Name -> the node of what it stands for, of the leaves; what is read elsewhere stays as it was."""
    at = {id(leaf): n for n, leaf in enumerate(checks.call.leaves) if isinstance(leaf, torch.Tensor)}
    for n, read in enumerate(program.reads):
        value, source = program.symbol_values[read.input], str(program.symbol_sources[read.input])
        if isinstance(value, torch.Tensor):
            leaf = at.get(id(value))
            yield f"r{n}", plain_read(value, read) if leaf is None else node_of_read(checks, leaf, read)
        else:
            known = source in checks.call.sources
            yield f"r{n}", checks.leaves[checks.call.sources.index(source)] if known else value


def node_of_read(checks: Checks, leaf: int, read: Read) -> torch.fx.Node:
    if read.kind == "offset":
        return checks.of_leaf(leaf, "storage_offset")
    return checks.of_leaf(leaf, read.kind, read.dim)


def plain_read(value: torch.Tensor, read: Read) -> int:
    return int(value.storage_offset() if read.kind == "offset" else getattr(value, read.kind)(read.dim))


def add_exact_sizes(checks: Checks) -> None:
    """All sizes and numbers are as they were: what a graph of definite sizes relies on, whatever it does."""
    for n, leaf in enumerate(checks.call.leaves):
        if isinstance(leaf, torch.Tensor):
            checks.rank(n)
            for dim, size in enumerate(leaf.shape):
                checks.size(n, dim, size)
        else:
            checks.equal(checks.leaves[n], leaf, f"{checks.call.paths[n]} == {leaf!r}")


def add_operators_facts(checks: Checks, traced: torch.fx.GraphModule, leaves: Sequence[Any]) -> None:
    """What `make_fx` relied on beside the program, on symbols of its own."""
    fakes = [node.meta.get("val") for node in traced.graph.nodes if node.op == "placeholder"]
    symbolic = [n for n, fake in enumerate(fakes) if isinstance(fake, torch.Tensor) or type(fake) in SYMBOLIC]
    env = getattr(traced, "shape_env", None)
    if env is None or len(fakes) != len(leaves):
        add_exact_sizes(checks)
        return
    names = {f"t{n}": checks.leaves[leaf] for n, leaf in enumerate(symbolic)}
    for n in symbolic:
        if isinstance(fakes[n], torch.Tensor):
            checks.rank(n)
    try:
        for text in env.produce_guards(
            [fakes[n] for n in symbolic], [At(n) for n in range(len(symbolic))], ignore_static=False
        ):
            if ".stride()" in text or ".storage_offset()" in text:
                continue
            checks.fact(text, names, as_shown(text, checks.call, symbolic))
    except UnknownTerm:
        add_exact_sizes(checks)


def as_shown(text: str, call: Call, symbolic: Sequence[int]) -> str:
    paths = {f"t{n}": call.paths[leaf] for n, leaf in enumerate(symbolic)}
    term = ast.parse(text, mode="eval")
    for node in ast.walk(term):
        if isinstance(node, ast.Name) and node.id in paths:
            node.id = paths[node.id]
    return ast.unparse(term)
