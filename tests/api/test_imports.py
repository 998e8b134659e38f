"""What a program does not use is not imported."""

import subprocess
import sys

import pytest

COMPILERS = ("torch._dynamo", "torch._inductor")
"""What torch compiles with; importing these takes seconds."""

PROGRAMS = {
    "the name": "",
    "elementwise operators": """
f = compile(lambda x: torch.nn.functional.gelu(x.sin() + 1).sum(), backend="eager", fullgraph=True)
assert f(x) == torch.nn.functional.gelu(x.sin() + 1).sum()
""",
    "numbers that become tensors": """
def f(x):
    y = x.clone()
    y[0] = 1
    return torch.cat([y, torch.zeros(2, 4)]).softmax(-1), torch.where(x > 0, x, 0.5)
compiled = compile(f, backend="eager", fullgraph=True)
assert all(map(torch.equal, compiled(x), f(x)))
""",
    "attention and its gradients": """
layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
f = compile(model, backend="eager", fullgraph=True)
f(x[None]).sum().backward()
""",
    "convolutions": """
layers = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
model = compile(torch.nn.Sequential(*layers), backend="eager", fullgraph=True)
model(torch.randn(2, 3, 8, 8)).mean().backward()
""",
    "a break": """
def f(x):
    y = x + 1
    print(end="")
    return y * 2
assert torch.equal(compile(f, backend="eager")(x), f(x))
""",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_torchs_compilers_are_not_imported(program):
    source = f"import sys, torch\nfrom framelift import compile\nx = torch.randn(3, 4)\n{PROGRAMS[program]}"
    source += f"\nprint([name for name in {COMPILERS} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stderr


def test_the_name_needs_no_symbols_and_no_tables():
    source = "import sys, torch\nbefore = set(sys.modules)\nfrom framelift import compile\n"
    source += "print({'sympy', 'rich', 'jinja2'} & (set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert run.stdout == "set()\n", run.stderr


NETWORK = "torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2, bias=False))"


@pytest.mark.parametrize("program", ["x + 1", "torch.nn.functional.gelu(x.sin() * 2)", "network(x)"])
def test_sympy_is_imported_only_when_torchs_kernels_for_fakes_are_asked(program):
    source = "import sys, torch\nfrom framelift import compile\nx = torch.randn(3, 4)\n"
    source += f"torch.set_grad_enabled(False)\nnetwork = {NETWORK}\n"
    source += f"f = lambda x: {program}\nassert torch.equal(compile(f, backend='eager')(x), f(x))\n"
    source += "print('sympy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr


def test_what_torchs_python_imports_while_it_is_traced_is_there():
    source = """
import torch
from framelift import compile
def f(x):
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    return x + 1 if issubclass(ShapeEnv, object) else x
x = torch.ones(3)
assert torch.equal(compile(f, backend="eager", fullgraph=True)(x), x + 1)
"""
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_front_end_that_comes_later_keeps_out_of_torchs_references():
    """Functions that it may not compile are called directly only until it is there."""
    source = """
import torch, framelift
f = lambda x: torch.nn.functional.gelu(x) + 1
x = torch.ones(3)
first = framelift.compile(f, backend="eager")(x)
import torch._dynamo
assert torch.equal(torch.compile(f, backend="eager")(x), first)
framelift.reset()
assert torch.equal(framelift.compile(f, backend="aot_eager")(x), first)
assert torch._refs.add(x, x)[0] == 2
"""
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
