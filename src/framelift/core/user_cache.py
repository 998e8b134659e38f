"""Files that are kept between processes, in a folder of the user's own.

The folder is `FRAMELIFT_CACHE_DIR` (`framelift.config.cache_dir`), or `framelift` in the user's cache folder.
A file appears whole or not at all, whoever else writes at the same time. What is read must belong to the
user, and nobody else may be able to write it: what such files hold may be run.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from framelift.core.config import config

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UntrustedFileError(OSError):
    """A file that someone else may have written."""


def user_cache_dir() -> Path:
    """The folder, which need not be there yet."""
    if config.cache_dir:
        return Path(config.cache_dir)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # as the specification has it
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "framelift")


def make_private_dir(path: Path) -> None:
    """Makes a folder that nobody else can write to. Raises UntrustedFileError if there is one that others
    can."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    check_ownership(path, os.stat(path))


def check_ownership(path: Path, found: os.stat_result) -> None:
    """Raises UntrustedFileError unless a file or folder is the user's, and only they can write to it."""
    if not hasattr(os, "geteuid"):  # no such owners there
        return
    if found.st_uid != os.geteuid():
        raise UntrustedFileError(f"{path} belongs to another user")
    if found.st_mode & WRITABLE_BY_OTHERS:
        raise UntrustedFileError(f"{path} can be written by other users")


def read_trusted(path: Path) -> bytes:
    """What is in a file that only the user can have written. Raises OSError if there is none."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)  # of this very file, whatever has been put in its place meanwhile
        if not stat.S_ISREG(found.st_mode):
            raise UntrustedFileError(f"{path} is not a file")
        check_ownership(path, found)
        return file.read()


def write_atomically(path: Path, data: bytes) -> None:
    """Puts a file in place whole: whoever reads it gets this, what was there before, or nothing."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
