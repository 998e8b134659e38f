"""How Sphinx makes the site: `make docs`. Warnings are errors there: a link that leads nowhere is one.

The pages are Markdown that reads well as it is, so two things are put in while they are read: their order
(`PAGES`), and the API reference, whose lines `::: framelift.api.compile.compile` become autodoc's directives.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))

import framelift  # noqa: E402

project = "Framelift"
author = "The Framelift authors"
release = version = framelift.__version__
copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["*.py"]
html_theme = "furo"
html_title = f"Framelift {release}"
html_copy_source = False
html_show_sourcelink = False
html_permalinks_icon = "#"
html_theme_options = {"footer_icons": []}
pygments_style, pygments_dark_style = "tango", "monokai"
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # reasons of breaks are third-level headings, and there is no second
default_role = "code"
add_module_names = False
maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

PAGES = {
    "Start": ["Quick start <self>", "from_torch_compile", "guide"],
    "Using it": [
        "training",
        "dynamic_shapes",
        "recompiles",
        "higher_order",
        "distributed",
        "backends",
        "cache",
        "first_result",
        "export",
    ],
    "When something is slow or broken": ["debugging", "fixing_a_model", "breaks"],
    "How it works": ["architecture"],
    "Compared with torch.compile": ["comparison", "torch_api", "benchmarks", "coverage", "models", "clients"],
    "Reference": ["api"],
}
"""Heading -> pages, as the site lists them."""


def setup(app: Any) -> None:
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", as_restructured_text)


def read(app: Any, page: str, source: list[str]) -> None:
    if page == "index":
        source[0] += "".join(map(contents, PAGES, PAGES.values()))
    source[0] = re.sub(r"(?m)^::: ([\w.]+)\n(?:[ ]+.*\n)*", lambda found: reference(found[1]), source[0])


def contents(heading: str, pages: list[str]) -> str:
    listed = "\n".join(pages)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{listed}\n```\n"


def reference(name: str) -> str:
    """The directive for what has this name."""
    home, _, last = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(home), last)
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"docs/api.md names {name}, which is not there: {error}") from error
    if inspect.ismodule(found):
        directive, options = "automodule", ":members:\n   :undoc-members:\n   :show-inheritance:"
    elif inspect.isclass(found):
        directive, options = "autoclass", ":members:"
    else:
        directive, options = ("autofunction" if callable(found) else "autodata"), ":no-index-entry:"
    return f"```{{eval-rst}}\n.. {directive}:: {name}\n   {options}\n```\n"


def as_restructured_text(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with `code` and doctests: what else would be markup to Sphinx is not."""
    doctest = False
    for number, line in enumerate(lines):
        doctest = line.lstrip().startswith(">>>") or (doctest and bool(line.strip()))
        if not doctest:
            lines[number] = "".join(
                part if part.startswith("`") else re.sub(r"([*|]|_\b)", r"\\\1", part)
                for part in re.split(r"(`[^`]*`)", line)
            )
