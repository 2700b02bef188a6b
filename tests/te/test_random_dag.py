from collections import Counter

import numpy as np

from ansorpy.expr.expr import Binary, Call, Cast, Select, walk
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.oracle.reference import evaluate_bounded
from ansorpy.te.check import check
from tests.random_dag import DagLimits, random_dag, random_inputs


def test_the_same_seed_gives_the_same_dag() -> None:
    dags = [random_dag(np.random.default_rng(7)) for _ in range(2)]
    assert dags[0] == dags[1]


def test_random_dags_are_valid_small_and_finite() -> None:
    limits = DagLimits()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        dag = random_dag(rng, limits)
        check(dag)
        assert 1 <= len(dag.computes) <= limits.computes
        assert all(node.points <= limits.points for node in dag.computes)
        for outputs in evaluate_bounded(dag, random_inputs(rng, dag)).values():
            for one in outputs:
                assert np.all(np.isfinite(one.value))
                assert np.all(np.isfinite(one.error))


def test_random_dags_cover_the_language() -> None:
    seen: Counter[str | None] = Counter()
    for seed in range(200):
        dag = random_dag(np.random.default_rng(seed))
        seen["several outputs"] += len(dag.outputs) > 1
        seen["chain"] += len(dag.computes) > 2
        for node in dag.computes:
            seen[node.combiner] += 1
            seen[node.dtype] += 1
            seen["zero rank"] += not node.shape
            seen["extent 1"] += 1 in node.shape
            seen["start"] += node.start is not None
            for body in node.body:
                for part in walk(body):
                    match part:
                        case Binary(op=name) | Call(fn=name):
                            seen[name] += 1
                        case Select():
                            seen["select"] += 1
                        case Cast():
                            seen["cast"] += 1
                        case _:
                            pass
    wanted = (
        "several outputs", "chain", "zero rank", "extent 1", "start", "select", "cast", None,
        "sum", "max", "min", "prod", "argmax", "argmin", "float32", "float64", "int32",
        "add", "sub", "mul", "div", "floordiv", "mod", "bitand", "bitor",
        "bitxor", "shl", "shr", *BINARY_FUNCTIONS, *(set(FUNCTIONS) - {"not", "tf32"}),
    )  # fmt: skip
    assert [name for name in wanted if seen[name] < 3] == [], "tests/random_terms.py draws none"
