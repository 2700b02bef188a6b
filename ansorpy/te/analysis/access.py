"""Analysis of a read: the axes of the reader that index the producer, and their order."""

from dataclasses import dataclass

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Expr, Read
from ansorpy.te.analysis.answer import Answer, no, yes
from ansorpy.te.dag import Axis, Compute


@dataclass(frozen=True, slots=True)
class Access:
    """One read, seen from the spatial axes of the reader.

    Simple means that every index is a constant, or one spatial axis plus or minus a constant;
    the other fields describe simple accesses only.
    """

    read: Read
    simple: Answer
    missing: tuple[str, ...] = ()  # spatial axes that index nothing
    duplicated: tuple[str, ...] = ()  # spatial axes that index two dimensions
    in_order: bool = True  # the axes appear as the reader declares them (no transpose)

    @property
    def inlineable(self) -> Answer:
        """True if the producer may be substituted at the read without a transpose or a copy."""
        if not self.simple:
            return self.simple
        if self.duplicated:
            return no(f"{self.read} uses axis {self.duplicated[0]} twice")
        if not self.in_order:
            return no(f"{self.read} takes the axes in another order")
        return yes(f"{self.read} takes the axes as they come")

    @property
    def one_to_one(self) -> Answer:
        """True if every element of the reader takes a different element of the producer."""
        if self.simple and self.missing:
            return no(f"{self.read} lacks axis {self.missing[0]}")
        return self.inlineable


def access(node: Compute, read: Read) -> Access:
    """Describe how `node` reads through `read`. Source: ansor.md B2, simple access."""
    order = [axis.name for axis in node.axes]
    used: list[int] = []
    for index in read.indices:
        form = linear(index)
        if form is not None and not form[1]:
            continue
        name = shifted_axis(index)
        if name not in order:
            return Access(read, no(f"{read}: index {index} is not a spatial axis ± constant"))
        used.append(order.index(name))
    return Access(
        read,
        yes(f"{read}: every index is an axis ± constant"),
        missing=tuple(name for i, name in enumerate(order) if i not in used),
        duplicated=tuple(name for i, name in enumerate(order) if used.count(i) > 1),
        in_order=used == sorted(used),
    )


def shifted_axis(index: Expr) -> str | None:
    """Return the variable that `index` is, up to adding a constant; None for anything else."""
    form = linear(index)
    if form is None or list(form[1].values()) != [1]:
        return None
    return next(iter(form[1]))


def reads_by_producer(node: Compute) -> dict[str, tuple[Read, ...]]:
    """Group the reads of `node` by the name of the tensor, in order of first appearance."""
    found: dict[str, list[Read]] = {}
    for read in node.reads:
        found.setdefault(read.tensor, []).append(read)
    return {name: tuple(reads) for name, reads in found.items()}


def wide(axes: tuple[Axis, ...]) -> tuple[str, ...]:
    """Return the names of the axes that have more than one point."""
    return tuple(axis.name for axis in axes if axis.extent > 1)
