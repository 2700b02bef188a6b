"""NaN propagation: decide if a NaN input determines which outputs are NaN."""

from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import COMPARISONS, Binary, Cast, Expr, Select, reads, walk
from ansorpy.te.dag import Compute, Dag


def hands_nans_on(dag: Dag) -> bool:
    """Return whether extremes of floats are taken, and nothing that forks on a NaN is done.

    max, min, argmax and argmin hand a NaN on, as NumPy's do. A comparison, a power or a cast to
    an integer may hide it, rightly.
    """
    bodies = [body for node in dag.computes for body in node.body]
    parts = [part for body in bodies for part in walk(body)]
    if any(map(_forks, parts)):
        return False
    return any(map(_reduces, dag.computes)) or any(map(_clamps, parts))


def _reduces(node: Compute) -> bool:
    return node.combiner in ("max", "min", "argmax", "argmin") and node.dtype in FLOATS


def _clamps(part: Expr) -> bool:
    return isinstance(part, Binary) and part.op in ("max", "min") and part.dtype in FLOATS


def _forks(part: Expr) -> bool:
    match part:
        case Select(cond=cond):
            return bool(reads(cond))
        case Cast(dtype=dtype, a=a):
            return dtype not in FLOATS and a.dtype in FLOATS
        case Binary(op=op, a=a):
            return op == "pow" or (op in COMPARISONS and a.dtype in FLOATS)
        case _:
            return False
