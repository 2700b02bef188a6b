"""Joined axes: a Dag computes the same, and axes are joined where all nodes agree."""

import numpy as np
import pytest

from ansorpy.frontends.tc.text import parse
from ansorpy.oracle.reference import evaluate
from ansorpy.rewrites.joined_axes import joined
from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim
from ansorpy.topi.suites import SUITE_SMALL
from tests.random_dag import random_dag, random_inputs

EXAMPLES = 200
N = Dim("N", 1, 4)


def shapes(text: str) -> dict[str, tuple[int, ...]]:
    (dag,) = parse(f"def f({text}")
    return {node.name: node.shape for node in joined(dag).nodes}


def check_equal(dag: Dag, inputs: dict[str, np.ndarray]) -> None:
    made = joined(dag)
    assert [node.name for node in made.nodes] == [node.name for node in dag.nodes]
    given = {node.name: inputs[node.name].reshape(node.shape) for node in made.placeholders}
    pairs = zip(evaluate(dag, inputs), evaluate(made, given), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(other.reshape(one.shape), one, rtol=1e-12, atol=1e-12)


def test_random_dags_compute_the_same() -> None:
    changed = 0
    for seed in range(EXAMPLES):
        rng = np.random.default_rng(seed)
        dag = random_dag(rng)
        check_equal(dag, random_inputs(rng, dag))
        changed += joined(dag) != dag
    assert changed > EXAMPLES // 8


@pytest.mark.parametrize("name", sorted(SUITE_SMALL))
def test_operators_of_the_suite_compute_the_same(name: str) -> None:
    dag = SUITE_SMALL[name]()
    check_equal(dag, random_inputs(np.random.default_rng(1), dag))
    assert joined(joined(dag)) == joined(dag)


def test_a_convolution_of_1x1_runs_over_a_row_of_pixels() -> None:
    text = """float(1, 8, 14, 14) X, const float(4, 8) W, const float(4) B, float(1, 4, 14, 14) R)
    -> (Z) {
        Y(n, o, h, w) +=! X(n, c, h, w) * W(o, c)
        Z(n, o, h, w) = fmax(Y(n, o, h, w) + B(o) + R(n, o, h, w), 0)
    }"""
    assert shapes(text) == {
        "X": (1, 8, 196), "W": (4, 8), "B": (4,), "R": (1, 4, 196), "Y": (1, 4, 196),
        "Z": (1, 4, 196),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float(3, 4, 5) X) -> (S) { S(i) +=! X(i, j, k) }", {"X": (3, 20), "S": (3,)}),
        ("float(3, 4) X, float(4) B) -> (Z) { Z(i, j) = X(i, j) + B(j) }", {"Z": (3, 4)}),
        ("float(3, 4) X) -> (Z) { Z(j, i) = X(i, j) }", {"Z": (4, 3)}),
        ("float(3, 4) X) -> (Z) { Z(i, j) = X(i, j) + float(j) }", {"Z": (3, 4)}),
        ("float(3, 4) X) -> (Z) { Z(i, j) = X(i, j) + X(j / 2, i) }", {"Z": (3, 4), "X": (3, 4)}),
        ("float(3, 4) X) -> (Z) { Z(i, j) = X(i, j) where i in 0:3, j in 0:3 }", {"X": (3, 4)}),
        ("float(3, 4, N in 1..4) X) -> (Z) { Z(i, j, k) = X(i, j, k) * 2 }", {"Z": (12, N)}),
        ("float(3, 4, 4) X) -> (Z) { Z(i, j) +=! X(i, j, k) + X(i, k, j) }", {"X": (3, 4, 4)}),
        ("float(3, 4) X) -> (V, I) { (V, I)() = argmax(i, j, X(i, j)) }", {"X": (3, 4)}),
        ("float(3, 4) X) -> (Z) { Z(i, j) = X(i, j) with no_split_inner(j) }", {"Z": (3, 4)}),
        (
            "float(2, 3, 8, 4) Q, float(2, 3, 6, 4) K) -> (P) "
            "{ P(b, h, i, j) +=! Q(b, h, i, d) * K(b, h, j, d) }",
            {"Q": (6, 8, 4), "K": (6, 6, 4), "P": (6, 8, 6)},
        ),
        (
            "float(3, 8, 5, 7) X, const float(4, 8, 1, 1) W) -> (Z) "
            "{ Z(n, o, h, w) +=! X(n, c, h + r, w + q) * W(o, c, r, q) }",
            {"X": (3, 8, 35), "W": (4, 8), "Z": (3, 4, 35)},
        ),
        (
            # One reader takes columns: the tensor and its other reader keep both axes.
            "float(3, 4) X) -> (A, B) { A(i, j) = X(i, j) * 2; B(j) +=! X(i, j) }",
            {"X": (3, 4), "A": (3, 4), "B": (4,)},
        ),
    ],
)
def test_axes_are_joined_where_every_node_walks_them_together(
    text: str, expected: dict[str, tuple[int, ...]]
) -> None:
    found = shapes(text)
    assert {name: found[name] for name in expected} == expected
