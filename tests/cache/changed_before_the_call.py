"""The catalogue of mutations over processes: one keeps programs, another changes each before its first call.

Run with "keep" or "find", a folder for the programs, and which part of them: one of so many. For every change
the second process makes the program twice, one plainly and one compiled, and prints what differs. What it
captures is kept too, so that entries of one program in many states lie side by side.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
from mutation_programs import PROGRAMS, Program
from test_mutations import Twin

import framelift
from framelift.cache.writing import writer
from framelift.dispatch.shared_contexts import forget_shared


class Outcome(Twin):
    """A program in a file, called once, after a change if there is one."""

    def run_once(self, folder: Path, name: str, change: str | None) -> Any:
        file = folder / f"{name}.py"
        with self.stack:
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None and spec.loader is not None
            self.module = importlib.util.module_from_spec(spec)
            self.names = vars(self.module)
            self.names.update(stack=self.stack, patch=self.patch, switch=self.switch, put=self.put)
            self.put(sys.modules, name, self.module)
            self.put(sys.modules, "mutated", self.module)
            torch.manual_seed(0)
            spec.loader.exec_module(self.module)
            failed = "" if change is None else self.apply(change)
            self.callable = self.names["f"]
            if self.compiled:
                self.callable = framelift.compile(self.callable, backend="eager", fullgraph=self.fullgraph)
            seen = [failed, self.call()]
            if self.compiled:
                writer.flush()
            return seen


def main(mode: str, folder: Path, one_of: int) -> None:
    found: dict[str, Any] = {"different": [], "hits": 0, "calls": 0}
    for n, program in enumerate(PROGRAMS):
        if n % one_of:
            continue
        name = f"mutated{n}"
        if mode == "keep":
            (folder / f"{name}.py").write_text(program.source)
        changes = (*program.read, *program.unread) if mode == "find" else ()
        for change in (None, *changes, None):
            compare(program, name, folder, change, found)
    print(json.dumps(found))


def compare(program: Program, name: str, folder: Path, change: str | None, found: dict[str, Any]) -> None:
    expected = Outcome(program, compiled=False).run_once(folder, name, change)
    framelift.reset()
    forget_shared()
    framelift.counters.clear()
    outcome = Outcome(program, compiled=True, fullgraph=False).run_once(folder, name, change)
    found["hits"] += framelift.counters["cache"]["hit"] > 0
    found["calls"] += 1
    if outcome != expected:
        found["different"].append([program.name, change, repr(expected), repr(outcome)])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
