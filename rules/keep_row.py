"""KeepRow: compute reductions over a row and all that follows from them in one block of threads."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.expr.expr import Expr, Read, Var, variables
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import Attached, Inlined, Root, Stage, State
from ansorpy.state.steps import Annotate, CacheRead, ComputeAt, Split
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute

LONGEST = 65536  # elements of a row: 64 registers of each of 1024 threads


@dataclass(frozen=True, slots=True)
class Row:
    """The stages of a row, which is indexed by the first `shared` axes of all of them."""

    shared: int
    extent: int  # elements of the row
    stages: tuple[str, ...]  # without the last one, in order
    read: tuple[str, ...] = ()  # tensors read along the row, more than once, at one row
    broadcast: tuple[str, ...] = ()  # tensors read along the row that are equal in all rows
    axes: tuple[tuple[str, str], ...] = ()  # (stage, axis along the row)


@dataclass(frozen=True, slots=True)
class KeepRow(Rule):
    """Give a row to a block of threads, which read it once and keep it in registers.

    Condition   the stage reduces nothing and is not attached; it is computed, directly or through
                others, from a reduction over a row, or reads a tensor equal in all rows (a scale);
                all these stages share c >= 1 leading axes, have no other readers, reduce nothing
                that needs tiling, and have one further axis, of the extent of the row, or none; a
                row has 2 to 65536 elements. A stage without a reduction is not inlineable
    Rewrite     (S, i)  ->  (S', h - 1), h the first stage of the row; no later rule is tried if
                one of the stages reduces. With n the c-th axis and j along the row:
                n j  ->  n.0 n.1 j, j bound to threads. The other stages are computed at n.1, their
                loops along the row bound to threads; so is a copy of each tensor that is read
                twice. In a second successor, the only one without a reduction, there are copies
                at n.0 of the tensors equal in all rows
    Not handled rows of several axes; a Dag that is a single row; other stages between the stages of
                a row; a copy for other readers of a tensor that the row reads
    Source      ours; as the persistent softmax of Apex and FlashAttention's norms, whose blocks
                hold a row in registers
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the stages of the row, or the obstacle."""
        return _find(at)[1]

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule if a reduction of a row is kept: it would read the row again."""
        row, _ = _find(at)
        return row is not None and any(at.facts.reduces(name) for name in row.stages)

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the successors."""
        row, _ = _find(at)
        assert row is not None  # as `explain` found
        several = ((), row.broadcast) if self.excludes_later(at) else (row.broadcast,)
        for copies in several[: 2 if row.broadcast else 1]:
            state = _attached(at.state, at.name, row, copies)
            index = state.index[(*row.stages, at.name)[0]] - 1
            while index >= 0 and _is_copied(state, state.stages[index].name):
                index -= 1
            yield at.moved(state, index)


def _is_copied(state: State, name: str) -> bool:
    """Return True for a copy for a row, and for an input that has one."""
    copies = {step.cache: step.stage for step in state.steps if isinstance(step, CacheRead)}
    of_an_input = name in copies.values() and not isinstance(state.stage(name).node, Compute)
    return isinstance(state.stage(name).location, Attached) or of_an_input


def _attached(state: State, last: str, row: Row, copies: tuple[str, ...]) -> State:
    """Return the state with all stages of a row computed together, and copies of tensors."""
    node = state.stage(last).node
    assert isinstance(node, Compute)  # as `explain` found
    axis = node.axes[row.shared - 1].name
    state = state.do(Split(last, axis, 2))
    for name in reversed(row.stages):
        state = state.do(ComputeAt(name, last, f"{axis}.1"))
    for name, along in row.axes:
        state = state.do(Annotate(name, along, "thread"))
    for name, part in (*((name, 1) for name in row.read), *((name, 0) for name in copies)):
        step = CacheRead(name, _readers(state, name, (*row.stages, last)))
        state = state.do(step, ComputeAt(step.cache, last, f"{axis}.{part}"))
        loop = state.stage(step.cache).loops[-1].name
        state = state.do(Annotate(step.cache, loop, "thread"))
    return state


def _readers(state: State, tensor: str, stages: tuple[str, ...]) -> tuple[str, ...]:
    nodes = ((name, state.stage(name).node) for name in stages)
    return tuple(
        name
        for name, node in nodes
        if isinstance(node, Compute) and any(read.tensor == tensor for read in node.reads)
    )


def _find(at: Cursor) -> tuple[Row | None, Answer]:
    """Return the row that ends at the current stage, and the reason."""
    name, node = at.name, at.stage.node
    if not isinstance(node, Compute) or at.facts.reduces(name):
        return None, no(f"cannot keep a row of {name}: it is an input, or reduces")
    if at.facts.divided(name) or at.facts.serves(name) or at.stage.location != Root():
        return None, no(f"cannot keep a row of {name}: its loops are split, or attached")
    found = [_row(at, node, n) for n in (len(node.axes) - 1, len(node.axes)) if n > 0]
    row = next((answer for answer in found if answer[0] is not None), None)
    missing = no(f"cannot keep a row of {name}: it has no axis for rows")
    return row or next(iter(found), (None, missing))


def _row(at: Cursor, last: Compute, shared: int) -> tuple[Row | None, Answer]:
    """Return the row below the first `shared` axes of a stage."""
    extents: set[int] = {axis.extent for axis in last.axes[shared:]}
    axes = dict(zip((last.name,), (axis.name for axis in last.axes[shared:]), strict=False))
    inside = [last.name]
    for stage in reversed(at.state.stages[: at.index]):
        own = _along(at, stage, last, shared, inside)
        if own is None or len(extents | {n for _, n in own}) > 1:
            continue
        extents |= {n for _, n in own}
        axes |= dict(zip((stage.name,), (axis for axis, _ in own), strict=False))
        inside.append(stage.name)
    stages = tuple(reversed(inside[1:]))
    extent = max(extents, default=0)
    if not 1 < extent <= LONGEST:
        return None, no(f"cannot keep a row of {last.name}: it has {extent} elements")
    others = _between(at, stages) if stages else []
    if others:
        return None, no(f"cannot keep a row of {last.name}: {others[0]} comes between its stages")
    read, broadcast = _outside(at, (*stages, last.name), axes)
    if len(read) > len(stages) + 1:
        return None, no(f"cannot keep a row of {last.name}: it reads {len(read)} tensors twice")
    if len(read) + len(broadcast) > len(stages) + 1:
        broadcast = ()
    reduces = any(at.facts.reduces(name) for name in stages)
    if not broadcast and not reduces:
        return None, no(f"cannot keep a row of {last.name}: it reduces no row, all rows differ")
    if not reduces and at.facts.always_inlined(last.name, everything=True):
        return None, no(f"cannot keep a row of {last.name}: it is inlined")
    why = yes(f"{', '.join(stages)} and {last.name} share rows of {extent} elements")
    return Row(shared, extent, stages, read, broadcast, tuple(axes.items())), why


def _between(at: Cursor, stages: tuple[str, ...]) -> list[str]:
    """Return the other stages with loops from the first stage of the row on."""
    return [
        stage.name
        for stage in at.state.stages[at.state.index[stages[0]] : at.index]
        if stage.name not in stages
        and isinstance(stage.node, Compute)
        and not isinstance(stage.location, Inlined)
    ]


def _along(
    at: Cursor, stage: Stage, last: Compute, shared: int, inside: list[str]
) -> tuple[tuple[str, int], ...] | None:
    """Return the axis of a stage along the row, if it has one; None for a stage of no row."""
    node, facts = stage.node, at.facts
    if not isinstance(node, Compute) or isinstance(stage.location, Inlined):
        return None
    readers = facts.consumers(stage.name)
    own = (*node.axes[shared:], *node.reduce_axes)
    fits = (
        stage.location == Root()
        and not facts.divided(stage.name)
        and not facts.serves(stage.name)
        and not (node.reduce_axes and facts.needs_tiling(stage.name))
        and stage.name not in at.state.dag.outputs
        and set(readers) <= set(inside)
        and len(own) <= 1
        and facts.common_outer(stage.name, last.name).count >= shared
    )
    return tuple((axis.name, axis.extent) for axis in own) if fits and readers else None


def _outside(
    at: Cursor, stages: tuple[str, ...], axes: dict[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tensors from outside read twice at a row, and those equal in all rows.

    Both are indexed by the axis along the row in their last dimension, and nowhere else.
    """
    reads_of: dict[str, list[Read]] = {}
    along: dict[str, list[bool]] = {}
    for name in stages:
        node = at.state.stage(name).node
        assert isinstance(node, Compute)  # a stage of a row
        axis = axes.get(name, "")
        for read in node.reads:
            if read.tensor not in stages and axis in _names(read.indices):
                reads_of.setdefault(read.tensor, []).append(read)
                plain = read.indices[-1] == Var(axis) and axis not in _names(read.indices[:-1])
                along.setdefault(read.tensor, []).append(plain)
    kept = {name: reads for name, reads in reads_of.items() if all(along[name])}
    whole = {
        name for name, reads in kept.items() if all(len(_names(r.indices)) == 1 for r in reads)
    }
    twice = tuple(name for name, reads in kept.items() if len(reads) > 1 and name not in whole)
    return twice, tuple(name for name in kept if name in whole)


def _names(indices: tuple[Expr, ...]) -> frozenset[str]:
    return frozenset[str]().union(*map(variables, indices))
