"""Padding: leave out the products with the zeros around a tensor."""

from dataclasses import dataclass, replace

from ansorpy.expr.expr import Const, Expr, Read, Select, Var, substitute, variables
from ansorpy.expr.intervals import bounds, form, simplify
from ansorpy.expr.products import conjunction, conjuncts, factors, is_zero, with_factor
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis, Compute, Dag, Node


@dataclass(frozen=True, slots=True)
class Padding:
    """A sum that meets zeros around a tensor.

    Attributes:
        dimensions: of the padded tensor, those with zeros around: the spatial axes that decide,
            with reduce axes, where they are met.
        taps: the reduce axes that decide.
        others: the spatial axes longer than 1 that do not move what is padded.
        share: of the products, those with the zeros; dimensions are taken as independent.
        strided: whether elements that are neighbours along every such dimension lie apart in
            memory: another dimension, as the channels of NHWC, is the last one.
    """

    dimensions: tuple[tuple[Axis, ...], ...]
    taps: tuple[Axis, ...]
    others: tuple[Axis, ...]
    share: float
    strided: bool


def find_padding(padded: Node, consumer: Node) -> tuple[Padding | None, Answer]:
    """Return where `consumer` meets the zeros that `padded` puts around another tensor.

    The padded tensor is `select(inside, X[...], 0)`, `inside` a conjunction of conditions on one
    axis each; the consumer is a sum of products with it, read once, at affine indices.
    """
    if not isinstance(padded, Compute) or not isinstance(consumer, Compute):
        return None, no(f"{padded.name} is an input")
    body = padded.body[0]
    if padded.combiner is not None or not isinstance(body, Select) or not is_zero(body.other):
        return None, no(f"{padded.name} does not put zeros around anything")
    taken = [read for read in consumer.reads if read.tensor == padded.name]
    if consumer.combiner != "sum" or len(set(taken)) != 1:
        return None, no(f"{consumer.name} is no sum that reads {padded.name} once")
    if taken[0] not in factors(consumer.body[0]):
        return None, no(f"{padded.name} is no factor of {consumer.name}")
    found: list[tuple[Axis, ...]] = []
    taps: list[Axis] = []
    kept = 1.0
    conditions = _by_dimension(padded, body.cond)
    for dimension, cond in conditions.items():
        names = _affine_axes(taken[0].indices[dimension])
        if names is None:
            return None, no(f"{consumer.name} reads {padded.name} at no affine index")
        found.append(tuple(axis for axis in consumer.axes if axis.name in names))
        taps += (axis for axis in consumer.reduce_axes if axis.name in names)
        kept *= _share(padded, consumer, taken[0], dimension, cond)
    if not found or not all(found):
        return None, no(f"{padded.name} has no border that {consumer.name} walks over")
    moving = {name for index in taken[0].indices for name in variables(index)}
    others = tuple(a for a in consumer.axes if a.extent > 1 and a.name not in moving)
    why = yes(f"{1.0 - kept:.0%} of the products meet the zeros of {padded.name}")
    strided = len(padded.axes) - 1 not in conditions
    return Padding(tuple(found), tuple(taps), others, 1.0 - kept, strided), why


def skipped(padded: Compute, consumer: Compute) -> Compute:
    """Return the consumer without the products with the zeros: it reads what was padded.

    Its body is `select(inside, product, 0)`: a term of the sum that need not be added where it
    is zero. The order of the others stays.
    """
    body = padded.body[0]
    assert isinstance(body, Select)  # as it was found
    (taken,) = {read for read in consumer.reads if read.tensor == padded.name}
    ranges = {a.name: (0, a.extent - 1) for a in (*consumer.axes, *consumer.reduce_axes)}
    place = dict(zip((axis.name for axis in padded.axes), taken.indices, strict=True))
    inside = simplify(substitute(body.cond, place), ranges)
    product = with_factor(consumer.body[0], taken, substitute(body.then, place))
    term = simplify(Select(inside, product, Const(0.0, consumer.dtype)), ranges)
    return replace(consumer, body=(term,))


def spared(dag: Dag) -> frozenset[str]:
    """Return the tensors some elements of which may be multiplied by zeros of padding only.

    Such a product may be left out: a NaN there need not reach the sum.
    """
    found: set[str] = set()
    for consumer in dag.computes:
        if consumer.combiner != "sum":
            continue
        parts = factors(consumer.body[0])
        for part in parts:
            if isinstance(part, Read) and _has_zeros(dag.node(part.tensor)):
                found |= {r.tensor for r in consumer.reads if r is not part}
    for node in reversed(dag.nodes):  # what they are made of, too
        if node.name in found and isinstance(node, Compute):
            found |= {read.tensor for read in node.reads}
    return frozenset(found)


def _has_zeros(node: Node) -> bool:
    return isinstance(node, Compute) and isinstance(node.body[0], Select)


def _by_dimension(padded: Compute, cond: Expr) -> dict[int, Expr]:
    """Return the condition on every dimension of the padded tensor that has one alone."""
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
    """Return the share of the steps along one dimension that meet no zero."""
    axis = padded.axes[dimension].name
    index = taken.indices[dimension]
    extents = {a.name: a.extent for a in (*consumer.axes, *consumer.reduce_axes)}
    counts = {0: 1}  # how often a position is met
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
