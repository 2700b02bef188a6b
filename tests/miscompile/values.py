"""Right addresses, wrong values."""

from math import pi, sqrt
from typing import Final

from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select
from tests.miscompile.edits import (
    Rewrite,
    edit,
    exprs,
    number,
    operator,
    swapped,
    through,
    tile,
    valued,
)
from tests.miscompile.mutant import Mutant

F: Final = "float32"


def f(value: float) -> Const:
    return Const(value, F)


def narrow_product(expr: Expr) -> Expr | None:
    """Multiply before widening."""
    match expr:
        case Binary("mul", Cast("int32", a), Cast("int32", b)):
            return Cast("int32", Binary("mul", a, b))
        case _:
            return None


def unsigned(expr: Expr) -> Expr | None:
    """Widen as if without a sign."""
    match expr:
        case Cast("int32", Read() as a):
            return Cast("int32", Cast("uint8", a))
        case _:
            return None


def nearest(expr: Expr) -> Expr | None:
    """Round where truncation is due."""
    match expr:
        case Cast("int32", a):
            return Cast("int32", Call("floor", Binary("add", a, f(0.5))))
        case _:
            return None


def downward(expr: Expr) -> Expr | None:
    match expr:
        case Cast("int32", a):
            return Cast("int32", Call("floor", a))
        case _:
            return None


def towards_zero(expr: Expr) -> Expr | None:
    """Divide as C does."""
    match expr:
        case Binary("floordiv", a, b):
            turned = Binary("sub", Const(0, "int32"), a)
            inner = Binary("sub", Const(0, "int32"), Binary("floordiv", turned, b))
            return Select(Binary("lt", a, Const(0, "int32")), inner, expr)
        case _:
            return None


def signed_rest(expr: Expr) -> Expr | None:
    """Give the rest of a division the sign of the dividend, as C does."""
    match expr:
        case Binary("mod", a, b):
            turned = Binary("sub", Const(0, "int32"), a)
            inner = Binary("sub", Const(0, "int32"), Binary("mod", turned, b))
            return Select(Binary("lt", a, Const(0, "int32")), inner, expr)
        case _:
            return None


def fast_tanh(expr: Expr) -> Expr | None:
    """A fraction that is right near zero."""
    match expr:
        case Call("tanh", x):
            square = Binary("mul", x, x)
            above = Binary("mul", x, Binary("add", f(27.0), square))
            below = Binary("add", f(27.0), Binary("mul", f(9.0), square))
            return Binary("div", above, below)
        case _:
            return None


def fast_exp(expr: Expr) -> Expr | None:
    """(1 + x / 64)**64."""
    match expr:
        case Call("exp", x):
            power: Expr = Binary("add", f(1.0), Binary("mul", x, f(1 / 64)))
            for _ in range(6):
                power = Binary("mul", power, power)
            return power
        case _:
            return None


def fast_erf(expr: Expr) -> Expr | None:
    """tanh(1.1283 x + 0.1009 x**3), the usual stand-in within gelu."""
    match expr:
        case Call("erf", x):
            cube = Binary("mul", Binary("mul", x, x), x)
            inner = Binary(
                "add", Binary("mul", x, f(2 / sqrt(pi))), Binary("mul", cube, f(0.100915))
            )
            return Call("tanh", inner)
        case _:
            return None


def coarse(fn: str) -> Rewrite:
    """Compute a function in half precision."""

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Call) and expr.fn == fn:
            return Cast(F, Cast("float16", expr))
        return None

    return change


def without(fn: str) -> Rewrite:
    return lambda expr: expr.a if isinstance(expr, Call) and expr.fn == fn else None


def nan_is_small(expr: Expr) -> Expr | None:
    """Take a NaN for the smallest number, as a bare compare and select does."""
    match expr:
        case Read("X"):
            return Select(Binary("eq", expr, expr), expr, f(float("-inf")))
        case _:
            return None


def nan_is_large(expr: Expr) -> Expr | None:
    match expr:
        case Read("X"):
            return Select(Binary("eq", expr, expr), expr, f(float("inf")))
        case _:
            return None


def unshifted(expr: Expr) -> Expr | None:
    match expr:
        case Call("exp", Binary("sub", a, _)):
            return Call("exp", a)
        case _:
            return None


def other_branch(expr: Expr) -> Expr | None:
    match expr:
        case Select(cond, then, other):
            return Select(Call("not", cond), then, other)
        case _:
            return None


def nan_is_clamped(expr: Expr) -> Expr | None:
    """Clamp with one comparison, which a NaN fails."""
    match expr:
        case Binary("max", Read() as a, Const() as b) | Binary("max", Const() as b, Read() as a):
            return Select(Binary("gt", a, b), a, b)
        case _:
            return None


def once_only(expr: Expr) -> Expr:
    """Add float32 parts to a float64 sum."""
    return Cast("float64", Cast(F, expr))


VALUES: Final = (
    Mutant(
        "operands of sub swapped",
        "layer norm",
        edit(tile("layer_norm"), exprs(swapped("sub")), None),
    ),
    Mutant(
        "operands of div swapped", "softmax", edit(tile("softmax"), exprs(swapped("div")), None)
    ),
    Mutant(
        "operands of floor division swapped",
        "divided",
        edit(tile("out"), exprs(swapped("floordiv")), None),
    ),
    Mutant("sub for add", "dense", edit(tile("out"), exprs(operator("add", "sub")), -1)),
    Mutant("branches of a select swapped", "max pool", edit(tile("pad"), exprs(other_branch))),
    Mutant(
        "float16 operand",
        "matmul packed",
        edit(tile("C.local", "sum"), exprs(through("float16")), None),
    ),
    Mutant(
        "float16 operand, 2304 terms",
        "matmul long in place",
        edit(tile("C.local", "sum"), exprs(through("float16", "B"))),
    ),
    Mutant(
        "bfloat16 operand, 2304 terms",
        "matmul long in place",
        edit(tile("C.local", "sum"), exprs(through("bfloat16", "A"))),
        meaning="2**-9 of an operand is lost",
    ),
    Mutant("float16 pack", "matmul long", edit(tile("C.local.A.pack"), exprs(through("float16")))),
    Mutant(
        "float16 partial sums",
        "softmax",
        edit(tile("total.rf"), valued(lambda e: Cast(F, Cast("float16", e)))),
    ),
    Mutant(
        "float32 product in a float64 sum",
        "matmul float64",
        edit(tile("C.local", "sum"), valued(once_only)),
    ),
    Mutant("float32 result of a float64 sum", "matmul float64", edit(tile("C"), valued(once_only))),
    Mutant(
        "int8 product wraps", "matmul int8", edit(tile("C.local", "sum"), exprs(narrow_product))
    ),
    Mutant("int8 taken for uint8", "matmul int8", edit(tile("C.local", "sum"), exprs(unsigned))),
    Mutant(
        "result cut to 8 bits",
        "matmul int8",
        edit(tile("C"), valued(lambda e: Cast("int32", Cast("int8", e)))),
    ),
    Mutant("cast to the nearest integer", "rounded", edit(tile("out"), exprs(nearest), None)),
    Mutant("cast rounds down", "rounded", edit(tile("out"), exprs(downward), None)),
    Mutant("floor division towards zero", "divided", edit(tile("out"), exprs(towards_zero), None)),
    Mutant(
        "rest with the sign of the dividend", "divided", edit(tile("out"), exprs(signed_rest), None)
    ),
    Mutant("fast wrong exp", "softmax", edit(tile("exponent"), exprs(fast_exp), None)),
    Mutant("fast wrong tanh", "squashed", edit(tile("out"), exprs(fast_tanh), None)),
    Mutant("fast wrong erf", "gelu", edit(tile("gelu"), exprs(fast_erf), None)),
    Mutant(
        "rsqrt of 11 bits", "layer norm", edit(tile("layer_norm"), exprs(coarse("rsqrt")), None)
    ),
    Mutant("exp left out", "softmax", edit(tile("exponent", masked=True), exprs(without("exp")))),
    Mutant("epsilon lost", "layer norm", edit(tile("layer_norm"), exprs(number(1e-5, 0.0)), None)),
    Mutant(
        "mean over one element less",
        "layer norm",
        edit(tile("layer_norm"), exprs(number(1 / 37, 1 / 36)), None),
    ),
    Mutant("maximum not subtracted", "softmax", edit(tile("exponent"), exprs(unshifted), None)),
    Mutant(
        "NaN swallowed by a max reduction",
        "row max",
        edit(tile("out.lanes0.acc", "max"), exprs(nan_is_small), None),
    ),
    Mutant("NaN swallowed by a clamp", "clamped", edit(tile("out"), exprs(nan_is_clamped), None)),
    Mutant(
        "NaN swallowed by a min reduction, tail of lanes",
        "column min",
        edit(tile("out.acc", "min"), exprs(nan_is_large), None),
    ),
)
