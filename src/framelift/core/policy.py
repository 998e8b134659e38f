"""Whose code is it? Decides, once per code object, what the frame hook does with its frames.

In run mode the frames of user code are looked up and captured; the standard library's, torch's and
Framelift's own run as usual (what they call is looked at again). While a trace runs, Python code is
interpreted down to C, except for what is listed here as a leaf: code that must run untouched,
together with everything below it.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from framelift import _frame

OWN_FILES = str(Path(__file__).parents[1])
"""What the names of Framelift's own files begin with."""

LEAVES = {
    "framelift": "the interpreter must not interpret itself",
    "triton": "compiles and launches kernels; a trace writes launches down",
    "sympy": "symbolic arithmetic of sizes, run by torch on our behalf",
    "mpmath": "the same",
    "importlib": "the import system; modules are imported once, for real",
    "_frozen_importlib": "the same",
    "_frozen_importlib_external": "the same",
    "re": "compiles patterns into a cache of its own",
    "sre_compile": "the same",
    "sre_parse": "the same",
    "_strptime": "keeps what it knows of the locale, under a lock",
    "typing": "runtime typing objects are immutable and cached",
    "linecache": "reads source files",
    "traceback": "looks at real frames",
    "threading": "synchronises real threads",
    "encodings": "codecs are looked up and cached by the interpreter",
    "tokenize": "reads source files",
}
"""Top-level module or package -> why its functions are never interpreted."""

EFFECTS = {
    "logging": "writes records",
    "warnings": "shows or raises warnings",
    "random": "draws numbers",
    "subprocess": "runs programs",
    "socket": "talks to others",
    "tempfile": "makes files",
    "shutil": "copies files",
}
"""Modules whose functions are called as they are, each time the program runs."""
LEAVES |= EFFECTS

TORCH_LEAVES = {
    "torch._C": "what C has in Python",
    "torch._dynamo": "torch's own compiler",
    "torch._inductor": "a compiler",
    **dict.fromkeys(("torch.SymInt", "torch.SymFloat", "torch.SymBool"), "symbols, which C asks things"),
    **dict.fromkeys(("torch.sym_not", "torch.sym_float", "torch.sym_int"), "operators on symbols"),
    **dict.fromkeys(("torch.sym_max", "torch.sym_min", "torch.sym_sum", "torch.sym_ite"), "the same"),
    "torch._functorch": "transforms, and the compiler's tracer; what is captured of them is served",
    "torch._higher_order_ops": "operators that take functions: what is captured of them is served",
    "torch._export": "a tracer",
    "torch.export": "a tracer",
    "torch.fx.experimental": "symbols and the tracer of operators, run by torch on our behalf",
    "torch.fx.passes": "changes graphs",
    "torch.fx.proxy": "a tracer",
    "torch.fx.graph": "what is recorded here is made of it",
    "torch.fx.traceback": "what is recorded here is told by it",
    "torch.fx.interpreter": "runs graphs that are being compiled",
    "torch._subclasses": "fakes, which stand for tensors here",
    "torch._prims": "operators",
    "torch._refs": "operators",
    "torch._decomp": "operators",
    "torch._meta_registrations": "operators",
    "torch._ops": "the registry of operators",
    "torch.library": "the same",
    "torch._guards": "what torch's compiler knows while it works",
    "torch._logging": "writes records",
    "torch._classes": "classes that C loads",
    "torch.classes": "the same",
    "torch._numpy": "stands for NumPy here",
    "torch._weights_only_unpickler": "reads files",
    "torch.ao": "observers and the tracers of quantization",
    "torch.multiprocessing": "runs processes",
    "torch.package": "reads files",
    "torch.onnx._internal": "a tracer",
    "torch.profiler": "watches the program",
    "torch.serialization": "reads and writes files",
    "torch.sparse": "the functional API of sparse tensors",
    "torch.storage": "memory, which fakes have none of",
    "torch._storage_docs": "the same",
    "torch._tensor_str": "shows values, which fakes have none of",
    "torch.utils._python_dispatch": "dispatch modes: torch's, and those that make fakes",
    "torch.utils._stats": "the same",
    "torch.utils._sympy": "symbolic arithmetic of sizes, run by torch on our behalf",
    "torch.utils._traceback": "looks at real frames",
    "torch.utils._triton": "asks about a compiler",
    "torch.utils.cpp_extension": "runs a compiler",
    "torch.utils.data.dataloader": "runs processes, and draws numbers",
    "torch.utils.data.sampler": "draws numbers",
    "torch.utils.data.datapipes": "draws numbers",
    "torch.utils.dlpack": "hands memory on",
    "torch.utils.model_zoo": "loads files",
    "torch.utils.tensorboard": "writes files",
    "torch.hub": "loads files",
    "torch.random": "sets generators; what is captured of it is served",
    "torch.autograd": "autograd's engine; what is captured of it is served",
    "torch.amp": "what is not a context of it scales gradients",
    "torch.func": "transforms",
    "torch.vmap": "the same",
    "torch.compile": "compiles",
    "torch._compile": "the same",
    "torch.utils.checkpoint": "what is captured of it is served",
}
"""Parts of torch -> why their functions are never interpreted. `rules/` has more of them: those that run as
they are (`keep_whole`). All other Python of torch's is interpreted like a user's."""

NUMPY_LEAVES = {
    "numpy.random": "draws numbers",
    "numpy.ma": "arrays of a class of its own, which are looked at in C",
    "numpy.matrixlib": "the same",
    "numpy.rec": "the same",
    "numpy._core.records": "the same",
    "numpy._core.memmap": "files",
    "numpy.lib._npyio_impl": "the same",
    "numpy.lib._format_impl": "the same",
    "numpy.lib.format": "the same",
    "numpy._core.arrayprint": "shows values, which fakes have none of",
    "numpy._core._ufunc_config": "sets what is done about errors; what is captured of it is served",
    "numpy._core._internal": "what C calls",
    "numpy._core._methods": "the same",
    "numpy._core.getlimits": "keeps what it knows of types",
    "numpy.lib._stride_tricks_impl.as_strided": "memory, which fakes have none of",
    "numpy.lib._nanfunctions_impl.nanquantile": "branches on the data",
    "numpy.testing": "shows values",
    "numpy.ctypeslib": "C",
    "numpy.f2py": "runs a compiler",
}
"""Parts of NumPy -> why their functions are never interpreted. Others are: where torch has no function
for one of NumPy's that is Python, what that calls in the end may be one that torch has."""

IMPORTS = ("_frozen_importlib", "_frozen_importlib_external", "importlib")
"""The import system. What a module does as it is imported is done once, and modules that a capture needs may
be there only in part: nothing below is looked at."""

FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
"""The flags of code that is neither the body of a class nor that of a module."""

OPERATORS = (
    *("torch._higher_order_ops.cond", "torch._higher_order_ops.map", "torch._higher_order_ops.scan"),
    *("torch._higher_order_ops.while_loop", "torch._higher_order_ops.associative_scan"),
)
"""What torch does around an operator that is given functions. In a trace that gives it other functions than
without one, of which the operator can't be differentiated."""

INLINED = (
    *("torch.nn.modules", "torch.nn.utils", "torch.nn.attention", "torch.nn.init", "torch.optim"),
    *("torch.distributions", "torch.utils._pytree", "torch.utils._contextlib", "torch.utils.checkpoint"),
    *("torch.cpu", "torch._assert", "torch._check_tensor_all", "torch._check_tensor_all_with"),
    *("torch.cuda.stream", "torch.cuda.StreamContext", "torch.amp.autocast_mode"),
    *("torch.autograd.anomaly_mode", "torch.autograd.function", "torch.autograd.graph"),
    *("torch.autograd.profiler", "torch.utils._foreach_utils", "torch.testing", "torch.backends"),
    *("torch.autograd.grad_mode.enforce_grad_layout_policy", "torch.sparse.check_sparse_tensor_invariants"),
    "torch.autograd.grad_mode._unsafe_preserve_version_counter",
    *("torch.utils.deterministic", "torch.utils._config_module", "torch.get_float32_matmul_precision"),
    *("torch.set_float32_matmul_precision", "torch.set_warn_always", "torch.get_deterministic_debug_mode"),
    *("torch.ao.quantization.stubs", "torch.fx.graph_module", "torch._functorch.functional_call"),
    "torch.fx._pytree",
    *("torch.distributed.tensor._api", "torch.distributed.tensor.experimental._func_map"),
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper",
    *("torch.distributed.tensor.parallel", "torch.__future__", "torch.nn.parameter._ParameterMeta"),
    *OPERATORS,
    *("torch._jit_internal.ignore", "torch._jit_internal.unused", "torch._jit_internal.export"),
    *("torch.onnx._internal.torchscript_exporter._globals", "torch.autograd._is_checkpoint_valid"),
    *("torch.nn.parameter._BufferMeta", "torch.nn.parameter.Buffer", "torch.utils.weak"),
    *(
        f"torch.utils._python_dispatch.{name}"
        for name in (
            *("is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type"),
            "_has_traceable_wrapper_subclass_protocol",
        )
    ),
    *(f"torch._library.opaque_object.{name}" for name in ("is_opaque_value", "is_opaque_type")),
    "torch._library.opaque_object._resolve_opaque_type_info",
    *("torch.export._unlift", "torch.export._tree_utils"),  # what the module of an artifact checks first
    "torch._dynamo.decorators.DynamoConfigPatchProxy",  # around these checks
    *(
        f"torch._export.non_strict_utils._{when}_enable_graph_inputs_of_type_nn_module"
        for when in ("enter", "exit")
    ),
    "torch._dynamo.external_utils",  # what a captured backward pass calls
    "torch._dynamo._trace_wrapped_higher_order_op",  # what flex_attention's functions look elements up with
)
"""Parts of torch that are ordinary Python over the functional API: a trace may end within them. In all other
Python of torch's nothing is left half done: its caller breaks at the call."""


MARKS = (
    *("_framelift_disable", "_framelift_wrapper", "_framelift_calls_module"),
    *("_torchdynamo_disable", "_torchdynamo_orig_callable", "_dynamo_forbidden", "_dynamo_marked_constant"),
    "__script_if_tracing_wrapper",
)
"""Attributes of a function that decide what is done with its calls."""

WRAPPER_ID = "_torchdynamo_wrapper_id"
"""Whose marks these are, in torch's versions that say so."""


COMPILED = ("torch._functorch._aot_autograd", "torch._functorch.aot_autograd")
"""What torch puts around the graphs that it has compiled. All below it is of a compiler's making, and none of
the program's."""


def module_name(fn: FunctionType) -> str:
    return fn.__globals__.get("__name__") or name_by_file(fn.__code__.co_filename)


def name_by_file(filename: str) -> str:
    """The module of torch's that has written the function, if one has: its name goes by its file, as in
    `.../torch/_functorch/_aot_autograd/subclass_codegen.py:codegen(...)`."""
    folder = os.path.dirname(getattr(sys.modules.get("torch"), "__file__", None) or "")
    if not folder or not filename.startswith(folder + os.sep):
        return ""
    path = filename[len(folder) - len("torch") :].partition(".py")[0]
    return path.replace(os.sep, ".")


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


_kept_whole: set[str] = set(TORCH_LEAVES)


def keep_whole(*names: str) -> None:
    """Functions of these parts of torch run as they are, or not at all."""
    _kept_whole.update(names)


def keep(fn: FunctionType) -> None:
    """The same of one function."""
    if within(module_name(fn), ("torch",)):
        _frame.set_decision(fn.__code__, _frame.SKIP, _frame.LEAF)


def is_kept_whole(name: str) -> bool:
    while name not in _kept_whole:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return False
    return True


def is_leaf(name: str) -> bool:
    """Whether what has this name, a module or something in one, is left as it is."""
    top = name.partition(".")[0]
    if top == "torch":
        return is_kept_whole(name) and not within(name, INLINED)
    if top == "numpy":
        return within(name, tuple(NUMPY_LEAVES))
    return top in LEAVES


def is_user_code(name: str) -> bool:
    top = name.partition(".")[0]
    return name == "__main__" or not (
        top in LEAVES or top in ("torch", "numpy") or top in sys.stdlib_module_names
    )


def is_around_operator(fn: FunctionType) -> bool:
    return within(f"{module_name(fn)}.{fn.__qualname__}", OPERATORS)


def is_library(fn: FunctionType) -> bool:
    """Whether what can't be captured in it is the business of its caller: the standard library, NumPy, and
    torch but for what is written like a program."""
    name = module_name(fn)
    top = name.partition(".")[0]
    if top == "torch":
        return not within(f"{name}.{fn.__qualname__}", INLINED)
    return (top in sys.stdlib_module_names or top == "numpy") and name != "__main__"


def decide(fn: FunctionType, code: CodeType) -> tuple[int, int]:
    """(what run mode does, what a trace does) with frames of this code."""
    if is_disabled_by_mark(fn):
        return by_torchs_mark(vars(fn)), _frame.REFUSE
    name = module_name(fn)
    if within(name, (*IMPORTS, *COMPILED)):
        return _frame.SKIP_ALL, _frame.LEAF
    if is_torchs_wrapper(fn):  # or torch's compiler would see Framelift at work, and compile that
        return _frame.SKIP_ALL, _frame.LEAF
    # what is no function has its variables in a namespace that whoever runs it looks into
    run = _frame.LOOK if is_user_code(name) and code.co_flags & FUNCTION else _frame.SKIP
    if gives_a_constant(fn):
        return run, _frame.LEAF
    if name.partition(".")[0] in EFFECTS:
        return run, _frame.REFUSE
    return run, _frame.LEAF if is_leaf(f"{name}.{fn.__qualname__}") else _frame.INTERPRET


def is_torchs_wrapper(fn: FunctionType) -> bool:
    """Whether it is what `torch.compile` makes of a function. A trace calls what it was made of."""
    return fn.__code__.co_name == "compile_wrapper" and module_name(fn) == "torch._dynamo.eval_frame"


def gives_a_constant(fn: FunctionType) -> bool:
    """Whether the program says that its result is always the same (`assume_constant_result`)."""
    return bool(vars(fn).get("_dynamo_marked_constant"))


def is_disabled_by_mark(fn: FunctionType) -> bool:
    """Whether the marks that `torch.compiler.disable` leaves are the function's own: `functools.wraps` copies
    them to what a program puts around one, which may have its code in common with what is not disabled."""
    marks = vars(fn)
    return bool(marks.get("_torchdynamo_disable")) and marks.get(WRAPPER_ID, id(fn)) == id(fn)


def by_torchs_mark(marks: dict[str, Any]) -> int:
    """What run mode does with a wrapper that `torch.compiler.disable` has made."""
    if marks.get("_torchdynamo_disable_recursive", True):
        return _frame.SKIP_ALL
    wrapped = getattr(marks.get("_torchdynamo_orig_callable"), "__code__", None)
    if wrapped is not None:
        _frame.set_decision(wrapped, _frame.SKIP, _frame.REFUSE)
    return _frame.SKIP


def hidden_by_torch(fn: FunctionType) -> Callable[..., Any] | None:
    """What torch's own compiler, once it is loaded, has put a function of its own before: what
    `torch.compile` was given; a method of an optimizer, which it keeps from itself; or one that makes a
    module, of which it takes note. Also what is to be scripted while `torch.jit.trace` runs, as it never does
    here (`torch.jit.script_if_tracing`)."""
    patching = "torch._dynamo.mutation_guard"  # by its name: torch's compiler is not loaded to ask
    if module_name(fn) == patching and fn.__closure__ is not None:
        found = fn.__closure__[0].cell_contents
        return found if type(found) is FunctionType else None
    marks = vars(fn)
    if marks.get("__script_if_tracing_wrapper") and fn.__globals__.get("__name__") == "torch.jit._trace":
        return marks.get("__original_fn")
    original = marks.get("_torchdynamo_orig_callable")
    if marks.get(WRAPPER_ID, id(fn)) != id(fn):
        return None  # copied by `functools.wraps`
    if not marks.get("_torchdynamo_disable"):
        return original if WRAPPER_ID in marks else None
    if "_framelift_disable" in marks:
        return None  # the user's word, not torch's own
    is_optimizers = type(original) is FunctionType and within(module_name(original), ("torch.optim",))
    return original if is_optimizers else None


def is_compiled(fn: FunctionType) -> bool:
    """Whether it is what `compile` gave, and not one that got its attributes by `functools.wraps`."""
    return vars(fn).get("_framelift_wrapper") is fn.__code__


def calls_compiled_module(fn: FunctionType) -> bool:
    """Whether it is the `__call__` of compiled modules."""
    return vars(fn).get("_framelift_calls_module") is fn.__code__


def calls_torchs_module(fn: FunctionType) -> bool:
    """Whether it is the `__call__` of modules that `torch.compile` gives. They are called like others: the
    `forward` of one is a function that `torch.compile` has made."""
    return fn.__qualname__ == "OptimizedModule.__call__" and module_name(fn) == "torch._dynamo.eval_frame"


def interprets(fn: FunctionType) -> bool:
    """Whether a trace interprets the function; remembered with its code."""
    code = fn.__code__
    intercept = _frame.get_decision(code)[1]
    if not intercept:
        run, intercept = decide(fn, code)
        _frame.set_decision(code, run, intercept)
    return intercept == _frame.INTERPRET


_frame.set_callbacks(decide, None)
