"""torch's own logs: `TORCH_LOGS=graph_breaks,recompiles` shows Framelift's artifacts under torch's names.

torch decides which are on, from the environment or by `torch._logging.set_logs`. The loggers lie below
torch's, whose handlers print what they are told.
"""

from __future__ import annotations

import dis
import io
import logging
from collections.abc import Callable
from types import CodeType

from torch._logging import getArtifactLogger

ARTIFACTS = ("graph_breaks", "recompiles", "guards", "graph_code", "graph", "bytecode")
"""What is told, by torch's names."""
_loggers = {name: getArtifactLogger("torch.framelift", name) for name in ARTIFACTS}


def is_on(*names: str) -> bool:
    return any(_loggers[name].isEnabledFor(logging.DEBUG) for name in names)


def tell(name: str, text: Callable[[], str]) -> None:
    log = _loggers[name]
    if log.isEnabledFor(logging.DEBUG):
        log.debug("%s", text())


def disassembled(code: CodeType) -> str:
    """The function's instructions."""
    out = io.StringIO()
    print(f"ORIGINAL BYTECODE {code.co_name} {code.co_filename} line {code.co_firstlineno}", file=out)
    dis.dis(code, file=out, depth=0)
    return out.getvalue()
