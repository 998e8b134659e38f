"""Captures a Hugging Face model, compiles it with the default backend, and shows what happened.

The model is a BERT made from a config, with random weights: nothing is downloaded.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
import transformers
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from transformers import BertConfig, BertModel

import framelift

CALLS = 30
SHOWN = 6
console = Console()


def make_model() -> tuple[BertModel, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=2000, hidden_size=256, num_attention_heads=4, intermediate_size=1024, num_hidden_layers=4
    )
    inputs = {
        "input_ids": torch.randint(0, 2000, (2, 64)),
        "attention_mask": torch.ones(2, 64, dtype=torch.long),
    }
    return BertModel(config).eval(), inputs


def seconds(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def main() -> None:
    model, inputs = make_model()
    parameters = sum(p.numel() for p in model.parameters())
    versions = [f"torch {torch.__version__}", f"transformers {transformers.__version__}"]
    versions += [f"Python {platform.python_version()}"]
    console.print(f"[bold]framelift[/] {version('framelift')}, {', '.join(versions)}")
    console.print(f"BERT, {model.config.num_hidden_layers} layers, {parameters / 1e6:.1f} M parameters\n")

    with torch.no_grad():
        expected = model(**inputs)
        capture = time_capture(model, inputs)
        show_captured(framelift.explain(model)(**inputs), capture)
        framelift.reset()

        compiled = framelift.compile(model)
        with console.status("compiling with the default backend"):
            first_call = seconds(lambda: compiled(**inputs))
        actual = compiled(**inputs)
        show_speed(model, compiled, inputs, first_call - capture)

    difference = (actual.last_hidden_state - expected.last_hidden_state).abs().max().item()
    torch.testing.assert_close(actual.last_hidden_state, expected.last_hidden_state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(actual.pooler_output, expected.pooler_output, atol=1e-4, rtol=1e-4)
    console.print(f"[green]Equal to eager[/], largest difference {difference:.1e}.")


def time_capture(model: BertModel, inputs: dict[str, torch.Tensor]) -> float:
    """Time of the first call until a backend has the graph, in a process that has captured nothing yet."""
    arrived: list[float] = []

    def timing_backend(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        arrived.append(time.perf_counter())
        return gm.forward

    compiled = framelift.compile(model, backend=timing_backend)
    start = time.perf_counter()
    compiled(**inputs)
    return arrived[-1] - start


def show_captured(explanation: Any, capture: float) -> None:
    ops = Counter(name_of(op) for graph in explanation.ops for op in graph)
    table = Table(
        title="Captured", title_justify="left", title_style="bold", box=box.SIMPLE, show_header=False
    )
    table.add_column(style="cyan")
    table.add_column()
    common = ", ".join(f"{name} {count}" for name, count in ops.most_common(SHOWN))
    table.add_row("graphs", f"{len(explanation.graphs)} ({len(explanation.breaks)} breaks)")
    table.add_row("ops", f"{ops.total()}: {common}, ...")
    table.add_row("guards", f"{len(explanation.guards)}, such as")
    for guard in explanation.guards[:SHOWN]:
        table.add_row("", escape(shortened(str(guard))))
    table.add_row("capture time", f"{capture * 1e3:.0f} ms until the backend has the graph")
    console.print(table)


def name_of(op: Any) -> str:
    return getattr(op, "__name__", str(op))


def shortened(text: str, width: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."


def show_speed(model: Any, compiled: Any, inputs: dict[str, torch.Tensor], backend: float) -> None:
    # Taking turns: a slow moment of the machine then hits both.
    eager, fast = [], []
    for _ in range(CALLS):
        eager.append(seconds(lambda: model(**inputs)))
        fast.append(seconds(lambda: compiled(**inputs)))
    table = Table(
        title="Compiled", title_justify="left", title_style="bold", box=box.SIMPLE, show_header=False
    )
    table.add_column(style="cyan")
    table.add_column()
    table.add_row("backend", f"inductor, {backend:.1f} s (first call less capture)")
    table.add_row("eager call", spread(eager))
    table.add_row("compiled call", spread(fast))
    table.add_row("speed", f"{statistics.median(eager) / statistics.median(fast):.2f}x eager")
    console.print(table)


def spread(samples: list[float]) -> str:
    low, median, high = statistics.quantiles(samples, n=4)
    return f"{median * 1e3:.2f} ms (middle half {low * 1e3:.2f}-{high * 1e3:.2f})"


if __name__ == "__main__":
    main()
