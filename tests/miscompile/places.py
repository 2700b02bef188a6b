"""Wrong tails, wrong addresses, wrong padding."""

from dataclasses import replace
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Var
from ansorpy.loopir.nodes import If, Stmt, Tile
from tests.miscompile.edits import (
    branch,
    drop,
    edit,
    exchanged,
    exprs,
    longer,
    loop,
    masked,
    number,
    on_axis,
    operator,
    otherwise,
    placed,
    plus,
    reading,
    renamed,
    started,
    tile,
    unguarded,
)
from tests.miscompile.mutant import Mutant

WRAP: Final = 2**31


def no_mask(mask: Expr | None) -> None:
    return None


def without_else(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, If)
    return replace(stmt, other=None)


def of_32_bits(expr: Expr) -> Expr | None:
    """Wrap the dividend of a mod as int32 arithmetic does."""
    match expr:
        case Binary("mod", a, Const(1009)):
            moved = Binary("mod", Binary("add", a, Const(WRAP)), Const(2 * WRAP))
            return Binary("mod", Binary("sub", moved, Const(WRAP)), Const(1009))
        case _:
            return None


def modless(expr: Expr) -> Expr | None:
    """Take every element for one of those that the stride hits."""
    match expr:
        case Binary("eq", Binary("mod"), _):
            return Const(True, "bool")
        case _:
            return None


def columns_first(row: Expr, column: Expr) -> tuple[Expr, Expr]:
    """Take the flat index of an element of 9 x 37 apart as if the array were stored by columns."""
    flat = Binary("add", Binary("mul", row, Const(37)), column)
    return Binary("mod", flat, Const(9)), Binary("floordiv", flat, Const(9))


def half(stmt: Stmt) -> Stmt:
    """Start only the first eight lanes."""
    assert isinstance(stmt, Tile)
    assert stmt.lane is not None
    return replace(stmt, mask=Binary("lt", Var(stmt.lane[0]), Const(8)))


PLACES: Final = (
    Mutant("tail mask one too wide", "matmul packed", edit(tile("C"), exprs(number(21, 22)), None)),
    Mutant(
        "tail mask one too narrow", "matmul packed", edit(tile("C"), exprs(number(21, 20)), None)
    ),
    Mutant(
        "tail mask missing at the store", "matmul packed", edit(tile("C"), masked(no_mask), None)
    ),
    Mutant(
        "tail mask missing in a vector loop",
        "softmax",
        edit(tile("softmax", masked=True), masked(no_mask)),
    ),
    Mutant(
        "tail mask one lane short while accumulating",
        "matmul packed",
        edit(tile("C.local", "sum"), exprs(number(21, 20))),
    ),
    Mutant(
        "tail lanes of garbage are combined",
        "row max",
        edit(tile("out.lanes0", "max", masked=True), masked(no_mask)),
    ),
    Mutant("half of the lanes not started", "layer norm", edit(tile("total.lanes0", None), half)),
    Mutant("epilogue dropped", "softmax", edit(tile("softmax", masked=True), drop)),
    Mutant(
        "epilogue at the wrong place",
        "softmax",
        edit(tile("exponent", masked=True), exprs(reading("X", on_axis(1, lambda e: plus(e, -1))))),
    ),
    Mutant("epilogue of rows dropped", "matmul packed", edit(branch, without_else, -1)),
    Mutant("last row of tiles skipped", "matmul packed", edit(loop("C:i.0"), longer(-1))),
    Mutant("last vector skipped", "scattered", edit(loop("out:i"), longer(-1))),
    Mutant("first row skipped", "gelu", edit(loop("C:i.2"), started(1))),
    Mutant("one row too many", "gelu", edit(loop("gelu:i"), longer(1))),
    Mutant(
        "one row too many is read", "matmul long in place", edit(loop("C.local:k.0"), longer(1))
    ),
    Mutant(
        "one slice too many of an operand",
        "conv2d padded whole",
        edit(loop("conv.local:rh.0"), longer(1)),
    ),
    Mutant(
        "wrong stride of the tile",
        "matmul packed",
        edit(
            tile("C"),
            placed(
                on_axis(
                    0, lambda e: Binary("add", Binary("mul", Var("C:i.0"), Const(3)), Var("C:i.1"))
                )
            ),
        ),
    ),
    Mutant(
        "wrong stride of a window",
        "max pool",
        edit(
            tile("pool.acc", "max"),
            exprs(reading("pad", on_axis(2, lambda e: plus(Var("pool:h"), 0)))),
            None,
        ),
    ),
    Mutant(
        "wrong dilation of lanes",
        "max pool, lanes in the window",
        edit(
            tile("pool.lanes0.acc", "max"),
            exprs(
                reading(
                    "pad", on_axis(3, lambda e: Binary("add", Var("pool:w"), Var("pool:rx.v.l")))
                )
            ),
            None,
        ),
    ),
    Mutant("transposed store", "matmul square", edit(tile("C"), placed(exchanged(0, 1)))),
    Mutant(
        "rows of the result in reverse",
        "matmul square",
        edit(tile("C"), placed(on_axis(0, lambda e: Binary("sub", Const(7), e)))),
    ),
    Mutant(
        "operands swapped",
        "matmul square",
        edit(
            tile("C.local", "sum"),
            exprs(reading("C.local.B.pack", lambda i: (*i[:2], Var("C.local:i.3")))),
            None,
        ),
    ),
    Mutant(
        "pack in reverse order",
        "matmul square",
        edit(tile("C.local.B.pack"), placed(on_axis(2, lambda e: Binary("sub", Const(7), e)))),
    ),
    Mutant(
        "pack of one tile for all",
        "matmul packed",
        edit(tile("C.local.A.pack"), exprs(renamed("C.local.A.pack:@tile", Const(0)))),
    ),
    Mutant(
        "pack read along the wrong term",
        "matmul packed",
        edit(
            tile("C.local", "sum"),
            exprs(reading("C.local.A.pack", on_axis(1, lambda e: Var("C.local:k.1")))),
            None,
        ),
    ),
    Mutant(
        "weights packed transposed",
        "conv2d",
        edit(tile("conv.local.W.pack"), exprs(reading("W", exchanged(2, 3)))),
    ),
    Mutant(
        "attached region at the wrong base",
        "conv2d",
        edit(tile("pad"), exprs(renamed("conv:w.1", Const(0)))),
    ),
    Mutant("attached region one row short", "conv2d", edit(loop("pad:h"), longer(-1))),
    Mutant(
        "attached region one column short",
        "conv2d",
        edit(tile("pad"), masked(lambda _: Binary("lt", Var("pad:w.v.l"), Const(2)))),
    ),
    Mutant(
        "padding offset lost",
        "conv2d padded whole",
        edit(tile("pad"), exprs(reading("X", on_axis(3, lambda e: Var("pad:w.v.l"))))),
    ),
    Mutant("padding guard missing", "conv2d padded whole", edit(tile("pad"), exprs(unguarded))),
    Mutant("padding guard missing in scratch", "conv2d", edit(tile("pad"), exprs(unguarded))),
    Mutant(
        "padding guard one too wide", "conv2d padded whole", edit(tile("pad"), exprs(number(8, 9)))
    ),
    Mutant("padding guard one too narrow", "max pool", edit(tile("pad"), exprs(number(8, 7)))),
    Mutant(
        "padding guard of one axis only",
        "conv2d padded whole",
        edit(tile("pad"), exprs(operator("and", "or"))),
    ),
    Mutant("padding with the wrong value", "conv2d", edit(tile("pad"), exprs(otherwise(1.0)))),
    Mutant("max pool padded with zeros", "max pool", edit(tile("pad"), exprs(otherwise(0.0)))),
    Mutant(
        "zeros between elements forgotten",
        "transposed conv2d",
        edit(tile("spread"), exprs(modless)),
    ),
    Mutant(
        "kernel not turned",
        "transposed conv2d",
        edit(
            tile("conv.local", "sum"),
            exprs(reading("W", on_axis(2, lambda e: Var("conv.local:ry.1")))),
            None,
        ),
    ),
    Mutant(
        "wrong divisor of a fused index",
        "sum of all",
        edit(tile("out.rf.acc", "sum"), exprs(number(37, 36))),
    ),
    Mutant(
        "fused index in the wrong order",
        "squashed",
        edit(tile("out"), exprs(reading("X", lambda i: columns_first(*i))), None),
    ),
    Mutant("index of 32 bits wraps around", "scattered", edit(tile("out"), exprs(of_32_bits))),
)
