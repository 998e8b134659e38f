"""Writes the table of break reasons in docs/guide.md from the registry: `python docs/make_reasons.py`."""

from __future__ import annotations

from pathlib import Path

from framelift.core.breaks import REASONS

BEGIN, END = "<!-- reasons -->", "<!-- end of reasons -->"


def table() -> str:
    rows = [f"| {r.name} | {r.explanation} | {r.hint} |" for r in REASONS.values()]
    return "\n".join(["| reason | why | what to do |", "|---|---|---|", *rows])


def main() -> None:
    page = Path(__file__).with_name("guide.md")
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
