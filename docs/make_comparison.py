"""Writes the table of docs/comparison.md from what other pages say: `python docs/make_comparison.py`."""

from __future__ import annotations

import re
from pathlib import Path

from make_reasons import put

HERE = Path(__file__).parent


def found(page: str, pattern: str, which: int = 0) -> tuple[str, ...]:
    """What the groups of a pattern match in a page. A page that no longer says so is an error."""
    matches = list(re.finditer(pattern, (HERE / page).read_text()))
    if len(matches) <= which:
        raise SystemExit(f"docs/{page} does not say {pattern!r} (any more): change docs/make_comparison.py")
    return matches[which].groups()


def rows() -> list[tuple[str, str]]:
    models = r"geometric mean, models +([\d.]+)x"
    (first,), (again,) = found("benchmarks.md", models), found("benchmarks.md", models, 1)
    (call,) = found("benchmarks.md", r"cost of a call, of torch\.compile's +at most [\d.]+x +([\d.]+)x")
    (worst,) = found("benchmarks.md", r"cost of a call, the worst of them +at most [\d.]+x +([\d.]+)x")
    (layer,) = found("benchmarks.md", r"cost of each layer more +at most [\d.]+x +([\d.]+)x")
    (memory,) = found("benchmarks.md", r"peak memory, most of .*at most [\d.]+x +([\d.]+)x")
    (measured,) = found("models.md", r"- (\d+) architectures? \(")
    (correct,) = found("models.md", r"- correct in all that was measured of them: (\d+)")
    ours, theirs = found("models.md", r"- one graph in Framelift: (\d+); in torch\.compile: (\d+)")
    operators = found("coverage.md", r"(\d+) of (\d+) calls of operators .*?\(([\d.]+%)\)")
    modules = found("coverage.md", r"(\d+) of (\d+) cases of modules .*?\(([\d.]+%)\)")
    return [
        ("capturing transformers models, the first time", f"{first} times faster (geometric mean)"),
        ("the same, again after `reset`", f"{again} times faster (geometric mean)"),
        (
            "what a call costs when everything is compiled",
            f"{call} of torch.compile's (geometric mean; the worst {worst})",
        ),
        ("what each layer more adds to that", f"{layer} of torch.compile's"),
        ("peak memory while capturing", f"at most {memory} of torch.compile's"),
        (
            "architectures of transformers, compared with eager",
            f"{correct} of {measured} the same: results, gradients, tokens",
        ),
        ("architectures that are one graph", f"{ours} of {measured}; with torch.compile {theirs}"),
        ("calls in torch's database of operators", captured(*operators)),
        ("cases in torch's database of modules", captured(*modules)),
    ]


def captured(count: str, whole: str, share: str) -> str:
    return f"{share} one graph and equal to eager ({count} of {whole})"


def main() -> None:
    lines = ["| | Framelift |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows())]
    put("comparison.md", "numbers", "\n".join(lines))


if __name__ == "__main__":
    main()
