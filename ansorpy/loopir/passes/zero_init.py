"""Start sums of a matrix instruction at zero in its registers instead of storing zeros first.

C[i, j] = 0;  C[i, j] += A[i, k] * B[k, j] on matrices      ->      the second alone, from 0
C[i, j] = 0;  for k in 4: C[i, j] += ...  ->  k = 0 from 0;  for k in 3: C[i, j] += ... k + 1
"""

from dataclasses import replace

from ansorpy.expr.expr import Binary, Const, Expr, Var, variables
from ansorpy.loopir.nodes import For, LoopKind, Program, Seq, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, seq, substitute_stmt, walk_stmt


def zero_init(program: Program) -> Program:
    """Return the program without stores of zeros that only a matrix instruction reads.

    Needs        a tiled program.
    Keeps        the meaning.
    After        a matrix tile directly after zeros of its target starts its sums at zero itself,
                 also if both are in equal loops whose iterations have different elements; no
                 sequence is an element of a sequence, for `promote_accumulators`.
    Not handled  zeros under a mask.
    """
    return map_phases(program, _freshened)


def _freshened(body: Stmt) -> Stmt:
    tiles = (stmt for stmt in walk_stmt(body) if isinstance(stmt, Tile))
    sums = any(tile.matrix is not None for tile in tiles)
    return map_stmt(body, _fresh if sums else _flat)


def _flat(stmt: Stmt) -> Stmt:
    return seq(*stmt.stmts) if isinstance(stmt, Seq) else stmt


def _fresh(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Seq):
        return stmt
    done: list[Stmt] = []
    for part in stmt.stmts:
        joined = _joined(done[-1], part) if done else None
        if joined is None:
            done.append(part)
        else:
            done[-1] = joined
    return seq(*done)


def _joined(zeros: Stmt, sums: Stmt, loops: tuple[str, ...] = ()) -> Stmt | None:
    match zeros, sums:
        case For(kind=LoopKind.SERIAL), For(kind=LoopKind.SERIAL) if zeros.var == sums.var:
            if zeros.extent != sums.extent:
                return None
            body = _joined(zeros.body, sums.body, (*loops, sums.var))
            return None if body is None else replace(sums, body=body)
        case _, For(var=var, extent=Const(value=extent), kind=LoopKind.SERIAL):
            first = _joined(zeros, substitute_stmt(sums.body, {var: Const(0)}), loops)
            if first is None or extent == 1:
                return first
            later = {var: Binary("add", Var(var), Const(1))}
            rest = replace(sums, extent=Const(extent - 1), body=substitute_stmt(sums.body, later))
            return Seq((first, rest))
        case Tile(), Tile() if sums.matrix is not None and _sets(zeros, sums, loops):
            return replace(sums, matrix=replace(sums.matrix, fresh=True))
        case _:
            return None


def _sets(zeros: Tile, sums: Tile, loops: tuple[str, ...]) -> bool:
    """Return True if a tile sets the targets of another to zero, and all loops move them."""
    used = frozenset[str]().union(*map(variables, sums.store.index))
    return (
        zeros.store.combiner is None
        and zeros.store.buffers == sums.store.buffers
        and zeros.store.index == sums.store.index
        and _is_zero(zeros.store.values[0])
        and zeros.mask is None
        and zeros.lanes == sums.lanes
        and zeros.dims == tuple(pair for pair in sums.dims if pair[0] in used)
        and set(loops) <= used
    )


def _is_zero(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == 0
