"""Whether two results are the same, as far as floating-point numbers allow: `framelift.testing.same`.

Structures are gone through together; what is found first is said with its path. Numbers that are not
floating-point must be equal. Those that are may differ by a tolerance that goes by their dtype; where they
differ by more, and there is a reference that was computed with float64, what counts is that the result is
no further from that than the other one is.
"""

from __future__ import annotations

import cmath
import collections
import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
TOLERANCES |= {torch.complex128: 1e-9, torch.complex64: 1e-4, torch.complex32: 2e-3}
"""How far numbers may be apart, absolutely and of their size; others (of 8 bits and less) by `COARSE`."""
COARSE = 0.125
FURTHER = {torch.float16: 3.0, torch.bfloat16: 3.0}
"""How many times as far from the reference a result may be as the other one; 2 where nothing is said."""
OF_SMALL = ((10, 10.0), (500, 8.0))
"""Tensors of so many elements -> how many times, where small ones are given more room."""
FURTHEST = 10.0
SMALL = "by the size"
PLAUSIBLE = 0.1
"""How far a reference may be from what is expected, of its size; beyond it says nothing."""
COSINE = 0.99
"""What counts as the same direction."""


@dataclass(frozen=True)
class Difference:
    """The first thing that is not the same; `str()` says it in a sentence or two."""

    path: str
    """Where in the results: `[0]['loss']`; empty for all of it."""
    what: str
    rmse: float | None = None
    """The root of the mean square of what tensors differ by, and the largest of it."""
    largest: float | None = None
    cosine: float | None = None

    def __str__(self) -> str:
        return f"{self.path.removeprefix('.') or 'the result'}: {self.what}"


def rmse(expected: Tensor, found: Tensor) -> float:
    """The root of the mean square of the differences, computed with float64.

    >>> rmse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    1.4142135623730951
    """
    apart = (as_exact(expected) - as_exact(found)).abs().square()
    return math.sqrt(apart.mean().item()) if apart.numel() else 0.0


def cosine_similarity(expected: Tensor, found: Tensor) -> float:
    """1 for tensors that point the same way, whatever their lengths.

    >>> cosine_similarity(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]))
    1.0
    """
    a, b = (torch.view_as_real(x).flatten() if x.is_complex() else x.flatten() for x in (expected, found))
    a, b = as_exact(a), as_exact(b)
    lengths = (a.norm() * b.norm()).item()
    if not lengths:
        return 1.0 if torch.equal(a, b) else 0.0
    return round(a.dot(b).item() / lengths, 12)


def as_exact(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def same(
    ref: Any,
    res: Any,
    fp64_ref: Any = None,
    cos_similarity: bool = False,
    tol: float | None = None,
    equal_nan: bool = True,
    exact_dtype: bool = True,
    relax_numpy_equality: bool = False,
    ignore_non_fp: bool = False,
    log_error: Callable[..., Any] | None = None,
    use_larger_multiplier_for_smaller_tensor: bool = False,
    force_max_multiplier: bool = False,
    use_iou_for_bool: bool = False,
    iou_threshold: float = 0.99,
    *,
    exact_stride: bool = False,
) -> bool:
    """Whether a result is the one that was expected (`ref`): tensors, numbers, arrays, and containers and
    objects of them.

    `fp64_ref` is the same result computed with float64, to judge by where the two are further apart than
    `tol` (by default, what `TOLERANCES` says of their dtype). With `cos_similarity` tensors need only point
    the same way. NaN is the same as NaN unless `equal_nan` is False. dtypes count unless `exact_dtype` is
    False, strides if `exact_stride` is True; with `ignore_non_fp` only floating-point numbers do. With
    `relax_numpy_equality` NumPy's numbers and Python's are the same. With `use_iou_for_bool` masks need only
    agree in `iou_threshold` of what either has. `log_error` is told what differs. A result may be a few times
    as far from `fp64_ref` as `ref` is: more so for small tensors with
    `use_larger_multiplier_for_smaller_tensor`, and for all with `force_max_multiplier`.

    >>> import torch
    >>> same({"loss": torch.tensor(1.0)}, {"loss": torch.tensor(1.00001)})
    True
    >>> same([1, torch.tensor([2])], [1, torch.tensor([3])])
    False
    """
    rules = Rules(tol, cos_similarity, equal_nan, exact_dtype, exact_stride, ignore_non_fp)
    rules = dataclasses.replace(rules, iou=iou_threshold if use_iou_for_bool else None)
    rules = dataclasses.replace(rules, relaxed_numpy=relax_numpy_equality)
    largest, small = force_max_multiplier, use_larger_multiplier_for_smaller_tensor
    rules = dataclasses.replace(rules, as_far=FURTHEST if largest else SMALL if small else None)
    apart = difference(ref, res, fp64_ref, rules)
    if apart is not None and log_error is not None:
        log_error("%s", apart)
    return apart is None


@dataclass(frozen=True)
class Rules:
    """What counts; see `same`."""

    tol: float | None = None
    cos_similarity: bool = False
    equal_nan: bool = True
    exact_dtype: bool = True
    exact_stride: bool = False
    ignore_non_fp: bool = False
    iou: float | None = None
    """Of masks: how much of what either has must be in both; None: all."""
    relaxed_numpy: bool = False
    as_far: float | str | None = None
    """How many times as far from a reference a result may be; None: as `FURTHER` says."""
    at_least: float = 0.0
    """A tolerance for all numbers, if they come from ones that are coarser."""

    def tolerance(self, dtype: torch.dtype) -> float:
        return max(TOLERANCES.get(dtype, COARSE), self.at_least) if self.tol is None else self.tol

    def times(self, dtype: torch.dtype, size: int) -> float:
        """How many times as far from a reference a tensor of this size may be as the other one."""
        usual = FURTHER.get(dtype, 2.0)
        if self.as_far is SMALL:
            return max([usual, *(times for most, times in OF_SMALL if size <= most)])
        return usual if self.as_far is None else FURTHEST


def difference(
    expected: Any, found: Any, fp64_ref: Any = None, rules: Rules | None = None
) -> Difference | None:
    """The first thing in which two results differ, None if they are the same."""
    with torch.no_grad():
        return Comparing(rules or Rules()).of(expected, found, fp64_ref, "")


ATOMS = (str, bytes, bool, int, type(None), torch.dtype, torch.device, type, ModuleType)


def as_pythons(value: Any) -> Any:
    """A number of NumPy's as Python's."""
    is_number = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_number else value


class Comparing:
    """One walk through two results, and the reference as far as it has the same structure."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.seen: set[tuple[int, int]] = set()

    def of(self, a: Any, b: Any, reference: Any, path: str) -> Difference | None:
        if self.rules.relaxed_numpy:
            a, b = as_pythons(a), as_pythons(b)
        if a is b and not isinstance(a, float):
            return None
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return self.tensors(a, b, reference, path)
        if isinstance(a, (float, complex)) and isinstance(b, type(a)):
            return self.numbers(a, b, reference, path)
        if type(a) is not type(b):
            return Difference(path, f"a {type(b).__name__} instead of a {type(a).__name__}")
        if isinstance(a, ATOMS):
            equal = a == b or self.rules.ignore_non_fp
            return None if equal else Difference(path, f"{b!r:.200} instead of {a!r:.200}")
        if (id(a), id(b)) in self.seen:
            return None
        self.seen.add((id(a), id(b)))
        return self.parts(a, b, reference, path)

    # ---- structures

    def parts(self, a: Any, b: Any, reference: Any, path: str) -> Difference | None:
        if isinstance(a, Mapping):
            if set(a) != set(b):
                return Difference(path, f"the keys {list(b)!r:.200} instead of {list(a)!r:.200}")
            return self.each((a, b, reference), list(a), path, lambda key: f"[{key!r}]")
        if isinstance(a, (list, tuple, collections.deque)):
            if len(a) != len(b):
                return Difference(path, f"{len(b)} elements instead of {len(a)}")
            return self.each((a, b, reference), range(len(a)), path, lambda n: f"[{n}]")
        if isinstance(a, (set, frozenset)):
            return None if a == b else Difference(path, f"{b!r:.200} instead of {a!r:.200}")
        if isinstance(a, torch.nn.Module):
            known = reference.state_dict() if isinstance(reference, torch.nn.Module) else None
            return self.of(a.state_dict(), b.state_dict(), known, f"{path}.state_dict()")
        if type(a).__module__ == "numpy":
            return self.arrays(a, b, reference, path)
        return self.objects(a, b, reference, path)

    def each(self, of: tuple[Any, Any, Any], keys: Any, path: str, name: Any) -> Difference | None:
        a, b, reference = of
        for key in keys:
            known = None
            if type(reference) is type(a) and len(reference) == len(a):
                known = reference[key] if not isinstance(a, Mapping) or key in reference else None
            found = self.of(a[key], b[key], known, path + name(key))
            if found is not None:
                return found
        return None

    def objects(self, a: Any, b: Any, reference: Any, path: str) -> Difference | None:
        """By their fields, if there are any; otherwise by what they say of each other."""
        if dataclasses.is_dataclass(a):
            names = [field.name for field in dataclasses.fields(a) if hasattr(a, field.name)]
        else:
            names = list(getattr(a, "__dict__", ()))
            compares: Any = type(a).__eq__
            if not names and compares is not object.__eq__:
                return None if a == b else Difference(path, f"{b!r:.200} instead of {a!r:.200}")
        for name in names:
            at = f"{path}.{name}"
            if not hasattr(b, name):
                return Difference(at, "it is missing")
            found = self.of(getattr(a, name), getattr(b, name), getattr(reference, name, None), at)
            if found is not None:
                return found
        return None

    # ---- numbers

    def numbers(self, a: Any, b: Any, reference: Any, path: str) -> Difference | None:
        """Python's."""
        if cmath.isnan(a) or cmath.isnan(b):
            equal = cmath.isnan(a) and cmath.isnan(b) and self.rules.equal_nan
        else:
            tol = self.rules.tolerance(torch.float32)
            equal = cmath.isclose(a, b, rel_tol=tol, abs_tol=tol)
            if not equal and isinstance(reference, (float, complex)):
                gap = abs(a - reference)
                equal = gap <= PLAUSIBLE * abs(reference) and abs(b - reference) <= 2 * gap + tol / 10
        return None if equal else Difference(path, f"{b!r} instead of {a!r}")

    def arrays(self, a: Any, b: Any, reference: Any, path: str) -> Difference | None:
        if self.rules.exact_dtype and a.dtype != b.dtype:
            return Difference(path, f"the dtype {b.dtype} instead of {a.dtype}")
        try:
            x, y = torch.as_tensor(a), torch.as_tensor(b)
        except TypeError:  # of strings, of objects
            return None if (a == b).all() else Difference(path, "its elements differ")
        known = None
        if type(reference) is type(a) and reference.shape == a.shape:
            known = torch.as_tensor(reference)
        return self.tensors(x, y, known, path)

    def tensors(self, a: Tensor, b: Tensor, reference: Any, path: str) -> Difference | None:
        others = facts(b, self.rules)
        for name, fact in facts(a, self.rules).items():
            if fact != others[name]:
                return Difference(path, f"the {name} {others[name]} instead of {fact}")
        if a.device.type == "meta":
            return None
        if a.layout is not torch.strided or a.is_nested:
            return self.of_layout(a, b, reference, path)
        if a.is_quantized:
            a, b, reference = a.int_repr(), b.int_repr(), None
        known = reference if isinstance(reference, Tensor) and reference.shape == a.shape else None
        return self.values(a, b, known, path)

    def of_layout(self, a: Tensor, b: Tensor, reference: Any, path: str) -> Difference | None:
        if a.is_nested:
            known = isinstance(reference, Tensor) and reference.is_nested
            return self.of(a.unbind(), b.unbind(), reference.unbind() if known else None, path)
        dense = [t.to_dense() if isinstance(t, Tensor) else None for t in (a, b, reference)]
        return self.tensors(dense[0], dense[1], dense[2], path)  # type: ignore[arg-type]

    def values(self, a: Tensor, b: Tensor, reference: Tensor | None, path: str) -> Difference | None:
        if not (a.is_floating_point() or a.is_complex()):
            if self.rules.ignore_non_fp or torch.equal(a, b.to(a.dtype)):
                return None
            if self.rules.iou is not None and a.dtype is torch.bool and b.dtype is torch.bool:
                both, either = int((a & b).sum()), int((a | b).sum())
                if both >= self.rules.iou * either:
                    return None
            wrong = int((a != b).sum())
            return Difference(path, f"{wrong} of {a.numel()} elements differ")
        nan = a.isnan()
        if not torch.equal(nan, b.isnan()):
            return Difference(path, f"{int(b.isnan().sum())} NaN instead of {int(nan.sum())}, or elsewhere")
        if not self.rules.equal_nan and bool(nan.any()):
            return Difference(path, f"{int(nan.sum())} NaN")
        x, y = (as_exact(t).masked_fill(nan, 0) for t in (a, b))
        if self.near(x, y, a.dtype, None if reference is None else as_exact(reference).masked_fill(nan, 0)):
            return None
        return apart(x, y, path)

    def near(self, a: Tensor, b: Tensor, dtype: torch.dtype, reference: Tensor | None) -> bool:
        if torch.equal(a, b):
            return True
        tol = self.rules.tolerance(dtype)
        if not torch.equal(a.isinf(), b.isinf()) or not torch.equal(a[a.isinf()], b[b.isinf()]):
            return False
        if self.rules.cos_similarity:
            return cosine_similarity(a, b) >= COSINE
        if torch.allclose(a, b, rtol=tol, atol=tol):
            return True
        if reference is None or not is_plausible(reference, a):
            return False
        return rmse(reference, b) <= self.rules.times(dtype, a.numel()) * rmse(reference, a) + tol / 10


def is_plausible(reference: Tensor, expected: Tensor) -> bool:
    """Whether a reference is of the same thing: it may have drawn other random numbers, or branched."""
    size = rmse(reference, torch.zeros_like(reference))
    return bool(reference.isfinite().all()) and rmse(reference, expected) <= PLAUSIBLE * size


def facts(tensor: Tensor, rules: Rules) -> dict[str, Any]:
    """What two tensors must have in common besides their values, the layout first."""
    shape = tensor.dim() if tensor.is_nested else tuple(tensor.shape)
    found = {"layout": tensor.layout, "device": tensor.device, "shape": shape}
    if rules.exact_dtype:
        found["dtype"] = tensor.dtype
    if rules.exact_stride and tensor.layout is torch.strided:
        strides = zip(tensor.stride(), tensor.shape, strict=True)  # of one element they mean nothing
        found["strides"] = tuple(stride for stride, size in strides if size != 1)
    return found


def apart(a: Tensor, b: Tensor, path: str) -> Difference:
    gaps = (a - b).abs().nan_to_num(0.0, posinf=math.inf)
    wrong, largest = int((a != b).sum()), float(gaps.max())
    finite = a.isfinite() & b.isfinite()
    x, y = a[finite], b[finite]
    distance, cosine = rmse(x, y), cosine_similarity(x, y)
    how = f"(rmse {distance:.4g}, cosine {cosine:.6g})"
    text = f"{wrong} of {a.numel()} elements differ, by at most {largest:.4g} {how}"
    return Difference(path, text, distance, largest, cosine)
