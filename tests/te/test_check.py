"""The validator: proved reads, refused Dags; a refusal names place, value and limit."""

from dataclasses import replace

import pytest

from ansorpy.errors import SpecError
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.te.check import check
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Dag, Placeholder

H, K = Var("h"), Var("k")
ONE = Const(1.0, "float32")


def a(*indices: Expr) -> Read:
    return Read("A", indices, "float32")


def index(op: str, x: Expr | int, y: Expr | int) -> Binary:
    left, right = (part if not isinstance(part, int) else Const(part) for part in (x, y))
    return Binary(op, left, right)


def dag(body: Expr, extent: int = 10, input_extent: int = 10, dtype: str = "float32") -> Dag:
    """Return one node over h (extent) reduced over k (3) that reads A (input_extent)."""
    node = Compute("C", (Axis("h", extent),), (body,), (dtype,), (Axis("k", 3),), "sum")
    return Dag((Placeholder("A", (input_extent,)), node), ("C",))


SHIFTED = index("sub", index("add", H, K), 1)
WITHIN = Binary("and", index("ge", SHIFTED, 0), index("lt", SHIFTED, 10))
OUTSIDE = Binary("or", index("lt", SHIFTED, 0), index("ge", SHIFTED, 10))
DILATED = index("sub", H, K)
STRIDED = Binary(
    "and",
    index("eq", index("mod", DILATED, 2), 0),
    Binary("and", index("ge", DILATED, 0), index("lt", DILATED, 20)),
)


@pytest.mark.parametrize(
    "valid",
    [
        dag(a(index("add", H, K)), extent=8),
        dag(Select(WITHIN, a(SHIFTED), ONE)),
        dag(Select(OUTSIDE, ONE, a(SHIFTED))),
        dag(Select(Call("not", OUTSIDE), a(SHIFTED), ONE)),
        dag(Select(STRIDED, a(index("floordiv", DILATED, 2)), ONE), extent=21),
        dag(Select(index("eq", H, 0), ONE, a(index("sub", H, 1)))),
        dag(a(index("min", index("max", SHIFTED, 0), 9))),
        dag(a(index("mod", index("mul", H, 7), 10))),
        dag(Select(WITHIN, Select(index("lt", H, 5), a(SHIFTED), a(SHIFTED)), ONE)),
    ],
    ids=lambda d: str(d.computes[0].body[0]),
)
def test_reads_proved_in_range_are_accepted(valid: Dag) -> None:
    check(valid)


@pytest.mark.parametrize(
    ("invalid", "interval"),
    [
        (dag(a(SHIFTED)), "from -1 to 10"),
        (dag(Select(index("ge", SHIFTED, 0), a(SHIFTED), ONE)), "from 0 to 10"),
        (dag(Select(WITHIN, ONE, a(SHIFTED))), "from -1 to 10"),
        (dag(Select(WITHIN, a(index("add", SHIFTED, 1)), ONE)), "from 1 to 10"),
        (dag(Select(index("lt", Cast("float32", H), ONE), a(SHIFTED), ONE)), "from -1 to 10"),
        # the sides of a conjunction do not protect one another: both are computed
        (
            dag(Select(Binary("and", WITHIN, Binary("lt", a(SHIFTED), ONE)), ONE, ONE)),
            "from -1 to 10",
        ),
        (dag(a(H), extent=11), "from 0 to 10"),
    ],
    ids=lambda value: str(value.computes[0].body[0]) if isinstance(value, Dag) else "",
)
def test_reads_not_proved_in_range_are_refused(invalid: Dag, interval: str) -> None:
    with pytest.raises(SpecError, match=rf"node 'C': A\[.*{interval}, but 'A' has 0 to 9"):
        check(invalid)


def node_of(base: Dag) -> Compute:
    return base.computes[0]


GOOD = dag(a(H))


def changed(**fields: object) -> Dag:
    return Dag((GOOD.nodes[0], replace(node_of(GOOD), **fields)), ("C",))  # type: ignore[arg-type]


def ranked(place: Expr) -> Dag:
    """Return an argmax with an index of its own."""
    return changed(combiner="argmax", body=(a(H), place), dtypes=("float32", place.dtype))


DOUBLE = Read("A", (H,), "float64")
DEEP: Expr = ONE
for _ in range(100):
    DEEP = Call("neg", DEEP)
WIDE: Expr = a(H)
for _ in range(40):
    WIDE = Binary("add", WIDE, WIDE)  # 2^40 parts, 40 of them distinct


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        (Dag((), ("C",)), "0 nodes, not 1 to 512"),
        (Dag(GOOD.nodes, ()), "no outputs"),
        (Dag(GOOD.nodes, ("A",)), "output 'A' is an input"),
        (Dag(GOOD.nodes, ("Z",)), "output 'Z' is not there"),
        (Dag(GOOD.nodes, ("C", "C")), "name a node twice"),
        (Dag((GOOD.nodes[0], *GOOD.nodes), ("C",)), "node 'A': the name is taken"),
        (Dag(GOOD.nodes[::-1], ("C",)), "reads 'A', which comes after it"),
        (Dag(GOOD.nodes[1:], ("C",)), "reads 'A', which is not there"),
        (Dag(GOOD.nodes, ("C",), "class Ω"), "is not a name"),
        (Dag((Placeholder("x" * 64, (1,)), *GOOD.nodes), ("C",)), "is not a name"),
        (Dag((Placeholder("P", (0,)), *GOOD.nodes), ("C",)), "extent 0 is 0, not an integer 1"),
        (Dag((Placeholder("P", (2**31,)), *GOOD.nodes), ("C",)), "is 2147483648, not an integer"),
        (Dag((Placeholder("P", (True,)), *GOOD.nodes), ("C",)), "extent 0 is True"),
        (Dag((Placeholder("P", (10**5000,)), *GOOD.nodes), ("C",)), "an integer of 16610 bits"),
        (Dag((Placeholder("P", (1,) * 9), *GOOD.nodes), ("C",)), "rank 9, limit 8"),
        (Dag((Placeholder("P", (2**20,) * 2), *GOOD.nodes), ("C",)), "1099511627776 elements"),
        (Dag((Placeholder("P", (1,), "complex64"), *GOOD.nodes), ("C",)), "dtype 'complex64' is"),
        (
            Dag((Placeholder("P", (2**31 - 1,), "float64"), *GOOD.nodes), ("C",)),
            "17179869240 bytes of tensors, limit|bytes of tensors",
        ),
        (Dag((ConstantTensor("P", (3,), "int32", b"123"), *GOOD.nodes), ("C",)), "3 bytes of data"),
        (
            Dag((ConstantTensor("P", (2**23,), "float32", b""), *GOOD.nodes), ("C",)),
            "33554432 bytes of constants, limit 16777216",
        ),
        (
            Dag((ConstantTensor("P", (1,), "int8", b"1"), *GOOD.nodes), ("C",)),
            "nothing reads it and it is not an output",
        ),
        (changed(axes=(Axis("h", 10), Axis("h", 1))), "axis 'h' is there twice"),
        (changed(axes=(Axis("h", 10), Axis("k", 1))), "axis 'k' is there twice"),
        (changed(axes=(Axis("h", 10), Axis("1", 1))), "axis: '1' is not a name"),
        (changed(reduce_axes=(Axis("k", 2**31 - 1), Axis("l", 2**20))), "iterations, limit"),
        (changed(reduce_axes=()), "combiner sum, but it has no axis to reduce"),
        (changed(combiner=None), "combiner None, but it reduces over 'k'"),
        (changed(combiner="median"), "combiner 'median'; there are sum"),
        (changed(combiner="argmax"), "1 bodies and 1 dtypes, not 2"),
        (changed(combiner="argmax", body=(a(H), ONE), dtypes=("float32",) * 2), "index of dtype"),
        (ranked(index("sub", 2, K)), r"index \(2 - k\) of argmax must not fall in row-major order"),
        (ranked(Cast("int64", Cast("int32", index("mul", K, 2**31)))), "must not fall"),
        (changed(body=(a(H, H),)), r"A\[h, h\] has 2 indices, but 'A' has rank 1"),
        (changed(body=(Read("A", (H,), "float32", 1),)), "output 1 of 'A', which has 1"),
        (changed(body=(Read("C", (H,), "float32"),)), "reads 'C', itself"),
        (changed(body=(DOUBLE,)), "is float32, not float64; write a cast"),
        (changed(dtypes=("float64",)), "is float32, not float64"),
        (changed(body=(Binary("add", a(H), Const(1)),)), "mixes float32 and int64"),
        (changed(body=(Binary("mod", a(H), ONE),)), "% does not take float32"),
        (changed(body=(Binary("floordiv", a(H), ONE),)), "floats divide by div"),
        (changed(body=(Binary("xor", a(H), ONE),)), "operation 'xor' is not known"),
        (changed(body=(Call("gamma", a(H)),)), "function 'gamma' is not known"),
        (changed(body=(Cast("int4", a(H)),)), "cast to 'int4'"),
        (changed(body=(Select(a(H), ONE, ONE),)), r"A\[h\] is float32, not bool"),
        (changed(body=(Select(index("lt", H, 1), ONE, Const(1)),)), "1 is int64, not float32"),
        (changed(body=(a(Cast("int64", a(H))),)), "is not affine"),
        (changed(body=(a(index("mul", H, H)),)), "is not affine"),
        (changed(body=(a(index("floordiv", H, -1)),)), "is not affine"),
        (changed(body=(a(Cast("int32", H)),)), "is int32, not int64"),
        (changed(body=(a(Var("z")),)), "'z' is not an axis of it"),
        (changed(body=(Const(1e300, "float32"),)), r"constant 1e\+300 is not a value of float32"),
        (changed(body=(Const(True, "float32"),)), "constant True is not a value of float32"),
        (changed(body=(Const(10**5000, "float32"),)), "an integer of 16610 bits is not a value"),
        (changed(body=("C",)), "'C' is not an expression"),
        (changed(body=(DEEP,)), "expressions nest deeper than 64"),
        (changed(body=(WIDE,)), "more than 2048 expression parts"),
        (changed(start=K), "'k' cannot stand in the start value"),
        (changed(start=Const(0)), "0 is int64, not float32"),
        (changed(attrs=Attrs(unroll=("z",))), "unroll names 'z', not an axis"),
        (changed(attrs=Attrs(layout_free=("B",))), "layout_free names 'B', which it does not read"),
        (changed(attrs=Attrs(flop=-1)), "flop is -1"),
        (
            Dag((Placeholder("A", (8192,)), replace(
                node_of(dag(a(H), 8192)), attrs=Attrs(unroll=("h",)))), ("C",)),
            "ask for 8192 copies of the body, limit 4096",
        ),
        (
            changed(body=(Cast("float32", index("mod", 1, index("sub", H, H))),)),
            "may divide by 0",
        ),
        (
            changed(body=(Cast("float32", index("mul", H, 2**62)),)),
            "not int64",
        ),
    ],
)  # fmt: skip
def test_an_invalid_dag_is_refused_with_a_reason(invalid: Dag, message: str) -> None:
    with pytest.raises(SpecError, match=message) as error:
        check(invalid)
    assert len(str(error.value)) < 400


def test_a_dag_within_the_limits_is_accepted() -> None:
    check(GOOD)


@pytest.mark.parametrize(
    "place", [K, index("add", H, K), index("mul", K, 0), Cast("int32", index("add", K, 5))], ids=str
)
def test_an_index_that_does_not_fall_is_accepted(place: Expr) -> None:
    check(ranked(place))


def test_many_conditions_do_not_make_the_proof_slow() -> None:
    # 14 nested conditions over six axes: facts beyond a bound are not used, none is unsound.
    axes = tuple(Axis(f"i{n}", 8) for n in range(6))
    body: Expr = a(Var("i0"))
    for n in range(14):
        total: Expr = Var("i0")
        for m in range(1, 6):
            total = index("add", total, index("mul", Var(f"i{m}"), (n + m) % 5 - 2))
        body = Select(index("lt", total, 40 - n), body, Const(0.0, "float32"))
    node = Compute("C", axes, (body,), ("float32",))
    check(Dag((Placeholder("A", (10,)), node), ("C",)))
