"""The text notation: parsing, meaning, and inferred ranges."""

from pathlib import Path

import numpy as np
import pytest

from ansorpy.expr.expr import Cast, Const, Read
from ansorpy.frontends.tc.text import parse
from ansorpy.oracle.reference import evaluate
from ansorpy.te.check import check
from ansorpy.te.dag import Attrs, Compute, Dag

EXAMPLES = Path(__file__).parents[2] / "examples"
BIND = {"batch_matmul": {"B": 16, "M": 128, "N": 128, "K": 64}}
RNG = np.random.default_rng(0)


def one(text: str, **bind: int) -> Dag:
    (dag,) = parse(text, bind)
    return dag


def last(dag: Dag) -> Compute:
    return dag.computes[-1]


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    # The reference is float64; the expectation is computed from float32 inputs in float64 too.
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.te")), ids=lambda path: path.stem)
def test_every_example_parses_and_checks(path: Path) -> None:
    dags = parse(path.read_text(), BIND.get(path.stem), path.name)
    assert len(dags) >= 1
    for dag in dags:
        check(dag)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("matmul_relu", {"C": (512, 512), "D": (512, 512)}),
        ("conv2d_bias_relu", {"P": (1, 64, 58, 58), "Y": (1, 64, 56, 56), "R": (1, 64, 56, 56)}),
        ("softmax", {"M": (2048,), "E": (2048, 512), "T": (2048,), "S": (2048, 512)}),
        ("transposed_conv", {"D": (1, 64, 35, 35), "Y": (1, 32, 32, 32)}),
        ("argmax", {"V": (1024,)}),
    ],
)
def test_the_ranges_of_the_examples(name: str, shapes: dict[str, tuple[int, ...]]) -> None:
    (dag,) = parse((EXAMPLES / f"{name}.te").read_text())
    assert {node.name: node.shape for node in dag.computes} == shapes


def test_matmul_of_symbols_is_the_numpy_one() -> None:
    dag = one(
        "def mm(float(M, K) A, float(K, N) B) -> (C) { C(i, j) +=! A(i, k) * B(k, j) }",
        M=3,
        K=5,
        N=4,
    )
    a, b = values(3, 5), values(5, 4)
    (c,) = evaluate(dag, {"A": a, "B": b})
    close(c, a.astype(np.float64) @ b)


def test_padding_by_select_is_a_padded_convolution() -> None:
    dag = one(
        """
        def conv(float(9) X, float(3) W) -> (Y) {
            Y(h) +=! (h + k - 1 >= 0 && h + k - 1 < 9 ? X(h + k - 1) : 0) * W(k)
                where h in 0:9
        }
        """
    )
    x, w = values(9), values(3)
    (y,) = evaluate(dag, {"X": x, "W": w})
    close(y, np.correlate(np.pad(x.astype(np.float64), 1), w.astype(np.float64), "valid"))


@pytest.mark.parametrize(
    ("stride", "extent"), [(1, 8), (2, 4), (3, 3)], ids=["stride 1", "stride 2", "stride 3"]
)
def test_strided_ranges_follow_from_the_input(stride: int, extent: int) -> None:
    dag = one("def f(float(10) X, float(3) W) -> (Y) { Y(h) +=! X(S * h + k) * W(k) }", S=stride)
    assert last(dag).shape == (extent,)


@pytest.mark.parametrize(
    ("body", "extent"),
    [
        ("A(i) + A(i + 2)", 8),  # the shorter of two ranges
        ("A(9 - i)", 10),
        ("A(i / 2)", 20),  # i // 2 < 10
        ("A(i) + B(i)", 7),
        ("A(2 * i + 1)", 5),
        ("i < 3 ? A(i + 5) : B(i)", None),  # the condition mentions i: nothing follows
        ("B(2) > 0.0 ? A(i) : 0", 10),
    ],
)
def test_the_range_of_an_index_is_inferred(body: str, extent: int | None) -> None:
    text = f"def f(float(10) A, float(7) B) -> (C) {{ C(i) = {body} }}"
    if extent is None:
        with pytest.raises(Exception, match="add 'where i in 0:N'"):
            one(text)
    else:
        assert last(one(text)).shape == (extent,)


def test_argmax_of_two_axes_gives_the_flat_index() -> None:
    dag = one("def f(float(3, 4, 5) A) -> (V, I) { (V, I)(i) = argmax(j, k, A(i, j, k)) }")
    a = values(3, 4, 5)
    value, index = evaluate(dag, {"A": a})
    close(value, a.reshape(3, 20).max(1))
    np.testing.assert_array_equal(index, a.reshape(3, 20).argmax(1))


@pytest.mark.parametrize("wanted", ["I", "V", "I, V", "V, I"])
def test_each_part_of_an_argmin_can_be_an_output(wanted: str) -> None:
    dag = one(f"def f(float(3, 4) A) -> ({wanted}) {{ (V, I)(i) = argmin(k, A(i, k)) }}")
    a = values(3, 4)
    expected = {"V": a.min(1), "I": a.argmin(1)}
    for name, actual in zip(wanted.split(", "), evaluate(dag, {"A": a}), strict=True):
        close(actual, expected[name])


def test_the_index_of_an_argmax_can_be_read() -> None:
    dag = one(
        "def f(float(3, 4) A) -> (F) {(V, I)(i) = argmax(k, A(i, k))\n F(i) = float(I(i)) + V(i) }"
    )
    a = values(3, 4)
    (f,) = evaluate(dag, {"A": a})
    close(f, a.argmax(1) + a.max(1))


def test_accumulating_into_an_input_starts_from_it() -> None:
    dag = one(
        "def f(float(3, 4) C, float(3, 5) A, float(5, 4) B) -> (C) { C(i, j) += A(i, k) * B(k, j) }"
    )
    assert dag.outputs == ("C_out",)
    assert str(last(dag).start) == "C[i, j]"
    c, a, b = values(3, 4), values(3, 5), values(5, 4)
    (out,) = evaluate(dag, {"C": c, "A": a, "B": b})
    close(out, c + a.astype(np.float64) @ b)


@pytest.mark.parametrize(
    ("start", "nodes"), [("0.5", 1), ("D(i)", 1), ("D(i) * 2", 2)], ids=["literal", "read", "term"]
)
def test_initialisation_then_update_is_one_reduction(start: str, nodes: int) -> None:
    dag = one(f"def f(double(4, 6) A, double(4) D) -> (C) {{ C(i) = {start} C(n) max= A(n, k) }}")
    assert len(dag.computes) == nodes
    a, d = RNG.standard_normal((4, 6)), RNG.standard_normal(4)
    first = {"0.5": np.full(4, 0.5), "D(i)": d, "D(i) * 2": 2 * d}[start]
    close(evaluate(dag, {"A": a, "D": d})[0], np.maximum(first, a.max(1)))


@pytest.mark.parametrize(
    ("op", "combiner"), [("+=!", "sum"), ("*=!", "prod"), ("max=!", "max"), ("min=!", "min")]
)
def test_reductions_to_rank_zero(op: str, combiner: str) -> None:
    dag = one(f"def f(float(7) A) -> (S) {{ S() {op} A(k) }}")
    assert (last(dag).shape, last(dag).combiner) == ((), combiner)


def test_a_tensor_of_rank_zero_is_read_with_and_without_parentheses() -> None:
    dag = one("def f(float(7) A, float s) -> (C) { C(i) = A(i) * s + s() }")
    a = values(7)
    (c,) = evaluate(dag, {"A": a, "s": np.array(3, np.float32)})
    close(c, a * 3.0 + 3.0)


@pytest.mark.parametrize(
    ("written", "dtype"),
    [("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16")],
)
def test_literals_take_the_dtype_of_their_context(written: str, dtype: str) -> None:
    dag = one(f"def f({written}(7) A) -> (C) {{ C(i) = 2 * (A(i) + 1 / 3) }}")
    assert last(dag).dtypes == (dtype,)


def test_integers_divide_by_flooring() -> None:
    dag = one("def f(int32(7) A) -> (C) { C(i) = A(i) / 2 + A(i) % 2 }")
    a = np.arange(-3, 4, dtype=np.int32)
    np.testing.assert_array_equal(evaluate(dag, {"A": a})[0], a // 2 + a % 2)


def test_bit_operations_bind_as_in_python() -> None:
    text = "A(i) + 1 << B(i) & 12 | ~A(i) ^ B(i) >> 1"
    dag = one(f"def f(int32(7) A, int32(7) B) -> (C) {{ C(i) = {text} }}")
    a, b = np.arange(-3, 4, dtype=np.int32), np.arange(7, dtype=np.int32)
    expected = a + 1 << b & 12 | ~a ^ b >> 1
    np.testing.assert_array_equal(evaluate(dag, {"A": a, "B": b})[0], expected)


def test_functions_casts_and_conditions_equal_numpy() -> None:
    dag = one(
        """
        def f(float(9) A, uint8(9) M) -> (C) {   // a comment
            C(i) = !(M(i) == 0) || i % 2 == 0
                 ? fmax(exp(A(i)), sqrt(fabs(A(i)))) - pow(2.0, tanh(A(i)))
                 : float(i) * -inf;              # another
        }
        """
    )
    a, m = values(9), RNG.integers(0, 2, 9).astype(np.uint8)
    i = np.arange(9)
    x = a.astype(np.float64)
    with np.errstate(invalid="ignore"):
        yes = np.maximum(np.exp(x), np.sqrt(abs(x))) - 2.0 ** np.tanh(x)
        expected = np.where((m != 0) | (i % 2 == 0), yes, i * -np.inf)
    close(evaluate(dag, {"A": a, "M": m})[0], expected)


def test_a_literal_alone_and_a_cast_literal() -> None:
    assert last(one("def f() -> (C) { C(i) = 1 where i in 0:4 }")).body == (Const(1.0, "float32"),)
    dag = one("def f() -> (C) { C(i) = int32(1) where i in 0:4 }")
    assert last(dag).body == (Const(1, "int32"),)
    assert isinstance(last(one("def f() -> (C) {C(i) = half(i) where i in 0:4}")).body[0], Cast)


def test_weights_are_marked() -> None:
    dag = one("def f(const float(7) W, float(7) A) -> (C) { C(i) = W(i) * A(i) }")
    assert [node.constant for node in dag.placeholders] == [True, False]


def test_hints_become_attributes() -> None:
    dag = one(
        """
        def f(float(6, 4) A, const float(6) W) -> (C) {
            C(j) +=! A(k, j) * W(k)
                with unroll(k), no_split_inner(j), const_axes(k), layout_free(W), flop(2 * 24)
        }
        """
    )
    assert last(dag).attrs == Attrs(("k",), ("j",), ("k",), ("W",), 48)


def test_a_statement_may_begin_with_a_parenthesis_after_a_name() -> None:
    dag = one(
        "def f(float(3, 4) A, float s) -> (B, V, I) {\n"
        "  B(i) = A(i, 0) * s\n"
        "  (V, I)(i) = argmax(k, A(i, k))\n"
        "}"
    )
    assert dag.outputs == ("B", "V")


def test_several_definitions_are_several_dags() -> None:
    text = (EXAMPLES / "softmax.te").read_text() + (EXAMPLES / "depthwise.te").read_text()
    assert [dag.name for dag in parse(text)] == ["softmax", "depthwise"]


def test_the_same_text_gives_the_same_dag() -> None:
    text = (EXAMPLES / "attention.te").read_text()
    assert parse(text) == parse(text)


def test_reads_keep_the_dtype_of_their_tensor() -> None:
    dag = one("def f(int8(4) A) -> (C) { C(i) = float(A(i)) }")
    assert last(dag).reads == (Read("A", last(dag).reads[0].indices, "int8"),)
