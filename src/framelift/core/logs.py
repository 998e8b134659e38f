"""`framelift.set_logs` and `FRAMELIFT_LOGS`: what is told while functions are compiled, through `logging`.

Each kind of thing has a logger of its own, `framelift.<name>`, and a level at which it is told, so that a
program that sets up `logging` itself needs none of this. `name` asks for a kind, `+name` for its details
too, `-name` for errors only; `all` is every kind.

>>> import framelift
>>> framelift.set_logs("graph", "+breaks")
>>> framelift.set_logs(recompiles=True)
>>> framelift.set_logs()
"""

from __future__ import annotations

import logging
import os
import sys

from framelift.core.errors import UserError

ROOT = logging.getLogger("framelift")
VARIABLE = "FRAMELIFT_LOGS"

LEVELS = {
    "graph": logging.DEBUG,  # each graph that was captured, before the backend gets it
    "breaks": logging.INFO,  # why a capture ended, where, and what to do; each place once, at DEBUG each time
    "guards": logging.DEBUG,  # what a compiled result relies on, and the line that made it so
    "recompiles": logging.INFO,  # which guard failed of which entry
    "code": logging.DEBUG,  # the generated function that runs a graph
    "cache": logging.INFO,  # what is not kept on disk, or not used from there, and why
}
"""Name -> the level at which its logger tells what it is for. What is long is told at DEBUG, so that a
program that listens to everything at INFO is not flooded."""

LOGGERS = {name: logging.getLogger(f"framelift.{name}") for name in LEVELS}


class ToStderr(logging.Handler):
    """Writes to stderr what no handler of the program's would get."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if not is_heard(logging.getLogger(record.name)):
            sys.stderr.write(self.format(record) + "\n")


_handler = ToStderr()


def is_heard(log: logging.Logger | None) -> bool:
    """Whether the program has a handler that gets what this logger tells."""
    while log is not None:
        if any(handler is not _handler for handler in log.handlers):
            return True
        log = log.parent if log.propagate else None
    return False


def set_logs(*names: str, **levels: bool | int) -> None:
    """Tells these kinds of things from now on, and no others. By name, as in `set_logs("graph,+breaks")`, or
    by keyword, as in `set_logs(graph=True, breaks=logging.DEBUG)`."""
    wanted = parsed(names)
    for name, level in levels.items():
        known(name)
        if not isinstance(level, int):
            raise UserError(f"framelift.set_logs: {name} must be a bool or a level, not {level!r:.80}")
        wanted |= asked_for(name, None if level is True else level or logging.WARNING)
    for log in (ROOT, *LOGGERS.values()):
        log.setLevel(logging.NOTSET)
    for name, level in wanted.items():
        (ROOT if name == "all" else LOGGERS[name]).setLevel(level)
    ROOT.removeHandler(_handler)
    if wanted:
        ROOT.addHandler(_handler)


def known(name: str) -> None:
    if name != "all" and name not in LEVELS:
        listed = ", ".join((*LEVELS, "all"))
        raise UserError(f"there is no log {name!r:.80}; known are: {listed} (also with + or - before it)")


def parsed(names: tuple[str, ...]) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for text in names:
        if not isinstance(text, str):
            raise UserError(f"framelift.set_logs takes names of logs, not {text!r:.80}")
        for item in filter(None, (part.strip() for part in text.split(","))):
            sign = item[0] if item[0] in "+-" else ""
            known(item.removeprefix(sign))
            level = {"+": logging.DEBUG, "-": logging.ERROR}.get(sign)
            wanted |= asked_for(item.removeprefix(sign), level)
    return wanted


def asked_for(name: str, level: int | None) -> dict[str, int]:
    """Which loggers get which level; None: as much as tells the thing itself."""
    if name != "all":
        return {name: LEVELS[name] if level is None else level}
    if level is None:
        return dict(LEVELS)
    return {"all": level, **dict.fromkeys(LEVELS, level)}


def from_environment() -> None:
    asked = os.environ.get(VARIABLE)
    if asked:
        try:
            set_logs(asked)
        except UserError as error:
            raise UserError(f"{VARIABLE}={asked}: {error}") from None


from_environment()
