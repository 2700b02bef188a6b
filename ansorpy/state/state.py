"""The search state: stages with their loops, and the steps that made them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from ansorpy.errors import StepError
from ansorpy.state.axis import AxisKind, Loop
from ansorpy.te.dag import Compute, Dag, Node


@dataclass(frozen=True, slots=True)
class Root:
    """Computed whole, before its consumers run."""

    def __str__(self) -> str:
        return "root"


@dataclass(frozen=True, slots=True)
class Inlined:
    """Its expression is substituted into its consumers."""

    def __str__(self) -> str:
        return "inlined"


@dataclass(frozen=True, slots=True)
class Attached:
    """Computed at loop `loop` of stage `stage`: the elements that one iteration needs."""

    stage: str
    loop: str

    def __str__(self) -> str:
        return f"at {self.stage}.{self.loop}"


Location = Root | Inlined | Attached


@dataclass(frozen=True, slots=True)
class Partial:
    """Marks a stage made by rfactor: loop `loop` of the reduction is one more spatial axis.

    The node of the stage is the original reduction under the name "<of>.rf"; its output has the
    shape of the node plus one last axis that runs over `loop`.
    """

    of: str
    loop: str


@dataclass(frozen=True, slots=True)
class Combine:
    """Marks the stage that combines the partials: it reduces over the last axis of stage `of`.

    The node of the stage is still the original reduction; its loops are the spatial axes and one
    reduce loop over the partials.
    """

    of: str


@dataclass(frozen=True, slots=True)
class Dotted:
    """Marks a stage whose reduce axis `step` is summed by one instruction, lanes along `lane`.

    A matrix instruction also takes `rows` rows along `row`, and `groups` groups of steps.
    """

    step: str
    lane: str
    row: str = ""
    rows: int = 1
    group: str = ""
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """One node of the (transformed) Dag with its loops, outermost first, and its location.

    `prepares`: the stage lays out data for another stage, and is computed at root.
    """

    node: Node
    loops: tuple[Loop, ...] = ()
    location: Location = Root()
    role: Partial | Combine | None = None
    dot: Dotted | None = None
    prepares: bool = False

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.name


class Step(Protocol):
    """One transform of a state: it checks its condition, is applied, and becomes history."""

    def apply(self, state: "State") -> "State":
        """Return the next state; StepError if the condition does not hold."""
        ...


@dataclass(frozen=True)
class State:
    """An immutable search state: stages in topological order, and the steps that made them.

    Steps may insert stages, so that stages are referred to by name.
    """

    dag: Dag
    stages: tuple[Stage, ...]
    steps: tuple[Step, ...] = field(default=())

    @staticmethod
    def naive(dag: Dag) -> "State":
        """Return one loop per axis, every stage at root, no steps."""
        return State(dag, tuple(Stage(node, whole_loops(node)) for node in dag.nodes))

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Position of every stage by name."""
        return {stage.name: i for i, stage in enumerate(self.stages)}

    def stage(self, name: str) -> Stage:
        """Return the stage called `name`; StepError if there is none."""
        if name not in self.index:
            raise StepError(f"no stage {name!r}; there are {', '.join(self.index)}")
        return self.stages[self.index[name]]

    def do(self, *steps: Step) -> "State":
        """Apply `steps` in order and remember them: replaying `steps` gives the same state."""
        state = self
        for step in steps:
            state = step.apply(state)
            state = replace(state, steps=(*state.steps, step))
        return state

    def with_stage(self, stage: Stage) -> "State":
        """Return the state with the stage of the same name replaced (for steps only)."""
        at = self.index[stage.name]
        return replace(self, stages=(*self.stages[:at], stage, *self.stages[at + 1 :]))

    def __str__(self) -> str:
        rows = []
        for stage in self.stages:
            loops = " ".join(map(str, stage.loops))
            where = "" if isinstance(stage.location, Root) else f" @ {stage.location}"
            how = "" if stage.dot is None else f" by {stage.dot.step}"
            rows.append(f"{stage.name}{where}{how}: {loops}".rstrip(": "))
        return "\n".join(rows)


def whole_loops(node: Node) -> tuple[Loop, ...]:
    """Return one loop per axis of a compute node, spatial first; () for an input."""
    if not isinstance(node, Compute):
        return ()
    spatial = (Loop(a.name, AxisKind.SPATIAL, (a.name,), a.extent) for a in node.axes)
    reduce = (Loop(a.name, AxisKind.REDUCE, (a.name,), a.extent) for a in node.reduce_axes)
    return (*spatial, *reduce)
