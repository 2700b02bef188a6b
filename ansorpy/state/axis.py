"""The loops of a stage."""

from dataclasses import dataclass
from enum import Enum


class AxisKind(Enum):
    """The kind of a loop: it indexes the output (SPATIAL), or is reduced (REDUCE)."""

    SPATIAL = "s"
    REDUCE = "r"


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a stage.

    A whole axis has `extent` and no `length`. The parts of a split axis are named "i.0", "i.1",
    ... (0 outermost). Inner parts have `length`, a product of named sizes whose values are open
    in a sketch; part 0 has no `length` and runs ceil(extent / product) times. Named sizes are
    "<stage>.<axis>.<part>", for example "C.i.2"; they are the columns of a population.
    """

    name: str
    kind: AxisKind
    axes: tuple[str, ...]  # axes of the node that the loop runs over, outer first; several if fused
    extent: int | None = None  # None for a part of a split with open sizes
    length: tuple[str, ...] | None = None
    annotation: str = ""  # "", "parallel", "vectorize", "unroll", "block", "vthread", "thread"

    def __str__(self) -> str:
        if self.extent is not None:
            size = str(self.extent)
        else:
            size = "?" if self.length is None else "*".join(self.length)
        mark = f" {self.annotation}" if self.annotation else ""
        return f"{self.name}:{size}{self.kind.value}{mark}"
