"""Looks at the site that was built: `python docs/check_site.py build/site`.

Every link, picture and anchor leads to something that is there, nothing is loaded from elsewhere, and the API
page has every public name. (Sphinx checks links between pages of text; here is what came out of it.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import framelift

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements that fetch something, by the attribute that says what."""


@dataclass
class Page(HTMLParser):
    path: Path
    links: list[tuple[str, str]] = field(default_factory=list)
    """(element, address)"""
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.ids |= {value for name in ("id", "name") if (value := found.get(name))}
        address = found.get(LOADED.get(tag, "href"))
        if address is not None and found.get("rel") != "canonical":
            self.links.append((tag, address))


def problems(site: Path) -> Iterator[str]:
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"there is no page in {site}"
    for page in pages.values():
        if page.path.name != "404.html":  # whose links are to where the site is published
            yield from problems_of(page, pages, site)
    api = pages.get(site / "api.html")
    texts = api.path.read_text(encoding="utf-8") if api else ""
    for name in framelift.__all__:
        home = framelift._HOMES.get(name, "framelift.core.errors")
        if not any(f'id="{home}{end}"' in texts for end in ("", f".{name}", f".{CLASSES.get(name)}")):
            yield f"docs/api.md has no framelift.{name}"


CLASSES = {"compile_records": "CompileRecords", "config": "Config", "exc": "FrameliftError"}
"""Names that are instances, or a module, by a class that is shown for them."""


def problems_of(page: Page, pages: dict[Path, Page], site: Path) -> Iterator[str]:
    where = page.path.relative_to(site)
    for tag, address in page.links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if tag in LOADED and parts.scheme != "data":
                yield f"{where} loads {address}"
            continue
        target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            yield f"{where}: {address} leads nowhere"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
            yield f"{where}: there is no {address}"


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    found = list(problems(site))
    for problem in found:
        print(f"docs: {problem}", file=sys.stderr)
    if not found:
        print(f"docs: {len(list(site.rglob('*.html')))} pages in {sys.argv[1]}, every link leads somewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
