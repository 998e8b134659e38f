"""`framelift doctor`: what is installed, what of it is supported, and whether both extensions work."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import framelift
from framelift import __version__
from framelift.core import torch_names
from framelift.core.versions import DISTRIBUTION, SUPPORTED

HELP = "show versions, what is supported, and whether both extensions work"


def arguments(parser: argparse.ArgumentParser) -> None:
    about = "compile the self-test with this backend (default: eager)"
    parser.add_argument("--backend", default="eager", help=about)
    parser.add_argument("--names", action="store_true", help="list the private names of torch that are used")


def main(options: argparse.Namespace) -> int:
    found = examined(options.backend)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(report(found))
        print(listed(found["names"], everything=options.names), end="")
    return 0 if found["ok"] else 1


def examined(backend: str) -> dict[str, Any]:
    versions = {
        "framelift": __version__,
        "python": platform.python_version(),
        "torch": version_of("torch"),
        "platform": platform.platform(),
        "compiler": compiler(),
        "accelerator": accelerator(),
    }
    names = private_names() if versions["torch"] else []
    checks = [
        check("Python is supported", lambda: within("python", versions["python"])),
        check("torch is supported", lambda: within("torch", versions["torch"])),
        check("no other package has written into this one", nobody_else),
        check("the frame hook (_frame) works", frame_hook),
        check("torch has the private names that are used", lambda: all_there(names)),
        check("guards (_guards) work", lambda: guards("eager")),
    ]
    if backend != "eager":
        checks.append(check("the backend works", lambda: guards(backend)))
    ok = all(each["ok"] for each in checks)
    return {"versions": versions, "checks": checks, "names": names, "ok": ok}


def report(found: dict[str, Any]) -> str:
    width = max(map(len, found["versions"]))
    lines = [f"{name:{width}}  {value or 'none'}" for name, value in found["versions"].items()]
    lines.append("")
    for each in found["checks"]:
        detail = f": {each['detail']}" if each["detail"] else ""
        lines.append(f"{'ok    ' if each['ok'] else 'FAILED'}  {each['name']}{detail}")
    return "\n".join(lines)


def check(name: str, test: Callable[[], str | None]) -> dict[str, Any]:
    """A test says nothing, gives a detail, or fails with what is wrong."""
    try:
        return {"name": name, "ok": True, "detail": test() or ""}
    except Exception as error:
        text = str(error).partition("\n")[0]
        return {"name": name, "ok": False, "detail": f"{type(error).__name__}: {text}"}


def listed(names: list[dict[str, Any]], everything: bool) -> str:
    """torch's private names that are missing, or all that are used, under what they are used for."""
    lines: list[str] = []
    for area in torch_names.AREAS:
        mine = [each for each in names if each["area"] == area.name and (everything or not each["there"])]
        if mine:
            lines += ["", f"{area.name}: {area.why}", f"without one of them: {area.lost}"]
            lines += [f"  {'' if each['there'] else 'MISSING '}{each['name']}" for each in mine]
    return "".join(f"{line}\n" for line in lines)


# ---- what is there


def private_names() -> list[dict[str, Any]]:
    return [
        {
            "name": use.name,
            "area": use.area.name if use.area else None,
            "there": torch_names.is_there(use.name),
            "files": sorted(use.files),
        }
        for use in torch_names.used()
    ]


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def compiler() -> str | None:
    """The C++ compiler that backends would find: its first line about itself."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++")):
        path = shutil.which(name)
        if path is not None:
            ran = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
            return f"{path}: {ran.stdout.partition(chr(10))[0]}"
    return None


def accelerator() -> str | None:
    try:
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else None
    except Exception as error:
        return f"torch can't say: {error}"


# ---- tests


def within(what: str, version: str | None) -> str:
    least, most = SUPPORTED[what]
    span = f"{'.'.join(map(str, least))} to {'.'.join(map(str, most))}"
    if version is None:
        raise RuntimeError(f"it is not installed; supported are {span}")
    found = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if not least <= found <= most:
        raise RuntimeError(f"{version} is not; supported are {span}")
    return span


def nobody_else() -> None:
    """Another project of the package index has a package called `framelift`: they would lie in one folder."""
    here = Path(framelift.__file__).parent
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name != DISTRIBUTION and any(
            file.parts[0] == here.name and Path(str(each.locate_file(file))).is_relative_to(here)
            for file in each.files or []
        ):
            mend = f"pip uninstall {name}, then pip install --force-reinstall --no-deps {DISTRIBUTION}"
            raise RuntimeError(f"{name} {each.version} is another project with files in {here}: {mend}")


def all_there(names: list[dict[str, Any]]) -> str:
    missing = [each["name"] for each in names if not each["there"]]
    if missing:
        raise RuntimeError(f"{len(missing)} of {len(names)} are not there (listed below)")
    return f"{len(names)}; --names lists them"


def frame_hook() -> None:
    """A function that C calls back is interpreted, and does what it should."""
    from framelift.interpreter.plain import interpret

    seen: list[int] = []

    def key(n: int) -> int:
        seen.append(n)
        return -n

    if interpret(sorted, [3, 1, 2], key=key) != [3, 2, 1] or seen != [3, 1, 2]:
        raise RuntimeError("an interpreted function gave a wrong result")


PROGRAM = """
import torch

def scaled(x, n):
    return torch.sin(x) * n
"""
"""Not in this module: Framelift's own functions are not captured."""


def guards(backend: str) -> str:
    """A function is compiled once, its entry is used again, and a change is noticed."""
    import torch

    import framelift

    program: dict[str, Any] = {"__name__": "self_test"}
    exec(PROGRAM, program)
    scaled = program["scaled"]
    compiled = framelift.compile(scaled, backend=backend, dynamic=False, fullgraph=True)
    x = torch.arange(4.0)
    for n in (2, 2, 3):
        if not torch.allclose(compiled(x, n), scaled(x, n)):
            raise RuntimeError("a compiled function gave a wrong result")
    (code,) = framelift.entries(compiled)
    hits = [entry.hits for entry in code.entries]
    if hits != [1, 0]:
        raise RuntimeError(f"three calls that need two entries have used them so: {hits}")
    return f"with the backend {backend}"
