"""The files of the cache: entries by key, and compiled kernels by what is in them.

    captures/<key>/<hint>-<digest>    an entry: a signature, and what was saved
    kernels/<digest>.so               code that entries name
    secret                            what signatures are made with

An entry is read only if the user owns it, nobody else can write it, and its signature is right: what it
holds is unpickled and run. What can't be written (no space, no permission) is not kept, which is logged
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from framelift.core.config import config
from framelift.core.user_cache import (
    UntrustedFileError,
    check_ownership,
    make_private_dir,
    read_trusted,
    user_cache_dir,
    write_atomically,
)

log = logging.getLogger("framelift.cache")

SIGNATURE = hashlib.sha256().digest_size
MEBIBYTE = 1 << 20
KEPT_WHEN_FULL = 0.8
"""How much of the limit is left after something was removed."""


@dataclass(frozen=True)
class CacheFile:
    path: Path
    size: int
    used: float
    """When it was used last."""


def captures_dir() -> Path:
    return user_cache_dir() / "captures"


def kernels_dir() -> Path:
    return user_cache_dir() / "kernels"


# ---- reading


def entries_for(key: str, hint: str) -> Iterator[tuple[Path, bytes]]:
    """What was saved under a key, those with the same hint first. What can't be trusted is passed over."""
    folder = captures_dir() / key
    try:
        check_ownership(folder, os.lstat(folder))
        names = [each for each in os.listdir(folder) if not each.startswith(".")]
    except UntrustedFileError as error:
        log.warning("what the cache has is not used: %s", error)
        return
    except OSError:
        return
    for name in sorted(names, key=lambda name: (not name.startswith(f"{hint}-"), name)):
        path = folder / name
        try:
            yield path, signed_content(path)
        except FileNotFoundError:  # another process has removed it
            continue
        except (OSError, ValueError) as error:
            log.warning("an entry of the cache is not used: %s", error)


def signed_content(path: Path) -> bytes:
    """Raises ValueError if it is not what was written."""
    data = read_trusted(path)
    content = data[SIGNATURE:]
    if not hmac.compare_digest(data[:SIGNATURE], signature(content)):
        raise ValueError(f"{path} is torn, or someone has changed it")
    return content


def note_use(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)


def kernel_path(name: str) -> Path:
    """Compiled code, which is what its name says. Raises OSError or ValueError otherwise."""
    read_kernel(name)
    path = kernels_dir() / f"{name}.so"
    note_use(path)
    return path


def read_kernel(name: str) -> bytes:
    path = kernels_dir() / f"{name}.so"
    check_ownership(path.parent, os.lstat(path.parent))
    data = read_trusted(path)
    if digest_of(data) != name:
        raise ValueError(f"{path} is torn, or someone has changed it")
    return data


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---- writing


def write_entry(key: str, hint: str, content: bytes) -> Path:
    """Raises OSError if that is not possible."""
    make_private_dir(captures_dir())
    folder = captures_dir() / key
    make_private_dir(folder)
    path = folder / f"{hint}-{digest_of(content)[:24]}"
    write_atomically(path, signature(content) + content)
    return path


def write_kernel(data: bytes) -> str:
    """The name that it goes by."""
    name = digest_of(data)
    make_private_dir(kernels_dir())
    path = kernels_dir() / f"{name}.so"
    if not path.exists():
        write_atomically(path, data)
    return name


def signature(content: bytes) -> bytes:
    return hmac.digest(secret(), content, "sha256")


def secret() -> bytes:
    """What only the user knows; made when it is first asked for."""
    path = user_cache_dir() / "secret"
    try:
        found = read_trusted(path)
    except FileNotFoundError:
        make_private_dir(path.parent)
        made = path.with_name(f".secret-{secrets.token_hex(8)}")
        write_atomically(made, secrets.token_bytes(32))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(made, path)
        made.unlink()
        found = read_trusted(path)
    if len(found) != 32:
        raise ValueError(f"{path} is not what was written")
    return found


# ---- what there is, and how much of it


def cached_files() -> list[CacheFile]:
    found = []
    for folder in (captures_dir(), kernels_dir()):
        for path in folder.rglob("*") if folder.is_dir() else ():
            with contextlib.suppress(OSError):
                about = path.lstat()
                if not path.is_dir():
                    found.append(CacheFile(path, about.st_size, about.st_mtime))
    return found


def keep_within_limit() -> int:
    """Removes what was not used for longest if there is more than the limit allows. How many that were."""
    files = cached_files()
    total, limit = sum(each.size for each in files), config.cache_mebibytes * MEBIBYTE
    if total <= limit:
        return 0
    removed = 0
    for each in sorted(files, key=lambda each: each.used):
        if total <= limit * KEPT_WHEN_FULL:
            break
        with contextlib.suppress(OSError):
            each.path.unlink()
            total, removed = total - each.size, removed + 1
    log.info(
        "%d files of the cache were removed, which had grown over %d MiB", removed, config.cache_mebibytes
    )
    return removed


def clear() -> tuple[int, int]:
    """Removes all of it: how many files, and how many bytes that were."""
    files = cached_files()
    for each in files:
        with contextlib.suppress(OSError):
            each.path.unlink()
    for folder in captures_dir().iterdir() if captures_dir().is_dir() else ():
        with contextlib.suppress(OSError):
            folder.rmdir()
    return len(files), sum(each.size for each in files)
