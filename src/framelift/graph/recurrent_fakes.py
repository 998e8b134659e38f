"""Recurrent layers on fakes: one step of a sequence tells what all of it gives.

torch goes through the whole sequence, even on tensors without data, and so has to know how long it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framelift.graph.symbols import SYMBOLIC


def by_one_step(layer: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What a layer gives for fakes: the sequence and the last state."""
    if kwargs or len(args) != 9 or not isinstance(args[2], (list, tuple)) or args[0].dim() != 3:
        return layer(*args, **kwargs)  # it is packed, or an error
    sequence, *others, batch_first = args
    time = 1 if batch_first else 0
    steps = sequence.shape[time]
    if not is_several(steps):
        return layer(*args)
    out, state = layer(sequence.narrow(time, 0, 1), *others, batch_first)
    if batch_first:
        return out.transpose(0, 1).repeat(steps, 1, 1).transpose(0, 1), state
    return out.repeat(steps, 1, 1), state


def is_several(steps: Any) -> bool:
    if type(steps) in SYMBOLIC and steps.node.hint is None:
        return False
    return bool(steps > 1)


SHORT: dict[Any, Callable[..., Any]] = dict.fromkeys((torch.gru, torch.rnn_tanh, torch.rnn_relu), by_one_step)
"""Function -> what is done with it and its arguments where these are fakes."""
