"""Calls of submodules whose signature is kept (`preserve_module_call_signature`).

While the program is captured, hooks of these modules mark what each call was given and what it gave, by
nodes of torch's own (`_export_tracepoint`). These go through torch's export as any node does; then the
signatures are read from them, and they are taken out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._export.passes.collect_tracepoints_pass import CollectTracepointsPass
from torch._export.wrappers import _export_tracepoint
from torch.export import ExportedProgram, ModuleCallSignature
from torch.utils import _pytree as pytree

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.errors import UserError
from framelift.exporting.capture import definite
from framelift.exporting.signatures import PLAIN, Call
from framelift.graph.symbols import SYMBOLIC
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame

INPUTS, OUTPUTS = "module_call_inputs", "module_call_outputs"
KINDS = {INPUTS: "in_spec", OUTPUTS: "out_spec"}


class ModuleCalls:
    """The calls of the modules at some paths."""

    def __init__(self, call: Call, paths: tuple[str, ...]) -> None:
        self.call = call
        self.modules = {path: submodule(call, path) for path in dict.fromkeys(paths)}
        self.specs: dict[str, dict[str, Any]] = {path: {} for path in self.modules}

    @contextlib.contextmanager
    def marked(self) -> Iterator[None]:
        """Within this, calls of the modules mark what they are given and give."""
        handles: list[Any] = []
        try:
            for path, module in self.modules.items():
                before, after = self.hooks(path)
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                handles.append(module.register_forward_hook(after, with_kwargs=True))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def hooks(self, path: str) -> tuple[Any, Any]:
        def before(module: Any, args: Any, kwargs: Any) -> None:
            mark(self, path, INPUTS, pytree.tree_flatten((args, kwargs)))

        def after(module: Any, args: Any, kwargs: Any, result: Any) -> None:
            mark(self, path, OUTPUTS, pytree.tree_flatten(result))

        for hook in (before, after):
            _frame.set_decision(hook.__code__, _frame.SKIP, _frame.INTERPRET)
        return before, after

    def note(self, path: str, kind: str, spec: Any) -> None:
        known = self.specs[path].setdefault(KINDS[kind], spec)
        if known != spec:
            raise UserError(
                f"{self.call.name}: calls of {path} differ in how they are called, so that no one signature "
                "can be kept"
            )

    def collect(self, program: ExportedProgram) -> ExportedProgram:
        """Reads the signatures from the marks, and takes these out of the program."""
        if not self.modules:
            return program
        missing = [path for path, found in self.specs.items() if not found]
        if missing:
            raise UserError(
                f"{self.call.name} does not call {', '.join(missing)}, of which the signature is to be kept"
            )
        signatures = {
            path: ModuleCallSignature(inputs=[], outputs=[], forward_arg_names=None, **found)
            for path, found in self.specs.items()
        }
        CollectTracepointsPass(signatures, program.graph_signature)(program.graph_module)
        program.graph_module.recompile()
        for entry in program.module_call_graph:
            entry.signature = signatures.get(entry.fqn, entry.signature)
        known = {entry.fqn for entry in program.module_call_graph}
        kind = type(program.module_call_graph[0])
        program.module_call_graph.extend(
            kind(fqn=path, signature=found) for path, found in signatures.items() if path not in known
        )
        return program


def submodule(call: Call, path: str) -> torch.nn.Module:
    found: Any = call.root
    for name in path.split(".") if path else ():
        found = getattr(found, name, None)
    if not path or not isinstance(found, torch.nn.Module):
        raise UserError(f"{call.name} has no submodule {path!r} whose signature could be kept")
    return found


def mark(calls: ModuleCalls, path: str, kind: str, flat: tuple[list[Any], Any]) -> None:
    """Marks a call; where nothing is captured, there is nothing to mark."""


@serve(mark)
def serve_mark(f: TraceFrame, /, calls: Any, path: Any, kind: Any, flat: Any) -> None:
    world: Any = f.world
    calls, path, kind, (leaves, spec) = opened(calls), opened(path), opened(kind), opened(flat)
    given = [world.materialize.for_torch(leaf) for leaf in opened(leaves)]
    for leaf in given:
        if type(leaf) in SYMBOLIC or not isinstance(leaf, (torch.Tensor, *PLAIN)):
            cls = type(leaf).__name__
            raise Break(breaks.GRAPH_ARGUMENT, f"preserve_module_call_signature: {path} with a {cls}")
    calls.note(path, kind, definite(spec, world))
    about = {"kind": kind, "path": path}
    world.recorder.builder.record(_export_tracepoint, tuple(given), about, None, pure=False)
