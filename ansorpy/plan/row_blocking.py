"""Row blocking: compute the reductions attached to a stage for several of its rows at a time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ansorpy.expr.build import ONE, ZERO
from ansorpy.expr.expr import Const, Var
from ansorpy.plan.domain import AxisPart, Domain
from ansorpy.plan.inline import Work
from ansorpy.plan.plan import StageChoice
from ansorpy.state.state import Attached, Root

ROWS: Final = (1, 2, 4)  # rows per block; more rows exceed the L1 cache and gain nothing


def with_row_blocks(
    domain: Domain, choice: Mapping[str, StageChoice], works: Mapping[str, Work]
) -> Domain:
    """Return the domain with its rows in blocks, by the size "<stage>.rows".

    Condition  the stage is at root, and all stages attached to it hang on one whole loop, the
               row; one of them is a reduction
    Rewrite    row n  ->  row n / rows, row.r rows

    At the end of a reduction the processor waits for its last sums; the reductions of other rows
    are independent and fill the wait. Any other domain is returned unchanged.
    """
    name = domain.work.name
    attached = [
        (each, at.location.loop)
        for each, at in choice.items()
        if isinstance(at.location, Attached) and at.location.stage == name
    ]
    if not isinstance(choice[name].location, Root) or not attached:
        return domain
    loops = {loop for _, loop in attached}
    rows = [part for part in domain.parts if part.loop in loops and _is_whole(domain, part)]
    if len(loops) > 1 or not rows or all(works[each].combiner is None for each, _ in attached):
        return domain
    (row,) = rows
    size = Var(f"{name}.rows")
    inner = AxisPart(f"{row.var}.r", f"{row.loop}.r", row.axis, ONE, size, reduce=False)
    parts = []
    for part in domain.parts:
        parts += [replace(part, stride=size), inner] if part is row else [part]
    return domain.with_parts(tuple(parts))


def _is_whole(domain: Domain, part: AxisPart) -> bool:
    """Return True if a loop is a whole spatial axis of more than one element."""
    alone = domain.of_axis(part.axis) == (part,) and not part.reduce
    return alone and domain.spans[part.axis].extent not in (ZERO, ONE)


def row_counts(domain: Domain, axis: str) -> tuple[int, ...]:
    """Return the possible numbers of rows per block."""
    extent = domain.spans[axis].extent
    assert isinstance(extent, Const)  # the axis is whole
    return tuple(n for n in ROWS if n <= int(extent.value))
