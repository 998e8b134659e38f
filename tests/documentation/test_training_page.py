"""The examples of docs/training.md."""

from __future__ import annotations

import pathlib
import re
import types
import warnings
from typing import Any

import pytest
import torch

import framelift

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "training.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_page_is_right(example: str) -> None:
    module: Any = types.ModuleType("example_of_the_page")
    module.torch, module.framelift = torch, framelift
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of torch, which asks views for their gradients
        exec(compile(example, str(PAGE), "exec", dont_inherit=True), module.__dict__)
