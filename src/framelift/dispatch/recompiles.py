"""Compiling again: why it is done, how often it may be, and what is said about it.

A code object has entries, and none of them holds. For each of them it is found out which guard failed;
that is logged (`framelift.recompiles`), kept with the code object, and told once more, with what could be
done about it, when there are as many entries as there may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from framelift.bytecode.resume import origin_of
from framelift.core.causes import Cause, Suggestion, suggestion
from framelift.core.config import config
from framelift.core.counters import counters
from framelift.core.errors import FailOnRecompileLimitHit, RecompileError, RecompileLimitExceeded
from framelift.guards.failures import Failure

if TYPE_CHECKING:
    from framelift.dispatch.contexts import Context, Record

log = logging.getLogger("framelift.recompiles")

RESUME_FACTOR = 8
"""So many times more entries may a resume function have: it is called for each round of a loop, or for
each layer."""
TOLD = 5
"""How many reasons a message lists."""


@dataclass
class Recompilation:
    """Why none of the entries held: which guard of each failed."""

    number: int
    """How many entries there were."""
    failures: list[tuple[int, Failure]] = field(default_factory=list)
    """(which entry, what failed), the latest entry first."""
    suggestion: Suggestion | None = None
    """If it is the same kind of cause again and again."""

    @property
    def reason(self) -> Failure | None:
        """What failed of the latest entry."""
        return self.failures[0][1] if self.failures else None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        lines = []
        for failure, entries in self.by_failure().items():
            which = "entry" if len(entries) == 1 else "entries"
            lines.append(f"{which} {', '.join(map(str, entries))}: {failure}")
            if failure.where:
                lines.append(f"  relied on at {failure.where}")
        if not self.failures:
            lines.append("the guards hold again: what they are about has changed meanwhile")
        return lines if self.suggestion is None else [*lines, *self.suggestion.lines()]

    def by_failure(self) -> dict[Failure, list[int]]:
        """Entries of which the same guard failed, together."""
        first: dict[tuple[str, str], Failure] = {}
        grouped: dict[Failure, list[int]] = {}
        for entry, failure in self.failures:
            known = first.setdefault((str(failure), failure.where), failure)
            grouped.setdefault(known, []).append(entry)
        return grouped


def why_again(record: Record, fn: Any, arguments: list[Any]) -> Recompilation:
    """Asks each entry what does not hold."""
    found = Recompilation(len(record.compiled))
    for n in range(len(record.compiled) - 1, -1, -1):
        failure = record.compiled[n].captured.program.failure(fn, arguments)
        if failure is not None:
            found.failures.append((n, failure))
    if found.reason is not None:
        found.suggestion = suggestion(causes_so_far(record, found), found.reason.cause)
    return found


def causes_so_far(record: Record, latest: Recompilation) -> list[tuple[Cause, str]]:
    reasons = [again.reason for again in (*record.recompiles, latest)]
    return [(reason.cause, reason.subject) for reason in reasons if reason is not None]


def note(context: Context, record: Record, found: Recompilation) -> None:
    """Keeps it, counts it and tells it; with `error_on_recompile` it is an error, and nothing is kept."""
    count = f"{found.number} of at most {limit(context, record)} entries"
    if config.error_on_recompile:
        text = f"{record.what} would be compiled again (config.error_on_recompile); it has {count}"
        raise RecompileError(f"{text}\n{indented(found.lines())}")
    record.recompiles.append(found)
    counters["recompiles"][f"{record.name}: {found.reason}"] += 1
    if log.isEnabledFor(logging.INFO):
        log.info("%s is compiled again; it has %s\n%s", record.what, count, indented(found.lines()))


def refuse(code: CodeType, found: Recompilation | None) -> RecompileError:
    """The error for what is not compiled, with the stance `fail_on_recompile`."""
    text = f"{what(code)} would have to be compiled, and the stance is 'fail_on_recompile'"
    lines = ["it has not been compiled before"] if found is None else found.lines()
    return RecompileError(f"{text}\n{indented(lines)}")


# ---- limits


def limit(context: Context, record: Record) -> int:
    """How many entries a code object may have in a context."""
    own = config.recompile_limit if context.recompile_limit is None else context.recompile_limit
    return own if record.resumed is None else RESUME_FACTOR * own


def limit_reached(
    context: Context, record: Record, entries: int, everywhere: Callable[[CodeType], int]
) -> str | None:
    """Which limit stands against one more entry; `everywhere` counts those of all contexts."""
    if entries and entries >= limit(context, record):
        name = "recompile_limit" if record.resumed is None else f"{RESUME_FACTOR} * recompile_limit"
        return f"{name} ({limit(context, record)} entries)"
    if not context.isolate_recompiles:
        count = 0 if record.code is None else everywhere(record.code)
        if count >= config.accumulated_recompile_limit:
            return f"accumulated_recompile_limit ({count} entries in all compiled functions together)"
    return None


def has_stopped(context: Context, record: Record, everywhere: Callable[[CodeType], int]) -> bool:
    """Whether a limit was reached, and told, before: then calls that no entry fits should cost little."""
    if record.skipped is None or context.fullgraph or config.fail_on_recompile_limit_hit:
        return False
    return limit_reached(context, record, len(record.cache), everywhere) is not None


def stop_at(context: Context, record: Record, which: str, fn: Any, arguments: list[Any]) -> None:
    """The entries there are stay in use; what none of them fits runs as plain Python, or is an error."""
    fails = config.fail_on_recompile_limit_hit
    text = f"{record.what} has reached {which}"
    told = indented(reasons_so_far(record, why_again(record, fn, arguments)))
    if fails:
        raise FailOnRecompileLimitHit(f"{text} (config.fail_on_recompile_limit_hit)\n{told}")
    if context.fullgraph:
        raise RecompileLimitExceeded(f"{text} (fullgraph=True)\n{told}")
    record.skipped = f"{text}; it runs as plain Python where none of them fits\n{told}"
    log.warning("%s", record.skipped)


def reasons_so_far(record: Record, found: Recompilation) -> list[str]:
    """The latest ones, each once, and what could be done."""
    latest = [again.reason for again in (found, *reversed(record.recompiles))]
    reasons = list(dict.fromkeys(str(reason) for reason in latest if reason is not None))
    lines = [f"guard failed: {reason}" for reason in reasons[:TOLD]]
    if len(reasons) > TOLD:
        lines.append(f"and {len(reasons) - TOLD} more")
    advice = suggestion(causes_so_far(record, found))
    return [*lines, *([OTHERWISE[bool(reasons)]] if advice is None else advice.lines())]


OTHERWISE = {
    True: "What to do: Raise the limit, or call the function with fewer kinds of arguments.",
    False: "What to do: Compile the function once instead of many times, or with isolate_recompiles=True.",
}
"""What to do where no kind of cause stands out: when guards have failed, and when none has."""


def first_line(code: CodeType) -> int | None:
    """Where a function begins, or where a resume function goes on."""
    origin = origin_of(code)
    if origin is None:
        return code.co_firstlineno
    line: int | None = origin.body.positions[origin.body.at_unit(origin.at)][0]
    return line


def what(code: CodeType) -> str:
    """The function, as messages name it."""
    rest = "" if origin_of(code) is None else "the rest of "
    return f"{rest}{code.co_qualname} ({code.co_filename}:{first_line(code)})"


def indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
