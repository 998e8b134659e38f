"""The operators in torch's own database are captured, and give eager's results bit for bit; or they break for
the reason that `sweep_operators.BREAKS` gives. Here every second one;
`python tests/torch_databases/sweep_operators.py` runs them all."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

pytest.importorskip("expecttest", reason="torch's database of operators needs it")

from torch_databases.sweep_operators import BREAKS, CAPTURED, OpInfo, cases, name_of, op_db, outcome  # noqa: E402


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("op", op_db[::2], ids=name_of)
def test_an_operator_gives_what_eager_gives(op: OpInfo) -> None:
    reason = BREAKS.get(name_of(op), CAPTURED)
    found = {case.name: outcome(case) for case in cases(op, count=2 if reason is not CAPTURED else 1)}
    assert not {name: result for name, result in found.items() if result not in (CAPTURED, None, reason)}
    assert not found or reason in found.values() or set(found.values()) == {None}


OTHER = [op for op in op_db[::24] if name_of(op) not in BREAKS]


@pytest.mark.parametrize("setting", ["aot_eager", "dynamic"])
@pytest.mark.parametrize("op", OTHER, ids=name_of)
def test_an_operator_gives_what_eager_gives_in_other_settings(op: OpInfo, setting: str) -> None:
    for case in list(cases(op, count=1))[:1]:
        assert outcome(case, setting) in (CAPTURED, None), case.name
