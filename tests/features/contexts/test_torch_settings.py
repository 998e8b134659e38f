"""Every setting of torch (`torch_settings`): read, set, put back, changed between calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import framelift
from check import compare, run
from torch_settings import Setting, settings

PROGRAMS = {
    "reads": """
def program(x, value):
    return x + 1, READ
""",
    "decides": """
def program(x, value):
    return x + 1 if READ == value else x - 1
""",
    "sets": """
def program(x, value):
    y = x + 1
    WRITE
    return y * 2
""",
    "sets and reads": """
def program(x, value):
    def change():
        WRITE
        return READ
    y = x + 1
    return change(), y * 2, READ
""",
    "reads and sets": """
def program(x, value):
    before = READ
    y = x + 1
    WRITE
    return before, y * 2, READ
""",
    "puts back": """
def program(x, value):
    before = READ
    WRITE
    try:
        y = x * 2
        now = READ
    finally:
        value = before
        WRITE
    return y, now
""",
    "sets and breaks": """
def program(x, value):
    y = x + 1
    WRITE
    print("here")
    return y * 2, READ
""",
    "sets and raises": """
def program(x, value):
    y = x + 1
    WRITE
    if value == value:
        raise ValueError(READ)
    return y
""",
    "sets in front of a branch on data": """
def program(x, value):
    WRITE
    if x.sum() > 0:
        return x + 1, READ
    return x
""",
}

CALLS = [(0, 1), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1)]
"""What it is before a call, and what the program is given, as indices of the values."""


def made(setting: Setting, text: str) -> Any:
    names: dict[str, Any] = {"torch": torch, "sys": sys}
    exec(text.replace("READ", setting.read).replace("WRITE", setting.write), names)
    return names["program"]


@pytest.fixture(autouse=True)
def may_be_set() -> Iterator[None]:
    """torch's own helpers for tests, if anybody has imported them, allow switches only in `with`."""
    with torch.backends.__allow_nonbracketed_mutation():
        yield


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.name)
@pytest.mark.filterwarnings("ignore")
def test_a_setting_is_what_it_is_eagerly_in_every_call(setting: Setting) -> None:
    x = torch.ones(3)
    for what, text in PROGRAMS.items():
        plain, compiled = made(setting, text), framelift.compile(made(setting, text), backend="eager")
        with setting.restored():
            for before, given in CALLS:
                outcomes = []
                for fn in (plain, compiled):
                    setting.set(setting.values[before])
                    found = run(fn, (x, setting.values[given]), {})
                    outcomes.append((found, setting.get()))
                setting.set(setting.values[0])
                (expected, left), (found, left_by_compiled) = outcomes
                compare(expected, found)
                assert left == left_by_compiled, f"a program that {what}, when it was {before}, given {given}"


def test_there_are_many_settings() -> None:
    names = {setting.name for setting in settings()}
    assert len(names) > 80
    assert names >= {
        *("torch.backends.cudnn.benchmark", "torch.backends.mkldnn.deterministic", "torch.set_num_threads"),
        *("torch.backends.cuda.matmul.allow_fp16_accumulation", "torch.backends.quantized.engine"),
        *("torch.set_printoptions", "torch.utils.deterministic.fill_uninitialized_memory"),
    }
