"""A captured program as a module that is called as the program is.

Its placeholders are the leaves of the arguments; parameters and buffers are attributes by the names that
they have in the program's module, all of them, and so are other tensors that the program found somewhere.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.utils import _pytree as pytree

from framelift.core.errors import Unsupported
from framelift.exporting.capture import CapturedProgram, ProgramInput, Result
from framelift.exporting.signatures import Call
from framelift.exporting.size_checks import check_sizes, needed
from framelift.exporting.written_rows import count_from_start
from framelift.graph.builder import is_converted
from framelift.graph.op_memory import storage
from framelift.graph.origins import describe_nodes

ROOT_STACK = ""
"""The key of the module that is exported, in the stacks of modules that nodes have: torch puts its name for
it in front of all keys."""

ROOT_PATH = re.compile(r"^(?:[LG]\[['\"]\w+['\"]\]|self|target)\.?")
"""How the path of a module begins, whichever variable the module that is exported was found in."""


@dataclass
class State:
    """The tensors that a program has beside its arguments: parameters, buffers, constants."""

    root: torch.nn.Module | None
    names: dict[int, str] = field(default_factory=dict)
    """id of a tensor -> the name that it has."""
    held: dict[str, Any] = field(default_factory=dict)
    non_persistent: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.root is None:
            return
        for kind in (self.root.named_parameters, self.root.named_buffers):
            for name, tensor in kind(remove_duplicate=False):
                self.names.setdefault(id(tensor), name)
                self.held[name] = tensor
        for prefix, module in self.root.named_modules(remove_duplicate=False):
            at = f"{prefix}." if prefix else ""
            self.non_persistent |= {f"{at}{name}" for name in module._non_persistent_buffers_set}

    def is_buffer(self, name: str) -> bool:
        return name in self.held and not isinstance(self.held[name], torch.nn.Parameter)

    def constants(self) -> dict[int, str]:
        """Tensors that modules have as plain attributes."""
        found: dict[int, str] = {}
        for prefix, module in () if self.root is None else self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, (torch.Tensor, torch.ScriptObject)):
                    found.setdefault(id(value), f"{prefix}.{name}" if prefix else name)
        return found


class ModuleMaker:
    """Makes the module; `make` is all of it."""

    def __init__(self, call: Call, program: CapturedProgram, checks_sizes: bool) -> None:
        self.call, self.program, self.checks_sizes = call, program, checks_sizes
        self.graph = torch.fx.Graph()
        self.state = State(call.root)
        self.constant_names: dict[int, str] | None = None
        self.taken: set[str] | None = None
        """First parts of the names that are given, when one was asked for."""
        self.constants: dict[str, Any] = {}
        self.attributes: dict[str, torch.fx.Node] = {}
        self.leaves: list[torch.fx.Node] = []
        self.stack = {ROOT_STACK: ("", full_class_name(call))}
        self.described: dict[tuple[Any, Any], tuple[str, str]] = {}
        """A module in the stack of a node -> as torch.export writes it."""

    def make(self) -> torch.fx.GraphModule:
        call, program, graph = self.call, self.program, self.graph
        for path in call.paths:
            self.leaves.append(graph.placeholder(re.sub(r"\W+", "_", path).strip("_") or "arg"))
        at = {id(leaf): n for n, leaf in enumerate(call.leaves) if isinstance(leaf, torch.Tensor)}
        self.leaf_of = at
        new: dict[torch.fx.Node, torch.fx.Node] = {}
        for each in program.inputs:
            new[each.node] = self.input_node(each)
        if self.checks_sizes:
            self.add_size_checks()
        bodies = self.free_names()
        for node in program.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            made = new[node] = graph.node_copy(node, new.__getitem__)
            if made.op == "get_attr":
                made.target = bodies[str(node.target)]
            elif made.target is getattr and made.args[1] == "data":
                # of which torch's tracers make a tensor of their own
                made.op, made.target, made.args = "call_method", "detach", made.args[:1]
            else:
                count_from_start(made, program.memory_written)
        given: Any = program.graph.output_node().args[0]
        outputs = [new[node] if isinstance(node, torch.fx.Node) else node for node in given]
        results = self.assign(outputs, [self.result(result, outputs) for result in program.results])
        graph.output(tuple(results))
        spec = pytree.tree_flatten((*call.args, *call.kwargs.values()))[1]
        info = _PyTreeInfo(call.argument_names, spec, program.out_spec)
        graph.set_codegen(_PyTreeCodeGen(info))
        module = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph(), class_name=class_name(call))
        self.attach(module, {bodies[name]: body for name, body in program.modules.items()})
        vars(module)["_graph"], graph.owning_module = graph, module
        describe_nodes(module)
        for node in graph.nodes:
            if node.op in ("call_function", "call_method", "get_attr", "call_module"):
                node.meta["nn_module_stack"] = self.stack_of(node)
        if self.checks_sizes:
            # torch.export matches arguments by name, and interprets the graph: no source is made of it
            set_signature(module, call.signature)
        else:
            module.recompile()
        module.train(call.root.training if call.root is not None else True)
        return module

    # ---- inputs

    def input_node(self, each: ProgramInput) -> torch.fx.Node:
        value, text = each.value, str(each.source)
        if not isinstance(value, torch.Tensor):
            if text in self.call.sources:
                return self.leaves[self.call.sources.index(text)]
            return self.attribute(self.constant_name(each), value)
        if id(value) in self.leaf_of:
            node = self.leaves[self.leaf_of[id(value)]]
            node.meta["tensor_dict"] = dict(vars(value))
            if is_converted(value):
                plain: Any = torch.Tensor
                return self.graph.call_method("as_subclass", (node, plain))
            return node
        name = self.state.names.get(id(value)) or self.constant_name(each)
        node = self.attribute(name, value, each.node in self.program.written)
        node.meta.update(each.node.meta)
        return node

    def constant_name(self, each: ProgramInput) -> str:
        """A name for what the program found elsewhere than among the parameters and buffers of its module."""
        if self.constant_names is None:
            self.constant_names = self.state.constants()
        known = self.constant_names.get(id(each.value))
        if known is not None:
            return known
        base = re.sub(r"\W+", "_", str(each.source).removeprefix("target.")).strip("_") or "constant"
        name = self.constant_names[id(each.value)] = self.free_name(base)
        return name

    def free_name(self, base: str) -> str:
        """A name for a constant, that nothing in the module has."""
        if self.taken is None:
            root = self.state.root
            paths = [*self.state.held, *self.state.constants().values()]
            self.taken = {path.partition(".")[0] for path in paths} | set(
                () if root is None else root._modules
            )
        name, n = base, 0
        while name in self.taken or hasattr(torch.nn.Module, name) or name == "training":
            n += 1
            name = f"{base}_{n}"
        self.taken.add(name)
        return name

    def attribute(self, name: str, value: Any, is_written: bool = False) -> torch.fx.Node:
        """A node for a tensor of the artifact's own."""
        if name not in self.state.held:
            if isinstance(value, torch.nn.Parameter) or (is_written and self.is_of_module(value)):
                self.state.held[name] = value
                self.state.non_persistent |= set() if isinstance(value, torch.nn.Parameter) else {name}
            elif is_written:
                raise Unsupported(
                    f"{self.call.name} can't be exported: it changes the tensor {name}, which is neither an "
                    "argument nor a part of the module.\n"
                    "  Hint: pass it as an argument, or make it a buffer of the module."
                )
            else:
                self.constants[name] = value
        if name not in self.attributes:
            self.attributes[name] = self.graph.get_attr(name)
        return self.attributes[name]

    def is_of_module(self, value: Any) -> bool:
        return id(value) in self.state.constants()

    def free_names(self) -> dict[str, str]:
        """Names for the graphs within, that no attribute has."""
        taken = {name.partition(".")[0] for name in (*self.state.held, *self.constants)}
        names: dict[str, str] = {}
        for name in self.program.modules:
            free = name
            while free in taken:
                free = f"{free}_body"
            names[name] = free
            taken.add(free)
        return names

    def add_size_checks(self) -> None:
        program = self.program
        facts = needed(program.facts, program.reads)
        if not facts:
            return
        given = []
        for read in program.reads:
            value, source = program.symbol_values[read.input], str(program.symbol_sources[read.input])
            at = (
                self.leaf_of.get(id(value))
                if isinstance(value, torch.Tensor)
                else self.call.sources.index(source)
            )
            given.append(self.leaves[at] if at is not None else value)
        reads = [(read.kind, read.dim) for read in program.reads]
        self.graph.call_function(check_sizes, (facts, reads, *given))

    # ---- results

    def result(self, result: Result, outputs: list[Any]) -> Any:
        if result.output is not None:
            return outputs[result.output]
        return self.outside(result.value) if result.is_input else result.value

    def outside(self, value: torch.Tensor) -> torch.fx.Node:
        """The node of a tensor that came in, and goes out as it is."""
        if id(value) in self.leaf_of:
            return self.leaves[self.leaf_of[id(value)]]
        name = self.state.names.get(id(value)) or self.state.constants().get(id(value))
        if name is None:
            name = next((name for name, held in self.constants.items() if held is value), None)
        if name is None:
            name = self.free_name(f"constant_{len(self.constants)}")
        return self.attribute(name, value)

    def assign(self, outputs: list[Any], results: list[Any]) -> list[Any]:
        """Copies what buffers were given into them, when all else is done. Whatever shares their memory is
        copied before, since it was meant to stay as it is."""
        graph, assigned = self.graph, self.program.assignments
        if not assigned:
            return results
        latest = {each.name: each for each in assigned}.values()
        values = [
            outputs[each.output] if each.output is not None else self.outside(each.value) for each in latest
        ]
        targets = [self.attribute(each.name, each.buffer) for each in latest]
        copies: dict[Any, Any] = {}

        def kept(value: Any) -> Any:
            if not isinstance(value, torch.fx.Node) or not may_share(value, targets):
                return value
            if value not in copies:
                copies[value] = graph.call_method("clone", (value,))
            return copies[value]

        values, results = [kept(value) for value in values], [kept(result) for result in results]
        for target, value in zip(targets, values, strict=True):
            graph.call_method("copy_", (target, value))
        return results

    # ---- the module

    def stack_of(self, node: torch.fx.Node) -> dict[str, tuple[str, str]]:
        """The modules that a node comes from, outermost first, as torch.export writes them."""
        made = dict(self.stack)
        for key, (path, cls) in (node.meta.get("nn_module_stack") or {}).items():
            found = self.described.get((path, cls))
            if found is None:
                name = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
                found = self.described[path, cls] = ROOT_PATH.sub("", str(path)), name
            if found[0]:
                made[key] = found
        return made

    def is_unused_name_of_written(self, name: str, value: Any) -> bool:
        """Whether the graph writes to a tensor, by another name: torch takes two names for two tensors that
        share memory."""
        written = {id(each.value) for each in self.program.inputs if each.node in self.program.written}
        return id(value) in written and name not in self.attributes

    def attach(self, module: torch.fx.GraphModule, bodies: dict[str, torch.fx.GraphModule]) -> None:
        places: dict[str, torch.nn.Module] = {"": module}
        originals = (
            {} if self.state.root is None else dict(self.state.root.named_modules(remove_duplicate=False))
        )
        made: dict[int, torch.nn.Module] = {}

        def place(path: str) -> torch.nn.Module:
            if path not in places:
                above, _, name = path.rpartition(".")
                original = originals.get(path)
                known = made.get(id(original)) if original is not None else None
                places[path] = known if known is not None else torch.nn.Module()
                made[id(original)] = places[path]
                place(above)._modules[name] = places[path]
            return places[path]

        for path in originals:
            place(path)
        for name, value in (*self.state.held.items(), *self.constants.items()):
            if self.is_unused_name_of_written(name, value):
                continue
            path, _, last = name.rpartition(".")
            owner = place(path)
            if isinstance(value, torch.nn.Parameter):
                owner._parameters[last] = value
            elif name in self.state.held:
                owner._buffers[last] = value
                if name in self.state.non_persistent:
                    owner._non_persistent_buffers_set.add(last)
            else:
                vars(owner)[last] = value
        for name, body in bodies.items():
            module._modules[name] = body


def may_share(value: torch.fx.Node, targets: list[torch.fx.Node]) -> bool:
    """Whether a node gives memory of one of the targets."""
    memory = memory_of(value)
    return value in targets or (memory is not None and memory in map(memory_of, targets))


def memory_of(node: torch.fx.Node) -> Any:
    fake = node.meta.get("example_value")
    return storage(fake) if isinstance(fake, torch.Tensor) else None


def class_name(call: Call) -> str:
    cls = type(call.root) if call.root is not None else None
    name = cls.__name__ if cls is not None else getattr(call.target, "__name__", "program")
    return re.sub(r"\W+", "_", name).strip("_") or "program"


def full_class_name(call: Call) -> str:
    if call.root is None:
        return class_name(call)
    return f"{type(call.root).__module__}.{type(call.root).__qualname__}"


def set_signature(module: torch.fx.GraphModule, signature: inspect.Signature) -> None:
    """The module says that it is called as the program is, for those who match arguments by name."""
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
    ]
    if plain and plain[0].name == "self":
        this = this.replace(name="_self")
    forward: Any = type(module).forward
    forward.__signature__ = inspect.Signature([this, *plain])


def sizes_module(call: Call, program: CapturedProgram) -> torch.fx.GraphModule:
    """A module that is called as the program is, and only checks what that relies on of sizes."""
    leaf = pytree.treespec_leaf()
    nothing = dataclasses.replace(
        program,
        graph=torch.fx.Graph(),
        modules={},
        inputs=[],
        results=[Result(value=None)],
        out_spec=leaf,
        assignments=[],
    )
    nothing.graph.output(())
    return ModuleMaker(call, nothing, checks_sizes=True).make()


def program_module(call: Call, program: CapturedProgram, checks_sizes: bool = True) -> torch.fx.GraphModule:
    with call.stand_ins.in_module(call.root):
        return ModuleMaker(call, program, checks_sizes).make()
