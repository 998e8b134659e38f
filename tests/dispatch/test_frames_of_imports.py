"""What modules do as they are imported, which a compiled function may cause, is not compiled."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import framelift

MODULE = """
def grow(x):
    return x + 1

MADE = grow(grow(1))

class Found:
    size = [grow(n) for n in range(3)]
"""

FRONT_END = """
import sys, torch, framelift

given = torch.ones(3, requires_grad=True)

def fn(x):
    return torch.cond(x.sum() > 0, lambda x: x, lambda x: x, (x,))  # no operator takes such functions

assert "torch._dynamo" not in sys.modules
try:
    framelift.compile(fn, backend="eager")(given)
except RuntimeError:
    pass  # torch's compiler may refuse them too
assert "torch._dynamo" in sys.modules
print(dict(framelift.counters["graph_break"]))
"""


@pytest.mark.parametrize("way", ["import statement", "C code", "importlib"])
def test_what_a_module_does_as_it_is_imported(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "imported_in_a_compiled_function"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    reference = f"c{name}\nMADE\n.".encode()

    def fn(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        if way == "C code":
            made = pickle.loads(reference)
        elif way == "importlib":
            made = __import__("importlib").import_module(name).MADE
        else:
            made = __import__(name).MADE
        return x + made

    framelift.reset()
    assert torch.equal(framelift.compile(fn, backend="eager")(torch.ones(2)), torch.full((2,), 4.0))
    compiled = {record.name for record in framelift.compile_records()}
    assert all(each.endswith("fn") for each in compiled), compiled


def test_torchs_front_end_is_imported_in_a_compiled_function() -> None:
    """By torch's own `cond`, which compiles itself. Code that a capture needs is there only in part then."""
    ran = subprocess.run([sys.executable, "-c", FRONT_END], capture_output=True, text=True, check=True)
    assert "mistake" not in ran.stderr and "could not be asked" not in ran.stderr, ran.stderr
    breaks = ast.literal_eval(ran.stdout)  # modules may end captures of their own as they are imported
    assert breaks["functions that an operator can't be given"] == 1
