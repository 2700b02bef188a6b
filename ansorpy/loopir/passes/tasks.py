"""Give every phase a number of tasks: parallel loops with constant extents.

for i in 4 parallel: for j in min(3, 10 - 3 i) parallel: body
    ->  for i in 4 parallel: for j in 3 parallel: if j < min(3, 10 - 3 i): body
"""

from dataclasses import replace

from ansorpy.loopir.nodes import For, If, LoopKind, Program, Stmt
from ansorpy.loopir.rewrite import map_phases
from ansorpy.te.expr import Binary, Const, Expr, Var
from ansorpy.te.intervals import Interval, bounds


def tasks(program: Program) -> Program:
    """Return the program whose parallel loops have constant extents.

    Needs a bound program, before it is peeled. Keeps the meaning. Afterwards the parallel loops
    of a phase are perfectly nested and their extents are Const.
    """
    return map_phases(program, lambda body: _tasks(body, {}, None))


def _tasks(stmt: Stmt, ranges: dict[str, Interval], guard: Expr | None) -> Stmt:
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.PARALLEL:
        return stmt if guard is None else If(guard, stmt)
    most = bounds(stmt.extent, ranges)[1]
    if not isinstance(stmt.extent, Const):
        test = Binary("lt", Var(stmt.var), stmt.extent)
        guard = test if guard is None else Binary("and", guard, test)
    inside = {**ranges, stmt.var: (0, most - 1)}
    return replace(stmt, extent=Const(most), body=_tasks(stmt.body, inside, guard))
