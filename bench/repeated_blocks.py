"""What it costs and gains to compile repeated blocks once: `config.share_blocks`, never and large.

    python -m bench.repeated_blocks --hidden 512 --tokens 128 --layers 8 32

Each first result is a process of its own, with nothing of Inductor's on disk. Steps are compared within one
process, in turns; the least of many is taken. All of it is processor time: of one thread for steps, of the
process and the compilers that it has started for first results. It prints rows for docs/first_result.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

OPTIONS = ("never", "large")
STEPS = 60


def model_of(hidden: int, layers: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    heads = max(1, hidden // 64)
    sizes: dict[str, Any] = {"hidden_size": hidden, "intermediate_size": hidden * 11 // 4, "vocab_size": 1000}
    config = LlamaConfig(
        **sizes,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        use_cache=False,
    )
    return LlamaModel(config).eval()


def compiled(model: Any) -> Callable[..., Any]:
    import framelift

    def step(tokens: Any) -> Any:
        return model(tokens).last_hidden_state

    return framelift.compile(step, isolate_recompiles=True)


def used() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def first_result(hidden: int, tokens: int, layers: int, option: str) -> float:
    """Seconds from the call of `compile` to the result, in this process, which is a new one."""
    import torch

    import framelift

    torch.set_num_threads(1)
    model, given = model_of(hidden, layers), torch.ones(1, tokens, dtype=torch.long)
    began = used()
    with torch.no_grad(), framelift.config.patch(share_blocks=option, cache=False):
        compiled(model)(given)
    return used() - began


def in_new_process(*about: Any) -> float:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        command = [sys.executable, "-m", "bench.repeated_blocks", "--first", *map(str, about)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: float = json.loads(ran.stdout.splitlines()[-1])
    return found


def steps(hidden: int, tokens: int, layers: int) -> dict[str, float]:
    """Option -> the least processor time of a step."""
    import torch

    import framelift

    torch.set_num_threads(1)
    model, given = model_of(hidden, layers), torch.ones(1, tokens, dtype=torch.long)
    least, functions = dict.fromkeys(OPTIONS, float("inf")), {}
    with torch.no_grad():
        for option in OPTIONS:
            with framelift.config.patch(share_blocks=option):
                functions[option] = compiled(model)
                functions[option](given)
        for _ in range(STEPS):
            for option, function in functions.items():
                began = time.thread_time()
                function(given)
                least[option] = min(least[option], time.thread_time() - began)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.repeated_blocks", description=__doc__)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--layers", type=int, nargs=2, default=[8, 32])
    parser.add_argument("--first", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        hidden, tokens, layers, option = options.first
        print(first_result(int(hidden), int(tokens), int(layers), option))
        return
    few, many = options.layers
    size = f"hidden {options.hidden}, {options.tokens} tokens"
    print(f"| {size} | {few} layers | {many} layers | {many} by {few} |")
    print("|---|---:|---:|---:|")
    for option in OPTIONS:
        seconds = [in_new_process(options.hidden, options.tokens, n, option) for n in options.layers]
        cells = [*(f"{each:.1f} s" for each in seconds), f"{seconds[1] / seconds[0]:.2f}"]
        print(f"| first result, {option} | {' | '.join(cells)} |", flush=True)
    least = steps(options.hidden, options.tokens, few)
    more = (least["large"] / least["never"] - 1) * 100
    told = ", ".join(f"{option} {seconds * 1e3:.2f} ms" for option, seconds in least.items())
    print(f"a step of {few} layers: {told}: {more:+.2f}%", flush=True)


if __name__ == "__main__":
    main()
