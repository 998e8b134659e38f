"""Replay records: a frame that was to be compiled, with its arguments, to be run again by `framelift replay`.

A record is left in the folder of a compilation (`config.debug_dir`) when a backend fails or Framelift does,
and with `config.replay_record_enabled` each time. It is a file with a line that says what it is, a line of
JSON (where the function is, settings, versions, the error), and the arguments as `torch.save` writes them.
The function itself is found again in its file, so a change that was made there meanwhile is tried. A record
holds pickles: only those of people one trusts should be run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import io
import json
import os
import pickle
import platform
import runpy
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import torch

from framelift import __version__
from framelift.bytecode import resume
from framelift.core import breaks, config
from framelift.core.errors import BackendCompilerFailed, UserError
from framelift.core.logs import ROOT
from framelift.dispatch.backend_names import backend_source
from framelift.dispatch.extensions import Observer, RunningCompilation
from framelift.dispatch.object_names import find_object, nested_codes
from framelift.guards.sources import variables

MAGIC = b"framelift replay record 1\n"
NAME = "replay.pt"


PLAIN = (bool, int, str)
"""Kinds of options that a record can hold; functions are not among them."""


def plain_options() -> list[str]:
    return [name for name, row in config.OPTIONS.items() if row.kind in PLAIN]


class BadRecord(UserError):
    """A file that is no record, or no whole one, or one that can't be run here."""


# ---- writing


class ReplayRecords(Observer):
    """Leaves a record of each frame that fails to compile, or of every frame if that is wanted."""

    @contextlib.contextmanager
    def around_compilation(self, compilation: RunningCompilation) -> Iterator[None]:
        try:
            yield
        except BackendCompilerFailed as error:
            path = write(compilation, error)
            if path is not None:
                error.add_note(f"to run it again: framelift replay {path}")
            raise
        else:
            ends = compilation.record.failed, compilation.record.ended_by
            is_fault = any((text or "").startswith(breaks.FAULT.name) for text in ends)
            if config.config.replay_record_enabled or is_fault:
                write(compilation)


def write(compilation: RunningCompilation, error: BaseException | None = None) -> Path | None:
    """None where there is no folder, or it can't be written to: that is no reason for a program to fail."""
    if compilation.record.folder is None:
        return None
    path = Path(compilation.record.folder, NAME)
    try:
        path.write_bytes(replay_record(compilation, error))
    except Exception as problem:
        ROOT.warning("a replay record could not be written: %s: %s", type(problem).__name__, problem)
        return None
    return path


def replay_record(compilation: RunningCompilation, error: BaseException | None) -> bytes:
    """What the file holds."""
    fn, record, context = compilation.fn, compilation.record, compilation.context
    payload: dict[str, Any] = {"function": locate(fn), "arguments": compilation.arguments}
    unsaved: dict[str, str] = {}
    try:
        data = dump(payload)
    except Exception:
        names = variables(fn.__code__)
        given = enumerate(compilation.arguments)
        payload["arguments"] = [save_or_stand_in(names[n], value, unsaved) for n, value in given]
        payload["function"] = payload["function"].without_unsavable(unsaved)
        data = dump(payload)
    backend_import, backend = backend_source(context.backend, context.backend_name)
    about = {
        "function": record.name,
        "module": fn.__globals__.get("__name__"),
        "file": os.path.abspath(record.filename),
        "line": record.line,
        "compile_id": record.compile_id,
        "backend": {"name": context.backend_name, "import": backend_import, "expression": backend},
        "settings": {"fullgraph": context.fullgraph, "dynamic": context.dynamic, "options": context.options},
        "config": {
            name: getattr(config.config, name) for name, row in config.OPTIONS.items() if row.kind in PLAIN
        },
        "versions": versions(),
        "error": record.failed or record.ended_by or (None if error is None else describe_error(error)),
        "traceback": None if error is None else "".join(traceback.format_exception(error)),
        "unsaved": unsaved,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    return MAGIC + json.dumps(about, default=repr).encode() + b"\n" + data


def describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def versions() -> dict[str, str]:
    return {"framelift": __version__, "python": platform.python_version(), "torch": torch.__version__}


@dataclass(frozen=True)
class Unsaved:
    """Stands for an argument that can't be pickled."""

    why: str


def save_or_stand_in(name: str, value: Any, unsaved: dict[str, str]) -> Any:
    try:
        dump(value)
        return value
    except Exception as error:
        unsaved[name] = describe_error(error)
        return Unsaved(unsaved[name])


def dump(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, pickle_module=PICKLING, pickle_protocol=4)
    return file.getvalue()


# ---- functions, by where they are


@dataclass(frozen=True)
class Resumed:
    """Where a resume function goes on; `inner` is the one that it calls."""

    at: int
    unbound: frozenset[int]
    stack: tuple[int, ...]
    takes_free: bool
    made: bool
    inner: Located | None

    def function(self, of: FunctionType) -> FunctionType:
        body, inner = resume.body_of(of.__code__), None if self.inner is None else self.inner.find()
        point = resume.Point(body, self.at, self.unbound, self.stack, self.takes_free)
        return resume.resume_function(resume.resume_code(point, inner, self.made), of)


@dataclass(frozen=True)
class Located:
    """A function: its module and file, its place there, and what it has besides its code."""

    module: str
    file: str
    qualname: str
    line: int
    closure: tuple[CellType, ...] | None
    defaults: tuple[Any, ...] | None
    kwdefaults: dict[str, Any] | None
    resumed: Resumed | None = None

    def find(self) -> FunctionType:
        namespace = namespace_of(self.module, self.file)
        code = code_at(self.file, self.qualname, self.line)
        fn = FunctionType(code, namespace, code.co_name, self.defaults, self.closure)
        fn.__kwdefaults__ = self.kwdefaults
        fn.__qualname__ = self.qualname
        return fn if self.resumed is None else self.resumed.function(fn)

    def without_unsavable(self, unsaved: dict[str, str]) -> Located:
        """Without what can't be pickled of its enclosing functions' variables."""
        around = f"a variable around {self.qualname}"
        cells = (
            CellType(save_or_stand_in(around, cell.cell_contents, unsaved)) if is_filled(cell) else cell
            for cell in self.closure or ()
        )
        return dataclasses.replace(self, closure=tuple(cells) or None)


def locate(fn: FunctionType) -> Located:
    origin = resume.origin_of(fn.__code__)
    code, resumed = fn.__code__, None
    if origin is not None:
        code, resumed = origin.body.code, locate_resume(fn.__code__, origin)
    place = os.path.abspath(code.co_filename), code.co_qualname, code.co_firstlineno
    own = fn.__closure__, fn.__defaults__, fn.__kwdefaults__
    return Located(str(fn.__globals__.get("__name__", "")), *place, *own, resumed)


def locate_resume(code: CodeType, origin: resume.Origin) -> Resumed:
    keys = [key for key, made in origin.body.made.items() if made is code]
    at, unbound, stack, takes_free, _, made, _ = keys[0]
    inner = resume.called_by(code)
    return Resumed(at, unbound, stack, takes_free, made, None if inner is None else locate(inner))


def namespace_of(module: str, file: str) -> dict[str, Any]:
    """The globals of a module: imported by its name if that is the file, and run otherwise."""
    if file in _ran:
        return _ran[file]
    loaded = sys.modules.get(module)
    if module != "__main__" and loaded is None:
        with contextlib.suppress(Exception), import_from(file):
            loaded = importlib.import_module(module)
    if loaded is not None and os.path.abspath(getattr(loaded, "__file__", None) or "") == file:
        return vars(loaded)
    if not os.path.isfile(file):
        raise BadRecord(f"the function's file {file} is not there")
    try:
        with import_from(file):
            _ran[file] = runpy.run_path(file, run_name="framelift_replay")
    except Exception as error:
        raise BadRecord(f"{file} can't be run: {type(error).__name__}: {error}") from error
    return _ran[file]


_ran: dict[str, dict[str, Any]] = {}
"""File -> the globals of a script, which is run once."""


@contextlib.contextmanager
def import_from(file: str) -> Iterator[None]:
    sys.path.insert(0, os.path.dirname(file))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(os.path.dirname(file))


def code_at(file: str, qualname: str, line: int) -> CodeType:
    """The code of a function, as its file has it now; it may have moved."""
    try:
        source = Path(file).read_text(encoding="utf-8")
        found = [code for code in nested_codes(compile(source, file, "exec")) if code.co_qualname == qualname]
    except (OSError, SyntaxError, ValueError) as error:
        raise BadRecord(f"{file} can't be read: {error}") from None
    exact = [code for code in found if code.co_firstlineno == line]
    if len(exact) != 1 and len(found) != 1:
        count = len(found) or "no"
        raise BadRecord(f"{file} has {count} function(s) {qualname}, and none alone at line {line}")
    return (exact or found)[0]


# ---- pickles of what pickle does not know


class Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, CellType):  # filled afterwards: what is in it may lead to it
            content = ((value.cell_contents,), None, None, fill_cell) if is_filled(value) else ()
            return make_cell, (), *content
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, FunctionType) and find_object(value.__module__, value.__qualname__) is not value:
            return Located.find, (locate(value),)
        return NotImplemented


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            for namespace in _ran.values():
                first, *rest = name.split(".")
                if first in namespace:
                    return functools.reduce(getattr, rest, namespace[first])
        return super().find_class(module, name)


class PICKLING:
    """What `torch.save` takes for the module `pickle`."""

    __name__ = "pickle"
    Pickler = Pickler
    Unpickler = Unpickler
    load, loads, dump, dumps = pickle.load, pickle.loads, pickle.dump, pickle.dumps
    UnpicklingError, PicklingError = pickle.UnpicklingError, pickle.PicklingError


def is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def make_cell() -> CellType:
    return CellType()


def fill_cell(cell: CellType, state: tuple[Any]) -> None:
    (cell.cell_contents,) = state


# ---- reading


@dataclass
class ReplayRecord:
    """A record that was read: what is said of it, and the frame."""

    path: Path
    about: dict[str, Any]
    function: FunctionType
    arguments: list[Any]

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as a call gives them."""
        code, left = self.function.__code__, list(self.arguments)
        positional = [left.pop(0) for _ in range(code.co_argcount)]
        names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        keywords = {name: left.pop(0) for name in names}
        if code.co_flags & 0x04:
            positional += left.pop(0)
        if code.co_flags & 0x08:
            keywords |= left.pop(0)
        return positional, keywords

    def backend(self) -> str | Callable[..., Any]:
        """Its name, or the function that it was."""
        known = self.about["backend"]
        if not known["import"]:
            return str(known["name"])
        names: dict[str, Any] = {}
        try:
            with import_from(str(self.about["file"])):
                exec(f"{known['import']}\nfound = {known['expression']}", names)
        except Exception as error:
            raise BadRecord(f"the backend {known['name']} can't be imported: {error}") from None
        if names["found"] is None:
            raise BadRecord(f"the backend {known['name']} can't be imported; name another with --backend")
        found: Callable[..., Any] = names["found"]
        return found


def read_header(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bytes]:
    """What a record says of itself, and the rest of it unread."""
    file = Path(path, NAME) if Path(path).is_dir() else Path(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadRecord(f"there is no record {file}: {error.strerror}") from None
    if not content.startswith(MAGIC):
        raise BadRecord(f"{file} is no replay record")
    head, _, data = content[len(MAGIC) :].partition(b"\n")
    try:
        about: dict[str, Any] = json.loads(head)
        whole = len(data) == about["bytes"]
        intact = whole and hashlib.sha256(data).hexdigest() == about["sha256"]
    except (ValueError, KeyError, TypeError):
        raise BadRecord(f"{file} is a replay record that is cut off or damaged") from None
    if not intact:
        missing = "damaged" if whole else f"cut off: it has {len(data)} of {about['bytes']} bytes"
        raise BadRecord(f"{file} is a replay record that is {missing}")
    return about, data


def read(path: str | os.PathLike[str]) -> ReplayRecord:
    about, data = read_header(path)
    if about["unsaved"]:
        name, why = next(iter(about["unsaved"].items()))
        raise BadRecord(f"{path}: {name} could not be saved, so the function can't be run again ({why})")
    python = platform.python_version_tuple()[:2]
    if about["versions"]["python"].split(".")[:2] != list(python):
        raise BadRecord(f"{path} is of Python {about['versions']['python']}, and this is {'.'.join(python)}")
    namespace_of(str(about["module"]), about["file"])  # classes of a script are found there
    try:
        payload = torch.load(io.BytesIO(data), pickle_module=PICKLING, weights_only=False, map_location=None)
        function = payload["function"].find()
    except BadRecord:
        raise
    except Exception as error:
        raise BadRecord(f"{path} can't be read here: {type(error).__name__}: {error}") from error
    return ReplayRecord(Path(path), about, function, payload["arguments"])
