"""Functions that are written as Python source. Many are written alike, and it is parsing that takes long."""

from __future__ import annotations

import builtins
import functools
from types import CodeType, FunctionType
from typing import Any

LONGEST = 4000
"""Texts with more characters hardly come again."""


def function_of_text(text: str, name: str, filename: str, namespace: dict[str, Any]) -> FunctionType:
    """The function that a text defines: `def NAME(...):` and its body, with a namespace of its own."""
    code = parsed(text.removeprefix(f"def {name}")) if len(text) <= LONGEST else None
    if code is None:
        exec(compile(text, filename, "exec", dont_inherit=True), namespace)
        made: FunctionType = namespace.pop(name)
        return made
    namespace["__builtins__"] = vars(builtins)
    return FunctionType(code.replace(co_filename=filename, co_name=name, co_qualname=name), namespace)


@functools.lru_cache(256)
def parsed(text: str) -> CodeType | None:
    """The code of a function without its name. None: others are in it, whose code names the file too."""
    (code, *_) = compile(f"def f{text}", "", "exec", dont_inherit=True).co_consts
    return None if any(type(value) is CodeType for value in code.co_consts) else code
