"""Operators that exports write down without running them: the graph is the one that torch's tracer makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.proxy_tensor import get_proxy_mode

import framelift
from exporting.check_export import check_export, same, saved_and_loaded
from framelift.exporting import program as program_module

FOUR = torch.arange(12.0).reshape(4, 3) / 5
PICTURE = torch.arange(96.0).reshape(2, 3, 4, 4) / 50
WHICH = torch.tensor([2, 0, 1])
CLASSES = torch.tensor([0, 2, 1, 1])
TABLE = torch.arange(15.0).reshape(5, 3)
MEAN, VARIANCE = torch.zeros(3), torch.ones(3)


class Training(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.relu(F.max_pool2d(self.norm(self.conv(x)), 3, 1, 1), inplace=True)


def in_place(x: torch.Tensor) -> Any:
    y = x * 2
    y += 1
    y.mul_(3).clamp_(max=2)
    y[0] = 5
    y[:, 1].add_(x[:, 2])
    return y, y.sum()


def written_into(x: torch.Tensor) -> Any:
    y, w = x * 2, torch.zeros(4, 3)
    y[1] = x[0]
    y[:, 0] = x[:, 1]
    y[..., 1:, :2] = x[1:, 1:]
    y[WHICH] = x[:3]
    y[0] = x[1, 2]
    y[1:3] = x[0]
    y[x > 2] = x[0, 0]
    w[:] = x
    w[0, 1] = 7.0
    w[0][1] = x.sum()
    y[:, 1] = torch.arange(4)
    return y, w, y.sum()


def several_results(x: torch.Tensor) -> Any:
    values, places = x.topk(2)
    first, second, third = x.chunk(3, 1)
    return values, tuple(places.float().max(0)), [first - third, second], x.split(1, 1)[0], torch.unbind(x)


def laid_out_anew(x: torch.Tensor) -> Any:
    y = x * 2
    z = y.t()
    y.t_()
    return y + 1, z + 1, y.unsqueeze_(0) * 2


def regions(x: torch.Tensor) -> Any:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        low = F.linear(x, torch.ones(2, 3))
        low = F.normalize(low @ torch.ones(2, 3))
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        apart = x.exp()
    return low, apart, torch.cond(x.sum() > 0, lambda x: x.sin() + x[0], lambda x: x - x[0], (x,))


PROGRAMS: dict[str, tuple[Any, torch.Tensor]] = {
    "arithmetic": (lambda x: (-x + 1) / (x.abs() + 2) @ x.mT - (2 - x) @ x.t() ** 2, FOUR),
    "comparisons": (lambda x: ((x > 1) & (x <= 2) | ~(x != 0), 1 < x, x == x), FOUR),
    "comparisons of sizes": (lambda x: (x.shape[0] < 9 - len(x), 1 < x, x > 1), FOUR),
    "indices": (lambda x: (x[0], x[1:, None, ::2], x[..., -1], x[WHICH], x[x > 1], x[:, WHICH]), FOUR),
    "layouts": (lambda x: (x.view(-1), x.reshape(2, 6).permute(1, 0), x.expand(2, 4, 3).flatten(1)), FOUR),
    "written into": (written_into, FOUR),
    "several results": (several_results, FOUR),
    "in place": (in_place, FOUR),
    "laid out anew": (laid_out_anew, FOUR),
    "the same tensor again": (lambda x: x.contiguous() + F.dropout(x, training=False) + x.to(x.dtype), FOUR),
    "types": (lambda x: (x.double(), x.to(torch.int64), x.bool().type_as(x), x.long() // 2), FOUR),
    "factories": (lambda x: x + torch.arange(3) + torch.zeros(3) + x.new_ones(3) + torch.rand_like(x), FOUR),
    "factories of a kind": (
        lambda x: (
            torch.full_like(x, 2.0),
            torch.eye(3),
            torch.ones(3, 2, dtype=torch.int64),
            torch.linspace(0, 1, 3),
        ),
        FOUR,
    ),
    "parts": (
        lambda x: (x.split([1, 2], 1), torch.split(x, 2), x.unflatten(0, (2, 2)), x.tensor_split(2)),
        FOUR,
    ),
    "pictures": (
        lambda x: (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, size=(3, 3), mode="bilinear"),
            F.pad(x, (1, 2)),
        ),
        PICTURE,
    ),
    "products": (
        lambda x: (
            torch.einsum("ij,ik->jk", x, x),
            torch.meshgrid(x[0], x[1], indexing="ij"),
            F.cross_entropy(x, CLASSES),
        ),
        FOUR,
    ),
    "constants": (lambda x: x + torch.tensor([1.0, 2, 3]) * torch.tensor(2), FOUR),
    "a clamp by tensors": (lambda x: torch.clamp(x, x.mean(), x.max()), FOUR),
    "functions of Python's": (
        lambda x: F.layer_norm(F.softmax(F.silu(x), -1), (3,)) + F.embedding(WHICH, TABLE)[0],
        FOUR,
    ),
    "functions that make several calls": (
        lambda x: F.normalize(F.pad(x, (1, 1))) + F.one_hot(WHICH, 5)[0],
        FOUR,
    ),
    "a division into parts": (lambda x: torch.einsum("ij,kj->ik", x, x) + F.cosine_similarity(x, x), FOUR),
    "regions and branches": (regions, FOUR),
    "a module in training": (Training(), PICTURE),
    "a module in eval mode": (Training().eval(), PICTURE),
    "attention": (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), PICTURE[0]),
    "recurrence": (nn.LSTM(3, 4, batch_first=True), FOUR[None]),
}


def nodes(program: ExportedProgram) -> list[Any]:
    """All that tools read of the graphs; numbers of modules and of autograd's nodes are new each time."""
    found = []
    for graph in (each.graph for each in program.graph_module.modules() if hasattr(each, "graph")):
        for node in graph.nodes:
            meta = dict(node.meta)
            value = [about(each) for each in torch.utils._pytree.tree_leaves(meta.pop("val", None))]
            stack = list(meta.pop("nn_module_stack", {}).values())
            origins = len(meta.pop("from_node", ()))
            rest = {key: str(kept) for key, kept in sorted(meta.items()) if key != "seq_nr"}
            call = str(node.target), str(node.args), str(node.kwargs)
            found.append((node.op, node.name, *call, value, stack, origins, "seq_nr" in meta, rest))
    return found


def about(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return str(value)
    numbers = str(value.shape), str(value.stride()), str(value.storage_offset())
    return *numbers, value.dtype, value.device, value.requires_grad


def traced_by_torch(
    monkeypatch: pytest.MonkeyPatch, export: Callable[[], ExportedProgram]
) -> ExportedProgram:
    with monkeypatch.context() as patch:
        patch.setattr(program_module, "lowered_when_traced", lambda module: module)
        return export()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_is_the_one_that_torch_traces(
    name: str, varies: bool, grad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, x = PROGRAMS[name]
    sizes = ({0: Dim.AUTO},) if varies else None

    def export() -> ExportedProgram:
        with torch.set_grad_enabled(grad):
            return framelift.export(program, (x,), dynamic_shapes=sizes)

    expected = nodes(traced_by_torch(monkeypatch, export))
    for _ in range(2):  # the second time nothing has to be found out
        assert nodes(export()) == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_artifact_does_what_the_program_does(name: str) -> None:
    program, x = PROGRAMS[name]
    if "factories" not in name:  # which draw
        check_export(program, (x,))


def test_statistics_that_a_batch_norm_only_reads_may_be_found_anywhere() -> None:
    program = check_export(lambda x: F.batch_norm(x, MEAN, VARIANCE), (FOUR,))
    assert len(program.constants) == 2


def test_an_error_says_nothing_of_how_the_graph_was_traced() -> None:
    @framelift.allow_in_graph
    def refuses(x: torch.Tensor) -> torch.Tensor:
        if get_proxy_mode() is not None:
            raise RuntimeError("only for real tensors")
        return x + 1

    with pytest.raises(Exception, match="only for real tensors") as raised:
        framelift.export(lambda x: refuses(x) * 2, (FOUR,))
    assert ".play]" not in str(raised.value)


def test_what_a_tensor_is_does_not_depend_on_writes_to_it() -> None:
    def fn(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(4, 3)
        y[:2] = weight
        return x + y

    weight = torch.ones(3, requires_grad=True)
    program = framelift.export(fn, (FOUR, weight))
    values = [node.meta["val"] for node in program.graph.nodes if node.op == "call_function"]
    assert not any(value.requires_grad for value in values if isinstance(value, torch.Tensor))
    same(fn(FOUR, weight), program.module()(FOUR, weight))


def test_tensors_of_the_program_stay_usable_when_it_indexes_them() -> None:
    table = torch.randn(4, 3)
    program = framelift.export(
        lambda x: x + table[0] + table[None][0, 1, :3] + table[1:].unbind()[0], (FOUR,)
    )
    assert table.untyped_storage().data_ptr() == table.data_ptr()
    same(FOUR + table[0] + 2 * table[1], saved_and_loaded(program).module()(FOUR))
