from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.nodes import For, If, LoopKind, Scope, Seq, Stmt
from ansorpy.loopir.passes.hoist_init import hoist_init
from tests.loopir.build import buffer, c, f32, program, read, store, v

FOUR = c(4)
SET = store("C", (c(0),), f32(0.0))
ADD = store("C", (c(0),), read("A", v("k")), "sum")


def first(*names: str) -> Expr:
    answer, *rest = [Binary("eq", v(name), c(0)) for name in names]
    for part in rest:
        answer = Binary("and", answer, part)
    return answer


def loop(var: str, body: Stmt, extent: Expr = FOUR, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, extent, body, kind)


def of(body: Stmt) -> Stmt:
    buffers = buffer("A", 4), buffer("C", 1, scope=Scope.OUTPUT)
    (phase,) = hoist_init(program(buffers, body)).phases
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
        loop("k", body, Binary("min", c(4), v("n"))),
        loop("k", body, c(0)),
        loop("k", body, kind=LoopKind.PARALLEL),
        loop("j", body),
        loop("k", Seq((If(first("k"), SET, ADD), ADD))),
    ):
        assert of(kept) == kept


def test_a_hoisted_statement_has_the_loop_at_its_first_iteration() -> None:
    start = store("C", (c(0),), read("A", v("k")))
    moved = of(loop("k", Seq((If(first("k"), start), ADD))))
    at_zero = store("C", (c(0),), read("A", c(0)))
    assert moved == Seq((at_zero, loop("k", ADD)))
