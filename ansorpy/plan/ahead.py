"""Results of the phases ahead of a plan, as packed weights, without the rest of its program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansorpy.expr.expr import Const, reads, variables
from ansorpy.loopir.join import Ahead, packs_of
from ansorpy.loopir.nodes import Buffer, Scope, Seq
from ansorpy.loopir.rewrite import stmt_exprs, stores, walk_stmt
from ansorpy.plan.bind import passes
from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.target import Target
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class _AheadOf:
    """The plan of the phases ahead; None if there is none."""

    plan: Plan | None
    names: tuple[str, ...]  # sizes that they mention


@per_plan
def _ahead_of(plan: Plan) -> _AheadOf:
    phases = tuple(phase for phase in plan.program.phases if phase.ahead)
    if not phases:
        return _AheadOf(None, ())
    parts = (part for phase in phases for part in walk_stmt(phase.body))
    found = {name for part in parts for expr in stmt_exprs(part) for name in variables(expr)}
    only = replace(plan, program=replace(plan.program, phases=phases), unsized=None)
    return _AheadOf(only, tuple(size.name for size in plan.sizes if size.name in found))


def sizes_ahead(plan: Plan, row: Sequence[int]) -> dict[str, int]:
    """Return the sizes that decide the results of the phases ahead; rows that agree share them."""
    return {name: row[plan.column[name]] for name in _ahead_of(plan).names}


def packs_of_row(plan: Plan, row: Sequence[int], target: Target) -> Mapping[Ahead, int]:
    """Return `packs_of` the program of a row; other phases are not lowered.

    Raises:
        LoweringError: the row does not fit the plan.
    """
    only = _ahead_of(plan).plan
    if only is None:
        return {}
    *_, (_, program) = passes(only, row, target)
    return packs_of(program)


def raw_weights(dag: Dag, packs: Iterable[Ahead]) -> Mapping[Ahead, int]:
    """Return the bytes of constant operands that no phase ahead reads: kernels read them as given.

    They count as packs of their own: they stay in memory, and are read in no order of the kernel.
    """
    bodies = (store.values for body, _ in packs for store in stores(body))
    read = {found.tensor for values in bodies for value in values for found in reads(value)}
    buffers = [
        Buffer(one.name, one.dtype, tuple(map(Const, one.shape)), Scope.INPUT)
        for one in dag.placeholders
        if one.constant and one.name not in read
    ]
    return {(Seq(()), (buffer,)): buffer.size_bytes for buffer in buffers}
