"""The loops of a stage."""

from dataclasses import dataclass
from enum import Enum


class AxisKind(Enum):
    """Whether a loop indexes the output (SPATIAL) or is combined away (REDUCE)."""

    SPATIAL = "s"
    REDUCE = "r"


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a stage.

    A whole axis has `extent` and no `length`. A part of a split axis is named "i.0", "i.1" ...
    (0 outermost): inner parts have `length`, a product of named sizes whose values are open in
    a sketch; part 0 has none and takes what the inner parts leave: ceil(extent / product).
    Named sizes are "<stage>.<axis>.<part>", e.g. "C.i.2"; they are the columns of a population.
    """

    name: str
    kind: AxisKind
    axes: tuple[str, ...]  # the node axes it runs over: one, or several where fused (outer first)
    extent: int | None = None  # known only for a loop that is not part of an open split
    length: tuple[str, ...] | None = None
    annotation: str = ""  # "", "parallel", "vectorize", "unroll", "block", "vthread", "thread"

    def __str__(self) -> str:
        if self.extent is not None:
            size = str(self.extent)
        else:
            size = "?" if self.length is None else "*".join(self.length)
        mark = f" {self.annotation}" if self.annotation else ""
        return f"{self.name}:{size}{self.kind.value}{mark}"
