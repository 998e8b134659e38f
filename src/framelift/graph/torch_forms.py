"""Graphs in torch's own words: what a backend that knows nothing of Framelift is given.

A trace records a transform as one call of a function of Framelift's, on the body that is transformed. That
is exact, and can be run as it is. Backends know what torch itself writes for it: a flat sequence of calls of
the functions that the transform is made of, or one of torch's operators. The features that record such a
function say what its form in torch's words is (`form_of`); `in_torchs_words` writes a graph with these forms.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.autograd import forward_ad
from torch.fx.node import map_arg

from framelift.graph.body import graph_module
from framelift.graph.graph_code import CapturedGraph

Node = torch.fx.Node
Module = torch.fx.GraphModule

functorch: Any = torch._C._functorch

ABOUT_RESULTS = ("example_value", "val")
"""What of a node's meta is about what it gives, and not about where it comes from."""

FORMS: dict[Any, Callable[[Call], Sequence[Any]]] = {}
"""Function of Framelift's -> what writes a call of it; that gives the nodes of its results."""


IN_ONE_CALL: dict[Any, Callable[[Call], Sequence[Any]]] = {}
"""For those whose form begins and ends a level of differentiation: what writes a call of torch's function for
users on the body. In a body of an operator that torch itself differentiates the form gives other results."""


def form_of(function: Any, in_one_call: Any = None) -> Any:
    """Registers what writes the calls of a function in torch's words."""

    def register(write: Callable[[Call], Sequence[Any]]) -> Callable[[Call], Sequence[Any]]:
        FORMS[function] = write
        if in_one_call is not None:
            IN_ONE_CALL[function] = in_one_call
        return write

    return register


def in_torchs_words(module: Module, for_compiler: bool = False) -> Module:
    """The graph, or one that does the same and calls no function that only Framelift has. `for_compiler`:
    it is never run but by a compiler, on fakes."""
    graphs = [each.graph for each in module.modules() if isinstance(each, Module)]
    if not any(
        node.target in FORMS for graph in graphs for node in graph.nodes if node.op == "call_function"
    ):
        return module
    writer = Writer(for_compiler)
    made = writer.rewrite(module)
    for graph in (each.graph for each in made.modules() if isinstance(each, Module)):
        for node in graph.nodes:
            if "source_fn_stack" in node.meta:
                node.meta["source_fn_stack"] = writer.called(node.meta["source_fn_stack"])
    return made


def is_differentiated(body: Module) -> bool:
    """Whether an operator's body is given what has a history."""
    given = (node.meta.get("example_value") for node in body.graph.find_nodes(op="placeholder"))
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in given)


class Writer:
    """Writes one graph. Bodies that a form consists of become part of it."""

    def __init__(self, for_compiler: bool, around: Writer | None = None) -> None:
        self.for_compiler = for_compiler
        self.is_differentiated = False
        """Whether torch differentiates what is written here, as a whole."""
        self.graph = torch.fx.Graph()
        self.modules: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        """id of a module of the graph that is rewritten -> the name of what it has become."""
        self.open: list[Any] = [] if around is None else around.open
        """The functions whose forms are being written, outermost first."""
        self.written_as: dict[Any, Any] = {} if around is None else around.written_as
        """What a node says was called there, if that is not torch's -> what was written in its place, if that
        is one call."""

    def rewrite(self, module: Module) -> CapturedGraph:
        self.graph.output(self.copy(module, None))
        made = graph_module(self.graph, self.modules)
        made.meta.update(module.meta)
        return made

    def called(self, functions: list[Any]) -> list[Any]:
        """What was called, outermost first, in torch's words."""
        written = (self.written_as.get(each, each) for each in functions)
        return [each for each in written if each is not None]

    def body(self, module: Module) -> Module:
        writer = Writer(self.for_compiler, self)
        writer.is_differentiated = is_differentiated(module)
        made = writer.rewrite(module)
        made.make_forward()  # a captured backward pass looks into it
        return made

    def copy(self, module: Module, given: Sequence[Any] | None) -> Any:
        """Writes what a module does; gives its outputs. `given` is what its inputs are, unless they are those
        of the whole graph."""
        known: dict[Node, Any] = {}
        inputs = None if given is None else iter(given)

        def here(node: Node) -> Any:
            if node.op == "get_attr" and node not in known:
                known[node] = self.held(node, getattr(module, str(node.target)))
            return known[node]

        for node in module.graph.nodes:
            if node.op == "output":
                return map_arg(node.args[0], here)
            if node.op == "placeholder":
                known[node] = self.graph.node_copy(node) if inputs is None else next(inputs)
            elif node.op == "get_attr":
                continue  # whoever uses it decides what becomes of it
            elif node.target in FORMS:
                known[node] = self.write_form(node, module, here)
            elif node.target is operator.getitem and type(known.get(node.args[0])) is tuple:
                known[node] = known[node.args[0]][node.args[1]]
            else:
                args, kwargs = map_arg(node.args, here), map_arg(node.kwargs, here)
                made = self.graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
                made.meta = dict(node.meta)
                known[node] = made
        raise ValueError("a graph without outputs")

    def write_form(self, node: Node, module: Module, here: Callable[[Node], Any]) -> tuple[Any, ...]:
        self.open.append(node.target)
        for called in node.meta.get("source_fn_stack", ())[-1:]:
            self.written_as[called] = None
        try:
            write = IN_ONE_CALL.get(node.target) if self.is_differentiated else None
            return tuple((write or FORMS[node.target])(Call(self, node, module, here)))
        finally:
            self.open.pop()

    def held(self, node: Node, module: Any) -> Node:
        """A node for a module, or another object, that the graph holds."""
        name = self.names.get(id(module))
        if name is None:
            stem, _, _ = str(node.target).rpartition("_")
            names = itertools.chain((str(node.target),), (f"{stem}_{n}" for n in itertools.count()))
            name = self.names[id(module)] = next(each for each in names if each not in self.modules)
            self.modules[name] = self.body(module) if isinstance(module, Module) else module
        made = self.graph.create_node("get_attr", name)
        made.meta = dict(node.meta)
        return made


class Call:
    """A call of a function that has a form: what it is given, and what the form is written with."""

    def __init__(self, writer: Writer, node: Node, module: Module, here: Callable[[Node], Any]) -> None:
        self.writer = writer
        self.node = node
        self.module = module
        self.here = here
        self.settings = node.kwargs
        self.meta = {key: value for key, value in node.meta.items() if key not in ABOUT_RESULTS}
        items = [user for user in node.users if user.target is operator.getitem]
        self.variables = {each.args[1]: each.name for each in items if not each.name.startswith("getitem")}
        """Number of a result -> the variable that the program keeps it in."""

    @property
    def args(self) -> list[Any]:
        return [map_arg(arg, self.here) for arg in self.node.args]

    @property
    def values(self) -> list[Any]:
        """What it is given behind the body."""
        return [map_arg(arg, self.here) for arg in self.node.args[1:]]

    @property
    def body(self) -> Module:
        return self.held(0)

    def held(self, n: int) -> Module:
        """The body that one of the arguments is, as it was recorded."""
        found: Any = self.node.args[n]
        body: Module = getattr(self.module, found.target)
        return body

    def function(self, primals: int, outputs: int | None, held: Sequence[Any]) -> Node:
        """The body as a function of its first values that holds the others. It gives a pair: as many results,
        or the first one, and all others."""
        module = self.writer.body(self.body)
        given = module.graph.find_nodes(op="placeholder")
        for node in given[primals:]:
            given[0].prepend(node)
        output = module.graph.output_node()
        results: Any = output.args[0]
        head = results[0] if outputs is None else tuple(results[:outputs])
        output.args = ((head, list(results[outputs or 1 :])),)
        module.recompile()
        names = (f"function_{n}" for n in itertools.count())
        name = next(each for each in names if each not in self.writer.modules)
        self.writer.modules[name] = module
        made = self.writer.graph.create_node("get_attr", name)
        made.meta = dict(self.meta)
        return self.add(functools.partial, (made, *held)) if held else made

    @property
    def nesting(self) -> int:
        """How many calls of the same function it stands in, itself among them."""
        return self.writer.open.count(self.node.target)

    @property
    def differentiated(self) -> bool:
        """Whether a result has a history."""
        results = self.node.meta.get("example_value", ())
        return any(getattr(result, "requires_grad", False) for result in results)

    def inline(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Writes what the body does; gives its results."""
        return tuple(self.writer.copy(self.body, given))

    def add(
        self, target: Any, args: tuple[Any, ...] = (), result: int | None = None, **settings: Any
    ) -> Node:
        """A call of a function, or a method by its name, that torch knows. It gives one of the results, or
        something in between."""
        name = None if result is None else self.variables.get(result)
        kind = "call_method" if type(target) is str else "call_function"
        made = self.writer.graph.create_node(kind, target, args, settings, name)
        made.meta = dict(self.meta)
        if "source_fn_stack" in made.meta:
            made.meta["source_fn_stack"] = [*made.meta["source_fn_stack"][:-1], (made.name, target)]
        return made if result is None else self.like(made, self.results[result])

    @property
    def results(self) -> tuple[Any, ...]:
        """What stood for them in the trace."""
        return tuple(self.node.meta["example_value"])

    def like(self, node: Node, value: Any) -> Node:
        """Notes what stood for a node in the trace."""
        node.meta["example_value"] = node.meta["val"] = value
        return node

    def operator(self, target: Any, args: tuple[Any, ...], **settings: Any) -> list[Node]:
        """A call of an operator of torch's that gives a tuple of just the results."""
        made = self.writer.graph.create_node("call_function", target, args, settings)
        made.meta = dict(self.node.meta)
        for called in made.meta.get("source_fn_stack", ())[-1:]:
            self.writer.written_as[called] = (made.name, target)
        count = len(self.results)
        return [self.add(operator.getitem, (made, n), result=n) for n in range(count)]


# ---- what a form that is run may leave behind


END_LEVEL: dict[Any, Callable[[], Any]] = {
    functorch.TransformType.Functionalize: functorch._func_decrement_nesting,
    functorch.TransformType.Grad: functorch._grad_decrement_nesting,
    functorch.TransformType.Jvp: functorch._jvp_decrement_nesting,
    functorch.TransformType.Vmap: functorch._vmap_decrement_nesting,
}
"""Transform -> what ends its innermost level."""


class TransformLevels:
    """The transforms that are open. Their forms begin and end them with calls of their own: what raises in
    between would leave them open, for all that comes after."""

    def __enter__(self) -> None:
        self.depth = functorch.get_dynamic_layer_stack_depth()
        self.inplace = functorch.get_inplace_requires_grad_allowed()
        self.forward = torch._C._is_fwd_grad_enabled()
        self.hooks = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            self.restore()

    def restore(self) -> None:
        jvps = 0
        while functorch.get_dynamic_layer_stack_depth() > self.depth:
            transform = functorch.peek_interpreter_stack().key()
            jvps += transform == functorch.TransformType.Jvp
            END_LEVEL[transform]()
        if jvps:
            with contextlib.suppress(RuntimeError):  # the outermost one has not come to begin it
                forward_ad.exit_dual_level(level=0)
        functorch.set_inplace_requires_grad_allowed(self.inplace)
        torch._C._set_fwd_grad_enabled(self.forward)
        if self.hooks is None:
            torch._C._autograd._saved_tensors_hooks_enable()


def leaving_no_levels(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """What a backend has made of a graph with forms; it may run them as they are."""

    def run(*args: Any) -> Any:
        with TransformLevels():
            return compiled(*args)

    return run
