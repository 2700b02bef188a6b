"""Padding: leave out the products with the zeros around a tensor."""

from dataclasses import dataclass, replace

from ansorpy.expr.expr import Const, Expr, Read, Select, Var, substitute, variables
from ansorpy.expr.intervals import bounds, form, simplify
from ansorpy.expr.products import conjunction, conjuncts, factors, is_zero, with_factor
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis, Compute, Dag, Node


@dataclass(frozen=True, slots=True)
class Padding:
    """A sum with products of the zeros around a tensor.

    Attributes:
        dimensions: for every padded dimension, the spatial axes that, with reduce axes, decide
            if a product reads padding.
        taps: the reduce axes that decide it.
        others: the spatial axes longer than 1 that do not move the read of the padded tensor.
        share: the share of products with padding; dimensions are taken as independent.
        strided: neighbours along every padded dimension are not adjacent in memory, because
            the last dimension is another one, as the channels of NHWC.
    """

    dimensions: tuple[tuple[Axis, ...], ...]
    taps: tuple[Axis, ...]
    others: tuple[Axis, ...]
    share: float
    strided: bool


def find_padding(padded: Node, consumer: Node) -> tuple[Padding | None, Answer]:
    """Return the padding that `padded` puts around a tensor and that `consumer` reads.

    The padded tensor is `select(inside, X[...], 0)`, `inside` a conjunction of conditions on one
    axis each; the consumer is a sum of products with it, read once, at affine indices.
    """
    if not isinstance(padded, Compute) or not isinstance(consumer, Compute):
        return None, no(f"{padded.name} is an input")
    body = padded.body[0]
    if padded.combiner is not None or not isinstance(body, Select) or not is_zero(body.other):
        return None, no(f"{padded.name} is not a tensor padded with zeros")
    taken = [read for read in consumer.reads if read.tensor == padded.name]
    if consumer.combiner != "sum" or len(set(taken)) != 1:
        return None, no(f"{consumer.name} is not a sum that reads {padded.name} once")
    if taken[0] not in factors(consumer.body[0]):
        return None, no(f"{padded.name} is not a factor of {consumer.name}")
    dimensions: list[tuple[Axis, ...]] = []
    taps: list[Axis] = []
    kept = 1.0
    conditions = _by_dimension(padded, body.cond)
    for dimension, cond in conditions.items():
        names = _affine_axes(taken[0].indices[dimension])
        if names is None:
            return None, no(f"{consumer.name} reads {padded.name} at an index that is not affine")
        dimensions.append(tuple(axis for axis in consumer.axes if axis.name in names))
        taps += (axis for axis in consumer.reduce_axes if axis.name in names)
        kept *= _share(padded, consumer, taken[0], dimension, cond)
    if not dimensions or not all(dimensions):
        return None, no(f"{padded.name} has no border that {consumer.name} walks over")
    moving = {name for index in taken[0].indices for name in variables(index)}
    others = tuple(a for a in consumer.axes if a.extent > 1 and a.name not in moving)
    why = yes(f"{1.0 - kept:.0%} of the products meet the zeros of {padded.name}")
    strided = len(padded.axes) - 1 not in conditions
    return Padding(tuple(dimensions), tuple(taps), others, 1.0 - kept, strided), why


def skipped(padded: Compute, consumer: Compute) -> Compute:
    """Return the consumer without the products with padding: it reads the unpadded tensor.

    Its body is `select(inside, product, 0)`: a term of the sum need not be added if it is zero.
    The order of the other terms does not change.
    """
    body = padded.body[0]
    assert isinstance(body, Select)  # checked by `find_padding`
    (taken,) = {read for read in consumer.reads if read.tensor == padded.name}
    ranges = {a.name: (0, a.extent - 1) for a in (*consumer.axes, *consumer.reduce_axes)}
    place = dict(zip((axis.name for axis in padded.axes), taken.indices, strict=True))
    inside = simplify(substitute(body.cond, place), ranges)
    product = with_factor(consumer.body[0], taken, substitute(body.then, place))
    term = simplify(Select(inside, product, Const(0.0, consumer.dtype)), ranges)
    return replace(consumer, body=(term,))


def spared(dag: Dag) -> frozenset[str]:
    """Return the tensors that may have elements multiplied by zeros of padding only.

    Such a product may be left out: a NaN in such an element need not reach the sum.
    """
    tensors: set[str] = set()
    for consumer in dag.computes:
        if consumer.combiner != "sum":
            continue
        parts = factors(consumer.body[0])
        for part in parts:
            if isinstance(part, Read) and _has_zeros(dag.node(part.tensor)):
                tensors |= {r.tensor for r in consumer.reads if r is not part}
    for node in reversed(dag.nodes):  # the operands of such a tensor as well
        if node.name in tensors and isinstance(node, Compute):
            tensors |= {read.tensor for read in node.reads}
    return frozenset(tensors)


def _has_zeros(node: Node) -> bool:
    return isinstance(node, Compute) and isinstance(node.body[0], Select)


def _by_dimension(padded: Compute, cond: Expr) -> dict[int, Expr]:
    """Return, by dimension of the padded tensor, the conditions on this dimension alone."""
    places = {axis.name: at for at, axis in enumerate(padded.axes)}
    found: dict[int, list[Expr]] = {}
    for part in conjuncts(cond):
        names = variables(part)
        if len(names) == 1:
            found.setdefault(places[next(iter(names))], []).append(part)
    return {at: conjunction(parts) for at, parts in found.items()}


def _affine_axes(index: Expr) -> set[str] | None:
    terms = form(index).terms
    if not all(isinstance(atom, Var) for atom in terms):
        return None
    return {atom.name for atom in terms if isinstance(atom, Var)}


def _share(padded: Compute, consumer: Compute, taken: Read, dimension: int, cond: Expr) -> float:
    """Return the share of the steps along one dimension that read no padding."""
    axis = padded.axes[dimension].name
    index = taken.indices[dimension]
    extents = {a.name: a.extent for a in (*consumer.axes, *consumer.reduce_axes)}
    counts = {0: 1}  # number of reads by position
    for atom, scale in form(index).terms.items():
        assert isinstance(atom, Var)
        met: dict[int, int] = {}
        for at, times in counts.items():
            for step in range(extents[atom.name]):
                met[at + scale * step] = met.get(at + scale * step, 0) + times
        counts = met
    const = form(index).const
    inside = sum(
        times for at, times in counts.items() if bounds(cond, {axis: (at + const, at + const)})[0]
    )
    return inside / sum(counts.values())
