"""Steps on the order and the marks of the loops of one stage."""

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Final

from ansorpy.errors import StepError
from ansorpy.state.axis import Loop
from ansorpy.state.state import State
from ansorpy.state.steps.guard import compute_of, loop_of, no_guest, whole_loop_of

ANNOTATIONS: Final = ("parallel", "vectorize", "unroll", "block", "vthread", "thread")


@dataclass(frozen=True, slots=True)
class Reorder:
    """Put all loops of a stage into `order`, outermost first."""

    code: ClassVar[str] = "RE"
    stage: str
    order: tuple[str, ...]

    def apply(self, state: State) -> State:
        """Return the state with the loops permuted; StepError if `order` is no permutation."""
        stage, _ = compute_of(state, self.stage, self)
        loops = {loop.name: loop for loop in stage.loops}
        if sorted(self.order) != sorted(loops):
            raise StepError(f"{self}: not a permutation of {', '.join(loops)}")
        return state.with_stage(replace(stage, loops=tuple(loops[name] for name in self.order)))

    def __str__(self) -> str:
        return f"{self.stage}.reorder({', '.join(self.order)})"


@dataclass(frozen=True, slots=True)
class Fuse:
    """Fuse adjacent whole loops of one kind, outer first, into a loop called "i@j"."""

    code: ClassVar[str] = "FU"
    stage: str
    loops: tuple[str, ...]

    @property
    def fused(self) -> str:
        """The name of the fused loop."""
        return "@".join(self.loops)

    def apply(self, state: State) -> State:
        """Return the state with the loops fused.

        Raises:
            StepError: fewer than 2 loops; one is divided, annotated or hosts a stage; they are
                not adjacent in this order, or of different kinds.
        """
        stage, _ = compute_of(state, self.stage, self)
        old = tuple(whole_loop_of(stage, name, self) for name in self.loops)
        no_guest(state, self.stage, self.loops, self)
        if len(old) < 2:
            raise StepError(f"{self}: {len(old)} loops; expected at least 2")
        at = stage.loops.index(old[0])
        if stage.loops[at : at + len(old)] != old:
            raise StepError(f"{self}: the loops are not adjacent in this order")
        if len({loop.kind for loop in old}) > 1:
            raise StepError(f"{self}: spatial and reduce loops do not fuse")
        axes = tuple(axis for loop in old for axis in loop.axes)
        extent = prod(loop.extent for loop in old if loop.extent is not None)
        new = Loop(self.fused, old[0].kind, axes, extent)
        loops = (*stage.loops[:at], new, *stage.loops[at + len(old) :])
        return state.with_stage(replace(stage, loops=loops))

    def __str__(self) -> str:
        return f"{self.fused} = {self.stage}.fuse({', '.join(self.loops)})"


@dataclass(frozen=True, slots=True)
class Annotate:
    """Mark a loop: how it is run."""

    code: ClassVar[str] = "AN"
    stage: str
    loop: str
    annotation: str

    def apply(self, state: State) -> State:
        """Return the state with the mark; StepError on an unknown mark or a second one."""
        stage, _ = compute_of(state, self.stage, self)
        old = loop_of(stage, self.loop, self)
        if self.annotation not in ANNOTATIONS:
            raise StepError(f"{self}: unknown annotation; there are {', '.join(ANNOTATIONS)}")
        if old.annotation:
            raise StepError(f"{self}: loop {self.loop!r} is already annotated {old.annotation!r}")
        new = replace(old, annotation=self.annotation)
        loops = tuple(new if loop is old else loop for loop in stage.loops)
        return state.with_stage(replace(stage, loops=loops))

    def __str__(self) -> str:
        return f"{self.stage}.{self.annotation}({self.loop})"
