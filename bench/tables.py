"""How results look: units, tables and the summary of targets."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from bench.measure import Spread, Target

MISSING = "-"


def significant(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def scaled(spread: Spread | None, factor: float, unit: str) -> str:
    return f"{significant(spread.median * factor)} {unit}" if spread else MISSING


def milliseconds(spread: Spread | None) -> str:
    return scaled(spread, 1e3, "ms")


def microseconds(spread: Spread | None) -> str:
    return scaled(spread, 1e6, "us")


def mebibytes(spread: Spread | None) -> str:
    return scaled(spread, 2**-20, "MiB")


def times(spread: Spread | None, digits: int = 1) -> str:
    """A ratio with its spread: the median (least to greatest)."""
    if spread is None:
        return MISSING
    median, least, most = (
        f"{value:.{digits}f}" for value in (spread.median, min(spread.values), max(spread.values))
    )
    return f"{median}x" if len(spread.values) == 1 else f"{median}x ({least}-{most})"


def show_table(
    console: Console, title: str, columns: list[str], rows: list[list[str]], footer: int = 0
) -> None:
    """A table whose last `footer` rows stand under a line of their own."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for index, row in enumerate(rows):
        table.add_row(*row, end_section=index == len(rows) - footer - 1)
    console.print(table)


def show_failures(console: Console, failures: list[str]) -> None:
    for failure in failures:
        console.print(f"  {failure}", style="yellow", markup=False)
    console.print()


def show_targets(console: Console, targets: list[Target]) -> None:
    rows = []
    for target in targets:
        bound = f"{'at most' if target.at_most else 'at least'} {target.limit:.2f}{target.unit}"
        measured = MISSING if target.measured is None else f"{target.measured:.2f}{target.unit}"
        style = {"met": "green", "not measured": "yellow"}.get(target.verdict, "red")
        rows.append([target.name, bound, measured, f"[{style}]{target.verdict}[/]"])
    show_table(console, "Targets", ["", "target", "measured", ""], rows)
