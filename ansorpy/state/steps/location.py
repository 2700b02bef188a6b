"""Steps on where a stage is computed. Bodies are not substituted here; lowering does that."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ansorpy.errors import StepError
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Attached, Inlined, Root, State
from ansorpy.state.steps.guard import compute_of, loop_of, no_guest


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Compute a stage inside loop `loop` of stage `host`, as much as one iteration needs."""

    code: ClassVar[str] = "CA"
    stage: str
    host: str
    loop: str

    def apply(self, state: State) -> State:
        """Return the state with the stage attached.

        Raises:
            StepError: no such loop, the host comes before the stage or is inlined, or the stage
                is an output.
        """
        stage, _ = compute_of(state, self.stage, self)
        host, _ = compute_of(state, self.host, self)
        loop_of(host, self.loop, self)
        if state.index[self.host] <= state.index[self.stage]:
            raise StepError(f"{self}: {self.host!r} does not come after {self.stage!r}")
        if isinstance(host.location, Inlined):
            raise StepError(f"{self}: {self.host!r} is inlined, it has no loops of its own")
        if self.stage in state.dag.outputs:
            raise StepError(f"{self}: {self.stage!r} is an output, it is computed at root")
        return state.with_stage(replace(stage, location=Attached(self.host, self.loop)))

    def __str__(self) -> str:
        return f"{self.stage}.compute_at({self.host}, {self.loop})"


@dataclass(frozen=True, slots=True)
class ComputeInline:
    """Substitute a stage into its consumers."""

    code: ClassVar[str] = "CI"
    stage: str

    def apply(self, state: State) -> State:
        """Return the state with the stage inlined.

        Raises:
            StepError: the stage is an output, reduces, has several outputs or hosts another.
        """
        stage, node = compute_of(state, self.stage, self)
        if self.stage in state.dag.outputs:
            raise StepError(f"{self}: {self.stage!r} is an output")
        if any(loop.kind is AxisKind.REDUCE for loop in stage.loops) or node.combiner is not None:
            raise StepError(f"{self}: {self.stage!r} reduces")
        no_guest(state, self.stage, tuple(loop.name for loop in stage.loops), self)
        return state.with_stage(replace(stage, location=Inlined()))

    def __str__(self) -> str:
        return f"{self.stage}.compute_inline()"


@dataclass(frozen=True, slots=True)
class ComputeRoot:
    """Compute a stage whole, before its consumers."""

    code: ClassVar[str] = "CR"
    stage: str

    def apply(self, state: State) -> State:
        """Return the state with the stage at root; StepError for an input."""
        stage, _ = compute_of(state, self.stage, self)
        return state.with_stage(replace(stage, location=Root()))

    def __str__(self) -> str:
        return f"{self.stage}.compute_root()"
