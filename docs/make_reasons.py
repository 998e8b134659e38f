"""Writes the cookbook of breaks, and the table of causes of recompilations, from their registries:
`python docs/make_reasons.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from break_examples import EXAMPLES

from framelift.core.breaks import REASONS, Reason
from framelift.core.causes import CAUSES, Cause


def table(title: str, known: Iterable[Reason | Cause]) -> str:
    rows = [f"| {one.name} | {one.explanation} | {one.hint.replace('{subject}', 'x')} |" for one in known]
    return "\n".join([f"| {title} | why | what to do |", "|---|---|---|", *rows])


def put(page: str, name: str, text: str) -> None:
    """Between the page's two marks of that name."""
    path = Path(__file__).with_name(page)
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = path.read_text().partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def recipe(reason: Reason) -> str:
    """A section of the cookbook."""
    lines = [f"### {reason.name}", "", reason.explanation, "", f"**What to do:** {reason.hint}"]
    example = EXAMPLES.get(reason.name)
    if example is not None:
        lines += ["", "```python", source(example.before), "```", "", "instead:", ""]
        lines += ["```python", source(example.after), "```"]
    return "\n".join(lines)


def source(function: Callable[..., Any]) -> str:
    """Without the mark that makes it part of a pair."""
    text = inspect.getsource(inspect.unwrap(function))
    return re.sub(r"\A@instead_of\(.*?\)\n(?=def )", "", text, flags=re.DOTALL).rstrip()


def main() -> None:
    put("breaks.md", "reasons", "\n\n".join(map(recipe, REASONS.values())))
    put("recompiles.md", "causes", table("cause", CAUSES.values()))


if __name__ == "__main__":
    main()
