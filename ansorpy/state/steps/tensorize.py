"""The step that gives a sum of products to one instruction of the processor."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ansorpy.errors import StepError
from ansorpy.rewrites.intrinsics import named
from ansorpy.rewrites.tensorize import STEP, dotted, find_dot
from ansorpy.state.axis import Loop
from ansorpy.state.state import Dotted, Stage, State, whole_loops
from ansorpy.state.steps.guard import compute_of, free_name, untouched
from ansorpy.te.dag import Compute


def _loops(node: Compute, steps: int) -> tuple[Loop, ...]:
    """Return the loops of a stage that prepares; the steps of a lane are written out."""
    *outer, last = whole_loops(node)
    within = node.axes[-1].name == STEP and last.extent == steps
    return (*outer, replace(last, annotation="unroll") if within else last)


@dataclass(frozen=True, slots=True)
class Tensorize:
    """Take the sum of a stage in steps of an instruction, by its name.

    The stages "<stage>_wide", "<stage>_narrow" and "<stage>_sums", as far as they are needed, come
    just before; the stage keeps its name and its values (see `rewrites.tensorize`).
    """

    code: ClassVar[str] = "TZ"
    stage: str
    intrinsic: str

    def apply(self, state: State) -> State:
        """Return the state with the new stages.

        Raises:
            StepError: the stage has been changed before, there is no such instruction, or it does
                not compute the node.
        """
        stage, node = compute_of(state, self.stage, self)
        untouched(state, stage, self)
        if stage.dot is not None:
            raise StepError(f"{self}: {self.stage!r} is already taken in steps")
        if not named(self.intrinsic):
            raise StepError(f"{self}: no such instruction is described")
        dot, why = find_dot(node, named(self.intrinsic)[0])
        if dot is None:
            raise StepError(f"{self}: {why.why}")
        *nodes, total = dotted(node, dot, {each.name: each.node for each in state.stages})
        for each in nodes:
            free_name(state, each.name, self)
        mark = Dotted(dot.step, dot.lane)
        if dot.row:
            one = dot.intrinsic
            mark = replace(mark, row=dot.row, rows=one.rows, group=dot.axis.name, groups=one.groups)
        stages = [Stage(each, _loops(each, dot.steps), prepares=True) for each in nodes]
        stages.append(Stage(total, whole_loops(total), dot=mark))
        at = state.index[self.stage]
        return replace(state, stages=(*state.stages[:at], *stages, *state.stages[at + 1 :]))

    def __str__(self) -> str:
        return f"{self.stage}.tensorize({self.intrinsic!r})"
