"""Writes docs/torch_api.md: every name and parameter of `torch.compiler` and `torch._dynamo`, and what
Framelift does with it.

    python docs/make_api_table.py

The names, parameters and options are asked of torch itself, so a name that torch adds has no row until
someone says here what comes of it; tests/api/test_torch_api_table.py fails until then.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.comptime
import torch._dynamo.exc
import torch.compiler

import framelift
from framelift.api.install import ERRORS, REPLACED
from framelift.core.torch_options import OPTIONS

PAGE = Path(__file__).with_name("torch_api.md")

HEAD = """# torch.compiler and torch._dynamo, name by name

What whoever knows `torch.compile` finds in Framelift. "The same" is a name of `framelift` that takes these
parameters and means the same. What `framelift.install()` puts in the place of torch's own name is marked
*installed*: from then on torch's name acts on Framelift. Made by `docs/make_api_table.py`.
"""

SAME = "the same"
TORCHS = "torch's own, which works with Framelift as it is"

NOTES: dict[str, str] = {
    # torch.compiler
    "compile": "the same; `shapes_spec` is refused: `mark_dynamic` says it of tensors",
    "config": "torch's options: see below",
    "cudagraph_mark_step_begin": f"{TORCHS}: Inductor's graphs and the backend `cudagraphs` ask it",
    "get_default_backend": f"{TORCHS}: `compile` without a backend asks it",
    "is_dynamo_compiling": "answered True in captured code",
    "is_exporting": "answered False in captured code",
    "keep_portable_guards_unsafe": f"{TORCHS}, as a `guard_filter_fn`",
    "keep_tensor_guards_unsafe": f"{TORCHS}, as a `guard_filter_fn`",
    "load_cache_artifacts": f"{TORCHS}: they are Inductor's",
    "load_compiled_function": "not offered: captures are saved and loaded by ranks only",
    "nested_compile_region": f"{TORCHS}: captured as `invoke_subgraph`",
    "save_cache_artifacts": f"{TORCHS}: they are Inductor's",
    "set_default_backend": f"{TORCHS}: `compile` without a backend asks it",
    "set_enable_guard_collectives": "not offered: ranks agree by `config.rank_agreement`",
    "set_stance": "the same; `skip_guard_eval_unsafe` is refused: guards are always checked",
    "skip_all_guards_unsafe": f"{TORCHS}, as a `guard_filter_fn`; guards that lead to other values stay",
    "skip_guard_on_all_nn_modules_unsafe": f"{TORCHS}, as a `guard_filter_fn`",
    "skip_guard_on_globals_unsafe": f"{TORCHS}, as a `guard_filter_fn`",
    "skip_guard_on_inbuilt_nn_modules_unsafe": f"{TORCHS}, as a `guard_filter_fn`",
    "substitute_in_graph": "the same; constants are folded in any case, so two of the flags change nothing",
    "wrap_numpy": TORCHS,
    # torch._dynamo
    "allow_c_slot": "not offered: what a class of C's compares and hashes by is in `rules/`",
    "bytecode_debugger": "not offered: `comptime.breakpoint` stops where a function is captured",
    "disable_nested_graph_breaks": "changes nothing: all frames that a break leaves go on as one",
    "dont_skip_tracing": "changes nothing: Framelift looks into all of the program's code",
    "export": "`framelift.export`, which takes the same but for `constraints`",
    "is_dynamo_disable_recursive": "torch's own, which knows the marks of torch's `disable`",
    "list_backends": "the same, but that all are listed unless `exclude_tags` says otherwise",
    "lookup_backend": "torch's own; its backends are known to Framelift by name",
    "mark_static": "the same, of tensors",
    "optimize": "the same; as a context manager with `config.raise_on_ctx_manager_usage = False`",
    "override_cudagraphs": "changes nothing: `mode` and `options` of one `compile` say it",
    "override_optimization_hint": "not offered: `mark_dynamic(..., hint_override=)` says it of a size",
    "patch_dynamo_config": "`framelift.config.patch`; in captured code options about data count",
    "register_backend": "the same; what was registered with torch is known to Framelift by name",
    "replay": "`framelift replay FILE` on the command line",
    "reset_recompile_user_contexts": "not offered: there are no contexts of the user's to reset",
    "set_recursion_limit": "not needed: Python's own limit holds for captured code",
    "step_unsupported": "`graph_break`",
}
"""What is to be said of a name that is not simply the same."""


def rows(module: Any) -> Iterator[tuple[str, str, str, bool]]:
    """(name, parameters, what comes of it, whether it is installed) for each public name."""
    for name in sorted(module.__all__):
        yield name, parameters_of(getattr(module, name)), note(name), is_installed(name, module.__name__)


def note(name: str) -> str:
    if name in NOTES:
        return NOTES[name]
    if hasattr(framelift, name):
        return SAME
    raise KeyError(f"{name}: say in docs/make_api_table.py what Framelift does with it")


def is_installed(name: str, module: str) -> bool:
    return name in {"compile", "reset", "OptimizedModule", "list_backends"} or (
        name in REPLACED and module in REPLACED[name][1]
    )


def parameters_of(thing: Any) -> str:
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    return ", ".join(each.name for each in found if each.name not in ("args", "kwargs"))


def missing_parameters(module: Any) -> dict[str, set[str]]:
    """Of names that are said to be the same: parameters of torch's that Framelift's do not have."""
    found = {}
    for name in module.__all__:
        if not note(name).startswith(SAME) or not callable(getattr(module, name)):
            continue
        theirs, ours = (set(parameters_of(getattr(of, name)).split(", ")) for of in (module, framelift))
        if inspect.isclass(getattr(framelift, name)) and name == "OptimizedModule":
            continue
        renamed = {RENAMED.get((name, each), each) for each in theirs} - {""}
        if lacking := renamed - ours:
            found[name] = lacking
    return found


RENAMED = {
    ("mark_dynamic", "t"): "tensor",
    ("maybe_mark_dynamic", "t"): "tensor",
    ("mark_static", "t"): "tensor",
    ("mark_static_address", "t"): "tensor",
    ("substitute_in_graph", "original_fn"): "original",
    ("register_backend", "compiler_fn"): "backend",
    ("explain", "f"): "fn",
    ("explain", "extra_args"): "",
    ("explain", "extra_kwargs"): "",
    ("compile", "shapes_spec"): "",
}
"""Parameters that are given by position, and have another name here."""


def table(heads: tuple[str, ...], lines: Iterator[tuple[str, ...]]) -> str:
    made = [heads, tuple("---" for _ in heads), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in made)


def names_table(module: Any) -> str:
    lines = (
        (f"`{name}`", f"`{given}`" if given else "", said + (" *(installed)*" if installed else ""))
        for name, given, said, installed in rows(module)
    )
    return table(("name", "parameters", "in Framelift"), lines)


def errors_table() -> str:
    lines = (
        (f"`{path.rpartition('.')[2]}`", f"`framelift.exc.{ours.__name__}`") for ours, path in ERRORS.items()
    )
    return table(("torch's class", "is also what is raised as"), lines)


def options_table() -> str:
    lines = (
        (f"`{name}`", option.support.value, option.sentence)
        for name, option in sorted(OPTIONS.items())
        if not name.startswith("_") and name != "TYPE_CHECKING"
    )
    return table(("option", "in Framelift", ""), lines)


def page() -> str:
    parts = [HEAD, "## torch.compiler\n", names_table(torch.compiler), "\n## torch._dynamo\n"]
    parts += [names_table(torch._dynamo), "\n## Errors\n", ERRORS_HEAD, errors_table()]
    parts += ["\n## Options of torch._dynamo.config\n", OPTIONS_HEAD, options_table()]
    return "\n".join(parts) + "\n"


ERRORS_HEAD = """While Framelift is installed, these classes of torch's catch Framelift's errors. Without, the
same names are in `framelift.exc`.
"""
OPTIONS_HEAD = """While Framelift is installed, an option that is set here is set in `framelift.config`, and
of one that is not offered that is told, when it is set to something else than its default.
"""

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
