from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.loopir.nodes import (
    Buffer,
    For,
    If,
    LoopKind,
    Phase,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
)
from ansorpy.loopir.passes.hoist_init import hoist_init

F32 = "float32"
FOUR = Const(4)
SET = Store(("C",), (Const(0),), (Const(0.0, F32),))
ADD = Store(("C",), (Const(0),), (Read("A", (Var("k"),), F32),), "sum")


def first(*names: str) -> Expr:
    answer, *rest = [Binary("eq", Var(name), Const(0)) for name in names]
    for part in rest:
        answer = Binary("and", answer, part)
    return answer


def loop(var: str, body: Stmt, extent: Expr = FOUR, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, extent, body, kind)


def of(body: Stmt) -> Stmt:
    buffers = (
        Buffer("A", F32, (Const(4),), Scope.INPUT),
        Buffer("C", F32, (Const(1),), Scope.OUTPUT),
    )
    (phase,) = hoist_init(Program("p", buffers, (Phase("C", body),))).phases
    return phase.body


def test_the_initial_value_moves_out_of_every_loop_that_it_begins() -> None:
    inner = Seq((If(first("k", "l", "m"), SET), ADD))
    moved = of(loop("m", loop("l", loop("k", inner))))
    assert moved == Seq((SET, loop("m", loop("l", loop("k", ADD)))))


def test_hoisting_stops_at_a_loop_with_another_first_statement() -> None:
    inner = loop("k", Seq((If(first("l", "k"), SET), ADD)))
    outer = loop("l", Seq((ADD, inner)))
    guarded = Seq((ADD, If(first("l"), SET), loop("k", ADD)))
    assert of(outer) == loop("l", guarded)


def test_a_loop_that_may_be_empty_or_parallel_keeps_the_initial_value() -> None:
    body = Seq((If(first("k"), SET), ADD))
    for kept in (
        loop("k", body, Binary("min", Const(4), Var("n"))),
        loop("k", body, Const(0)),
        loop("k", body, kind=LoopKind.PARALLEL),
        loop("j", body),
        loop("k", Seq((If(first("k"), SET, ADD), ADD))),
    ):
        assert of(kept) == kept


def test_a_hoisted_statement_has_the_loop_at_its_first_iteration() -> None:
    start = Store(("C",), (Const(0),), (Read("A", (Var("k"),), F32),))
    moved = of(loop("k", Seq((If(first("k"), start), ADD))))
    at_zero = Store(("C",), (Const(0),), (Read("A", (Const(0),), F32),))
    assert moved == Seq((at_zero, loop("k", ADD)))
