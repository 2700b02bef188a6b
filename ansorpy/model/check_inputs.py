"""Inputs for the verification of a model, drawn to find faults that normal numbers do not show."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from ansorpy.artifact.harness import narrowed, widened
from ansorpy.expr.dtypes import FLOATS, INTEGER_RANGE, LARGEST, NARROW, UNIT_ROUNDOFF
from ansorpy.graph.graph import Array, Graph
from ansorpy.te.dims import Dim, with_sums
from ansorpy.te.dims import least as least_of

WHOLE_NUMBERS: Final = 2  # exclusive limit of random integers that may index something
SMALL_WHOLES: Final = 9  # largest size of integers that are known to be operands
OPERANDS: Final = frozenset({  # operators that take integers of any value
    "Abs", "Add", "ArgMax", "ArgMin", "Cast", "Clip", "Concat", "Equal", "Flatten", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "MatMul", "MatMulInteger", "Max", "Min", "Mul", "Neg",
    "Not", "Pad", "ReduceMax", "ReduceMin", "ReduceSum", "Relu", "Sign", "Sub", "Sum", "TopK",
    "Transpose",
})  # fmt: skip
DIVISIONS: Final = frozenset({"Div", "Mod"})  # by zero, nothing is defined
RUN_TIME_SCALE: Final = 1e12  # masks and temperatures that a caller may give
EXTREMES: Final = frozenset({  # operators without sums: an infinity stays in its place
    "Abs", "Add", "Ceil", "Clip", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
    "HardSigmoid", "HardSwish", "LeakyRelu", "Less", "Log", "Max", "MaxPool", "Min",
    "Mish", "Mul", "Neg", "Pow", "ReduceMax", "ReduceMin", "Relu",
    "Round", "Selu", "Sigmoid", "Sign", "Softmax", "Softplus", "Softsign", "Sqrt", "Sub", "Tanh",
    "ThresholdedRelu", "Where",
})  # fmt: skip

MORE_SIZES: Final = 3  # random sizes of dims at which a model is checked

Inputs = dict[str, Array]
Draw = Callable[[tuple[int, ...], str], Array]  # float64 numbers for a shape and dtype


def is_one_operator(graph: Graph) -> bool:
    """Return True for a graph of one node, whose outputs can be judged element by element."""
    return len(graph.nodes) == 1


def checked_sizes(dims: Sequence[Dim], rng: np.random.Generator) -> list[dict[str, int]]:
    """Return different sizes to check a model with dims at.

    The largest, middle and least ones, each dim large while the others are small, random ones.
    """
    least, largest = ({one.name: of(one) for one in dims} for of in (least_of, int))
    found = [largest, {one.name: sum(one.counts) // 2 * one.step for one in dims}, least]
    found += [{**least, one.name: one.high} for one in dims]
    for _ in range(MORE_SIZES):
        steps = [int(rng.integers(*one.counts, endpoint=True)) for one in dims]
        found.append({one.name: n * one.step for one, n in zip(dims, steps, strict=True)})
    found = [with_sums(dims, one) for one in found]
    return [one for k, one in enumerate(found) if one not in found[:k]]


def random_inputs(graph: Graph, rng: np.random.Generator) -> Inputs:
    """Return an array for each input: normal floats; integers that index a table are in range."""
    return _drawn(graph, rng, lambda shape, _: rng.standard_normal(shape))


def hard_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Inputs]:
    """Return inputs by the name of their difficulty; integers for a graph without floats.

    Numbers of a graph of several nodes are moderate, so that its float16 values do not overflow.
    """
    floats = [graph.values[name] for name in graph.inputs if graph.values[name].dtype in FLOATS]
    if not floats:
        return {"negative": _drawn(graph, rng, lambda shape, _: np.zeros(shape), negative=True)}
    alone = is_one_operator(graph)
    op = graph.nodes[0].op if alone else ""
    normal = rng.standard_normal

    def large(shape: tuple[int, ...], dtype: str) -> Array:
        return normal(shape) * ((300.0 if alone else 8.0) if dtype == "float16" else 1e4)

    def small(shape: tuple[int, ...], dtype: str) -> Array:
        return normal(shape) * (1e-3 if dtype in NARROW else 1e-4)

    draws: dict[str, Draw] = {
        "large": large,
        "small": small,
        "negative": lambda shape, _: -np.abs(normal(shape)) - 0.5,
        "equal": lambda shape, _: np.full(shape, 30.0 if alone else 0.5),
    }
    scalars = [one for one in floats if np.prod(one.fixed_shape) == 1]
    if scalars and len(scalars) < len(floats):
        draws["scaled"] = lambda shape, dtype: (
            np.full(shape, min(RUN_TIME_SCALE, LARGEST[dtype] / 8))
            if np.prod(shape) == 1
            else normal(shape)
        )
    if op in EXTREMES:
        numbers = [-np.inf, 0.0, -0.0, 1.0, -1.0, 2.5] + [np.inf] * (op != "Softmax")
        draws["infinite"] = lambda shape, _: rng.choice(numbers, shape)
    return {name: _drawn(graph, rng, draw, name == "negative") for name, draw in draws.items()}


def nudged(graph: Graph, inputs: Mapping[str, Array], rng: np.random.Generator | None) -> Inputs:
    """Return inputs whose floats are off by a machine epsilon.

    Args:
        rng: draws the direction of each element; all move the same way if it is None, so that
            equal elements stay equal.
    """
    nudged: Inputs = {}
    for name, array in inputs.items():
        dtype = graph.values[name].dtype
        if dtype not in FLOATS:
            nudged[name] = array
            continue
        signs = 1.0 if rng is None else rng.choice([-1.0, 1.0], array.shape)
        step = 1 + 2 * UNIT_ROUNDOFF[dtype] * signs
        nudged[name] = np.asarray(narrowed(widened(array, dtype) * step, dtype))
    return nudged


def _drawn(graph: Graph, rng: np.random.Generator, draw: Draw, negative: bool = False) -> Inputs:
    inputs: Inputs = {}
    for name in graph.inputs:
        value = graph.values[name]
        shape, dtype = value.fixed_shape, value.dtype
        if dtype in FLOATS:
            with np.errstate(over="ignore"):
                inputs[name] = np.asarray(narrowed(np.asarray(draw(shape, dtype)), dtype))
        else:
            integers = partial(rng.integers, size=shape)
            inputs[name] = integers(*_span(graph, name, dtype, negative)).astype(dtype)
    return inputs


def _span(graph: Graph, name: str, dtype: str, negative: bool) -> tuple[int, int]:
    """Return the least and the exclusive largest integer of an input."""
    readers = {node.op for node in graph.readers.get(name, ())}
    if readers & DIVISIONS:
        return 1, WHOLE_NUMBERS + 1
    if dtype in ("int8", "uint8"):  # no operator of ONNX takes indices of 8 bits
        low, high = INTEGER_RANGE[dtype]
        return (low, high + 1) if "BitShift" not in readers else (0, 8)
    if negative and dtype in ("int32", "int64") and readers and readers <= OPERANDS:
        return -SMALL_WHOLES, SMALL_WHOLES + 1
    extents: Sequence[int] = [
        graph.values[node.inputs[0]].fixed_shape[int(str(node.attrs.get("axis", 0)))]
        for node in graph.readers.get(name, ())
        if node.op == "Gather" and node.inputs[1] == name
    ]
    return 0, min(extents, default=WHOLE_NUMBERS)
