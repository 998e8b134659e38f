"""What programs have of torch's compiler by its own names means the same where Framelift is not installed."""

from __future__ import annotations

import pytest
import torch

import framelift
from check import check

dynamo = pytest.importorskip("torch._dynamo")

pytestmark = pytest.mark.skipif(
    not hasattr(dynamo, "patch_dynamo_config"), reason="this version of torch has no such decorators"
)


def block_of_errors(x):
    with dynamo.error_on_graph_break(True):
        return x + 1


def block_of_options(x):
    with dynamo.patch_dynamo_config(capture_scalar_outputs=True):
        return x + x.sum().item()


def block_by_name(x):
    with dynamo.patch_dynamo_config("capture_scalar_outputs", False):
        return x + 1


def other_blocks(x):
    with dynamo.disable_nested_graph_breaks(), dynamo.override_cudagraphs(fwd=False):
        return x * 2


def decorated(decorator):
    @decorator
    def scale(x):
        return x * 2

    return lambda x: scale(x) + 1


DECORATED = {
    "errors": lambda: decorated(dynamo.error_on_graph_break(True)),
    "options": lambda: decorated(dynamo.patch_dynamo_config(capture_scalar_outputs=True)),
    "skipping": lambda: decorated(dynamo.dont_skip_tracing),
    "nested breaks": lambda: decorated(dynamo.disable_nested_graph_breaks),
    "graphs of CUDA": lambda: decorated(dynamo.override_cudagraphs(fwd=False)),
}


@pytest.mark.parametrize("fn", [block_of_errors, block_of_options, block_by_name, other_blocks])
def test_blocks_are_captured_whole(fn):
    check(fn, torch.ones(3), calls=2)


def test_options_that_torchs_block_does_not_take_are_the_programs_error():
    def fn(x):
        with dynamo.patch_dynamo_config("recompile_limit", 3):
            return x + 1

    check(fn, torch.ones(3))


@pytest.mark.parametrize("name", DECORATED)
def test_decorated_functions_are_captured_whole(name):
    check(DECORATED[name](), torch.ones(3), calls=2)


def test_breaks_are_errors_where_torchs_block_says_so():
    @dynamo.error_on_graph_break(True)
    def inner(x):
        framelift.graph_break()
        return x

    def outer(x):
        with dynamo.error_on_graph_break(False):
            framelift.graph_break()
        return inner(x) + 1

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(outer, backend="eager")(torch.ones(2))


def test_numbers_of_data_are_captured_where_torchs_block_asks_for_them():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = framelift.compile(block_of_options, backend=backend)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 4.0))
    assert len(graphs) == 1
