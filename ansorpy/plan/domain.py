"""The iteration domain of a stage: its loops as parts of axes, with strides and extents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ansorpy.expr.build import ONE, ZERO, add, ceildiv, floordiv, least, mod, mul, product, sub
from ansorpy.expr.expr import Binary, Const, Expr, Var, variables
from ansorpy.loopir.nodes import LoopKind
from ansorpy.plan.inline import KEPT, Work
from ansorpy.state.axis import AxisKind, Loop
from ansorpy.state.state import Stage
from ansorpy.te.dims import Dim


@dataclass(frozen=True, slots=True)
class AxisPart:
    """One loop, whose variable counts steps of `stride` along `axis`.

    A `whole` loop runs `length` times, past the end of its axis if need be; the stage then has a
    condition (`Domain.within`).
    """

    var: str
    loop: str  # the name of the loop in the State, to which stages are attached
    axis: str
    stride: Expr
    length: Expr | None  # None for the outermost part, which covers the rest of the axis
    reduce: bool
    kind: LoopKind = LoopKind.SERIAL
    whole: bool = False


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """The interval that is computed along one axis: [base, base + width), cut off at `extent`.

    `left` is the number of elements that the last block of a consumer still needs, if it may be
    less than `width`.
    """

    base: Expr
    width: Expr
    extent: Expr
    left: Expr | None = None

    @property
    def is_whole(self) -> bool:
        """True if the interval is the whole axis."""
        return self.base == ZERO and self.width == self.extent

    @property
    def limit(self) -> Expr:
        """The number of computed elements, from `base` on."""
        if self.is_whole:
            return self.extent
        limit = least(self.width, sub(self.extent, self.base))
        return limit if self.left is None else least(limit, self.left)


@dataclass(frozen=True)
class Domain:
    """The loops of a stage in nest order, and the span of every axis."""

    work: Work
    parts: tuple[AxisPart, ...]
    spans: Mapping[str, AxisSpan]

    def of_axis(self, axis: str) -> tuple[AxisPart, ...]:
        """Return the parts of one axis, outermost first."""
        return tuple(part for part in self.parts if part.axis == axis)

    def offset(self, axis: str, parts: tuple[AxisPart, ...]) -> Expr:
        """Return base + sum of variable * stride over some parts of the axis."""
        answer = self.spans[axis].base
        for part in parts:
            answer = add(answer, mul(Var(part.var), part.stride))
        return answer

    def value(self, axis: str) -> Expr:
        """Return the value of an axis in the innermost loop."""
        return self.offset(axis, self.of_axis(axis))

    def values(self) -> dict[str, Expr]:
        """Return the value of every axis of the node; fused axes are unfused."""
        answer: dict[str, Expr] = {}
        for axis in self.spans:
            answer.update(_unfuse(axis, self.value(axis), self.work))
        for part in self.parts:
            if part.loop == self.work.kept:
                answer[KEPT] = Var(part.var)
        return answer

    @property
    def kept_extent(self) -> Expr:
        """The number of partial results of a stage made by rfactor."""
        part = next(part for part in self.parts if part.loop == self.work.kept)
        return self.extent(part, zeroed=True)

    def extent(self, part: AxisPart, zeroed: bool = False) -> Expr:
        """Return the extent of a loop; with `zeroed`, outer reduce loops of its axis are at 0."""
        if part.whole and part.length is not None:
            return part.length
        left = self.spans[part.axis].limit
        for other in self.of_axis(part.axis):
            if other.var == part.var:
                break
            if not (zeroed and other.reduce):
                left = sub(left, mul(Var(other.var), other.stride))
        whole = ceildiv(left, part.stride)
        return whole if part.length is None else least(part.length, whole)

    @property
    def within(self) -> tuple[Expr, ...]:
        """The conditions that hold at elements that are to be computed."""
        answer = []
        for axis in dict.fromkeys(part.axis for part in self.parts if part.whole):
            offset: Expr = ZERO
            for part in self.of_axis(axis):
                offset = add(offset, mul(Var(part.var), part.stride))
            answer.append(Binary("lt", offset, self.spans[axis].limit))
        return (*answer, *self._digits_within())

    @property
    def kept_within(self) -> tuple[Expr, ...]:
        """The conditions that hold at results: those that no loop of a reduction decides."""
        reduced = {part.var for part in self.parts if part.reduce}
        return tuple(cond for cond in self.within if reduced.isdisjoint(variables(cond)))

    def _digits_within(self) -> Iterator[Expr]:
        """Yield the conditions that the inner digits of fused axes are below their dims."""
        extents = _extents(self.work)
        for axis in self.spans:
            names = axis.split("@")[1:] if axis != KEPT else ()
            dims = [(name, size) for name in names if isinstance(size := extents[name], Dim)]
            if dims:
                values = _unfuse(axis, self.value(axis), self.work)
                yield from (Binary("lt", values[name], size.size) for name, size in dims)

    def with_parts(self, parts: tuple[AxisPart, ...]) -> "Domain":
        """Return the domain with other parts."""
        return replace(self, parts=parts)


def extent_of(size: int) -> Expr:
    """Return the extent of an axis: a number, or the size of its dim in a call."""
    return size.size if isinstance(size, Dim) else Const(size)


def domain(
    stage: Stage,
    work: Work,
    spans: Mapping[str, AxisSpan],
    fixed: Mapping[str, int],
    kept: Expr | None = None,
) -> Domain:
    """Return the domain of a stage whose spatial axes cover `spans`; reduce axes are whole.

    `fixed` are the named sizes with a fixed value; `kept` is the number of partial results that
    a combining stage reduces over.
    """
    every = dict(spans)
    if kept is not None:
        every[KEPT] = AxisSpan(ZERO, kept, kept)
    strides: dict[str, Expr] = {}
    parts: dict[str, AxisPart] = {}
    # Inner parts come first, so that the stride of a part is the product of the lengths inside.
    for loop in sorted(stage.loops, key=_level, reverse=True):
        reduce = loop.kind is AxisKind.REDUCE
        axis = KEPT if kept is not None and reduce else "@".join(loop.axes)
        if axis not in every:
            first, *inner = (_extents(work)[name] for name in loop.axes)
            extent = mul(extent_of(first), Const(prod(inner)))
            every[axis] = AxisSpan(ZERO, extent, extent)
        stride = strides.get(axis, ONE)
        length = None if loop.length is None or axis == KEPT else product(loop.length, fixed)
        strides[axis] = stride if length is None else mul(length, stride)
        # A span that is not whole may be empty, but an unrolled loop runs at least once.
        written = loop.annotation == "unroll" and every[axis].limit == every[axis].extent
        kind = LoopKind.UNROLL if written else LoopKind.SERIAL
        if loop.annotation == "thread" and loop.extent is not None:
            kind = LoopKind.VECTOR
        var = f"{stage.name}:{loop.name}"
        parts[loop.name] = AxisPart(var, loop.name, axis, stride, length, reduce, kind)
    return Domain(work, tuple(parts[loop.name] for loop in stage.loops), every)


def _level(loop: Loop) -> int:
    """Return the level of a part of a split axis, 0 for an outermost part or a whole axis."""
    return 0 if loop.length is None else int(loop.name.rsplit(".", 1)[1])


def _extents(work: Work) -> dict[str, int]:
    return dict((*work.axes, *work.reduce_axes))


def _unfuse(axis: str, value: Expr, work: Work) -> dict[str, Expr]:
    """Return the values of the node axes of a loop axis: row-major digits of a fused axis."""
    if axis == KEPT:
        return {KEPT: value}
    names = axis.split("@")
    answer: dict[str, Expr] = {}
    for name in reversed(names[1:]):
        whole = Const(int(_extents(work)[name]))
        answer[name], value = mod(value, whole), floordiv(value, whole)
    answer[names[0]] = value
    return answer
