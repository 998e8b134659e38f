"""`framelift cache`: what is kept on disk, and how to be rid of it."""

from __future__ import annotations

import argparse
import json

HELP = "say what is kept on disk for the next process, or remove it"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("info", "clear"), help="info says what there is; clear removes it")


def main(options: argparse.Namespace) -> int:
    from framelift.cache import files
    from framelift.core.config import config
    from framelift.core.user_cache import user_cache_dir

    found = files.cached_files()
    kernels = [each for each in found if each.path.parent == files.kernels_dir()]
    told = {
        "folder": str(user_cache_dir()),
        "on": config.cache,
        "captures": len(found) - len(kernels),
        "kernels": len(kernels),
        "bytes": sum(each.size for each in found),
        "limit_bytes": config.cache_mebibytes * files.MEBIBYTE,
    }
    if options.action == "clear":
        removed, size = files.clear()
        told = {"folder": str(user_cache_dir()), "removed": removed, "bytes": size}
    if options.json:
        print(json.dumps(told, indent=2))
    elif options.action == "clear":
        print(f"{told['removed']} files ({in_mebibytes(size)}) were removed from {told['folder']}")
    else:
        print(f"folder    {told['folder']}{'' if config.cache else ' (not used: FRAMELIFT_CACHE=0)'}")
        print(f"captures  {told['captures']}")
        print(f"kernels   {told['kernels']}")
        limit = in_mebibytes(config.cache_mebibytes * files.MEBIBYTE)
        print(f"size      {in_mebibytes(sum(each.size for each in found))} of {limit}")
    return 0


def in_mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
