"""Bounds inference: the region of an attached stage that its consumers need, symbolically."""

from collections.abc import Mapping
from dataclasses import dataclass

from ansorpy.errors import LoweringError
from ansorpy.expr.build import ONE, ZERO, add, ceildiv, greatest, least, mul, sub
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.expr.intervals import Form, form, linear
from ansorpy.plan.domain import AxisSpan, Domain, extent_of
from ansorpy.plan.inline import Work
from ansorpy.state.state import Attached, Location, Root


@dataclass(frozen=True, slots=True)
class Reach:
    """The interval [base + shift, base + shift + width) along one axis or dimension.

    `left` is the number of needed elements, if it may be less than `width`: scratch memory has
    room for `width` elements in every iteration of the loops around it.
    """

    base: Expr
    width: Expr
    shift: int = 0
    left: Expr | None = None

    @property
    def count(self) -> Expr:
        """The number of needed elements."""
        return self.width if self.left is None else self.left


@dataclass(frozen=True)
class BoundsInference:
    """Computes the region of a stage that its consumers need while some loop variables are fixed.

    Attributes:
        works: every stage with loops, by name.
        location: the location of each stage.
        domains: the domains made so far; consumers come before producers.
    """

    works: Mapping[str, Work]
    location: Mapping[str, Location]
    domains: Mapping[str, Domain]

    def spans(self, name: str) -> dict[str, AxisSpan]:
        """Return the span of every spatial axis of a stage at its location.

        Raises:
            LoweringError: the stage is attached where a consumer cannot see it.
        """
        work = self.works[name]
        every = {axis: AxisSpan(ZERO, extent_of(n), extent_of(n)) for axis, n in work.axes}
        place = self.location[name]
        if not isinstance(place, Attached):
            return every
        fixed = self._fixed(place)
        for consumer in self.works.values():
            if any(read.tensor == name for read in consumer.reads):
                self._sees(consumer.name, name, place)
        reach = self._needed(name, fixed)
        answer = {}
        for axis, extent in work.axes:
            reached = reach.get(axis)
            if reached is None:
                answer[axis] = every[axis]
                continue
            base = add(reached.base, Const(reached.shift))
            whole = any(part.whole for part in self.domains[place.stage].parts)
            width = reached.width if whole else least(reached.width, Const(int(extent)))
            answer[axis] = AxisSpan(base, width, extent_of(extent), reached.left)
        return answer

    def _sees(self, consumer: str, name: str, place: Attached) -> None:
        """Raise LoweringError unless the consumer runs inside the loop that hosts `name`."""
        loops = [part.loop for part in self.domains[place.stage].parts]
        at = consumer
        while at != place.stage:
            where = self.location[at]
            if not isinstance(where, Attached):
                raise LoweringError(
                    f"{consumer!r} is computed outside of {place}, where {name!r} is"
                )
            if where.stage == place.stage and loops.index(where.loop) < loops.index(place.loop):
                raise LoweringError(
                    f"{consumer!r} is computed outside of {place}, where {name!r} is"
                )
            at = where.stage

    def _fixed(self, place: Attached) -> frozenset[str]:
        """Return the variables that have one value at an attach point."""
        fixed: set[str] = set()
        at: Location = place
        while isinstance(at, Attached):
            if at.stage not in self.domains:
                raise LoweringError(f"attached to {at.stage!r}, which does not come later")
            parts = self.domains[at.stage].parts
            names = [part.loop for part in parts]
            if at.loop not in names:
                raise LoweringError(f"stage {at.stage!r} has no loop {at.loop!r}")
            fixed.update(part.var for part in parts[: names.index(at.loop) + 1])
            at = self.location[at.stage]
        return frozenset(fixed)

    def _needed(self, name: str, fixed: frozenset[str]) -> dict[str, Reach | None]:
        """Return the hull of all reads of a stage, by axis; None for the whole axis."""
        answer: dict[str, Reach | None] = {}
        axes = [axis for axis, _ in self.works[name].axes]
        for consumer in self.works.values():
            reads = [read for read in consumer.reads if read.tensor == name]
            if not reads:
                continue
            if consumer.name not in self.domains:
                raise LoweringError(f"{consumer.name!r} reads {name!r} before it is computed")
            have = self._covered(consumer.name, fixed)
            for read in reads:
                for axis, reach in zip(axes, _read_reach(read, have), strict=False):
                    answer[axis] = reach if axis not in answer else _hull(answer[axis], reach)
        return answer

    def _covered(self, name: str, fixed: frozenset[str]) -> dict[str, Reach | None]:
        """Return the region that a stage computes while the fixed variables do not change."""
        domain = self.domains[name]
        if any(part.var in fixed for part in domain.parts):
            return {axis: _inside(domain, axis, fixed) for axis in domain.spans}
        if isinstance(self.location[name], Root):
            raise LoweringError(f"{name!r} is computed at root, outside of the attach point")
        reach = self._needed(name, fixed)
        for axis, span in domain.spans.items():
            # A whole span computes all of the axis, even if less is needed here.
            if axis not in reach or span.is_whole:
                reach[axis] = Reach(ZERO, span.extent)
        return reach


def _inside(domain: Domain, axis: str, fixed: frozenset[str]) -> Reach | None:
    """Return the interval of an axis that its loops cover while the fixed ones do not change."""
    span = domain.spans[axis]
    parts = domain.of_axis(axis)
    outside = tuple(part for part in parts if part.var in fixed)
    if outside != parts[: len(outside)]:
        return None  # an inner loop is fixed and an outer one is not: not an interval
    if not outside:
        return Reach(span.base, span.width, left=span.left)
    width = outside[-1].stride
    if not any(part.whole for part in parts):  # loops that run on past the span need room
        width = least(width, span.width)
    if span.is_whole:
        return Reach(domain.offset(axis, outside), width)
    left = span.limit  # blocks within a block: the last one may be partial
    for part in outside:
        left = sub(left, mul(Var(part.var), part.stride))
    return Reach(domain.offset(axis, outside), width, left=least(width, left))


def _read_reach(read: Read, have: Mapping[str, Reach | None]) -> list[Reach | None]:
    return [_index_reach(index, have) for index in read.indices]


def _index_reach(index: Expr, have: Mapping[str, Reach | None]) -> Reach | None:
    """Return the interval of an affine index with positive coefficients; None for any other."""
    form = linear(index)
    if form is None:
        return _quotient_reach(index, have)
    shift, terms = form
    if shift < 0 or any(factor < 0 for factor in terms.values()):
        return None  # may be below 0 (guarded by a select): the whole axis
    base: Expr = ZERO
    along: list[tuple[int, Reach]] = []
    for axis, factor in terms.items():
        reach = have.get(axis)
        if reach is None:
            return None
        base = add(base, mul(Const(factor), reach.base))
        shift += factor * reach.shift
        along.append((factor, reach))
    width = _length([(factor, reach.width) for factor, reach in along])
    if all(reach.left is None for _, reach in along):
        return Reach(base, width, shift)
    return Reach(base, width, shift, _length([(factor, reach.count) for factor, reach in along]))


def _length(terms: list[tuple[int, Expr]]) -> Expr:
    """Return the length of the interval of sum(factor * x), for (factor, values of x) pairs."""
    answer: Expr | None = None
    for factor, count in terms:
        if answer is None and factor == 1:
            answer = count
        else:
            answer = add(answer or ONE, mul(Const(factor), sub(count, ONE)))
    return answer or ONE


def _quotient_reach(index: Expr, have: Mapping[str, Reach | None]) -> Reach | None:
    """Return the interval of `x // c` if x starts at a multiple of c; None for any other."""
    match index:
        case Binary(op="floordiv", a=a, b=Const(value=value)) if value > 0:
            inner, c = _index_reach(a, have), int(value)
            base = None if inner is None else _divided(inner.base, c)
            if inner is None or base is None:
                return None
            shift = inner.shift // c
            rest, by = Const(inner.shift - shift * c), Const(c)
            left = None if inner.left is None else ceildiv(add(inner.left, rest), by)
            return Reach(base, ceildiv(add(inner.width, rest), by), shift, left)
        case _:
            return None


def _divided(expr: Expr, c: int) -> Expr | None:
    """Return expr / c if every coefficient is a multiple of c, else None."""
    found = form(expr)
    if found.const % c or any(coef % c for coef in found.terms.values()):
        return None
    return Form(found.const // c, {a: coef // c for a, coef in found.terms.items()}).expr()


def _hull(a: Reach | None, b: Reach | None) -> Reach | None:
    if a is None or b is None or a.base != b.base:
        return None
    low = min(a.shift, b.shift)
    over_a, over_b = Const(a.shift - low), Const(b.shift - low)
    width = greatest(add(a.width, over_a), add(b.width, over_b))
    if a.left is None and b.left is None:
        return Reach(a.base, width, low)
    return Reach(a.base, width, low, greatest(add(a.count, over_a), add(b.count, over_b)))
