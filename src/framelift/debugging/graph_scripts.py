"""A graph and its inputs as a script that stands on its own."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.fx
from torch.fx.graph_module import _format_import_block
from torch.package import sys_importer

from framelift.debugging.inputs import has_storage, rand_strided
from framelift.dispatch import backends
from framelift.dispatch.compile_contexts import Graph

INPUTS = "inputs.pt"


class NoScript(Exception):
    """The graph calls something that can't be imported."""


@dataclass(frozen=True)
class Script:
    """A script, and the file with inputs that lies beside it, if it needs one."""

    text: str
    inputs: list[Any] | None = None

    def save(self, folder: str | Path, name: str = "repro.py") -> Path:
        """Writes it into a folder, which is made if need be."""
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.inputs is not None:
            torch.save(self.inputs, path.with_name(INPUTS))
        path.write_text(self.text, encoding="utf-8")
        return path


def module_source(graph: Graph, name: str = "Graph") -> tuple[str, str]:
    """(imports, source of a class whose `forward` is the graph; those of its bodies come before it)"""
    imports: dict[str, None] = {}
    classes: list[str] = []
    add_class(graph, name, imports, classes)
    source = "\n\n\n".join(classes)
    used = [line for line in imports if line == "import torch" or is_used(line, source)]
    return "\n".join(used), source


def is_used(line: str, source: str) -> bool:
    """Whether the name that an import makes is in the source: torch lists some that may not be."""
    bound = line.partition(" = ")[0] if " = " in line else line.split()[-1].partition(".")[0]
    return re.search(rf"\b{re.escape(bound)}\b", source) is not None


def add_class(graph: Graph, name: str, imports: dict[str, None], classes: list[str]) -> None:
    code = graph.graph.python_code("self")
    try:
        block = _format_import_block(code.globals, sys_importer)
    except Exception as error:
        raise NoScript(str(error)) from None
    imports.update(dict.fromkeys(line for line in block.splitlines() if line.strip()))
    lines = [f"class {name}(torch.nn.Module):"]
    bodies = [(child, each) for child, each in graph.named_children() if isinstance(each, Graph)]
    if bodies:
        lines += ["    def __init__(self):", "        super().__init__()"]
        for child, each in bodies:
            add_class(each, f"{name}_{child}", imports, classes)
            lines.append(f"        self.{child} = {name}_{child}()")
        lines.append("")
    lines += [f"    {line}".rstrip() for line in code.src.strip().splitlines()]
    classes.append("\n".join(lines))


def inputs_source(inputs: list[Any], seeded: bool) -> str:
    """A function `inputs()`: random numbers laid out as these are, or what lies in the file beside it."""
    if not seeded:
        loaded = f'torch.load(Path(__file__).with_name("{INPUTS}"), weights_only=False)'
        return f"def inputs():\n    return {loaded}"
    made = [f"        {input_source(each)}," for each in inputs]
    return "\n".join(["def inputs():", "    torch.manual_seed(0)", "    return [", *made, "    ]"])


def input_source(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    arguments = [str(tuple(value.shape)), str(value.stride()), str(value.dtype), repr(str(value.device))]
    if value.storage_offset():
        arguments.append(f"offset={value.storage_offset()}")
    if value.requires_grad:
        arguments.append("requires_grad=True")
    return f"rand_strided({', '.join(arguments)})"


def can_be_seeded(inputs: list[Any]) -> bool:
    """Whether each can be made anew with another content: none shares its memory with another."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not all(has_storage(x) and not (x.is_conj() or x.is_neg()) for x in tensors):
        return False
    memory = [x.untyped_storage().data_ptr() for x in tensors if x.numel()]
    return len(set(memory)) == len(memory)


def seeded_inputs(inputs: list[Any]) -> list[Any]:
    """What the function of `inputs_source` gives."""
    names: dict[str, Any] = {"torch": torch, "rand_strided": rand_strided}
    exec(inputs_source(inputs, seeded=True), names)
    with torch.random.fork_rng(devices=[]):
        found: list[Any] = names["inputs"]()
    return found


def backend_source(backend: Any, name: str) -> tuple[str, str]:
    """(an import, an expression) for a backend: its name, or where it can be imported from."""
    if backends._registered.get(name) is backend:
        return "", repr(name)
    module, path = getattr(backend, "__module__", ""), getattr(backend, "__qualname__", "")
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if module == "__main__" and path.isidentifier() and file is not None:
        ran = f'runpy.run_path({os.path.abspath(file)!r}, run_name="backend")["{path}"]'
        return f"import runpy\n\n{path} = {ran}", path
    if not module or module == "__main__" or not path.isidentifier():
        return f"# {name} can't be imported; put what makes it here", "None"
    return f"from {module} import {path}", path
