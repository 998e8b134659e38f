"""Operators that are run on fakes without torch's mode give what they give with it: sizes, strides, types,
devices, and with which arguments their results share memory."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's database of operators needs it")

from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402
from torch.utils._python_dispatch import _disable_current_modes  # noqa: E402

from framelift.graph import direct_kernels  # noqa: E402
from framelift.graph.fakes import Fakes, run_on_fakes  # noqa: E402
from torch_databases.sweep_operators import OpInfo, name_of, op_db  # noqa: E402

SAMPLES = 8
DTYPES = (torch.float32, torch.int64, torch.bfloat16, torch.bool)


def facts(found: Any, given: list[Any]) -> Any:
    """All that a trace can ask of what an operator gives."""
    if not isinstance(found, torch.Tensor):
        return found
    places = {id(tensor): n for n, tensor in enumerate(given)}
    storages = [tensor.untyped_storage()._cdata for tensor in given]
    where = found.untyped_storage()._cdata
    return {
        "type": type(found),
        "sizes": tuple(found.shape),
        "strides": found.stride(),
        "offset": found.storage_offset(),
        "dtype": found.dtype,
        "device": found.device,
        "bytes": found.untyped_storage().nbytes(),
        "same as": places.get(id(found)),
        "shares memory with": storages.index(where) if where in storages else None,
        "constant": found.constant is not None if isinstance(found, FakeTensor) else None,
    }


VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)


def like(fake: Any) -> torch.Tensor:
    """A real tensor that lies in memory like a fake."""
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="cpu")


class Compared:
    """Does all both ways. `differing`: what came of operators that give something else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.differing: list[str] = []
        self.run = direct_kernels.run
        monkeypatch.setattr(direct_kernels, "run", self.run_both)

    def run_both(self, fakes: Fakes, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        found = self.run(fakes, func, args, kwargs)
        if found is NotImplemented:
            return found
        given = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        if (
            func in VIEWS
        ):  # of which torch's mode has other strides than real tensors where there is no telling
            with _disable_current_modes():
                real = func(like(args[0]), *args[1:])
            self.check((found.shape, found.stride()), (real.shape, real.stride()), func)
            return found
        expected = run_on_fakes(fakes, func, (FakeTensor,), args, kwargs)
        of = lambda value: [facts(one, given) for one in pytree.tree_leaves(value)]
        self.check(of(found), of(expected), func)
        return found

    def check(self, found: Any, expected: Any, func: Any) -> None:
        if found != expected:
            self.differing.append(f"{func} gives {found}, not {expected}")


def arguments(fakes: Fakes, given: Any, change: Callable[[Any], Any]) -> Any:
    """Fakes of what an operator is given."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: fakes.of(change(tensor)), given)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same as part of a larger tensor, with the last dimensions the other way round."""
    if tensor.layout is not torch.strided or tensor.dim() < 2:
        return tensor
    return torch.cat([tensor, tensor], -1).mT.contiguous().mT[..., : tensor.shape[-1]]


def last_channels(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


LAYOUTS = (lambda tensor: tensor, strided, last_channels)


def run(op: OpInfo, dtype: torch.dtype) -> None:
    samples = op.sample_inputs("cpu", dtype)
    for sample, change in itertools.product(itertools.islice(samples, SAMPLES), LAYOUTS):
        fakes = Fakes()
        given = arguments(fakes, (sample.input, sample.args, sample.kwargs), change)
        for fn in (op.get_op(), op.get_inplace()):
            if fn is None:
                continue
            try:
                with fakes, torch.no_grad():
                    fn(given[0], *given[1], **given[2])
            except Exception:  # what fails on fakes, or has no kernel for these
                continue


@pytest.mark.parametrize("op", op_db[::4], ids=name_of)
def test_results_are_those_of_torchs_mode(op: OpInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            if op.supports_dtype(dtype, "cpu"):
                run(op, dtype)
    assert not compared.differing


def test_common_calls_do_not_go_through_torchs_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()

    def run(fakes: Fakes, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        asked.add(str(func))
        return run_on_fakes(fakes, func, types, args, kwargs)

    monkeypatch.setattr("framelift.graph.fakes.run_on_fakes", run)
    fakes = Fakes()
    x, weight, bias = map(fakes.of, (torch.ones(2, 3, 4), torch.ones(5, 4), torch.ones(5)))
    mean, var = fakes.of(torch.zeros(3)), fakes.of(torch.ones(3))
    functional = torch.nn.functional
    with fakes, torch.no_grad():
        out = functional.gelu(functional.layer_norm(functional.linear(x, weight, bias), (5,)) * 2 + bias)
        out = functional.batch_norm(out, mean, var)
    assert tuple(out.shape) == (2, 3, 5)
    assert asked <= {"aten.empty.memory_format"}


SIZES = [shape for rank in range(4) for shape in itertools.product((1, 2, 3), repeat=rank)]


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_tensors_are_reshaped_as_real_ones_are(shape: tuple[int, ...]) -> None:
    fakes, numbers = Fakes(), torch.ones(60)
    for real in (torch.ones(shape), numbers[3 : 3 + torch.Size(shape).numel()].view(shape)):
        fake = fakes.of(real)
        for sizes in SIZES:
            if torch.Size(sizes).numel() == real.numel():
                with fakes:
                    found = fake.view(sizes)
                expected = facts(real.view(sizes), [real])
                for name in ("sizes", "strides", "offset", "dtype", "device", "bytes", "shares memory with"):
                    assert facts(found, [fake])[name] == expected[name]


@pytest.mark.parametrize("change", [torch.t, torch.clone, lambda x: x[1:, 1:], lambda x: x[:1].expand(3, 4)])
def test_matrices_are_transposed_and_multiplied_as_by_torchs_mode(change: Any, monkeypatch: Any) -> None:
    compared, fakes = Compared(monkeypatch), Fakes()
    x = fakes.of(change(torch.arange(12.0).reshape(3, 4)))
    with fakes, torch.no_grad():
        for other in (x.t(), fakes.of(torch.ones(2, x.shape[1])).t(), fakes.of(torch.ones(x.shape[1], 2))):
            assert tuple(torch.mm(x, other).t().shape) == (other.shape[1], x.shape[0])
    assert not compared.differing


def test_a_negative_view_stays_one() -> None:
    fakes = Fakes()
    x = fakes.of(torch.ones(2, 3, dtype=torch.complex64).conj().imag)
    with fakes:
        assert x.is_neg() and x.t().is_neg() and x[0].view(3, 1).is_neg()


def test_what_is_refused_is_refused_in_torchs_words() -> None:
    fakes = Fakes()
    x, y = fakes.of(torch.ones(3)), fakes.of(torch.ones(4))
    with fakes, pytest.raises(RuntimeError, match="broadcast"):
        x + y


def test_constants_are_known_to_torch() -> None:
    fakes = Fakes()
    with fakes:
        three = torch.tensor(1) + torch.tensor(2)
    assert three.constant is not None and three.constant.item() == 3
