"""`framelift run script.py`: every `torch.compile` in the script is Framelift's; a summary at the end."""

from __future__ import annotations

import argparse
import collections
import json
import sys
from typing import Any

from framelift.cli.progress import shown
from framelift.cli.script import in_place_of_torchs, run_script

HELP = "run a script in which torch.compile is Framelift's, and summarise on stderr"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", help="compile everything with this backend, whatever the script says")
    parser.add_argument(
        "--function",
        action="append",
        default=[],
        metavar="NAME",
        help="compile this function too, which the script does not: a name in the script (`step`, "
        "`Net.forward`) or module:function; may be repeated",
    )
    parser.add_argument("script", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def main(options: argparse.Namespace) -> int:
    from framelift.cli.explain import check_backend
    from framelift.dispatch.compile_contexts import watching_everywhere

    check_backend(options.backend)
    with watching_everywhere() as watch, in_place_of_torchs(options.backend), shown():
        code, _ = run_script(options.script, options.arguments, options.function, options.backend)
    found = summary(watch)
    print(json.dumps(found) if options.json else report(found), file=sys.stderr)
    return code


def summary(watch: Any) -> dict[str, Any]:
    forward = watch.forward
    breaks: dict[tuple[str, str], int] = collections.Counter()
    for found in watch.breaks:
        where = found.stack[-1] if found.stack else None
        breaks[found.reason.name, "" if where is None else f"{where.code.co_filename}:{where.line}"] += 1
    return {
        "compilations": len(forward),
        "functions": len({(record.filename, record.name) for record in forward}),
        "graphs": watch.graph_count,
        "ops": sum(record.ops for record in forward if record.failed is None),
        "recompilations": [
            {"function": each.name, "because": each.recompiled_because}
            for each in (record for record in forward if record.recompiled_because is not None)
        ],
        "breaks": [{"name": name, "at": at, "times": times} for (name, at), times in breaks.items()],
        "failed": [
            {"function": record.name, "why": record.failed} for record in forward if record.failed is not None
        ],
        "seconds": sum(record.seconds for record in watch.records),
        "backend_seconds": sum(record.backend_seconds for record in watch.records),
    }


def report(found: dict[str, Any]) -> str:
    if not found["compilations"]:
        return "framelift: nothing was compiled"
    lines = [
        f"framelift: {found['functions']} function(s), {found['graphs']} graph(s), {found['ops']} op(s), "
        f"{len(found['breaks'])} break(s), {len(found['recompilations'])} recompilation(s)",
        f"  compiled in {found['seconds']:.2f} s, of which {found['backend_seconds']:.2f} s in the backend",
    ]
    lines += [f"  break: {each['name']} at {each['at']}" for each in found["breaks"]]
    lines += [f"  compiled again: {each['function']}: {each['because']}" for each in found["recompilations"]]
    lines += [f"  not captured: {each['function']}: {each['why']}" for each in found["failed"]]
    return "\n".join(lines)
