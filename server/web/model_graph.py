"""The graph of the groups of a model as rows of an SVG, coloured by their share of the time.

A row is a call of a kernel, in the order in which they run. A line at the left joins a row with
a later row that reads its result and is not its neighbour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.model.outline import OutlinedPart
from ansorpy.server.schemas.job import ModelProgress

ROW: Final = 26  # height of a row, in units of the view box
LEFT: Final = 96  # room for the lines that skip rows
SHOWN: Final = 200  # rows of a page
BEND: Final = 6.0  # width of a line that skips a row, times the rows
# Uses of memory in a manifest, and their names for people.
USES: Final = {
    "weights": "weights", "packed": "packed weights", "arena": "intermediates",
    "scratch": "scratch",
}  # fmt: skip
HEATS: Final = (0.0, 0.02, 0.05, 0.1, 0.2)  # least shares of the colours


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A call: name, task, share of the time (None without one), colour, and the lines into it."""

    name: str
    task: str
    y: float
    share: float | None
    heat: int
    lines: tuple[str, ...]  # paths


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Bytes of a bundle in use, as a part of the whole: its begin and length from 0 to 1."""

    name: str
    size_bytes: int
    begin: float
    share: float


def memory_parts(memory: Mapping[str, int]) -> list[MemoryPart]:
    """Return the memory plan of a bundle as parts of a bar; [] if it is not known."""
    sizes = {name: memory.get(f"{name}_bytes", 0) for name in USES}
    total, begin, parts = sum(sizes.values()), 0.0, []
    for name, size in sizes.items():
        if size:
            parts.append(MemoryPart(USES[name], size, begin, size / total))
            begin += size / total
    return parts


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """Rows from top to bottom; `left_out` further calls are not shown."""

    rows: tuple[GraphRow, ...]
    height: float
    left_out: int


def model_graph(outline: Sequence[OutlinedPart], model: ModelProgress) -> ModelGraph | None:
    """Return the graph of a model; None if its outline is not known."""
    if not outline:
        return None
    shares = {one.name: one.share / one.weight for one in model.tasks if one.share and one.weight}
    rows = [
        GraphRow(
            part.name, part.task, _y(number), shares.get(part.task), _heat(shares.get(part.task)),
            tuple(_line(read, number) for read in part.reads),
        )
        for number, part in enumerate(outline[:SHOWN])
    ]  # fmt: skip
    return ModelGraph(tuple(rows), len(rows) * ROW + 4.0, len(outline) - len(rows))


def _y(number: int) -> float:
    return number * ROW + 2.0


def _heat(share: float | None) -> int:
    return sum(share >= least for least in HEATS) if share is not None else 0


def _line(begin: int, end: int) -> str:
    """Return the path from the foot of a row to the top of the next one, or round the rows."""
    x, y0, y1 = LEFT + 14.0, _y(begin) + ROW - 4, _y(end)
    if end == begin + 1:
        return f"M{x:g} {y0:g}V{y1:g}"
    left = max(4.0, LEFT - BEND * (end - begin) - 10)
    middle = (_y(begin) + ROW / 2 - 2, _y(end) + ROW / 2 - 2)
    return (
        f"M{LEFT:g} {middle[0]:g}C{left:g} {middle[0]:g} {left:g} {middle[0]:g} {left:g}"
        f" {middle[0] + ROW:g}V{middle[1] - ROW:g}C{left:g} {middle[1]:g} {left:g} {middle[1]:g}"
        f" {LEFT:g} {middle[1]:g}"
    )
