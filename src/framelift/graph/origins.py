"""Where the nodes of a graph come from: lines, modules and variables of the program.

While a trace runs, a node gets an `Origin`: which frame recorded it, and at which instruction. That is no
text, and all nodes of a frame share what is known of its callers. The variables that nodes are named after
are found when a graph is closed (`name_after_variables`), from the instructions that follow. The texts that
tools read are made when a graph is handed to somebody who may read them (`describe_nodes`):

    stack_trace        the user's lines, outermost first, as Python writes a traceback
    nn_module_stack    the modules in whose calls the node was recorded: key -> (path, class)
    source_fn_stack    what was called: [(name, function or class of a module of torch's)]; within a body that
                       comes after the operators that the body is given to
    custom             what the program has annotated it with
    val                what also stands under `example_value`
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import traceback
import uuid
import weakref
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import torch.fx
from torch.fx import GraphModule

from framelift.bytecode.decode import RETURNED, Decoded
from framelift.core.breaks import Place

ORIGIN = "framelift_origin"
"""The key of a node's origin, until it is described."""
NO_NAME = re.compile(r"[^a-zA-Z0-9]+")
"""What of an expression can't be in a name, or would make it long."""
OWN_FILES = f"{Path(__file__).parents[1]}{os.sep}"
STANDARD_MODULES = ("torch.nn.modules.", "torch.ao.")
"""Where the modules are defined that stand for what they call."""
set_member = object.__setattr__
"""Sets an attribute by which graphs do not look for a node, which otherwise are told of it each time."""
LONGEST_NAME = 400
"""A key of a dictionary may be a text of any length."""


@functools.lru_cache(4096)
def name_of_input(source: str) -> str:
    """What an input is called that is found there: `L_x_` for `L['x']`."""
    return NO_NAME.sub("_", source)[:LONGEST_NAME]


class PathTexts(Protocol):
    def module_path(self, source: Any) -> str: ...


class CalledModule(NamedTuple):
    """A module whose `forward` a frame runs."""

    key: str
    texts: PathTexts
    source: Any
    """Where it is found; None: the program has made it."""
    cls: type

    @property
    def path(self) -> str:
        """As a user reads it: "L['self'].layers.0"."""
        return self.cls.__name__ if self.source is None else self.texts.module_path(self.source)


class Activation:
    """One frame of the program, and the frames that wait for it. It keeps nothing of them alive."""

    __slots__ = ("called_at", "code", "is_direct", "is_users", "module", "outer")

    def __init__(
        self,
        outer: Activation | None,
        called_at: int,
        is_direct: bool,
        code: Decoded,
        is_users: bool,
        module: CalledModule | None,
    ) -> None:
        self.outer = outer
        self.called_at = called_at
        """Which instruction of the outer frame waits for it."""
        self.is_direct = is_direct
        """Whether that instruction pushes what the frame returns: C code may have called it instead."""
        self.code = code
        self.is_users = is_users
        """Whether it runs code of the user's, and not of a library."""
        self.module = module


class Origin:
    """Where a node was recorded."""

    __slots__ = ("activation", "annotation", "at", "is_intermediate", "item", "name", "value")

    def __init__(self, activation: Activation, at: int, item: int | None = None) -> None:
        self.activation = activation
        self.at = at
        """The instruction."""
        self.item = item
        """Which item it is of what the instruction gives, if it is one."""
        self.annotation: dict[Any, Any] | None = None
        """What the program has annotated the node with (`torch.fx.traceback.annotate`)."""
        self.value: Any = None
        """What the node gives."""
        self.is_intermediate = False
        """Whether the same instruction recorded another node after it, which gives the result."""
        self.name = ""
        """What the node was called before it was named after a variable."""

    def of_item(self, key: Any) -> Origin:
        made = Origin(self.activation, self.at, key if self.item is None and type(key) is int else -1)
        made.annotation = self.annotation
        return made

    @property
    def variable(self) -> str | None:
        """The variable that the program keeps the value in."""
        if self.is_intermediate:
            return None
        activation, found = self.activation, self.activation.code.result_at(self.at)
        while found is RETURNED and activation.is_direct and activation.outer is not None:
            at, activation = activation.called_at, activation.outer
            found = activation.code.result_at(at)
        if self.item is None:
            return found if type(found) is str else None
        return found[self.item] if type(found) is tuple and 0 <= self.item < len(found) else None

    def slot_holds_value(self, fast: list[Any]) -> bool:
        """Whether the frame has stored the node's value since."""
        name = self.activation.code.result_at(self.at)
        names = self.activation.code.names
        return type(name) is str and name in names and fast[names.index(name)] is self.value


# ---- names


def variable_of(node: torch.fx.Node) -> str:
    """The variable that holds what a node gives, or else the node's name."""
    origin = node.meta.get(ORIGIN) if node.op.startswith("call") else None
    return (origin and origin.variable) or node.name


def name_after_variables(graph: torch.fx.Graph) -> None:
    """Tensors that the program keeps in variables are called as these are."""
    for node in graph.nodes:
        origin = node.meta.get(ORIGIN)
        if origin is not None and not origin.name and node.op.startswith("call"):
            origin.name = node.name
            if isinstance(node.meta.get("example_value"), torch.Tensor):
                variable = origin.variable
                if variable is not None and variable.isidentifier() and variable != "self":
                    node._rename(variable)


# ---- texts


class InputSource:
    """Where an input of a graph is found, as tools ask for it: `source.name`, or in other versions of torch
    `source.name()`, is an expression over L, the variables of the frame, and G, its globals."""

    def __init__(self, name: str) -> None:
        self.name = CallableText(name)

    def __repr__(self) -> str:
        return f"<source {self.name!s}>"


class CallableText(str):
    def __call__(self) -> str:
        return str(self)


def nothing() -> None:
    pass


class GraphArgument(NamedTuple):
    """What is noted of a placeholder under "grapharg"."""

    source: InputSource
    is_tensor: bool
    fake_tensor: Any = None
    """What stood for it in the trace."""
    pass_arg_as_tensor: bool = False
    """Whether it is a number, which the graph takes as a tensor."""
    found: Callable[[], Any] = nothing
    """Gives what came in, as long as the program keeps it."""

    @property
    def example(self) -> Any:
        return self.found()

    def of(self, value: Any, stand_in: Any) -> GraphArgument:
        """With what came in, of which nothing is kept alive."""
        if isinstance(value, torch.Tensor):
            as_tensor = not self.is_tensor
            return self._replace(fake_tensor=stand_in, pass_arg_as_tensor=as_tensor, found=weakref.ref(value))
        return self._replace(found=lambda: stand_in)

    def size(self, dim: int, symbol: Any) -> GraphArgument:
        """For one of its sizes."""
        source = InputSource(f"{self.source.name!s}.size()[{dim}]")
        return GraphArgument(source, is_tensor=False, found=lambda: symbol)


_numbers = itertools.count(1)


@functools.cache
def name_of_process() -> str:
    return str(uuid.uuid4()).replace("-", "_")


os.register_at_fork(after_in_child=name_of_process.cache_clear)


def name_of_graph(module: torch.fx.GraphModule) -> str:
    """What logs and tools call a graph, by which a text finds it again: `__compiled_fn_3_...`."""
    found: str | None = module.meta.get("backend_id")
    if found is None:
        found = module.meta["backend_id"] = f"__compiled_fn_{next(_numbers)}_{name_of_process()}"
    return found


def describe_nodes(module: torch.fx.GraphModule) -> None:
    """Puts the texts that tools read in the place of the origins, in all graphs of a module."""
    Descriptions().describe(module, [])


def name_sources(module: torch.fx.GraphModule, inputs: Sequence[Any] = ()) -> None:
    """Puts the sources of inputs where AOTAutograd and others look for them: copies of nodes lose them. As in
    torch's graphs, the parameter of the graph's function is the source with its capitals (`L_x_` of the node
    `l_x_`), and has the type of what comes in."""
    taken = {node.name for node in module.graph.nodes}
    for node, value in zip_longest(module.graph.find_nodes(op="placeholder"), inputs):
        argument = node.meta.get("grapharg")
        set_member(node, "_dynamo_source", None if argument is None else argument.source)
        if argument is None:
            continue
        if value is not None:
            node.meta["grapharg"] = argument.of(value, node.meta.get("example_value"))
        name = name_of_input(str(argument.source.name))
        if name not in taken and node.name.startswith(name.lower()):
            set_member(node, "target", name)
            taken.add(name)
        if argument.is_tensor:
            is_parameter = isinstance(value, torch.nn.Parameter)
            set_member(node, "type", torch.nn.Parameter if is_parameter else torch.Tensor)
        elif isinstance(node.meta.get("example_value"), torch.SymInt):
            set_member(node, "type", torch.SymInt)


def name_bodies(module: torch.fx.GraphModule) -> None:
    """Bodies are numbered over the whole graph, those within first, as torch's front end numbers them:
    `cond_true_0` is within `cond_true_1`."""
    if any(isinstance(each, torch.fx.GraphModule) for each in module._modules.values()):
        BodyNumbers().put(module)


class BodyNumbers:
    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        """What bodies are called before their numbers -> how many are."""

    def put(self, module: torch.fx.GraphModule) -> None:
        names: dict[str, str] = {}
        for node in module.graph.nodes:
            fetched = [str(each.target) for each in node.all_input_nodes if each.op == "get_attr"]
            new = {each: module._modules.get(each) for each in fetched if each not in names}
            bodies = {name: body for name, body in new.items() if isinstance(body, GraphModule)}
            for body in bodies.values():
                self.put(body)
            for name in bodies:
                stem, _, number = name.rpartition("_")
                if stem and number.isdecimal():
                    names[name] = f"{stem}_{self.taken.setdefault(stem, 0)}"
                    self.taken[stem] += 1
        if any(name != new for name, new in names.items()):
            self.rename(module, names)

    def rename(self, module: torch.fx.GraphModule, names: dict[str, str]) -> None:
        held = dict(module._modules)
        module._modules.clear()
        module._modules.update({names.get(name, name): body for name, body in held.items()})
        nodes = [node for node in module.graph.find_nodes(op="get_attr") if node.target in names]
        others = {node.name for node in module.graph.nodes}.difference(node.name for node in nodes)
        for node in nodes:
            called = str(node.name) == str(node.target)  # the same body may be fetched more than once
            node.target = names[str(node.target)]
            if called and node.target not in others:
                node.name = node.target
                module.graph._graph_namespace._rename_object(node, node.name)
        module.recompile()


def forget_origins(module: torch.fx.GraphModule) -> None:
    """Nobody will ask any more where the nodes come from."""
    for graph in (each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)):
        for node in graph.nodes:
            node.meta.pop(ORIGIN, None)


class Descriptions:
    """Makes the texts of one graph and of those within it, each once."""

    def __init__(self) -> None:
        self.callers: dict[Activation, tuple[str, str]] = {}
        """Frame -> the lines of those that wait for it: (the user's, all)."""
        self.stacks: dict[Activation, dict[str, tuple[str, type]]] = {}
        """Frame -> the modules that are called there."""
        self.calls: dict[str, int] = {}
        """Module -> how often it was called before its last call."""

    def describe(self, module: torch.fx.GraphModule, around: list[tuple[str, Any]]) -> None:
        """`around`: the operators that the graph is given to."""
        held = module._modules
        bodies = {name for name, each in held.items() if isinstance(each, torch.fx.GraphModule)}
        for node in module.graph.nodes:
            origin = node.meta.pop(ORIGIN, None)
            if origin is None:
                continue
            meta, activation = node.meta, origin.activation
            meta["stack_trace"] = self.stack_trace(activation, origin.at)
            if origin.annotation and node.op != "placeholder":
                meta["custom"] = dict(origin.annotation)
            modules = self.modules_of(activation)
            if modules:
                meta["nn_module_stack"] = dict(modules)
            if "example_value" in meta:
                meta.setdefault("val", meta["example_value"])
            if node.op.startswith("call"):
                called = (origin.name or node.name, self.function_of(node, modules))
                meta["source_fn_stack"] = [*around, called]
                for given in node.all_input_nodes if bodies else ():
                    if given.op == "get_attr" and given.target in bodies:
                        body: Any = held[given.target]
                        self.describe(body, meta["source_fn_stack"])

    def stack_trace(self, activation: Activation, at: int) -> str:
        users, whole = self.lines_of_callers(activation)
        line = self.line(activation.code, at)
        return (users + line if activation.is_users else users) or whole + line

    def lines_of_callers(self, activation: Activation) -> tuple[str, str]:
        found = self.callers.get(activation)
        if found is None:
            outer = activation.outer
            found = "", ""
            if outer is not None:
                users, whole = self.lines_of_callers(outer)
                line = self.line(outer.code, activation.called_at)
                found = users + line if outer.is_users else users, whole + line
            self.callers[activation] = found
        return found

    def line(self, code: Decoded, at: int) -> str:
        found = code.texts.get(at)
        if found is None:
            place = code.place(at)
            is_own = place.code.co_filename.startswith(OWN_FILES)  # such as what enters a module of torch's
            found = code.texts[at] = "" if is_own else as_traceback(place)
        return found

    def modules_of(self, activation: Activation) -> dict[str, tuple[str, type]]:
        """Outermost first."""
        found = self.stacks.get(activation)
        if found is None:
            found = {} if activation.outer is None else self.modules_of(activation.outer)
            module = activation.module
            if module is not None and all(key.partition("@")[0] != module.key for key in found):
                found = {**found, self.key_of_call(module.key): (module.path, module.cls)}
            self.stacks[activation] = found
        return found

    def key_of_call(self, key: str) -> str:
        """Calls of one module are told apart by a number: "key", "key@1", "key@2"."""
        calls = self.calls[key] = self.calls.get(key, -1) + 1
        return f"{key}@{calls}" if calls else key

    def function_of(self, node: torch.fx.Node, modules: dict[str, tuple[str, type]]) -> Any:
        """A module of torch's own stands for what it calls."""
        _, cls = next(reversed(modules.values()), ("", None))
        if cls is None or not cls.__module__.startswith(STANDARD_MODULES):
            return node.target
        return node.target if cls.__module__ == "torch.nn.modules.container" else cls


def as_traceback(place: Place) -> str:
    """As Python writes it."""
    name = place.code.co_qualname.rpartition(".")[2]
    start, end = place.columns
    about: Any = {"end_lineno": place.end_line, "colno": start, "end_colno": end}
    summary = traceback.FrameSummary(place.code.co_filename, place.line, name, **about)
    return traceback.StackSummary().format_frame_summary(summary)


def innermost(stack_trace: str | None) -> str:
    """The last place of a stack trace, without its text: 'File "model.py", line 3, in forward'."""
    places = [line for line in (stack_trace or "").splitlines() if line.startswith('  File "')]
    return places[-1].strip() if places else ""
