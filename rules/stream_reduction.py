"""StreamReduction: read a matrix row by row, into a block of accumulators in the first cache."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Read, variables
from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.steps import Reorder, Split
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute

VECTORS = (
    8  # of accumulators that the untiled loops keep in registers: so long a row needs no block
)
ROWS = 16  # fewer are read once in any order


@dataclass(frozen=True, slots=True)
class StreamReduction:
    """Reduce over rows: memory is walked as it lies, not down its columns.

    Condition   the stage needs no tiling; in every read that moves with a reduce axis, kept axes
                alone follow the last reduce axis, the same in all of them, and the last axis of
                the stage moves the last index by one; rows of more than 8 vectors, 16 or more
    Rewrite     (S, i)  ->  (S', i - 1); later rules are tried too. With k the innermost reduce
                axis, h w the kept axes behind it, n and r the others:
                n | h.0 w.0 | r k.0 | h.1 w.1 | k.1 | w.2
                h.1 w.1 w.2 is the block of accumulators, k.1 rows are added to w.2 at a time,
                in registers
    Not handled rows of several axes as one long axis: each is cut into tiles of its own
    Source      ours; the loop order of a matrix-vector product by columns (axpy form), Golub and
                Van Loan, Matrix Computations, section 1.1
    """

    def condition(self, at: Cursor) -> Verdict:
        """Apply, beside the others."""
        return Verdict.APPLY if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Say which axes follow the reduced one in memory, or what stands in the way."""
        facts, name, node = at.facts, at.name, at.stage.node
        if not isinstance(node, Compute) or not node.reduce_axes or not node.axes:
            return no(f"{name} reduces nothing, or all")
        if facts.divided(name) or facts.serves(name) or node.attrs.no_split_inner:
            return no(f"the loops of {name} are already divided, or kept whole")
        reuse = facts.needs_tiling(name)
        if reuse:
            return no(f"{reuse.why}: it is tiled")
        last, inner = _rows(node)
        if not inner:
            return no(f"{name} does not read rows behind its reduce axes")
        extents = {axis.name: axis.extent for axis in node.axes}
        row, most = prod(extents[axis] for axis in inner), VECTORS * at.target.lanes(node.dtype)
        _, count = facts.points(name)
        if row <= most or count < ROWS:
            return no(f"{name} has {count} rows of {row}: registers hold {most} sums")
        return yes(f"{name} reduces {count} rows of {row} elements, along {last}")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        node, name = at.stage.node, at.name
        assert isinstance(node, Compute)  # as the condition found
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

    ("", ()) where the reads that move with a reduce axis do not agree, or the last axis of the
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
