"""The names that backends are known by: those of Framelift's, of packages, and what torch knows."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any

from framelift.core.errors import InvalidBackend
from framelift.dispatch.compile_contexts import Backend

ENTRY_POINTS = "torch_dynamo_backends"
"""The group under which packages offer backends for torch.compile; they are backends here too."""
_HOMES = ("framelift.dispatch.backends", "framelift.dispatch.debug_backends", "framelift.dispatch.cudagraphs")
"""The modules with Framelift's own, which register them when they are imported."""

_registered: dict[str, Backend] = {}
_tags: dict[str, tuple[str, ...]] = {}
"""Name -> what kind of backend it is: "debug" for those that make nothing faster."""


def registered() -> dict[str, Backend]:
    """Name -> backend, for Framelift's own and what was registered here."""
    for home in _HOMES:
        importlib.import_module(home)
    return _registered


def register_backend(
    backend: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Makes a backend known by a name; as a function or as a decorator."""
    if backend is None:
        return lambda fn: register_backend(fn, name, tags)
    if not callable(backend):
        raise TypeError(f"a backend must be callable, not {type(backend).__name__}")
    known_as = name or backend.__name__
    _registered[known_as], _tags[known_as] = backend, tuple(tags)
    return backend


def list_backends(exclude_tags: Sequence[str] | None = ()) -> list[str]:
    """The names that `compile(backend=...)` knows, without those that have one of these tags (`debug`)."""
    excluded = set(exclude_tags or ())
    names = {*registered(), *(entry.name for entry in entry_points())}
    return sorted(name for name in names if excluded.isdisjoint(_tags.get(name, ())))


def entry_points() -> list[importlib.metadata.EntryPoint]:
    return list(importlib.metadata.entry_points(group=ENTRY_POINTS))


def lookup_backend(backend: str | Backend) -> Backend:
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise TypeError(f"backend must be a name or a callable, not {type(backend).__name__}")
    found = _registered.get(backend) or registered().get(backend)
    if found is None:
        for entry in entry_points():
            if entry.name == backend:
                found = _registered[backend] = entry.load()
    if found is None:
        found = registered_with_torch(backend)
    if found is None:
        known = ", ".join(list_backends())
        raise InvalidBackend(f"Invalid backend: {backend!r}; known are: {known}")
    return found


def registered_with_torch(name: str) -> Backend | None:
    """A backend that someone has registered with torch's compiler, as far as that is loaded."""
    registry: Any = sys.modules.get("torch._dynamo.backends.registry")
    if registry is None:
        return None
    try:
        found: Backend = registry.lookup_backend(name)
    except Exception:  # which is of a class that nobody has loaded for this
        return None
    return found


def backend_name(backend: str | Backend) -> str:
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def backend_source(backend: Any, name: str) -> tuple[str, str]:
    """(an import, an expression) for a backend: its name, or where it can be imported from."""
    if _registered.get(name) is backend:
        return "", repr(name)
    module, path = getattr(backend, "__module__", ""), getattr(backend, "__qualname__", "")
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if module == "__main__" and path.isidentifier() and file is not None:
        ran = f'runpy.run_path({os.path.abspath(file)!r}, run_name="backend")["{path}"]'
        return f"import runpy\n\n{path} = {ran}", path
    if not module or module == "__main__" or not path.isidentifier():
        return f"# {name} can't be imported; put what makes it here", "None"
    return f"from {module} import {path}", path
