"""Builds the extension modules; everything else about the package is in pyproject.toml.

`framelift._frame` is C and knows nothing of torch: an ordinary extension. `framelift._guards` is C++ against
torch's headers. It is built here where torch can be seen (an install without build isolation, a development
tree), and when it is first needed everywhere else: `src/framelift/native/guards_build.py` does both.
With FRAMELIFT_TORCHLESS=1 only the first is built.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
NATIVE = Path("src", "framelift", "native")
TORCHLESS = os.environ.get("FRAMELIFT_TORCHLESS") == "1"


def refuse_what_cannot_work() -> None:
    if sys.implementation.name != "cpython":
        raise SystemExit(f"framelift: it runs bytecode of CPython, and this is {sys.implementation.name}.")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise SystemExit(
            "framelift: free-threaded builds of Python are not supported: use the ordinary build."
        )


def frame_extension() -> Extension:
    headers = sorted(str(path.relative_to(ROOT)) for path in (ROOT / NATIVE).glob("*.h"))
    return Extension(
        "framelift._frame",
        sources=[str(NATIVE / "frame.c")],
        depends=["setup.py", *headers],
        extra_compile_args=[
            "-O2",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Wno-missing-field-initializers",
        ],
    )


def guards_build() -> Any:
    """The module of that name, which the package itself builds with where this file has not."""
    spec = importlib.util.spec_from_file_location("guards_build", ROOT / NATIVE / "guards_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildNative(build_ext):
    def run(self) -> None:
        super().run()
        package = ROOT / "src" / "framelift" if self.inplace else Path(self.build_lib) / "framelift"
        for stale in package.glob("_guards*.so"):
            stale.unlink()  # which earlier versions built, and which would be imported first
        folder = package / "native" / "built"
        if not self.inplace:
            shutil.rmtree(folder, ignore_errors=True)  # left by a build for another torch
        if not TORCHLESS and importlib.util.find_spec("torch") is not None:
            building = guards_build()
            try:
                building.build_once(building.Torch.installed(), folder)
            except building.GuardsUnavailable as error:
                raise SystemExit(f"framelift: {error}") from None


refuse_what_cannot_work()
setup(ext_modules=[frame_extension()], cmdclass={"build_ext": BuildNative})
