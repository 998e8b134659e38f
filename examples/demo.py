"""The same model eager, with torch.compile and with Framelift: capture, first result, step time.

The model is a BERT made from a config, with random weights: nothing is downloaded. Each is measured in a
process of its own that has compiled nothing before, with an empty cache for TorchInductor, one by one.
Steps are timed in turns, and the least of many counts: what else the machine does only ever adds to a time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CONTENDERS = ["eager", "torch.compile", "Framelift"]
ROUNDS, STEPS = 12, 5
"""How often each is asked, and for how many steps."""


# ---- in the processes that are measured


def make_model(quick: bool) -> tuple[Any, dict[str, Any]]:
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"vocab_size": 2000, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    config = BertConfig(**sizes, num_hidden_layers=1 if quick else 2)
    ids = torch.randint(0, 2000, (2, 64))
    return BertModel(config).eval(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def compiler(name: str, **settings: Any) -> Callable[[Any], Any]:
    def compile(model: Any) -> Any:
        if name == "eager":
            return model
        if name == "torch.compile":
            import torch

            return torch.compile(model, **settings)
        import framelift

        return framelift.compile(model, **settings)

    return compile


def seconds(fn: Callable[[], Any]) -> float:
    began = time.perf_counter()
    fn()
    return time.perf_counter() - began


def capture(name: str, quick: bool) -> dict[str, Any]:
    """How long it takes from `compile` until a backend has the graph."""
    import torch

    model, inputs = make_model(quick)
    arrived: list[float] = []
    ops: Counter[str] = Counter()

    def backend(graph: Any, example_inputs: list[Any]) -> Any:
        arrived.append(time.perf_counter())
        calls = [node.target for node in graph.graph.nodes if node.op.startswith("call_")]
        ops.update(getattr(target, "__name__", str(target)) for target in calls)
        return graph.forward

    with torch.no_grad():
        began = time.perf_counter()
        compiler(name, backend=backend)(model)(**inputs)
    return {"seconds": arrived[-1] - began, "graphs": len(arrived), "ops": ops.most_common()}


def answer(name: str, quick: bool) -> None:
    """Does what it is told on stdin, a word on a line, and answers in JSON."""
    import torch

    model, inputs = make_model(quick)
    torch.set_grad_enabled(False)
    compiled: Any = None
    result: Any = None

    def first() -> None:
        nonlocal compiled, result
        compiled = compiler(name)(model)
        result = compiled(**inputs).last_hidden_state

    for line in sys.stdin:
        if line == "first\n":
            say(seconds(first))
        elif line == "steps\n":
            say(min(seconds(lambda: compiled(**inputs)) for _ in range(STEPS)))
        elif line == "difference\n":
            say((result - model(**inputs).last_hidden_state).abs().max().item())


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


# ---- in the process that shows it


@contextmanager
def worker(name: str, quick: bool) -> Iterator[Callable[[str], Any]]:
    """A process of its own, to be asked."""
    with tempfile.TemporaryDirectory(prefix="framelift-demo-") as cache:
        command = [sys.executable, __file__, "--worker", name, *(["--quick"] if quick else [])]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
        process = subprocess.Popen(command, env=environment, text=True, **pipes)

        def ask(question: str) -> Any:
            process.stdin.write(f"{question}\n")
            process.stdin.flush()
            told = process.stdout.readline()
            if not told:
                raise SystemExit(f"framelift: the process that runs {name} has failed: its message is above")
            return json.loads(told)

        try:
            yield ask
        finally:
            process.stdin.close()
            process.wait()


def captured(name: str, quick: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--capture", name, *(["--quick"] if quick else [])]
    told: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return told


def main(quick: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{described(quick)}[/]\n")
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for name in CONTENDERS:
        table.add_column(name, justify="right", style="bold" if name == "Framelift" else "")

    captures, firsts = {}, {}
    for name in CONTENDERS[1:]:
        with console.status(f"capturing with {name}"):
            captures[name] = captured(name, quick)
    with (
        worker("eager", quick) as eager,
        worker("torch.compile", quick) as torchs,
        worker("Framelift", quick) as ours,
    ):
        workers = dict(zip(CONTENDERS, (eager, torchs, ours), strict=True))
        for name, ask in workers.items():
            with console.status(f"first result with {name}"):
                firsts[name] = ask("first")
        with console.status("timing steps, in turns"):
            rounds = [{name: ask("steps") for name, ask in workers.items()} for _ in range(ROUNDS)]
        differences = {name: ask("difference") for name, ask in workers.items()}
    steps = {name: min(round[name] for round in rounds) for name in CONTENDERS}

    shown = [f"{captures[name]['seconds'] * 1e3:,.0f} ms" for name in CONTENDERS[1:]]
    table.add_row("until a backend has the graph", "", *shown)
    table.add_row("until the first result", *(f"{firsts[name]:.2f} s" for name in CONTENDERS))
    table.add_row("a step, least of many", *(f"{steps[name] * 1e3:.2f} ms" for name in CONTENDERS))
    table.add_row("graphs", "", *(str(captures[name]["graphs"]) for name in CONTENDERS[1:]))
    shown = [f"{differences[name]:.0e}" for name in CONTENDERS[1:]]
    table.add_row("largest difference from eager", "", *shown)
    console.print(table)
    if any(value > 1e-4 for value in differences.values()):
        raise SystemExit("framelift: a result differs from eager's")
    ops = captures["Framelift"]["ops"]
    common = ", ".join(f"{name} {count}" for name, count in ops[:6])
    console.print(f"Framelift's graph has {sum(count for _, count in ops)} operations: {common}, ...")
    console.print("Both hand their graphs to the same TorchInductor, which takes most of the time until the")
    console.print("first result. What becomes of any program, line by line: framelift explain script.py")


def described(quick: bool) -> str:
    from importlib.metadata import version

    packages = ", ".join(f"{name} {version(name)}" for name in ("framelift-torch", "torch", "transformers"))
    return f"{packages}, Python {platform.python_version()}; BERT with {1 if quick else 2} layer(s)"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A model eager, with torch.compile and with Framelift.")
    parser.add_argument("--quick", action="store_true", help="a model of one layer")
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--capture", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        answer(options.worker, options.quick)
    elif options.capture:
        say(capture(options.capture, options.quick))
    else:
        main(options.quick)
