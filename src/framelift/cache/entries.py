"""An entry as bytes: a capture, what the backend made of its graph, and the files that it all comes from.

The files of the program that took part, whether code of theirs was captured or a class of theirs was asked
something, must be what they were. Guards and descriptions of code say more exactly what was relied on; this
is the net below them.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

from framelift.cache.artifacts import Artifact
from framelift.cache.files import digest_of
from framelift.core import policy
from framelift.dispatch.capture import Capture
from framelift.dispatch.capture_serialization import Snapshot, load_with_more
from framelift.dispatch.object_names import NotPortableError


class Loaded(NamedTuple):
    capture: Capture
    artifact: Artifact | None
    """What the backend made of the graph. None: it has to compile that."""


def pack(snapshot: Snapshot, artifact: Artifact | None) -> bytes:
    """Raises NotPortableError if another process could not use it."""
    data, modules = snapshot.save_with(artifact)
    modules |= modules_of_files({code.co_filename for code in snapshot.codes()})
    sources = {name: found for name in sorted(modules) if (found := source_digest(name)) is not None}
    return pickle.dumps((sources, data), protocol=5)


def unpack(content: bytes, fn: types.FunctionType, arguments: list[Any]) -> Loaded:
    """Raises NotPortableError if it is not for this program, or not for these arguments."""
    sources, data = pickle.loads(content)
    for name, known in sources.items():
        if source_digest(name) != known:
            raise NotPortableError(f"the source of {name} is another one")
    return Loaded(*load_with_more(data, fn, arguments))


def modules_of_files(files: set[str]) -> set[str]:
    found = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    return {name for name, file in found if file in files}


def source_digest(name: str) -> str | None:
    """Of the file of a module of the program's. None: it is another's, and known by its version, or there is
    no file."""
    if not policy.is_user_code(name):
        return None
    file = getattr(sys.modules.get(name), "__file__", None)
    if not isinstance(file, str):
        return None
    try:
        about = os.stat(file)
    except OSError:
        return None
    return file_digest(file, about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=1000)
def file_digest(file: str, changed: int, size: int) -> str | None:
    try:
        with open(file, "rb") as opened:
            return digest_of(opened.read())
    except OSError:
        return None


def is_in_file(codes: Iterable[types.CodeType]) -> bool:
    """Whether functions are defined in files, which other processes have too."""
    return all(os.path.isfile(code.co_filename) for code in codes)
