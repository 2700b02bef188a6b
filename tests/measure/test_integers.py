import math

import pytest

from ansorpy import te
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.measure.verify.exactness import exact_magnitude, exact_on_integers
from ansorpy.te.dag import Axis, Compute, Dag, Placeholder
from tests.measure.fake import matmul

A = Read("A", (Var("i"),), "float32")
ZERO = Const(0.0, "float32")


def over(body: Expr, dtype: str = "float32", combiner: str | None = None, extent: int = 8) -> Dag:
    axis = (Axis("i", extent),)
    node = Compute(
        "C", () if combiner else axis, (body,), (dtype,), axis if combiner else (), combiner
    )
    return Dag((Placeholder("A", (extent,)), node), ("C",))


@pytest.mark.parametrize(
    ("body", "exact"),
    [
        (Binary("max", A, ZERO), True),
        (Binary("mul", A, A), True),
        (Binary("add", A, Const(0.5, "float32")), False),
        (Binary("max", A, Const(0.5, "float32")), True),  # a literal is only passed on
        (Binary("max", A, Const(0.1, "float32")), False),  # ... unless it is rounded itself
        (Select(Binary("lt", Var("i"), Const(4)), A, Const(-math.inf, "float32")), True),
        (Binary("mul", Select(Binary("lt", A, ZERO), A, Const(math.inf, "float32")), A), False),
        (Call("exp", A), False),
        (Binary("div", A, Const(3.0, "float32")), False),
        (Call("abs", Call("neg", A)), True),
        (Binary("mul", Binary("min", Const(9.0, "float32"), A), Const(2.0**21, "float32")), True),
        (Cast("uint8", Binary("max", A, ZERO)), True),
        (Cast("uint8", A), False),
        (Cast("float32", Var("i")), True),
        (Binary("mul", A, Const(2.0**24, "float32")), False),
    ],
    ids=str,
)
def test_exactness_of_expressions(body: Expr, exact: bool) -> None:
    assert exact_on_integers(over(body, body.dtype)) is exact


def test_int8_is_exact_only_within_its_range() -> None:
    doubled = Cast("int8", Binary("mul", A, Const(100.0, "float32")))
    assert exact_on_integers(over(doubled, "int8"))
    assert not exact_on_integers(over(doubled, "int8"), magnitude=2)


def test_long_sums_need_small_numbers() -> None:
    assert exact_magnitude(matmul(1, 1, 512)) == 8
    assert exact_magnitude(matmul(1, 1, (1 << 24) // 16)) == 2
    assert exact_magnitude(matmul(1, 1, 1 << 24)) == 0
    assert exact_magnitude(matmul(1, 1, 1 << 24, "float64")) == 8


def test_products_are_exact_on_ones() -> None:
    assert exact_magnitude(over(A, combiner="prod", extent=64)) == 1
    assert exact_magnitude(over(A, combiner="prod", extent=7)) == 8


@pytest.mark.parametrize(("start", "exact"), [(2.0, True), (0.5, False)])
def test_a_sum_from_a_number_that_is_no_integer_is_not_exact(start: float, exact: bool) -> None:
    x = te.placeholder((4, 8), "x", "bfloat16")
    k = te.reduce_axis((0, 8), "k")
    begun = te.const(start, "bfloat16")
    dag = te.dag(te.compute((4,), lambda i: te.sum(x[i, k], k, init=begun), "y"))
    assert exact_on_integers(dag) is exact
