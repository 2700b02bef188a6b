"""The scalar computation of every stage with loops, inlined stages substituted."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Expr, Read, Var, reads, substitute, transform
from ansorpy.state.state import Combine, Inlined, Location, Partial, Stage
from ansorpy.te.dag import Compute, Node

KEPT = "@kept"  # name of the buffer axis that runs over the loop kept by rfactor


@dataclass(frozen=True)
class Work:
    """The scalar computation of a stage: out[axes] = bodies, combined over the reduce axes."""

    name: str
    axes: tuple[tuple[str, int], ...]  # axes that index the buffer of the stage, without KEPT
    reduce_axes: tuple[tuple[str, int], ...]
    bodies: tuple[Expr, ...]
    dtypes: tuple[str, ...]
    combiner: str | None
    start: Expr | None
    kept: str | None  # loop whose variable is the last index of the buffer of partial results
    combines: str | None  # the partial stage that this stage combines

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """Every read, with repetitions."""
        parts = (*self.bodies, *(() if self.start is None else (self.start,)))
        return tuple(read for part in parts for read in reads(part))


def works(stages: tuple[Stage, ...], location: Mapping[str, Location]) -> tuple[Work, ...]:
    """Return the work of every stage that is neither an input nor inlined, producers first.

    Raises:
        LoweringError: an inlined stage has a reduction or several outputs.
    """
    bodies: dict[str, tuple[tuple[str, ...], Expr]] = {}
    answer = []
    for stage in stages:
        node = stage.node
        if not isinstance(node, Compute):
            continue
        resolved = tuple(_inline(body, bodies) for body in node.body)
        if isinstance(location[stage.name], Inlined):
            if node.combiner is not None or len(resolved) != 1:
                raise LoweringError(f"stage {stage.name!r}: a reduction cannot be inlined")
            bodies[node.name] = (tuple(axis.name for axis in node.axes), resolved[0])
            continue
        answer.append(_work(stage, node, resolved, bodies))
    return tuple(answer)


def _work(
    stage: Stage,
    node: Compute,
    resolved: tuple[Expr, ...],
    inlined: Mapping[str, tuple[tuple[str, ...], Expr]],
) -> Work:
    axes = tuple((axis.name, axis.extent) for axis in node.axes)
    start = None if node.start is None else _inline(node.start, inlined)
    reduce_axes = tuple((axis.name, axis.extent) for axis in node.reduce_axes)
    match stage.role:
        case Partial(loop=loop):
            return Work(
                stage.name,
                axes,
                reduce_axes,
                resolved,
                node.dtypes,
                node.combiner,
                None,
                loop,
                None,
            )
        case Combine(of=partial):
            index = (*(Var(name) for name, _ in axes), Var(KEPT))
            resolved = tuple(
                Read(partial, index, dtype, output) for output, dtype in enumerate(node.dtypes)
            )
            return Work(
                stage.name, axes, (), resolved, node.dtypes, node.combiner, start, None, partial
            )
        case None:
            return Work(
                stage.name,
                axes,
                reduce_axes,
                resolved,
                node.dtypes,
                node.combiner,
                start,
                None,
                None,
            )


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
