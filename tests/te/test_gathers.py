"""Gathers: a clamp is the proof of a read at data; nothing weaker is taken for one."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from ansorpy import local_target, te, topi
from ansorpy.codegen.loader import build, load
from ansorpy.errors import SpecError
from ansorpy.expr.bounds import assume, bounds
from ansorpy.expr.expr import Binary, Cast, Const, Expr, Read, Var
from ansorpy.expr.simplify import simplify
from ansorpy.frontends.json.write import dumps, loads
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.verify.inputs import index_spans, random_inputs
from ansorpy.oracle.reference import evaluate, evaluate_bounded
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population.sample import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.analysis import index_ranges, workload_key
from ansorpy.te.dag import Dag

ROWS: Final = 10
LEAST, LARGEST = -(2**63), 2**63 - 1
EXTREMES: Final = np.array([LEAST, LEAST + 1, -1, 0, 7, ROWS, LARGEST - 4, LARGEST])
Index = Callable[[te.Scalar, te.Scalar], te.Operand]  # element of ids, position -> index


def gathered(index: Index) -> Dag:
    """Return out[i, j] = T[index(ids[i], i), j] for 8 look-ups in a table of ROWS rows."""
    table, ids = te.placeholder((ROWS, 16), "T"), te.placeholder((8,), "ids", "int64")
    out = te.compute((8, 16), lambda i, j: table[index(ids[i], i), j], "out")
    return te.dag(out, inputs=[table, ids])


CLAMPED: Final[dict[str, Index]] = {
    "clamped": lambda x, i: te.clamped(x, 0, 9),
    "max outside": lambda x, i: te.maximum(te.minimum(x, 9), 0),
    "literal first": lambda x, i: te.minimum(9, te.maximum(0, x)),
    "plus an axis": lambda x, i: te.clamped(x, 0, 2) + i,
    "twice and an axis": lambda x, i: te.clamped(x, 0, 1) * 2 + i,
    "divided": lambda x, i: te.clamped(x, 0, 19) // 2,
    "clamps within a clamp": lambda x, i: te.clamped(te.clamped(x, 0, 2**62) * 4, 0, 9),
    "two clamps": lambda x, i: te.clamped(x, 0, 4) + te.clamped(-x, 0, 5),
    "arithmetic that wraps around": lambda x, i: te.clamped(x * 3 + i, 0, 9),
    "a branch that wraps around": lambda x, i: te.clamped(te.select(x + 5 > x, x + 5, x - 5), 0, 9),
}


@pytest.mark.parametrize("name", CLAMPED)
def test_no_element_leads_a_kernel_out_of_its_table(name: str) -> None:
    dag, target = gathered(CLAMPED[name]), local_target(cores=1)
    table = np.random.default_rng(0).standard_normal((ROWS, 16)).astype("float32")
    # NaN around the table shows a read outside; ids and results lie in arrays of their own.
    guarded = np.full((3 * ROWS, 16), np.nan, "float32")
    guarded[ROWS : 2 * ROWS] = table
    (sketch,) = derive(dag, target, CPU).sketches
    plan = plans(sketch, target)[0]
    (row,) = sample(plan, 1, np.random.default_rng(0))
    loaded = load(build(bind(plan, row.tolist(), target), target))
    (wanted,) = evaluate(dag, {"T": table, "ids": EXTREMES})
    got = np.zeros((8, 16), "float32")
    loaded.run([a.ctypes.data for a in (guarded[ROWS : 2 * ROWS], EXTREMES, got)])
    assert np.array_equal(got, wanted)


REFUSED: Final[dict[str, tuple[Index, str]]] = {
    "bare": (lambda x, i: x, "data without a range; expected it inside min"),
    "one end": (lambda x, i: te.maximum(x, 0), "data without a range"),
    "two lower ends": (lambda x, i: te.maximum(te.maximum(x, 0), 1), "data without a range"),
    "an end that moves": (lambda x, i: te.minimum(te.maximum(x, 0), i), "data without a range"),
    "arithmetic outside": (lambda x, i: te.maximum(x, 0) % 10, "data without a range"),
    "remainder": (lambda x, i: x % 10, "data without a range"),
    "too wide": (lambda x, i: te.clamped(x, 0, 10), "index 0, .* runs from 0 to 10"),
    "below 0": (lambda x, i: te.clamped(x, -1, 9), "index 0, .* runs from -1 to 9"),
    "product beyond int64": (lambda x, i: te.clamped(x, 0, 2**62) * 4, "index 0, .* runs from -9"),
    "a cast": (lambda x, i: te.cast(te.cast(te.clamped(x, 0, 9), "int32"), "int64"), "not affine"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_data_without_a_proof_is_refused(name: str) -> None:
    index, message = REFUSED[name]
    with pytest.raises(SpecError, match=message):
        gathered(index)


def test_a_condition_on_data_is_no_proof() -> None:
    table, ids = te.placeholder((ROWS,), "T"), te.placeholder((8,), "ids", "int64")

    def body(i: te.Scalar) -> te.Scalar:
        inside = te.all(ids[i] >= 0, ids[i] < ROWS)
        return te.select(inside, table[ids[i]], 0.0)

    with pytest.raises(SpecError, match="data without a range"):
        te.dag(te.compute((8,), body))


@pytest.mark.parametrize(
    ("value", "low", "high", "message"),
    [
        (te.const(1.0, "float32"), 0, 9, "te.clamped of float32: it wants an integer"),
        (te.const(1, "int32"), 9, 0, "te.clamped: low 9 is above high 0"),
    ],
)
def test_a_clamp_of_nothing_is_refused(value: te.Scalar, low: int, high: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        te.clamped(value, low, high)


IDS = Read("ids", (Var("i"),), "int64")
BYTE = Cast("int64", Read("small", (Var("i"),), "uint8"))


def op(name: str, a: Expr, b: int) -> Binary:
    return Binary(name, a, Const(b))


def test_nothing_follows_from_arithmetic_on_data_that_may_wrap() -> None:
    large = op("mul", BYTE, 2**60)  # negative for 255
    assert bounds(large, {}) == (LEAST, LARGEST)
    clamp = op("min", op("max", large, 0), 9)
    assert simplify(clamp, {}) == clamp
    assert simplify(op("min", op("max", BYTE, 0), 300), {}) == BYTE  # a byte cannot wrap
    near = op("lt", op("sub", IDS, 5), 3)  # holds for the least ids as well as for the largest
    assert assume(near, {}) == ()
    assert len(assume(op("lt", IDS, 3), {})) == 1


def test_the_inputs_that_choose_indices_have_their_range() -> None:
    table, word = te.placeholder((40, 8), "table"), te.placeholder((6,), "word", "int32")
    order = te.placeholder((3,), "order", "uint8")
    scale = te.placeholder((3,), "scale", "int32")
    ids = topi.take(te.elementwise(lambda x: x + 1, word, name="next"), order)
    out = topi.take(table, ids) * topi.cast(topi.expand_dims(scale, 1), "float32")
    dag = te.dag(out, inputs=[table, word, order, scale])
    assert index_ranges(dag) == {"word": (0, 39), "order": (0, 5)}
    assert index_spans(dag) == {"word": (-11, 51), "order": (0, 8)}
    drawn = [random_inputs(dag, np.random.default_rng(seed))["word"] for seed in range(40)]
    assert -11 <= np.min(drawn) < 0
    assert 39 < np.max(drawn) < 51


def test_an_uncertain_index_has_an_unknown_element() -> None:
    scores, table = te.placeholder((2, 8), "scores"), te.placeholder((8, 3), "table")
    dag = te.dag(topi.take(table, topi.argmax(topi.exp(scores), 1)), inputs=[scores, table])
    values = np.arange(16.0, dtype="float32").reshape(2, 8) / 8
    values[1, 6:] = 2.0, 2.0 + 2.0**-22  # exp cannot tell them apart
    found = evaluate_bounded(dag, {"scores": values, "table": np.ones((8, 3), "float32")})
    (out,) = found[dag.outputs[0]]
    error = np.broadcast_to(out.error, out.value.shape)
    assert np.all(error[0] == 0)
    assert np.all(np.isinf(error[1]))


def test_the_text_and_the_wire_form_say_gathers() -> None:
    (dag,) = parse(
        """
        def rows(float(10, 16) T, int64(8) ids) -> (out) {
            out(i, j) = T(min(max(ids(i), 0), 9), j)
        }
        """
    )
    assert workload_key(dag) == workload_key(gathered(CLAMPED["clamped"]))
    assert loads(dumps(dag)) == dag
