"""NumPy's arrays and functions: captured as torch's, or broken off where these would do something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._numpy as tnp

import framelift
from check import entries, reasons, recompiles
from framelift.core import breaks
from framelift.features.numpy.tables import ELEMENTWISE, METHOD_NAMES, OTHERS
from framelift.testing import CompileCounterWithBackend

BACKENDS = ["eager", "aot_eager"]
NUMPY = breaks.NUMPY.name
EFFECT = breaks.EFFECT.name
OPAQUE = breaks.OPAQUE_OBJECT.name
BRANCH = breaks.DATA_DEPENDENT_BRANCH.name
SHAPE = breaks.DYNAMIC_OUTPUT_SHAPE.name
VALUE = breaks.DATA_DEPENDENT_VALUE.name
Program = Callable[..., Any]


# ---- sameness


def same(expected: Any, found: Any, at: str = "result", exact: bool = True) -> None:
    """Types, layout and values; sums and the like may be rounded another way."""
    assert type(expected) is type(found), f"{at}: {type(found)} instead of {type(expected)}"
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(found), at
        for n, (x, y) in enumerate(zip(expected, found, strict=True)):
            same(x, y, f"{at}[{n}]", exact)
    elif isinstance(expected, dict):
        same(list(expected.items()), list(found.items()), at, exact)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert expected.dtype == found.dtype and expected.shape == found.shape, f"{at}: {found!r}"
        steps = [[s for n, s in zip(x.shape, x.strides, strict=True) if n > 1] for x in (expected, found)]
        assert not expected.size or steps[0] == steps[1], f"{at}: strides {steps[1]} instead of {steps[0]}"
        if isinstance(expected, np.ndarray):
            assert expected.flags.writeable is found.flags.writeable, f"{at}: writeable"
        same_values(expected, found, at, exact)
    elif isinstance(expected, torch.Tensor):
        assert (expected.dtype, expected.shape, expected.stride()) == (
            found.dtype,
            found.shape,
            found.stride(),
        )
        same_values(expected.numpy(), found.numpy(), at, exact)
    else:
        assert expected == found or expected != expected, f"{at}: {found!r} instead of {expected!r}"


def same_values(expected: Any, found: Any, at: str, exact: bool) -> None:
    if exact or expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected, at)
    else:
        tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-12 if expected.dtype.kind == "f" else 1e-5, 16: 1e-12}
        close = tolerance[expected.dtype.itemsize]
        np.testing.assert_allclose(found, expected, close, close, err_msg=at)


# ---- programs

PROGRAMS: dict[str, tuple[Program, set[str]]] = {}


def program(*broken_by: str) -> Callable[[Program], Program]:
    """To be captured whole, or broken for these reasons."""

    def register(fn: Program) -> Program:
        PROGRAMS[fn.__name__] = (fn, set(broken_by))
        return fn

    return register


ARRAY = np.arange(6.0).reshape(2, 3)
NUMBER = np.float32(1.5)


@program()
def arithmetic(a, x):
    return a + 1, 2.0 * a, a - a, -a, a / 2, a**2.0, a // 2.0, a % 2.0, abs(np.negative(a))


@program()
def comparisons(a, x):
    return a > 1, a == 2, (a > 1) & (a < 4), ~(a > 1), np.isnan(a)


@program()
def functions(a, x):
    return np.maximum(a, 0), np.add(a, a), np.where(a > 1, a, 0.0), np.concatenate([a, a]), np.stack((a, a))


@program()
def sums(a, x):
    return a.sum(), np.sum(a, axis=0), a.max(axis=1, keepdims=True), np.argmax(a), np.cumsum(a)


@program()
def shapes(a, x):
    return a.T, a.reshape(3, 2), a.reshape(-1), a.transpose(1, 0), np.expand_dims(a, 0), a.ravel(), a[None]


@program()
def facts(a, x):
    return a.shape, a.dtype, a.ndim, a.size, a.itemsize, a.nbytes, a.strides, len(a), type(a), a.T.shape


@program()
def kinds(a, x):
    n = a[0, 0]
    return (
        isinstance(a, np.ndarray),
        isinstance(n, np.float64),
        isinstance(n, float),
        type(n),
        a.dtype == float,
    )


@program()
def items(a, x):
    return a[0], a[0, 1], a[:, 1:], a[..., 0], a[0][1], a[[0, 1]], [row.sum() for row in a]


@program()
def types_of_numbers(a, x):
    b = a.astype(np.float32)
    return b * 2, b * 2.0, b * np.float64(2), b * NUMBER, NUMBER * a, b + np.int64(3), b.astype(int), NUMBER


@program()
def numbers(a, x):
    return (
        np.sqrt(2.0),
        np.float64(3) * 2,
        np.pi * a,
        np.int32(7),
        a * np.finfo(a.dtype).eps,
        np.iinfo(np.int8).max,
    )


@program()
def new_arrays(a, x):
    b = np.zeros((2, 3))
    b[0] = 1
    b[:, 1] += 5
    return b + a, np.arange(4), np.array([1, 2, 3]), np.ones(3, dtype=np.float32), np.full((2,), 7), np.eye(2)


@program()
def large_new_arrays(a, x):
    return np.arange(2000), np.zeros(5000), np.eye(50)


@program()
def to_tensors(a, x):
    return torch.from_numpy(a) + x, torch.as_tensor(a), torch.tensor(a), torch.tensor(a, dtype=torch.float32)


@program()
def to_arrays(a, x):
    return x.numpy() * 2, (x + 1).numpy(), x.numpy()


@program()
def to_arrays_by_numpy(a, x):
    return np.asarray(x) * 2, x[np.array([2, 0])]


@program(NUMPY)
def shape_assigned(a, x):
    b = a + 1
    try:
        b.shape = (3, 2)
    except AttributeError:
        return None
    return b


@program()
def arrays_of_arrays(a, x):
    return np.array([a, a + 1]), np.array([row.sum() for row in a]), np.asarray((a[0], a[1]))


@program(NUMPY)
def arrays_of_different_kinds(a, x):
    return np.array([a[0], (a[0] > 1)]), np.array([a.sum(), 2.0])


@program()
def complex_numbers(a, x):
    c = a * 1j + 1
    return c, c.real, c.imag, np.abs(c), c * c, c.sum(), np.conjugate(c)


@program()
def to_and_fro(a, x):
    y = torch.from_numpy(np.sin(a)) * 2
    return np.cos(y.numpy()), y


@program()
def same_memory(a, x):
    y = x + 1
    b = y.numpy()
    b[0] = 9
    z = torch.from_numpy(b)
    z[1] = 8
    return y, b, z


@program()
def argument_itself(a, x):
    return a, [a], np.asarray(a)


@program()
def global_array(a, x):
    return ARRAY + 1


@program()
def constants(a, x):
    return NUMBER, x * 2


@program()
def backwards(a, x):
    return a[::-1] + 1, np.flip(a), np.flipud(a) * a, a[:, ::-2].sum(), np.fliplr(a).copy()


@program()
def backwards_after_a_change(a, x):
    a += 1
    return a[::-1], a[0, ::-1] * 2


@program(NUMPY)
def changed_after_it_was_turned(a, x):
    b = a[::-1]
    c = b + 1
    a += 1
    return b + c, b


@program(NUMPY, OPAQUE)
def turned_and_changed(a, x):
    b = a[::-1]
    b[0] = 5
    return a, b + 1


@program(EFFECT)
def printed(a, x):
    b = a + 1
    print(b)
    return b * 2


@program(VALUE)
def lists(a, x):
    return (a + 1).tolist(), float(a[0, 0]), int(a.sum())


@program(SHAPE)
def masked(a, x):
    return a[a > 1] + 1


@program(BRANCH)
def branch(a, x):
    return a + 1 if a.sum() > 3 else a - 1


@program()
def without_dimensions(a, x):
    made = np.array(3.0)
    return made + a, made, np.asarray(a.sum()), torch.from_numpy(np.asarray(a.sum()))


@program()
def read_only_results(a, x):
    wide = np.broadcast_to(a, (2, 2, 3))
    return wide + 1, wide, np.diag(a), a.imag


@program()
def types_of_elements(a, x):
    kind = np.dtype("float32")
    wider = np.result_type(a.dtype, kind)
    both = np.issubdtype(a.dtype, np.floating), np.can_cast(kind, a.dtype), np.promote_types("f4", "f8")
    return a.astype(kind), np.ones_like(a, dtype=wider), both


@program()
def questions_about_arrays(a, x):
    return a + np.ndim(a), np.shape(a), np.size(a), np.iscomplexobj(a), np.isrealobj(a)


@program(NUMPY)
def not_trusted(a, x):
    return np.bincount(a.astype(int).ravel()), a + 1


@program()
def in_python(a, x):
    """Functions that NumPy has in Python, and torch has not: what they call, torch has."""
    return (
        np.append(a, 1.0),
        np.angle(a),
        np.resize(a, (2, 2)),
        np.trapezoid(a),
        np.nancumsum(a),
        np.fix(a / 2),
    )


@program()
def methods_by_name(a, x):
    total = a.sum
    return total(), getattr(a, "mean")(), [m() for m in (a.max, a.min)]


@program()
def written_into(a, x):
    b = np.empty_like(a)
    np.add(a, 1, out=b)
    np.copyto(b, 0.0, where=a > 2)
    b.sort()
    return b, np.multiply(a, 2, out=b) is b


@program()
def ufunc_methods(a, x):
    return np.add.reduce(a), np.maximum.reduce(a, axis=1), np.add.accumulate(a), np.multiply.outer(a[0], a[1])


@program()
def lists_of_arrays_as_tensors(a, x):
    return (
        torch.tensor([a[0], a[1]]),
        torch.tensor([a[0, 0], a[0, 1]]),
        torch.tensor([a[0]], dtype=torch.float32),
        torch.tensor([a[0, 0], 5, 1.5]),
        torch.LongTensor([a[0, 0], a[0, 1]]),
        torch.FloatTensor([a[0], a[1]]),
        torch.BoolTensor([a[0, 0] > 1, True]),
    )


@program(NUMPY)
def mixed_with_tensors(a, x):
    return np.multiply(a, x), a + 1


@program(NUMPY)
def integers_that_may_be_errors(a, x):
    b = a.astype(int)
    return b // (b + 1), b + 1


def arguments(n: int = 0) -> tuple[np.ndarray, torch.Tensor]:
    return np.arange(6.0).reshape(2, 3) + n, torch.arange(3.0) + n


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_as_with_numpy_or_breaks_for_its_reasons(name: str, backend: str) -> None:
    fn, broken_by = PROGRAMS[name]
    compiled = framelift.compile(fn, backend=backend, fullgraph=not broken_by)
    for n in range(3):
        given, copies = arguments(n), arguments(n)
        expected, found = fn(*given), compiled(*copies)
        same((expected, given), (found, copies), name, exact=False)
    assert set(reasons(compiled)) == broken_by
    if not broken_by:
        assert recompiles(compiled) <= 0


# ---- changes


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_that_is_changed(backend: str) -> None:
    def fn(a):
        a += 1
        a[0] = 5
        a[1, 1:] *= 2
        return a

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in range(2):
        (a, _), (b, _) = arguments(n), arguments(n)
        fn(a)
        assert compiled(b) is b
        same(a, b)
    assert recompiles(compiled) == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_of_an_argument_are_views(backend: str) -> None:
    def fn(a):
        return a[1:], a.T, a.reshape(-1), torch.from_numpy(a)

    a, _ = arguments()
    found = framelift.compile(fn, backend=backend, fullgraph=True)(a)
    a[1, 0] = 77
    assert found[0][0, 0] == found[1][0, 1] == found[2][3] == found[3][1, 0] == 77


@pytest.mark.parametrize("backend", BACKENDS)
def test_copies_are_copies(backend: str) -> None:
    def fn(a):
        return a.copy(), a.flatten(), a.astype(np.float64), np.array(a), a + 0, torch.tensor(a), a[[0, 1]]

    a, _ = arguments()
    found = framelift.compile(fn, backend=backend)(a)
    same(list(fn(a)), list(found))
    assert not any(np.shares_memory(a, np.asarray(b)) for b in found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_share_memory(backend: str) -> None:
    def fn(a, b):
        a += 1
        return b * 2

    compiled = framelift.compile(fn, backend=backend)
    for offset in (0, 0, 3):
        given, copies = np.arange(9.0), np.arange(9.0)
        expected = fn(given[:6], given[offset : offset + 6])
        same(expected, compiled(copies[:6], copies[offset : offset + 6]))
        same(given, copies)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_lie_apart_may_be_written_to(backend: str) -> None:
    """That they do is guarded: with those that overlap, as here are first and second, another entry runs."""

    def fn(a, b, x):
        a[...] = a + b
        x[1:] += 1
        return b * 2, x.sum()

    def given(where, base, other, tensor):
        of_tensor = tensor.numpy()
        return {
            "apart": (base[:4], other[:4], tensor),
            "apart in one": (base[:4], base[4:8], tensor),
            "overlapping": (base[1:5], base[:4], tensor),
            "the same": (base[:4], base[:4], tensor),
            "strided": (base[::2], base[1::2], tensor),
            "a tensor's": (other[:5], of_tensor, tensor),
            "behind a tensor's": (other[:2], of_tensor[3:], tensor[:3]),
        }[where]

    whole = framelift.compile(fn, backend=backend, fullgraph=True)
    compiled = framelift.compile(fn, backend=backend)
    places = ["apart", "apart in one", "overlapping", "apart", "the same", "strided", "a tensor's"]
    for where in (*places, "behind a tensor's", "apart", "overlapping", "a tensor's"):
        outcomes = []
        for called in (fn, whole if where.startswith("apart") else compiled):
            memory = np.arange(8.0), np.arange(8.0) * 3, torch.arange(5.0, dtype=torch.float64)
            outcomes.append((called(*given(where, *memory)), memory))
        same(*outcomes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tensor_after_a_write_to_an_array(backend: str) -> None:
    """The trace ends in front of the tensor, which is no input then, though its sizes may vary."""

    def fn(a, x):
        a[1] = np.stack([a]).mean()
        return x * x

    compiled = framelift.compile(fn, backend=backend, dynamic=True)
    for _ in range(2):
        given, copy, x = np.arange(9.0), np.arange(9.0), torch.ones(4)
        same(fn(given, x), compiled(copy, x))
        same(given, copy)
    assert "bug in Framelift" not in reasons(compiled)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_and_a_tensor_that_share_memory(backend: str) -> None:
    def fn(x, a):
        b = a * 2
        x.add_(1)
        return b + a, x

    compiled = framelift.compile(fn, backend=backend)
    for shared in (False, True, True):
        outcomes = []
        for called in (fn, compiled):
            x = torch.arange(3.0)
            outcomes.append(called(x, x.numpy() if shared else np.ones(3, np.float32)))
        same(*outcomes)


# ---- guards


def test_what_an_array_is_like_is_guarded() -> None:
    compiled = framelift.compile(lambda a: a + 1, backend="eager")
    a = np.arange(6.0).reshape(2, 3)
    read_only = a.copy()
    read_only.flags.writeable = False
    kinds = [a, a * 2, a.T, a.astype(np.float32), a[:, ::2], np.asfortranarray(a), read_only, a[::-1], a[0]]
    kinds += [np.array(3.0), a.view(np.matrix), a.astype(">f8"), a.astype(object), np.zeros((0, 3))]
    for kind in kinds:
        same(kind + 1, compiled(kind))


def test_numbers_are_guarded_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = framelift.compile(lambda x: (x * 2, NUMBER), backend="eager", fullgraph=True)
    for number in (NUMBER, np.float32(1.5), np.float32(2), np.float64(2), np.float32(0.0), np.float32(-0.0)):
        monkeypatch.setitem(globals(), "NUMBER", number)
        found = compiled(torch.ones(3))[1]
        assert type(found) is type(number) and repr(found) == repr(number)
    assert entries(compiled) <= 5  # 1.5 comes twice


def test_another_function_of_the_same_kind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = framelift.compile(lambda a: CHOSEN(a), backend="eager", fullgraph=True)
    a = np.arange(3.0)
    for chosen in (np.sin, np.cos, np.sum, np.max, np.sin):
        monkeypatch.setitem(globals(), "CHOSEN", chosen)
        same(chosen(a), compiled(a), exact=False)


CHOSEN: Any = np.sin


def test_it_can_be_turned_off() -> None:
    def fn(a, x):
        return np.sin(a), x + 1

    with framelift.config.patch(trace_numpy=False):
        compiled = framelift.compile(fn, backend="eager")
        same(fn(*arguments()), compiled(*arguments()))
        assert set(reasons(compiled)) == {breaks.UNKNOWN_NATIVE.name}


def test_errors_are_numpys() -> None:
    def fn(a):
        return a + np.ones((4, 5))

    messages = []
    for called in (fn, framelift.compile(fn, backend="eager")):
        with pytest.raises(ValueError) as raised:
            called(arguments()[0])
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


# ---- all functions that both have

KINDS = [np.float64, np.float32, np.int64, np.bool_]
A = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.0]])
SHAPES: list[tuple[Any, ...]] = [
    (A,),
    (A, A[::1] + 1),
    (A, 0),
    (A, (3, 2)),
    (A, 1, 0),
    ([A, A],),
    (A[0], A[1]),
]
SHAPES += [(A > 1, A, 0.0), ("ij,kj->ik", A, A), (A.T,), (A, [1, 0]), (A[0], A.T)]
BOTH = sorted(
    {*dir(tnp)} & {*dir(np)} - {"test", "random", "linalg", "fft", "ndarray", "empty", "empty_like"}
)


def as_kind(value: Any, kind: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype != bool:
        return value.astype(kind)
    return [as_kind(item, kind) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", [n for n in BOTH if callable(getattr(np, n)) and n[0] != "_"])
def test_a_function_gives_what_numpy_gives(name: str) -> None:
    """Whatever is captured of a function gives what NumPy gives."""
    function = getattr(np, name)
    check_calls(name, lambda *args: function(*args), set(ELEMENTWISE.split() + OTHERS.split()))


@pytest.mark.parametrize("name", METHOD_NAMES.split())
def test_a_method_gives_what_numpy_gives(name: str) -> None:
    check_calls(name, lambda a, *rest: (getattr(a, name)(*rest), a + a), set(METHOD_NAMES.split()))


def check_calls(name: str, fn: Program, trusted: set[str]) -> None:
    compiled = framelift.compile(fn, backend="eager")
    worked = 0
    with np.errstate(all="ignore"), framelift.config.patch(recompile_limit=100):
        for kind in KINDS:
            for shape in SHAPES:
                given = [as_kind(value, kind) for value in shape]
                try:
                    expected = fn(*given)
                except Exception:
                    continue
                worked += 1
                same(expected, compiled(*given), f"{name} of {given}", exact=False)
    if name in trusted and worked:
        assert entries(compiled), f"{name} is never captured"


# ---- linear algebra, Fourier transforms, statistics

MATRIX = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
OF_MATRICES: dict[str, Program] = {
    **{
        f"linalg.{name}": getattr(np.linalg, name)
        for name in "inv det cholesky eigvalsh pinv slogdet".split()
    },
    **{f"fft.{name}": getattr(np.fft, name) for name in "fft ifft rfft fft2 fftn fftshift ifftshift".split()},
    "linalg.solve": lambda a: np.linalg.solve(a, np.ones(3)),
    "linalg.matrix_power": lambda a: np.linalg.matrix_power(a, 3),
    "linalg.norm": lambda a: np.linalg.norm(a, axis=1),
    "linalg.eigh": lambda a: np.linalg.eigh(a)[0],
    "linalg.svd": lambda a: np.linalg.svd(a)[1],
    "linalg.qr": lambda a: np.abs(np.linalg.qr(a)[1]),
    "fft.fftfreq": lambda a: a[0, 0] + np.fft.fftfreq(5),
    "clip": lambda a: (np.clip(a, 1, 3), a.clip(0.5, 2.5), np.clip(a, a.min(), a.max())),
    "argsort": lambda a: (np.argsort(a), a.argsort(0), np.take_along_axis(a, np.argsort(a, axis=1), axis=1)),
    "percentile": lambda a: (np.percentile(a, 30), np.percentile(a, [20, 50], axis=0), np.quantile(a, 0.3)),
    "median": lambda a: (np.median(a), np.median(a, axis=1)),
    "meshgrid": lambda a: (np.meshgrid(a[0], a[1]), np.meshgrid(a[0], a[1], indexing="ij")),
    "splits": lambda a: (np.array_split(a, 2), np.hsplit(a, 3), np.vsplit(a, 3)),
    "take": lambda a: (np.take(a, [0, 2], axis=1), a.take([0, -1], 0), np.take(a, [4])),
    "gradient": lambda a: np.gradient(a[0]),
    "shifts": lambda a: (a.astype(int) << 1, np.right_shift(a.astype(int), 1)),
    "sums": lambda a: (np.nansum(a), np.nanmean(a), np.trapezoid(a[0]), np.polyval([1, 2], a)),
    "places": lambda a: (np.searchsorted(np.sort(a[0]), 1.5), np.digitize(a[0], [1, 2]), np.isin(a, [1, 2])),
    "fill": lambda a: (a.copy().fill(2.0), a + 1),
    "special methods": lambda a: special_methods(a.copy()),
    "clip, by keyword": lambda a: (
        a.clip(max=2),
        np.clip(a, None, 2),
        a.clip(min=1.1, max=1.4),
        a.clip(1.2, 2),
    ),
    "quantiles": lambda a: (
        np.percentile(a, 50, method="lower"),
        np.quantile(a, 0.3, axis=0, method="nearest"),
        np.percentile(a, [10, 60], method="higher"),
    ),
    "roots": lambda a: (np.cbrt(a), np.cbrt(-a), np.cbrt(a.astype(int)), np.i0(a)),
}


def special_methods(a: Any) -> Any:
    a.__iadd__(1)
    a.__setitem__(0, 5)
    found = a.__getitem__((1, 2)), a.__len__(), a.__add__(2), a.__neg__(), a.__matmul__(a), a.__lt__(3)
    return (*found, a, list(a.__iter__()))


@pytest.mark.parametrize("name", OF_MATRICES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_of_matrices_is_captured_whole(name: str, backend: str) -> None:
    fn = OF_MATRICES[name]
    compiled = framelift.compile(lambda a: fn(a), backend=backend, fullgraph=True)
    for given in (MATRIX, MATRIX + np.eye(3)):
        same(fn(given.copy()), compiled(given.copy()), exact=False)


def test_numbers_that_vary_are_settled_where_numpy_is_asked() -> None:
    def fn(a: Any, axis: int, scale: float) -> Any:
        return np.sum(a, axis=axis) * scale, a[axis:], a.reshape(axis + 1, -1)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for axis, scale in ((0, 1.5), (1, 2.5), (0, 3.5)):
        same(fn(MATRIX[:2].copy(), axis, scale), compiled(MATRIX[:2].copy(), axis, scale))


# ---- sizes that vary

OF_ALL_SIZES: dict[str, Program] = {
    "operators": lambda a, b: (a * 2 + 1, a * b[:, None], a @ a.T, a - a.mean(0)),
    "reductions": lambda a, b: (a.sum(0), a.sum(1), a.mean(), a.max(), np.argmax(a, 0), b.std()),
    "views": lambda a, b: (a.T, a.reshape(-1), a[:2], a[-1], a[::2], a[1:, 1], np.expand_dims(b, 0)),
    "shapes": lambda a, b: (np.arange(a.shape[0]), np.ones(a.shape), len(b), a.size, a * a.shape[0]),
    "joined": lambda a, b: (np.concatenate([a, a]), np.stack([b, b]), np.tile(b, 2)),
    "written": lambda a, b: (a[:, 0].copy(), np.sort(b), np.cumsum(b), np.where(a > 2, a, 0)),
    "a branch": lambda a, b: a + 1 if b.shape[0] > 100 else a - 1,
    "as tensors": lambda a, b: (torch.from_numpy(a) * torch.from_numpy(b)[:, None]).numpy(),
    "a filter": lambda a, b: b[b > 1],
}


@pytest.mark.parametrize("name", OF_ALL_SIZES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_of_other_sizes_compile_once_more(name: str, backend: str) -> None:
    fn, counter = OF_ALL_SIZES[name], CompileCounterWithBackend(backend)
    compiled = framelift.compile(lambda a, b: fn(a, b), backend=counter)
    for n in (2, 3, 7, 5, 20, 11):
        a, b = np.arange(3.0 * n).reshape(n, 3), np.arange(1.0 * n)
        same(fn(a.copy(), b.copy()), compiled(a, b), exact=False)
    assert counter.frame_count <= 2
    others = (
        (np.ones((1, 3)), np.ones(1)),
        (np.ones((4, 3)), np.ones(8)[::2]),
        (np.ones((3, 4)).T, np.ones(4)),
    )
    for given in others:
        same(fn(*given), compiled(*given), exact=False)


def test_a_branch_on_the_size_of_an_array_is_guarded() -> None:
    fn = lambda a: a + 1 if a.shape[0] > 4 else a - 1
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in (2, 3, 4, 5, 6, 2, 9):
        same(fn(np.arange(1.0 * n)), compiled(np.arange(1.0 * n)))


NUMBERS: dict[str, Program] = {
    "operators": lambda a, n: (a + n, n * a, a - n, a / n, n - a),
    "choices": lambda a, n: (np.where(a < 2, n, a), np.where(a < 2, a, n), (a < 2) * n, n - (a < 2)),
    "single precision": lambda a, n: (a.astype(np.float32) * n, n / a.astype(np.float32)),
    "makers": lambda a, n: (np.zeros(n), np.ones((n, 2)), np.full((n,), 1.5), np.arange(n)),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_beside_arrays_may_vary(name: str, backend: str) -> None:
    fn, counter = NUMBERS[name], CompileCounterWithBackend(backend)
    compiled = framelift.compile(lambda a, n: fn(a, n), backend=counter)
    for n in (2, 3, 7, 5, -4 if name != "makers" else 4, 11):
        same(fn(MATRIX.copy(), n), compiled(MATRIX.copy(), n), exact=False)
    assert counter.frame_count <= 3


def test_floats_beside_arrays_may_vary() -> None:
    fn = lambda a, n: (a * n, n / a, (a + 1).astype(np.float32) - n, a.astype(int) * n)
    counter = CompileCounterWithBackend("eager")
    compiled = framelift.compile(lambda a, n: fn(a, n), backend=counter)
    for n in (0.5, 1.5, -0.25, 1e300, float("inf")):
        with np.errstate(all="ignore"):
            same(fn(MATRIX.copy(), n), compiled(MATRIX.copy(), n), exact=False)
    assert counter.frame_count <= 5


def test_integers_beside_integers_are_settled() -> None:
    compiled = framelift.compile(lambda a, n: (a + n, a * n), backend="eager")
    for n in (2, 3, 7, -5, 1 << 40):
        same((MATRIX.astype(int) + n, MATRIX.astype(int) * n), compiled(MATRIX.astype(int), n))


def test_an_array_without_elements_is_told_apart() -> None:
    compiled = framelift.compile(lambda a: a.mean(), backend="eager")
    for n in (2, 3, 5):
        same(np.arange(1.0 * n).mean(), compiled(np.arange(1.0 * n)))
    with pytest.warns(RuntimeWarning, match="empty slice"):
        assert np.isnan(compiled(np.ones(0)))
