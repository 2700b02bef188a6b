"""The static memory plan: a place in one arena for every value that steps hand to later steps.

Largest first into the lowest free place, for several orders of equal merit; the lowest peak wins.
If none reaches the lower bound, values that end at the peak move to the front of the order.
Source: greedy by size, Pisarchyk and Lee, 2020 (arXiv 2001.03288).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ansorpy.bundle.plan import ModelPlan
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph.aliases import ALIGN_BYTES
from ansorpy.te.dims import extents_at, too_large
from ansorpy.te.limits import LIMITS
from ansorpy.units import size

MOVES: Final = 16  # moves of values to the front of an order; one takes (values squared) time


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The bytes of a value, and the first and last step that needs them."""

    name: str
    size_bytes: int
    first: int
    last: int

    def overlaps(self, other: "Lifetime") -> bool:
        """Return True if some step needs both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Places of values in bytes from the start of the arena, each a multiple of ALIGN_BYTES.

    `size_bytes` is the peak; `sum_bytes` the bytes of all values; `bound_bytes` the most bytes
    alive at once, below which no plan comes.
    """

    places: Mapping[str, int]
    size_bytes: int
    sum_bytes: int
    bound_bytes: int


def arena_of(plan: ModelPlan) -> ArenaPlan:
    """Return the memory plan of a model, with room for the largest sizes of its dims.

    Raises:
        SpecError: the largest sizes need more than LIMITS.bytes.
    """
    arena = plan_arena(lifetimes(plan))
    if not plan.dims or arena.size_bytes <= LIMITS.bytes:
        return arena

    def needed(sizes: Mapping[str, int]) -> int:
        return plan_arena(_resized(plan, sizes)).size_bytes

    widest = sorted(plan.dims, key=int, reverse=True)
    raise too_large(f"cannot lay out {plan.name!r}", widest, needed, LIMITS.bytes, size)


def _resized(plan: ModelPlan, sizes: Mapping[str, int]) -> list[Lifetime]:
    """Return the lifetimes of values with other largest sizes of dims."""
    found = []
    for one in lifetimes(plan):
        info = plan.values[one.name]
        shape = extents_at(info.fixed_shape, sizes)
        found.append(replace(one, size_bytes=prod(shape) * SIZE_BYTES[info.dtype]))
    return found


def lifetimes(plan: ModelPlan) -> list[Lifetime]:
    """Return the lifetime of every value that needs memory of the bundle.

    Inputs, weights and outputs have memory of their own; a view has the memory of its source.
    """
    own = {*plan.inputs, *plan.weights, *in_place(plan)}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        for name in step.writes:
            first.setdefault(plan.roots[name], number)
        for name in (*step.reads, *step.writes):
            last[plan.roots[name]] = number
    for output in plan.outputs:  # copied behind the last step, unless it has its own memory
        last[plan.roots[output.value]] = len(plan.steps)
    return [
        Lifetime(name, plan.values[name].size_bytes, begin, last[name])
        for name, begin in first.items()
        if name not in own
    ]


def in_place(plan: ModelPlan) -> dict[str, int]:
    """Return the values that lie in the memory of an output, and the number of that output.

    All other outputs are copies: of inputs, of weights, of parts, or of a value that an earlier
    output is.
    """
    fixed = {*plan.inputs, *plan.weights}
    found: dict[str, int] = {}
    for number, output in enumerate(plan.outputs):
        root = plan.roots[output.value]
        if root not in fixed and plan.is_whole(output.value):
            found.setdefault(root, number)
    return found


def plan_arena(values: Sequence[Lifetime]) -> ArenaPlan:
    """Return a plan in which no two values that a step needs at once overlap."""
    bound = bound_bytes(values)
    places, peak = _best(values, bound)
    return ArenaPlan(places, peak, sum(_padded(value) for value in values), bound)


def bound_bytes(values: Sequence[Lifetime]) -> int:
    """Return the most bytes alive at one step."""
    change: dict[int, int] = {}
    for value in values:
        change[value.first] = change.get(value.first, 0) + _padded(value)
        change[value.last + 1] = change.get(value.last + 1, 0) - _padded(value)
    most = alive = 0
    for step in sorted(change):
        alive += change[step]
        most = max(most, alive)
    return most


_ORDERS: Final[tuple[Callable[[Lifetime], tuple[int, ...]], ...]] = (
    lambda value: (-_padded(value), value.first, value.last),
    lambda value: (-_padded(value) * (value.last - value.first + 1), value.first, value.last),
    lambda value: (value.first, -_padded(value), value.last),
    lambda value: (value.first - value.last, -_padded(value), value.first),
)


def _best(values: Sequence[Lifetime], bound: int) -> tuple[dict[str, int], int]:
    """Return the places of the lowest peak that was found, and the peak."""
    orders = [sorted(values, key=order) for order in _ORDERS]
    found = [_placed(order) for order in orders]
    best = min(found, key=lambda placed: placed[1])
    for order, placed in zip(orders, found, strict=True):
        places, peak = placed
        for _ in range(MOVES):
            if best[1] <= bound:
                return best
            highest = [value for value in order if places[value.name] + _padded(value) == peak]
            order = highest + [value for value in order if value not in highest]
            places, peak = _placed(order)
            best = min(best, (places, peak), key=lambda one: one[1])
    return best


def _placed(values: Sequence[Lifetime]) -> tuple[dict[str, int], int]:
    """Give each value the lowest place that is free while it lives; return places and the peak."""
    places: dict[str, int] = {}
    settled: list[tuple[int, int, Lifetime]] = []  # by place: begin, end
    peak = 0
    for value in values:
        begin = 0
        for low, high, other in settled:
            if value.overlaps(other):
                if low - begin >= _padded(value):
                    break
                begin = max(begin, high)
        end = begin + _padded(value)
        settled.append((begin, end, value))
        settled.sort(key=lambda one: one[0])
        places[value.name] = begin
        peak = max(peak, end)
    return places, peak


def _padded(value: Lifetime) -> int:
    return -(-value.size_bytes // ALIGN_BYTES) * ALIGN_BYTES
