"""Fake tensors: metadata without data, standing for a program's tensors while it is traced."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from framelift import _guards

make_subclass = torch.Tensor._make_subclass
SEEDED = torch.Tag.nondeterministic_seeded


class Fakes(FakeTensorMode):
    """The fake mode of one trace. It notes whether random numbers were drawn since asked last."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=False)
        self.drew_random = False
        self.template: dict[torch.device, dict[str, Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if SEEDED in func.tags:
            self.drew_random = True
        return super().__torch_dispatch__(func, types, args, kwargs)

    def wrap(self, meta: torch.Tensor, device: torch.device, requires_grad: bool) -> FakeTensor:
        """A fake around a tensor on the meta device, as FakeTensor's own constructor makes it, but
        without its checks: they hold by construction here."""
        attributes = self.template.get(device)
        if attributes is None:
            attributes = self.template[device] = dict(FakeTensor(self, meta, device).__dict__)
        fake = make_subclass(FakeTensor, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device)
        fake.__dict__.update(attributes)
        return fake

    def of(self, tensor: torch.Tensor) -> FakeTensor:
        """A fake of a real tensor."""
        if not is_plain(tensor):
            return self.from_tensor(tensor, static_shapes=True)
        meta = _guards.empty_meta(tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.storage_offset():
            meta = self.with_offset(meta, tensor)
        fake = self.wrap(meta, tensor.device, tensor.requires_grad)
        if tensor.requires_grad and not tensor.is_leaf:
            _guards.fake_history(fake)
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        return fake

    def with_offset(self, meta: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        whole = _guards.empty_meta((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), tensor.dtype)
        return _guards.view_meta(whole, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


def is_plain(tensor: torch.Tensor) -> bool:
    """A dense tensor of torch's own classes, with nothing peculiar about it."""
    return (
        type(tensor) in PLAIN_CLASSES
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_inference()
        and not torch._is_functional_tensor(tensor)
        and tensor.device.type != "meta"
    )
