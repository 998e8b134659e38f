"""A graph as a drawing: layered from inputs to outputs, laid out by `fast-sugiyama`.

The library gives places to nodes of one size; where an edge passes a layer it has a place there too, and is
drawn through these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from framelift.core.versions import DISTRIBUTION
from framelift.report.highlights import Data, kind

WIDTH, HEIGHT = 168, 44
"""Of a node."""
ACROSS, DOWN = 192, 84
"""From one node to the next beside it, and from one layer to the next."""
LETTERS = 22
"""How many fit into a node."""
MOST = 2000
"""A drawing of more nodes than these shows nobody anything."""
NO_LAYOUT = f"The picture needs the package fast-sugiyama: pip install {DISTRIBUTION}[report]."
TOO_MANY = "A picture of {0} nodes would show nobody anything; the table has them all."


@dataclass
class Box:
    x: float
    y: float
    title: str
    detail: str
    full: str
    kind: str
    """`input`, `op`, `attribute` or `output`."""
    name: str


@dataclass
class Picture:
    width: float = 0
    height: float = 0
    boxes: list[Box] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    """As paths of SVG."""
    problem: str = ""
    """Why there is no picture, if there is none."""


def of(graph: Data) -> Picture:
    nodes = [*labelled(graph)]
    edges = [(taken, node["name"]) for node in graph["ops"] for taken in node["takes"]]
    edges += [(node["name"], OUTPUT) for node in graph["outputs"]]
    if len(nodes) > MOST:
        return Picture(problem=TOO_MANY.format(len(nodes)))
    try:
        from fast_sugiyama import from_edges
    except ImportError:
        return Picture(problem=NO_LAYOUT)
    places: dict[Any, tuple[float, float]] = {}
    ways: list[list[Any]] = []
    left = 0.0
    for found, _, _, links in from_edges(edges, vertex_spacing=1, dummy_vertices=True) if edges else ():
        own = dict(found)
        first, top = min(x for x, _ in own.values()), max(y for _, y in own.values())
        places |= {name: (x - first + left, top - y) for name, (x, y) in own.items()}
        left = max(x for x, _ in places.values()) + 1
        ways += followed(list(links or ()), {box.name for box in nodes})
    for box in nodes:  # what nothing uses
        if box.name not in places:
            places[box.name], left = (left, 0.0), left + 1
    return drawn(nodes, places, ways)


OUTPUT = "the output"


def labelled(graph: Data) -> list[Box]:
    """The nodes, not placed yet."""
    boxes = []
    for key, sort in (("inputs", "input"), ("attributes", "attribute"), ("ops", "op")):
        for node in graph[key]:
            title = node.get("is") or node["target"]
            short = title if sort != "op" else title.rpartition(".")[2] or title
            full = f"{node['name']} = {title} {kind(node)}".rstrip()
            boxes.append(Box(0, 0, shortened(short), shortened(kind(node)), full, sort, node["name"]))
    count = len(graph["outputs"])
    if count:
        words = f"{count} value{'' if count == 1 else 's'}"
        boxes.append(Box(0, 0, "output", words, f"output: {words}", "output", OUTPUT))
    return boxes


def shortened(text: str) -> str:
    """The end of a path says most."""
    return text if len(text) <= LETTERS else "…" + text[1 - LETTERS :]


def followed(links: list[tuple[Any, Any]], names: set[str]) -> list[list[Any]]:
    """Each edge from node to node, through the places that it passes."""
    after = {begin: end for begin, end in links if begin not in names}
    ways = []
    for begin, end in links:
        if begin in names:
            way = [begin, end]
            while way[-1] not in names:
                way.append(after[way[-1]])
            ways.append(way)
    return ways


def drawn(boxes: list[Box], places: dict[Any, tuple[float, float]], ways: list[list[Any]]) -> Picture:
    margin = 12
    for box in boxes:
        x, y = places[box.name]
        box.x, box.y = x * ACROSS + margin, y * DOWN + margin
    centres = {
        name: (x * ACROSS + margin + WIDTH / 2, y * DOWN + margin + HEIGHT / 2)
        for name, (x, y) in places.items()
    }
    return Picture(
        width=max((box.x for box in boxes), default=0) + WIDTH + margin,
        height=max((box.y for box in boxes), default=0) + HEIGHT + margin,
        boxes=boxes,
        edges=[path([centres[name] for name in way]) for way in ways],
    )


def path(points: list[tuple[float, float]]) -> str:
    """From the lower side of a node to the upper one of another, upright where it passes a layer."""
    (x, y), last = points[0], len(points) - 1
    y += HEIGHT / 2
    text = f"M{x:.0f},{y:.0f}"
    for n, (to, down) in enumerate(points[1:], 1):
        above = down - HEIGHT / 2 - (ARROW if n == last else 0)
        half = (y + above) / 2
        text += f"C{x:.0f},{half:.0f} {to:.0f},{half:.0f} {to:.0f},{above:.0f}"
        x, y = to, above
        if n != last:
            y = down + HEIGHT / 2
            text += f"V{y:.0f}"
    return text


ARROW = 5
"""What the head of an arrow takes."""
