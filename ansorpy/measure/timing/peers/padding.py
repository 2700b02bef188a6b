"""Tensors with a constant around their elements, or between them."""

from collections.abc import Iterable

import numpy as np

from ansorpy.expr.evaluate import evaluate
from ansorpy.expr.expr import Const, Expr, Read, Select, reads, variables
from ansorpy.expr.products import conjuncts
from ansorpy.measure.timing.peers.expression import Values
from ansorpy.measure.timing.peers.shaping import padded
from ansorpy.measure.timing.peers.term import Term, Terms
from ansorpy.te.dag import Compute


def padding(terms: Terms, node: Compute, values: Values) -> Term | None:
    """Return a node as a tensor with a constant around or between its elements; None if not."""
    match node.body[0]:
        case Select(cond=cond, then=Read() as read, other=Const(value=value)):
            pass
        case _:
            return None
    x = values[read.tensor, read.output]
    if len(x.shape) != len(node.axes) or reads(cond):
        return None
    inside = _inside(conjuncts(cond), node)
    if inside is None:
        return None
    before, after, steps = [], [], []
    for axis, index, n in zip(node.axes, read.indices, x.shape, strict=True):
        held = inside[axis.name]
        if variables(index) != {axis.name} or len(held) != n:
            return None
        if not np.array_equal(evaluate(index, {axis.name: np.array(held)}), np.arange(n)):
            return None
        before.append(held[0])
        after.append(axis.extent - 1 - held[-1])
        steps.append(held.step)
    number = float(value) if x.dtype != "bool" else int(value)
    return padded(terms, x, [*before, *after], number, steps)


def _inside(conditions: Iterable[Expr], node: Compute) -> dict[str, range] | None:
    """Return the positions along each axis at which conditions on one axis each hold."""
    held = {axis.name: np.ones(axis.extent, bool) for axis in node.axes}
    for one in conditions:
        names = variables(one)
        if len(names) != 1:
            return None
        (name,) = names
        held[name] &= np.asarray(evaluate(one, {name: np.arange(held[name].size)}), bool)
    ranges = {}
    for name, mask in held.items():
        places = np.flatnonzero(mask)
        step = int(places[1] - places[0]) if places.size > 1 else 1
        if not places.size or (np.diff(places) != step).any():
            return None
        ranges[name] = range(int(places[0]), int(places[-1]) + 1, step)
    return ranges
