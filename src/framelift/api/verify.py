"""`framelift.verify(fn)(*args)`: a function plainly and compiled, and what a difference comes from."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from framelift.api.compile import compile, uncompiled
from framelift.core.errors import FrameliftError, WrongResult
from framelift.debugging.bisecting import coarsest_tolerance, weights
from framelift.debugging.comparing import Difference, Rules, difference
from framelift.debugging.inputs import as_float64, clone_inputs, save_state
from framelift.debugging.verifying import Verifier, WrongGraph, verifying
from framelift.dispatch.compile_contexts import Context
from framelift.dispatch.random_states import save_rng_state


@dataclass
class Verification:
    """What came of it; `str()` is the report."""

    name: str
    result: Any = field(repr=False)
    """What the compiled function gave."""
    difference: Difference | None
    """In what the compiled function gives, leaves in its arguments, or what gradients come of it."""
    wrong: WrongGraph | None
    """The first graph that the backend computes wrongly."""
    graphs: int
    checked: int
    """How many graphs there are, and how many calls of them were checked."""

    @property
    def ok(self) -> bool:
        return self.difference is None and self.wrong is None

    def check(self) -> None:
        """An error if something differs."""
        if not self.ok:
            raise WrongResult(str(self))

    def save_script(self, folder: str | Path) -> Path | None:
        """Writes a script that shows what is wrong, if there is one."""
        if self.wrong is None or self.wrong.script is None:
            return None
        return self.wrong.script.save(folder)

    def __str__(self) -> str:
        if self.ok:
            ran = f"{self.graphs} graph(s), {self.checked} call(s) of them checked"
            return f"{self.name}: compiled, it does what it does otherwise ({ran})"
        lines = [f"{self.name}: compiled, it does something else"]
        if self.difference is not None:
            lines.append(f"  {self.difference}")
        if self.wrong is not None:
            lines += [f"  {line}" for line in str(self.wrong).splitlines()]
            if self.wrong.script is not None:
                lines.append("  `save_script(folder)` writes a script that shows it")
        else:
            lines.append(f"  {CAPTURE.format(self.graphs)}")
        return "\n".join(lines)


CAPTURE = (
    "each of the {} graph(s) is computed as it should be: what was captured is not what the program does. "
    "Please report it"
)


@dataclass
class FunctionRun:
    """One run of the whole function."""

    result: Any
    arguments: Any
    """What became of them: `[0][1]` is the second, `[1]['x']` the one named x."""
    gradients: list[Any]
    error: BaseException | None = None

    def compare(self, other: FunctionRun, reference: FunctionRun | None, rules: Rules) -> Difference | None:
        if str(self.error) != str(other.error) or type(self.error) is not type(other.error):
            return Difference("", f"it raises {other.error!r} instead of {self.error!r}")
        for name in ("result", "arguments", "gradients"):
            known = None if reference is None else getattr(reference, name)
            found = difference(getattr(self, name), getattr(other, name), known, rules)
            if found is not None:
                return dataclasses.replace(found, path=f"{name}{found.path}")
        return None


def verify(
    fn: Callable[..., Any], *, tol: float | None = None, **settings: Any
) -> Callable[..., Verification]:
    """Runs a function or a module plainly and compiled, with copies of the arguments and the same random
    numbers, and compares results, arguments and gradients; and, as they run, each graph with what the
    backend made of it. Where a graph differs, the first operation that shows it is looked for.

    `settings` are those of `compile`. `tol` is how far numbers may be apart; by default that goes by their
    dtype, and what is further apart is judged by a run in double precision. What the function can reach by
    its variables, its object and the globals it names is put back in between; what it changes elsewhere,
    and what it prints, is there more than once.

    >>> import torch, framelift
    >>> report = framelift.verify(lambda x: x.sin() * 2, backend="eager")(torch.ones(3))
    >>> report.ok, report.graphs
    (True, 1)
    """
    plain = uncompiled(fn)

    def run(*args: Any, **kwargs: Any) -> Verification:
        compiled = compile(plain, **{**with_same_numbers(settings), "isolate_recompiles": True})
        context: Context = compiled._framelift_context
        verifier = Verifier(context)
        modules = modules_of(plain, (args, kwargs))
        restore_numbers, restore_state = save_rng_state(), save_state(plain)
        expected = run_function(plain, (args, kwargs), modules)
        restore_state()
        restore_numbers()
        token = verifying.set(verifier)
        try:
            found = run_function(compiled, (args, kwargs), modules)
        finally:
            verifying.reset(token)
        if isinstance(found.error, FrameliftError) and expected.error is None:
            raise found.error  # it is not compiled at all
        rules = Rules(tol=tol, at_least=max(map(coarsest_tolerance, verifier.graphs), default=0.0))
        apart = expected.compare(found, None, rules)
        if apart is not None:
            after = save_state(plain)
            restore_state()
            restore_numbers()
            again = run_function(plain, (args, kwargs), modules)
            restore_state()
            restore_numbers()
            apart = expected.compare(found, run_in_double(plain, (args, kwargs)), rules)
            if expected.compare(again, None, rules) is not None:
                apart = None  # it is not the same from one time to the next: there is nothing to compare with
            after()
        name = getattr(plain, "__qualname__", type(plain).__qualname__)
        context.forget()
        return Verification(name, found.result, apart, verifier.wrong, len(verifier.graphs), verifier.checked)

    return run


def with_same_numbers(settings: dict[str, Any]) -> dict[str, Any]:
    """Inductor draws random numbers in its own way unless it is told not to."""
    if settings.get("backend", "inductor") == "inductor" and settings.get("mode") is None:
        return {**settings, "options": {"fallback_random": True, **(settings.get("options") or {})}}
    return settings


def run_function(fn: Callable[..., Any], inputs: Any, modules: list[torch.nn.Module]) -> FunctionRun:
    given = clone_inputs(inputs)
    try:
        result = fn(*given[0], **given[1])
    except Exception as error:
        return FunctionRun(None, clone_inputs(given), [], error)
    return FunctionRun(clone_inputs(result), clone_inputs(given), compute_gradients(result, given, modules))


def compute_gradients(result: Any, given: Any, modules: list[torch.nn.Module]) -> list[Any]:
    """What comes to arguments and parameters if each element of the result has a weight of its own."""
    leaves = [x for x in pytree.tree_leaves(given) if isinstance(x, torch.Tensor)]
    parameters = {id(p): p for module in modules for p in module.parameters()}
    leaves = [x for x in (*leaves, *parameters.values()) if x.is_leaf and x.requires_grad]
    ends = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    if not leaves or not ends:
        return []
    try:
        return list(torch.autograd.grad(ends, leaves, list(map(weights, ends)), allow_unused=True))
    except RuntimeError as error:  # gone back before, within the function
        return [str(error).partition("\n")[0]]


def run_in_double(plain: Any, inputs: Any) -> FunctionRun | None:
    """The same in double precision, if it can be done in that."""
    try:
        doubled = as_float64(plain) if isinstance(plain, torch.nn.Module) else plain
        return run_function(doubled, as_float64(inputs), modules_of(doubled, inputs))
    except Exception:
        return None


def modules_of(fn: Any, inputs: Any) -> list[torch.nn.Module]:
    """Those that a function may use: itself, what it is bound to, encloses, names, or is given."""
    found: list[Any] = [fn, *pytree.tree_leaves(inputs)]
    if isinstance(fn, types.MethodType):
        found.append(fn.__self__)
    inner = getattr(fn, "__func__", fn)
    if isinstance(inner, types.FunctionType):
        found += [cell.cell_contents for cell in inner.__closure__ or () if has_contents(cell)]
        found += [inner.__globals__[name] for name in inner.__code__.co_names if name in inner.__globals__]
    return list({id(each): each for each in found if isinstance(each, torch.nn.Module)}.values())


def has_contents(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
