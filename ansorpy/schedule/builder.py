"""Schedules in Python: a schedule that is written step by step, stage by stage.

>>> s = ansorpy.create_schedule(dag)
>>> y, x = s["C"].axis
>>> (k,) = s["C"].reduce_axis
>>> yo, yi = s["C"].split(y, 8)
>>> s["C"].reorder(yo, k, yi, x)
>>> s["C"].vectorize(x)
>>> ansorpy.tune(dag, mode="manual", schedule=s)

A loop is its name, a text; the name of a loop that is not divided has its `extent`.
"""

from dataclasses import dataclass, field
from typing import Any

from ansorpy.errors import SpecError
from ansorpy.schedule.lowered import advanced
from ansorpy.schedule.schedule import Schedule, checked
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Stage, State, Step
from ansorpy.state.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    Fuse,
    Reorder,
    Rfactor,
    Split,
)
from ansorpy.te.dag import Dag
from ansorpy.te.tensor import Tensor

ANY: frozenset[str] = frozenset(("winograd2", "winograd4"))  # the tuning checks `allow`


class LoopName(str):
    """The name of a loop that is not divided, with its extent."""

    extent: int

    def __new__(cls, name: str, extent: int) -> "LoopName":
        """Return the name."""
        made = super().__new__(cls, name)
        made.extent = extent
        return made


@dataclass(slots=True)
class StagedSchedule:
    """A schedule of a Dag that grows by a step with every call; `schedule` is its value."""

    dag: Dag
    steps: list[Step] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    pack: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _state: State | None = None

    @property
    def schedule(self) -> Schedule:
        """The schedule so far."""
        return Schedule(tuple(self.steps), tuple(self.sizes.items()), tuple(self.pack.items()))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the schedule so far."""
        return self.schedule.to_json()

    @property
    def state(self) -> State:
        """The loops so far."""
        if self._state is None:
            self._state = State.naive(self.dag)
        return self._state

    def do(self, step: Step) -> None:
        """Apply a step; SpecError names the step and the reason if it does not fit."""
        checked(Schedule((*self.steps, step)))
        self._state = advanced(self.state, len(self.steps) + 1, step, ANY)
        self.steps.append(step)

    def set_size(self, name: str, value: int) -> None:
        """Set a size by name, such as the budget `C.unroll` of written-out iterations."""
        self.sizes[name] = value

    def __getitem__(self, stage: Tensor | str) -> "StageSchedule":
        """Return the schedule of a stage; SpecError if there is none of that name."""
        name = stage.name if isinstance(stage, Tensor) else stage
        if name not in self.state.index:
            raise SpecError(
                f"cannot schedule {name!r} because it is no stage; expected"
                f" {', '.join(self.state.index)}"
            )
        return StageSchedule(self, name)


def create_schedule(dag: Dag) -> StagedSchedule:
    """Return the schedule of the naive loops of a Dag, to which steps can be added."""
    return StagedSchedule(dag)


@dataclass(frozen=True, slots=True)
class StageSchedule:
    """One stage of a schedule. Its methods add steps, and return the names of the new loops."""

    owner: StagedSchedule
    name: str

    @property
    def axis(self) -> tuple[LoopName, ...]:
        """The spatial loops that are not divided, outermost first."""
        return self._loops(AxisKind.SPATIAL)

    @property
    def reduce_axis(self) -> tuple[LoopName, ...]:
        """The reduce loops that are not divided, outermost first."""
        return self._loops(AxisKind.REDUCE)

    @property
    def loops(self) -> tuple[str, ...]:
        """All loops, outermost first."""
        return tuple(loop.name for loop in self._stage.loops)

    def split(self, loop: str, *inner: int) -> tuple[str, ...]:
        """Divide a loop by inner lengths, outer part first; return the parts."""
        self.owner.do(Split(self.name, str(loop), len(inner) + 1, inner))
        return tuple(f"{loop}.{q}" for q in range(len(inner) + 1))

    def reorder(self, *loops: str) -> None:
        """Put loops into this order, within the places that they take now."""
        given = iter(loops)
        order = tuple(str(next(given)) if one in loops else one for one in self.loops)
        known = sorted(loops) == sorted(one for one in self.loops if one in loops)
        self.owner.do(Reorder(self.name, order if known else tuple(map(str, loops))))

    def fuse(self, *loops: str) -> LoopName:
        """Fuse adjacent whole loops, outer first; return the fused loop."""
        step = Fuse(self.name, tuple(map(str, loops)))
        self.owner.do(step)
        (made,) = (one for one in (*self.axis, *self.reduce_axis) if one == step.fused)
        return made

    def parallel(self, loop: str) -> None:
        """Run the iterations of a loop on all threads; loops outside must be parallel, too."""
        self.owner.do(Annotate(self.name, str(loop), "parallel"))

    def vectorize(self, loop: str) -> None:
        """Run a loop in vectors; its length must be a multiple of the lanes of a vector."""
        self.owner.do(Annotate(self.name, str(loop), "vectorize"))

    def unroll(self, loop: str) -> None:
        """Write out the iterations of a loop."""
        self.owner.do(Annotate(self.name, str(loop), "unroll"))

    def unroll_budget(self, iterations: int) -> None:
        """Let the reduction write out at most `iterations`: 0, 16, 64 or 512."""
        self.owner.set_size(f"{self.name}.unroll", iterations)

    def compute_at(self, host: Tensor | str, loop: str) -> None:
        """Compute the stage inside a loop of one of its readers."""
        name = host.name if isinstance(host, Tensor) else host
        self.owner.do(ComputeAt(self.name, name, str(loop)))

    def compute_inline(self) -> None:
        """Compute the stage within each reader."""
        self.owner.do(ComputeInline(self.name))

    def cache_write(self) -> str:
        """Compute the stage in a cache, which it then copies; return the name of the cache."""
        step = CacheWrite(self.name)
        self.owner.do(step)
        return step.cache

    def cache_read(self, *readers: str) -> str:
        """Let readers take the stage from a copy; return the name of the copy."""
        step = CacheRead(self.name, readers, "local")
        self.owner.do(step)
        return step.cache

    def rfactor(self, loop: str) -> str:
        """Keep a part of the reduction as an axis of partial results; return their stage."""
        step = Rfactor(self.name, str(loop))
        self.owner.do(step)
        return step.partial

    def pack(self, *operands: Tensor | str) -> None:
        """Copy operands into the order in which the tiles of the stage read them."""
        names = (one.name if isinstance(one, Tensor) else one for one in operands)
        self.owner.pack[self.name] = tuple(names)

    @property
    def _stage(self) -> Stage:
        return self.owner.state.stage(self.name)

    def _loops(self, kind: AxisKind) -> tuple[LoopName, ...]:
        return tuple(
            LoopName(loop.name, loop.extent)
            for loop in self._stage.loops
            if loop.kind is kind and loop.extent is not None
        )
