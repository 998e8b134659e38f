"""What autograd does beside computing: hooks on saved tensors, anomaly mode, gradients of gradients."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import framelift
from check import capture, entries, reasons, why_not

BACKENDS = ["eager", "aot_eager"]


def plain(x, w):
    return (x.exp() * w).sin().sum()


def gradients(fn: Any) -> tuple[torch.Tensor, ...]:
    x, w = (torch.linspace(start, 2, 4, requires_grad=True) for start in (0, 1))
    loss = fn(x, w)
    loss.backward()
    return loss.detach(), x.grad, w.grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("nested", [False, True])
def test_hooks_around_the_call_are_given_what_is_saved(backend, nested):
    """Nothing of the trace, nor of the compiler; that may save other tensors than eager code does."""
    packed: list[Any] = []

    def pack(tensor):
        packed.append(type(tensor))
        return tensor.double()

    def hooked(fn):
        def run(*args):
            with save_on_cpu(), saved_tensors_hooks(pack, lambda tensor: tensor.float()):
                if not nested:
                    return fn(*args)
                with saved_tensors_hooks(lambda t: pack(t) * 2, lambda t: (t / 2).float()):
                    return fn(*args)

        return run

    expected = gradients(hooked(plain))
    count = len(packed)
    compiled = framelift.compile(plain, backend=backend, fullgraph=True)
    for _ in range(2):
        packed.clear()
        torch.testing.assert_close(gradients(hooked(compiled)), expected)
        assert set(packed) == {torch.Tensor} and (backend != "eager" or len(packed) == count)
    torch.testing.assert_close(gradients(compiled), expected)
    assert why_not(compiled) is None and entries(compiled) == 1


def test_hooks_are_there_again_after_a_capture_that_raised():
    def f(x):
        raise KeyError(x)

    def pack(tensor):
        return tensor

    with saved_tensors_hooks(pack, pack):
        with pytest.raises(KeyError):
            framelift.compile(f, backend="eager")(torch.ones(2))
        assert torch._C._autograd._top_saved_tensors_default_hooks(True) == (pack, pack)
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "manager", [lambda: saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2), save_on_cpu]
)
def test_hooks_entered_inside_are_entered_for_real(manager, backend):
    def f(x, w):
        y = x * 2
        with manager():
            y = (y * w).sin()
        return y.sum()

    compiled = framelift.compile(f, backend=backend)
    torch.testing.assert_close(gradients(compiled), gradients(f))
    assert set(reasons(compiled)) == {"run-time effect"} and entries(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_disabled_inside(backend):
    def f(x, w):
        with disable_saved_tensors_hooks("not here"):
            return plain(x, w)

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    torch.testing.assert_close(gradients(compiled), gradients(f))
    with disable_saved_tensors_hooks("around"):
        torch.testing.assert_close(gradients(compiled), gradients(f))
        assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() == "around"
    assert why_not(compiled) is None and entries(compiled) == 1
    assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None


def test_what_is_made_of_hooks_is_disabled_with_them():
    def f(x):
        with disable_saved_tensors_hooks("not here"):
            return checkpoint(torch.sin, x, use_reentrant=False)

    with pytest.raises(RuntimeError, match="not here"):
        framelift.compile(f, backend="eager")(torch.ones(2, requires_grad=True))
    assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None


# ---- anomaly mode


@pytest.mark.parametrize("backend", BACKENDS)
def test_anomaly_mode_switched_inside(backend):
    def f(x, w):
        torch.autograd.set_detect_anomaly(True)
        y = plain(x, w)
        torch.autograd.set_detect_anomaly(False)
        return y

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    torch.testing.assert_close(gradients(compiled), gradients(f))
    assert why_not(compiled) is None and entries(compiled) == 1 and not torch.is_anomaly_enabled()


def left_on(x, w):
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    return plain(x, w)


def test_anomaly_mode_left_on():
    compiled = capture(left_on)
    try:
        compiled(torch.ones(2), torch.ones(2))
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    finally:
        torch.autograd.set_detect_anomaly(False)


def nan_inside(x, w):
    with torch.autograd.detect_anomaly():
        torch.sqrt(x - w).sum().backward()


def nan_by_switches(x, w):
    with torch.autograd.set_detect_anomaly(True):
        torch.sqrt(x - w).sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [nan_inside, nan_by_switches])
def test_gradients_in_anomaly_mode(fn, backend):
    """Anomaly mode looks at the values of gradients, of which there are none as a graph is captured."""
    compiled = framelift.compile(fn, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for w, fine in ((0.5, True), (3.0, False)):
            outcomes = []
            for run in (fn, compiled):
                x = torch.ones(2, requires_grad=True)
                try:
                    run(x, torch.tensor(w))
                    outcomes.append(x.grad)
                except RuntimeError as error:
                    outcomes.append("nan" in str(error))
            assert isinstance(outcomes[0], torch.Tensor) is fine
            assert fine is (not isinstance(outcomes[1], bool))
            torch.testing.assert_close(*outcomes) if fine else None
    assert "data-dependent value" in reasons(compiled) and not torch.is_anomaly_enabled()


def test_anomaly_mode_around_the_call_is_guarded():
    compiled = framelift.compile(plain, backend="aot_eager", fullgraph=True)
    expected = gradients(plain)
    torch.testing.assert_close(gradients(compiled), expected)
    with torch.autograd.set_detect_anomaly(True):
        torch.testing.assert_close(gradients(compiled), expected)
    torch.testing.assert_close(gradients(compiled), expected)
    assert why_not(compiled) is None and entries(compiled) == 2  # with the mode and without


# ---- gradients of gradients


def penalty(fn: Any) -> tuple[torch.Tensor, ...]:
    x, w = (torch.linspace(start, 2, 4, requires_grad=True) for start in (0, 1))
    (grad,) = torch.autograd.grad(fn(x, w), x, create_graph=True)
    (grad**2).sum().backward()
    return grad.detach(), x.grad, w.grad


def test_gradients_of_gradients_of_a_compiled_function():
    compiled = framelift.compile(plain, backend="eager", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(penalty(compiled), penalty(plain), rtol=0, atol=0)
    assert why_not(compiled) is None and entries(compiled) == 1


def test_aot_autograd_has_no_gradients_of_gradients():
    """The error is AOTAutograd's own, and what torch.compile gives for the same."""
    said = []
    for compiled in (
        framelift.compile(plain, backend="aot_eager", fullgraph=True),
        torch.compile(plain, backend="aot_eager", fullgraph=True),
    ):
        with pytest.raises(RuntimeError, match="does not currently support double backward") as found:
            penalty(compiled)
        said.append(str(found.value))
    assert said[0] == said[1]
