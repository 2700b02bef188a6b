"""The predicates of the derivation rules, each with its reason. Source: ansor.md B2."""

from dataclasses import dataclass
from typing import Final

from ansorpy.expr.expr import Call, Expr, Read, Select, Var, variables, walk
from ansorpy.te.analysis.access import access, reads_by_producer, shifted_axis, wide
from ansorpy.te.analysis.answer import Answer, no, yes
from ansorpy.te.dag import Compute, Dag, Node

EXPENSIVE: Final = ("exp",)  # as released: no other function counts


@dataclass(frozen=True, slots=True)
class Common:
    """The number of leading axes that two nodes share, and the obstacle after them."""

    count: int
    why: str


def strictly_inlineable(node: Compute) -> Answer:
    """Return if substituting `node` into its readers adds no cost and moves no data.

    It holds for a node that reads nothing; else all reads must be simple, without a repeated
    axis, in the order of the axes, and the body has no `exp` and no branch.
    """
    if not node.reads:
        return yes(f"{node.name} reads nothing")
    costly = _costly(node)
    if costly is not None:
        return no(f"{node.name} computes {costly}")
    for read in node.reads:
        fits = access(node, read).inlineable
        if not fits:
            return fits
    return yes(f"{node.name} only takes its axes as they come, without exp or branch")


def permutes(node: Node) -> Answer:
    """Return if `node` is a copy of a whole tensor with its axes in another order."""
    if not isinstance(node, Compute) or node.combiner is not None or len(node.body) != 1:
        return no(f"{node.name} is not a transpose")
    (read,) = node.body
    if not isinstance(read, Read):
        return no(f"{node.name} is not a transpose")
    taken = [index.name for index in read.indices if isinstance(index, Var)]
    axes = [axis.name for axis in node.axes]
    if len(taken) < len(read.indices) or taken == axes or sorted(taken) != sorted(axes):
        return no(f"{node.name} is not a transpose")
    return yes(f"{node.name} is a transpose of {read.tensor}")


def needs_tiling(node: Node) -> Answer:
    """Return if elements are read several times, so that tiling gives reuse.

    Takes the producers whose reads all lack some spatial axis with more than one point: one of
    them and a reduction, or two that lack no common axis. If they lack a common axis and nothing
    is reduced, that loop inside keeps all of them in registers (ADR-0211). Never holds under the
    attribute `const_axes`.
    """
    if not isinstance(node, Compute):
        return no(f"{node.name} is an input")
    if node.attrs.const_axes:
        return no(f"{node.name} indexes a constant tensor by {', '.join(node.attrs.const_axes)}")
    lacking = {
        producer: axes
        for producer, reads in reads_by_producer(node).items()
        if (axes := _lacking(node, tuple(i for read in reads for i in read.indices)))
    }
    reused = [f"{producer} along {axes[0]}" for producer, axes in lacking.items()]
    if not reused:
        return no(f"{node.name} reuses no producer along a spatial axis")
    common = set.intersection(*map(set, lacking.values()))
    if node.reduce_axes or not common:
        return yes(f"{node.name} reuses {' and '.join(reused)}")
    return no(f"{node.name} reuses {' and '.join(reused)} only, and reduces nothing")


def elementwise(dag: Dag, producer: str, consumer: str) -> Answer:
    """Return if each element of `consumer` takes the same element of `producer`, hop by hop.

    Every hop has one reader only, equal shapes, and reads that take the axes one to one.
    """
    at = producer
    while at != consumer:
        readers = dag.consumers[at]
        if len(readers) != 1:
            return no(f"{at} has {len(readers)} readers")
        node = dag.node(readers[0])
        assert isinstance(node, Compute)  # only compute nodes read
        shape = dag.node(at).shape
        if node.shape != shape:
            return no(f"{at} has shape {shape}, {node.name} has {node.shape}")
        for read in reads_by_producer(node)[at]:
            fits = access(node, read).one_to_one
            if not fits:
                return fits
        at = node.name
    return yes(f"{consumer} takes {producer} element by element")


def common_outer(dag: Dag, producer: str, consumer: str) -> Common:
    """Count the leading axes that `producer` and `consumer` share, the least over all paths.

    An axis is shared on a hop if both extents are equal and every read has it ± a constant as
    the index at that position.
    """
    first = dag.node(producer)
    common = {producer: Common(len(first.shape), f"{producer} has {len(first.shape)} axes")}
    for node in dag.nodes[dag.index[producer] : dag.index[consumer]]:
        if node.name not in common:
            continue
        for reader in dag.consumers[node.name]:
            hop = _common_hop(dag, node.name, reader)
            paths = (hop, common[node.name], common.get(reader, hop))
            common[reader] = min(paths, key=lambda path: path.count)
    return common.get(consumer, Common(0, f"{consumer} does not read {producer}"))


def _common_hop(dag: Dag, producer: str, reader: str) -> Common:
    shape = dag.node(producer).shape
    node = dag.node(reader)
    assert isinstance(node, Compute)  # only compute nodes read
    for i, (extent, axis) in enumerate(zip(shape, node.axes, strict=False)):
        if extent != axis.extent:
            return Common(i, f"{producer} has {extent} at {i}, {reader} has {axis.extent}")
        for read in reads_by_producer(node)[producer]:
            if shifted_axis(read.indices[i]) != axis.name:
                return Common(i, f"{reader} reads {read}: index {i} is not {axis.name}")
    count = min(len(shape), len(node.axes))
    return Common(count, f"{reader} reads {producer} along its first {count} axes")


def _lacking(node: Compute, indices: tuple[Expr, ...]) -> tuple[str, ...]:
    seen = frozenset[str]().union(*map(variables, indices))
    return tuple(name for name in wide(node.axes) if name not in seen)


def _costly(node: Compute) -> str | None:
    for body in node.body:
        for expr in walk(body):
            if isinstance(expr, Call) and expr.fn in EXPENSIVE:
                return f"{expr.fn}(...)"
            if isinstance(expr, Select):
                return f"a branch on {expr.cond}"
    return None
