"""Draw the rooms of the project and who imports whom, from the imports themselves.

    python -m tests.rooms assistant/docs/rooms.svg

A room is a folder or a module directly below `probes/`, `recipes/` or `assistant/`. A room stands above every
room that it imports. An arrow that follows from others (a imports b, b imports c, a imports c) is left out,
so that the picture stays readable.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("probes", "recipes", "assistant")
COLOURS = {"probes": "#d8ecf8", "recipes": "#e2f3da", "assistant": "#fbeed3"}
BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 44, 26, 46, 24

Arrows = dict[str, set[str]]


def room_of(module: str) -> str:
    """Return the room of a dotted module: its first two names."""
    return ".".join(module.split(".")[:2])


def read_imports(root: Path = ROOT) -> tuple[Arrows, dict[str, int]]:
    """Return the rooms that each room imports, and the number of lines of each room."""
    arrows: Arrows = defaultdict(set)
    lines: dict[str, int] = defaultdict(int)
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if len(parts) < 2 or parts[1].startswith("__"):
                continue
            text = path.read_text("utf-8")
            here = room_of(".".join(parts))
            lines[here] += text.count("\n")
            for target in _targets(ast.parse(text)):
                there = room_of(target)
                if there != here and target.split(".")[0] in PACKAGES and "." in target:
                    arrows[here].add(there)
    return {room: {there for there in arrows[room] if there in lines} for room in lines}, dict(lines)


def _targets(tree: ast.AST) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names if "." not in node.module),
            ]
    return names


def floors(arrows: Arrows) -> dict[str, int]:
    """Return the height of each room: 0 without imports, else one more than the highest room it imports.

    Raises ValueError for rooms that import each other in a circle.
    """
    heights: dict[str, int] = {}

    def height(room: str, above: tuple[str, ...]) -> int:
        if room in above:
            raise ValueError(f"rooms in a circle: {' -> '.join((*above[above.index(room) :], room))}")
        if room not in heights:
            heights[room] = 1 + max(
                (height(there, (*above, room)) for there in sorted(arrows[room])), default=-1
            )
        return heights[room]

    for room in sorted(arrows):
        height(room, ())
    return heights


def direct_arrows(arrows: Arrows) -> Arrows:
    """Return the arrows that do not follow from other arrows."""
    reached: Arrows = {}

    def reach(room: str) -> set[str]:
        if room not in reached:
            reached[room] = set().union(*({there} | reach(there) for there in arrows[room]))
        return reached[room]

    return {
        room: {there for there in targets if not any(there in reach(other) for other in targets - {there})}
        for room, targets in arrows.items()
    }


def draw(arrows: Arrows, lines: dict[str, int]) -> str:
    """Return the picture as SVG: the ground floor at the bottom, each package in its colour."""
    heights = floors(arrows)
    rows: dict[int, list[str]] = defaultdict(list)
    for room in sorted(arrows, key=lambda name: (PACKAGES.index(name.split(".")[0]), name)):
        rows[heights[room]].append(room)
    top = max(rows)
    width = max(len(row) for row in rows.values()) * (BOX_WIDTH + GAP_X) + 2 * MARGIN
    height = (top + 1) * (BOX_HEIGHT + GAP_Y) + 2 * MARGIN
    corners = {}
    for floor, row in rows.items():
        left = (width - len(row) * (BOX_WIDTH + GAP_X) + GAP_X) / 2
        for place, room in enumerate(row):
            corners[room] = (
                left + place * (BOX_WIDTH + GAP_X),
                MARGIN + (top - floor) * (BOX_HEIGHT + GAP_Y),
            )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for room, targets in sorted(direct_arrows(arrows).items()):
        for there in sorted(targets):
            (x1, y1), (x2, y2) = corners[room], corners[there]
            start, end = (x1 + BOX_WIDTH / 2, y1 + BOX_HEIGHT), (x2 + BOX_WIDTH / 2, y2)
            parts.append(
                f'<path d="M{start[0]:.0f},{start[1]:.0f} C{start[0]:.0f},{start[1] + 30:.0f} '
                f'{end[0]:.0f},{end[1] - 30:.0f} {end[0]:.0f},{end[1]:.0f}" fill="none" stroke="#8a8a8a"/>'
            )
    for room, (x, y) in sorted(corners.items()):
        package, _, name = room.partition(".")
        parts += [
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
            f'fill="{COLOURS[package]}" stroke="#555555"/>',
            f'<text x="{x + BOX_WIDTH / 2:.0f}" y="{y + 19:.0f}" text-anchor="middle">{escape(package)}/'
            f'<tspan font-weight="bold">{escape(name)}</tspan></text>',
            f'<text x="{x + BOX_WIDTH / 2:.0f}" y="{y + 35:.0f}" text-anchor="middle" font-size="10" '
            f'fill="#555555">{lines[room]:,} lines</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(*read_imports()), "utf-8")
