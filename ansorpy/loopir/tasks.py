"""The tasks of a phase: the iterations of its PARALLEL loops, and their number in a call."""

from dataclasses import dataclass, replace

from ansorpy.expr.expr import Binary, Const, Expr, Select, Var
from ansorpy.expr.intervals import simplify
from ansorpy.loopir.nodes import For, If, LoopKind, Phase, Stmt


@dataclass(frozen=True, slots=True)
class Tasks:
    """The PARALLEL loops of a phase, outer to inner, and the body of one task."""

    loops: tuple[tuple[str, Expr], ...]
    body: Stmt

    @property
    def number(self) -> Expr:
        """The product of the extents: the number of tasks unless the phase tells another one."""
        number: Expr = Const(1)
        for _, extent in self.loops:
            number = Binary("mul", number, extent)
        return simplify(number, {})


def split_tasks(phase: Phase) -> Tasks:
    """Split a phase into its leading PARALLEL loops and the body of a task."""
    loops, body = [], phase.body
    while isinstance(body, For) and body.kind is LoopKind.PARALLEL:
        loops.append((body.var, body.extent))
        body = body.body
    return Tasks(tuple(loops), body)


def task_count(phase: Phase) -> Expr:
    """Return the number of tasks of a call: a number, or an expression of dims."""
    return split_tasks(phase).number if phase.tasks is None else phase.tasks


def guarded(phase: Phase, guard: Expr) -> Phase:
    """Return the phase without tasks unless a condition on dims holds."""
    return replace(phase, tasks=Select(guard, task_count(phase), Const(0)))


def first_tasks(phase: Phase) -> Stmt:
    """Return the body of a phase in which tasks beyond their number in a call do nothing."""
    if phase.tasks is None:
        return phase.body
    tasks = split_tasks(phase)
    place: Expr = Const(0)
    for name, extent in tasks.loops:
        place = Binary("add", Binary("mul", place, extent), Var(name))
    body: Stmt = If(Binary("lt", place, phase.tasks), tasks.body)
    for name, extent in reversed(tasks.loops):
        body = For(name, extent, body, LoopKind.PARALLEL)
    return body
