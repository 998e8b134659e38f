"""Of Triton what a trace asks it for, where it is not installed: kernels that note how they are launched.

It is loaded under the names of Triton's own modules, see `test_triton.py`.
"""

from __future__ import annotations

from typing import Any

import torch


class Named:
    """A parameter of a kernel."""

    def __init__(self, num: int, name: str) -> None:
        self.num, self.name, self.is_constexpr = num, name, name.isupper()


class KernelInterface:
    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        raise NotImplementedError


class JITFunction(KernelInterface):
    """Notes how it is launched."""

    def __init__(self, name: str, *parameters: str) -> None:
        self.__name__ = name
        self.params = [Named(num, parameter) for num, parameter in enumerate(parameters)]
        self.arg_names = list(parameters)
        self.launches: list[Any] = []

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        given = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        sizes = tuple(grid(given) if callable(grid) else grid)
        shown = {k: tuple(v.shape) if isinstance(v, torch.Tensor) else v for k, v in sorted(given.items())}
        self.launches.append(((*sizes, 1, 1)[:3], shown))


class Config:
    def __init__(self, kwargs: dict[str, Any], pre_hook: Any = None, **options: Any) -> None:
        self.kwargs, self.pre_hook, self.options = kwargs, pre_hook, options


class Autotuner(KernelInterface):
    """Takes the first configuration."""

    def __init__(self, fn: Any, configs: list[Config], key: list[str], **others: Any) -> None:
        self.fn, self.configs, self.keys, self.arg_names = fn, configs, key, fn.arg_names
        self.perf_model = self.early_config_prune = None
        self.reset_to_zero = others.get("reset_to_zero") or []
        self.restore_value = others.get("restore_value") or []
        self.user_defined_pre_hook = "pre_hook" in others

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        config = self.configs[0]
        self.fn.run(*args, grid=grid, warmup=warmup, **kwargs, **config.kwargs, **config.options)


class Heuristics(KernelInterface):
    def __init__(self, fn: Any) -> None:
        self.fn, self.arg_names = fn, fn.arg_names

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)


def autotune(configs: list[Config], key: list[str], **others: Any) -> Any:
    return lambda fn: Autotuner(fn, configs, key, **others)


def cdiv(x: int, y: int) -> int:
    return (x + y - 1) // y


def next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()
