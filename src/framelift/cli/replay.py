"""`framelift replay RECORD`: compiles and runs again what a replay record holds."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import Any

from framelift.cli.progress import shown
from framelift.cli.script import Problem

HELP = "compile and run again what a replay record (of a debug directory) holds"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", help="compile with this backend, not with the one that it was")
    shows = "only say what the record holds; nothing of it is run"
    parser.add_argument("--show", action="store_true", help=shows)
    parser.add_argument("record", help="a replay.pt, or the folder that one is in; it is run as Python is")


def main(options: argparse.Namespace) -> int:
    from framelift.cli.explain import check_backend
    from framelift.debugging.replay_records import BadRecord, read, read_header

    check_backend(options.backend)
    try:
        if options.show:
            about, _ = read_header(options.record)
            return say(about, options)
        with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext(), shown():
            record = read(options.record)
            found = outcome(record, options.backend or record.backend())
    except BadRecord as error:
        raise Problem(str(error)) from None
    found = {**found, "before": record.about["error"]}
    print(json.dumps(found) if options.json else report(found, record.about))
    return 0 if found["ok"] else 1


def say(about: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(about, indent=2))
        return 0
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    what = f"{about['function']} ({about['file']}:{about['line']}), backend {about['backend']['name']}"
    print(what, versions, sep="\n")
    print(about["traceback"] or about["error"] or "it was compiled")
    return 0


def outcome(record: Any, backend: Any) -> dict[str, Any]:
    """What comes of it this time."""
    import framelift
    from framelift.core.breaks import FAULT
    from framelift.dispatch.compile_contexts import watching_everywhere

    settings = {name: value for name, value in record.about["settings"].items() if value}
    if backend != "inductor":
        settings.pop("options", None)
    args, kwargs = record.call()
    error = None
    with framelift.config.patch(**usable(record.about["config"])), watching_everywhere() as watch:
        compiled = framelift.compile(record.function, backend=backend, **settings)
        try:
            compiled(*args, **kwargs)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    faults = [found.context for found in watch.breaks if found.reason is FAULT]
    return {
        "ok": error is None and not faults,
        "error": error or (f"{FAULT.name}: {faults[0]}" if faults else None),
        "graphs": watch.graph_count,
        "breaks": [found.reason.name for found in watch.breaks],
    }


def usable(values: dict[str, Any]) -> dict[str, Any]:
    """The options that there are, but for where files go."""
    from framelift.core.config import OPTIONS

    unlike = {"debug_dir", "replay_record_enabled"}
    return {name: value for name, value in values.items() if name in OPTIONS and name not in unlike}


def report(found: dict[str, Any], about: dict[str, Any]) -> str:
    what = f"{about['function']} ({about['file']}:{about['line']})"
    if not found["ok"]:
        return f"{what} fails: {found['error']}"
    after = f"; before: {found['before']}" if found["before"] else ""
    return f"{what} is compiled: {found['graphs']} graph(s), {len(found['breaks'])} break(s){after}"
