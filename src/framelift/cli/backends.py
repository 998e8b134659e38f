"""`framelift backends`: the names that `compile(backend=...)` knows."""

from __future__ import annotations

import argparse
import inspect
import json

HELP = "list the backends that compile(backend=...) knows"


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def main(options: argparse.Namespace) -> int:
    found = known()
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    width = max(len(each["name"]) for each in found)
    for each in found:
        print(f"{each['name']:{width}}  {each['about']}")
    return 0


def known() -> list[dict[str, str]]:
    """Those of other packages are named, not loaded."""
    from framelift.dispatch.backend_names import entry_points, registered

    found = {name: first_line(backend) for name, backend in registered().items()}
    for entry in entry_points():
        package = "" if entry.dist is None else f" (package {entry.dist.name})"
        found.setdefault(entry.name, f"{entry.value}{package}")
    return [{"name": name, "about": found[name]} for name in sorted(found)]


def first_line(backend: object) -> str:
    return (inspect.getdoc(backend) or "").partition("\n")[0]
