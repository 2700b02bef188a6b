"""A plan: a sketch with its structural choices made, lowered once; sizes are still open."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from ansorpy.expr.expr import Expr
from ansorpy.loopir.nodes import Program
from ansorpy.state.state import Location, State
from ansorpy.te.dims import Dim

# (stage, lane axis, packed operands) of every vectorized stage
Family: TypeAlias = tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class StageChoice:
    """The structural choices of one stage."""

    location: Location
    parallel: int = 0  # number of leading parallel loops (root stages only)
    lane: str | None = None  # the vectorized axis; None: scalar code
    pack: tuple[str, ...] = ()  # operands that are packed into tile order before the stage

    def facts(self, between: str = ", ") -> list[str]:
        """Return the choices beside the location, for people; `between` two packed operands."""
        facts = [f"{self.parallel} parallel loops"] if self.parallel else []
        facts += [f"lanes along {self.lane}"] if self.lane else []
        return facts + ([f"packs {between.join(self.pack)}"] if self.pack else [])


@dataclass(frozen=True, slots=True)
class Size:
    """One column of a population: a named size.

    `tile`    an inner length of a split axis: at least 1, at most the extent of the axis
    `unroll`  the budget of written-out statements, one of `values`
    `vector`  vectors per step of an untiled vector loop, one of `values`
    `rows`    rows per block in which attached stages are computed, one of `values`
    `threads` threads of a block of a GPU, one of `values`
    """

    name: str
    role: Literal["tile", "unroll", "vector", "rows", "threads"]
    extent: int = 1  # extent of the axis that a tile size divides
    group: str = ""  # "<stage>.<axis>": the tile sizes of one axis, outer part first
    part: int = 0  # position within the group, 1 = the outermost inner part
    multiple_of: int = 1  # the innermost size of a lane axis: a multiple of the lanes
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A sketch with its structural choices, lowered once for all rows.

    `conditions` are boolean expressions over the sizes; a legal row satisfies all of them. If the
    Dag has dims, `program` is of the largest sizes: features and limits are taken from it.
    A joined plan (`plan.join`) has a plan for each range of a dim in `parts`; it has the state, the
    choices and the program of the last one.
    """

    state: State
    choices: tuple[tuple[str, StageChoice], ...]
    sizes: tuple[Size, ...]
    program: Program  # symbolic: mentions the names of `sizes` as variables
    conditions: tuple[Expr, ...] = ()
    unsized: Program | None = None  # the program with dims, for every size; None without dims
    parts: tuple["RangePlan", ...] = ()  # from the least sizes to the largest

    @property
    def smallest_row(self) -> tuple[int, ...]:
        """Every size at its smallest value: the row of untuned loops."""
        return tuple(min(size.values, default=1) for size in self.sizes)

    @cached_property
    def family(self) -> Family:
        """The choices with the largest influence on speed: lane axes and packed operands."""
        return tuple(
            (name, choice.lane, choice.pack) for name, choice in self.choices if choice.lane
        )

    @cached_property
    def column(self) -> Mapping[str, int]:
        """Position of every size by name."""
        return {size.name: i for i, size in enumerate(self.sizes)}


@dataclass(frozen=True)
class RangePlan:
    """A plan for calls whose size of a dim is from `sizes.low` to `sizes.high`, both included."""

    sizes: Dim
    plan: Plan
