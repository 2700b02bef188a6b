"""Steps that divide a loop. Inner lengths are named sizes; a sketch leaves their values open."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ansorpy.errors import StepError
from ansorpy.state.axis import Loop
from ansorpy.state.state import Stage, State
from ansorpy.state.steps.guard import compute_of, loop_of, no_guest, whole_loop_of


@dataclass(frozen=True, slots=True)
class Split:
    """Divide a whole loop into `parts`, outermost first: i becomes i.0, i.1, ...

    Part q >= 1 has the named length "<stage>.<loop>.<q>"; part 0 takes the rest. `fixed` gives the
    values of the inner lengths, one per inner part, 0 for an open length; () if all are open.
    """

    code: ClassVar[str] = "SP"
    stage: str
    loop: str
    parts: int
    fixed: tuple[int, ...] = ()

    def apply(self, state: State) -> State:
        """Return the state with the loop divided.

        Raises:
            StepError: no such loop; it is divided, annotated or hosts a stage; fewer than 2
                parts; fixed lengths that are not one number per inner part, or all 0.
        """
        stage, _ = compute_of(state, self.stage, self)
        old = whole_loop_of(stage, self.loop, self)
        no_guest(state, self.stage, (self.loop,), self)
        if self.parts < 2:
            raise StepError(f"{self}: {self.parts} parts; expected at least 2")
        counted = len(self.fixed) == self.parts - 1
        if self.fixed and (not counted or min(self.fixed) < 0 or not any(self.fixed)):
            raise StepError(f"{self}: fixed lengths {self.fixed} for {self.parts - 1} inner parts")
        sizes = (f"{self.stage}.{self.loop}.{q}" for q in range(1, self.parts))
        return state.with_stage(_divided(stage, old, tuple((size,) for size in sizes)))

    def __str__(self) -> str:
        made = ", ".join(f"{self.loop}.{q}" for q in range(self.parts))
        how = f"inner={list(self.fixed)}" if self.fixed else f"parts={self.parts}"
        return f"{made} = {self.stage}.split({self.loop}, {how})"


@dataclass(frozen=True, slots=True)
class FollowSplit:
    """Divide a whole loop as the split loop `source_loop` of stage `source` was divided.

    With `levels` = L the loop gets L + 1 parts; part L takes all the inner lengths that are left
    of the source, so that both stages have equal tiles at levels 1 ... L.
    """

    code: ClassVar[str] = "FSP"
    stage: str
    loop: str
    source: str
    source_loop: str
    levels: int

    def apply(self, state: State) -> State:
        """Return the state with the loop divided.

        Raises:
            StepError: as `Split`; or the source has no such split, or fewer inner parts.
        """
        stage, _ = compute_of(state, self.stage, self)
        old = whole_loop_of(stage, self.loop, self)
        no_guest(state, self.stage, (self.loop,), self)
        inner = inner_lengths(state.stage(self.source), self.source_loop, self)
        if not 1 <= self.levels <= len(inner):
            raise StepError(
                f"{self}: {self.levels} levels, the source has {len(inner)} inner parts"
            )
        last = tuple(size for length in inner[self.levels - 1 :] for size in length)
        return state.with_stage(_divided(stage, old, (*inner[: self.levels - 1], last)))

    def __str__(self) -> str:
        made = ", ".join(f"{self.loop}.{q}" for q in range(self.levels + 1))
        source = f"{self.source}.{self.source_loop}"
        return f"{made} = {self.stage}.follow_split({self.loop}, {source}, levels={self.levels})"


@dataclass(frozen=True, slots=True)
class FollowFusedSplit:
    """Divide a whole loop in two, the inner one as long as the fused parts `level` of a stage.

    Used where several threads, made by fusing one tile level of `source`, share a copy.
    """

    code: ClassVar[str] = "FFSP"
    stage: str
    loop: str
    source: str
    source_loops: tuple[str, ...]
    level: int

    def apply(self, state: State) -> State:
        """Return the state with the loop divided.

        Raises:
            StepError: as `Split`; or a source loop has no such split or no part `level`.
        """
        stage, _ = compute_of(state, self.stage, self)
        old = whole_loop_of(stage, self.loop, self)
        no_guest(state, self.stage, (self.loop,), self)
        source = state.stage(self.source)
        sizes: tuple[str, ...] = ()
        for name in self.source_loops:
            inner = inner_lengths(source, name, self)
            if not 1 <= self.level <= len(inner):
                raise StepError(
                    f"{self}: level {self.level}, {name!r} has {len(inner)} inner parts"
                )
            sizes += inner[self.level - 1]
        return state.with_stage(_divided(stage, old, (sizes,)))

    def __str__(self) -> str:
        source = ", ".join(f"{self.source}.{loop}" for loop in self.source_loops)
        return (
            f"{self.loop}.0, {self.loop}.1 = {self.stage}.follow_fused_split("
            f"{self.loop}, [{source}], level={self.level})"
        )


def inner_lengths(stage: Stage, loop: str, step: object) -> tuple[tuple[str, ...], ...]:
    """Return the lengths of the inner parts of a split loop, outer part first."""
    loop_of(stage, f"{loop}.0", step)
    names = {part.name: part for part in stage.loops}
    found: list[tuple[str, ...]] = []
    while (part := names.get(f"{loop}.{len(found) + 1}")) is not None and part.length is not None:
        found.append(part.length)
    return tuple(found)


def _divided(stage: Stage, old: Loop, inner: tuple[tuple[str, ...], ...]) -> Stage:
    outer = Loop(f"{old.name}.0", old.kind, old.axes)
    parts = (
        Loop(f"{old.name}.{q}", old.kind, old.axes, length=length)
        for q, length in enumerate(inner, start=1)
    )
    at = stage.loops.index(old)
    return replace(stage, loops=(*stage.loops[:at], outer, *parts, *stage.loops[at + 1 :]))
