"""Python functions of torch that a trace runs as they are touch no state that it does not know of.

What a function touches is found in its bytecode, and in that of all it calls by a name that can be looked up:
variables of modules that it sets, or reads where something sets them; attributes that it sets on modules and
other global objects; functions of `torch._C`. What is known of, and harmless, is listed here with the reason.
So a version of torch that adds something to one of these functions is noticed.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.masked
import torch.nested
import torch.signal

import framelift.features.all  # noqa: F401 (fills the tables)
from framelift.core import policy
from framelift.graph.torch_flags import SETTERS
from framelift.rules import torch_state
from framelift.trace.callable_rules import HANDLERS, PYTHON_MODULES, rule_of

C: Any = torch._C
OPERATORS = {
    name for owner in (C._nn, C._linalg, C._fft, C._special, C._sparse, C._nested) for name in dir(owner)
}
OPERATORS |= set(dir(C._VariableFunctions))
GUARDED = {fn.__name__ for fn in (*torch_state.ALWAYS_GUARDED, *torch_state.GUARDED_WHEN_ASKED)}
REPLAYED = {setter.__name__ for setter in SETTERS}
PROTOCOL = {
    *("_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"),
    *("_disabled_torch_function_impl", "_is_torch_function_mode_enabled", "_len_torch_function_stack"),
    *("_get_function_stack_at", "_skip_one_hop_torch_function", "_is_torch_function_enabled"),
    *("_push_on_torch_function_stack", "_pop_torch_function_stack"),  # what `TorchFunctionMode` is served by
}
BUILT = {"_mps_is_available", "_is_autocast_available", "_log_api_usage_once", "_get_cpu_capability"}
HARMLESS = {
    "C: _get_tracing_state": "served: there is none",
    "C: _get_constant_bool_symnode": "makes a value",
    "C: _dispatch_has_kernel_for_dispatch_key": "of an operator, which a graph calls",
    "C: _dispatch_tls_is_dispatch_key_excluded": "every entry guards the dispatch keys",
    "C: _dispatch_tls_set_dispatch_key_excluded": "around an operator of `clone_preserve_strides`",
    "reads torch.utils._device.CURRENT_DEVICE": "the recorder keeps it, and puts it back",
    "sets torch.utils._device.CURRENT_DEVICE": "the recorder keeps it, and puts it back",
    "reads torch.nested._internal.nested_tensor._dummy_instance": "made once, and always the same",
    "sets torch.nested._internal.nested_tensor._dummy_instance": "made once, and always the same",
    "reads torch.nested._internal.nested_tensor._tensor_id_counter": "a number that nobody else has",
    "sets torch.nested._internal.nested_tensor._tensor_id_counter": "a number that nobody else has",
}
UNSEEN = ("torch.fx", "torch._inductor", "torch._dynamo", "torch.export", "torch.onnx", "torch._subclasses")
"""Packages that are not followed: what a trace itself is made of, and compilers."""
UNCALLED = {
    "torch._prims_common.CUDARngStateHelper": "of generators of CUDA devices, for AOTAutograd",
    "torch.masked._ops._apply_docstring_templates": "a decorator of torch's own functions",
    "torch.return_types.pytree_register_structseq": "called when torch is imported",
    "torch.overrides.get_overridable_functions": "lists functions of torch, which it looks up by their names",
    "torch.overrides.get_testing_overrides": "lists functions of torch",
    "torch.overrides.resolve_name": "a name from such a list",
    "torch.overrides.is_tensor_method_or_property": "asks such a list",
    "torch.utils._device.DeviceContext.__torch_function__": "calls what it is given",
    "torch.distributed.tensor.placement_types": "what works on tensors is called by DTensor",
    "torch.nested._internal": "called by operators of nested tensors, which graphs hold",
}
CHANGING = {"append", "update", "add", "pop", "setdefault", "remove", "clear", "extend", "insert", "discard"}


# ---- what a function touches


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes(const)


def functions_of(module: types.ModuleType) -> Iterator[tuple[str, types.FunctionType]]:
    """The functions and methods that a module defines."""
    for name, value in list(vars(module).items()):
        own = isinstance(value, type) and value.__module__ == module.__name__
        members = vars(value).items() if own else [("", value)]
        for member, found in members:
            fn = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
            if type(fn) is types.FunctionType and fn.__module__ == module.__name__:
                yield f"{module.__name__}.{name}.{member}".rstrip("."), fn


def torch_modules() -> list[types.ModuleType]:
    found = [(name, module) for name, module in sys.modules.items() if policy.within(name, ("torch",))]
    return [module for _, module in sorted(found) if isinstance(module, types.ModuleType)]


@functools.cache
def variables_set() -> dict[int, set[str]]:
    """id of the globals of a module -> its variables that a function of it sets."""
    found: dict[int, set[str]] = {}
    for module in torch_modules():
        for _, fn in functions_of(module):
            for code in codes(fn.__code__):
                set_here = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL"}
                found.setdefault(id(fn.__globals__), set()).update(set_here)
    return found


@functools.cache
def attributes_set() -> set[tuple[int, str]]:
    """Attributes of global objects that a function of torch sets: (id of the object, name)."""
    found = set()
    for module in torch_modules():
        for _, fn in functions_of(module):
            for code in codes(fn.__code__):
                instructions = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
                for owner, store in itertools.pairwise(instructions):
                    if (owner.opname, store.opname) == ("LOAD_GLOBAL", "STORE_ATTR"):
                        found.add((id(fn.__globals__.get(owner.argval)), store.argval))
    return found


class Scan:
    """Finds what functions touch; each is looked at once."""

    def __init__(self) -> None:
        self.known: dict[types.CodeType, set[str]] = {}

    def function(self, fn: types.FunctionType) -> set[str]:
        found = self.known.get(fn.__code__)
        if found is None:
            found = self.known[fn.__code__] = set()
            for code in codes(fn.__code__):
                self.code(fn, code, found)
        return found

    def code(self, fn: types.FunctionType, code: types.CodeType, found: set[str]) -> None:
        cells = {}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
            cells[name] = next(iter([cell.cell_contents] if cell != types.CellType() else []), None)
        module, at = fn.__module__, Place(None, "")
        for i in dis.get_instructions(code):
            name = i.argval
            match i.opname:
                case "LOAD_GLOBAL" | "LOAD_NAME":
                    at = Place(fn.__globals__.get(name, getattr(builtins, name, None)), name)
                    if name in variables_set().get(id(fn.__globals__), ()):
                        found.add(f"reads {module}.{name}")
                case "LOAD_DEREF":
                    at = Place(cells.get(name), name)
                case "IMPORT_NAME":
                    at = Place(sys.modules.get(name), name)
                case "IMPORT_FROM":
                    self.touch(Place(getattr(at.value, name, None), name), found)
                case "LOAD_ATTR" | "LOAD_METHOD":
                    if (id(at.value), name) in attributes_set():
                        found.add(f"reads {at.path}.{name}")
                    if name in CHANGING and isinstance(at.value, (dict, list, set)):
                        found.add(f"changes {at.path}")
                    at = at.attribute(name)
                case "STORE_GLOBAL" | "DELETE_GLOBAL":
                    found.add(f"sets {module}.{name}")
                case "STORE_ATTR" | "DELETE_ATTR":
                    if at.value is not None:
                        found.add(f"sets {at.path}.{name}")
                case "CACHE" | "PUSH_NULL" | "NOP":
                    continue
                case _:
                    at = Place(None, "")
            self.touch(at, found)

    def touch(self, at: Place, found: set[str]) -> None:
        """A global object, or an attribute of one, is named."""
        value: Any = at.value
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if type(value) is types.BuiltinFunctionType and at.is_of_c:
            found.add(f"C: {value.__name__}")
        elif type(value) is functools._lru_cache_wrapper or type(value) is types.FunctionType:
            self.call(inspect.unwrap(value), found)
        elif isinstance(value, type) and policy.within(value.__module__, ("torch",)):
            for method in ("__init__", "__new__", "__call__", "__enter__", "__exit__"):
                if type(vars(value).get(method)) is types.FunctionType:
                    self.call(vars(value)[method], found)

    def call(self, fn: Any, found: set[str]) -> None:
        served = fn in HANDLERS or policy.within(fn.__module__ or "", UNSEEN)
        if type(fn) is types.FunctionType and policy.within(fn.__module__ or "", ("torch",)) and not served:
            found |= self.function(fn)


class Place:
    """A global object, or what is reached from one by attributes: None where that is not known."""

    def __init__(self, value: Any, path: str, is_of_c: bool = False) -> None:
        self.value = value
        self.path = path
        module = getattr(value, "__module__", None) if type(value) is types.BuiltinFunctionType else None
        self.is_of_c = is_of_c or (isinstance(module, str) and module.startswith("torch._C"))

    def attribute(self, name: str) -> Place:
        value, found = self.value, None
        if isinstance(value, types.ModuleType):
            found = vars(value).get(name)
        elif isinstance(value, type):
            found = inspect.getattr_static(value, name, None)
        return Place(found, f"{self.path}.{name}", value is C or getattr(value, "__name__", "") == "torch._C")


def is_known(touched: str) -> bool:
    name = touched.removeprefix("C: ")
    return touched in HARMLESS or (
        touched != name and name in OPERATORS | GUARDED | REPLAYED | PROTOCOL | BUILT
    )


def run_as_they_are() -> Iterator[tuple[str, types.FunctionType]]:
    licences = tuple(
        name for modules, facets in PYTHON_MODULES if "refused" not in facets for name in modules
    )
    for module in torch_modules():
        if policy.within(module.__name__, licences) or module is torch:
            for name, fn in functions_of(module):
                refused = fn in HANDLERS or policy.interprets(fn) or rule_of(fn).refused is not None
                if not refused and not policy.within(name, tuple(UNCALLED)):
                    yield name, fn


def test_functions_that_run_as_they_are_touch_no_unknown_state() -> None:
    scan = Scan()
    found = {
        name: {what for what in scan.function(fn) if not is_known(what)} for name, fn in run_as_they_are()
    }
    assert len(found) > 400
    assert {name: touched for name, touched in found.items() if touched} == {}


@pytest.mark.parametrize(
    ("fn", "touched"),
    [
        (torch.jit.enable_onednn_fusion, "C: _jit_set_llga_enabled"),
        (torch.backends.mha.set_fastpath_enabled, "sets torch.backends.mha._is_fastpath_enabled"),
        (torch.backends.mha.get_fastpath_enabled, "reads torch.backends.mha._is_fastpath_enabled"),
        (torch.set_printoptions, "sets PRINT_OPTS.precision"),
        (torch._tensor_str._add_suffixes, "reads PRINT_OPTS.linewidth"),
        (torch.set_float32_matmul_precision, "C: _set_float32_matmul_precision"),
        (torch.hub.set_dir, "sets torch.hub._hub_dir"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_scan_finds_state(fn: Any, touched: str) -> None:
    assert touched in Scan().function(fn)
    assert not is_known(touched)
