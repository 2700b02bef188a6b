"""Operators on 16-bit floats: float32 within, and 16 bits where the result is stored."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import ansorpy.graph.ops  # noqa: F401  enters the operators
from ansorpy import te, topi
from ansorpy.expr.wide import ROUNDING, only_moves
from ansorpy.graph.graph import Node
from ansorpy.graph.operator import tensors
from ansorpy.te.dag import Dag
from tests.topi.test_operators import CASES

# Cases that compute an argument of the operator, or that need another dtype.
COMPUTED = {
    "acosh", "asinh", "atan", "atanh", "isnan", "isinf", "round", "trunc", "dequantize_linear",
    "quantize_linear", "saturate_cast", "grid_sample",
}  # fmt: skip
GIVEN = {"batch_norm": {"variance"}, "argmax": {"argmax_reversed"}, "argmin": {"argmin_reversed"}}
PLACEHOLDER = te.placeholder


def rounded_within(dag: Dag) -> set[str]:
    """Return the nodes before the outputs that round to 16 bits."""
    return {
        node.name
        for node in dag.computes
        if node.name not in dag.outputs
        and node.dtype == "float16"
        and (node.combiner in ROUNDING or not all(map(only_moves, node.body)))
    }


def narrow(shape: Any, name: str = "X", dtype: str = "float32", constant: bool = False) -> Any:
    return PLACEHOLDER(shape, name, "float16" if "float" in dtype else dtype, constant)


@pytest.mark.parametrize("name", sorted(CASES.keys() - COMPUTED))
def test_an_operator_rounds_its_result_only(name: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, *name.encode()])
        with patch.object(te, "placeholder", narrow):
            made, inputs, _ = CASES[name](rng)
        outputs = [made] if isinstance(made, te.Tensor) else list(made)
        dag = te.dag(outputs, name, inputs=inputs)
        assert rounded_within(dag) <= GIVEN.get(name, set()), dag
        if name not in ("cast", "one_hot"):
            assert not {one.dtype for one in outputs} & {"float32", "float64"}


def test_a_sum_of_intermediate_values_is_rounded_by_a_node_of_its_own() -> None:
    x = te.placeholder((4, 300), "x", "bfloat16")
    dag = te.dag(topi.lp_pool(topi.reshape(x, (4, 1, 300)), 300))
    assert {n.name: n.dtype for n in dag.computes if n.name not in dag.outputs} == {
        "reshape": "bfloat16", "powers": "float32", "pool": "float32",
    }  # fmt: skip
    assert dag.computes[-1].dtype == "bfloat16"


@pytest.mark.parametrize(
    ("op", "attrs", "shapes"),
    [
        ("Gemm", {"alpha": 0.001}, [(4, 64), (64, 8), (8,)]),
        ("LRN", {"size": 3}, [(1, 8, 4, 4)]),
        ("LpNormalization", {"p": 2, "axis": -1}, [(4, 64)]),
        ("GlobalLpPool", {"p": 3}, [(1, 2, 8, 8)]),
        ("ReduceL2", {"axes": (1,)}, [(4, 64)]),
        ("ReduceMean", {"axes": (1,)}, [(4, 64)]),
        ("ReduceSumSquare", {"axes": (1,)}, [(4, 64)]),
        ("ReduceLogSum", {"axes": (1,)}, [(4, 64)]),
        ("ReduceLogSumExp", {"axes": (1,)}, [(4, 64)]),
        ("AveragePool", {"kernel_shape": (3, 3)}, [(1, 2, 8, 8)]),
        ("LogSoftmax", {"axis": -1}, [(4, 64)]),
        ("LayerNormalization", {}, [(4, 64), (64,)]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_operator_of_a_model_rounds_its_results_only(
    op: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    names = [f"x{n}" for n in range(len(shapes))]
    given = {n: te.placeholder(s, n, "float16") for n, s in zip(names, shapes, strict=True)}
    made = tensors(Node(op, tuple(names), ("y",), attrs), given.__getitem__, {})
    assert made[0].dtype == "float16"
    assert rounded_within(te.dag(made)) == set()
