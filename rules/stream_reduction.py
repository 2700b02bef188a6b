"""StreamReduction: reduce a matrix row by row into accumulators in the first-level cache."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Read, variables
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import Reorder, Split
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute

VECTORS = 8  # vectors of a row whose sums fit in registers: such a row needs no block
ROWS = 16  # rows from which the order of reading matters


@dataclass(frozen=True, slots=True)
class StreamReduction(Rule):
    """Reduce over rows in the order of memory, not down the columns.

    Condition   the stage needs no tiling; in every read that moves with a reduce axis, only kept
                axes follow the last reduce axis, the same in all reads, and the last axis of the
                stage moves the last index by one; 16 rows or more, each of more than 8 vectors
    Rewrite     (S, i)  ->  (S', i - 1); later rules are tried too. With k the innermost reduce
                axis, h w the kept axes behind it, n and r the others:
                n | h.0 w.0 | r k.0 | h.1 w.1 | k.1 | w.2
                h.1 w.1 w.2 is the block of accumulators; k.1 rows are added to w.2 at a time,
                in registers
    Not handled rows of several axes as one long axis: each axis is tiled separately
    Source      ours; the loop order of a matrix-vector product by columns (axpy form), Golub and
                Van Loan, Matrix Computations, section 1.1
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the rows and the reduced axis, or the obstacle."""
        facts, name, node = at.facts, at.name, at.stage.node
        if not isinstance(node, Compute) or not node.reduce_axes or not node.axes:
            return no(f"cannot stream {name}: it has no reduce axis, or no kept axis")
        if facts.divided(name) or facts.serves(name) or node.attrs.no_split_inner:
            return no(f"cannot stream {name}: its loops are already split, or stay whole")
        reuse = facts.needs_tiling(name)
        if reuse:
            return no(f"cannot stream {name}: it is tiled, {reuse.why}")
        last, inner = _rows(node)
        if not inner:
            return no(f"cannot stream {name}: its reads have no common row behind the reduce axes")
        extents = {axis.name: axis.extent for axis in node.axes}
        row, most = prod(extents[axis] for axis in inner), VECTORS * at.target.lanes(node.dtype)
        _, count = facts.points(name)
        if row <= most or count < ROWS:
            return no(
                f"{name} needs no stream: {count} rows of {row}, and registers hold {most} sums"
            )
        return yes(f"{name} reduces {count} rows of {row} elements, along {last}")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        node, name = at.stage.node, at.name
        assert isinstance(node, Compute)  # as `explain` found
        last, inner = _rows(node)
        lane = inner[-1]
        others = [axis.name for axis in node.axes if axis.name not in inner]
        reduce = [axis.name for axis in node.reduce_axes if axis.name != last]
        state = at.state
        for axis in (*inner, last):
            state = state.do(Split(name, axis, 3 if axis == lane else 2))
        order = (
            *others, *(f"{axis}.0" for axis in inner), *reduce, f"{last}.0",
            *(f"{axis}.1" for axis in inner), f"{last}.1", f"{lane}.2",
        )  # fmt: skip
        yield at.before(state.do(Reorder(name, order)))


def _rows(node: Compute) -> tuple[str, tuple[str, ...]]:
    """Return the innermost reduce axis in memory and the kept axes behind it, as declared.

    Return ("", ()) if the reads that move with a reduce axis differ, or if the last axis of the
    node does not move the last index one element at a time.
    """
    over = {axis.name for axis in node.reduce_axes}
    found = {_row(node, read, over) for read in node.reads}
    found = {row for row in found if row[0]}
    row = found.pop() if len(found) == 1 else ("", ())
    return row if row[1] else ("", ())


def _row(node: Compute, read: Read, over: set[str]) -> tuple[str, tuple[str, ...]]:
    places = [(i, axis) for i, index in enumerate(read.indices) for axis in variables(index) & over]
    if not places:
        return "", ()
    at, last = max(places)
    seen = frozenset[str]().union(*map(variables, read.indices[at + 1 :]))
    form = linear(read.indices[-1])
    if form is None or form[1] != {node.axes[-1].name: 1}:
        return last, ()
    return last, tuple(axis.name for axis in node.axes if axis.name in seen)
