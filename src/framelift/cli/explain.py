"""`framelift explain module:function` or `framelift explain script.py`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

from framelift.cli.progress import shown
from framelift.cli.script import Problem, in_place_of_torchs, run_script

HELP = "run a function, or what a script compiles, and show what was captured, what was not, and why"


def add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--arg",
        "--input",
        dest="arg",
        action="append",
        default=[],
        metavar="EXPRESSION",
        help="an argument of the function, as Python with `torch` and the module's names: "
        "'torch.ones(2, 3)' or 'scale=2'; may be repeated",
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser)
    parser.add_argument("--backend", default="eager", help="what graphs are compiled with (default: eager)")
    parser.add_argument("--source", action="store_true", help="only the program's lines, marked")
    parser.add_argument("--html", metavar="FILE", help="also writes the report there, as a page")
    parser.add_argument("target", help="module:function, or a script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what a script is given")


def main(options: argparse.Namespace) -> int:
    is_script = options.target.endswith(".py")
    if not is_script:
        reread(options)
    check_backend(options.backend)
    if options.html:
        check_place(options.html)
    # what the program prints must not come between the answer
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext(), shown():
        code, report = of_script(options) if is_script else of_function(options)
    if options.json:
        print(report.to_json(indent=2))
    elif options.source:
        print(report.source())
    else:
        print(report)
    if options.html:
        write(report, options.html)
    return code


def write(report: Any, path: str) -> None:
    """What was printed is not lost where this fails."""
    sys.stdout.flush()
    try:
        report.to_html(path)
    except OSError as error:
        raise Problem(f"{path} can't be written: {error.strerror}", code=1) from None
    print(f"framelift: the report is in {path}", file=sys.stderr)


def check_place(path: str) -> None:
    """Before anything is run for it."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise Problem(f"--html {path}: there is no folder {folder}")
    if Path(path).is_dir():
        raise Problem(f"--html {path} is a folder; name a file in it")


def check_backend(name: str | None) -> None:
    from framelift.core.errors import InvalidBackend
    from framelift.dispatch.backend_names import lookup_backend

    if name is not None:
        try:
            lookup_backend(name)
        except InvalidBackend as error:
            raise Problem(str(error)) from None


def of_script(options: argparse.Namespace) -> tuple[int, Any]:
    """Of all that a script compiles."""
    from framelift.api.explain import explanation
    from framelift.dispatch.compile_contexts import contexts, watching_everywhere

    if options.arg:
        raise Problem("--arg is for a function; a script gets what stands after it")
    before = contexts()
    with watching_everywhere(keeps_entries=True) as watch:
        with in_place_of_torchs(options.backend):
            code, variables = run_script(options.target, options.arguments)
        own = [context for context in contexts() if context not in before]
        return code, explanation(options.target, variables, watch, own)


def of_function(options: argparse.Namespace) -> tuple[int, Any]:
    import framelift

    with in_place_of_torchs():  # so that functions that are decorated there are Framelift's
        module, fn = found(options.target)
    args, kwargs = evaluated(options.arg, module)
    try:
        return 0, framelift.explain(fn, backend=options.backend)(*args, **kwargs)
    except Exception as error:
        raise Problem(f"{options.target} raised {type(error).__name__}: {error}", code=1) from None


def reread(options: argparse.Namespace) -> None:
    """What stands after a script is the script's; after a function there may be more options."""
    target, rest = options.target, options.arguments
    parser = argparse.ArgumentParser(prog="framelift explain", add_help=False)
    parser.add_argument("--json", action="store_true")
    arguments(parser)
    parser.parse_args([*rest, target], options)
    if options.target != target:
        raise Problem(f"{options.target!r} is one too many; a function gets its arguments by --arg")


def found(target: str) -> tuple[Any, Any]:
    name, _, path = target.partition(":")
    if not name or not path:
        raise Problem(f"{target!r} is neither module:function nor a script (a file that ends in .py)")
    sys.path.insert(0, "")
    try:
        module: Any = importlib.import_module(name)
    except ImportError as error:
        raise Problem(f"{name} can't be imported: {error}") from None
    except Exception as error:
        raise Problem(f"{name} can't be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove("")
    value = module
    for part in path.split("."):
        if not hasattr(value, part):
            raise Problem(f"{name} has no {path}")
        value = getattr(value, part)
    if isinstance(value, type) or not callable(value):
        raise Problem(f"{target} is not a function but a {type(value).__name__}")
    return module, value


def evaluated(expressions: list[str], module: Any) -> tuple[list[Any], dict[str, Any]]:
    import torch

    names = {"torch": torch, **vars(module)}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in expressions:
        try:
            name, sign, rest = text.partition("=")
            if sign and name.strip().isidentifier() and not rest.startswith("="):
                kwargs[name.strip()] = eval(rest, names)
            else:
                args.append(eval(text, names))
        except Exception as error:
            raise Problem(f"--arg {text!r}: {type(error).__name__}: {error}") from None
    return args, kwargs
