"""`framelift bench module:function`: how long a function takes plainly and compiled, and to compile."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from typing import Any

from framelift.cli.explain import add_inputs, check_backend, evaluated, found
from framelift.cli.progress import shown
from framelift.cli.script import Problem, in_place_of_torchs

HELP = "time a function plainly and compiled, with the same arguments"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser)
    parser.add_argument("--backend", default="inductor", help="what to compile with (default: inductor)")
    parser.add_argument("--times", type=int, default=20, help="how many calls are timed (default: 20)")
    parser.add_argument("target", help="module:function")


def main(options: argparse.Namespace) -> int:
    check_backend(options.backend)
    if options.times < 1:
        raise Problem(f"--times {options.times}: at least one call is needed")
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext(), shown():
        measured = measure(options)
    print(json.dumps(measured) if options.json else report(measured))
    return 0 if measured["same"] else 1


def measure(options: argparse.Namespace) -> dict[str, Any]:
    import framelift
    from framelift.api.compile import uncompiled
    from framelift.dispatch.compile_contexts import watching_everywhere
    from framelift.testing import clone_inputs, difference, preserve_rng_state, time_model

    with in_place_of_torchs():
        module, fn = found(options.target)
    args, kwargs = evaluated(options.arg, module)
    plain = uncompiled(fn)
    compiled = framelift.compile(plain, backend=options.backend)
    try:
        with preserve_rng_state():
            given = clone_inputs((args, kwargs))
            expected = plain(*given[0], **given[1])
        with watching_everywhere() as watch:
            given = clone_inputs((args, kwargs))
            began = time.perf_counter()
            result = compiled(*given[0], **given[1])
            first = time.perf_counter() - began
        apart = difference(expected, result)
        eager = time_model(plain, *args, times=options.times, **kwargs)
        fast = time_model(compiled, *args, times=options.times, **kwargs)
    except Exception as error:
        raise Problem(f"{options.target} raised {type(error).__name__}: {error}", code=1) from None
    return {
        "target": options.target,
        "backend": options.backend,
        "graphs": watch.graph_count,
        "breaks": len(watch.breaks),
        "first_call_seconds": first,
        "compile_seconds": sum(record.seconds for record in watch.forward),
        "backend_seconds": sum(record.backend_seconds for record in watch.forward),
        "eager_seconds": eager.median,
        "compiled_seconds": fast.median,
        "speedup": eager.median / fast.median,
        "calls": options.times,
        "same": apart is None,
        "difference": None if apart is None else str(apart),
    }


def report(found: dict[str, Any]) -> str:
    counts = f"{found['graphs']} graph(s), {found['breaks']} break(s)"
    lines = [
        f"{found['target']}: {counts}, backend {found['backend']}; medians of {found['calls']} calls",
        f"  compiled in {found['compile_seconds']:.2f} s, of which {found['backend_seconds']:.2f} s in the "
        f"backend; the first call took {found['first_call_seconds']:.2f} s",
        f"  eager     {found['eager_seconds'] * 1e3:10.3f} ms",
        f"  compiled  {found['compiled_seconds'] * 1e3:10.3f} ms ({found['speedup']:.2f} x)",
    ]
    if not found["same"]:
        lines.append(f"  the results differ: {found['difference']}; framelift.verify says why")
    return "\n".join(lines)
