from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ansorpy import te
from ansorpy.errors import SpecError
from ansorpy.expr.functions import FUNCTIONS


def matmul(n: int = 4, m: int = 5, k: int = 3) -> te.Tensor:
    a, b = te.placeholder((n, k), "A"), te.placeholder((k, m), "B")
    r = te.reduce_axis((0, k), "k")
    return te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")


def body(tensor: te.Tensor) -> str:
    dag = te.dag(tensor)
    return str(dag.computes[-1].body[0])


def test_a_matmul_becomes_three_nodes() -> None:
    dag = te.dag(matmul(), "product")
    assert [node.name for node in dag.nodes] == ["A", "B", "C"]
    assert dag.name == "product"
    assert dag.outputs == ("C",)
    (node,) = dag.computes
    assert node.axes == (te.Axis("i", 4), te.Axis("j", 5))
    assert node.reduce_axes == (te.Axis("k", 3),)
    assert node.combiner == "sum"
    assert str(node.body[0]) == "(A[i, k] * B[k, j])"
    assert node.dtypes == ("float32",)


def test_operators_read_as_python_and_numbers_take_the_other_dtype() -> None:
    x = te.placeholder((8, 8), "x")
    shown = body(
        te.compute(
            (8, 8),
            lambda i, j: te.select(
                te.any(te.all(i >= 1, j < 7), ~(i == j)), 2 * x[i // 2 % 8, 7 - j] - 1, -x[j, i] / 3
            ),
        )
    )
    assert shown == (
        "((((2.0 * x[((i // 2) % 8), (7 - j)]) - 1.0)) if "
        "(((i >= 1) and (j < 7)) or not((i == j))) else (neg(x[j, i]) / 3.0))"
    ).replace("((((2.0", "(((2.0").replace("1.0)) if", "1.0) if")


def test_functions_and_casts_print_as_written() -> None:
    x = te.placeholder((3,), "x", "float64")
    symbols = ("neg", "not", "bitnot")
    for fn in [fn for fn, one in FUNCTIONS.items() if "float64" in one.operands]:
        if fn not in symbols:
            assert body(te.compute((3,), lambda i, fn=fn: getattr(te, fn)(x[i]))) == f"{fn}(x[i])"
    shown = body(te.compute((3,), lambda i: te.cast(te.pow(te.abs(x[i]), 2), "int32") % 5))
    assert shown == "(int32(pow(abs(x[i]), 2.0)) % 5)"
    shown = body(
        te.compute((3,), lambda i: te.maximum(te.minimum(x[i] ** 2, 6), te.cast(i, "float64")))
    )
    assert shown == "max(min(pow(x[i], 2.0), 6.0), float64(i))"


def test_bit_operators_are_logical_on_bool_and_bitwise_on_integers() -> None:
    x, m = te.placeholder((3,), "x", "int32"), te.placeholder((3,), "m", "bool")
    shown = body(te.compute((3,), lambda i: ~(x[i] & 3) | x[i] ^ x[i] >> 1 << 2))
    assert shown == "(bitnot((x[i] & 3)) | (x[i] ^ ((x[i] >> 1) << 2)))"
    shown = body(te.compute((3,), lambda i: ~m[i] & m[i] ^ m[i]))
    assert shown == "((not(m[i]) and m[i]) != m[i])"
    with pytest.raises(SpecError, match="operator 'shl' on float32: it wants an integer dtype"):
        te.const(1, "float32") << 2


def test_nodes_and_axes_with_equal_names_get_distinct_names() -> None:
    a, b = te.placeholder((3, 3), "x"), te.placeholder((3, 3), "x")
    i = te.reduce_axis((0, 3), "i")
    dag = te.dag(te.compute((3,), lambda i_: te.sum(a[i_, i] * b[i, i_], axis=i), "y", axes="i"))
    assert [node.name for node in dag.nodes] == ["x", "x_1", "y"]
    assert str(dag.computes[0].body[0]) == "(x[i, i_1] * x_1[i_1, i])"


def test_inputs_can_be_ordered_and_are_otherwise_met_in_order() -> None:
    a, b, c = (te.placeholder((2,), name) for name in "abc")
    y = te.compute((2,), lambda i: b[i] + a[i], "y")
    assert [node.name for node in te.dag(y).placeholders] == ["b", "a"]
    assert [node.name for node in te.dag(y, inputs=(a, b)).placeholders] == ["a", "b"]
    assert [node.name for node in te.dag(y, inputs=(c,)).placeholders] == ["c", "b", "a"]


def test_a_shared_node_is_collected_once_and_outputs_keep_their_order() -> None:
    x = te.placeholder((2,), "x")
    a = te.compute((2,), lambda i: x[i] + 1, "a")
    b = te.compute((2,), lambda i: a[i] * 2, "b")
    c = te.compute((2,), lambda i: a[i] * b[i], "c")
    dag = te.dag([c, a])
    assert [node.name for node in dag.nodes] == ["x", "a", "b", "c"]
    assert dag.outputs == ("c", "a")


def test_argmax_has_two_outputs_and_a_row_major_index() -> None:
    x = te.placeholder((2, 3, 4), "x")
    j, k = te.reduce_axis((0, 3), "j"), te.reduce_axis((0, 4), "k")
    value, index = te.compute((2,), lambda i: te.argmax(x[i, j, k], axis=(j, k)), "best")
    doubled = te.compute((2,), lambda i: index[i] * 2, "doubled")
    dag = te.dag([value, doubled])
    (best, last) = dag.computes
    assert best.dtypes == ("float32", "int64")
    assert [str(part) for part in best.body] == ["x[i, j, k]", "((j * 4) + k)"]
    assert str(last.body[0]) == "(best.1[i] * 2)"


def test_reduce_axes_may_start_anywhere_and_sums_at_a_value() -> None:
    x, y = te.placeholder((5,), "x"), te.placeholder((), "y")
    k = te.reduce_axis((2, 5), "k")
    dag = te.dag(te.compute((), lambda: te.sum(x[k], axis=k, init=y[()] * 2)))
    (node,) = dag.computes
    assert node.reduce_axes == (te.Axis("k", 3),)
    assert str(node.body[0]) == "x[(k + 2)]"
    assert str(node.start) == "(y[] * 2.0)"
    (out,) = te.evaluate(dag, {"x": np.arange(5), "y": np.array(10)})
    assert out == 20 + 2 + 3 + 4


def test_constants_and_hints_become_nodes_and_attributes() -> None:
    x = te.placeholder((3, 4), "x", constant=True)
    table = te.constant(np.eye(3, dtype="f4"), "eye")
    k = te.reduce_axis((0, 3), "k")
    out = te.compute(
        (3, 4), lambda i, j: te.sum(table[i, k] * x[k, j], axis=k), "out",
        unroll=["i", k], no_split_inner=["j"], const_axes=[k], layout_free=[x], flop=7,
    )  # fmt: skip
    dag = te.dag(out)
    assert dag.placeholders[0].constant
    assert dag.computes[0].attrs == te.Attrs(("i", "k"), ("j",), ("k",), ("x",), 7)
    data = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(te.evaluate(dag, {"x": data})[0], data)


X, N = te.placeholder((4,), "x"), te.placeholder((4,), "n", "int32")
K = te.reduce_axis((0, 4), "k")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda i: X[i] + N[i], "'add' of float32 and int32: use te.cast"),
        (lambda i: N[i] + 0.5, "literal 0.5 is not in the range of int32"),
        (lambda i: N[i] / 2, "operator 'div' on int32: it wants a float dtype"),
        (lambda i: X[i] // 2, "operator 'floordiv' on float32: it wants an integer"),
        (lambda i: X[i, i], "x has rank 1, read with 2 index"),
        (lambda i: X[N[i]], "index 0 of x is int32, not int64"),
        (lambda i: te.select(X[i], 1.0, 2.0), "the condition is float32, not bool"),
        (lambda i: te.select(i < 2, 1.0, 2.0), "give one of them a dtype with te.const"),
        (lambda i: X[i] if i < 2 else X[0], "has no truth value while the expression is built"),
        (lambda i: te.exp(N[i]), "function 'exp' on int32"),
        (
            lambda i: te.exp(2.0),  # type: ignore[arg-type]
            "te.exp of 2.0: it wants a scalar expression",
        ),
        (lambda i: X[i] * K, "'mul' of float32 and int64"),
        (lambda i: X[K], "compute compute: axis k is neither its own nor reduced here"),
        (lambda i: te.sum(X[i], axis=()), "axis wants one or more te.reduce_axis"),
        (lambda i: te.sum(X[K], axis=(K, K)), "a reduce axis is given twice"),
        (lambda i: te.sum(X[K] > 0, axis=K), "te.sum of bool"),
        (
            lambda i: X[i] * te.sum(X[K], axis=K),  # type: ignore[operator]
            "Reduction is not a scalar expression",
        ),
        (lambda i, j: X[i], "shape has rank 1, but 2 axes"),
        (lambda i: "x", "body of compute.*str is not a scalar expression"),
        (lambda i: te.cast(X[i], "float8"), "te.cast: unknown dtype 'float8'"),
        (lambda i: te.const(300, "int8") + 1, "literal 300 is not in the range of int8"),
        (lambda i: X[i + 1], r"x\[\(i \+ 1\)\]"),  # from ansorpy.te.check
    ],
)
def test_wrong_bodies_are_refused_with_a_reason(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        te.dag(te.compute((4,), make))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: te.placeholder((4, 0), "x"), "x: extent 0 of dimension 1 is below 1"),
        (
            lambda: te.placeholder((4, 1.5), "x"),  # type: ignore[arg-type]
            "shape of x: 1.5 is not a whole number",
        ),
        (lambda: te.placeholder((4,), "x", "complex64"), "x: unknown dtype 'complex64'"),
        (lambda: te.constant(np.array([300]), "c", "int8"), "values that int8 does not hold"),
        (lambda: te.reduce_axis((3, 3), "k"), "reduce axis k: empty range 3 to 3"),
        (lambda: te.dag(X), "output x of dag main is not computed"),
        (lambda: te.compute((4,), lambda i: X[i], unroll=["z"]), "no axis 'z', it has i"),
        (lambda: te.compute((4,), lambda i: X[i], unroll=[K]), r"no axis '\?'"),
    ],
)
def test_wrong_declarations_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make()
