"""The constructs of published definitions: repeated assignment, updates, types, gathers.

Each is compared with NumPy on random sizes and values; `benchmarks.published_text` tunes files of
such definitions.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ansorpy import local_target
from ansorpy.expr.dtypes import INTS
from ansorpy.frontends.tc.text import parse
from ansorpy.oracle.reference import evaluate
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.dag import Dag

Floats = NDArray[np.float64]
SIZES: Final = st.integers(1, 6)
SEEDS: Final = st.integers(0, 2**32 - 1)
TENSORS: Final = ("A", "B", "C")


def one(text: str, **bind: int) -> Dag:
    (dag,) = parse(text, bind)
    return dag


def whole(seed: int, *shape: int) -> Floats:
    """Return small whole numbers as float64: sums of them are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


# A term of a random statement: as text, and of the tensors so far and the matrix M.
Values = dict[str, Floats]
TERMS: Final[dict[str, Callable[[Values], Floats]]] = {
    "X(i)": lambda v: v["X"],
    "A(i) - X(i)": lambda v: v["A"] - v["X"],
    "B(i) + 1": lambda v: v["B"] + 1,
    "C(n)": lambda v: v["C"],
    "M(i, k)": lambda v: v["M"],
    "M(i, k) + A(i)": lambda v: v["M"] + v["A"][:, None],
    "2": lambda v: np.full_like(v["X"], 2),
}
UFUNCS: Final = {"+=": np.add, "max=": np.maximum, "min=": np.minimum}


@settings(max_examples=100)
@given(st.data(), SIZES, SIZES, SEEDS)
def test_statements_in_order_are_the_assignments_of_numpy(
    data: st.DataObject, rows: int, columns: int, seed: int
) -> None:
    """Every statement reads the values before it, whichever tensors are named again."""
    values: Values = {"X": whole(seed, rows), "M": whole(seed + 1, rows, columns)}
    inputs = dict(values)
    lines: list[str] = []
    for _ in range(data.draw(st.integers(1, 8))):
        target = data.draw(st.sampled_from(TENSORS))
        known = [t for t in TERMS if all(n in values for n in TENSORS if n in t)]
        term = data.draw(st.sampled_from(known))
        value = TERMS[term](values)
        text = term.replace("n", "i")
        if term == "2" and target not in values:
            text = "double(2)"  # a literal alone is a float32
        op = data.draw(st.sampled_from([*UFUNCS, "="]))
        if op != "=":
            again = target not in values and data.draw(st.booleans())
            values[target] = _updated(UFUNCS[op], values.get(target), value)
            lines.append(f"{target}(i) {op}{'!' if again else ''} {text}{_range(term)}")
        elif value.ndim == 1:
            old = f"{target}(i) * 2 + " if target in values else ""
            values[target] = value + (values[target] * 2 if target in values else 0)
            lines.append(f"{target}(i) = {old}{text}{_range(term)}")
    outputs = sorted(values.keys() & set(TENSORS))
    if not outputs:
        return
    body = "\n".join(lines)
    dag = one(
        f"def f(double(N) X, double(N, K) M) -> ({', '.join(outputs)}) {{\n{body}\n}}",
        N=rows,
        K=columns,
    )
    assert dag.outputs == tuple(outputs)
    for name, actual in zip(outputs, evaluate(dag, inputs), strict=True):
        np.testing.assert_array_equal(actual, values[name], err_msg=f"{name}\n{body}")


def _range(term: str) -> str:
    return " where i in 0:N" if term == "2" else ""


def _updated(ufunc: np.ufunc, old: Floats | None, value: Floats) -> Floats:
    found = ufunc.reduce(value, axis=1) if value.ndim == 2 else value
    return found if old is None else ufunc(old, found)


@given(SIZES, SIZES, st.integers(1, 3), st.integers(1, 3), SEEDS)
def test_updates_without_a_value_start_afresh(
    channels: int, outs: int, stride: int, window: int, seed: int
) -> None:
    size = (outs - 1) * stride + window
    text = """
        def pools(double(C, H) Signal) -> (Total, Peak) {
            Total(c, h) += Signal(c, S * h + r) where r in 0:R
            Peak(c, h) max= Signal(c, S * h + r) where r in 0:R
        }
    """
    signal = whole(seed, channels, size)
    dag = one(text, C=channels, H=size, S=stride, R=window)
    windows = np.lib.stride_tricks.sliding_window_view(signal, window, axis=1)[:, ::stride]
    total, peak = evaluate(dag, {"Signal": signal})
    np.testing.assert_array_equal(total, windows.sum(2))
    np.testing.assert_array_equal(peak, windows.max(2))


@given(SIZES, SIZES, SIZES, SEEDS)
def test_a_dense_layer_assigns_its_output_three_times(
    batch: int, inner: int, units: int, seed: int
) -> None:
    text = """
        def dense(double(B, K) X, double(U, K) W, double(U) Bias) -> (Y) {
            Y(b, u) +=! X(b, k) * W(u, k)
            Y(b, u) = Y(b, u) + Bias(u)
            Y(b, u) = fmax(Y(b, u), 0)
        }
    """
    x, w, bias = whole(seed, batch, inner), whole(seed + 1, units, inner), whole(seed + 2, units)
    dag = one(text, B=batch, K=inner, U=units)
    (y,) = evaluate(dag, {"X": x, "W": w, "Bias": bias})
    np.testing.assert_array_equal(y, np.maximum(x @ w.T + bias, 0))


@given(SIZES, SIZES, SIZES, SEEDS)
def test_normalised_rows_divide_by_sizes_and_assign_twice(
    outer: int, batch: int, width: int, seed: int
) -> None:
    text = """
        def rows(double(T, B, D) X) -> (Y, Mid, Spread) {
            Mid(t, b) +=! X(t, b, d) / D
            Off(t, b, d) = X(t, b, d) - Mid(t, b)
            Spread(t, b) +=! Off(t, b, d) * Off(t, b, d)
            Spread(t, b) = (Spread(t, b) + 1e-3) / D
            Y(t, b, d) = Off(t, b, d) * rsqrt(Spread(t, b)) + cos(Mid(t, b))
        }
    """
    x = np.random.default_rng(seed).standard_normal((outer, batch, width))
    mid = x.mean(2)
    off = x - mid[..., None]
    spread = ((off**2).sum(2) + 1e-3) / width
    expected = off / np.sqrt(spread)[..., None] + np.cos(mid)[..., None]
    found = evaluate(one(text, T=outer, B=batch, D=width), {"X": x})
    for actual, wanted in zip(found, (expected, mid, spread), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-9)


ANY_INDEX: Final = st.one_of(st.integers(-3, 9), st.integers(-(2**31), 2**31 - 1))


@given(SIZES, SIZES, st.lists(ANY_INDEX, min_size=1, max_size=6), SEEDS)
def test_an_index_that_is_data_is_clamped_to_the_extent(
    rows: int, columns: int, ids: list[int], seed: int
) -> None:
    text = """
        def pick(double(R, D) Table, int32(L) Ids) -> (Row, Sum) {
            Row(l, d) = Table(Ids(l), d)
            Sum(l) += Table(Ids(l) * 2 - 1, d)
        }
    """
    table, index = whole(seed, rows, columns), np.array(ids, np.int32)
    dag = one(text, R=rows, D=columns, L=len(ids))
    row, total = evaluate(dag, {"Table": table, "Ids": index})
    np.testing.assert_array_equal(row, table[np.clip(index, 0, rows - 1)])
    with np.errstate(over="ignore"):
        moved = np.clip(index * np.int32(2) - np.int32(1), 0, rows - 1)
    np.testing.assert_array_equal(total, table[moved].sum(1))


@pytest.mark.parametrize(
    ("index", "shown"),
    [
        ("I(l)", "0 to 9: min(max(int64(I[l]), 0), 9)"),
        ("min(I(l), 3)", "0 to 3: min(max(int64(min(I[l], 3)), 0), 9)"),
        ("min(max(int64(I(l)), 2), 3)", "2 to 3: min(max(int64(I[l]), 2), 3)"),
    ],
    ids=["bare", "half a clamp", "a clamp of the text"],
)
def test_explain_tells_the_range_of_an_index_that_is_data(index: str, shown: str) -> None:
    dag = one(f"def pick(float(10, 4) T, int32(6) I) -> (O) {{ O(l, w) = T({index}, w) }}")
    lines = derive(dag, local_target(cores=1), CPU).explain().splitlines()
    assert lines[1] == f"O: index 0 of 'T' is data, clamped to {shown}"


@given(SIZES, SIZES, SEEDS)
def test_typed_outputs_are_those_of_the_statements(rows: int, columns: int, seed: int) -> None:
    text = """
        def whole(double(M, N) X) -> (int32(M, N) Q, double S, int16(M) Ones) {
            Q(m, n) = int32(X(m, n) * 1.5)
            S() +=! X(m, n)
            Ones(m) = 1 where m in 0:M
        }
    """
    x = whole(seed, rows, columns)
    q, s, ones = evaluate(one(text, M=rows, N=columns), {"X": x})
    np.testing.assert_array_equal(q, np.trunc(x * 1.5).astype(np.int32))
    assert s == x.sum()
    assert ones.dtype == np.int16
    assert ones.tolist() == [1] * rows


@given(st.sampled_from(INTS), SIZES, SEEDS)
def test_integers_of_every_dtype_are_those_of_numpy(dtype: str, size: int, seed: int) -> None:
    text = f"""
        def mix({dtype}(N) A, {dtype}(N) B) -> ({dtype}(N) C, {dtype}(N) D, Q, S) {{
            C(n) = (A(n) * B(n) - 7) ^ (A(n) << 3 | B(n) >> 2)
            D(n) = sign(A(n)) + fmax(A(n), B(n))
            Q(n) = A(n) / fmax(B(n), 1) + A(n) % fmax(B(n), 1)
            S() +=! A(n)
        }}
    """
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    a, b = rng.integers(info.min, info.max, (2, size), dtype, endpoint=True)
    one_of, three = np.array(1, dtype), np.array(3, dtype)
    with np.errstate(over="ignore"):
        c = (a * b - np.array(7, dtype)) ^ (a << three | b >> np.array(2, dtype))
        d = np.sign(a) + np.maximum(a, b)
        q = a // np.maximum(b, one_of) + a % np.maximum(b, one_of)
        expected = c, d, q, a.sum(dtype=dtype)
    found = evaluate(one(text, N=size), {"A": a, "B": b})
    for actual, wanted in zip(found, expected, strict=True):
        assert actual.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(actual, wanted)


@given(SIZES, SEEDS)
def test_signs_and_logarithms_are_those_of_numpy(size: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(size)
    x[0] = np.random.default_rng(seed).choice([0.0, np.nan, np.inf, -np.inf])
    text = "def f(double(N) X) -> (S, L) { S(n) = sign(X(n))  L(n) = log1p(fabs(X(n)) / 8) }"
    s, logs = evaluate(one(text, N=size), {"X": x})
    np.testing.assert_array_equal(s, np.sign(x))
    np.testing.assert_allclose(logs, np.log1p(np.abs(x) / 8), rtol=1e-12)


def test_the_last_value_has_the_name_of_the_tensor() -> None:
    dag = one("def f(float(4) X) -> (Y) { Y(i) = X(i) + 1  Y(i) = Y(i) * Y(i)  Y(i) += X(i) }")
    assert [node.name for node in dag.computes] == ["Y_1", "Y_2", "Y"]


def test_both_values_of_an_accumulated_input_can_be_read() -> None:
    dag = one(
        "def f(double(4) C, double(4, 3) M) -> (D, C) {\n"
        "  D(i) = C(i)  C(i) += M(i, k)  C(i) = 2 * C(i)  D(i) = D(i) - C(i) }"
    )
    c, m = whole(0, 4), whole(1, 4, 3)
    d, after = evaluate(dag, {"C": c, "M": m})
    np.testing.assert_array_equal(after, 2 * (c + m.sum(1)))
    np.testing.assert_array_equal(d, c - after)


def test_a_part_of_an_argmax_can_be_assigned_again() -> None:
    dag = one(
        "def f(double(4, 3) M) -> (V, I) { (V, I)(i) = argmax(k, M(i, k))\n V(i) = V(i) + 1 }"
    )
    m = whole(3, 4, 3)
    v, i = evaluate(dag, {"M": m})
    np.testing.assert_array_equal(v, m.max(1) + 1)
    np.testing.assert_array_equal(i, m.argmax(1))
