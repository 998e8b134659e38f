"""The command line: `framelift doctor`, `backends`, `explain`, `run`, `replay`, `bench` and `cache`.

Exit codes: 0 all is well; 1 what was run failed, or a check did; 2 the command makes no sense. `run` and
`explain` give a script's own. What is wrong with a command is said in one sentence on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from framelift import __version__
from framelift.cli import backends, bench, cache, doctor, explain, replay, run
from framelift.cli.script import Problem
from framelift.core.errors import UserError
from framelift.core.torch_names import TorchNameMissing
from framelift.native.guards_build import GuardsUnavailable

__all__ = ["main"]

COMMANDS: dict[str, Any] = {"doctor": doctor, "backends": backends, "explain": explain}
COMMANDS |= {"run": run, "replay": replay, "bench": bench, "cache": cache}
"""Name -> a module with `HELP`, `arguments(parser)` and `main(options) -> exit code`."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="framelift", description="Graph capture for PyTorch programs.")
    made.add_argument("--version", action="version", version=f"framelift {__version__}")
    commands = made.add_subparsers(dest="command", required=True, metavar="command")
    for name, command in COMMANDS.items():
        adds: Callable[[argparse.ArgumentParser], None] = command.arguments
        sub = commands.add_parser(name, help=command.HELP, description=command.HELP)
        sub.add_argument("--json", action="store_true", help="the answer as JSON")
        adds(sub)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        code: int = COMMANDS[options.command].main(options)
        sys.stdout.flush()
        return code
    except Problem as problem:
        print(f"framelift: {problem}", file=sys.stderr)
        return problem.code
    except (GuardsUnavailable, TorchNameMissing) as error:
        print(f"framelift: {error}", file=sys.stderr)
        return 1
    except UserError as error:  # such as a FRAMELIFT_LOGS that makes no sense
        print(f"framelift: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever reads has had enough, and there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
