import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Call, Const, Expr, Read, Var
from ansorpy.measure.outcome import Failed
from ansorpy.measure.verify import inputs
from ansorpy.measure.verify.cases import Case, Expected, load_cases, make_cases, save_cases
from ansorpy.measure.verify.check import compare, verify
from ansorpy.te.dag import Axis, Compute, ConstantTensor, Dag, Placeholder
from ansorpy.topi.workloads import reduce_rows, softmax
from tests.measure.fake import FakeBuilt, load, matmul, program


def check(name: str, dag: Dag, cases: tuple[Case, ...]) -> Failed | None:
    buffers = program(name, dag).buffers
    return verify(load(FakeBuilt(name, buffers)), buffers, cases, inputs.constants(dag))


@pytest.fixture(scope="module")
def wide() -> tuple[Dag, tuple[Case, ...]]:
    dag = matmul(8, 16, 2304)
    return dag, make_cases(dag, seed=3)


def test_a_right_kernel_passes_every_case(wide: tuple[Dag, tuple[Case, ...]]) -> None:
    dag, cases = wide
    assert [case.name for case in cases] == ["random", "small-integer", "sparse", "edge"]
    assert check("good", dag, cases) is None


def test_small_integers_reveal_a_dropped_last_term(wide: tuple[Dag, tuple[Case, ...]]) -> None:
    dag, cases = wide
    found = check("dropped", dag, cases[1:2])
    assert found is not None
    assert found.kind == "wrong"
    assert "small-integer inputs" in found.message
    # Random numbers show it in few elements only; the second case shows it in all.
    dense = cases[0].expected[0]
    assert dense.bound is not None
    a, b = cases[0].inputs["A"].astype(float), cases[0].inputs["B"].astype(float)
    missed = np.abs(a[:, -1:] * b[-1:]) <= dense.bound
    assert missed.mean() > 0.3


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ([1.0, np.nan], None),
        ([np.nan, np.nan], "1 of 2 elements of C are wrong, first at [0]: nan, expected 1.0 +- 0"),
        ([1.0, 0.0], "1 of 2 elements of C are wrong, first at [1]: 0.0, expected nan +- 0"),
    ],
)
def test_a_nan_that_is_exact_is_equal_to_a_nan_only(
    stored: list[float], message: str | None
) -> None:
    expected = Expected("C", "float32", np.array([1.0, np.nan]), None)
    assert compare(expected, np.array(stored, np.float32)) == message


@pytest.mark.parametrize("name", ["swapped", "uninitialised", "accumulates", "writes-input"])
def test_a_wrong_kernel_is_caught(name: str) -> None:
    dag = matmul()
    found = check(name, dag, make_cases(dag, seed=0))
    assert found is not None
    assert found.kind == "wrong"


def test_phases_that_run_ahead_do_not_see_the_inputs_of_the_call() -> None:
    dag = matmul()
    found = check("packs-ahead", dag, make_cases(dag, seed=0))
    assert found is not None
    assert found.kind == "wrong"


def test_tasks_must_not_need_an_order() -> None:
    dag = matmul()
    found = check("ordered", dag, make_cases(dag, seed=0))
    assert found is not None
    assert "two runs differ" in found.message


def test_extremes_are_checked_on_one_side_of_zero_and_with_nans() -> None:
    dag = reduce_rows(6, 37, "max")
    cases = {case.name: case for case in make_cases(dag, seed=0)}
    last, first = cases["rising negative"], cases["falling positive"]
    assert np.array_equal(last.expected[0].value, decoded(last)[:, -1])
    assert np.array_equal(first.expected[0].value, decoded(first)[:, 0])
    assert decoded(last).max() < 0 < decoded(first).min()
    hidden = cases["NaN"].expected[0]
    nan = np.isnan(hidden.value)
    assert nan.any()
    assert compare(hidden, np.where(nan, 1.0, hidden.value), nans=True) is not None
    assert compare(hidden, hidden.value, nans=True) is None


def decoded(case: Case) -> inputs.Array:
    return inputs.decode(case.inputs["X"], "float32")


@pytest.mark.parametrize("row", [40, 500])
def test_exp_overflows_on_edge_values_if_a_maximum_misses_some(row: int) -> None:
    """A softmax is right for ordinary numbers, regardless of the number that is subtracted."""
    dag = softmax(8, row)
    cases = {case.name: case for case in make_cases(dag, 0)}
    outcome = {}
    for name in ("random", "edge"):
        (x,) = cases[name].inputs.values()
        (expected,) = cases[name].expected
        partial = x[:, : row // 2].max(1, keepdims=True).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            powers = np.exp(x - partial)
            outcome[name] = compare(expected, powers / powers.sum(1, keepdims=True))
    assert outcome["random"] is None
    assert outcome["edge"] is not None


def test_a_long_sum_is_checked_with_a_narrow_bound(wide: tuple[Dag, tuple[Case, ...]]) -> None:
    sparse = next(case for case in wide[1] if case.name == "sparse").expected[0]
    dense = wide[1][0].expected[0]
    assert sparse.bound is not None
    assert dense.bound is not None
    assert sparse.bound.max() < 1e-4 * dense.bound.min()


def test_a_message_names_count_place_and_values() -> None:
    value = np.array([[1.0, 2.0]])
    expected = Expected("C", "float32", value, np.full((1, 2), 0.25))
    assert compare(expected, np.array([[1.25, 2.0]], np.float32)) is None
    message = compare(expected, np.array([[1.0, 3.0]], np.float32))
    assert message == ("1 of 2 elements of C are wrong, first at [0, 1]: 3.0, expected 2.0 +- 0.25")


@pytest.mark.parametrize(
    ("value", "bound", "got", "right"),
    [
        (np.inf, 0.1, np.inf, True),
        (np.inf, 0.1, -np.inf, False),
        (1e39, 1e30, np.inf, True),  # beyond float32
        (1e38, 1e30, np.inf, False),
        (np.nan, np.nan, 5.0, True),  # nothing is claimed
        (3.0, np.inf, 5.0, True),
        (3.0, 1.0, np.nan, False),
    ],
)
def test_odd_values_are_compared_by_their_bounds(
    value: float, bound: float, got: float, right: bool
) -> None:
    expected = Expected("C", "float32", np.array([value]), np.array([bound]))
    assert (compare(expected, np.array([got], np.float32)) is None) is right


def test_cases_come_back_from_files(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    dag = Dag((*matmul().nodes, ConstantTensor("K", (2,), "float32", bytes(8))), ("C",))
    cases = make_cases(dag, seed=1)
    save_cases(cases, inputs.constants(dag), folder)
    again, constants = load_cases(folder)
    assert [c.name for c in again] == [c.name for c in cases]
    for one, two in zip(cases, again, strict=True):
        assert all(np.array_equal(one.inputs[n], two.inputs[n]) for n in one.inputs)
        assert np.array_equal(one.expected[0].value, two.expected[0].value)
    assert (again[1].expected[0].bound, again[1].side) == (None, "left")
    assert constants["K"].tolist() == [0.0, 0.0]


def elementwise(fn: str) -> Dag:
    body: Expr = Call(fn, Read("A", (Var("i"),), "float32"))
    return Dag(
        (Placeholder("A", (64,)), Compute("C", (Axis("i", 64),), (body,), ("float32",))), ("C",)
    )


def test_logarithms_are_checked_on_positive_numbers() -> None:
    cases = make_cases(elementwise("log"), seed=0)
    assert [case.name for case in cases] == ["random positive", "sparse", "edge"]
    assert np.isfinite(cases[0].expected[0].value).all()


def test_a_rank_zero_sum_round_trips(tmp_path: object) -> None:
    from pathlib import Path

    body = Read("A", (Var("k"),), "float32")
    dag = Dag(
        (
            Placeholder("A", (5,)),
            Compute("S", (), (body,), ("float32",), (Axis("k", 5),), "sum"),
        ),
        ("S",),
    )
    cases = make_cases(dag, seed=0)
    save_cases(cases, {}, Path(str(tmp_path)))
    again, _ = load_cases(Path(str(tmp_path)))
    assert again[0].expected[0].value.shape == ()


def test_argmax_of_close_values_may_answer_either() -> None:
    value = Read("A", (Var("k"),), "float32")
    scaled = Binary("mul", value, Const(1.1, "float32"))
    node = Compute("M", (), (scaled, Var("k")), ("float32", "int64"), (Axis("k", 3),), "argmax")
    dag = Dag((Placeholder("A", (3,)), node), ("M",))
    cases = make_cases(dag, seed=0)
    assert [one.name for one in cases[0].expected] == ["M", "M.1"]
    best = cases[0].expected[1]
    assert compare(best, best.value.astype(np.int64)) is None
    assert compare(best, (best.value + 1).astype(np.int64)) is not None
