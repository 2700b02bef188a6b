"""Arithmetic, activation functions and normalisations: recognised formulas, in float64.

A formula and its operator are compared in float64, in which a wrong constant shows.
"""

from collections.abc import Callable
from math import pi, sqrt

import numpy as np
import pytest

from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.passes import simplify
from ansorpy.graph.passes.arith import arith
from tests.graph.passes.common import after, assert_same_bits, assert_within, ops

BOUND = 2.0**-45  # share of the largest element: a dozen roundings of 2^-53


class Formula:
    """A graph on x[2, 3, 4] in float64 that is written as expressions."""

    def __init__(self, dtype: str = "float64") -> None:
        self.on = GraphBuilder()
        self.dtype = dtype
        self.x = self.on.input("x", (2, 3, 4), dtype)
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def value(self, of: str | float | np.ndarray) -> str:
        return of if isinstance(of, str) else self.on.constant(
            self.name(), np.asarray(of, self.dtype)
        )  # fmt: skip

    def do(self, op: str, *inputs: str | float | np.ndarray, **attrs: int | float) -> str:
        return self.on.add(op, [self.value(one) for one in inputs], [self.name()], attrs)[0]

    def mean(self, x: str, op: str = "ReduceMean") -> str:
        axes = self.on.constant(self.name(), np.array([-1], np.int64))
        return self.on.add(op, [x, axes], [self.name()], {"keepdims": 1})[0]

    def graph(self, end: str) -> Graph:
        self.on.output("y", end)
        return self.on.graph()


def swish(on: Formula) -> str:
    return on.do("Mul", on.do("Sigmoid", on.x), on.x)


def quick_gelu(on: Formula) -> str:
    return on.do("Mul", on.x, on.do("Sigmoid", on.do("Mul", 1.702, on.x)))


def swish_by_exp(on: Formula) -> str:
    return on.do("Mul", on.x, on.do("Div", 1.0, on.do("Add", on.do("Exp", on.do("Neg", on.x)), 1)))


def hard_swish(on: Formula) -> str:
    clipped = on.do("Clip", on.do("Add", on.x, 3.0), 0.0, 6.0)
    return on.do("Mul", on.x, on.do("Div", clipped, 6.0))


def hard_swish_divided_last(on: Formula) -> str:
    clipped = on.do("Clip", on.do("Add", on.x, 3.0), 0.0, 6.0)
    return on.do("Div", on.do("Mul", clipped, on.x), 6.0)


def hard_swish_of_hard_sigmoid(on: Formula) -> str:
    return on.do("Mul", on.x, on.do("HardSigmoid", on.x, alpha=1 / 6, beta=0.5))


def hard_sigmoid(on: Formula) -> str:
    clipped = on.do("Clip", on.do("Add", on.x, 2.0), 0.0, 5.0)
    return on.do("Mul", clipped, 0.2)


def gelu(on: Formula) -> str:
    phi = on.do("Add", on.do("Erf", on.do("Div", on.x, sqrt(2))), 1.0)
    return on.do("Mul", on.do("Mul", on.x, phi), 0.5)


def gelu_of_half(on: Formula) -> str:
    phi = on.do("Add", 1.0, on.do("Erf", on.do("Mul", on.x, sqrt(0.5))))
    return on.do("Mul", on.do("Mul", on.x, 0.5), phi)


def gelu_by_tanh(on: Formula) -> str:
    cubic = on.do("Mul", on.do("Pow", on.x, 3.0), 0.044715)
    inner = on.do("Mul", on.do("Add", on.x, cubic), sqrt(2 / pi))
    return on.do("Mul", on.do("Mul", 0.5, on.x), on.do("Add", on.do("Tanh", inner), 1.0))


def mish(on: Formula) -> str:
    return on.do("Mul", on.x, on.do("Tanh", on.do("Softplus", on.x)))


def layer_norm(on: Formula) -> str:
    centred = on.do("Sub", on.x, on.mean(on.x))
    root = on.do("Sqrt", on.do("Add", on.mean(on.do("Pow", centred, 2.0)), 1e-5))
    scaled = on.do("Mul", np.array([1, 2, 3, 4.0]), on.do("Div", centred, root))
    return on.do("Add", scaled, np.array([0, 1, 0, 2.0]))


def layer_norm_by_sums(on: Formula) -> str:
    centred = on.do("Sub", on.x, on.do("Mul", on.mean(on.x, "ReduceSum"), 0.25))
    square = on.do("Div", on.mean(on.do("Mul", centred, centred), "ReduceSum"), 4.0)
    inverse = on.do("Reciprocal", on.do("Sqrt", on.do("Add", 1e-3, square)))
    return on.do("Mul", on.do("Mul", inverse, centred), np.full((1, 1, 4), 3.0))


def rms_norm(on: Formula) -> str:
    power = on.do("Pow", on.do("Add", on.mean(on.do("Mul", on.x, on.x)), 1e-6), -0.5)
    return on.do("Mul", on.do("Mul", on.x, power), np.array([1, 2, 3, 4.0]))


def softmax(on: Formula) -> str:
    power = on.do("Exp", on.do("Sub", on.x, on.mean(on.x, "ReduceMax")))
    return on.do("Div", power, on.mean(power, "ReduceSum"))


@pytest.mark.parametrize(
    ("formula", "op"),
    [
        (swish, "Swish"), (quick_gelu, "Swish"), (swish_by_exp, "Swish"),
        (hard_swish, "HardSwish"), (hard_swish_divided_last, "HardSwish"),
        (hard_swish_of_hard_sigmoid, "HardSwish"), (hard_sigmoid, "HardSigmoid"), (gelu, "Gelu"),
        (gelu_of_half, "Gelu"), (gelu_by_tanh, "Gelu"), (mish, "Mish"),
        (layer_norm, "LayerNormalization"), (layer_norm_by_sums, "LayerNormalization"),
        (rms_norm, "RMSNormalization"), (softmax, "Softmax"),
    ],
)  # fmt: skip
def test_a_formula_becomes_its_operator(formula: Callable[[Formula], str], op: str) -> None:
    on = Formula()
    graph = on.graph(formula(on))
    made = simplify(graph).graph
    assert ops(made) == [op]
    assert_within(graph, made, BOUND)


def other_constant(on: Formula) -> str:
    return on.do("Mul", on.do("Mul", on.x, on.do("Add", on.do("Erf", on.x), 1.0)), 0.5)


def other_operand(on: Formula) -> str:
    return on.do("Mul", on.do("Relu", on.x), on.do("Sigmoid", on.x))


def other_axis(on: Formula) -> str:
    axes = on.on.constant("axis", np.array([1], np.int64))
    centred = on.do("Sub", on.x, on.do("ReduceMean", on.x, axes))
    square = on.do("ReduceMean", on.do("Mul", centred, centred), axes)
    return on.do("Div", centred, on.do("Sqrt", on.do("Add", square, 1e-5)))


def softmax_without_maximum(on: Formula) -> str:
    power = on.do("Exp", on.x)
    return on.do("Div", power, on.mean(power, "ReduceSum"))


@pytest.mark.parametrize(
    "formula", [other_constant, other_operand, other_axis, softmax_without_maximum]
)
def test_a_formula_that_differs_stays(formula: Callable[[Formula], str]) -> None:
    on = Formula()
    graph = on.graph(formula(on))
    made = simplify(graph).graph
    names = {"Gelu", "Swish", "LayerNormalization", "RMSNormalization", "Softmax"}
    assert not names & set(ops(made))
    assert_within(graph, made, BOUND)


@pytest.mark.parametrize(
    ("op", "number", "made", "exact"),
    [
        ("Pow", 2.0, ["Mul"], True), ("Pow", 1.0, [], True), ("Pow", 3.0, ["Mul", "Mul"], False),
        ("Pow", 0.5, ["Pow"], True), ("Pow", -1.0, ["Reciprocal"], True),
        ("Div", 4.0, ["Mul"], True),
        ("Div", 3.0, ["Mul"], False), ("Div", 1e-40, ["Div"], True), ("Sub", 0.3, ["Add"], True),
        ("Mul", -1.0, ["Neg"], True), ("Pow", 2.5, ["Pow"], True), ("Div", 0.0, ["Div"], True),
        ("Pow", -0.5, ["Pow"], True),
    ],
)  # fmt: skip
def test_arithmetic_with_a_constant(op: str, number: float, made: list[str], exact: bool) -> None:
    on = Formula("float32")
    graph = on.graph(on.do(op, on.x, number))
    found = after(arith, graph)
    assert ops(found) == made
    if exact:
        assert_same_bits(graph, found)
    else:
        assert_within(graph, found, 2.0**-22)  # two roundings of 2^-24 in place of one


@pytest.mark.parametrize(("number", "made"), [(0.5, ["Sqrt"]), (-0.5, ["Sqrt", "Reciprocal"])])
def test_a_power_of_no_negative_number_is_a_root(number: float, made: list[str]) -> None:
    on = Formula("float32")
    squares = on.do("Add", on.mean(on.do("Pow", on.x, 2.0)), 1e-5)
    graph = on.graph(on.do("Pow", squares, number))
    found = after(arith, graph)
    assert ops(found) == ["Mul", "ReduceMean", "Add", *made]
    assert_within(graph, found, 2.0**-22)
