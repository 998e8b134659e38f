"""The modules in torch's own database are captured, and give eager's outputs, gradients and state bit for
bit; or they break for the reason that `sweep_modules.BREAKS` gives. Here a few samples of each;
`python tests/torch_databases/sweep_modules.py` runs more, each under every setting."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's database of modules needs it")

from torch_databases.sweep_modules import BREAKS, CAPTURED, SETTINGS, ModuleInfo, cases, module_db, outcome  # noqa: E402


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the modules are small
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


def name_of(info: ModuleInfo) -> str:
    return info.name


def check(info: ModuleInfo, setting: str, count: int) -> None:
    allowed = {CAPTURED, None, BREAKS.get(info.name, CAPTURED)}
    found = {str(case): outcome(case) for case in cases(info, (setting,), count)}
    assert found and not {name: result for name, result in found.items() if result not in allowed}
    assert set(found.values()) != {None}


@pytest.mark.parametrize("info", module_db, ids=name_of)
def test_a_module_does_what_it_does_in_eager_mode(info: ModuleInfo) -> None:
    check(info, "eager", count=2)


OTHER = [setting for setting in SETTINGS if setting != "eager"]
SLOW = ("Transformer", "Attention", "RNN", "GRU", "LSTM")
"""In the names of modules for which AOTAutograd takes seconds."""
QUICK = [info for info in module_db[::3] if not any(part in info.name for part in SLOW)]
WITH_OTHERS = [(info, OTHER[n % len(OTHER)]) for n, info in enumerate(QUICK)]


@pytest.mark.parametrize(("info", "setting"), WITH_OTHERS, ids=lambda value: getattr(value, "name", value))
def test_a_module_does_the_same_with_aot_autograd_and_with_dynamic_sizes(
    info: ModuleInfo, setting: str
) -> None:
    check(info, setting, count=1)


@pytest.mark.parametrize("name", BREAKS)
def test_the_reasons_that_are_named_are_still_there(name: str) -> None:
    info = next(one for one in module_db if one.name == name)
    assert BREAKS[name] in (outcome(case) for case in cases(info, ("eager",), count=40))
