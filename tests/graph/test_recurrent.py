"""Activations of recurrent layers, against their formulas in float64."""

from collections.abc import Callable

import numpy as np
import pytest

from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Attribute
from ansorpy.graph.interp import run

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((1, 4, 5)), RNG.standard_normal((2, 3, 5))
SUM = np.einsum("tbi,dhi->tdbh", X, W)  # before the activation of a first step without state


def layer(op: str, x: Array, w: Array, **attrs: Attribute) -> Array:
    """Return all states of a layer whose recurrent weights are 0."""
    builder = GraphBuilder(hosted=True)
    dtype, hidden = x.dtype.name, 3
    both = {"direction": "bidirectional"} if len(w) == 2 else {}
    builder.input("x", x.shape, dtype)
    builder.constant("w", w.astype(dtype))
    builder.constant("r", np.zeros((*w.shape[:2], hidden), dtype))
    builder.add(op, ["x", "w", "r"], ["y"], {"hidden_size": hidden, **both, **attrs})
    builder.output("y", "y")
    return run(builder.graph(), {"x": x})["y"]


@pytest.mark.parametrize(
    ("name", "alpha", "beta", "function"),
    [
        ("Affine", (2.0,), (), lambda v: 2 * v),
        ("Affine", (2.0,), (3.0,), lambda v: 2 * v + 3),
        ("Elu", (), (), lambda v: np.where(v > 0, v, np.exp(v) - 1)),
        ("Elu", (2.0,), (), lambda v: np.where(v > 0, v, 2 * (np.exp(v) - 1))),
        ("HardSigmoid", (), (), lambda v: np.clip(v / 5 + 0.5, 0, 1)),
        ("HardSigmoid", (0.5,), (0.25,), lambda v: np.clip(v / 2 + 0.25, 0, 1)),
        ("LeakyRelu", (), (), lambda v: np.where(v < 0, v / 100, v)),
        ("LEAKYRELU", (0.5,), (), lambda v: np.where(v < 0, v / 2, v)),
        ("ScaledTanh", (2.0,), (0.5,), lambda v: 2 * np.tanh(v / 2)),
        ("ThresholdedRelu", (), (), lambda v: np.where(v > 1, v, 0)),
        ("ThresholdedRelu", (0.5,), (), lambda v: np.where(v > 0.5, v, 0)),
        ("Softplus", (), (), lambda v: np.log1p(np.exp(v))),
        ("Softsign", (), (), lambda v: v / (1 + np.abs(v))),
        ("Relu", (), (), lambda v: np.maximum(v, 0)),
        ("Sigmoid", (), (), lambda v: 1 / (1 + np.exp(-v))),
    ],
)
def test_an_activation_of_a_layer_is_the_operator_of_its_name(
    name: str,
    alpha: tuple[float, ...],
    beta: tuple[float, ...],
    function: Callable[[Array], Array],
) -> None:
    found = layer(
        "RNN", X, W, activations=(name,) * 2, activation_alpha=alpha * 2, activation_beta=beta * 2
    )
    np.testing.assert_allclose(found, function(SUM), rtol=1e-12, atol=1e-15)


def test_activations_take_their_numbers_in_order() -> None:
    w = RNG.standard_normal((1, 12, 5))
    i, o, _, c = np.split(np.einsum("tbi,dhi->tdbh", X, w), 4, -1)
    found = layer(
        "LSTM", X, w, activations=("HardSigmoid", "Tanh", "LeakyRelu"),
        activation_alpha=(0.5, 0.25), activation_beta=(0.75,),
    )  # fmt: skip
    gate, cell = (np.clip(v / 2 + 0.75, 0, 1) for v in (o, i))
    cell = cell * np.tanh(c)
    np.testing.assert_allclose(found, gate * np.where(cell < 0, cell / 4, cell), rtol=1e-12)


def test_large_operands_of_softplus_stay_finite() -> None:
    x = np.full((1, 4, 5), 100, np.float32)
    found = layer("RNN", x, np.ones((1, 3, 5)), activations=("Softplus",))
    np.testing.assert_array_equal(found, np.full((1, 1, 4, 3), 500, np.float32))


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_a_layer_of_float16_is_computed_in_float32(op: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    x, w = X.astype(np.float16), RNG.standard_normal((1, 3 * gates, 5)).astype(np.float16)
    found, wide = layer(op, x, w), layer(op, x.astype(np.float32), w.astype(np.float32))
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, wide.astype(np.float16))


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"activations": ("Gelu", "Tanh")}, "an activation is not known; expected affine, elu"),
        ({"activations": ("Tanh",)}, "it has 1 activations; expected 2"),
        ({"activations": ("Affine", "Tanh")}, "activation_alpha has 0 numbers for affine, tanh"),
        (
            {"activations": ("ScaledTanh", "ScaledTanh"), "activation_alpha": (1.0, 1.0)},
            "activation_beta has 0 numbers for scaledtanh, scaledtanh; expected 2, one for each",
        ),
        (
            {"activations": ("Elu", "Elu"), "activation_alpha": (1.0, 1.0, 1.0)},
            "activation_alpha has 3 numbers",
        ),
    ],
)
def test_activations_that_are_not_defined_are_refused(
    attrs: dict[str, Attribute], reason: str
) -> None:
    with pytest.raises(GraphError, match=reason):
        layer("RNN", X, W, **attrs)
