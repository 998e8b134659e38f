"""docs/torch_api.md is complete and true: every public name, parameter and option of torch's has a row."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.config

import framelift
from framelift.core.config import OPTIONS as OURS
from framelift.core.torch_options import OPTIONS, Support

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_api_table", DOCS / "make_api_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_tool_makes(maker: Any) -> None:
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page(), "run docs/make_api_table.py"


@pytest.mark.parametrize("module", [torch.compiler, torch._dynamo], ids=lambda module: module.__name__)
def test_what_is_said_to_be_the_same_takes_the_same_parameters(maker: Any, module: Any) -> None:
    assert maker.missing_parameters(module) == {}


def test_each_option_of_torch_has_a_row() -> None:
    assert set(torch._dynamo.config._config) == set(OPTIONS)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_an_option_is_honoured_or_refused_with_a_sentence(name: str) -> None:
    option = OPTIONS[name]
    if option.support is Support.HONOURED:
        assert (option.name or name) in OURS
        return
    assert name not in OURS and option.sentence.endswith(".")
    with pytest.raises(framelift.exc.UserError, match="which torch has: ") as raised:
        setattr(framelift.config, name, True)
    assert option.sentence in str(raised.value)
