"""Inductor's code for a processor, as something that runs without Inductor.

What Inductor generates for a graph is a module of Python that allocates memory and calls kernels: operators
of torch's, and functions in shared libraries that it has compiled. The module imports Inductor for a few
names. It is taken apart here, with all but what runs left out, and each name that is left must be one that is
known to mean the same without Inductor; otherwise the code is not kept.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import marshal
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from framelift.cache.files import kernel_path, write_kernel
from framelift.dispatch.capture_pickles import Portable
from framelift.dispatch.object_names import NotPortableError

IMPORTED = frozenset({"torch", "math", "cmath", "ctypes", "random", "os", "tempfile"})
"""What the code may import."""
OF_INDUCTOR = "torch._inductor."
EXTERN = "extern_kernels"
"""The name of Inductor's namespace of operators that it calls as they are."""
LEFT_OUT = frozenset({"get_args", "benchmark_compiled_module"})
NAMESPACES = frozenset({"aten", "mkldnn"})
"""Of operators that torch has by itself, in `torch.ops`."""
KERNEL = "kernel"
"""What the function in a library is called, and what its initialiser is named after."""
POINTER = "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"
"""The variable by which libraries find torch's function that gives the address of a tensor's data."""


class InductorCode(Portable):
    """The code for one graph."""

    def __init__(self, code: bytes, kernels: dict[str, str], operators: list[str]) -> None:
        self.code = code
        """As `marshal` has it, which goes with the version of Python."""
        self.kernels = kernels
        """Name in the code -> the library that has it."""
        self.operators = operators
        """Those that are called as functions of torch's."""

    def __reduce__(self) -> Any:
        return InductorCode, (self.code, self.kernels, self.operators)

    def load(self) -> Callable[[list[Any]], Any]:
        """What takes a list of inputs, and gives what the graph gives."""
        native: Any = torch._C  # generated code looks for this there too
        os.environ[POINTER] = str(native._dynamo.guards._torchinductor_pyobject_tensor_data_ptr)
        scope: dict[str, Any] = {name: load_kernel(library) for name, library in self.kernels.items()}
        scope[EXTERN] = types.SimpleNamespace(**{name: getattr(torch, name) for name in self.operators})
        exec(marshal.loads(self.code), scope)
        run: Callable[[list[Any]], Any] = scope["call"]
        return run


def load_kernel(library: str) -> Any:
    path = kernel_path(library)
    name = f"framelift_{library}.{KERNEL}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return getattr(module, KERNEL)


# ---- taking apart


def portable_code(compiled: Any) -> InductorCode:
    """What is to be kept of Inductor's `CompiledFxGraph`. Raises NotPortableError if it can't be."""
    if set(compiled.device_types) != {"cpu"}:
        raise NotPortableError("it is not for the processor alone")
    if compiled.constants or compiled.frozen_param_names or compiled.torchbind_constants:
        raise NotPortableError("there are constants in what Inductor has made")
    if compiled.inputs_to_check or compiled._wrap_compiled_regions or compiled.opaque_value_type_classes:
        raise NotPortableError("Inductor has something around what it has made")
    run = compiled.current_callable
    scope = getattr(getattr(run, "__func__", run), "__globals__", None)
    if scope is None or scope.get("call") != run:
        raise NotPortableError("Inductor has something around what it has made")
    parts = Parts(ast.parse(compiled.source_code))
    kernels = {name: write_kernel(library_of(scope[name])) for name in parts.kernels}
    code = compile(ast.Module(parts.kept, []), "<Inductor's code, from the cache>", "exec")
    return InductorCode(marshal.dumps(code), kernels, parts.operators)


def library_of(kernel: Any) -> bytes:
    """The shared library that a function is in."""
    module: Any = getattr(kernel, "__self__", None)
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or kernel.__name__ != KERNEL:
        raise NotPortableError("a kernel that is in no library")
    return Path(file).read_bytes()


class Parts:
    """The statements of a module of Inductor's, sorted."""

    def __init__(self, module: ast.Module) -> None:
        self.kernels: list[str] = []
        self.kept: list[ast.stmt] = []
        header: dict[str, ast.stmt] = {}
        """Names that are there to be used, with the statement that sets each."""
        for statement in module.body:
            self.sort(statement, header)
        used = set(names_in(self.kept))
        self.kept = [header[name] for name in header if name in used] + self.kept
        unknown = set(names_in(self.kept)) - {*header, *self.kernels, *vars(builtins), EXTERN, "torch"}
        unknown -= {name for statement in self.kept for name in defined_in(statement)}
        if unknown:
            raise NotPortableError(f"Inductor's code uses {', '.join(sorted(unknown))}")
        self.kept.insert(0, ast.parse("import torch").body[0])
        self.operators = sorted(set(attributes_of(self.kept, EXTERN)))
        self.check_operators()

    def sort(self, statement: ast.stmt, header: dict[str, ast.stmt]) -> None:
        match statement:
            case ast.Import(names=names) if all(each.name in IMPORTED for each in names):
                header |= {each.asname or each.name: statement for each in names}
            case ast.ImportFrom(module=str(module), names=names):
                if module in IMPORTED:
                    header |= {each.asname or each.name: statement for each in names}
                elif not module.startswith(OF_INDUCTOR):
                    raise NotPortableError(f"Inductor's code imports {module}")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=made)):
                self.sort_call(statement, name, made)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Name()):
                if self.kept:
                    self.kept.append(statement)
                else:
                    header[name] = statement
            case ast.FunctionDef(name=name) if name in LEFT_OUT:
                pass
            case ast.ClassDef() | ast.FunctionDef():
                self.kept.append(statement)
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass
            case ast.Delete(targets=[ast.Name(id="async_compile")]):
                pass
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr="wait"))
            ):
                pass
            case _:
                raise NotPortableError(f"Inductor's code has: {ast.unparse(statement):.80}")

    def sort_call(self, statement: ast.stmt, name: str, made: ast.expr) -> None:
        match made:
            case ast.Attribute(value=ast.Name(id="async_compile"), attr="cpp_pybinding"):
                self.kernels.append(name)
            case ast.Name(id="AsyncCompile"):
                pass
            case ast.Name(id="Runner"):
                self.kept.append(statement)
            case _:
                raise NotPortableError(f"Inductor's code calls {ast.unparse(made):.80}")

    def check_operators(self) -> None:
        """That they are what they are called."""
        known: Any = sys.modules["torch._inductor.select_algorithm"].extern_kernels
        for name in self.operators:
            if getattr(known, name) is not getattr(torch, name, None):
                raise NotPortableError(f"Inductor's code calls {EXTERN}.{name}")
        spaces = {*attributes_of_path(self.kept, ("torch", "ops"))}
        if not spaces <= NAMESPACES:
            raise NotPortableError(
                f"Inductor's code calls operators of {', '.join(sorted(spaces - NAMESPACES))}"
            )


def names_in(statements: list[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id


def defined_in(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name


def attributes_of(statements: list[ast.stmt], owner: str) -> Iterator[str]:
    for statement in statements:
        for node in ast.walk(statement):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == owner:
                    yield attribute


def attributes_of_path(statements: list[ast.stmt], path: tuple[str, str]) -> Iterator[str]:
    for statement in statements:
        for node in ast.walk(statement):
            match node:
                case ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id=first), attr=second), attr=attribute
                ):
                    if (first, second) == path:
                        yield attribute
