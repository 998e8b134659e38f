"""Compiling again: why it is done, how often it may be, and what is said about it.

A code object has entries, and none of them holds. For each of them it is found out which guard failed;
that is logged (`framelift.recompiles`), kept with the code object, and told once more, with what could be
done about it, when there are as many entries as there may be.
"""

from __future__ import annotations

import logging
from typing import Any

from framelift.core.causes import Cause, suggestion
from framelift.core.config import config
from framelift.core.errors import FailOnRecompileLimitHit, RecompileError
from framelift.core.records import counters
from framelift.dispatch.compile_contexts import CodeState, Context, Recompilation, entries_everywhere

log = logging.getLogger("framelift.recompiles")

RESUME_FACTOR = 8
"""So many times more entries may a resume function have: it is called for each round of a loop, or for
each layer."""
REASONS_SHOWN = 5
"""How many reasons a message lists."""


def explain_miss(state: CodeState, fn: Any, arguments: list[Any]) -> Recompilation:
    """Asks each entry what does not hold."""
    found = Recompilation(len(state.entries))
    for n in range(len(state.entries) - 1, -1, -1):
        failure = state.entries[n].capture.program.failure(fn, arguments)
        if failure is not None:
            found.failures.append((n, failure))
    if found.reason is not None:
        found.suggestion = suggestion(causes_so_far(state, found), found.reason.cause)
    return found


def causes_so_far(state: CodeState, latest: Recompilation) -> list[tuple[Cause, str]]:
    reasons = [again.reason for again in (*state.recompiles, latest)]
    return [(reason.cause, reason.subject) for reason in reasons if reason is not None]


def report_recompilation(context: Context, state: CodeState, found: Recompilation) -> None:
    """Keeps it, counts it and logs it; with `error_on_recompile` it is an error, and nothing is kept."""
    count = f"{found.number} of at most {limit(context, state)} entries"
    if config.error_on_recompile:
        text = f"Recompiling function {state.what} (config.error_on_recompile); it has {count}"
        raise RecompileError(f"{text}\n{TRIGGERED}\n{indented(found.lines())}")
    state.recompiles.append(found)
    counters["recompiles"][f"{state.name}: {found.reason}"] += 1
    if log.isEnabledFor(logging.INFO):
        log.info("%s is compiled again; it has %s\n%s", state.what, count, indented(found.lines()))


def refused_compilation(state: CodeState, found: Recompilation | None) -> RecompileError:
    """The error for what is not compiled, with the stance `fail_on_recompile`."""
    text = f"Detected recompile when torch.compile stance is 'fail_on_recompile': {state.what}"
    lines = ["it has not been compiled before"] if found is None else [TRIGGERED, *found.lines()]
    return RecompileError(f"{text}\n{indented(lines)}")


TRIGGERED = "triggered by the following guard failure(s):"


# ---- limits


def limit(context: Context, state: CodeState) -> int:
    """How many entries a code object may have in a context: so many for each function that runs in it."""
    own = config.recompile_limit if context.recompile_limit is None else context.recompile_limit
    own *= max(1, len(context.users))
    return own if state.resumed is None else RESUME_FACTOR * own


def limit_reached(context: Context, state: CodeState) -> str | None:
    """Which limit stands against one more entry."""
    entries = len(state.cache)
    if entries and entries >= limit(context, state):
        name = (
            "config.recompile_limit" if state.resumed is None else f"{RESUME_FACTOR} * config.recompile_limit"
        )
        return f"{name} ({limit(context, state)} entries)"
    if not context.isolate_recompiles:
        count = 0 if state.code is None else entries_everywhere(state.code)
        if count >= config.accumulated_recompile_limit:
            return f"config.accumulated_recompile_limit ({count} entries in all compiled functions together)"
    return None


def has_stopped(context: Context, state: CodeState) -> bool:
    """Whether a limit was reached, and reported, before: then calls that no entry fits should cost little."""
    if state.skipped is None or context.fullgraph or config.fail_on_recompile_limit_hit:
        return False
    return limit_reached(context, state) is not None


def stop_recompiling(context: Context, state: CodeState, which: str, fn: Any, arguments: list[Any]) -> None:
    """The entries there are stay in use; what none of them fits runs as plain Python, or is an error."""
    text = f"{state.what} hit {which}"
    told = indented(reasons_so_far(state, explain_miss(state, fn, arguments)))
    if config.fail_on_recompile_limit_hit:
        raise FailOnRecompileLimitHit(f"Hard failure due to fail_on_recompile_limit_hit: {text}\n{told}")
    if context.fullgraph:
        raise FailOnRecompileLimitHit(f"Hard failure due to fullgraph=True: {text}\n{told}")
    state.skipped = f"{text}; it runs as plain Python where none of them fits\n{told}"
    log.warning('%s\n  To log all reasons, use TORCH_LOGS="recompiles"', state.skipped)


def reasons_so_far(state: CodeState, found: Recompilation) -> list[str]:
    """The latest ones, each once, and what could be done."""
    latest = [again.reason for again in (found, *reversed(state.recompiles))]
    reasons = list(dict.fromkeys(str(reason) for reason in latest if reason is not None))
    lines = [f"guard failed: {reason}" for reason in reasons[:REASONS_SHOWN]]
    lines[:1] = [f"last reason: {reason}" for reason in reasons[:1]]
    if len(reasons) > REASONS_SHOWN:
        lines.append(f"and {len(reasons) - REASONS_SHOWN} more")
    advice = suggestion(causes_so_far(state, found))
    return [*lines, *([OTHERWISE[bool(reasons)]] if advice is None else advice.lines())]


OTHERWISE = {
    True: "What to do: Raise the limit, or call the function with fewer kinds of arguments.",
    False: "What to do: Compile the function once instead of many times, or with isolate_recompiles=True.",
}
"""What to do where no kind of cause stands out: when guards have failed, and when none has."""


def indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
