"""Reductions that start, go on or end wrongly."""

from dataclasses import replace
from math import inf
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Read, Select, Var
from ansorpy.loopir.nodes import For, If, Seq, Stmt, Store, Tile
from tests.miscompile.edits import (
    both,
    combined,
    drop,
    edit,
    exprs,
    longer,
    loop,
    masked,
    number,
    operator,
    renamed,
    rewrite,
    started,
    tile,
    twice,
    valued,
)
from tests.miscompile.mutant import Mutant

K: Final = "C.local:k.1"
LANE: Final = "out:k.v.l"


def blocks(stmt: Stmt) -> bool:
    """Pick an accumulator's start with the blocks of k behind it."""
    match stmt:
        case Seq(
            (Tile(store=Store(buffers=("C.local",), combiner=None)), For(var="C.local:k.0"), *_)
        ):
            return True
        case _:
            return False


def in_every_block(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, Seq)
    start, loop_, *rest = stmt.stmts
    assert isinstance(loop_, For)
    return Seq((replace(loop_, body=Seq((start, loop_.body))), *rest))


def after_the_first_block(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, Seq)
    start, loop_, *rest = stmt.stmts
    assert isinstance(loop_, For)
    late = If(Binary("eq", Var(loop_.var), Const(0)), start)
    return Seq((start, replace(loop_, body=Seq((loop_.body, late))), *rest))


def one_element(stmt: Stmt) -> Stmt:
    """Leave the last of 2304 terms out of one element only."""
    here = [
        Binary("eq", Var(name), Const(0))
        for name in ("C.local:i.3", "C.local:j.3.n", "C.local:j.3.l")
    ]
    last = Binary("eq", Var("C.local:k.0"), Const(2303))
    lost = Binary("and", last, Binary("and", here[0], Binary("and", here[1], here[2])))
    none = Const(0.0, "float32")
    return valued(lambda value: Select(lost, none, value))(stmt)


def falling(expr: Expr) -> Expr:
    """Turn the order of the 37 indices, and with it which of equal values wins."""
    return Binary("sub", Const(36), expr)


def risen(stmt: Stmt) -> Stmt:
    """Turn the answer back once it stands."""
    index = (Var("out:i"),)
    back = Store(("out.1",), index, (falling(Read("out.1", index, "int64")),))
    return Seq((stmt, Tile((), (), back)))


FALLING: Final = edit(tile("out.lanes0", "argmax"), valued(falling, 1), None)

SUMS: Final = (
    Mutant("init dropped, register tile", "matmul square", edit(tile("C.local", None), drop)),
    Mutant("init dropped, blocks of k", "matmul packed", edit(tile("C.local", None), drop, 1)),
    Mutant(
        "init dropped, scratch",
        "matmul scratch",
        edit(tile("C.local.acc", None, masked=False), drop),
    ),
    Mutant("init dropped, lanes", "layer norm", edit(tile("total.lanes0", None), drop)),
    Mutant("init dropped, partial sums", "softmax", edit(tile("total.rf.acc", None), drop)),
    Mutant("init in every block of k", "matmul packed", edit(blocks, in_every_block)),
    Mutant("init in one block too late", "matmul packed", edit(blocks, after_the_first_block)),
    Mutant(
        "wrong identity of sum",
        "matmul packed",
        edit(tile("C.local", None), valued(rewrite(number(0.0, 1.0))), None),
    ),
    Mutant(
        "wrong identity of product",
        "row product",
        edit(tile("out", None), valued(rewrite(number(1.0, 0.0)))),
    ),
    Mutant(
        "wrong identity of max",
        "row max",
        edit(tile("out.lanes0.acc", None, masked=False), valued(rewrite(number(-inf, 0.0)))),
    ),
    Mutant(
        "wrong identity of min",
        "column min",
        edit(tile("out.acc", None), valued(rewrite(number(inf, 0.0)))),
    ),
    Mutant(
        "wrong identity of argmax",
        "argmax",
        edit(tile("out.lanes0", None), valued(rewrite(number(-inf, 0.0)))),
    ),
    Mutant(
        "wrong combiner, max for sum",
        "matmul packed",
        edit(tile("C.local", "sum"), combined("max")),
    ),
    Mutant(
        "wrong combiner, min for max",
        "max pool",
        edit(tile("pool.acc", "max"), combined("min"), -1),
    ),
    Mutant(
        "wrong combiner, overwriting", "matmul packed", edit(tile("C.local", "sum"), combined(None))
    ),
    Mutant(
        "wrong combiner, sum of products", "row product", edit(tile("out", "prod"), combined("sum"))
    ),
    Mutant("last term skipped", "matmul packed", edit(loop(K), exprs(number(7, 6)), None)),
    Mutant(
        "last term skipped, 2304 terms",
        "matmul long in place",
        edit(loop("C.local:k.0"), longer(-1)),
    ),
    Mutant(
        "last term skipped, 2304 terms, one element",
        "matmul long in place",
        edit(tile("C.local", "sum"), one_element),
        case="small-integer",
    ),
    Mutant("first term skipped", "matmul packed", edit(loop(K), started(1), None)),
    Mutant("one term too many", "matmul packed", edit(loop(K), longer(1), None)),
    Mutant(
        "ragged block taken for a full one",
        "matmul packed",
        edit(loop(K), exprs(operator("min", "max")), None),
    ),
    Mutant(
        "last block of k skipped, 2304 terms", "matmul long", edit(loop("C.local:k.0"), longer(-1))
    ),
    Mutant(
        "unrolled copies of one index",
        "matmul square",
        edit(tile("C.local", "sum"), exprs(number(4, 3)), -1),
    ),
    Mutant("unrolled copy lost", "matmul square", edit(tile("C.local", "sum"), drop, -1)),
    Mutant("unrolled copy doubled", "matmul square", edit(tile("C.local", "sum"), twice, 2)),
    Mutant("a task accumulates twice", "matmul packed", edit(loop(K), twice)),
    Mutant("block of k accumulated twice", "gelu", edit(loop("C:k.1"), twice)),
    Mutant("partial sum lost", "softmax", edit(loop("total:k.0"), longer(-1))),
    Mutant("partial sum taken twice", "sum of all", edit(tile("out.acc", "sum"), twice)),
    Mutant(
        "partial sums start at the wrong term",
        "sum of all",
        edit(tile("out.rf.acc", "sum"), exprs(number(87, 86))),
    ),
    Mutant(
        "one lane lost",
        "layer norm",
        edit(tile("total", "sum"), masked(lambda _: Binary("lt", Var("total:k.v.l"), Const(15)))),
    ),
    Mutant(
        "one vector of lanes lost",
        "softmax",
        edit(tile("maximum", "max"), exprs(renamed("maximum:k.v.n", Const(0)))),
    ),
    Mutant(
        "lanes combined without the tail",
        "row max",
        edit(tile("out.lanes0", "max", masked=True), drop),
    ),
    Mutant(
        "argmax: lanes in reverse order",
        "argmax",
        edit(
            tile("out.lanes0", "argmax"),
            valued(rewrite(renamed(LANE, Binary("sub", Const(7), Var(LANE)))), 1),
        ),
    ),
    Mutant(
        "argmax: index without its block",
        "argmax",
        edit(tile("out.lanes0", "argmax"), valued(rewrite(renamed("out:k", Const(0))), 1)),
    ),
    Mutant(
        "argmax: partial indices without their block",
        "argmax by partials",
        edit(tile("out.rf.acc", "argmax"), valued(rewrite(number(19, 0)), 1)),
    ),
    Mutant(
        "argmax: the last of equal values wins",
        "argmax",
        both(FALLING, edit(tile("out", "argmax"), risen)),
    ),
    Mutant(
        "argmax: the last of equal values in a lane",
        "argmax",
        both(FALLING, edit(tile("out", "argmax"), valued(falling, 1))),
    ),
    Mutant(
        "argmax: the last of equal values among lanes",
        "argmax",
        both(edit(tile("out", "argmax"), risen), edit(tile("out", "argmax"), valued(falling, 1))),
    ),
    Mutant(
        "argmax: tail forgotten", "argmax", edit(tile("out.lanes0", "argmax", masked=True), drop)
    ),
)
