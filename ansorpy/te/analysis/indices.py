"""Inputs whose elements serve as indices, and the range of indices that they choose from."""

from ansorpy.expr.bounds import Interval, bounds
from ansorpy.expr.dtypes import INTS
from ansorpy.expr.expr import Expr, reads
from ansorpy.expr.gathers import data_parts, index_reads
from ansorpy.te.dag import Compute, Dag, Placeholder


def index_ranges(dag: Dag) -> dict[str, Interval]:
    """Return, by name of an integer input, the first and last index that its elements choose.

    An element reaches a clamped index directly, or through integer nodes, such as a cast or a
    reshape. Elements outside of the range are valid as well: they are clamped.
    """
    intervals: dict[str, Interval] = {}
    for node in reversed(dag.nodes):  # readers before the nodes that they read
        if not isinstance(node, Compute):
            continue
        for body in (*node.body, *(() if node.start is None else (node.start,))):
            _gathered(body, intervals)
            if node.name in intervals:
                _handed_on(body, intervals[node.name], intervals)
    inputs = {node.name for node in dag.nodes if isinstance(node, Placeholder)}
    return {name: interval for name, interval in intervals.items() if name in inputs}


def _gathered(body: Expr, intervals: dict[str, Interval]) -> None:
    for read in reads(body):
        for index in read.indices:
            for part in data_parts(index):
                _handed_on(part, bounds(part, {}), intervals)


def _handed_on(expr: Expr, interval: Interval, intervals: dict[str, Interval]) -> None:
    """Note an interval for the integer tensors that an expression reads as values."""
    for read in set(reads(expr)) - index_reads(expr):
        if read.dtype in INTS:
            low, high = intervals.get(read.tensor, interval)
            intervals[read.tensor] = min(low, interval[0]), max(high, interval[1])
