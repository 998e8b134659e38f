"""Expressions of symbolic sizes, as torch prints them in Python, taken apart.

The same text serves three purposes: a region computes a number with it, a graph gets nodes for it, and
a guard checks it natively. `fold` is what the last two have in common.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._sympy.printers import PythonPrinter

SYNTAX: dict[type[ast.AST], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"},
    **{ast.Div: "truediv", ast.Pow: "pow", ast.USub: "neg", ast.Not: "not", ast.And: "and", ast.Or: "or"},
    **{ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"},
}
"""Operator in the syntax of Python -> the name of the operation."""
CALLS = {
    **{"min": "min", "max": "max", "abs": "abs", "float": "float", "torch.sym_float": "float"},
    **{"math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc", "math.isnan": "isnan"},
    **{"torch._sym_sqrt": "sqrt", "math.sqrt": "sqrt"},
}
"""What is called -> the name of the operation."""

TARGETS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow")},
    **{name: getattr(operator, name) for name in ("neg", "eq", "ne", "lt", "le", "gt", "ge", "abs")},
    **{"min": torch.sym_min, "max": torch.sym_max, "float": torch.sym_float, "not": torch.sym_not},
    **{"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "sqrt": torch._sym_sqrt},  # type: ignore[attr-defined]
}
"""Name of an operation -> what a graph calls for it."""


class UnknownTerm(Exception):
    """Something in an expression that there is no operation for."""


def text_of(expression: Any) -> str:
    return PythonPrinter().doprint(expression)


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
    found = names.get(spelling)
    if found is None:
        raise UnknownTerm(str(spelling))
    return found
