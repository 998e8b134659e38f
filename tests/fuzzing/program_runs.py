"""Runs a random program plainly and compiled, each in a world of its own, and compares all that can be seen.

Between two calls the program's own edits are made. Compared are results and errors, what was printed and
warned of, all variables of the world with what they lead to, random streams, and torch's switches afterwards.
Framelift may make no mistake of its own meanwhile, and what does not change any more is not compiled again.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import io
import itertools
import linecache
import logging
import math
import random
import re
import signal
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy  # noqa: E402
import torch  # noqa: E402
from grammar import AREAS  # noqa: E402
from program_modes import modes, reset_modes, set_modes  # noqa: E402
from program_writer import CALLS  # noqa: E402
from torch.utils.hooks import RemovableHandle  # noqa: E402

import framelift  # noqa: E402
from check import FACTS, ONLY_ELEMENTS, bits  # noqa: E402
from framelift.core.errors import FrameliftError, UncapturedHigherOrderOpError  # noqa: E402
from sameness import DRAINED, Sameness, has_same_history, plain_names  # noqa: E402

MODULE = "random_program"
OWN_OPTIONS = ("calls", "steady", "interrupt", "rounding")
"""Options that are not `compile`'s: how many calls there are, whether the second half of them compiles
nothing, after how many events a call is interrupted that comes before all others, and whether numbers may be
rounded otherwise (torch's optimizers compute with tensors what they compute with floats eagerly), perhaps by
how much."""


class Interrupt(BaseException):
    """What an interrupted call raises."""


# ---- the two sides


def compiled_header(area: str) -> types.CodeType:
    filename, text = f"<header of {area}>", AREAS[area].header
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    return compile(text, filename, "exec", dont_inherit=True)


HEADERS = {area: compiled_header(area) for area in AREAS}
ARGUMENTS = {
    area: {name: compile(text, "<argument>", "eval") for name, text in AREAS[area].arguments.items()}
    for area in AREAS
}


def plainly(fn: Any = None, **options: Any) -> Any:
    """What stands for `framelift.compile` on the plain side."""
    return fn if fn is not None else lambda fn: fn


PLAIN = types.ModuleType("framelift")
PLAIN.__dict__.update({name: getattr(framelift, name) for name in framelift.__all__})
PLAIN.__dict__["compile"] = plainly


def aot(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend as projects write their own."""
    from functorch.compile import make_boxed_func
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(
        graph, inputs, fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward)
    )


BACKENDS: dict[str, Any] = {"aot": aot}
EXACT = ("eager", "aot_eager", "aot")
"""Backends that round as eager does."""


class Side:
    """One of the two runs: a module of its own, with the state that lasts over the calls."""

    def __init__(self, area: str, code: types.CodeType, library: types.ModuleType) -> None:
        self.scope: dict[str, Any] = {"__name__": MODULE, "framelift": library, "OPTIONS": {}}
        self.scope["PLAINLY"] = library is PLAIN
        self.area = area
        self.modes = modes()
        self.begin_again()
        exec(code, self.scope)
        options = dict(self.scope["OPTIONS"])
        self.calls = options.get("calls", CALLS)
        given = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
        given["backend"] = BACKENDS.get(given.get("backend", "eager"), given.get("backend", "eager"))
        program = self.scope["program"]
        code_of = program.__code__
        self.parameters = code_of.co_varnames[: code_of.co_argcount]
        self.program = library.compile(program, **given)

    def arguments(self, call: int) -> dict[str, Any]:
        values: dict[str, Any] = {"call": call}
        for name, code in ARGUMENTS[self.area].items():
            values[name] = eval(code, self.scope, values)
        return {name: values[name] for name in self.parameters}

    def begin_again(self) -> None:
        """All variables as they were at first; the program, with what was compiled of it, stays."""
        torch.manual_seed(0)
        exec(HEADERS[self.area], self.scope)

    def run(self, call: int) -> dict[str, Any]:
        """Everything that can be seen of one call."""
        random.seed(call)
        numpy.random.seed(call)
        torch.manual_seed(call)
        printed = io.StringIO()
        result, arguments, errors = None, {}, []
        set_modes(self.modes)
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                if "between" in self.scope:
                    self.scope["between"](call)
                arguments = self.arguments(call)
                result = drained(self.program(**arguments))
            except FrameliftError:
                raise
            except Exception as error:  # not kept, for it keeps the frames and their generators
                errors = list(chain(error))
        self.modes = modes()
        return {
            "error": errors,
            "printed": printed.getvalue(),
            "warnings": [(one.category, text_of(one)) for one in warned if is_of_program(one)],
            "result": result,
            "arguments": arguments,
            "variables": self.variables(),
            "generators": (random.random(), float(numpy.random.rand()), torch.rand(1)),
            "modes": self.modes,
        }

    def variables(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.scope.items()
            if name[0] != "_"
            and name not in ("PLAINLY", "cond", "while_loop")
            and not isinstance(value, (types.ModuleType, type))
            and (not isinstance(value, types.FunctionType) or value.__closure__)
            and not hasattr(value, "_framelift_wrapper")
        }


def area_of(source: str) -> str:
    found = re.search(r"^AREA = '(.+)'$", source, re.MULTILINE)
    return found[1] if found else "language"


def chain(error: BaseException | None) -> Iterator[Any]:
    """An exception with what it came from, so far as programs can tell."""
    while error is not None:
        args = tuple(without_addresses(arg) if isinstance(arg, str) else arg for arg in error.args)
        yield type(error), args, getattr(error, "value", None), error.__suppress_context__
        error = error.__cause__ or error.__context__


def is_of_program(warning: warnings.WarningMessage) -> bool:
    """Not one that comes once in a process, or when a part of torch is imported."""
    deprecation = issubclass(warning.category, DeprecationWarning)
    return not deprecation and "(Triggered internally at" not in str(warning.message)


def text_of(warning: warnings.WarningMessage) -> str:
    return without_addresses(str(warning.message))


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def drained(result: Any) -> Any:
    """The result with iterators run to their end, or to their error."""
    parts = list(result) if type(result) is tuple else [result]
    for n, part in enumerate(parts):
        if isinstance(part, collections.abc.Iterator):
            drawn: list[Any] = []
            try:
                drawn.extend(itertools.islice(part, 100))
            except Exception as error:
                drawn.append(list(chain(error)))
            parts[n] = type(part), drawn
    return parts


# ---- comparing them


class Everything(Sameness):
    """Each side has classes of its own; what was compiled is what it was made from; tuples of constants need
    not be two."""

    def __init__(self, options: dict[str, Any]) -> None:
        backend = options.get("backend", "eager")
        super().__init__(exact=backend in EXACT and not options.get("rounding"))
        self.history = "exact" if backend == "eager" else "any"
        rounding = options.get("rounding")
        self.tolerance = (rounding, rounding) if type(rounding) is float else (1e-4, 1e-5)

    def same(self, a: Any, b: Any, at: str) -> None:
        if type(a) is type(b) and type(a) in CONSTANTS:  # most of what there is
            assert a == b or (type(a) is int and a > ADDRESS < b), f"{at}: {b!r} instead of {a!r}"
            return
        if isinstance(b, types.FunctionType):
            b = vars(b).get("__wrapped__", b) if "_framelift_wrapper" in vars(b) else b
        if type(a) is not type(b):
            b = getattr(b, "_orig_mod", b) if isinstance(b, torch.nn.Module) else b
        if isinstance(a, RemovableHandle) and isinstance(b, RemovableHandle):
            return  # which are weak references, to what is compared
        if isinstance(a, float) and isinstance(b, float) and not self.exact:
            assert (
                a == b or a != a or math.isclose(a, b, rel_tol=self.tolerance[0], abs_tol=self.tolerance[1])
            ), f"{at}: {b!r} instead of {a!r}"
        elif type(a) is not type(b) and is_own(type(a)) and is_own(type(b)):
            self.classes(type(a), type(b), f"type of {at}")
            if not self.paired(a, b, at):
                (self.tensors if isinstance(a, torch.Tensor) else self.parts)(a, b, at)
        else:
            super().same(a, b, at)

    def parts(self, a: Any, b: Any, at: str) -> None:
        if isinstance(a, collections.OrderedDict) and a and all(type(key) is int for key in a):
            a, b = list(a.values()), list(b.values())  # hooks, which are numbered over all of the process
        for kind, taken in PARTS.items() if type(a) not in ONLY_ELEMENTS else ():
            if isinstance(a, kind):
                return self.same(taken(a), taken(b), f"parts of {at}")
        return super().parts(a, b, at)

    def classes(self, a: type, b: type, at: str) -> None:
        assert is_own(a) and is_own(b) and a.__qualname__ == b.__qualname__, f"{at}: {b} instead of {a}"
        if not self.paired(a, b, at):
            self.same(plain_names(vars(a)), plain_names(vars(b)), f"{at}.__dict__")

    def tensors(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        """A compiled graph has a history of its own, and other views."""
        for name, fact in FACTS.items():
            if name == "strides" and self.history == "any":
                fact = steps  # AOTAutograd's kernels lay out dimensions of one element otherwise
            assert name == "class" or fact(a) == fact(b), f"{at}: {name} {fact(b)} instead of {fact(a)}"
        if type(a).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
            numbers = a.is_floating_point() or a.is_complex()
            same = (
                has_same_bits(a, b)
                if self.exact or not numbers
                else torch.allclose(a.to_dense(), b.to_dense(), *self.tolerance, equal_nan=True)
            )
            assert same, f"{at}: values differ"
            if a.layout is torch.strided and a.untyped_storage().resizable():  # others are NumPy's
                self.memory(a, b, at)
        if self.history == "exact":
            assert a._is_view() == b._is_view(), f"{at}: a view or not"
            assert has_same_history(a, b) or is_of_function(a, b), (
                f"{at}.grad_fn: {b.grad_fn} instead of {a.grad_fn}"
            )
        self.same(dict(vars(a)), dict(vars(b)), f"{at}.__dict__")
        if a.is_leaf:
            self.same(a.grad, b.grad, f"{at}.grad")

    def paired(self, a: Any, b: Any, at: str) -> bool:
        if isinstance(a, numpy.generic):
            return False
        constant = isinstance(a, tuple) and all(isinstance(x, (int, float, str, type, type(None))) for x in a)
        return not constant and super().paired(a, b, at)


CONSTANTS = frozenset((int, bool, str, bytes, type(None), torch.dtype, torch.device))
ADDRESS = 1 << 40
"""Greater ints are addresses of objects."""

PARTS: dict[Any, Callable[[Any], Any]] = {
    numpy.ndarray: lambda a: (str(a.dtype), a.shape, a.strides, a.flags.writeable, a.tolist()),
    numpy.generic: lambda a: (str(a.dtype), a.item()),
    numpy.random.Generator: lambda g: repr(g.bit_generator.state),
    random.Random: lambda r: r.getstate(),
}


def is_own(cls: type) -> bool:
    made = cls.__module__ in (MODULE, "torch.nn.utils.parametrize")
    return made or "<locals>" in cls.__qualname__


def has_same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The sign of a NaN is an accident."""
    if (a.is_floating_point() or a.is_complex()) and a.layout is torch.strided and a.isnan().any():
        a, b = (torch.where(x.isnan(), math.nan, x) for x in (a.detach(), b.detach()))
    return bits(a) == bits(b)


def steps(tensor: torch.Tensor) -> Any:
    """The strides that somebody may go by."""
    if tensor.layout is not torch.strided:
        return None
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]


def is_of_function(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether a history is that of a function within a graph, which has a name of its own, or that of a
    function of the program's, of which each side has one."""
    if a.grad_fn is None or b.grad_fn is None:
        return False
    own = isinstance(a.grad_fn, torch.autograd.function.BackwardCFunction)
    names = ("ApplyTemplateBackward", "CondAutogradOpBackward", *([a.grad_fn.name()] if own else []))
    return b.grad_fn.name() in names


def first_difference(expected: dict[str, Any], found: dict[str, Any], options: dict[str, Any]) -> str | None:
    """All at once; if that differs part by part, for a message that says what."""
    detail = differs(expected, found, "all", options)
    if detail is None:
        return None
    for part in expected:
        if (narrow := differs(expected[part], found[part], part, options)) is not None:
            if part == "error":
                return f"error: {summary(found[part])} instead of {summary(expected[part])}\n  {narrow}"
            changed = changes(expected[part], found[part]) if part == "modes" else ""
            return f"{part} differs{changed}\n  {narrow}"
    return f"sharing differs\n  {detail}"


def differs(expected: Any, found: Any, at: str, options: dict[str, Any]) -> str | None:
    try:
        with (
            torch._C.DisableTorchFunctionSubclass()
        ):  # looking at a tensor must not change what programs have seen
            Everything(options).same(expected, found, at)
    except AssertionError as difference:
        return str(difference)
    finally:
        DRAINED.clear()
    return None


def changes(expected: dict[str, Any], found: dict[str, Any]) -> str:
    return "".join(f", {name} is {found[name]}" for name in expected if expected[name] != found[name])


def summary(errors: list[Any]) -> str:
    return " from ".join(f"{kind.__name__}{args}" for kind, args, _, _ in errors) or "none"


def both(expected: dict[str, Any], found: dict[str, Any]) -> str:
    lines = []
    for part in expected:
        one, other = (without_addresses(repr(outcome[part])) for outcome in (expected, found))
        if one != other:
            start = max(0, next((n for n, (x, y) in enumerate(zip(one, other)) if x != y), 0) - 100)
            lines.append(f"  {part}, eager:    {one[start : start + 300]}")
            lines.append(f"  {part}, compiled: {other[start : start + 300]}")
    return "\n".join(lines)


# ---- one program


@dataclass
class Finding:
    """What became of one program."""

    difference: str | None = None
    raised: bool = False
    refused: bool = False
    """Whether `fullgraph=True` made an error of a break."""
    graphs: int = 0
    breaks: Counter[str] = field(default_factory=Counter)

    @property
    def sort(self) -> str | None:
        """What differs, roughly: programs that fail for the same reason have the same."""
        if self.difference is None:
            return None
        first, _, rest = self.difference.partition("\n")
        if not first.startswith(("error", "a mistake", "an error")):
            first = f"{first}: {rest.partition(chr(10))[0].rpartition(': ')[2]}"
        return re.sub(r"0x\w+|[\d.-]+", "#", first)[:200]


class Faults(logging.Handler):
    """Framelift's own mistakes."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))


NUMBERS = itertools.count()


@contextlib.contextmanager
def compiled_program(source: str) -> Iterator[types.CodeType]:
    number = next(NUMBERS)
    filename = f"<random program {number}>"
    # on other lines each time: code objects that are equal would share what is remembered of them
    text = "\n" * (number % 500) + source
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    try:
        yield compile(text, filename, "exec", dont_inherit=True)
    finally:
        del linecache.cache[filename]


def check_program(source: str) -> Finding:
    """Runs the program both ways; the finding says what differs first."""
    finding, faults = Finding(), Faults()
    log = logging.getLogger("framelift")
    framelift.reset()
    log.addHandler(faults)
    gc.disable()  # when it runs must not decide whether a program differs
    try:
        with compiled_program(source) as code:
            plain, compiled = (Side(area_of(source), code, one) for one in (PLAIN, framelift))
            with contextlib.redirect_stdout(io.StringIO()):  # generators may print when they are compared
                compare(plain, compiled, finding)
        if faults.found and finding.difference is None:
            finding.difference = f"a mistake of Framelift's: {last_line(faults.found[0])}\n{faults.found[0]}"
        finding.breaks = Counter(framelift.counters["graph_break"])
        finding.graphs = framelift.counters["stats"]["unique_graphs"]
        return finding
    finally:
        log.removeHandler(faults)
        gc.enable()
        framelift.reset()
        reset_modes()


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def compare(plain: Side, compiled: Side, finding: Finding) -> None:
    options = compiled.scope["OPTIONS"]
    if "interrupt" in options:
        finding.difference = interrupted(compiled, options["interrupt"])
    compiled_before = 0
    for call in range(compiled.calls):
        if finding.difference is not None:
            return
        expected = plain.run(call)
        if any(kind is RecursionError for kind, *_ in expected["error"]):
            return  # a program that does not end
        try:
            found = compiled.run(call)
        except FrameliftError as error:
            finding.refused = bool(options.get("fullgraph")) or isinstance(
                error, UncapturedHigherOrderOpError
            )
            finding.difference = None if finding.refused else f"an error of Framelift's: {error}"
            return
        finding.raised = finding.raised or bool(expected["error"])
        difference = first_difference(expected, found, options)
        if difference is not None:
            finding.difference = f"{difference}\n  (in call {call})\n{both(expected, found)}"
        if call == compiled.calls // 2:
            compiled_before = compilations()
    if options.get("steady") and finding.difference is None and compilations() > compiled_before:
        finding.difference = f"compiled again and again\n  {compilations()} in {compiled.calls} calls"


def compilations() -> int:
    return len(framelift.compile_records())


def interrupted(side: Side, moment: int) -> str | None:
    """Interrupts a call at the moment given, by a signal. What its handler raises must come out, and leave
    everything as it was."""
    left = moment

    def count(frame: types.FrameType, event: str, what: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupt

    before, arguments = modes(), side.arguments(0)
    came = False
    handler = signal.signal(signal.SIGUSR1, interrupt)
    with contextlib.redirect_stdout(io.StringIO()):
        sys.setprofile(count)
        try:
            side.program(**arguments)
        except Interrupt:
            came = True
        except Exception:
            pass
        finally:
            sys.setprofile(None)
            signal.signal(signal.SIGUSR1, handler)
    after = modes()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    side.begin_again()
    if left <= 0 and not came:
        return "the interrupt was lost"
    return f"the interrupt left behind: {changed}" if changed else None
