"""The bytes of weights that one evaluation reads."""

from math import prod

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.te.dag import Dag


def weight_bytes(dag: Dag) -> dict[str, int]:
    """Return the most bytes that an evaluation reads of each constant placeholder, by name.

    A gather reads few rows of a table: of a weight no more elements count than the largest node of
    the Dag has points.
    """
    most = max((node.points for node in dag.computes), default=0)
    return {
        node.name: min(prod(node.shape), most) * SIZE_BYTES[node.dtype]
        for node in dag.placeholders
        if node.constant
    }
