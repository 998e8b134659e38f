"""A captured graph as bytes, with all that Inductor has to know to compile it in another process.

The tensors themselves stay here: examples are described, and made as fakes there. What would make a
difference and can't be described is refused (`NotPortableError`): sizes that vary, memory that inputs share,
subclasses, contexts that are open around the call.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framelift.core.config import config
from framelift.dispatch.capture import Capture
from framelift.dispatch.capture_pickles import CapturePickler, CaptureUnpickler, Noted
from framelift.dispatch.examples import mode_for, sharing
from framelift.dispatch.object_names import NotPortableError
from framelift.graph.fakes import is_plain
from framelift.graph.torch_flags import Settings, TorchState, set_flags

CONFIGS = ("torch._inductor.config", "torch._functorch.config")
"""torch's modules of options that decide what is compiled."""
FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""Variables that say where compilers keep what they have made, which a program may set while it runs."""


@dataclass
class PackedGraph:
    """What is compiled, once it is unpacked."""

    graph: torch.fx.GraphModule
    examples: list[Any]
    mode: FakeTensorMode
    options: dict[str, Any]
    """Of Inductor, as `compile` was given them."""
    settings: Settings
    """Flags of torch's."""
    threads: int
    configs: dict[str, dict[str, Any]]
    folders: dict[str, str | None]
    share_blocks: str
    """The option of that name."""

    def take_over(self) -> None:
        """Makes this process like the one that has packed it, as far as compilers look."""
        for name, value in self.folders.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        config.share_blocks = self.share_blocks
        torch.set_num_threads(self.threads)
        set_flags(self.settings)
        for name, values in self.configs.items():
            module: Any = sys.modules[name]
            for option, value in values.items():
                setattr(module, option, value)


NO_FRAME: Any = lambda: None
"""Stands for the function of a frame, of which a graph by itself knows nothing."""
GRAPH_ALONE = Noted(NO_FRAME, NO_FRAME.__code__, [], [], {}, [], {})
"""What a pickler is told of the capture: a graph has neither guards nor a frame."""


def pack(capture: Capture, options: dict[str, Any]) -> bytes:
    if capture.symbols is not None:
        raise NotPortableError("there are sizes or numbers in it that vary")
    if capture.left:
        raise NotPortableError("it leaves contexts that were entered before")
    inputs = capture.example_inputs
    if sharing(inputs, tuple(range(len(inputs)))):
        raise NotPortableError("inputs of the graph share memory")
    settings = [*TorchState().settings.items(), *capture.setting]
    folders = {name: os.environ.get(name) for name in FOLDERS}
    try:
        plain = pickle.dumps((changed_options(), folders, config.share_blocks))
    except Exception as error:
        raise NotPortableError(f"options of torch's compilers can't be sent ({error})") from None
    out = io.BytesIO()
    pickler = CapturePickler(out, GRAPH_ALONE)
    pickler.dump(capture.graph)
    pickler.dump((list(map(described, inputs)), options, settings, torch.get_num_threads(), plain))
    return out.getvalue()


def changed_options() -> dict[str, dict[str, Any]]:
    """What the program has set of torch's options. Where a module is not there, it has set none."""
    modules: dict[str, Any] = {name: sys.modules[name] for name in CONFIGS if name in sys.modules}
    return {name: module.save_config_portable() for name, module in modules.items()}


Described = tuple[bool, torch.dtype, torch.device, tuple[int, ...], tuple[int, ...], bool]
"""A tensor, by what a compiler may know of it: whether it is a parameter, type, device, sizes, strides,
`requires_grad`."""


def described(value: Any) -> tuple[Described | None, Any]:
    """(a tensor, None) or (None, any other value)"""
    if not isinstance(value, torch.Tensor):
        return None, value
    if not is_plain(value) or value._is_view() or not value.is_leaf or value.storage_offset():
        raise NotPortableError(
            f"it takes a {type(value).__name__} that is made of another, or of another kind"
        )
    is_parameter = type(value) is torch.nn.Parameter
    sizes, strides = tuple(value.shape), value.stride()
    return (is_parameter, value.dtype, value.device, sizes, strides, value.requires_grad), None


def fake_like(tensor: Described, mode: FakeTensorMode) -> torch.Tensor:
    is_parameter, dtype, device, sizes, strides, requires_grad = tensor
    with mode:
        fake: Any = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
        fake.requires_grad_(requires_grad)
    if is_parameter:
        fake._is_param = True
    return fake


def unpack(data: bytes) -> PackedGraph:
    mode = mode_for(None)
    unpickler = CaptureUnpickler(data, NO_FRAME, [])
    graph: torch.fx.GraphModule = unpickler.load()
    inputs, options, settings, threads, plain = unpickler.load()
    configs, folders, shares = pickle.loads(plain)
    examples = [value if tensor is None else fake_like(tensor, mode) for tensor, value in inputs]
    return PackedGraph(graph, examples, mode, options, settings, threads, configs, folders, shares)
