"""Guards and dispatch (native/guards.cpp).

A guard *program* is a flat list of nodes, parents first. Each node is one outside value, reached by
one access from its parent, with checks that must hold of it and perhaps an input slot of the region.
Evaluating a program runs no Python code, stops at the first failure, and yields the region's inputs. What
depends on a dict only is not looked at again while the dict is unchanged.

A parent of the wrong kind fails the node.

Objects that are compared by identity are held weakly where they can be. When one of them has died its program
is invalidated: it never holds again, and an entry with such a program leaves its cache.

What does not hold is answered as data: GuardFailure, TensorDifference, StateDifference. The texts
are made in `framelift.guards.failures`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import torch

FRAME: Final[int]
"""The parent of a node that is reached from the frame, or from its function."""
NO_INPUT: Final[int]
"""The slot of a node that is no input."""

# Accesses, with their operands. None stands for "no operand".

ACCESS_ARG: Final[int]
"""int: the frame's argument with this index; the parent plays no role."""
ACCESS_FUNC: Final[int]
"""None: the frame's function; the parent plays no role."""
ACCESS_GLOBALS: Final[int]
"""None: __globals__ of a function."""
ACCESS_SCOPE: Final[int]
"""None: the globals of the parent, a function."""
ACCESS_CONST: Final[int]
"""object: the operand itself."""
ACCESS_ATTR: Final[int]
"""str: the value under this name in the instance __dict__ (of modules, functions and classes too)."""
ACCESS_DICT: Final[int]
"""None: the instance __dict__."""
ACCESS_KEY: Final[int]
"""object: a dict's value under this key; fails if finding it would take a Python __eq__."""
ACCESS_ITEM: Final[int]
"""int: an item of a list or tuple; not negative."""
ACCESS_DEQUE_ITEM: Final[int]
"""int: an item of a collections.deque; not negative."""
ACCESS_SLOT: Final[int]
"""member descriptor: what the slot holds; fails when it is empty."""
ACCESS_CELL: Final[int]
"""int: the contents of this cell of a function's closure; fails when it is empty."""
ACCESS_CELL_OBJECT: Final[int]
"""int: this cell of a function's closure."""
ACCESS_CONTENTS: Final[int]
"""None: the contents of a cell; fails when it is empty."""
ACCESS_DEFAULT: Final[int]
"""int: an item of a function's __defaults__."""
ACCESS_KWDEFAULT: Final[int]
"""str: an item of a function's __kwdefaults__."""
ACCESS_SELF: Final[int]
"""None: __self__ of a bound method."""
ACCESS_METHOD_FUNC: Final[int]
"""None: __func__ of a bound method."""
ACCESS_GRAD: Final[int]
"""None: .grad of a tensor, perhaps None."""
ACCESS_NATIVE_ATTR: Final[int]
"""str: an attribute that a class of C has, also of instances of a Python class derived from it, which may
have another one of that name."""
ACCESS_VIEWED: Final[int]
"""None: what a view of a dictionary, or a mapping proxy, is of."""
ACCESS_REFERENT: Final[int]
"""None: what a weak reference refers to, None if that is gone."""
ACCESS_BYTES: Final[int]
"""None: what a bytearray holds."""
ACCESS_REGISTRATIONS: Final[int]
"""None: how often a class was registered with an abstract base class (`abc.get_cache_token()`)."""
ACCESS_DECIMAL_CONTEXT: Final[int]
"""None: the text of the thread's context of decimal numbers, without its flags (`decimal.getcontext()`)."""
ACCESS_MODE: Final[int]
"""int: the torch function mode with this index; the outermost has 0."""

# Checks, with their operands.

CHECK_IS: Final[int]
"""object: the value is this object."""
CHECK_IS_NOT: Final[int]
"""object: the value is not this object."""
CHECK_TYPE: Final[int]
"""type: the value is of exactly this type."""
CHECK_EQUAL: Final[int]
"""constant: same exact type and same value. Compared by value: str, bytes, int, bool, None, float and
complex (bit by bit), range, slice, torch.device, and tuple, torch.Size and frozenset of constants;
anything else by identity."""
CHECK_LEN: Final[int]
"""int: length of a list, tuple, dict, set, frozenset, deque, str or bytes, whatever its __len__ says."""
CHECK_NONEMPTY: Final[int]
"""bool: whether that length is not zero."""
CHECK_KEYS: Final[int]
"""tuple: a dict's keys in order, compared as CHECK_EQUAL does."""
CHECK_NO_KEY: Final[int]
"""object: a dict doesn't have this key; fails if telling would take a Python __eq__."""
CHECK_NO_ATTR: Final[int]
"""str: the instance __dict__ lacks this name, or there is none."""
CHECK_NO_SLOT: Final[int]
"""member descriptor: the slot is empty."""
CHECK_ELEMENTS_IN_ORDER: Final[int]
"""tuple: the elements of a set or frozenset in the order of iteration, compared as CHECK_EQUAL does."""
CHECK_CODE: Final[int]
"""code object: a function's __code__ is this object."""
CHECK_EMPTY_CELL: Final[int]
"""None: a cell is empty."""
CHECK_TENSOR: Final[int]
"""TensorSpec: the value is a tensor as described."""
CHECK_LEAF: Final[int]
"""bool: whether a tensor is a leaf of autograd's."""
CHECK_CALLS_FORWARD: Final[int]
"""None: a module has no hooks, and no attribute of its own in the place of `forward` or what calls that."""
CHECK_NO_HOOKS: Final[int]
"""None: nothing is called when a gradient for a tensor is found."""
CHECK_OFFSET: Final[int]
CHECK_NBYTES: Final[int]
"""int: a tensor's storage offset."""
CHECK_SAME_AS: Final[int]
"""int: the value is the value of this earlier node."""
CHECK_NOT_SAME_AS: Final[int]
"""int: the value is not the value of this earlier node."""

# What is read of a node's value for facts about sizes and numbers.

READ_NUMBER: Final[int]
"""The number itself."""
READ_SIZE: Final[int]
"""A tensor's size in one dimension."""
READ_STRIDE: Final[int]
"""A tensor's stride in one dimension."""

# What failed of a program.

FAILED_ACCESS: Final[int]
"""A node's value is not there. position: the node; found: the parent's value."""
FAILED_CHECK: Final[int]
"""A check of a node. position: the node; check: which of its checks; found: the node's value."""
FAILED_STATE: Final[int]
"""Global state. found: what GlobalState.diff() says."""
FAILED_CLASS: Final[int]
"""A class lookup. position: into types; found: the attribute's name."""
FAILED_STORAGE: Final[int]
"""Which tensors share memory. position: the position in the slots; found: the tensor."""
FAILED_SHAPE: Final[int]
"""A fact about sizes and numbers. position: the fact; found: a tuple of all that is read, None if something
can't be."""

@final
class GuardFailure(NamedTuple):
    """The first thing that did not hold."""

    kind: int
    """FAILED_*; the rest is said there, and None where nothing is."""
    position: int | None
    check: int | None
    found: Any

# What a TensorSpec describes; with it the type of the values of a difference.

TENSOR_TYPE: Final[int]
"""type"""
TENSOR_DTYPE: Final[int]
"""torch.dtype, None: undefined"""
TENSOR_DEVICE: Final[int]
"""torch.device, None: none"""
TENSOR_LAYOUT: Final[int]
"""torch.layout"""
TENSOR_REQUIRES_GRAD: Final[int]
"""bool"""
TENSOR_DIM: Final[int]
"""int: the number of dimensions"""
TENSOR_SIZE: Final[int]
"""int, None: a symbol; with a dimension"""
TENSOR_SYMBOLIC: Final[int]
"""bool: whether sizes are symbols"""
TENSOR_STRIDE: Final[int]
"""int; with a dimension"""
TENSOR_KEYS: Final[int]
"""str: the dispatch keys as torch writes them"""

@final
class TensorDifference(NamedTuple):
    fact: int
    """TENSOR_*"""
    dim: int | None
    expected: Any
    found: Any

@final
class StateDifference(NamedTuple):
    name: str
    """A key of GlobalState.values()."""
    expected: Any
    found: Any

@final
class Sentinel: ...

MISSING: Final[Sentinel]
"""Stands for an absent class attribute in Program(types=...), where "mro()" stands for `cls.__mro__`."""
MISS: Final[Sentinel]
"""What Cache.dispatch returns when no entry holds."""

torch_state: Final[object]
"""PyCapsule "framelift._guards.torch_state": saves torch's state and puts it back, for `_frame`."""

dispatch: Final[object]
"""PyCapsule "framelift._guards.dispatch":
PyObject *(*)(PyObject *cache, PyObject *func, PyObject *const *locals, Py_ssize_t nlocals);
NULL without an exception when no entry holds. func may be NULL, and so may locals[i]."""

_Sizes: TypeAlias = tuple[int | torch.SymInt, ...]

def know_numpy(variable: Any, describe: Any, /) -> None:
    """Says where NumPy has its settings for errors: in a context variable, and what describes them."""

def lie_apart(left: Any, right: Any, /) -> bool: ...
def numpy_errors() -> tuple[str, ...] | None:
    """What NumPy does about each kind of floating-point error; None if it is not known."""

def empty_meta(sizes: _Sizes, strides: _Sizes, dtype: torch.dtype, /) -> torch.Tensor:
    """A fresh tensor on the meta device, made past every dispatch mode."""

def meta_like(tensor: torch.Tensor, base: torch.Tensor = ..., /) -> torch.Tensor:
    """One more meta tensor of the same sizes and strides, over memory of its own, or over the base's."""

def view_meta(
    base: torch.Tensor, sizes: _Sizes, strides: _Sizes, offset: int | torch.SymInt, /
) -> torch.Tensor:
    """A meta tensor over the memory (and version counter) of another."""

def as_view(base: torch.Tensor, tensor: torch.Tensor, creation: int, /) -> None:
    """Makes a tensor without history a view of another to autograd."""

def fake_history(tensor: torch.Tensor) -> torch.Tensor:
    """Makes a tensor report requires_grad and not is_leaf, as the result of an operation would."""

def spent_history(tensor: torch.Tensor, /, *behind: torch.Tensor) -> torch.Tensor:
    """The same, derived from others; going back says that this was done before, and can't be done twice."""

def lost_history(tensor: torch.Tensor) -> torch.Tensor:
    """The same; going back leads to nothing that is left."""

def has_hooks(tensor: torch.Tensor) -> bool:
    """Whether anything is called when a gradient for a tensor is found."""

def random_state() -> object:
    """Where torch's default generator of random numbers stands."""

def put_random_state(state: object, /) -> None:
    """Puts torch's default generator back to where it stood."""

def look_up(cls: type, names: tuple[str, ...], /) -> tuple[Any, ...]:
    """What lookups on a class find, MISSING where nothing."""

def has_begun(local: object, /) -> bool:
    """Whether a `threading.local` was made for this thread already."""

def registrations() -> int: ...
def disregard_registrations(before: int, /) -> None: ...
def separate_histories(outputs: Sequence[Any], /) -> None:
    """Gives each of the tensors that come of one node of AOTAutograd's a node of its own."""

_Check: TypeAlias = tuple[int, Any]  # kind, operand
_Node: TypeAlias = tuple[int, int, Any, Sequence[_Check], int]  # parent, access, operand, checks, slot
_ClassLookups: TypeAlias = tuple[type, Sequence[tuple[str, Any]]]  # class, (name, expected or MISSING)
_StorageGroups: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # input slots, group of each

_Read: TypeAlias = tuple[int, int, int]  # node, READ_*, dimension
_Step: TypeAlias = tuple[str, int | float | None]
"""("constant", number), ("read", index into the reads), or an operation, such as ("floordiv", None)."""

@final
class TensorSpec:
    """What is relied on about one tensor, taken from an example.

    `dynamic` dimensions are free, and so are the strides of those in `free_strides`. With any of them, other
    strides must equal either the number it was, or, where the example was dense, the size times the stride of
    the next dimension inwards; which is asked of free ones too.
    Only what the TensorImpl itself holds is looked at: a device, layout or sizes that a tensor
    subclass answers in Python are not seen. ValueError: strided nested tensors, and symbolic sizes
    not in `dynamic`.
    """

    def __new__(
        cls, tensor: torch.Tensor, dynamic: Sequence[int] = (), free_strides: Sequence[int] = ()
    ) -> TensorSpec: ...
    def matches(self, value: object) -> bool: ...
    def diff(self, value: object) -> TensorDifference | None:
        """The first difference."""
    @property
    def type(self) -> type[torch.Tensor]: ...
    @property
    def dtype(self) -> torch.dtype | None: ...
    @property
    def device(self) -> torch.device | None: ...
    @property
    def requires_grad(self) -> bool: ...
    @property
    def sizes(self) -> tuple[int | None, ...]:
        """None stands for a free dimension."""
    @property
    def strides(self) -> tuple[int | None, ...] | None:
        """None stands for one that is free or follows from sizes; None altogether without strides."""
    @property
    def own_strides(self) -> dict[int, int | None]:
        """By dimension, those that follow from nothing, but for 0 and 1; None for a free one."""

@final
class GlobalState:
    """A snapshot of torch's global and thread-local state, as far as graphs depend on it."""

    def __new__(cls) -> GlobalState: ...
    def values(self) -> dict[str, Any]:
        """All of it, by name: bools, numbers, dtypes, names. "torch function modes" is a tuple: a default
        device is there as its device, any other mode as the name of its class."""
    def diff(self) -> list[StateDifference]:
        """Each item that has another value now."""

@final
class Program:
    """See the module. Every input slot is filled by exactly one node."""

    def __new__(
        cls,
        nodes: Sequence[_Node],
        n_inputs: int,
        state: GlobalState | None = None,
        types: Sequence[_ClassLookups] = (),
        storages: _StorageGroups | None = None,
    ) -> Program: ...
    @property
    def is_invalidated(self) -> bool:
        """Whether an object that it compares with has died: then it never holds again."""
    def collect(self, func: object, args: Sequence[object]) -> list[Any] | None:
        """The inputs if everything holds."""
    def check(self, func: object, args: Sequence[object]) -> GuardFailure | None:
        """None if everything holds."""
    def set_shapes(self, reads: Sequence[_Read], facts: Sequence[Sequence[_Step]]) -> None:
        """What must hold of sizes and numbers: expressions in postfix form over what is read."""
    def __len__(self) -> int:
        """How many nodes there are."""
    @property
    def n_inputs(self) -> int: ...

@final
class Entry:
    """A guard program and the region it guards."""

    info: Any
    def __new__(
        cls, program: Program, region: Callable[..., Any], info: object = None, title: str = ""
    ) -> Entry: ...
    @property
    def program(self) -> Program: ...
    @property
    def region(self) -> Callable[..., Any]: ...
    @property
    def hits(self) -> int: ...

@final
class Cache:
    """Entries, tried in order; one that holds moves to the front."""

    def __new__(cls) -> Cache: ...
    def add(self, entry: Entry) -> None:
        """To the front."""
    def remove(self, entry: Entry) -> None: ...
    def clear(self) -> None: ...
    def entries(self) -> list[Entry]: ...
    def dispatch(self, func: object, args: Sequence[object]) -> Any:
        """What the region of the first entry that holds returns, or MISS."""
    def __len__(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
