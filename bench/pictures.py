"""Pictures of what was measured last: bars with their spread, and curves.

    python -m bench.pictures [FOLDER]     draws into docs/pictures, or that folder

They are made of the samples that `python -m bench` has written, so nothing is measured again. Drawing needs
matplotlib (`pip install framelift-torch[bench]`).
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "latest.json"
FOLDER = HERE.parent / "docs" / "pictures"

MINE, REFERENCE, UNTIMED = "framelift", "torch.compile", "torch.compile untimed"
COLORS = {MINE: "#2563eb", REFERENCE: "#f59e0b", UNTIMED: "#f59e0b"}

Samples = dict[str, dict[str, list[Any]]]
"""Subject -> system -> one sample for each repetition."""


def values(runs: list[Any], what: str) -> list[float]:
    """What was measured in each repetition; nothing if one of them failed."""
    return [] if any("failed" in run for run in runs) else [run[what] for run in runs]


def ratios(samples: dict[str, list[Any]], what: str) -> list[float]:
    """How many times longer the reference takes, repetition by repetition; of two references, the faster."""
    mine = values(samples[MINE], what)
    others = [values(samples[name], what) for name in (REFERENCE, UNTIMED) if name in samples]
    others = [found for found in others if found]
    if not mine or not others:
        return []
    reference = min(others, key=statistics.median)
    return [theirs / ours for ours, theirs in zip(mine, reference, strict=True)]


# ---- kinds of pictures


def bars(axes: Any, rows: dict[str, list[float]], label: str) -> None:
    """A bar for each row, as long as the median, with a line from the least to the greatest."""
    names = [name for name in reversed(rows) if rows[name]]
    medians = [statistics.median(rows[name]) for name in names]
    below = [median - min(rows[name]) for name, median in zip(names, medians, strict=True)]
    above = [max(rows[name]) - median for name, median in zip(names, medians, strict=True)]
    drawn = axes.barh(names, medians, xerr=[below, above], color=COLORS[MINE], ecolor="#1e293b", capsize=2)
    axes.bar_label(drawn, labels=[f"{median:.1f}x" for median in medians], padding=6)
    axes.axvline(1, color=COLORS[REFERENCE], linewidth=2)
    axes.set_xlim(0, 1.15 * max([1.0, *(median + more for median, more in zip(medians, above, strict=True))]))
    axes.set_xlabel(label)


def curves(axes: Any, lines: dict[str, dict[float, list[float]]], x_label: str, y_label: str) -> None:
    """A curve of medians for each line, in a band from the least to the greatest."""
    for name, points in lines.items():
        known = {x: found for x, found in points.items() if found}
        xs, color = list(known), COLORS[name]
        axes.plot(
            xs, [statistics.median(known[x]) for x in xs], marker="o", markersize=4, color=color, label=name
        )
        axes.fill_between(
            xs, [min(known[x]) for x in xs], [max(known[x]) for x in xs], color=color, alpha=0.2
        )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_ylim(bottom=0)
    axes.legend()


# ---- what is drawn


def draw_speedups(axes: Any, samples: Samples, what: str, label: str) -> None:
    bars(axes, {subject: ratios(found, what) for subject, found in samples.items()}, label)


def draw_growth(axes: Any, results: dict[str, Any]) -> None:
    known: Samples = results["capture"] | results["growth"]
    depths = sorted(int(name.split()[1]) for name in known if name.startswith("Llama "))
    lines = {
        name: {
            float(depth): [1e3 * each for each in values(known[f"Llama {depth}"].get(name, []), "second")]
            for depth in depths
        }
        for name in (MINE, UNTIMED)
    }
    curves(axes, lines, "layers of Llama", "milliseconds to capture")


def draw_calls_over_depth(axes: Any, results: dict[str, Any]) -> None:
    known: Samples = results["overhead"]
    depths = sorted(int(name.split()[1]) for name in known if name.startswith("Llama "))
    lines = {
        name: {
            float(depth): [1e6 * each for each in values(known[f"Llama {depth}"].get(name, []), "call")]
            for depth in depths
        }
        for name in (MINE, REFERENCE)
    }
    curves(axes, lines, "layers of Llama", "microseconds for a call")


def draw_functions(axes: Any, results: dict[str, Any]) -> None:
    (samples,) = results["many functions"].values()
    lines: dict[str, dict[float, list[float]]] = {}
    for name, runs in samples.items():
        taken = [run["seconds"] for run in runs if "failed" not in run]
        count = min(map(len, taken), default=0)
        groups = range(0, count, max(1, count // 20))
        width = max(1, count // 20)
        lines[name] = {
            float(at): [1e3 * statistics.median(each[at : at + width]) for each in taken] for at in groups
        }
    curves(axes, lines, "functions compiled before, in one process", "milliseconds to capture one")


FASTER, CHEAPER = "times faster than torch.compile", "times cheaper than torch.compile"
PICTURES: dict[str, tuple[str, str, Callable[[Any, dict[str, Any]], None]]] = {
    "capture": (
        "Capture again, after reset",
        "capture",
        lambda axes, results: draw_speedups(axes, results["capture"], "second", FASTER),
    ),
    "first-capture": (
        "First capture in a process",
        "capture",
        lambda axes, results: draw_speedups(axes, results["capture"], "first", FASTER),
    ),
    "calls": (
        "A call when everything is compiled",
        "overhead",
        lambda axes, results: draw_speedups(axes, results["overhead"], "call", CHEAPER),
    ),
    "situations": (
        "Captures in situations of their own",
        "situations",
        lambda axes, results: draw_speedups(axes, results["situations"], "capture", FASTER),
    ),
    "growth": ("Capture, by depth", "growth", draw_growth),
    "calls-growth": ("A call, by depth", "overhead", draw_calls_over_depth),
    "functions": ("Many functions in one process", "many functions", draw_functions),
}
"""Name of the file -> (title, what has to have been measured, how it is drawn)."""


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """Draws all of which there are results; gives the files."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "framelift"  # the same samples give the same file
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, (title, needed, fill) in PICTURES.items():
        if needed not in results:
            continue
        rows = len(results[needed]) if name in ("capture", "first-capture", "calls", "situations") else 12
        figure, axes = plt.subplots(figsize=(7.5, max(3.0, 0.32 * rows + 1)), layout="constrained")
        axes.set_title(title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        fill(axes, results)
        made.append(folder / f"{name}.svg")
        figure.savefig(made[-1], metadata={"Date": None})
        plt.close(figure)
    return made


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not RESULTS.exists():
        raise SystemExit(f"nothing was measured yet: there is no {RESULTS}; run `make bench` first")
    try:
        made = draw(json.loads(RESULTS.read_text())["results"], folder)
    except ImportError as error:
        raise SystemExit(f"pictures need matplotlib: pip install matplotlib ({error})") from None
    for path in made:
        print(path)


if __name__ == "__main__":
    main()
