"""Bounds of the distance between a right result and the result of an oracle.

The oracle gives the bounds: two orders of its operations, and inputs that are off by a machine
epsilon, tell how far a right result may be off. The rounding errors of one operator bound each
element.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ansorpy.artifact.harness import widened
from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import FLOATS, LARGEST, NARROW, UNIT_ROUNDOFF
from ansorpy.graph.graph import Array, Graph
from ansorpy.graph.lower import lower
from ansorpy.model.check_inputs import Inputs
from ansorpy.oracle.reference import evaluate_bounded
from ansorpy.te.analysis import flop_count

OWN_ERROR: Final = 4.0  # times the error of ONNX Runtime's optimiser that ours may be
LEAST_BOUND: Final = 2e-5  # share of the largest element: rounding of float32 over a deep model
NARROW_ROUNDINGS: Final = 16.0  # roundings of float16 or bfloat16 that a deep model adds up
MOST_BOUND: Final = 0.1  # share of the largest element: a larger bound proves nothing
HARD_ERROR: Final = 16.0  # times the change that a machine epsilon of hard inputs makes
HARD_BOUND: Final = 50.0  # times the bound of normal inputs
BUDGET_FLOP: Final = 2e9  # operations of an operator with a bound for each element
ROUNDOFF_OF_ONE: Final = 2.0**-22  # roundoff of logistic functions, which programs cut off below
IMPRECISE: Final = frozenset({"LRN"})  # operators whose powers ONNX Runtime approximates
ULPS: Final = 16.0  # roundoffs of functions of an oracle, beside the roundoffs of its sums

Opinion = Sequence[Array]  # the outputs of a model


def dtypes_of(graph: Graph) -> tuple[str, ...]:
    """Return the dtypes of the outputs of a graph."""
    return tuple(graph.values[output.value].dtype for output in graph.outputs)


def least_bound(graph: Graph) -> float:
    """Return the difference that rounding explains, as a share of the largest element."""
    narrow = {value.dtype for value in graph.values.values()} & {*NARROW}
    return max([LEAST_BOUND, *(NARROW_ROUNDINGS * UNIT_ROUNDOFF[dtype] for dtype in narrow)])


def element_bounds(
    graph: Graph,
    inputs: Inputs,
    opinions: Sequence[Opinion],
    name: str,
    rough: tuple[Array, ...],
) -> tuple[Array, ...]:
    """Return the bounds of each element of one operator.

    The rounding errors of the operator come from our own expressions; the values do not.

    Args:
        rough: bounds of the elements without an error bound by the expressions.
    """
    imprecise = any(node.op in IMPRECISE for node in graph.nodes)
    errors = None if imprecise else _rounding_errors(graph, inputs)
    if errors is None:
        return rough
    bounds: list[Array] = []
    for number, (output, dtype) in enumerate(zip(graph.outputs, dtypes_of(graph), strict=True)):
        first, *others = (widened(opinion[number], dtype) for opinion in opinions)
        value = first.astype(np.float64)
        with np.errstate(all="ignore"):
            # Twice for each of the two programs: roundings of the program and of the bound.
            bound = np.broadcast_to(4 * errors[output.value], value.shape)
            if dtype in FLOATS:
                # Oracles keep attributes and parts of functions in float32 for float64 as well.
                u = max(UNIT_ROUNDOFF[dtype], UNIT_ROUNDOFF["float32"])
                bound = bound + ULPS * u * (np.abs(value) + 1 / ULPS)
            for other in others:
                bound = bound + OWN_ERROR * np.where(_same(other, first), 0.0, abs(other - value))
        bound = np.where(np.isfinite(bound), bound, rough[number])
        strict = np.full(value.shape, name == "infinite")
        for other in others:
            strict &= _same(other, first)
        bounds.append(np.where(np.isfinite(value), bound, np.where(strict, 0.0, np.inf)))
    return tuple(bounds)


def _rounding_errors(graph: Graph, inputs: Inputs) -> dict[str, Array] | None:
    """Return the error bounds of the outputs of a graph by value; None if there are none."""
    try:
        low = lower(graph, graph.nodes, [output.value for output in graph.outputs])
        if flop_count(low.dag) > BUDGET_FLOP:
            return None
        arrays = {**{name: one.array for name, one in graph.weights.items()}, **inputs}
        given = {
            node.name: arrays[value]
            for node, value in zip(low.dag.placeholders, low.reads, strict=True)
        }
        made = evaluate_bounded(low.dag, given)
    except SpecError:
        return None
    errors = [one.error for name in low.dag.outputs for one in made[name]]
    return dict(zip(low.writes, errors, strict=True))


def rough_bounds(graph: Graph, opinions: Sequence[Opinion]) -> tuple[Array, ...]:
    """Return a bound for each output of a graph of several operators, from several results.

    The last result is of inputs that are off by a machine epsilon. Nothing is said of an output
    whose elements are finite in one result only, or move by much.
    """
    share = min(HARD_BOUND * least_bound(graph), MOST_BOUND)
    bounds: list[Array] = []
    for number, dtype in enumerate(dtypes_of(graph)):
        first, *others = (widened(one[number], dtype).astype(np.float64) for one in opinions)
        finite = np.isfinite(first)
        largest = float(np.max(np.abs(first), initial=0.0, where=finite))
        spread = 0.0
        for other in others:
            stable = np.array_equal(np.isfinite(other), finite)
            with np.errstate(invalid="ignore"):
                apart = np.max(np.abs(other - first), initial=0.0, where=finite)
            spread = max(spread, float(apart)) if stable else math.inf
        least = (
            share * largest + ROUNDOFF_OF_ONE
            if dtype in FLOATS
            else float(dtype in ("int8", "uint8"))
        )
        known = HARD_ERROR * spread <= MOST_BOUND * largest or not spread
        bound = max(HARD_ERROR * spread, least) if known else math.inf
        bounds.append(np.where(finite, bound, np.inf))
    return tuple(bounds)


def is_near(result: Array, wanted: Array, bound: Array, dtype: str) -> Array:
    """Return which elements are within a bound; NaN and infinities must be equal.

    A finite result may be an infinity if the bound reaches beyond the largest number of the dtype.
    """
    with np.errstate(all="ignore"):
        a, b = result.astype(np.float64), wanted.astype(np.float64)
        right = (result == wanted) | (np.isnan(a) & np.isnan(b)) | np.isinf(bound)
        right |= (np.abs(a - b) <= bound) & ((bound > 0) | (dtype in FLOATS))
        if dtype in FLOATS:  # a right result may round to infinity
            right |= np.isinf(a) & (np.sign(a) == np.sign(b)) & (np.abs(b) + bound > LARGEST[dtype])
    return np.asarray(right)


def _same(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
