"""Graph modules whose Python code is made when somebody asks for it, and graphs as functions.

torch makes two things of a graph whenever a module gets one: a text to read, and a function to run. Compilers
need neither, and who runs a graph does not need the text. A `CapturedGraph` makes `forward` when that is
first asked for, of a shorter text than torch's, and torch's own text (`code`) when somebody looks at that.
From `recompile()` on it is an ordinary GraphModule.
"""

from __future__ import annotations

import linecache
import math
import operator
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
import torch.fx.graph_module
from torch.fx.experimental import _config as fx_config
from torch.fx.graph import CodeGen, magic_methods

from framelift.core.written_functions import function_of_text

OF_CODE = frozenset({"_code", "_lineno_map", "_prologue_start"})
"""What `recompile` sets on a module."""


class MadeWhenAsked:
    """`forward` of a graph module that has none yet."""

    def __get__(self, module: Any, cls: Any) -> Any:
        owner = cls.captured() if module is None and "captured" in vars(cls) else module
        if owner is None:
            raise AttributeError("forward")
        owner.make_forward()
        return cls.forward if module is None else module.forward


class CapturedGraph(torch.fx.GraphModule):
    """What a capture hands to a backend. torch makes each one a class of its own, which has its `forward`."""

    forward: Any = MadeWhenAsked()

    @torch.fx.GraphModule.graph.setter  # type: ignore[attr-defined]
    def graph(self, graph: torch.fx.Graph) -> None:
        is_first = "_graph" not in vars(self)
        self._graph = graph
        graph.owning_module = self
        if is_first:
            cls: Any = type(self)
            cls.captured = weakref.ref(self)
            cls._wrapped_call = staticmethod(
                torch.nn.Module.__call__
            )  # torch's own prints a graph that fails
        else:
            self.recompile()

    def make_forward(self) -> None:
        if "forward" in vars(type(self)):
            return  # another thread has made it meanwhile
        made = function_of(self._graph)
        if made is None:
            self.recompile()
        else:
            register_forward(made)
            replace_forward(self, made)

    def recompile(self) -> Any:
        replaced = vars(type(self)).get("forward")  # see replace_forward()
        made = super().recompile()
        register_forward(type(self).forward)
        del replaced
        return made

    def __getattr__(self, name: str) -> Any:
        if name in OF_CODE:
            forward = vars(type(self)).get("forward")
            self.recompile()
            if forward is not None:  # a function that somebody may have does not become another
                replace_forward(self, forward)
            return vars(self)[name]
        return super().__getattr__(name)

    def __prepare_scriptable__(self) -> CapturedGraph:
        """TorchScript compiles torch's text."""
        self.recompile()
        return self

    def __reduce__(self) -> Any:
        self.recompile()  # the text is what is pickled
        return super().__reduce__()

    def __reduce_package__(self, exporter: Any) -> Any:
        self.recompile()
        return super().__reduce_package__(exporter)


def register_forward(forward: Any) -> None:
    """Its source, which is registered for tracebacks, goes when it goes."""
    code = forward.__code__
    weakref.finalize(code, forget_source, code.co_filename).atexit = False


def replace_forward(module: torch.fx.GraphModule, forward: Any) -> None:
    """What a class had is kept until that knows of it no more. CPython lets go of it first and clears the
    class's cache of lookups afterwards: while its finaliser runs, another thread would find what is dying."""
    cls: Any = type(module)
    replaced = vars(cls).get("forward")
    cls.forward = forward
    del replaced


def forget_source(filename: str) -> None:
    linecache.cache.pop(filename, None)
    torch.fx.graph_module._loader.eval_cache.pop(filename, None)


# ---- a graph as a function


class Unusual(Exception):
    """There is something in a graph that torch's own code generator is left to write."""


OPERATORS: dict[Any, str] = {
    getattr(operator, name): f"{{}} = {text}"
    for name, text in magic_methods.items()
    if hasattr(operator, name)
}
"""What Python has a sign for -> how a node of it is written."""
LITERALS = frozenset({int, bool, str, type(None), type(Ellipsis)})
FUNCTION = "forward"


def function_of(graph: torch.fx.Graph) -> Callable[..., Any] | None:
    """What runs a graph, as a method of a module that has its bodies; None: torch is to write it."""
    codegen = graph._codegen
    is_plain = type(codegen) is CodeGen and codegen._body_transformer is None
    if not is_plain or fx_config.enrich_profiler_metadata or graph._co_fields:
        return None
    writer = Writer()
    try:
        text = writer.write(list(graph.nodes))
    except Unusual:
        return None
    filename = torch.fx.graph_module._loader._get_key()
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    return function_of_text(text, FUNCTION, filename, writer.globals)


class Writer:
    """Writes the nodes of one graph. All that is no tensor, number or text of the graph's own is a global of
    the function, under a name that no node has."""

    def __init__(self) -> None:
        self.globals: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        """id of a global -> its name."""
        self.prefix = "_"

    def write(self, nodes: list[torch.fx.Node]) -> str:
        while any(node.name.startswith(self.prefix) for node in nodes):
            self.prefix += "_"
        dying = last_uses(nodes)
        parameters, lines = ["self"], []
        for node in nodes:
            op = node.op
            if op == "call_function":
                line = self.call(node)
            elif op == "placeholder":
                if node.args or node.name == "self":
                    raise Unusual
                parameters.append(node.name)
                continue
            elif op == "call_method":
                target = self.value(node.args[0])
                line = f"{node.name} = {target}.{node.target}({self.arguments(node.args[1:], node.kwargs)})"
            elif op == "get_attr" and str(node.target).isidentifier():
                line = f"{node.name} = self.{node.target}"
            elif op == "output":
                lines.append(f"    return {self.value(node.args[0])}")
                continue
            else:
                raise Unusual
            dead = dying.get(node)
            if not node.users:
                dead = [*(dead or ()), node.name]
            lines.append(f"    {line}; del {', '.join(dead)}" if dead else f"    {line}")
        return f"def {FUNCTION}({', '.join(parameters)}):\n" + "\n".join(lines)

    def call(self, node: torch.fx.Node) -> str:
        target: Any = node.target
        sign = OPERATORS.get(target)
        if sign is not None and not node.kwargs:
            return sign.format(node.name, *map(self.value, node.args))
        return f"{node.name} = {self.constant(target)}({self.arguments(node.args, node.kwargs)})"

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        texts = [value.name if type(value) is torch.fx.Node else self.value(value) for value in args]
        if kwargs:
            texts += [f"{name}={self.value(value)}" for name, value in kwargs.items()]
        return ", ".join(texts)

    def value(self, value: Any) -> str:
        cls = type(value)
        if cls is torch.fx.Node:
            return str(value.name)
        if cls in LITERALS:
            return repr(value) if cls is not int or value >= 0 else f"({value})"
        if cls is float and math.isfinite(value):
            return repr(value) if math.copysign(1.0, value) > 0 else f"({value})"
        if issubclass(cls, tuple) and cls is not torch.Size:
            items = "".join([f"{self.value(item)}, " for item in value])
            return f"({items})" if not hasattr(cls, "_fields") else f"{self.constant(cls)}({items})"
        if issubclass(cls, list):
            return f"[{', '.join(map(self.value, value))}]"
        if issubclass(cls, dict):
            return f"{{{', '.join([f'{key!r}: {self.value(item)}' for key, item in value.items()])}}}"
        if cls is slice:
            parts = (value.start, value.stop, value.step)
            if any(type(part) is torch.fx.Node for part in parts):
                return f"{self.constant(slice)}({', '.join(map(self.value, parts))})"
        return self.constant(value)

    def constant(self, value: Any) -> str:
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = f"{self.prefix}{len(self.names)}"
            self.globals[name] = value
        return name


def last_uses(nodes: list[torch.fx.Node]) -> dict[torch.fx.Node, list[str]]:
    """Node -> the names of what nobody uses after it."""
    seen: set[torch.fx.Node] = set()
    dying: dict[torch.fx.Node, list[str]] = {}
    for node in reversed(nodes):
        inputs = node.all_input_nodes
        dead = [used.name for used in inputs if used not in seen] if node.op != "output" else []
        if dead:
            dying[node] = dead
        seen.update(inputs)
    return dying
