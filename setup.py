"""Builds the two extension modules; everything else about the package is in pyproject.toml.

`framelift._frame` is C and knows nothing of torch. `framelift._guards` is C++ against torch's headers.
With FRAMELIFT_TORCHLESS=1 only the first is built, and torch need not be installed.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
NATIVE = Path("src", "framelift", "native")
TORCHLESS = os.environ.get("FRAMELIFT_TORCHLESS") == "1"


def native(pattern: str) -> list[str]:
    # setuptools wants paths relative to setup.py.
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / NATIVE).glob(pattern))


def frame_extension() -> Extension:
    return Extension(
        "framelift._frame",
        sources=[str(NATIVE / "frame.c")],
        depends=["setup.py", *native("*.h")],
        extra_compile_args=[
            "-O2",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Wno-missing-field-initializers",
        ],
    )


def guards_extension() -> Extension | None:
    try:
        from torch.utils import cpp_extension
    except ImportError:
        return None
    return Extension(
        "framelift._guards",
        sources=[str(NATIVE / "_guards.cpp")],
        depends=["setup.py", *native("*.h"), *native("*.cpp")],
        include_dirs=cpp_extension.include_paths(),
        library_dirs=cpp_extension.library_paths(),
        runtime_library_dirs=cpp_extension.library_paths(),
        libraries=["c10", "torch", "torch_cpu", "torch_python"],
        define_macros=[("TORCH_EXTENSION_NAME", "_guards")],
        extra_compile_args=[
            "-O2",
            "-g0",
            "-std=c++20",
            "-fvisibility=hidden",
            "-Wall",
            "-Wno-unused-parameter",
        ],
        language="c++",
    )


class BuildNative(build_ext):
    """Says what is missing when the guards cannot be built, instead of leaving them out silently."""

    def run(self) -> None:
        if not TORCHLESS and not any(ext.name == "framelift._guards" for ext in self.extensions):
            raise SystemExit(
                "framelift: building the guards needs torch: run `pip install torch==2.13.0`, then install "
                "with --no-build-isolation (or set FRAMELIFT_TORCHLESS=1 to build only the frame hook)."
            )
        super().run()


extensions = [frame_extension(), None if TORCHLESS else guards_extension()]
setup(ext_modules=[ext for ext in extensions if ext], cmdclass={"build_ext": BuildNative})
