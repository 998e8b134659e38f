"""Programs as artifacts: what is in them, and that they do what eager does."""

from __future__ import annotations

import copy
import dataclasses
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree
from transformers.modeling_outputs import BaseModelOutput

import framelift
from exporting.check_export import check_export, same
from framelift.exc import Unsupported, UserError

FOUR = torch.arange(12.0).reshape(4, 3)
OUTSIDE = torch.randn(3)


class Program(nn.Module):
    """A function as a module, with what it needs."""

    def __init__(self, fn: Any, **parts: Any) -> None:
        super().__init__()
        self.fn = fn
        for name, part in parts.items():
            if type(part) is torch.Tensor:
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(self, *args, **kwargs)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.third = self.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x)))


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 3))
        self.register_buffer("scale", torch.full((3,), 2.0), persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        before = self.kept
        self.kept = self.kept + x * self.scale
        return before, before.view(-1), self.kept


class Unsaved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = self.last + x.sum(0)
        return x + self.last


class Swapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a, self.b = self.b, self.a
        return x + self.a


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = torch.randn(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * OUTSIDE + self.held


class Regions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = self.layer(x)
        with torch.no_grad():
            apart = self.layer(x) + 1
        return low, apart


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.sum()
        return torch.cond(total > 0, lambda x: x * self.weight + total, lambda x: x - self.weight, (x,))


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: int


class Box:
    def __init__(self, content: torch.Tensor) -> None:
        self.content = content


torch.export.register_dataclass(Pair, serialized_type_name="framelift.tests.Pair")
pytree.register_pytree_node(
    Box,
    lambda box: ([box.content], None),
    lambda content, _: Box(*content),
    serialized_type_name="framelift.tests.Box",
    flatten_with_keys_fn=lambda box: ([(pytree.GetAttrKey("content"), box.content)], None),
    to_dumpable_context=lambda _: "",
    from_dumpable_context=lambda _: None,
)


torch.serialization.add_safe_globals([Pair, Box])


def keywords(self: Any, a: Any, *more: Any, b: Any = 2, c: Any, **others: Any) -> Any:
    return a + more[0] * b - c + others["z"]


@torch.library.custom_op("framelift_export::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def changes_input(self: Any, x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "a layer": (nn.Linear(3, 2), (FOUR,), {}),
    "tied parameters": (Tied(), (FOUR,), {}),
    "running statistics": (nn.BatchNorm1d(3), (FOUR,), {}),
    "running statistics in eval mode": (nn.BatchNorm1d(3).eval(), (FOUR,), {}),
    "a buffer that is assigned": (Cache(), (FOUR,), {}),
    "a buffer that is not saved, assigned": (Unsaved(), (FOUR,), {}),
    "buffers that are swapped": (Swapped(), (FOUR,), {}),
    "a buffer that is changed in place": (Counted(), (FOUR,), {}),
    "tensors found elsewhere": (Holding(), (FOUR,), {}),
    "a branch with free variables": (Branching(), (FOUR,), {}),
    "an input that is changed": (Program(changes_input), (FOUR,), {}),
    "keywords in any order": (Program(keywords), (FOUR, FOUR + 1), {"z": FOUR * 2, "c": FOUR * 3}),
    "a dataclass": (Program(lambda self, p: Pair(p.left * p.right, p.right)), (Pair(FOUR, 3),), {}),
    "a registered class": (Program(lambda self, b: {"box": Box(b.content * 2)}), (Box(FOUR),), {}),
    "an output of transformers": (
        Program(lambda self, x: BaseModelOutput(last_hidden_state=x * 2)),
        (FOUR,),
        {},
    ),
    "nested containers": (
        Program(lambda self, d: [d["a"][0] - d["a"][1], (d["b"],)]),
        ({"a": [FOUR, FOUR * 2], "b": FOUR},),
        {},
    ),
    "views and inputs as results": (Program(lambda self, x: (x, x.view(-1), None, 3)), (FOUR,), {}),
    "a custom operator": (Program(lambda self, x: twice(x) + 1), (FOUR,), {}),
    "sizes that data decide": (Program(lambda self, x: x.nonzero()), (FOUR,), {}),
    "no tensors": (Program(lambda self, x: 3), (FOUR,), {}),
    "the same tensor twice": (Program(lambda self, x, y: x - y), (FOUR, FOUR), {}),
    "random numbers": (nn.Dropout(), (FOUR,), {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_artifact_does_what_the_program_does(name: str) -> None:
    model, args, kwargs = PROGRAMS[name]
    check_export(model, args, kwargs)


def test_a_function_is_exported_as_a_module_would_be() -> None:
    program = check_export(lambda a, b=2: {"sum": a + b}, (FOUR,))
    assert [spec.kind for spec in program.graph_signature.input_specs] == [InputKind.USER_INPUT]


def test_a_bound_method_brings_its_modules_parameters() -> None:
    layer = nn.Linear(3, 2)
    assert list(check_export(layer.forward, (FOUR,)).state_dict) == ["weight", "bias"]


def kinds(program: torch.export.ExportedProgram) -> dict[Any, Any]:
    return {spec.target: spec.kind for spec in program.graph_signature.input_specs if spec.target}


def test_the_signature_names_parameters_buffers_and_constants_as_the_module_does() -> None:
    assert kinds(check_export(Tied(), (FOUR,))) == {
        "first.weight": InputKind.PARAMETER,
        "second.weight": InputKind.PARAMETER,
        "second.bias": InputKind.PARAMETER,
        "third.weight": InputKind.PARAMETER,
    }
    assert kinds(check_export(Cache(), (FOUR,))) == {"kept": InputKind.BUFFER, "scale": InputKind.BUFFER}
    found = check_export(Holding(), (FOUR,))
    assert set(kinds(found).values()) == {InputKind.CONSTANT_TENSOR} and found.constants["held"].shape == (3,)


def test_the_state_is_that_of_the_module() -> None:
    model = Tied()
    program = framelift.export(model, (FOUR,))
    assert set(program.state_dict) == set(model.state_dict())
    assert program.state_dict["second.weight"] is model.first.weight
    assert "scale" not in framelift.export(Cache(), (FOUR,)).state_dict


def test_what_is_changed_is_in_the_signature_of_the_decomposed_program() -> None:
    specs = check_export(Counted(), (FOUR,)).run_decompositions().graph_signature.output_specs
    assert [spec.kind for spec in specs] == [OutputKind.BUFFER_MUTATION, OutputKind.USER_OUTPUT]
    specs = check_export(Program(changes_input), (FOUR,)).run_decompositions().graph_signature.output_specs
    assert [spec.kind for spec in specs] == [OutputKind.USER_INPUT_MUTATION, OutputKind.USER_OUTPUT]


def test_autocast_and_grad_mode_are_regions() -> None:
    program = framelift.export(Regions(), (FOUR,))
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert torch.ops.higher_order.wrap_with_autocast in targets
    assert torch.ops.higher_order.wrap_with_set_grad_enabled in targets


def test_exporting_changes_nothing() -> None:
    model = Cache()
    given = FOUR.clone()
    framelift.export(model, (given,))
    assert torch.equal(model.kept, torch.zeros(4, 3)) and torch.equal(given, FOUR)
    assert not torch.compiler.is_exporting()


def test_a_program_may_ask_whether_it_is_exported() -> None:
    model = Program(lambda self, x: x + 1 if torch.compiler.is_exporting() else x - 1)
    assert torch.equal(framelift.export(model, (FOUR,)).module()(FOUR), FOUR + 1)


def test_another_constant_or_size_is_an_error_of_the_call() -> None:
    module = check_export(Program(lambda self, x, n: x * n), (FOUR, 5)).module()
    for given in ((FOUR, 6), (torch.ones(5, 3), 5)):
        with pytest.raises((AssertionError, RuntimeError), match=r"Guard failed|expected"):
            module(*given)


# ---- what can't be exported


def counts(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.count = x.shape[0]
    return x


def appends(self: Any, x: torch.Tensor, into: list[Any]) -> torch.Tensor:
    into.append(x.shape[0])
    return x * 2


def branches(self: Any, x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x
    return -x


def changes_outside(self: Any, x: torch.Tensor) -> torch.Tensor:
    return OUTSIDE.add_(x[0])


REFUSED = {
    "an attribute": (counts, (FOUR,), r"self\.count"),
    "a list among the arguments": (appends, (FOUR, [1]), r"extend"),
    "a tensor that is neither given nor the module's": (changes_outside, (FOUR,), r"OUTSIDE"),
    "a branch on data": (branches, (FOUR,), r"(?s)data-dependent branch.*torch.cond.*test_export.py"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_artifact_can_do_is_an_error_that_says_what_and_where(name: str) -> None:
    fn, args, said = REFUSED[name]
    before = OUTSIDE.clone()
    with pytest.raises(Unsupported, match=said):
        framelift.export(Program(fn), args)
    assert torch.equal(OUTSIDE, before)


def test_changes_outside_are_left_out_if_that_is_asked_for() -> None:
    model = Program(counts)
    with pytest.warns(UserWarning, match=r"self\.count"):
        program = framelift.export(model, (FOUR,), strict=False)
    assert torch.equal(program.module()(FOUR), FOUR) and not hasattr(model, "count")


def test_what_is_set_back_is_no_change() -> None:
    def sets(self: Any, x: torch.Tensor) -> torch.Tensor:
        before, self.flag = self.flag, True
        result = x * 2 if self.flag else x
        self.flag = before
        return result

    model = Program(sets)
    model.flag = False
    check_export(model, (FOUR,))


def test_what_the_program_raises_is_raised() -> None:
    def fails(self: Any, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("none of these")

    with pytest.raises(KeyError, match="none of these"):
        framelift.export(Program(fails), (FOUR,))


LAYER = nn.Linear(3, 2)
WRONG: dict[str, tuple[Any, str]] = {
    "no callable": (lambda: framelift.export(3, (FOUR,)), "not a int"),
    "a class": (lambda: framelift.export(nn.Linear, (FOUR,)), "not the class Linear"),
    "arguments that are no tuple": (lambda: framelift.export(LAYER, [FOUR]), "args must be a tuple"),
    "keywords that are no dictionary": (lambda: framelift.export(LAYER, (), [FOUR]), "must be a dictionary"),
    "too many arguments": (lambda: framelift.export(LAYER, (FOUR, FOUR)), "too many positional arguments"),
    "a type of numbers": (
        lambda: framelift.export(Program(lambda self, x, t: x.to(t)), (FOUR, torch.float64)),
        "Program: Unsupported input type.*dtype",
    ),
    "an object": (lambda: framelift.export(LAYER, (object(),)), "input is a object.*register"),
    "a scripted module": (lambda: framelift.export(torch.jit.script(LAYER), (FOUR,)), "TorchScript"),
    "an object as the result": (
        lambda: framelift.export(lambda x: object(), (FOUR,)),
        "gives a object.*register",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_gets_a_sentence(name: str) -> None:
    call, said = WRONG[name]
    with pytest.raises(UserError, match=said):
        call()


PRINTING = """
import torch, framelift
class Printing(torch.nn.Module):
    def forward(self, x):
        print("not now")
        return x + 1
program = framelift.export(Printing(), (torch.ones(2),), strict=False)
print(program.module()(torch.ones(2)).tolist())
"""


def test_prints_are_left_out_where_nothing_was_compiled_before() -> None:
    path = str(Path(framelift.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", "-c", PRINTING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.stdout == "[2.0, 2.0]\n", done.stderr


def test_what_a_program_prints_is_left_out_unless_strict(capsys: pytest.CaptureFixture[str]) -> None:
    class Printing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            print("the result", y.shape, [y])
            return y

    with pytest.raises(framelift.exc.Unsupported, match="run-time effect: print"):
        framelift.export(Printing(), (FOUR,))
    program = framelift.export(Printing(), (FOUR,), strict=False)
    assert torch.equal(program.module()(FOUR), FOUR + 1)
    with framelift.install():
        installed = torch.export.export(Printing(), (FOUR,), strict=True)
    assert torch.equal(installed.module()(FOUR), FOUR + 1) and not capsys.readouterr().out
    compiled = framelift.compile(Printing(), backend="eager")
    compiled(FOUR)
    assert "the result" in capsys.readouterr().out, "exports have no part in it"


# ---- modules that are not as others


class Lazily(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.LazyLinear(3), nn.LazyBatchNorm1d()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x))


def test_lazy_modules_make_their_parameters() -> None:
    model = Lazily()
    program = framelift.export(model, (FOUR,), dynamic_shapes=({0: Dim.AUTO},))
    assert program.state_dict.keys() == model.state_dict().keys()
    assert "layer.weight" in program.graph_signature.parameters
    same(copy.deepcopy(model)(FOUR[:3]), program.module()(FOUR[:3]))
    model = Lazily()
    graph, _ = framelift.export(model)(FOUR)
    same(copy.deepcopy(model)(FOUR), graph(FOUR))


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("same", self.count)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.same


def test_a_buffer_of_two_names_is_changed_once() -> None:
    program = check_export(TwoNames(), (FOUR,))
    assert list(program.state_dict) == ["count", "same"]


DATA: dict[str, Any] = {
    "read": lambda x: x.data.mul(2) + x,
    "changed": lambda x: (x.data.add_(1), x * 2)[1],
    "changed inside": lambda x: (lambda y: (y.data.add_(1), y)[1])(x + 1),
}


@pytest.mark.parametrize("program", DATA.values(), ids=DATA)
def test_the_data_of_a_tensor_is_the_tensor_without_its_history(program: Any) -> None:
    check_export(Program(lambda self, x: program(x)), (FOUR,))
    for aten in (False, True):
        graph, _ = framelift.export(program, aten_graph=aten)(FOUR.clone())
        same(program(FOUR.clone()), graph(FOUR.clone()))


ZERO = torch.zeros(3, dtype=torch.int32)
QUANTISED: dict[str, Any] = {
    "per tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127) * 2,
    "by tensors": lambda x: torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.1), ZERO[0], -128, 127),
    "per channel": lambda x: torch.fake_quantize_per_channel_affine(x, torch.ones(3) / 8, ZERO, 1, -128, 127),
}


@pytest.mark.parametrize("program", QUANTISED.values(), ids=QUANTISED)
def test_what_quantisation_pretends_is_captured(program: Any) -> None:
    check_export(Program(lambda self, x: program(x)), (FOUR,))
    ours, eagers = FOUR.clone().requires_grad_(), FOUR.clone().requires_grad_()
    compiled = framelift.compile(program, backend="aot_eager", fullgraph=True)
    same(program(eagers), compiled(ours))
    program(eagers).sum().backward()
    compiled(ours).sum().backward()
    same(eagers.grad, ours.grad)


def test_numbers_that_python_draws_are_named() -> None:
    with pytest.raises(Unsupported, match=r"draws in each call: Random\.random"):
        framelift.export(Program(lambda self, x: x * random.random()), (FOUR,))


def test_constants_have_names_that_nothing_in_the_module_has() -> None:
    c, layer, training, forward = torch.randn(3), torch.randn(3), torch.randn(3), torch.randn(3)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c = torch.randn(3)
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> Any:
            return self.layer(x + c) + layer * self.c + training / forward, self.c, c

    check_export(Model(), (torch.randn(3),))
