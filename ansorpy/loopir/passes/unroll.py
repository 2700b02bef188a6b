"""Write out the innermost reduction loop, as far as the budget goes.

for k in 64: acc += A[k]      ->      for k in 16: acc += A[4 k]; ... acc += A[4 k + 3]
"""

from collections.abc import Mapping
from dataclasses import replace

from ansorpy.loopir.nodes import For, LoopKind, Program, Seq, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, substitute_stmt
from ansorpy.te.expr import Binary, Const, Var


def unroll(program: Program, budgets: Mapping[str, int]) -> Program:
    """Return the program with innermost serial loops unrolled.

    Needs a tiled program; `budgets` gives, by stage name, how many vector statements one
    unrolled body may have. Keeps the meaning and the order of combining. Afterwards a loop of
    extent n whose body is one Tile of v vectors is written out u times, u the largest divisor
    of n with u * v within the budget.
    """

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.kind is not LoopKind.SERIAL:
            return stmt
        if not isinstance(stmt.body, Tile) or not isinstance(stmt.extent, Const):
            return stmt
        if stmt.body.mask is not None:
            return stmt
        budget = budgets.get(stmt.var.split(":", 1)[0], 0)
        return _unroll(stmt, stmt.body, int(stmt.extent.value), budget)

    return map_phases(program, lambda body: map_stmt(body, change))


def _unroll(loop: For, body: Tile, extent: int, budget: int) -> Stmt:
    vectors = 1
    for _, n in body.dims:
        vectors *= n
    times = max(
        (u for u in range(1, extent + 1) if extent % u == 0 and u * vectors <= budget), default=1
    )
    if times == 1:
        return loop
    copies = []
    for i in range(times):
        base = Binary("mul", Var(loop.var), Const(times)) if times < extent else Const(0)
        at = Binary("add", base, Const(i)) if times < extent else Const(i)
        copies.append(substitute_stmt(body, {loop.var: at}))
    if times == extent:
        return Seq(tuple(copies))
    return replace(loop, extent=Const(extent // times), body=Seq(tuple(copies)))
