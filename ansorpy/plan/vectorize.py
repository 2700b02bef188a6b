"""Vectorize one axis of a stage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorpy.errors import LoweringError
from ansorpy.expr.build import ONE, mul
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Expr, Read, Var
from ansorpy.expr.gathers import index_reads
from ansorpy.expr.identity import identity
from ansorpy.loopir.nodes import Alloc, Buffer, For, LoopKind, Scope, Seq, Stmt, Store
from ansorpy.plan.domain import AxisPart, Domain
from ansorpy.plan.inline import KEPT, Work
from ansorpy.target import GpuTarget, Target


@dataclass(frozen=True, slots=True)
class LaneReduce:
    """A vectorized reduction: one partial result per lane, combined after the loop.

    Re-associates the reduction as rfactor does, but with the partial results in registers.
    """

    part: AxisPart
    buffers: tuple[Buffer, ...]
    combiner: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the buffers of partial results."""
        return tuple(buffer.name for buffer in self.buffers)

    def around(
        self, loop: Stmt, start: tuple[Expr, ...], target: tuple[tuple[str, ...], tuple[Expr, ...]]
    ) -> Stmt:
        """Return `loop` with the initialisation of its partial results before it, and after it
        their combination.
        """
        names, index = target
        lane = Var(self.part.var)
        width = self.buffers[0].shape[0]
        clean = Store(self.names, (lane,), identity(self.combiner, self._dtypes))
        partials = tuple(Read(b.name, (lane,), b.dtype) for b in self.buffers)
        combine = Store(names, index, partials, self.combiner)
        stmt: Stmt = Seq(
            (
                For(self.part.var, width, clean, LoopKind.VECTOR),
                loop,
                Store(names, index, start),
                For(self.part.var, width, combine, LoopKind.VECTOR),
            )
        )
        for buffer in self.buffers:
            stmt = Alloc(buffer, stmt)
        return stmt

    @property
    def _dtypes(self) -> tuple[str, ...]:
        return tuple(buffer.dtype for buffer in self.buffers)


def vectorize(domain: Domain, lane: str | None, target: Target) -> tuple[Domain, LaneReduce | None]:
    """Return the domain with its vectorized loop marked VECTOR and moved innermost.

    If the axis is split, its innermost part is vectorized, and the innermost parts of the other
    axes are unrolled (UNROLL): together they are the register tile. A whole axis is split by the
    size "<stage>.vec".

    Raises:
        LoweringError: the stage has no such axis, or a reduce axis that is not the last loop.
    """
    if lane is None:
        return domain, None
    mine = [part for part in domain.parts if _runs_along(part, lane, domain.work)]
    if not mine:
        raise LoweringError(f"cannot vectorize {domain.work.name!r}: it has no axis {lane!r}")
    last = mine[-1]
    if last.kind is LoopKind.VECTOR:
        return domain.with_parts((*(part for part in domain.parts if part is not last), last)), None
    if last.length is not None and last.reduce and isinstance(target, GpuTarget):
        domain, last = _in_steps(domain, last)
    elif last.length is not None:
        if last.reduce:
            raise LoweringError(
                f"cannot vectorize {domain.work.name!r}: its reduce axis {lane!r} is already split"
            )
        return _tiled(domain, last), None
    if domain.spans[last.axis].extent == ONE:
        return domain, None
    size = _steps(domain)
    inner = AxisPart(
        f"{last.var}.v", f"{last.loop}.v", last.axis, ONE, size, last.reduce, LoopKind.VECTOR
    )
    outer = last if last.length is not None else replace(last, stride=size)
    parts = tuple(outer if part is last else part for part in domain.parts)
    split = domain.with_parts((*parts, inner))
    if not last.reduce:
        return split, None
    if domain.parts[-1] is not last:
        raise LoweringError(
            f"cannot vectorize {domain.work.name!r}: its reduce axis {lane!r} is not the last loop"
        )
    assert domain.work.combiner is not None
    buffers = tuple(
        Buffer(f"{domain.work.name}.lanes{i}", dtype, (size,), Scope.LOCAL)
        for i, dtype in enumerate(domain.work.dtypes)
    )
    return split, LaneReduce(inner, buffers, domain.work.combiner)


def _steps(domain: Domain) -> Var:
    """Return the size of the steps of an untiled vector loop."""
    return Var(f"{domain.work.name}.vec")


def _in_steps(domain: Domain, last: AxisPart) -> tuple[Domain, AxisPart]:
    """Return the domain in which all parts of an axis count steps of a vector loop inside."""
    size = _steps(domain)
    parts = [
        replace(part, stride=mul(part.stride, size)) if part.axis == last.axis else part
        for part in domain.parts
    ]
    return domain.with_parts(tuple(parts)), parts[domain.parts.index(last)]


def with_steps(domain: Domain, step: str, group: str = "") -> Domain:
    """Return the domain with the loop over the steps of a dot-product instruction innermost.

    If the instruction takes groups of steps, the inner parts of all other reduce axes are the
    loops just outside, with the axis `group` as the last of them.
    """
    (own,) = domain.of_axis(step)
    others = [part for part in domain.parts if part is not own]
    inner: list[AxisPart] = []
    if group:
        inner = [part for part in others if part.reduce and part.length is not None]
        inner.sort(key=lambda part: part.axis == group)
        others = [part for part in others if part not in inner]
    groups = (replace(part, kind=LoopKind.GROUP) for part in inner)
    return domain.with_parts((*others, *groups, replace(own, kind=LoopKind.DOT)))


def _runs_along(part: AxisPart, lane: str, work: Work) -> bool:
    return part.loop == work.kept if lane == KEPT and work.kept else part.axis == lane


def _tiled(domain: Domain, lane: AxisPart) -> Domain:
    """Mark the register tile: the innermost part of every split spatial axis."""
    reduces = [i for i, part in enumerate(domain.parts) if part.reduce]
    first = reduces[-1] + 1 if reduces else 0
    others: list[AxisPart] = []
    for i, part in enumerate(domain.parts):
        if part is lane:
            continue
        innermost = domain.of_axis(part.axis)[-1] is part and part.length is not None
        unroll = i >= first and innermost and not part.reduce
        others.append(replace(part, kind=LoopKind.UNROLL) if unroll else part)
    return domain.with_parts((*others, replace(lane, kind=LoopKind.VECTOR)))


def lanes_of(work: Work, target: Target) -> int:
    """Return the number of lanes of a stage, by the widest dtype that it reads or writes.

    The indices of a gather do not count: all lanes often share one.
    """
    return min(target.lanes(dtype) for dtype in _dtypes(work))


def _dtypes(work: Work) -> Sequence[str]:
    inner = frozenset[Read]().union(*map(index_reads, work.bodies))
    found = (*work.dtypes, *(read.dtype for read in work.reads if read not in inner))
    return sorted(set(found), key=lambda dtype: SIZE_BYTES[dtype])
