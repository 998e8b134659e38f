"""torch's private names: every use is in an area; one that is gone costs a feature, and never the import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from framelift.core import torch_names
from framelift.features import all as features


def test_every_name_that_is_used_is_in_an_area_and_there() -> None:
    used = torch_names.used()
    assert len(used) > 200
    assert not [use.name for use in used if use.area is None], "add it to an area of core/torch_names.py"
    begins = [begin for area in torch_names.AREAS for begin in area.begins]
    assert not [begin for begin in begins if not any(use.name.startswith(begin) for use in used)]
    assert not torch_names.DISABLED


def test_names_are_found_whatever_they_are_called() -> None:
    source = """
import torch
import torch.utils._pytree as trees
from torch import _C, nn
from torch._subclasses.fake_tensor import FakeTensor as Fake
trees.tree_flatten([]); _C._x.y(); nn.Module._call_impl; torch.nn.__version__; Fake.cache; x._private
"""
    found = set(torch_names.names_in(torch_names.ast.parse(source)))
    assert found == {
        *("torch.utils._pytree", "torch._C", "torch._subclasses.fake_tensor.FakeTensor"),
        *("torch.utils._pytree.tree_flatten", "torch._C._x.y", "torch.nn.Module._call_impl"),
        "torch._subclasses.fake_tensor.FakeTensor.cache",
    }


def test_names_of_other_versions_are_known_by_what_looks_for_them() -> None:
    source = """
import torch.compiler
from torch import _C as core
if hasattr(torch.compiler, "_of_another_version") and hasattr(core, "_x"):
    torch.compiler._of_another_version()
"""
    tree = torch_names.ast.parse(source)
    assert set(torch_names.names_looked_for(tree)) == {"torch.compiler._of_another_version", "torch._C._x"}


@pytest.mark.parametrize("name", ["torch._C._not_there", "torch._not_there.x", "torch.nn.Module._not_there"])
def test_what_is_not_there_is_missing(name: str) -> None:
    assert not torch_names.is_there(name)


def ran(program: str) -> str:
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return process.stdout


WITHOUT_FEATURES = """
import importlib.abc, sys, logging

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in GONE:
            raise ImportError("cannot import name '_gone'", name="torch._gone")

sys.meta_path.insert(0, Missing())
import torch, torch.distributions, torch.utils.checkpoint
import framelift
from torch.func import grad, jvp, vmap
from torch.nn.attention.flex_attention import flex_attention

told = []
handler = logging.Handler()
handler.emit = lambda record: told.append(record.getMessage())
logging.getLogger("framelift").addHandler(handler)
torch.manual_seed(0)

layer = torch.nn.Linear(4, 4)

def step(x):
    layer.weight.grad = layer.bias.grad = None
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.9, foreach=True)
    layer(x).sum().backward()
    optimizer.step()
    return layer.weight.detach().clone()

@torch.compiler.nested_compile_region
def region(x):
    return torch.sin(x) * 2

def less(i, x):
    return i < 3

def later(score, b, h, i, j):
    return score + i

q = torch.randn(1, 2, 16, 8)
PROGRAMS = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)) * 2,
    "while_loop": lambda x: torch.while_loop(less, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)),
    "vmap": lambda x: vmap(lambda row: row * row.sum())(x) + 1,
    "grad": lambda x: grad(lambda x: (x * x).sum())(x) + 1,
    "jvp": lambda x: jvp(torch.sin, (x,), (x + 1,)),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x * 2, use_reentrant=False) + 1,
    "region": lambda x: region(x) + region(x + 1),
    "flex_attention": lambda x: flex_attention(q, q, q, score_mod=later) + x.sum(),
    "distributions": lambda x: torch.distributions.Normal(x, 1.0).log_prob(x + 1) * 2,
    "nested": lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged).sin().values() * 2,
    "step": step,
}

def leaves(value):
    return [value] if isinstance(value, torch.Tensor) else [leaf for one in value for leaf in leaves(one)]

for name, program in PROGRAMS.items():
    x = torch.arange(16.0).reshape(4, 4) - 3
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    expected = leaves(program(x))
    layer.load_state_dict(state)
    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        layer.load_state_dict(state)
        got = leaves(compiled(x))
        assert len(got) == len(expected) and all(map(torch.allclose, got, expected)), name
print(len(told), told[0])
"""
"""Programs that need the features, in a process that does not have these."""


def test_without_its_optional_features_programs_do_what_they_do_eagerly() -> None:
    gone = {f"framelift.features.{name}" for name in features.OPTIONAL}
    told = ran(f"GONE = {gone!r}\n{WITHOUT_FEATURES}").strip()
    count, _, first = told.partition(" ")
    assert int(count) >= len(gone)
    assert "is left out: torch has no torch._gone" in first


def test_without_a_name_that_captures_need_programs_run_plainly() -> None:
    program = """
import torch, warnings
del torch._C._get_tracing_state
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import framelift
    double = framelift.compile(lambda x: x * 2)
    assert double(torch.ones(2)).tolist() == [2, 2]
try:
    framelift.compile(double, fullgraph=True)
except ImportError as error:
    print(type(error).__name__, [str(one.message) for one in told if one.category is RuntimeWarning])
from framelift.cli import main
print(main(["doctor"]))
"""
    out = ran(program)
    assert out.startswith("TorchNameMissing ['Framelift runs programs as plain Python")
    assert "this torch has no torch._C._get_tracing_state" in out
    assert "FAILED  torch has the private names" in out and "MISSING torch._C._get_tracing_state" in out
    assert "state of the dispatcher" in out and out.endswith("1\n")
