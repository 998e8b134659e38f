"""Writes the tables of break reasons and of causes of recompilations from their registries:
`python docs/make_reasons.py`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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


def main() -> None:
    put("guide.md", "reasons", table("reason", REASONS.values()))
    put("recompiles.md", "causes", table("cause", CAUSES.values()))


if __name__ == "__main__":
    main()
