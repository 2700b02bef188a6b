"""Store forwarding: a stage stores into the buffer of its copy, and the copy is dropped.

phases[f, h % 2, h // 2] = ...          y[f, 2 h' + p] = ...
y[f, h] = phases[f, h % 2, h // 2]
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

from ansorpy.expr.build import add, mul
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.plan.inline import Work
from ansorpy.state.state import Location, Root


@dataclass(frozen=True, slots=True)
class AxisDigit:
    """An axis of the stored stage as a digit of an axis of the copy."""

    axis: int  # position of the axis in the copy
    weight: int


@dataclass(frozen=True, slots=True)
class Forward:
    """The mapping of the elements of a stage to places in the buffer of `copy`."""

    copy: str
    rank: int
    digits: tuple[AxisDigit, ...]  # one per axis of the stored stage

    def index(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the axis values of the copy for axis values of the stored stage."""
        answer: list[Expr] = [Const(0)] * self.rank
        for digit, value in zip(self.digits, values, strict=True):
            answer[digit.axis] = add(answer[digit.axis], mul(value, Const(digit.weight)))
        return tuple(answer)


def forwards(
    works: Mapping[str, Work], location: Mapping[str, Location], outputs: Collection[str]
) -> dict[str, Forward]:
    """Return the forwarding of every stage whose only reader copies each element exactly once.

    An output has a buffer of its own and is not forwarded. Both stages are computed at root. The
    copy indexes the stage by whole axes of its own (`h`) or by all digits of an axis (`h // 2`,
    `h % 2`), each once: a bijection of elements and places.
    """
    answer: dict[str, Forward] = {}
    for copy in works.values():
        if copy.combiner is not None or len(copy.bodies) != 1 or copy.start is not None:
            continue
        read = copy.bodies[0]
        if not isinstance(read, Read) or read.tensor not in works or copy.combines is not None:
            continue
        stored = works[read.tensor]
        if stored.name in outputs or not _alone(works, location, stored, copy):
            continue
        digits = _digits(copy, stored, read)
        if digits is not None and copy.name not in answer:
            answer[stored.name] = Forward(copy.name, len(copy.axes), digits)
    return answer


def _alone(
    works: Mapping[str, Work], location: Mapping[str, Location], stored: Work, copy: Work
) -> bool:
    """Return True if both stages are at root and no other stage reads the stored one."""
    readers = [w.name for w in works.values() if any(r.tensor == stored.name for r in w.reads)]
    attached = {getattr(place, "stage", None) for place in location.values()}
    return (
        readers == [copy.name]
        and stored.kept is None
        and stored.stored == copy.stored
        and isinstance(location[stored.name], Root)
        and isinstance(location[copy.name], Root)
        and copy.name not in attached
    )


def _digits(copy: Work, stored: Work, read: Read) -> tuple[AxisDigit, ...] | None:
    places = {name: at for at, (name, _) in enumerate(copy.axes)}
    extents = dict(copy.axes)
    digits: list[AxisDigit] = []
    for index, (_, extent) in zip(read.indices, stored.axes, strict=True):
        digit = _digit(index, extent, places, extents)
        if digit is None:
            return None
        digits.append(digit)
    for name, whole in copy.axes:
        mine = [
            (digit.weight, extent)
            for digit, (_, extent) in zip(digits, stored.axes, strict=True)
            if digit.axis == places[name]
        ]
        weight = 1
        for step, extent in sorted(mine):
            if step != weight and extent > 1:
                return None
            weight *= extent
        if weight != whole:
            return None
    return tuple(digits) if prod(dict(stored.axes).values()) == prod(extents.values()) else None


def _digit(
    index: Expr, extent: int, places: Mapping[str, int], extents: Mapping[str, int]
) -> AxisDigit | None:
    """Return the digit that an index of the copy takes; the stored axis has `extent` elements."""
    match index:
        case Const(value=0) if extent == 1:
            return AxisDigit(0, 1) if places else None
        case Var(name=name) if name in places and extents[name] == extent:
            return AxisDigit(places[name], 1)
        case Binary(op="mod", a=Var(name=name), b=Const(value=size)) if (
            name in places and size == extent
        ):
            return AxisDigit(places[name], 1)
        case Binary(op="floordiv", a=Var(name=name), b=Const(value=size)) if (
            name in places and extents[name] == extent * int(size)
        ):
            return AxisDigit(places[name], int(size))
        case Binary(
            op="mod",
            a=Binary(op="floordiv", a=Var(name=name), b=Const(value=weight)),
            b=Const(value=size),
        ) if name in places and size == extent:
            return AxisDigit(places[name], int(weight))
        case _:
            return None
