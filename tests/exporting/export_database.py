"""torch's own examples of what can be exported, loaded as programs of a user's.

As modules of torch they would be taken for parts of it, which are not captured as programs are.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch._export.db
from torch._export.db.case import SupportLevel


@dataclass
class Example:
    name: str
    model: torch.nn.Module
    example_args: tuple[Any, ...]
    example_kwargs: dict[str, Any] = field(default_factory=dict)
    extra_args: tuple[Any, ...] | None = None
    dynamic_shapes: Any = None
    support_level: SupportLevel = SupportLevel.SUPPORTED


def load(path: Path) -> Example:
    name = f"export_database_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    fields = {key: value for key, value in vars(module).items() if key in Example.__dataclass_fields__}
    return Example(path.stem, **fields)


def names() -> list[str]:
    folder = Path(torch._export.db.__file__).parent / "examples"
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


def example(name: str) -> Example:
    return load(Path(torch._export.db.__file__).parent / "examples" / f"{name}.py")
