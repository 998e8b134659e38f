"""What is known of native functions, one by one or by module and type: tables that `licence` judges by."""

from __future__ import annotations

import _thread
import builtins
import collections
import datetime
import decimal
import enum
import functools
import io
import itertools
import json.scanner
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Reason


class Looks(enum.Enum):
    """How far a function looks into its arguments."""

    MOVES = "at the first few arguments only; the rest are stored or passed on"
    SHALLOW = "at its arguments, not into their elements"
    CLASS = "at its arguments' classes only"
    PAIRS = "at its arguments as keys and values"
    DEEP = "into containers, all the way"
    RECORDED = "a torch function: a node of the graph"


@dataclass(frozen=True)
class Licence:
    looks: Looks
    why: str
    first: int = 0
    """For MOVES: how many leading arguments are looked at. For PAIRS: how many come before the pairs."""


@dataclass(frozen=True)
class Refusal:
    reason: Reason
    context: str


SPEAKING: dict[type, Callable[[Any], bool]] = {re.RegexFlag: lambda flags: bool(flags & re.DEBUG)}
"""Type of an argument -> whether it makes a function that is pure otherwise print something."""


MOVING = {
    list.append: 1,
    list.insert: 2,
    list.clear: 1,
    list.copy: 1,
    list.reverse: 1,
    list.pop: 2,
    dict.get: 2,
    dict.setdefault: 2,
    dict.pop: 2,
    dict.popitem: 1,
    dict.keys: 1,
    dict.values: 1,
    dict.items: 1,
    dict.copy: 1,
    dict.clear: 1,
    dict.__setitem__: 2,
    dict.__getitem__: 2,
    dict.__contains__: 2,
    dict.__delitem__: 2,
    list.__setitem__: 2,
    list.__getitem__: 2,
    tuple.__getitem__: 2,
    list.__delitem__: 2,
    list.__len__: 1,
    tuple.__len__: 1,
    dict.__len__: 1,
    list.__iter__: 1,
    tuple.__iter__: 1,
    dict.__iter__: 1,
    collections.OrderedDict.get: 2,
    collections.OrderedDict.__setitem__: 2,
    collections.OrderedDict.__getitem__: 2,
    collections.OrderedDict.setdefault: 2,
    collections.OrderedDict.pop: 2,
    collections.OrderedDict.move_to_end: 2,
    collections.OrderedDict.keys: 1,
    collections.OrderedDict.values: 1,
    collections.OrderedDict.items: 1,
    collections.deque.append: 1,
    collections.deque.appendleft: 1,
    collections.deque.insert: 2,
    collections.deque.pop: 1,
    collections.deque.popleft: 1,
    collections.deque.rotate: 2,
    functools.partial: 1,
    functools._lru_cache_wrapper.__copy__: 1,
    functools._lru_cache_wrapper.__deepcopy__: 1,
    types.MethodType: 1,
    types.CellType: 0,
    builtins.property: 4,
    object.__init__: 1,
    BaseException.__init__: 1,
    BaseException.with_traceback: 2,
}
"""Functions that store or hand on what they are given."""

SHALLOW = {
    *(list, tuple, enumerate, zip, reversed, iter, next, len, aiter, anext),
    *(list.extend, collections.deque.extend),
    *(collections.deque.extendleft, collections.deque),
    *(itertools.chain, itertools.islice, itertools.repeat, itertools.cycle, itertools.product),
    *(itertools.permutations, itertools.combinations, itertools.zip_longest, itertools.pairwise),
    *(operator.length_hint, tuple.__new__, list.__init__, dict.__or__),
    *(list.__add__, list.__mul__, tuple.__add__, tuple.__mul__, list.__iadd__),
    _thread.RLock,  # one that is made inside locks nothing but what is inside
    *(builtins.__build_class__, object.__new__, type.__call__, type, object, classmethod, staticmethod),
}
"""Functions that go over their arguments' elements without looking at these."""

PAIRS = {
    dict: 0,
    collections.OrderedDict: 0,
    dict.update: 1,
    dict.__init__: 1,
    collections.OrderedDict.update: 1,
}
PAIRS |= {dict.__ior__: 1, collections.defaultdict: 1}
"""Functions that take a mapping, or an iterable of pairs -> how many arguments come before that."""

PURE_BUILTINS = {
    *(aiter, anext, issubclass, sys.exc_info, sys.exception, dict.fromkeys),
    *(operator.attrgetter, operator.methodcaller, os.fspath, sys.intern),
    getattr(os.path, "_path_normpath", os.fspath),
    *(
        abs,
        all,
        any,
        ascii,
        bin,
        chr,
        divmod,
        format,
        hash,
        hex,
        max,
        min,
        oct,
        ord,
        pow,
        repr,
        round,
        sorted,
        sum,
    ),
    *(
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        bytearray,
        set,
        frozenset,
        range,
        slice,
        map,
        filter,
        memoryview,
    ),
    *(datetime.date, datetime.datetime, datetime.timedelta, datetime.time, decimal.Decimal),
    datetime.timezone,
    *(
        functools.reduce,
        functools.cmp_to_key,
        types.SimpleNamespace,
        types.GenericAlias,
        types.MappingProxyType,
    ),
    *(itertools.starmap, itertools.accumulate, itertools.groupby, itertools.takewhile, itertools.dropwhile),
    *(itertools.filterfalse, itertools.compress, itertools.count, itertools.tee),
    *(operator.itemgetter, torch.device, torch.Size, torch.finfo, torch.iinfo),
    json.scanner.make_scanner,
}

PURE_MODULES = {
    "math": "functions of numbers",
    "cmath": "functions of numbers",
    "_operator": "the operators",
    "operator": "the operators",
    "itertools": "iterators over what they are given",
    "_bisect": "compares elements of a sequence",
    "_heapq": "compares elements of a list",
    "_statistics": "functions of numbers",
    "_struct": "packs numbers",
    "_string": "parses format strings",
    "unicodedata": "functions of characters",
    "binascii": "functions of bytes",
    "zlib": "functions of bytes",
    "_hashlib": "functions of bytes",
    "_json": "functions of builtin values",
    "_sre": "matches strings",
    "_typing": "runtime typing",
    "_functools": "calls what it is given",
    "_collections": "containers",
}

PURE_TYPES = {
    *(
        int,
        float,
        complex,
        str,
        bytes,
        bytearray,
        bool,
        list,
        tuple,
        dict,
        set,
        frozenset,
        range,
        slice,
        type(None),
    ),
    *(
        collections.deque,
        collections.OrderedDict,
        collections.defaultdict,
        object,
        type,
        property,
        BaseException,
    ),
    *(
        re.Pattern,
        re.Match,
        datetime.date,
        datetime.datetime,
        datetime.timedelta,
        datetime.time,
        datetime.timezone,
        decimal.Decimal,
    ),
    *(type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType, types.FunctionType),
    *(types.MethodType, types.CodeType, BaseExceptionGroup, torch.Size, torch.device, types.GenericAlias),
    *(OSError, ImportError, SyntaxError, UnicodeError, StopIteration, SystemExit, types.SimpleNamespace),
    *(
        operator.itemgetter,
        enumerate,
        zip,
        map,
        filter,
        reversed,
        *(type(iter(cls())) for cls in (list, tuple, dict, str, bytes, bytearray, set)),
        *(type(iter("\xe9")), type(iter(range(1))), type(iter(range(1 << 70))), type(reversed([]))),
    ),
    *(classmethod, staticmethod, super, memoryview, functools.partial, itertools.chain, itertools.tee),
    *(type(functools.cmp_to_key(operator.sub)), io.StringIO, io.BytesIO, decimal.Context, types.ModuleType),
}
"""Builtin types whose methods look at nothing but their arguments."""
PURE_TYPES |= {types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType}

STATIC = frozenset(
    method.__func__
    for cls in PURE_TYPES
    if isinstance(cls, type)
    for method in vars(cls).values()
    if type(method) is staticmethod
)
"""Their functions that are told nothing of the type, such as `str.maketrans`."""

REFUSED: dict[Any, Refusal] = {
    builtins.print: Refusal(breaks.EFFECT, "print"),
    builtins.input: Refusal(breaks.EFFECT, "input"),
    builtins.open: Refusal(breaks.EFFECT, "open"),
    builtins.breakpoint: Refusal(breaks.EFFECT, "breakpoint"),
    builtins.exec: Refusal(breaks.EFFECT, "exec"),
    builtins.eval: Refusal(breaks.EFFECT, "eval"),
    builtins.compile: Refusal(breaks.EFFECT, "compile"),
    builtins.id: Refusal(breaks.IDENTITY, "id"),
    **{
        fn: Refusal(breaks.RANDOM, f"{fn.__name__} of a torch.Generator")
        for fn in (torch.seed, torch.initial_seed, torch.get_rng_state, torch.set_rng_state)
    },
    **{
        getattr(torch.Generator, name): Refusal(breaks.RANDOM, f"torch.Generator.{name}")
        for name in ("seed", "initial_seed", "manual_seed", "get_state", "set_state", "clone_state")
    },
    type.__subclasses__: Refusal(breaks.UNLICENSED_CALL, "type.__subclasses__"),
    typing.get_type_hints: Refusal(breaks.UNLICENSED_CALL, "typing.get_type_hints"),
    **{
        fn: Refusal(breaks.EFFECT, f"typing.{fn.__name__}")
        for fn in (typing.overload, typing.get_overloads, typing.clear_overloads, typing.reveal_type)
    },
    **{
        fn: Refusal(breaks.EFFECT, f"typing.{fn.__name__}, which marks what it is given")
        for fn in (typing.final, typing.runtime_checkable, typing.no_type_check)
    },
    **{
        getattr(typing, name): Refusal(
            breaks.UNLICENSED_CALL, f"typing.{name}, which looks at its caller's frame"
        )
        for name in ("NamedTuple", "TypedDict")
    },
}

EFFECTIVE = {
    "time": "asks the clock, or waits",
    "posix": "asks the operating system",
    "_random": "draws numbers",
    "_warnings": "shows or raises warnings",
}
"""Modules of C functions that are called each time the program runs -> what they do."""

PARALLEL = {
    "torch.nn.parallel.distributed": "makes ready for the reduction of gradients",
    "torch.distributed.fsdp": "gathers parameters, and frees them",
}
"""Parts of torch that do something for each call of a module -> what."""

CLOCKS = frozenset({"now", "utcnow", "today"})
"""Class methods of dates that ask what time it is."""

TORCH_OPERATORS = (
    "torch._C._nn",
    "torch._C._linalg",
    "torch._C._fft",
    "torch._C._special",
    "torch._C._sparse",
)
"""Modules of torch's operators, beside `torch` itself and the tensor methods."""

TORCH_QUERIES = {
    *(
        torch.is_grad_enabled,
        torch.is_inference_mode_enabled,
        torch.is_autocast_enabled,
        torch.is_autocast_cpu_enabled,
        torch.get_default_dtype,
    ),
    *(
        torch.get_autocast_dtype,
        torch.get_autocast_cpu_dtype,
        torch.get_autocast_gpu_dtype,
        torch.is_autocast_cache_enabled,
        torch._C._get_tracing_state,
        torch.is_anomaly_enabled,
    ),
    *(torch._C._is_torch_function_enabled, torch._C._is_any_autocast_enabled, torch._C._has_mkldnn),
    *(torch._C._get_cudnn_sdp_enabled, torch._C._get_overrideable_sdp_enabled),
    *(torch._C._get_sdp_priority_order, torch.is_anomaly_check_nan_enabled),
    *(torch._C._is_multithreading_enabled, torch._C._is_view_replay_enabled),
    *(torch._C._is_autocast_available, torch._C._get_privateuse1_backend_name),
    *(torch.are_deterministic_algorithms_enabled, torch.is_deterministic_algorithms_warn_only_enabled),
    *(torch._C._get_cudnn_enabled, torch._C._get_mkldnn_enabled, torch._C._get_flash_sdp_enabled),
    *(
        torch._C._get_math_sdp_enabled,
        torch._C._get_mem_efficient_sdp_enabled,
        torch._C._is_torch_function_all_disabled,
    ),
}
"""Questions about torch's global state: every entry guards that state."""

TORCH_PYTHON = (
    "torch.functional",
    "torch.nn.functional",
    "torch._tensor",
    "torch.overrides",
    "torch._VF",
    "torch._jit_internal",
    "torch.autograd.grad_mode",
    "torch.amp.autocast_mode",
    "torch.backends",
    "torch._C",
    "torch._lowrank",
    "torch.nn._reduction",
    "torch._prims_common",
    "torch.utils._device",
    "torch.jit",
    "torch.compiler",
    "torch.nn.parameter",
    "torch.cuda.amp.autocast_mode",
    "torch.signal",
    "torch.special",
    "torch.linalg",
    "torch.fft",
    "torch.nn.grad",
    "torch.nested",
    "torch.masked",
    "torch.return_types",
    "torch._linalg_utils",
    "torch._ops",
    "torch._library",
    "torch.distributed.tensor.placement_types",
)
"""Modules of torch in Python that are the functional API, or ask about state; run untouched."""

TORCH_TOP = {
    *(
        torch.is_tensor,
        torch.is_storage,
        torch.typename,
        torch.get_default_device,
        torch.get_float32_matmul_precision,
    ),
    *(
        torch.is_warn_always_enabled,
        torch.sym_int,
        torch.sym_float,
        torch.sym_max,
        torch.sym_min,
        torch.sym_not,
        torch.sym_sum,
    ),
    *(torch._check, torch._check_with, torch._check_index, torch._check_value, torch._check_type),
    torch._check_not_implemented,
    *(
        torch.cuda.is_available,
        torch.cuda.device_count,
        torch.cuda.is_bf16_supported,
        torch.cuda._is_compiled,
        torch.cuda._utils._get_device_index,
    ),
    *(torch.cuda.get_device_name, torch.cuda.get_device_capability, torch.cuda.get_device_properties),
}
"""Functions of `torch` itself, in Python, that have no effect."""

DEVICES = ("torch.cuda", "torch.accelerator", "torch.xpu", "torch.mps", "torch.mtia")
"""Modules whose other functions choose streams and devices, draw, or wait."""
