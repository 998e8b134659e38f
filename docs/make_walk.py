"""Writes docs/fixing_a_model.md: `examples/broken_model.py` mended step by step, with what the tools say.

`python docs/make_walk.py` runs each stage; tests/documentation/test_fixing_a_model_page.py goes the same way
and looks at what each says.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "broken_model.py"


@dataclass(frozen=True)
class Fix:
    """What one hint of the report leads to."""

    problem: str
    """The reason of a break, or the cause of a recompilation."""
    expression: str
    """What the report underlines, or says is relied on."""
    words: str
    edits: tuple[tuple[str, str], ...]
    """What is replaced by what."""

    def applied(self, source: str) -> str:
        for old, new in self.edits:
            assert source.count(old) == 1, f"{old!r} is there {source.count(old)} times"
            source = source.replace(old, new)
        return source


FIXES = (
    Fix(
        "run-time effect",
        'print("largest activation", h.max())',
        "Printing has to happen on every call, so the graph ends in front of it. The hint: *move it out of "
        "the compiled function*. What is of interest can be printed where the model is called.",
        (
            ('        print("largest activation", h.max())\n', ""),
            (
                "        x = compiled(x).detach()\n",
                '        x = compiled(x).detach()\n        print("largest value", x.max())\n',
            ),
        ),
    ),
    Fix(
        "data-dependent value",
        "h.mean().item()",
        "`.item()` asks for a Python number while there is none yet. The hint: *keep the value in a tensor*. "
        "Arithmetic does not care.",
        (("scale = h.mean().item()", "scale = h.mean()"),),
    ),
    Fix(
        "NumPy",
        "np.nanquantile(h.detach().numpy(), 0.9)",
        "NumPy's function works on numbers, not on graphs. The hint: *use the function of torch on tensors*.",
        (
            ("limit = np.nanquantile(h.detach().numpy(), 0.9)", "limit = torch.nanquantile(h.detach(), 0.9)"),
            ("h.clamp(max=float(limit))", "h.clamp(max=limit)"),
            ("import numpy as np\n", ""),
        ),
    ),
    Fix(
        "data-dependent branch",
        "h.std() > 0.5",
        "Which way the branch goes is known only once the graph has run. The hint: *use torch.where*, which "
        "computes both sides and picks.",
        (
            (
                "        if h.std() > 0.5:\n            h = h - h.mean()\n",
                "        h = torch.where(h.std() > 0.5, h - h.mean(), h)\n",
            ),
        ),
    ),
    Fix(
        "float",
        "self.noise",
        "No break is left, but the model is compiled again: a Python float that changes with each call was "
        "compiled in as a constant. The hint: *make it a tensor*. A buffer is part of the model's state, and "
        "is saved with it.",
        (
            (
                "        self.noise = 1.0\n",
                '        self.register_buffer("noise", torch.tensor(1.0))\n',
            ),
            ("        self.noise *= 0.9\n", "        self.noise = self.noise * 0.9\n"),
        ),
    ),
)


def stages() -> Iterator[str]:
    """The example, and what it is after each fix."""
    source = EXAMPLE.read_text()
    yield source
    for fix in FIXES:
        source = fix.applied(source)
        yield source


# ---- the page


BEGINNING = """# From five problems to one graph

<!-- written by docs/make_walk.py -->

`examples/broken_model.py` is a small model with five different problems. This page mends them one by one,
each time by what the report says; what is shown is what the tools print. The same report is a page, with the
graphs drawn, by `framelift explain --html report.html broken_model.py`.

```python
{source}```

## The report

```text
$ framelift explain broken_model.py
{report}
...
```

Lines with `+` are in a graph, at those with `!` a graph ends; what could not be captured is underlined. Each
break comes with a reason and a hint, and below stands what was compiled more than once.
"""

STEP = """
## {n}. {title}

{words}

```diff
{diff}
```

```text
$ framelift run broken_model.py
{summary}
```
"""

END = """
One graph, one entry, nothing compiled again: what `fullgraph=True` would now accept.

```text
$ framelift explain broken_model.py
{report}
...
```
"""


def main() -> None:
    sources = list(stages())
    with tempfile.TemporaryDirectory() as folder:
        text = BEGINNING.format(
            source=sources[0][sources[0].index("class Denoiser") :],
            report=until(said(folder, sources[0], "explain"), "graphs:"),
        )
        for n, (fix, before, after) in enumerate(zip(FIXES, sources, sources[1:], strict=False), 1):
            summary = said(folder, after, "run", errors=True)
            text += STEP.format(
                n=n,
                title=capital(fix.problem),
                words=textwrap.fill(fix.words, 120),
                diff=diff(before, after),
                summary=summary,
            )
        text += END.format(report=until(said(folder, sources[-1], "explain"), "guards:"))
    Path(__file__).with_name("fixing_a_model.md").write_text(text)


def said(folder: str, source: str, command: str, errors: bool = False) -> str:
    """What a command prints of a stage; without what the model itself prints, and how long things took."""
    Path(folder, "broken_model.py").write_text(source)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "112"}
    arguments = [sys.executable, "-m", "framelift", command, "broken_model.py"]
    ran = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=environment, check=True)
    lines = (ran.stderr if errors else ran.stdout).splitlines()
    kept = (line for line in lines if not re.match(r"largest |result |  compiled in ", line))
    return "\n".join(kept)


def until(text: str, heading: str) -> str:
    return text[: text.index(f"\n{heading}\n")].rstrip()


def diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return "\n".join(line for line in list(lines)[2:])


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    main()
