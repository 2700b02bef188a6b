"""Tasks for ranges of a dim, and the candidates that join one kernel of each.

A task with dims whose ranges get kernels of their own (`te.dims.ranges_of`) has a task for each in
`Task.parts`. The search measures candidates of the parts, each at sizes of its range. At the end
the task itself measures joined candidates, at sizes of all ranges, and the best one races.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from ansorpy.loopir.join import Ahead
from ansorpy.plan.join import join_plans
from ansorpy.plan.plan import RangePlan
from ansorpy.replay import plan_text
from ansorpy.search import Candidate
from ansorpy.search.strategy import SearchView
from ansorpy.te.dims import Dim
from ansorpy.tuner.tasks.search_space import SearchSpace

NEAR: Final = 1.1  # ratio of a cost to the least of its range: smaller packs may take that much
LEADERS: Final = 6  # candidates of the last range, of different packs, that are tried


@dataclass(slots=True)
class JoinedSpace:
    """The candidates that join one kernel of each range, as `OwnSpace`.

    `parts` are the search spaces of the ranges. Candidates are joined by `join`, since they depend
    on the search of the parts.
    """

    name: str
    ranges: tuple[Dim, ...]
    parts: tuple[SearchSpace, ...]
    loops: str = ""
    single: bool = False

    @staticmethod
    def of(rules: str, ranges: tuple[Dim, ...], parts: tuple[SearchSpace, ...]) -> "JoinedSpace":
        """Return the space without candidates; `rules` is the name of the rule set."""
        ends = ",".join(str(sizes.high) for sizes in ranges)
        return JoinedSpace(f"{rules} to {ranges[0].name} = {ends}", ranges, parts)

    @property
    def calls(self) -> tuple[float, ...]:
        """The share of all calls that have a size of each range; () without a distribution."""
        weights = [sum(weight for *_, weight in sizes.weights) for sizes in self.ranges]
        return tuple(weight / sum(weights) for weight in weights) if any(weights) else ()

    def open(self, space: SearchSpace) -> None:
        """Add nothing: plans are joined once candidates are chosen."""

    def propose(
        self, space: SearchSpace, view: SearchView, count: int, rng: np.random.Generator
    ) -> list[Candidate]:
        """Return none: the search proposes candidates of the parts."""
        return []

    def find(self, space: SearchSpace, plan: str, row: tuple[int, ...]) -> Candidate | None:
        """Return the candidate of a joined plan and a row; None for another plan."""
        number = space.number_of(plan)
        return None if number is None else Candidate(number, row)


def join(space: SearchSpace, chosen: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Return candidates of a joined space, each from one candidate of each range."""
    own = space.own
    if not isinstance(own, JoinedSpace):
        raise TypeError(f"cannot join kernels of {space.dag.name!r}, which has no ranges")
    found = []
    for candidates in chosen:
        plans = [part.plans[one.plan] for part, one in zip(own.parts, candidates, strict=True)]
        plan = join_plans(list(map(RangePlan, own.ranges, plans)))
        row = tuple(value for candidate in candidates for value in candidate.row)
        found.append(Candidate(space.add_plan(plan, plan_text(plan)), row))
    return found


def near(ranked: Sequence[tuple[Candidate, float]]) -> list[Candidate]:
    """Return the candidates whose costs are near the least one, which is the first."""
    return [candidate for candidate, cost in ranked if cost <= NEAR * ranked[0][1]]


Further: TypeAlias = Callable[[int, Sequence[Candidate]], Iterable[Candidate]]


def with_small_packs(
    spaces: Sequence[SearchSpace],
    given: Sequence[Sequence[Candidate]],
    further: Further = lambda *_: (),
) -> tuple[Candidate, ...]:
    """Return a candidate of each range: one of the last range, and others of few further bytes.

    Equal packed weights of several ranges are one.

    Args:
        given: candidates of each range, the best first.
        further: returns more candidates of the range of a number, given the chosen ones of all
            later ranges; it is asked if none of the candidates shares its packs.
    """
    seen: list[Mapping[Ahead, int]] = []
    found: list[tuple[int, tuple[Candidate, ...]]] = []

    def leaders() -> Iterator[Candidate]:
        yield from given[-1]
        yield from further(len(spaces) - 1, ())

    for leader in leaders():
        packs = spaces[-1].packs(leader)
        if packs in seen:
            continue
        seen.append(packs)
        found.append(_beside(leader, spaces, given, further))
        if not found[-1][0] or len(seen) == LEADERS:
            break
    return min(found, key=lambda pair: pair[0])[1]


def _beside(
    leader: Candidate,
    spaces: Sequence[SearchSpace],
    given: Sequence[Sequence[Candidate]],
    further: Further,
) -> tuple[int, tuple[Candidate, ...]]:
    """Return a candidate of each range, of the last one `leader`, and the bytes that others add."""
    chosen, known, total = [leader], set(spaces[-1].packs(leader)), 0

    def added(number: int, candidate: Candidate) -> int:
        packs = spaces[number].packs(candidate)
        return sum(size for key, size in packs.items() if key not in known)

    for number in reversed(range(len(spaces) - 1)):
        best = next((one for one in given[number] if not added(number, one)), None)
        if best is None:
            more = further(number, chosen)
            best = min([*given[number], *more], key=partial(added, number))
        total += added(number, best)
        chosen.insert(0, best)
        known |= spaces[number].packs(best).keys()
    return total, tuple(chosen)


def in_turn(ranked: Sequence[Sequence[Candidate]]) -> list[tuple[Candidate, ...]]:
    """Return the best candidates of all ranges together, then the second ones, and so on.

    A range with fewer candidates gives its best again; () if a range has none.
    """
    if not ranked or not all(ranked):
        return []
    longest = max(map(len, ranked))
    together = (tuple(one[k] if k < len(one) else one[0] for one in ranked) for k in range(longest))
    return list(dict.fromkeys(together))
