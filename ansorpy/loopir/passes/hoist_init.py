"""Hoist the initialisation of accumulators out of the loops that fill them.

for k: { if k == 0: C[i] = 0; C[i] += A[k, i] }      ->      C[i] = 0; for k: C[i] += A[k, i]
"""

from dataclasses import replace

from ansorpy.expr.expr import Binary, Const, Expr, Var, substitute
from ansorpy.expr.products import conjunction, conjuncts
from ansorpy.loopir.nodes import For, If, LoopKind, Program, Seq, Stmt
from ansorpy.loopir.rewrite import in_order, map_phases, map_stmt, substitute_stmt

ZERO = Const(0)


def hoist_init(program: Program) -> Program:
    """Return the program with guarded initialisations moved before their loops.

    Needs        a bound program.
    Keeps        the meaning and the order of all stores.
    After        no serial loop of constant extent begins with a guard `var == 0`; a reduction whose
                 inner loops run once can then stay in registers (see `promote_accumulators`).
    Not handled  a loop of open extent, and a guard that is not the first statement of the body.
    """
    return map_phases(program, lambda body: map_stmt(body, _begin))


def _begin(stmt: Stmt) -> Stmt:
    match stmt:
        case For(
            var=var,
            extent=Const(value=extent),
            kind=LoopKind.SERIAL,
            body=Seq(stmts=(If(cond=cond, then=then, other=None), *rest)),
        ) if extent >= 1 and rest:
            left = _without(cond, var)
            if left is None:
                return stmt
            first = substitute_stmt(then, {var: ZERO})
            if left:
                first = If(conjunction([substitute(part, {var: ZERO}) for part in left]), first)
            body = rest[0] if len(rest) == 1 else Seq(tuple(rest))
            return Seq((first, replace(stmt, body=body)))
        case Seq(stmts=stmts) if any(isinstance(part, Seq) for part in stmts):
            flat = [each for part in stmts for each in in_order(part)]
            return Seq(tuple(flat))
        case _:
            return stmt


def _without(cond: Expr, var: str) -> list[Expr] | None:
    """Return the other parts of a conjunction with `var == 0`; None for another condition."""
    parts = list(conjuncts(cond))
    test = Binary("eq", Var(var), ZERO)
    return [part for part in parts if part != test] if test in parts else None
