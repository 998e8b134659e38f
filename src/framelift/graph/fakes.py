"""Fake tensors: metadata without data, standing for a program's tensors while it is traced."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter, FakeTensorMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import _disable_current_modes

from framelift import _guards
from framelift.core import breaks
from framelift.graph import direct_kernels
from framelift.graph.front_end import (
    call_references_directly,
    importing_less,
    load_for_symbols,
    load_front_end,
    load_symbolic_shapes,
)
from framelift.graph.safe_operators import (
    divides_by_zero,
    has_doubtful_dtypes,
    has_size_of_data,
    is_division,
    is_doubtful,
    is_product,
    may_fail,
    needs_elements,
    numbers_of,
)

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

make_subclass = torch.Tensor._make_subclass
aten = torch.ops.aten

STATISTICS = {
    aten.native_batch_norm.default,
    aten.cudnn_batch_norm.default,
    aten.miopen_batch_norm.default,
} | {aten._native_batch_norm_legit.default}
"""Operators that write to their running statistics (arguments 3 and 4) when training (argument 5), and only
then, whatever their schemas say."""


class Operator(NamedTuple):
    """What matters of an ATen operator beside its result."""

    random: bool
    written: tuple[tuple[int, str], ...]
    """Place and name of the arguments that it writes to."""
    statistics: bool
    fails: bool
    """Whether it may fail for what is in its arguments."""
    divides: bool
    """Whether it does so only where an integer is divided by zero."""
    multiplies: bool
    """Whether it fails where its tensors are of several dtypes."""
    reduces: bool
    """Whether it fails where its tensor has no elements."""
    numbers: tuple[tuple[int, str, bool], ...]
    """Its arguments that are numbers, and may be none for its tensors."""

    def is_unchecked(self, args: Any, kwargs: dict[str, Any]) -> bool:
        """Whether it may fail for what its kernel for fakes does not look at."""
        if self.multiplies and has_doubtful_dtypes(args):
            return True
        if self.reduces and has_size_of_data(args[0]):
            return True
        return any(
            [
                is_doubtful(is_bound, args[n] if n < len(args) else kwargs.get(name), args)
                for n, name, is_bound in self.numbers
            ]
        )


_operators: dict[Any, Operator] = {}


def operator_of(func: Any) -> Operator:
    found = _operators.get(func)
    if found is None:
        is_written = lambda argument: argument.alias_info is not None and argument.alias_info.is_write
        arguments = enumerate(func._schema.arguments)
        written = tuple([(n, argument.name) for n, argument in arguments if is_written(argument)])
        written = () if func in STATISTICS else written
        random = torch.Tag.nondeterministic_seeded in func.tags
        found = _operators[func] = Operator(
            *(random, written, func in STATISTICS, may_fail(func), is_division(func)),
            *(is_product(func), needs_elements(func), numbers_of(func)),
        )
    return found


begin = importing_less(FakeTensorMode.__init__, traceback=SimpleNamespace(extract_stack=list))
"""Keeps no lines of the frames around, either: it would look at all of their files."""

run_on_fakes: Any = inspect.unwrap(FakeTensorMode.__torch_dispatch__)
"""Without the wrapper that torch puts around it, to keep it from being compiled by its own front end."""


class Converter(FakeTensorConverter):
    """Makes fakes of real tensors."""

    def from_real_tensor(
        self,
        fake_mode: FakeTensorMode,
        t: torch.Tensor,
        make_constant: bool = False,
        shape_env: ShapeEnv | None = None,
        **options: Any,
    ) -> FakeTensor:
        if not make_constant or shape_env is not None or options or not is_plain(t):
            load_front_end()
            return super().from_real_tensor(fake_mode, t, make_constant, shape_env, **options)
        # what operators make of numbers: torch would describe it at length, for records that nobody keeps
        with no_dispatch():
            meta = _guards.empty_meta(tuple(t.shape), t.stride(), t.dtype)
            fake = FakeTensor(fake_mode, meta, t.device, constant=t)
        self.add_constant_storage_mapping(fake)
        return fake


aten = torch.ops.aten
SHAPED_AS_ARGUMENTS = frozenset(
    {
        aten.fake_quantize_per_tensor_affine_cachemask.default,
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default,
        aten.fake_quantize_per_channel_affine_cachemask.default,
        aten._fused_moving_avg_obs_fq_helper.default,
        *(aten._sample_dirichlet.default, aten._dirichlet_grad.default, aten._standard_gamma_grad.default),
        aten.binomial.default,
    }
)
"""Operators of which torch has no fake kernel. The shape does not depend on the data of their arguments."""


class Fakes(FakeTensorMode):
    """The fake mode of one trace. It notes whether random numbers were drawn, which tensors were written to,
    and whether an operator was run that may fail on other data, since asked last."""

    supports_higher_order_operators = True
    running = 0
    """How many operators are being run; what goes wrong in there is the program's to report."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the wrapper would import the front end

    def __init__(self) -> None:
        call_references_directly()
        begin(self, allow_fallback_kernels=False, allow_non_fake_inputs=False)
        self.fake_tensor_converter = Converter(copy_data=self.propagate_real_tensors, export=False)
        self.drew_random = False
        self.may_fail = False
        self.warned = False
        """Whether torch has warned of something, which a graph that makes the call does too."""
        self.written: list[torch.Tensor] = []
        self.template: dict[torch.device, dict[str, Any]] = {}

    _dispatch_impl = importing_less(FakeTensorMode._dispatch_impl)

    def watch(self) -> None:
        """Notes anew what is drawn and written, and what may fail."""
        self.drew_random = self.may_fail = self.warned = False
        self.written.clear()

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """What is drawn and written within is not noted."""
        noted = self.written, self.drew_random, self.may_fail
        self.written = []
        try:
            yield
        finally:
            self.written, self.drew_random, self.may_fail = noted

    def use_symbols(self, env: ShapeEnv) -> None:
        """From here on a size may be a symbol."""
        load_for_symbols()
        self.shape_env = env
        self.static_shapes = False
        self.cache_enabled = False  # with symbols it takes longer than what it saves

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            load_front_end()
            rules: dict[Any, Any] = registered_hop_fake_fns
            if func in rules:
                return run_on_fakes(self, func, types, args, kwargs)
            return func.python_key_table[FakeTensorMode](self, *args, **(kwargs or {}))
        operator = operator_of(func)
        if operator.random:
            self.drew_random = True
        if operator.fails and not Fakes.running:  # what an operator is made of for fakes does not count
            self.may_fail |= not operator.divides or divides_by_zero(func, args, kwargs)
        if (operator.multiplies or operator.reduces or operator.numbers) and not Fakes.running:
            self.may_fail |= operator.is_unchecked(args, kwargs or {})
        for n, name in operator.written:
            value = args[n] if n < len(args) else (kwargs or {}).get(name)
            self.written += value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        if operator.statistics and args[5]:
            self.written += [statistic for statistic in args[3:5] if statistic is not None]
        Fakes.running += 1
        try:
            out = direct_kernels.run(self, func, args, kwargs or {})
            if out is NotImplemented:
                load_symbolic_shapes()
                out = run_on_fakes(self, func, types, args, kwargs)
            return out
        finally:
            Fakes.running -= 1

    def can_run_unsafe_fallback(self, func: Any) -> bool:
        """Whether an operator without a kernel for fakes may be run on zeros, to see what shape it gives."""
        return func in SHAPED_AS_ARGUMENTS

    def wrap(self, meta: torch.Tensor, device: torch.device, requires_grad: bool) -> FakeTensor:
        """A fake around a tensor on the meta device, as FakeTensor's own constructor makes it, but
        without its checks: they hold by construction here."""
        attributes = self.template.get(device)
        if attributes is None:
            attributes = self.template[device] = dict(FakeTensor(self, meta, device).__dict__)
        fake = make_subclass(
            FakeTensor, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
        fake.__dict__.update(attributes)
        return fake

    def forget_real_tensors(self) -> None:
        """Of which torch takes note, with weak references: what these call when a tensor of the program's
        is gone would be in the way of signals."""
        describer = self.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.data.clear()
        describer.lookup_storage.data.clear()

    def of(self, tensor: torch.Tensor) -> FakeTensor:
        """A fake of a real tensor."""
        with as_it_was_made(tensor):
            if not is_plain(tensor):
                with _disable_current_modes():  # this mode would take the parts of the tensor for its own
                    return self.from_tensor(tensor, static_shapes=True)
            sizes, strides = tuple(tensor.shape), tensor.stride()
            meta = _guards.empty_meta(sizes, strides, tensor.dtype)
            if tensor.storage_offset() or nbytes(tensor) != nbytes(meta):
                meta = inside_storage(tensor, nbytes(tensor) // tensor.element_size(), sizes, strides)
            fake = self.wrap(meta, tensor.device, tensor.requires_grad)
            take_after(fake, tensor)
            return fake


def as_it_was_made(tensor: torch.Tensor) -> contextlib.AbstractContextManager[Any]:
    """A tensor is one of inference mode or not, wherever it is first used."""
    inference = tensor.is_inference()
    if inference is torch.is_inference_mode_enabled():
        return contextlib.nullcontext()
    return torch.inference_mode(inference)


def inside_storage(tensor: torch.Tensor, elements: Any, sizes: Any, strides: Any) -> torch.Tensor:
    """On the meta device, the part of a storage of so many elements that a tensor is."""
    whole = _guards.empty_meta((elements,), (1,), tensor.dtype)
    return _guards.view_meta(whole, sizes, strides, int(tensor.storage_offset()))


def take_after(fake: Any, tensor: torch.Tensor) -> None:
    """What autograd knows of a tensor, and that it is a parameter."""
    if tensor.requires_grad and not tensor.is_leaf:
        _guards.fake_history(fake)
    if isinstance(tensor, torch.nn.Parameter):
        fake._is_param = True


def nbytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


# An operator that fails on fakes fails for the program too, which may well be prepared for it.
logging.getLogger("torch._subclasses.fake_tensor").addFilter(lambda record: not Fakes.running)

PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)
"""The classes of tensors that are torch's own."""


def is_plain(tensor: torch.Tensor) -> bool:
    """A dense tensor of torch's own classes, with nothing peculiar about it."""
    if type(tensor) not in PLAIN_CLASSES or tensor.layout is not torch.strided or tensor.is_meta:
        return False
    if tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.is_inference():
        return False
    return not torch._is_functional_tensor(tensor)


ORDINARY_TYPES = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool}
    | {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8}
)


def is_ordinary(tensor: torch.Tensor) -> bool:
    """Whether every backend takes tensors of this layout and type: not all take sparse or complex ones."""
    return tensor.layout is torch.strided and tensor.dtype in ORDINARY_TYPES


# ---- errors


def as_of_operator(error: Exception) -> Exception:
    """torch's Python for views raises a ValueError where the operator raises a RuntimeError."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    of_a_view = at is not None and at.tb_frame.f_code.co_name.startswith("_reshape_view_helper")
    return RuntimeError(*error.args) if of_a_view and type(error) is ValueError else error


# ---- operators of the user's own

FAKE_KERNEL = torch._library.utils.Kernel.__call__.__code__
"""What calls a fake implementation that a user has registered."""


NO_DATA = "its data is not allocated yet"
"""What C says where it looks at the data of a fake."""
NO_SYMBOLS = "on tensor with symbolic sizes/strides"
"""What C says where it takes a size for a number."""


def of_a_fake_kernel(error: BaseException) -> breaks.Reason | None:
    """Why a fake implementation of the user's own failed, if it did: that says nothing of what the operator
    itself does. torch has one that says that there is none. Operators of torch's may have none either."""
    if type(error) is RuntimeError and any(said in str(error) for said in (NO_DATA, NO_SYMBOLS)):
        return breaks.UNSUPPORTED_FAKE
    at, seen = error.__traceback__, False
    while at is not None:
        seen = seen or at.tb_frame.f_code is FAKE_KERNEL
        last, at = at, at.tb_next
    if not seen:
        return None
    is_missing = last.tb_frame.f_code.co_filename == torch._library.custom_ops.__file__
    return breaks.UNSUPPORTED_FAKE if is_missing else breaks.FAKE_FAILED
