"""Functions, types and modules of C: how far each looks into its arguments, and what it does with them."""

from __future__ import annotations

import _thread
import collections
import datetime
import decimal
import functools
import io
import itertools
import json.scanner
import math
import operator
import os
import posix
import re
import sys
import types
import typing
from typing import Any

import torch

from framelift.core import breaks, policy
from framelift.graph import arithmetic
from framelift.interpreter import coroutines, generators
from framelift.rules import numbers
from framelift.trace.callable_rules import Looks, functions_of, methods_of, python_functions_of, rule
from framelift.trace.comparisons import COMPARING_METHODS, ORDERING

_fn: Any
_kind: type
deque, OrderedDict, defaultdict = collections.deque, collections.OrderedDict, collections.defaultdict

# ---- what stores or hands on what it is given

moves = functools.partial(rule, looks=Looks.MOVES, why="stores or hands on what it is given")
moves(types.CellType, types.SimpleNamespace, first=0)
moves(
    *(list.clear, list.copy, list.reverse, list.__len__, list.__iter__, tuple.__len__, tuple.__iter__),
    *(dict.popitem, dict.keys, dict.values, dict.items, dict.copy, dict.clear, dict.__len__, dict.__iter__),
    *(OrderedDict.keys, OrderedDict.values, OrderedDict.items),
    *(deque.append, deque.appendleft, deque.pop, deque.popleft, deque.copy, deque.reverse, deque.clear),
    *(vars(deque)[f"__{name}__"] for name in ("copy", "len", "iter", "reversed")),
    *(list.__reversed__, dict.__reversed__, vars(tuple)["__getnewargs__"]),
    *(functools._lru_cache_wrapper.__copy__, functools._lru_cache_wrapper.__deepcopy__),
    *(functools.partial, types.MethodType, object.__init__, BaseException.__init__),
    first=1,
)
moves(
    *(list.insert, list.pop, list.__setitem__, list.__getitem__, list.__delitem__, tuple.__getitem__),
    *(dict.setdefault, dict.__setitem__, dict.__getitem__, dict.__delitem__),
    *(OrderedDict.__setitem__, OrderedDict.setdefault, OrderedDict.pop, OrderedDict.move_to_end),
    *(deque.insert, deque.rotate, vars(deque)["__setitem__"], BaseException.with_traceback),
    first=2,
)
moves(dict.pop, dict.__contains__, first=2, with_symbols=numbers.looks_up)
moves(property, first=4)

# ---- what takes a mapping, or an iterable of pairs

takes_pairs = functools.partial(rule, looks=Looks.PAIRS, why="takes keys and values")
takes_pairs(dict, OrderedDict, first=0)
takes_pairs(dict.update, dict.__init__, dict.__ior__, OrderedDict.update, defaultdict, first=1)

# ---- what goes over elements without looking at them

GOES_OVER = "goes over elements without looking at them"
rule(itertools.zip_longest, looks=Looks.SHALLOW, passes_numbers=True, why=GOES_OVER)
rule(
    *(list, tuple, enumerate, zip, reversed, next, aiter, anext, deque, list.extend),
    *(deque.extend, deque.extendleft, list.__init__, tuple.__new__, operator.length_hint, dict.__or__),
    *(itertools.chain, itertools.islice, itertools.cycle, itertools.product),
    *(itertools.permutations, itertools.combinations, itertools.pairwise),
    *(list.__add__, list.__mul__, list.__iadd__, tuple.__add__, tuple.__mul__),
    *(list.__rmul__, list.__imul__, tuple.__rmul__, vars(deque)["__iadd__"]),
    *(vars(deque)[f"__{name}__"] for name in ("mul", "imul", "rmul")),
    *(object.__new__, type.__call__, object, classmethod, staticmethod),
    _thread.RLock,  # one that is made inside locks nothing but what is inside
    looks=Looks.SHALLOW,
    why=GOES_OVER,
)

rule(
    itertools.repeat,
    looks=Looks.SHALLOW,
    with_symbols=numbers.repeat,
    why="goes over elements without looking at them",
)

# ---- pure builtins

pure = functools.partial(rule, looks=Looks.DEEP, why="a pure builtin")
pure(
    *(bin, chr, complex, hex, issubclass, memoryview, oct, ord),
    *(datetime.date, datetime.datetime, datetime.timedelta, datetime.time, datetime.timezone),
    *(decimal.Decimal, types.GenericAlias, types.MappingProxyType),
    *(itertools.count, operator.attrgetter, operator.methodcaller, operator.itemgetter),
    *(sys.exc_info, sys.exception, sys.intern, os.fspath, torch.device, torch.finfo, torch.iinfo),
)
pure(slice, torch.Size, passes_numbers=True)
pure(range, with_symbols=numbers.go_over_range)
pure(divmod, with_symbols=numbers.divide)
pure(pow, with_symbols=numbers.power)
pure(round, with_symbols=numbers.rounds)
for _name in ("_path_normpath", "_path_splitroot", "_path_splitroot_ex"):
    # versions of Python differ in which of them there are
    if hasattr(posix, _name):
        pure(getattr(posix, _name))
pure(json.scanner.make_scanner, reads_attributes=True)

passes = functools.partial(pure, passes_numbers=True)
pure(sorted, calls_back=True, iterates=True, drains=(0,), orderless=True, with_symbols=numbers.sort)
rule(list.sort, calls_back=True, iterates=True, with_symbols=numbers.sort)
pure(min, max, calls_back=True, iterates=True, drains_alone=True, with_symbols=numbers.choose)
pure(functools.cmp_to_key, calls_back=True, iterates=True)
passes(map, calls_back=True, iterates=True, hands_on=True)
passes(itertools.accumulate, calls_back=True, iterates=True, with_symbols=numbers.accumulate)
passes(itertools.starmap, itertools.takewhile, itertools.dropwhile, calls_back=True, iterates=True)
passes(
    *(filter, itertools.filterfalse), calls_back=True, iterates=True, drains_unfiltered=True, hands_on=True
)
passes(functools.reduce, calls_back=True, iterates=True, drains=(1,))
pure(itertools.groupby, calls_back=True, iterates=True, drains=(0,))
passes(itertools.compress, drains=(0, 1))
passes(itertools.tee)
pure(any, iterates=True, drains=(0,), with_symbols=numbers.decides(True))
pure(all, iterates=True, drains=(0,), with_symbols=numbers.decides(False))
pure(sum, iterates=True, drains=(0,), with_symbols=numbers.folds(operator.add, 0))
pure(bytes, bytearray, drains=(0,))

pure(int, on_symbols=arithmetic.as_int)
pure(float, on_symbols=arithmetic.as_float)
pure(repr, str, format, ascii, shows_text=True, with_symbols=numbers.as_text)
rule(str.join, drains=(1,), iterates=True, formats=True)
rule(bytes.join, drains=(1,), iterates=True)
rule(str.format_map, str.__mod__, formats=True)

# ---- numbers that may be symbols

rule(math.prod, drains=(0,), with_symbols=numbers.folds(operator.mul, 1))
rule(math.fsum, drains=(0,))
rule(math.floor, on_symbols=arithmetic.floor)
rule(math.ceil, on_symbols=arithmetic.ceil)
rule(math.trunc, on_symbols=arithmetic.trunc)

# ---- comparisons: two objects may turn out to be one

for _fn in (operator.eq, operator.ne):
    rule(_fn, compares=True, orderless=True, with_symbols=numbers.applies(_fn))
rule(operator.contains, compares=True, orderless=True, with_symbols=numbers.contains)
for _fn in (operator.lt, operator.le, operator.gt, operator.ge):
    rule(_fn, orderless=True, with_symbols=numbers.applies(_fn))
for _kind in (list, tuple, deque):
    for _name in ("index", "count", *COMPARING_METHODS):
        _known = _kind is not deque or _name in ("index", "count")
        _compares = _known and _name not in ORDERING
        rule(vars(_kind)[_name], compares=_compares, with_symbols=numbers.compares)
for _name in ("__eq__", "__ne__"):
    rule(vars(dict)[_name], with_symbols=numbers.compares)
for _name in ("__eq__", "__ne__"):
    rule(vars(slice)[_name], vars(str)[_name], with_symbols=numbers.compares)
rule(range.__contains__, operator.countOf, with_symbols=numbers.compares)
rule(list.remove, deque.remove, compares=True, with_symbols=numbers.remove)

# ---- sets, whose order depends on all that was ever done to them

pure(set, frozenset, iterates=True, drains=(0,), hashes=True)
pure(dict.fromkeys, drains=(0,), hashes=True, stores=1, with_symbols=numbers.from_keys)
rule(set.add, changes="add")
rule(set.pop, changes="pop")
rule(set.__contains__, frozenset.__contains__, with_symbols=numbers.looks_up)
for _name in ("discard", "remove", "clear"):
    rule(vars(set)[_name], changes=_name, orderless=True)
rule(set.update, changes="update", iterates=True, drains=(1,))
for _name in ("difference_update", "intersection_update", "symmetric_difference_update", "__init__"):
    rule(vars(set)[_name], changes=_name)
for _name in ("ior", "iand", "isub", "ixor"):
    _fn = getattr(operator, _name)
    rule(vars(set)[f"__{_name}__"], changes=f"__{_name}__")
    rule(_fn, changes=f"__{_name}__", with_symbols=numbers.applies(_fn))
rule(set.union, iterates=True, drains=(1,))
for _cls in (set, frozenset):
    rule(_cls.isdisjoint, _cls.issubset, _cls.issuperset, drains=(1,), orderless=True)
    rule(_cls.difference, _cls.intersection, _cls.symmetric_difference, drains=(1,))
rule(frozenset.union, drains=(1,))

# ---- what the interpreter serves (`interpreter/served.py`, which knows of no rules), where it calls C

rule(iter, looks=Looks.SHALLOW, calls_back=True, iterates=True, why="goes over elements")
rule(
    *(getattr, hasattr, setattr, delattr, dir, vars, locals, globals, sys._getframe),
    looks=Looks.CLASS,
    why="C is left with wrong calls only, which raise",
)
for _fn in (exec, eval, compile):
    rule(_fn, refused=breaks.EFFECT, why=_fn.__name__)
for _name in ("NamedTuple", "TypedDict"):
    _why = f"typing.{_name}, which looks at its caller's frame"
    rule(getattr(typing, _name), refused=breaks.UNKNOWN_NATIVE, why=_why)

# ---- what is refused

for _fn in (print, input, open, breakpoint):
    rule(_fn, refused=breaks.EFFECT, why=_fn.__name__)
for _fn in (typing.overload, typing.get_overloads, typing.clear_overloads, typing.reveal_type):
    rule(_fn, refused=breaks.EFFECT, why=f"typing.{_fn.__name__}")
for _fn in (typing.final, typing.runtime_checkable, typing.no_type_check):
    rule(_fn, refused=breaks.EFFECT, why=f"typing.{_fn.__name__}, which marks what it is given")

# ---- methods of builtin types, and callables of these types

methods_of(
    *(int, float, complex, str, bytes, bytearray, bool, list, tuple, range, slice, type(None)),
    *(deque, object, type, property, BaseException, re.Pattern, re.Match, io.StringIO, io.BytesIO),
    *(datetime.date, datetime.datetime, datetime.timedelta, datetime.time, datetime.timezone),
    *(decimal.Decimal, decimal.Context, types.MappingProxyType, types.FunctionType, types.MethodType),
    *(types.CodeType, types.GenericAlias, types.SimpleNamespace, types.ModuleType),
    *(type({}.keys()), type({}.values()), type({}.items()), torch.Size, torch.device),
    torch.dtype,
    *(BaseExceptionGroup, OSError, ImportError, SyntaxError, UnicodeError, StopIteration, SystemExit),
    *(enumerate, zip, map, filter, reversed, itertools.chain, operator.itemgetter),
    *(type(iter(cls())) for cls in (list, tuple, dict, str, bytes, bytearray, set)),
    *(type(iter("\xe9")), type(iter(range(1))), type(iter(range(1 << 70))), type(reversed([]))),
    *(classmethod, staticmethod, super, memoryview, functools.partial),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    type(functools.cmp_to_key(operator.sub)),
    why="looks at nothing but its arguments",
)
methods_of(dict, set, frozenset, OrderedDict, defaultdict, hashes=True, why="looks at its arguments")

# ---- modules of C functions

functions_of("math", "cmath", "_statistics", why="functions of numbers")
functions_of("_operator", "operator", why="the operators")
functions_of("itertools", why="iterators over what they are given")
functions_of("_bisect", calls_back=True, why="compares elements of a sequence, by a key that it is given")
functions_of("_heapq", why="compares elements of a list")
functions_of("_struct", why="packs numbers")
functions_of("_string", why="parses format strings")
functions_of("unicodedata", why="functions of characters")
functions_of("binascii", "zlib", "_hashlib", why="functions of bytes")
functions_of("_json", why="functions of builtin values")
functions_of("_sre", why="matches strings")
functions_of("_typing", why="runtime typing")
functions_of("_functools", why="calls what it is given")
functions_of("_collections", why="containers")
functions_of("_abc", looks=Looks.CLASS, why="class registrations, which are read as facts")
functions_of("time", refused=breaks.EFFECT, why="asks the clock, or waits")
functions_of("posix", refused=breaks.EFFECT, why="asks the operating system")
functions_of("_random", refused=breaks.EFFECT, why="draws numbers")
functions_of("_warnings", refused=breaks.EFFECT, why="shows or raises warnings")

# ---- modules of Python functions that are not interpreted

python_functions_of("re", "sre_compile", "sre_parse", "typing", "_strptime", why="pure, with its own cache")
python_functions_of(*policy.EFFECTS, refused=breaks.EFFECT)
python_functions_of(
    *(generators.__name__, coroutines.__name__),
    looks=Looks.MOVES,
    first=1,
    why="a generator of the trace: what it is sent is handed on",
)
