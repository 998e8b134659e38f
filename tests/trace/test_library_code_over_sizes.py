"""Sizes and numbers that vary go through code of torch's, of NumPy's and of Python's, and still vary."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sizes_of_programs import FROM_ZERO, Programs
from torch import nn
from torch.nn.utils import rnn

PROGRAMS = Programs()
program = PROGRAMS.add
randn = torch.randn


@pytest.mark.parametrize("name", PROGRAMS)
def test_library_code_over_sizes(name: str) -> None:
    PROGRAMS.check(name)


# ---- torch's own Python


@program(lambda n: (randn(2, n, 4),))
def unflatten_blocks(x):
    blocks = math.ceil(x.shape[1] / 4)
    return x.new_zeros(2, blocks * 4, 4).unflatten(1, (blocks, 4)).amax(2)


@program(lambda n: (randn(3, n),))
def unflatten_module(x):
    return nn.Unflatten(1, (2, x.shape[1]))(x.repeat(1, 2))


@program(lambda n: (randn(3, n),))
def gradient_of_convolution(x):
    n = x.shape[1]
    return torch.nn.grad.conv1d_input((1, 3, n), torch.ones(2, 3, 1), torch.ones(1, 2, n))


class Window(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.size, self.settings = (0, 0), {"rows": 0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.size = (x.shape[0], x.shape[1])
        self.settings["rows"] = x.shape[0]
        return x.reshape(self.size[0] * self.size[1], 4) * self.settings["rows"]


@program(lambda n: (Window(), randn(n, n + 1, 4)))
def sizes_in_a_module(module, x):
    return module(x), module.size


@program(lambda n: (randn(2, n, 4), [n, max(1, n - 1)]))
def packed_sequences(x, lengths):
    """C takes no symbol for the lengths: the trace ends there, and nothing is logged as a mistake."""
    return rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, lengths, batch_first=True))


# ---- powers of numbers that vary


@program(lambda n: (randn(3), {"betas": (1 - 1 / (n + 1), 0.9), "step": n}), captures=2)
def corrected_averages(x, group):
    first, second = group["betas"]
    group["step"] += 1
    return x / (1 - first ** group["step"]) * math.sqrt(1 - second ** group["step"])


@program(lambda n: (randn(3), 1 - 1 / (n + 1), n))
def powers(x, part, n):
    return x * part**n, part**3, part**-3, part**100, n**part, part ** (n / 2), 10000.0**part, 1.5**n


@program(lambda n: (randn(3), 1 - 1 / (n + 1), n), captures=2)
def powers_of_negative_numbers(x, part, n):
    return x * (-part) ** 2, (-part) ** 3


@program(lambda n: (randn(3), n % 4, n), captures=2)
def powers_of_integers(x, exponent, n):
    return x + 1, n**exponent


# ---- NumPy's numbers


@program(lambda n: (randn(n, 4), np.int64(n), np.float32(n)), captures=4, sizes=FROM_ZERO)
def numbers_of_numpys(x, n, scale):
    return x * int(n) + float(scale)


@program(lambda n: (randn(30, 4), np.int64(n)))
def slices_by_numbers_of_numpys(x, n):
    return x[:n] * 2, x[n + 1 :].sum(), x.repeat(int(n), 1)


@program(lambda n: (randn(30, 4), {"rows": np.int32(n)}), captures=4)
def branches_on_numbers_of_numpys(x, settings):
    rows: Any = int(settings["rows"])
    return x[:rows] if rows > 4 else x


@program(lambda n: (randn(30, 4), np.int64(n)), captures=4, sizes=FROM_ZERO)
def comparisons_of_numbers_of_numpys(x, start):
    if start == 0:
        return x * 2
    return x[start : start + 2] if start < 4 else x[:start] + (2 if 7 <= start else 3)


@program(lambda n: (randn(n, 4), torch.arange(n) % 3), captures=5)
def groups_between_ends(x, ids):
    """The data decides which ends are the same: as constants, those that come in would be no help."""
    ends = torch.bincount(ids, minlength=3).numpy().cumsum(0)
    total, start = x.sum(0), 0
    for end in ends:
        if start == end:
            continue
        total, start = total * 2 + x[start:end].sum(0), end
    return total
