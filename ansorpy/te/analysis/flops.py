"""Floating-point (or integer) operations of a Dag, as TVM's auto-scheduler counts them."""

from collections.abc import Mapping
from math import prod
from operator import mul

from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.te.dag import Compute, Dag
from ansorpy.te.dims import at_sizes, dims_of, timed_sizes, timed_weights

# Calls that stand for an operator; functions cost their arguments only.
OPERATORS = ("neg", "not", "bitnot")


def flop_count(dag: Dag) -> int:
    """Return the operations of one evaluation; `attrs.flop` overrides the count of a node.

    Per output element: one per arithmetic, comparison or logic operation whose operands have the
    type class of the output (so index arithmetic is free); the dearer branch of a select; a
    reduction costs (body + 1 combination) per point. Source: ansor.md B2, FLOP count. With dims,
    the weighted mean over `timed_sizes`.
    """
    if dims_of(dag):
        counts, weights = [_at(dag, sizes) for sizes in timed_sizes(dag)], timed_weights(dag)
        return int(sum(map(mul, counts, weights)) / sum(weights))
    return sum(_node(node) for node in dag.computes)


def _at(dag: Dag, sizes: Mapping[str, int]) -> int:
    return flop_count(at_sizes(dag, sizes))


def _node(node: Compute) -> int:
    if node.attrs.flop is not None:
        return node.attrs.flop
    per_point = sum(_cost(body, type_class(node.dtype)) for body in node.body)
    if node.combiner is None:
        return per_point * node.points
    start = 0 if node.start is None else _cost(node.start, type_class(node.dtype))
    return (per_point + 1) * node.points + start * prod(node.shape)


def type_class(dtype: str) -> str:
    """Return "float", "int", "uint" or "bool"."""
    if dtype == "bool":
        return "bool"
    return dtype.removeprefix("b").rstrip("0123456789")


def _cost(expr: Expr, kind: str) -> int:
    match expr:
        case Const() | Var() | Read():
            return 0
        case Binary(a=a, b=b):
            return _counts(a, kind) + _cost(a, kind) + _cost(b, kind)
        case Call(fn=fn, a=a):
            return _cost(a, kind) + (_counts(a, kind) if fn in OPERATORS else 0)
        case Cast(a=a):
            return _cost(a, kind)
        case Select(cond=cond, then=then, other=other):
            return _cost(cond, kind) + max(_cost(then, kind), _cost(other, kind))


def _counts(operand: Expr, kind: str) -> int:
    return int(type_class(operand.dtype) == kind)
