"""Running a script as `python script.py` would, with `torch.compile` going to Framelift."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

RUN_MODULE_CODE: Any = vars(runpy)["_run_module_code"]


class Problem(Exception):
    """What is wrong with a command, in a sentence."""

    def __init__(self, text: str, code: int = 2) -> None:
        super().__init__(text)
        self.code = code


@contextlib.contextmanager
def in_place_of_torchs(backend: str | None = None) -> Iterator[None]:
    """`torch.compile`, and `Module.compile` which calls it, are Framelift's; `backend` stands in for all."""
    import framelift

    with framelift.install(backend=backend):
        yield


# ---- functions that are compiled though the script does not say so


def replaced_functions(path: str, names: list[str], compiler: Any) -> CodeType | None:
    """The script's code with its functions of these names decorated; `module:function` is replaced there."""
    own = []
    for name in names:
        module, sign, function = name.partition(":")
        if not sign:
            own.append(name)
            continue
        holder, attribute = held(module, function, str(Path(path).resolve().parent))
        setattr(holder, attribute, compiler(getattr(holder, attribute)))
    return decorated(path, own) if own else None


def held(module: str, path: str, folder: str) -> tuple[Any, str]:
    """(the module or class, the attribute) of a function."""
    sys.path.insert(0, folder)
    try:
        holder: Any = importlib.import_module(module)
    except Exception as error:
        raise Problem(f"--function {module}:{path}: {module} can't be imported: {error}") from None
    finally:
        sys.path.remove(folder)
    *outer, last = path.split(".")
    for part in outer:
        holder = getattr(holder, part, None)
    if not callable(getattr(holder, last, None)):
        raise Problem(f"--function {module}:{path}: {module} has no function {path}")
    return holder, last


def decorated(path: str, names: list[str]) -> CodeType:
    try:
        tree = ast.parse(Path(path).read_bytes(), path)
    except (SyntaxError, ValueError) as error:
        raise Problem(f"{path} can't be read: {error}", code=1) from None
    left = set(names)
    decorate(tree, "", left)
    if left:
        raise Problem(f"--function: {path} defines no function {', '.join(sorted(left))}")
    return compile(tree, path, "exec")


COMPILER = "__framelift_compile__"
"""By what name the script finds what its functions are decorated with."""


def decorate(tree: ast.AST, prefix: str, left: set[str]) -> None:
    for node in ast.iter_child_nodes(tree):
        name = f"{prefix}{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef) and name in left:
            mark = ast.Name(COMPILER, ast.Load())
            node.decorator_list.append(ast.fix_missing_locations(ast.copy_location(mark, node)))
            left.discard(name)
        inner = f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>."
        decorate(node, inner if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else prefix, left)


def run_script(
    path: str, arguments: list[str], functions: list[str] | None = None, backend: str | None = None
) -> tuple[int, dict[str, Any]]:
    """(its exit code, its variables). An error that it does not handle is shown as Python shows it."""
    if not Path(path).is_file():
        raise Problem(f"there is no file {path}")
    code = compiler = None
    if functions:
        import framelift

        compiler = framelift.compile(backend=backend or "inductor")
        code = replaced_functions(path, functions, compiler)
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [path, *arguments], str(Path(path).resolve().parent)
    try:
        if code is not None:  # as run_path does it, with code that is there already
            names = {COMPILER: compiler}
            return 0, RUN_MODULE_CODE(code, names, "__main__", script_name=path)
        return 0, runpy.run_path(path, run_name="__main__")
    except SystemExit as leaving:
        return exit_code(leaving), variables(leaving, path)
    except KeyboardInterrupt:
        return 130, {}
    except BaseException as error:
        # the traceback, from the script on
        traceback.print_exception(error.with_traceback(from_script(error, path) or error.__traceback__))
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


def variables(error: BaseException, path: str) -> dict[str, Any]:
    """What the script had when it was left: what is compiled goes with the functions."""
    at = from_script(error, path)
    return {} if at is None else at.tb_frame.f_globals


def from_script(error: BaseException, path: str) -> TracebackType | None:
    at = error.__traceback__
    while at is not None and os.path.abspath(at.tb_frame.f_code.co_filename) != os.path.abspath(path):
        at = at.tb_next
    return at
