"""`framelift.save_cache` and `load_cache`: what is kept on disk as one file, for other machines or images.

Signatures are made with a secret of the user's, so a bundle has none: loading one is to trust whoever made
it, as with any code, and signs its entries anew.
"""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

from framelift.cache import files
from framelift.cache.writing import writer
from framelift.core.errors import UserError
from framelift.core.user_cache import WRITABLE_BY_OTHERS

CAPTURES, KERNELS = "captures", "kernels"


def save_cache(path: str | os.PathLike[str]) -> int:
    """Writes what the cache on disk has to one file, with what this process has compiled so far. Gives the
    number of captures in it."""
    writer.flush()
    count = 0
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.writing")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as bundle:
        for each in files.cached_files():
            if each.path.name.startswith("."):
                continue
            if each.path.parent == files.kernels_dir():
                bundle.writestr(f"{KERNELS}/{each.path.name}", files.read_kernel(each.path.stem))
                continue
            content = files.signed_content(each.path)
            bundle.writestr(f"{CAPTURES}/{each.path.parent.name}/{each.path.name}", content)
            count += 1
    unfinished.replace(target)
    return count


def load_cache(path: str | os.PathLike[str]) -> int:
    """Puts what `save_cache` has written into the cache on disk. Gives the number of captures.

    What is in the file will be run, so it must come from someone who is trusted: it has to belong to the user
    or to root, and nobody else may be able to write it.
    """
    check_owner(Path(path))
    count = 0
    with zipfile.ZipFile(path) as bundle:
        for name in bundle.namelist():
            content = bundle.read(name)  # which checks what was stored of it
            match name.split("/"):
                case ["kernels", kernel] if kernel == f"{files.digest_of(content)}.so":
                    files.write_kernel(content)
                case ["captures", key, entry] if entry.endswith(f"-{files.digest_of(content)[:24]}"):
                    files.write_entry(key, entry.partition("-")[0], content)
                    count += 1
                case _:
                    raise UserError(f"framelift.load_cache: {path} has {name}, which is not what it says")
    files.keep_within_limit()
    return count


def check_owner(path: Path) -> None:
    found = os.stat(path)
    if hasattr(os, "geteuid") and found.st_uid not in (0, os.geteuid()):
        raise UserError(f"framelift.load_cache: {path} belongs to another user")
    if stat.S_ISREG(found.st_mode) and found.st_mode & WRITABLE_BY_OTHERS:
        raise UserError(f"framelift.load_cache: {path} can be written by other users")
