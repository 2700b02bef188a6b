"""The scalar computation of every stage with loops, inlined stages substituted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ansorpy.errors import LoweringError
from ansorpy.expr.dtypes import NARROW, computed
from ansorpy.expr.expr import Cast, Expr, Read, Var, reads, substitute, transform
from ansorpy.expr.wide import ROUNDING, determined, only_moves, widened
from ansorpy.state.state import Combine, Inlined, Location, Partial, Stage
from ansorpy.te.dag import Compute, Node

KEPT = "@kept"  # name of the buffer axis that runs over the loop kept by rfactor


@dataclass(frozen=True)
class Work:
    """The scalar computation of a stage: out[axes] = bodies, combined over the reduce axes.

    Partial results have `dtypes`: float32 for sums and products of 16-bit floats, whose
    results are rounded to the dtypes `stored`.
    """

    name: str
    axes: tuple[tuple[str, int], ...]  # axes that index the buffer of the stage, without KEPT
    reduce_axes: tuple[tuple[str, int], ...]
    bodies: tuple[Expr, ...]
    dtypes: tuple[str, ...]
    stored: tuple[str, ...]
    combiner: str | None
    start: Expr | None
    kept: str | None  # loop whose variable is the last index of the buffer of partial results
    combines: str | None  # the partial stage that this stage combines

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """Every read, with repetitions."""
        parts = (*self.bodies, *(() if self.start is None else (self.start,)))
        return tuple(read for part in parts for read in reads(part))


def works(
    stages: tuple[Stage, ...], location: Mapping[str, Location], dims: bool = False
) -> tuple[Work, ...]:
    """Return the work of every stage that is neither an input nor inlined, producers first.

    A value that several stages compute for themselves is the same number in each: softmax of x * s
    subtracts the largest element from itself, and must find 0.

    Args:
        dims: keep dims as extents; otherwise each has its largest size.

    Raises:
        LoweringError: an inlined stage has a reduction or several outputs.
    """
    bodies: dict[str, tuple[tuple[str, ...], Expr]] = {}
    readers = Counter(
        name
        for stage in stages
        if isinstance(stage.node, Compute) and not isinstance(stage.role, Combine)
        for name in {read.tensor for read in stage.node.reads}
    )
    answer = []
    for stage in stages:
        node = stage.node
        if not isinstance(node, Compute):
            continue
        resolved = tuple(_inline(body, bodies) for body in node.body)
        if isinstance(location[stage.name], Inlined):
            if node.combiner is not None or len(resolved) != 1:
                raise LoweringError(f"stage {stage.name!r}: a reduction cannot be inlined")
            body = determined(resolved[0]) if readers[node.name] > 1 else resolved[0]
            bodies[node.name] = (tuple(axis.name for axis in node.axes), body)
            continue
        work = _work(stage, node, resolved, bodies)
        answer.append(work if dims else _of_largest_sizes(work))
    return tuple(answer)


def _of_largest_sizes(work: Work) -> Work:
    def numbers(axes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((name, int(extent)) for name, extent in axes)

    return replace(work, axes=numbers(work.axes), reduce_axes=numbers(work.reduce_axes))


def _work(
    stage: Stage,
    node: Compute,
    resolved: tuple[Expr, ...],
    inlined: Mapping[str, tuple[tuple[str, ...], Expr]],
) -> Work:
    axes = tuple((axis.name, axis.extent) for axis in node.axes)
    reduce_axes = tuple((axis.name, axis.extent) for axis in node.reduce_axes)
    wide = node.combiner in ROUNDING
    dtypes = tuple(map(computed, node.dtypes)) if wide else node.dtypes
    start = None if node.start is None else _computed(_inline(node.start, inlined), wide)
    bodies = tuple(_computed(body, wide) for body in resolved)
    kept = combines = None
    match stage.role:
        case Partial(loop=loop):
            start, kept = None, loop
        case Combine(of=partial):
            index = (*(Var(name) for name, _ in axes), Var(KEPT))
            bodies = tuple(Read(partial, index, dtype, n) for n, dtype in enumerate(dtypes))
            reduce_axes, combines = (), partial
        case None:
            pass
    return Work(
        stage.name, axes, reduce_axes, bodies, dtypes, node.dtypes, node.combiner, start, kept,
        combines,
    )  # fmt: skip


def _computed(body: Expr, wide: bool) -> Expr:
    """Return a body with 16-bit floats computed in float32, rounded at the end unless `wide`."""
    if body.dtype in NARROW and not wide:
        return body if only_moves(body) else Cast(body.dtype, widened(body))
    return widened(body)


def _inline(expr: Expr, bodies: Mapping[str, tuple[tuple[str, ...], Expr]]) -> Expr:
    def change(part: Expr) -> Expr | None:
        if not isinstance(part, Read) or part.tensor not in bodies:
            return None
        axes, body = bodies[part.tensor]
        return substitute(body, dict(zip(axes, part.indices, strict=True)))

    return transform(expr, change)


def is_input(node: Node) -> bool:
    """Return True if the node is a placeholder or a constant."""
    return not isinstance(node, Compute)
