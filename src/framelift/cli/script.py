"""Running a script as `python script.py` would, with `torch.compile` going to Framelift."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from framelift.cli.problem import Problem


@contextlib.contextmanager
def in_place_of_torchs(backend: str | None = None) -> Iterator[None]:
    """`torch.compile`, and `Module.compile` which calls it, are Framelift's; `backend` stands in for all."""
    import torch

    import framelift

    def compile(model: Any = None, **settings: Any) -> Any:
        if backend is not None:
            settings |= {"backend": backend, "mode": None, "options": None}
        return framelift.compile(model, **settings)

    before = torch.compile
    torch.compile = compile
    try:
        yield
    finally:
        torch.compile = before


def run_script(path: str, arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """(its exit code, its variables). An error that it does not handle is shown as Python shows it."""
    if not Path(path).is_file():
        raise Problem(f"there is no file {path}")
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [path, *arguments], str(Path(path).resolve().parent)
    try:
        return 0, runpy.run_path(path, run_name="__main__")
    except SystemExit as leaving:
        return exit_code(leaving), variables(leaving, path)
    except KeyboardInterrupt:
        return 130, {}
    except BaseException as error:
        show(error, path)
        return 1, variables(error, path)
    finally:
        sys.argv, sys.path[0] = before
        with contextlib.suppress(Exception):
            sys.stdout.flush()


def exit_code(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    print(leaving.code, file=sys.stderr)
    return 1


def show(error: BaseException, path: str) -> None:
    """The traceback, from the script on."""
    traceback.print_exception(error.with_traceback(from_script(error, path) or error.__traceback__))


def variables(error: BaseException, path: str) -> dict[str, Any]:
    """What the script had when it was left: what is compiled goes with the functions."""
    at = from_script(error, path)
    return {} if at is None else at.tb_frame.f_globals


def from_script(error: BaseException, path: str) -> TracebackType | None:
    at = error.__traceback__
    while at is not None and os.path.abspath(at.tb_frame.f_code.co_filename) != os.path.abspath(path):
        at = at.tb_next
    return at
