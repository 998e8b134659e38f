"""`framelift.config`: what holds for all compiled functions, changeable at any time.

Each option is a row of a table: its type, its default, and what it is for. A name that is not there and
a value that makes no sense are errors when they are set, not when they are used. The environment may have
other defaults: FRAMELIFT_RECOMPILE_LIMIT=16, FRAMELIFT_VERBOSE=1.

>>> import framelift
>>> with framelift.config.patch(recompile_limit=2):
...     framelift.config.recompile_limit
2
>>> framelift.config.recompile_limit
8
"""

from __future__ import annotations

import contextlib
import difflib
import os
import pydoc
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from framelift.core import torch_options
from framelift.core.errors import UserError


@dataclass(frozen=True)
class Option:
    kind: type
    default: Any
    meaning: str
    least: int | None = None
    """For numbers: none below this."""
    choices: tuple[str, ...] = ()
    """For texts: only these, if there are any."""
    is_folder: bool = False
    """For texts: the environment may name it relative to where the program starts."""


LISTENERS: dict[str, Callable[[Any], None]] = {}
"""Option -> who is told when it is set."""

T = TypeVar("T", bool, int, str, frozenset[Any])


def option(default: T, meaning: str, **rest: Any) -> T:
    """A row of the table; to a type checker, its value."""
    return Option(type(default), default, meaning, **rest)  # type: ignore[return-value]


class Config:
    """The values of the options. Assigning checks; `patch` puts back what was there before."""

    recompile_limit: int = option(
        8, "How many entries one code object may have in one compiled function.", least=1
    )
    accumulated_recompile_limit: int = option(
        256, "How many entries one code object may have in all compiled functions together.", least=1
    )
    fail_on_recompile_limit_hit: bool = option(
        False, "Whether it is an error to come to a limit; otherwise the function runs as plain Python."
    )
    error_on_recompile: bool = option(False, "Whether every recompilation is an error.")
    automatic_dynamic_shapes: bool = option(
        True, "Whether sizes and numbers that have changed are symbols the next time."
    )
    assume_static_by_default: bool = option(
        True, "Whether sizes and numbers are constants until they change; if not, as with dynamic=True."
    )
    specialize_int: bool = option(False, "Whether ints are always constants, also those that change.")
    specialize_float: bool = option(False, "The same of floats.")
    dynamic_sources: str = option(
        "",
        "Names of arguments and attributes (`x, self.table, batch*`) whose sizes and numbers are symbols "
        "from the first capture on.",
    )
    unbacked_sources: str = option(
        "", "The same of tensors whose sizes are not to be looked at (mark_unbacked)."
    )
    force_parameter_static_shapes: bool = option(
        True, "Whether sizes of parameters are constants until they change, also with dynamic=True."
    )
    force_nn_module_property_static_shapes: bool = option(
        False, "The same of all tensors that are not passed to the function, such as buffers of modules."
    )
    allow_ignore_mark_dynamic: bool = option(
        False, "Whether code that works for one size only may fix a dimension that is marked as dynamic."
    )
    disable: bool = option(False, "Whether `compile` gives back what it is given, and nothing is compiled.")
    ignore_logging_functions: frozenset[Any] = option(
        frozenset(), "Functions, such as `print`, whose calls in compiled functions are left out."
    )
    ignore_logger_methods: frozenset[Any] = option(
        frozenset(), "The same of methods, such as `logging.Logger.info`."
    )
    reorderable_logging_functions: frozenset[Any] = option(
        frozenset(), "Functions, such as `print`, that may be called later than the program calls them."
    )
    cprofile: bool = option(
        False, "Whether each compilation is run under cProfile, and leaves what that found in a file; slow."
    )
    suppress_errors: bool = option(
        False, "Whether a function that a backend fails on runs as plain Python, but with fullgraph=True."
    )
    prepare: bool = option(
        False,
        "Whether the first `compile` on a machine has another process make ready what Inductor needs there.",
    )
    progress: bool = option(
        True, "Whether a compilation of more than a second is shown, if stderr is a terminal."
    )
    verbose: bool = option(
        False, "Whether messages about breaks also say where in Framelift that was found out."
    )
    capture_scalar_outputs: bool = option(
        False, "Whether `.item()` and the like are captured, as symbols; otherwise they break."
    )
    trace_numpy: bool = option(
        True, "Whether NumPy's arrays and functions are captured, as torch's; otherwise they break."
    )
    capture_dynamic_output_shape_ops: bool = option(
        False, "The same for operators whose result's shape depends on data, such as `nonzero`."
    )
    replay_modules: bool = option(
        False, "Whether calls of modules that do what others of their class did are not traced again."
    )
    share_blocks: str = option(
        "large",
        "Which blocks that a graph repeats, such as equal layers, are compiled once and called for each: "
        "large ones, which make no step slower (Inductor, a processor, no gradients), all of them, or none.",
        choices=("large", "always", "never"),
    )
    compiled_autograd: bool = option(
        False,
        "Whether functions compiled from now on capture the backward passes that are run within them, too.",
    )
    raise_on_ctx_manager_usage: bool = option(
        True, "Whether `optimize` as a context manager is an error; if not, what its block calls is compiled."
    )
    verify_correctness: bool = option(
        False, "Whether what a backend made of a graph is checked against the graph each time it runs; slow."
    )
    replay_record_enabled: bool = option(
        False,
        "Whether each compilation leaves a replay record in the debug directory, not just one that fails.",
    )
    optimize_ddp: bool = option(
        True,
        "Whether graphs in a DistributedDataParallel are cut along its buckets, so that backward and "
        "communication overlap.",
    )
    rank_agreement: str = option(
        "off",
        "Whether ranks compare what they compile, and fail where it differs, or come to the same result.",
        choices=("off", "check", "agree"),
    )
    rank_agreement_timeout: int = option(
        300, "How many seconds a rank waits for what the others have compiled.", least=1
    )
    capture_once: bool = option(
        False, "Whether the first rank captures for all; the others check the guards of what they get."
    )
    rank_agreement_group: str = option(
        "", "The name of the process group that agrees (its `group_name`); empty: all ranks."
    )
    cache: bool = option(
        True, "Whether what was captured and compiled is kept on disk, for the next process that runs it."
    )
    cache_dir: str = option(
        "",
        "Where that is kept; empty: `framelift` in the user's cache folder.",
        is_folder=True,
    )
    cache_mebibytes: int = option(
        2048, "How many MiB the cache on disk may take; what was not used for longest is removed.", least=1
    )
    debug_dir: str = option(
        "",
        "Where each compilation leaves a folder with its graph, guards and code; empty: nowhere.",
        is_folder=True,
    )

    def __init__(self) -> None:
        found = {name: row.default for name, row in OPTIONS.items()}
        given = {name: os.environ.get(variable(name)) for name in OPTIONS}
        self.put(found | {name: parsed(name, text) for name, text in given.items() if text is not None})

    def __setattr__(self, name: str, value: Any) -> None:
        check(name, value)
        self.put({name: value})

    def __delattr__(self, name: str) -> None:
        default = known_option(name).default
        raise UserError(f"framelift.config.{name} can't be deleted; its default is {default!r}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(unknown(name))

    @contextlib.contextmanager
    def patch(
        self, name: str | Mapping[str, Any] | None = None, value: Any = None, /, **values: Any
    ) -> Iterator[Config]:
        """Other values for a `with` block or a decorated function: by keyword, `patch("name", value)`, or
        `patch({"name": value})`. Everything is checked before anything is set."""
        values |= {} if name is None else {name: value} if isinstance(name, str) else dict(name)
        for option, wanted in values.items():
            check(option, wanted)
        before = {option: self.__dict__[option] for option in values}
        self.put(values)
        try:
            yield self
        finally:
            self.put(before)

    def put(self, values: Mapping[str, Any]) -> None:
        """Sets options that have been checked, and tells who wants to know."""
        self.__dict__.update(values)
        for name in LISTENERS.keys() & values.keys():
            LISTENERS[name](values[name])

    def reset(self) -> None:
        """The defaults, or what the environment says, for all of them."""
        self.__init__()  # type: ignore[misc]

    def __dir__(self) -> list[str]:
        return ["patch", "reset", *OPTIONS]

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={self.__dict__[name]!r}' for name in OPTIONS)})"


OPTIONS = {name: found for name, found in vars(Config).items() if isinstance(found, Option)}


def variable(name: str) -> str:
    """The environment variable that an option is taken from: FRAMELIFT_VERBOSE=1."""
    return f"FRAMELIFT_{name.upper()}"


WORDS = {"1": True, "true": True, "yes": True, "on": True}
WORDS |= {"0": False, "false": False, "no": False, "off": False}


def parsed(name: str, text: str) -> Any:
    """The value that an environment variable gives an option."""
    row = OPTIONS[name]
    value: Any = PARSERS[row.kind](text.strip())
    if value is None:
        wanted = {bool: "0 or 1", int: "a number"}.get(row.kind, "names of functions that can be imported")
        raise UserError(f"{variable(name)}={text}: it must be {wanted}")
    if row.is_folder and value:
        value = os.path.abspath(value)  # the program may go elsewhere
    check(name, value, f"{variable(name)}={text}: ")
    return value


PARSERS: dict[type, Callable[[str], Any]] = {
    bool: lambda text: WORDS.get(text.lower()),
    int: lambda text: int(text) if text.lstrip("-").isdigit() else None,
    str: lambda text: text,
    frozenset: lambda text: functions_named(text),
}
"""Kind of option -> what reads it; None: it makes no sense."""


def functions_named(text: str) -> frozenset[Any] | None:
    """What names with dots and commas between them stand for: `builtins.print, logging.Logger.info`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    found = [pydoc.locate(name) for name in names]
    return None if any(each is None for each in found) else frozenset(found)


def unknown(name: str) -> str:
    if name in torch_options.OPTIONS:
        option = torch_options.OPTIONS[name]
        return f"framelift.config has no option {name!r}, which torch has: {option.sentence}"
    close = difflib.get_close_matches(name, OPTIONS, 1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known are: {', '.join(OPTIONS)}"
    return f"framelift.config has no option {name!r}{hint}"


def known_option(name: str) -> Option:
    if name not in OPTIONS:
        raise UserError(unknown(name))
    return OPTIONS[name]


def check(name: str, value: Any, where: str = "framelift.config.") -> None:
    """UserError for a name or a value that makes no sense."""
    wanted = known_option(name)
    if wanted.kind is frozenset and isinstance(value, (Set, list, tuple)):
        if not all(map(callable, value)):
            raise UserError(f"{where}{name} must be functions, not {value!r:.80}")
    elif type(value) is not wanted.kind:
        wrong = f"{value!r:.80} ({type(value).__name__})"
        raise UserError(f"{where}{name} must be of type {wanted.kind.__name__}, not {wrong}")
    if isinstance(value, int) and wanted.least is not None and value < wanted.least:
        raise UserError(f"{where}{name} must be at least {wanted.least}, not {value}")
    if wanted.choices and value not in wanted.choices:
        choices = ", ".join(map(repr, wanted.choices))
        raise UserError(f"{where}{name} must be one of {choices}, not {value!r:.80}")


config = Config()
