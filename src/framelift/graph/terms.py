"""Expressions of symbolic sizes, as torch prints them in Python, taken apart; and nodes that compute them.

The same text serves three purposes: a region computes a number with it, a graph gets nodes for it, and
a guard checks it natively. `fold` is what the last two have in common.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._ops import HigherOrderOperator

from framelift.graph.symbols import SYMBOLIC, printer, settled, simplest

if TYPE_CHECKING:
    from framelift.graph.builder import GraphBuilder

SYNTAX: dict[type[ast.AST], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"},
    **{ast.Div: "truediv", ast.Pow: "pow", ast.USub: "neg", ast.Not: "not", ast.And: "and", ast.Or: "or"},
    **{ast.BitAnd: "bitand", ast.BitOr: "bitor", ast.BitXor: "bitxor"},
    **{ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"},
}
"""Operator in the syntax of Python -> the name of the operation."""
CALLS = {
    **{"min": "min", "max": "max", "abs": "abs", "float": "float", "torch.sym_float": "float"},
    **{"math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc", "math.isnan": "isnan"},
    **{"torch._sym_sqrt": "sqrt", "math.sqrt": "sqrt", "math.cos": "cos", "math.sin": "sin"},
    **{"math.exp": "exp", "math.log": "log", "math.log2": "log2", "math.log10": "log10"},
    **{"int": "trunc", "round": "round", "bit_length": "bit_length"},
    **{"math.isqrt": "isqrt", "math.gcd": "gcd"},
}
"""What is called -> the name of the operation."""

TARGETS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow")},
    **{name: getattr(operator, name) for name in ("neg", "eq", "ne", "lt", "le", "gt", "ge", "abs")},
    **{"min": torch.sym_min, "max": torch.sym_max, "float": torch.sym_float, "not": torch.sym_not},
    **{"and": operator.and_, "or": operator.or_},
    **{"bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor},
    **{"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "sqrt": vars(torch)["_sym_sqrt"]},
}
"""Name of an operation -> what a graph calls for it."""


DATA_DEPENDENT = "data_dependent"
"""Marks a node that brings about symbols for what only the data decides."""


class UnknownTerm(Exception):
    """Something in an expression that there is no operation for."""


def expression_of(value: Any) -> Any:
    """What computes a symbolic number. What was found out since may simplify an integer; a float is computed
    as the program has written it."""
    return value.node._expr if type(value) is torch.SymFloat else value.node.expr


def text_of(expression: Any) -> str:
    return printer().doprint(expression)


def fold(
    text: str,
    constant: Callable[[int | float], Any],
    name: Callable[[str], Any],
    apply: Callable[[str, list[Any]], Any],
) -> Any:
    """The result of an expression, of what its constants, names and operations give."""

    def walk(term: ast.AST) -> Any:
        match term:
            case ast.Constant(value=bool() | int() | float() as value):
                return constant(value)
            case ast.Name(id=identifier):
                return name(identifier)
            case ast.UnaryOp(op=op, operand=operand):
                return apply(operation(SYNTAX, type(op)), [walk(operand)])
            case ast.BinOp(left=left, op=op, right=right):
                return apply(operation(SYNTAX, type(op)), [walk(left), walk(right)])
            case ast.BoolOp(op=op, values=values):
                return reduced(operation(SYNTAX, type(op)), [walk(value) for value in values])
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [walk(side) for side in (left, *others)]
                pairs = zip(ops, sides, sides[1:], strict=False)
                return reduced("and", [apply(operation(SYNTAX, type(op)), [a, b]) for op, a, b in pairs])
            case ast.Call(func=function, args=args, keywords=[]):
                return reduced(operation(CALLS, ast.unparse(function)), [walk(arg) for arg in args])
            case ast.Expression(body=body):
                return walk(body)
        raise UnknownTerm(ast.unparse(term))

    def reduced(op: str, values: list[Any]) -> Any:
        if op in ("min", "max", "and", "or"):
            return functools.reduce(lambda a, b: apply(op, [a, b]), values)
        return apply(op, values)

    return walk(ast.parse(text, mode="eval"))


def operation(names: dict[Any, str], spelling: Any) -> str:
    if spelling not in names:
        raise UnknownTerm(str(spelling))
    return names[spelling]


def is_no_operand(user: torch.fx.Node) -> bool:
    """Whether a node may be given a constant: bodies of higher-order operators take what varies."""
    return not isinstance(user.target, HigherOrderOperator)


aten = torch.ops.aten
PROPERTIES = {"size": aten.sym_size.int, "stride": aten.sym_stride.int}
PROPERTIES["offset"] = aten.sym_storage_offset.default
"""What is read of a tensor -> what a graph calls for it."""


class NumberNodes:
    """The nodes of symbolic numbers in the graph of one trace."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.steps: dict[Any, tuple[Callable[..., Any] | None, tuple[Any, ...]]] = {}
        """Symbol -> what the graph calls to compute it, and with what; without a call it is the operand."""

    def add_step(self, target: Callable[..., Any] | None, operands: tuple[Any, ...], value: Any) -> Any:
        """A symbol for what the graph computes of other numbers, wherever that is used."""
        builder = self.builder
        with torch._C.DisableTorchFunction():
            symbol = builder.symbolise().number(None, value)
        self.steps[symbol.node.expr] = target, operands
        return symbol

    def step(self, symbol: Any) -> torch.fx.Node:
        target, operands = self.steps[symbol]
        given = [self.term(operand) if type(operand) in SYMBOLIC else operand for operand in operands]
        if target is None:
            return given[0]
        body, symbols = self.builder.body, self.builder.symbols
        assert symbols is not None
        made = body.add_node("call_function", target, tuple(given))
        made.meta["example_value"] = symbols.of(symbol)
        return made

    def add_input(self, value: int | float, source: str) -> Any:
        """A number becomes a placeholder; gives the symbol that stands for it. `source`: the expression that
        it is called after."""
        builder = self.builder
        whole = builder.bodies[0]
        node = builder.inputs.placeholder(source)
        with torch._C.DisableTorchFunction():
            symbol = builder.symbolise().number(node, value)
        builder.inputs.add(node, value, symbol)
        if type(value) is float:
            with whole.graph.inserting_after(node):
                node = whole.add_node("call_method", "item", (node,))
        whole.terms[symbol.node.expr] = node
        node.meta["example_value"] = symbol
        return symbol

    def bind(self, out: Any, node: torch.fx.Node) -> None:
        """Symbols for what only the data decides come from the node that looks at it."""
        symbols, body = self.builder.symbols, self.builder.body
        assert symbols is not None
        if type(out) is torch.SymBool:
            self.bind_truth(out, node)
        for symbol, part, dim in symbols.brought_about(out):
            if symbol not in body.terms:
                found = node if part is out else body.nodes[id(part)]
                if dim is not None:
                    found = body.add_node("call_function", PROPERTIES["size"], (found, dim))
                body.terms[symbol] = found
        if symbols.has_fresh:
            symbols.forget_fresh(out)
            node.meta[DATA_DEPENDENT] = True
            node.meta["example_value"] = out

    def bind_truth(self, out: Any, node: torch.fx.Node) -> None:
        """A truth value that a tensor holds is an equation of a number, which the graph has to find too."""
        (symbol,) = out.node.expr.free_symbols
        body = self.builder.body
        number = body.add_node("call_method", "to", (node.args[0], torch.int64))
        body.terms[symbol] = body.add_node("call_method", "item", (number,))

    def put_constants(self) -> None:
        """Floats that turned out to be constants: a backend computes with torch's expressions, in which some
        are integers, or lose their signs."""
        for node in self.builder.bodies[0].terms.values():
            value = node.meta.get("example_value")
            if type(value) is torch.SymFloat and value.node.expr.is_number and value.node.hint is not None:
                node.replace_all_uses_with(value.node.hint, is_no_operand)

    def drop_if_unused(self, symbol: Any) -> None:
        """The node that a symbol comes from need not run for its own sake."""
        self.builder.impure.discard(self.builder.body.terms[symbol.node.expr])

    def term(self, value: Any) -> Any:
        """A symbolic number as an argument of a call: nodes that compute it from the inputs."""
        if value.node.expr.is_number:
            return simplest(value)  # it was decided later what it is
        expression, terms = expression_of(value), self.builder.body.terms
        found = terms.get(expression)
        if found is None:
            try:
                found = self.node_of(expression)
            except UnknownTerm:
                return settled(value)
            if isinstance(found, torch.fx.Node):
                terms[expression] = found
                found.meta["example_value"] = value
        return found

    def node_of(self, expression: Any) -> Any:
        """Nodes that compute an expression. Raises UnknownTerm for what a graph can't compute."""
        names = {str(symbol): symbol for symbol in expression.free_symbols}
        return fold(text_of(expression), lambda n: n, lambda n: self.symbol(names[n]), self.apply)

    def apply(self, operation: str, operands: list[Any]) -> Any:
        target = TARGETS.get(operation)
        if target is None:
            raise UnknownTerm(operation)
        if not any(isinstance(operand, torch.fx.Node) for operand in operands):
            return target(*operands)
        return self.builder.body.add_node("call_function", target, tuple(operands))

    def symbol(self, symbol: Any, depth: int | None = None) -> torch.fx.Node:
        """The node that gives the value of a symbol in the body at a depth, of which it becomes an operand.
        None: in the one that is being written. It is right behind the inputs: later on the program may change
        the shape of one."""
        builder = self.builder
        depth = len(builder.bodies) - 1 if depth is None else depth
        symbols, body = builder.symbols, builder.bodies[depth]
        assert symbols is not None
        found = body.terms.get(symbol)
        if found is not None:
            return found
        if symbol in self.steps:
            body.terms[symbol] = found = self.step(symbol)
            return found
        if depth:
            if not symbol.is_integer and not all(one.takes_floats for one in builder.bodies[1 : depth + 1]):
                raise UnknownTerm(str(symbol))
            found = body.add_operand(symbols.of(symbol), self.symbol(symbol, depth - 1))
        else:
            if symbol in symbols.nested_sizes:
                return self.nested_size(symbol)
            read = symbols.reads.get(symbol)
            if read is None:
                raise UnknownTerm(str(symbol))
            with body.graph.inserting_after(builder.inputs.entries[-1].node):
                tensor = symbols.inputs[read.input].node
                found = body.add_node("call_function", PROPERTIES[read.kind], (tensor, read.dim))
        body.terms[symbol] = found
        return found

    def nested_size(self, symbol: Any) -> torch.fx.Node:
        """The node that gives a nested int, which is a size of a nested tensor."""
        builder, body = self.builder, self.builder.bodies[0]
        assert builder.symbols is not None
        tensor, dim = builder.symbols.nested_sizes[symbol]
        node = body.nodes[id(tensor)]
        after = builder.inputs.entries[-1].node if node.op == "placeholder" else node
        with body.graph.inserting_after(after):
            found = body.add_node("call_function", PROPERTIES["size"], (node, dim))
        body.terms[symbol] = found
        return found
