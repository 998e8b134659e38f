"""torch's own examples of exports, and its modules: exported, saved and loaded, they do what eager does."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._export.db.case import SupportLevel

import framelift
from exporting import export_database
from exporting.check_export import check_export, run, same, saved_and_loaded
from framelift.exc import FrameliftError

pytest.importorskip("expecttest", reason="torch's database of modules needs it")

from torch.testing._internal.common_modules import module_db  # noqa: E402

CHANGING = {"model_attr_mutation", "tensor_setattr"}
"""Examples that change something outside, which an artifact leaves out."""
REFUSED = {"dynamic_shape_round"}
"""Which sizes a program may have that computes with rounded ones is decided while it is captured."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", sorted(set(export_database.names()) - REFUSED))
def test_an_example_of_torchs_is_exported(name: str) -> None:
    found = export_database.example(name)
    assert found.support_level is SupportLevel.SUPPORTED
    more = (found.extra_args,) if found.extra_args is not None else ()
    options: dict[str, Any] = {"dynamic_shapes": found.dynamic_shapes, "strict": name not in CHANGING}
    check_export(found.model, found.example_args, found.example_kwargs, *more, **options)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_example_that_is_not_exported_says_why(name: str) -> None:
    found = export_database.example(name)
    with pytest.raises(FrameliftError):
        framelift.export(found.model, found.example_args, dynamic_shapes=found.dynamic_shapes)


def sample(info: Any, training: bool) -> tuple[Any, Any]:
    """The first sample of a module, and the module."""
    inputs = info.module_inputs_func(info, "cpu", torch.float32, False, training)
    given = inputs[0]
    made = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
    return made.train(training), given.forward_input


MODULES = [info for info in module_db if torch.float32 in info.dtypes and "Lazy" not in info.name][::4]
"""Lazy ones have to be called once before they are exported."""


@pytest.mark.parametrize("info", MODULES, ids=lambda info: info.name)
def test_a_module_of_torchs_is_exported(info: Any) -> None:
    module, given = sample(info, training=False)
    program = framelift.export(module, given.args, given.kwargs)
    expected = run(module, given.args, given.kwargs)
    same(expected[0], run(program.module(), given.args, given.kwargs)[0])
    same(expected[0], run(saved_and_loaded(program).module(), given.args, given.kwargs)[0])
