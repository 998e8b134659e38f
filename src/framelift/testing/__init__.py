"""`framelift.testing`: for tests of programs that are compiled, of backends, and of Framelift itself.

    check(fn, x)                       compiled, it does what it does otherwise
    same(expected, found)              results that are equal as far as floating-point numbers allow
    CompileCounter()                   a backend that counts graphs and the calls in them
    rand_strided(size, stride)         inputs that lie in memory as one wants them
    clone_inputs(inputs)               copies that share what the originals share

>>> import torch, framelift
>>> from framelift.testing import CompileCounter
>>> counter = CompileCounter()
>>> _ = framelift.compile(lambda x: x.sin() + 1, backend=counter)(torch.ones(2))
>>> counter.frame_count, counter.op_count
(1, 2)
"""

from framelift.debugging.comparing import Difference, cosine_similarity, difference, rmse, same
from framelift.debugging.inputs import (
    checkpoint_parameters,
    clone_inputs,
    preserve_rng_state,
    rand_strided,
    random_layouts,
)
from framelift.testing.backends import (
    AotEagerAndRecordGraphs,
    CompileCounter,
    CompileCounterWithBackend,
    EagerAndRecordGraphs,
)
from framelift.testing.checking import check
from framelift.testing.timing import Timing, time_model

__all__ = [
    "AotEagerAndRecordGraphs",
    "CompileCounter",
    "CompileCounterWithBackend",
    "Difference",
    "EagerAndRecordGraphs",
    "Timing",
    "check",
    "checkpoint_parameters",
    "clone_inputs",
    "cosine_similarity",
    "difference",
    "preserve_rng_state",
    "rand_strided",
    "random_layouts",
    "rmse",
    "same",
    "time_model",
]
