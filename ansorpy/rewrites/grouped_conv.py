"""Split groups: give the groups of a grouped convolution an axis of their own."""

from dataclasses import dataclass, replace

from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, substitute, walk
from ansorpy.expr.intervals import simplify
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis, Compute, Node


@dataclass(frozen=True, slots=True)
class Grouped:
    """A spatial axis of a reduction that reads some operand by `axis // size`."""

    axis: Axis
    size: int


def find_group(node: Node) -> tuple[Grouped | None, Answer]:
    """Return the axis to split: the reads divide it by a divisor of its extent.

    All outputs of a group read the same inputs. A single axis hides that reuse behind the
    division; with an axis for the group and an axis inside it, the node is a batch of dense sums.
    """
    if not isinstance(node, Compute) or node.combiner is None or len(node.body) != 1:
        return None, no(f"{node.name} is not a reduction of one value")
    if node.start is not None:
        return None, no(f"{node.name} adds to a given tensor")
    for axis in node.axes:
        sizes = {
            int(part.b.value)
            for read in node.reads
            for index in read.indices
            for part in walk(index)
            if isinstance(part, Binary)
            and part.op == "floordiv"
            and part.a == Var(axis.name)
            and isinstance(part.b, Const)
        }
        if len(sizes) == 1:
            (size,) = sizes
            if 1 < size < axis.extent and axis.extent % size == 0:
                return Grouped(axis, size), yes(f"{node.name} reads by {axis.name} // {size}")
    return None, no(f"{node.name} divides none of its axes")


def grouped(node: Compute, grouping: Grouped) -> tuple[Compute, Compute]:
    """Return the node with the axis split in two, and a copy under the old name that joins it.

    Values, and the order of additions, do not change.
    """
    axis, size = grouping.axis, grouping.size
    group = f"{axis.name}_group"
    at = node.axes.index(axis)
    outer, inner = Axis(group, axis.extent // size), Axis(axis.name, size)
    axes = (*node.axes[:at], outer, inner, *node.axes[at + 1 :])
    ranges = {a.name: (0, a.extent - 1) for a in (*axes, *node.reduce_axes)}
    whole = Binary("add", Binary("mul", Var(group), Const(size)), Var(axis.name))
    body = simplify(substitute(node.body[0], {axis.name: whole}), ranges)
    split = replace(node, name=f"{node.name}_groups", axes=axes, body=(body,))
    variable = Var(axis.name)
    indices: tuple[Expr, ...] = tuple(
        part
        for a in node.axes
        for part in (
            (Binary("floordiv", variable, Const(size)), Binary("mod", variable, Const(size)))
            if a is axis
            else (Var(a.name),)
        )
    )
    taken = Read(split.name, indices, node.dtype)
    return split, Compute(node.name, node.axes, (taken,), node.dtypes)
