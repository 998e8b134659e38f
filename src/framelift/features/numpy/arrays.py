"""NumPy's arrays in a trace: they are torch's (`torch._numpy`), each around a fake tensor.

What the program does with one goes to torch's implementation, and the graph gets what that does with the
tensor; arrays that live on are made NumPy's again. Before each call NumPy itself is asked, with arrays of the
same shape, strides and type but without their values: where it would give another type, shape or layout,
share memory that torch's does not share, or raise, the call is not captured. So torch's implementation has to
be trusted for values only, and `tables.py` names what it is trusted with.

What has no dimensions is one of NumPy's numbers, unless it is known for an array (`Arrays.zero`).
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterator
from types import MethodDescriptorType, MethodType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import NULL
from framelift.features.numpy import mixed
from framelift.features.numpy.arguments import (
    FOR_ALL_NUMBERS,
    Typed,
    dtype_of,
    for_torch,
    has_negative_step,
    has_room,
    is_array,
    is_fresh_in_rows,
    is_idle,
    is_inexact,
    is_symbol,
    with_hints,
)
from framelift.features.numpy.dummies import (
    as_real,
    asking,
    describe_real,
    describe_type,
    end_at_error,
    integer,
    layout,
    make_regular,
    refuse,
)
from framelift.features.numpy.functions import OPERATORS
from framelift.features.numpy.tables import (
    ARRAY_IN_PLACE,
    ARRAY_OPERATORS,
    ATTRIBUTES,
    BY_NAME,
    COMPARING,
    ERRORS,
    FEW,
    FUNCTIONS,
    INTEGER_ERRORS,
    LAYING_OUT,
    NUMPY_DTYPES,
    NUMPY_NUMBERS,
    OF_TORCH,
    OF_TORCHS_OWN,
    ORDERED,
    TEXTUAL,
    Array,
    is_defined,
    np,
    with_room,
)
from framelift.graph import known_data, op_memory
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.symbols import settled
from framelift.guards.kinds import Check
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import opened
from framelift.trace.part import Part
from framelift.trace.runtime_calls import outside_of_modes

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


class Arrays(Part):
    """What a trace knows of arrays, and does with them (`trace/type_rules.py`)."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.error_states: dict[int, dict[str, str]] = {}
        """id of a `numpy.errstate` that the trace has made -> what it is to do."""
        self.errors: list[dict[str, str]] = []
        """The settings of those that the program has entered."""
        self.read_only: dict[int, Any] = {}
        """Arrays that NumPy lets nobody write to, by their ids."""
        self.zero: dict[int, Any] = {}
        """Arrays without dimensions, by their ids: others without are numbers."""
        self.reversed: dict[int, Reversed] = {}
        """Arrays that are read backwards in memory, by their ids."""
        self.plain_numbers: dict[int, tuple[Any, Any]] = {}
        """Number -> itself, and the symbol for it as a number of Python's."""
        self.samples: dict[Any, int] = {}
        """Size that only the data decides -> what it is in the arrays that NumPy is asked with."""
        self.errors_around: tuple[str, ...] | None = None
        """What NumPy does about each kind of error around the call, if that is known."""

    def told_errors(self) -> dict[str, Any]:
        """Settings of `numpy.errstate` in which each error that is not ignored raises."""
        told = self.settings(dict.fromkeys(ERRORS, "raise"))
        return {kind: "ignore" if how == "ignore" else "raise" for kind, how in told.items()}

    def settings(self, around: dict[str, str]) -> dict[str, str]:
        """What NumPy does about errors, where the program stands."""
        told = dict(around)
        for settings in self.errors:
            every = settings.get("all")
            changed = {**(dict.fromkeys(told, every) if every else {}), **settings}
            told |= {kind: changed[kind] for kind in told.keys() & changed.keys()}
        return told

    @contextlib.contextmanager
    def noticing_errors(self) -> Iterator[None]:
        """Within it each error of a number ends the trace: what NumPy does about it, it does each time."""
        self.errors_around = _guards.numpy_errors()
        if self.errors_around is None:
            yield
        else:
            with np.errstate(all="call", call=end_at_error):
                yield

    def refuse_told_errors(self, name: str) -> None:
        """A graph does not tell what was divided by zero. Where NumPy would just warn of it, nobody does."""
        if self.errors_around is None:
            return
        source = self.world.inputs.root.asked("numpy.geterr()", _guards.numpy_errors, ())
        self.world.guards.add(source, Check.EQUAL, self.errors_around)
        told = self.settings(dict(zip(ERRORS, self.errors_around, strict=True)))
        if not set(told.values()) <= {"warn", "ignore"}:
            refuse(f"{name}, whose errors NumPy is to tell")

    # ---- calls

    def call(self, asked: Any, served: Any, args: Any, kwargs: dict[str, Any], name: str) -> Any:
        """Calls torch's function for one of NumPy's. NumPy is asked before what the result is like."""
        self.refuse_told_errors(name)
        kwargs = {key: value for key, value in kwargs.items() if not is_idle(key, opened(value))}
        kept = tuple(kind for kind in FOR_ALL_NUMBERS.get(name, ()) if all(has_room(x, kind) for x in args))
        args, kwargs = self.prepared(args, kept), self.prepared(kwargs, kept)
        if "out" in kwargs:
            return self.call_into(asked, served, args, kwargs, name)
        short = name.rpartition(".")[2]
        if short in COMPARING and (args := with_room(args)) is None:
            refuse(f"{name} with an integer that is in no type of torch's")
        of_integers = short in INTEGER_ERRORS and not any(map(is_inexact, (*args, *kwargs.values())))
        if of_integers and (kwargs or not is_defined(short, args)):
            refuse(f"{name} of integers, some of which are errors")
        if "where" in kwargs:
            refuse(f"{name} with where=")
        dummies: list[tuple[Any, Any]] = []
        given = self.as_dummies(args, dummies), self.as_dummies(kwargs, dummies)
        if getattr(asked, "__module__", None) == "numpy.linalg":
            make_regular(dummies)
        expected = asking(asked, *given, name)
        laid_out = () if name in ORDERED else LAYING_OUT
        kwargs = {key: value for key, value in kwargs.items() if key not in laid_out}
        with outside_of_modes():  # not every kernel takes every type, which fakes do not tell
            real_args, real_kwargs = for_torch(with_hints(as_real((args, kwargs), dummies)))
            asking(served, real_args, real_kwargs, name)
        try:
            found = served(*for_torch(args), **for_torch(kwargs))
        except Exception as error:
            refuse(f"{name}: {error}")
        except Break as end:
            raise Break(breaks.NUMPY, name) if end.reason in OF_TORCHS_OWN else end from None
        with torch._C.DisableTorchFunction():
            return self.checked(found, expected, dummies, name)

    def call_into(self, asked: Any, served: Any, args: Any, kwargs: dict[str, Any], name: str) -> Any:
        """What a call gives is copied into another array, if it is of that type."""
        out = kwargs.pop("out")
        target = out[0] if type(out) is tuple and len(out) == 1 else out
        if type(target) is not Array or not target.ndim or id(target) in self.read_only:
            refuse(f"{name} with out=")
        self.refuse_reversed(target)
        given, named = self.as_dummies([args, {**kwargs, "out": target}], [])
        asking(asked, given, named, name)
        found = self.call(asked, served, args, kwargs, name)
        if type(found) is not Array or describe_type(found) != describe_type(target):
            refuse(f"{name} with out= of another type or shape")
        torch.Tensor.copy_(target.tensor, found.tensor)
        return target

    def checked(self, found: Any, expected: Any, dummies: list[tuple[Any, Any]], name: str) -> Any:
        """Breaks unless torch's result is like NumPy's in all but its values."""
        if isinstance(expected, (tuple, list)):
            if not isinstance(found, (tuple, list)) or len(found) != len(expected):
                refuse(f"{name}, of which torch gives another number of results")
            made = [self.checked(x, y, dummies, name) for x, y in zip(found, expected, strict=True)]
            if hasattr(expected, "_fields"):
                return type(expected)(*made)
            return tuple(made) if isinstance(expected, tuple) else made
        if isinstance(found, torch.Tensor):
            found = Array(found)
        if type(found) is not Array or type(expected) not in (np.ndarray, *NUMPY_NUMBERS):
            refuse(f"{name}, which gives a {type(expected).__name__}")
        if found.tensor.is_conj() or found.tensor.is_neg():  # which torch leaves to be done later
            done = self.world.recorder.call(torch.Tensor.resolve_conj, (found.tensor,), {})
            found = Array(self.world.recorder.call(torch.Tensor.resolve_neg, (done,), {}))
        if isinstance(expected, np.ndarray) and not expected.ndim:
            if any(dummy is not expected and np.may_share_memory(dummy, expected) for _, dummy in dummies):
                refuse(f"{name}, which gives an array without dimensions that is a view")
            found = self.without_dimensions(self.world.recorder.call(torch.Tensor.clone, (found.tensor,), {}))
        elif is_fresh_in_rows(expected) and not found.tensor.is_contiguous():
            # torch leaves results of LAPACK in columns
            found = Array(self.world.recorder.call(torch.Tensor.contiguous, (found.tensor,), {}))
        self.sample(found, expected)
        if self.describe(found) != describe_real(expected):
            refuse(
                f"{name}, of which torch gives {self.describe(found)}, and NumPy {describe_real(expected)}"
            )
        if isinstance(expected, np.ndarray) and not expected.flags.writeable:
            found = Array(found.tensor)  # another object than one that may be written to
            self.read_only[id(found)] = found
        storage = op_memory.storage(found.tensor)
        shares = [op_memory.storage(array.tensor) == storage for array, _ in dummies]
        if not self.is_array(found) and any(shares):
            # a number is no view
            return Array(self.world.recorder.call(torch.Tensor.clone, (found.tensor,), {}))
        for array, dummy in dummies:
            shared = op_memory.storage(array.tensor) == storage
            if shared is not (isinstance(expected, np.ndarray) and np.may_share_memory(dummy, expected)):
                which = "with its argument with one of torch and NumPy only"
                refuse(f"{name}, whose result shares memory {which}")
            if shared and id(array) in self.reversed:
                refuse(f"{name}, which gives a view of an array that goes backwards")
            if found.tensor is array.tensor and expected is not dummy:
                return Array(self.world.recorder.call(torch.Tensor.detach, (found.tensor,), {}))
        return next((array for array, dummy in dummies if dummy is expected), found)

    def without_dimensions(self, tensor: Any) -> Any:
        found = Array(tensor)
        self.zero[id(found)] = found
        return found

    def is_array(self, value: Any) -> bool:
        """Whether it stands for an array, and not for a number."""
        return bool(value.ndim) or id(value) in self.zero

    def prepared(self, value: Any, kept: tuple[type, ...] = ()) -> Any:
        """Arguments that mean the same to torch and to NumPy. NumPy's numbers keep their types; symbols are
        settled, but for those of types of which it does not matter what they are."""
        value = opened(value)
        value = value if type(value) in kept and is_symbol(value) else settled(value)
        prepared = functools.partial(self.prepared, kept=kept)
        if type(value) in (tuple, list):
            return type(value)(map(prepared, value))
        if type(value) is dict:
            return {name: prepared(item) for name, item in value.items()}
        if type(value) is slice:
            return slice(*map(prepared, (value.start, value.stop, value.step)))
        if is_symbol(value):
            return value
        if type(value) is Array or type(value) in TEXTUAL:
            return value
        if type(value) in NUMPY_NUMBERS:
            return Typed(value)
        dtype = dtype_of(value)
        if dtype is None:
            refuse(f"an array together with a {type(value).__name__}")
        return dtype

    def as_dummies(self, value: Any, dummies: list[tuple[Any, Any]]) -> Any:
        if type(value) in (tuple, list):
            return type(value)(self.as_dummies(item, dummies) for item in value)
        if type(value) is dict:
            return {name: self.as_dummies(item, dummies) for name, item in value.items()}
        if type(value) is slice:
            return value
        if type(value) is Array:
            found = next((dummy for array, dummy in dummies if array is value), None)
            if found is None:
                found = self.dummy_of(value)
                if id(value) in self.zero:
                    found = np.array(found)
                if id(value) in self.read_only:
                    found.flags.writeable = False
                dummies.append((value, found))
            return found
        if is_symbol(value):
            return value.node.hint
        return value.number if type(value) is Typed else value

    def made(self, fn: Any, args: list[Any], kwargs: dict[str, Any], name: str) -> Any:
        """A new array of numbers that are known: as NumPy makes it, unless there are many of them."""
        args, kwargs = self.prepared(args), self.prepared(kwargs)
        real = asking(fn, self.as_dummies(args, []), self.as_dummies(kwargs, []), f"numpy.{name}")
        if type(real) is np.ndarray and not real.ndim and real.dtype in NUMPY_DTYPES:
            made = self.world.recorder.call(torch.tensor, (real.item(),), {"dtype": NUMPY_DTYPES[real.dtype]})
            return self.without_dimensions(made)
        if type(real) in NUMPY_NUMBERS:
            return real
        if type(real) is not np.ndarray or real.dtype not in NUMPY_DTYPES or not real.size:
            refuse(f"numpy.{name}, which gives no array that can be traced")
        if not real.flags.c_contiguous:
            refuse(f"numpy.{name} in another order than C's")
        first, dtype = real.flat[0], NUMPY_DTYPES[real.dtype]
        call = self.world.recorder.call
        if real.tobytes() == first.tobytes() * real.size:
            return Array(call(torch.full, (real.shape, first.item()), {"dtype": dtype}))
        if real.size <= FEW:
            return Array(call(torch.tensor, (real.tolist(),), {"dtype": dtype}))
        return None

    # ---- what Python does with arrays

    def operate(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        name = getattr(fn, "__name__", "operator")
        if any(type(operand) is FakeTensor for operand in operands):
            if any(is_array(operand) and self.is_array(operand) for operand in operands):
                return mixed.operate(self, fn, operands)
            # to tensors a number of NumPy's is what Python's is
            plain = tuple(self.plain_number(x) if is_array(x) else x for x in operands)
            return self.world.operators.apply(fn, *plain)
        if fn in ARRAY_IN_PLACE and is_array(operands[0]) and operands[0].ndim:
            return self.operate_in_place(fn, operands, name)
        fn = ARRAY_IN_PLACE.get(fn, fn)
        if fn not in ARRAY_OPERATORS:
            refuse(f"the operator {name}")
        return self.call(fn, OPERATORS.get(fn, fn), operands, {}, name)

    def operate_in_place(self, fn: Any, operands: tuple[Any, ...], name: str) -> Any:
        """The result is computed and checked, then copied into the array."""
        target, other = operands
        self.refuse_reversed(target)
        plain = ARRAY_IN_PLACE[fn]
        args: Any = self.prepared(operands)
        asking(fn, self.as_dummies(args, []), {}, name)
        value = self.call(plain, OPERATORS.get(plain, plain), (target, other), {}, name)
        torch.Tensor.copy_(target.tensor, value.tensor)
        return target

    def get_item(self, array: Any, key: Any) -> Any:
        if has_negative_step(key):
            return self.backwards(array, key)
        return self.call(operator.getitem, operator.getitem, (array, key), {}, "indexing")

    def backwards(self, array: Any, key: Any) -> Any:
        """An array of which some slices are read backwards is a copy in torch, and a view in NumPy: as long
        as nobody writes to either, that makes no difference but for where it lives on."""
        self.refuse_reversed(array)
        keys = list(self.prepared(key if type(key) is tuple else (key,)))
        if keys.count(...) == 1:
            at = keys.index(...)
            keys[at : at + 1] = [slice(None)] * (array.ndim - len(keys) + 1)
        if len(keys) > array.ndim or not all(type(each) in (slice, int) for each in keys):
            refuse("an index that is more than slices and numbers, some of which go backwards")
        turned, kept = [], 0
        for dim, each in enumerate(keys):
            if type(each) is int:
                continue
            places = range(int(array.shape[dim]))[each]
            if each.step is not None and each.step < 0:
                turned.append(kept)
                places = places[::-1]
            keys[dim], kept = slice(places.start, places.stop, places.step), kept + 1
        forwards = self.get_item(array, tuple(keys))
        found = Array(self.world.recorder.call(torch.flip, (forwards.tensor, tuple(turned)), {}))
        self.reversed[id(found)] = Reversed(found, forwards, tuple(turned), forwards.tensor._version)
        return found

    def refuse_reversed(self, array: Any) -> None:
        if id(array) in self.reversed:
            refuse("an array that goes backwards is written to, or more than read")

    def set_item(self, array: Any, key: Any, value: Any) -> None:
        self.refuse_reversed(array)
        args: Any = self.prepared((array, key, value))
        if has_negative_step(key) or not array.ndim:
            refuse("assignment to a slice with a negative step")
        asking(operator.setitem, self.as_dummies(args, []), {}, "assignment to items")
        index, given = for_torch(args[1:])
        if type(given) is Array:
            given = Array(given.tensor.to(array.tensor.dtype))
        try:
            array[index] = given
        except Exception as error:
            refuse(f"assignment to items: {error}")

    def copy_into(self, target: Any, source: Any, where: Any = True) -> None:
        """`numpy.copyto`."""
        if where is True:
            return self.set_item(target, ..., source)
        self.refuse_reversed(target)
        given = self.as_dummies([target, *self.prepared((source, where))], [])
        asking(np.copyto, given[:2], {"where": given[2]}, "numpy.copyto")
        chosen = self.call(np.where, FUNCTIONS[id(np.where)], (where, source, target), {}, "numpy.copyto")
        torch.Tensor.copy_(target.tensor, chosen.tensor)

    def sort_in_place(self, target: Any, axis: Any = -1) -> None:
        """`ndarray.sort`."""
        self.refuse_reversed(target)
        asking(np.ndarray.sort, self.as_dummies([target, axis], []), {}, "ndarray.sort")
        found = self.call(np.sort, FUNCTIONS[id(np.sort)], (target, axis), {}, "ndarray.sort")
        torch.Tensor.copy_(target.tensor, found.tensor)

    def items(self, array: Any) -> list[Any]:
        if not array.ndim:
            refuse("iteration over a number")
        return [self.get_item(array, n) for n in range(array.shape[0])]

    def attribute(self, array: Any, name: str) -> Any:
        if name == "dtype":
            return OF_TORCH[array.tensor.dtype]
        if name == "nbytes":
            return array.size * array.itemsize
        if name in ("T", "real", "imag") and array.ndim:
            read = operator.attrgetter(name)
            return self.call(read, read, (array,), {}, f"ndarray.{name}")
        if name in ATTRIBUTES:
            return getattr(array, name)
        if name == "__class__":
            return self.class_of(array)
        method = class_attribute(self.class_of(array), name)
        if type(method) is MethodDescriptorType:
            return self.world.created.keep(MethodType(method, array))
        refuse(f"the attribute {name} of an array")

    def set_attribute(self, array: Any, name: str, new: Any) -> None:
        refuse(f"assignment to {name} of an array")

    def delete_attribute(self, array: Any, name: str) -> None:
        refuse(f"deletion of {name} of an array")

    def length(self, array: Any) -> int:
        return array.tensor.shape[0] if array.ndim else self.refuse_in_c(array)

    def truth(self, array: Any) -> bool:
        expected = self.world.raising_branches.truth(array, array.tensor)
        if expected is not None:
            return expected
        holds = known_data.comparison_of(self.world.recorder, array.tensor)
        if holds is not None:
            return holds
        raise Break(breaks.DATA_DEPENDENT_BRANCH, "the truth of an array")

    def refuse_in_c(self, array: Any) -> NoReturn:
        refuse("an array in a native operation")

    def method(self, array: Any, name: str) -> tuple[Any, Any]:
        """A method of the array's, or of the number's: those of numbers are `np.generic`'s."""
        found = class_attribute(self.class_of(array), name)
        if type(found) is MethodDescriptorType:
            return found, array
        if type(found) is WrapperDescriptorType and name in BY_NAME:
            return BY_NAME[name], array
        return NULL, self.attribute(array, name)

    def class_of(self, array: Any) -> type:
        return np.ndarray if self.is_array(array) else OF_TORCH[array.tensor.dtype].type

    # ---- between arrays and tensors

    def of_tensor(self, fake: Any) -> Any:
        """`Tensor.numpy()`: another view of the same memory."""
        tensor = fake.detach()
        if fake.requires_grad or fake.device.type != "cpu" or fake.layout is not torch.strided:
            refuse("a tensor that can't be an array as it is")
        if fake.is_conj() or fake.is_neg() or fake.dtype not in OF_TORCH:
            refuse("a tensor that can't be an array as it is")
        return Array(tensor) if fake.dim() else self.without_dimensions(tensor)

    def of_wrapped(self, fake: Any) -> Any:
        """What `torch.compiler.wrap_numpy` gives a function for a tensor: gradients go through it, and it may
        lie on any device. Plain Python has no such arrays: this is what the function is compiled for."""
        if not fake.requires_grad and fake.device.type == "cpu":
            return self.of_tensor(fake)
        if fake.layout is not torch.strided or fake.is_conj() or fake.is_neg() or fake.dtype not in OF_TORCH:
            refuse("a tensor that can't be an array as it is")
        made = fake.view_as(fake)
        return Array(made) if fake.dim() else self.without_dimensions(made)

    def of_result(self, array: Any) -> Any:
        """The tensor that `wrap_numpy` gives for an array."""
        self.refuse_reversed(array)
        tensor = array.tensor
        return tensor if tensor.requires_grad else tensor.detach()

    def as_tensor(self, array: Any) -> Any:
        """`torch.from_numpy(...)`."""
        if not self.is_array(array):
            refuse("a number of NumPy's as a tensor")
        self.refuse_reversed(array)
        return array.tensor.detach()

    def listed(self, data: Any, maker: Any = torch.tensor) -> Any:
        """`torch.tensor(...)` of a list of arrays, or of numbers that are not known."""
        if not all(is_array(item) or type(item) in (bool, int, float) for item in data):
            refuse("torch.tensor of arrays and other values")
        given = [self.as_dummies(data, [])]
        with outside_of_modes():
            dtype = asking(maker, given, {}, "torch.tensor").dtype
        call = self.world.recorder.call
        parts = [x.tensor if is_array(x) else call(torch.tensor, (x,), {"dtype": dtype}) for x in data]
        if not all(map(is_array, data)):
            parts = [call(torch.Tensor.to, (part, dtype), {}) for part in parts]
        return call(torch.Tensor.to, (call(torch.stack, (parts,), {}), dtype), {})

    def plain_number(self, array: Any) -> Any:
        """The number that only the data decides, as Python has it."""
        if self.is_array(array) or array.tensor.dtype is torch.bool or array.tensor.dtype.is_complex:
            refuse("an array together with a tensor")
        found = self.plain_numbers.get(id(array))
        if found is None:
            recorder = self.world.recorder
            with recorder.builder.symbolise().asking_data():
                symbol = recorder.record_call(torch.Tensor.item, (array.tensor,), {})  # which no mode sees
            found = self.plain_numbers[id(array)] = array, symbol
        return found[1]

    def number(self, array: Any) -> Any:
        """A tensor of which Python makes the number that it makes of the array."""
        if array.ndim:
            refuse("an array in a native operation")
        return array.tensor

    # ---- what NumPy is asked with

    def dummy_of(self, array: Any) -> Any:
        """An array of NumPy's with the same shape, strides and dtype."""
        turned = self.reversed.get(id(array))
        if turned is not None:
            if turned.forwards.tensor._version != turned.version:
                refuse("an array that goes backwards, after one that it is a view of has changed")
            return np.flip(self.dummy_of(turned.forwards), turned.dims)
        dtype = OF_TORCH[array.tensor.dtype]
        if not array.ndim:
            return dtype.type(0 if dtype.kind in "iu" else 1)
        shape, strides = tuple(map(self.definite, array.shape)), tuple(map(self.definite, array.strides))
        reach = (
            sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if all(shape) else 0
        )
        whole = np.zeros(reach // dtype.itemsize + 1, dtype) if dtype.kind in "iu" else None
        whole = np.ones(reach // dtype.itemsize + 1, dtype) if whole is None else whole
        return np.lib.stride_tricks.as_strided(whole, shape, strides)

    def definite(self, size: Any) -> int:
        """A size in the arrays that NumPy is asked with."""
        if type(size) is not torch.SymInt:
            return int(size)
        if not symbolic_shapes.free_unbacked_symbols(size):
            return int(size.node.hint)
        found = size.node.expr.xreplace(self.samples)
        if not found.is_Integer:
            refuse("an array whose size only the data decides")
        return int(found)

    def sample(self, found: Any, expected: Any) -> None:
        """A size that only the data decides is what it was with the data that NumPy was asked with."""
        for size, real in zip(found.shape, expected.shape, strict=False):
            is_symbol = type(size) is torch.SymInt and size.node.expr.is_Symbol
            if is_symbol and symbolic_shapes.free_unbacked_symbols(size):
                self.samples.setdefault(size.node.expr, integer(real))

    def describe(self, array: Any) -> tuple[Any, ...]:
        shape = tuple(map(self.definite, array.shape))
        return (
            OF_TORCH.get(array.tensor.dtype),
            shape,
            layout(shape, tuple(map(self.definite, array.strides))),
        )


class Reversed(NamedTuple):
    """An array that is read backwards in memory."""

    array: Any
    forwards: Any
    """The same forwards, which is a view in both torch and NumPy."""
    dims: tuple[int, ...]
    version: int
    """That of the memory when it was copied."""


def stacked(arrays: Any, dtype: Any = None) -> Any:
    """`numpy.array` of a list of arrays, or of numbers that are not known."""
    found = torch.stack([array.tensor for array in arrays])
    return Array(found if dtype is None else found.to(NUMPY_DTYPES[np.dtype(dtype.rstrip("_"))]))
