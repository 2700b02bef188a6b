"""Steps that put a way of computing the same, with other rounding, in place of a stage."""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from ansorpy.errors import SpecError, StepError
from ansorpy.rewrites.warp_products import rounded_operands
from ansorpy.rewrites.winograd import recognise, rewrite
from ansorpy.state.state import Stage, State, whole_loops
from ansorpy.state.steps.guard import compute_of, free_name, untouched
from ansorpy.state.steps.regroup import Join, SkipPadding, SplitPhases
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class Winograd:
    """Compute a convolution by F(outputs, taps): transforms around a matrix product.

    The stages "<stage>.window" ... come just before; the stage keeps its name and shape, its node
    is the last transform. The result differs from the sum by rounding only, within other
    bounds: take the bounds from the Dag `meaning`.
    """

    code: ClassVar[str] = "WG"
    stage: str
    outputs: int

    def apply(self, state: State) -> State:
        """Return the state with the new stages.

        Raises:
            StepError: the stage has been changed before, or its node is no such convolution.
        """
        stage, node = compute_of(state, self.stage, self)
        untouched(state, stage, self)
        found, why = recognise(node)
        if found is None:
            raise StepError(f"{self}: {why.why}")
        try:
            nodes = rewrite(found, self.outputs, state.stage(found.data.tensor).node.shape)
        except SpecError as error:
            raise StepError(f"{self}: {error}") from error
        for each in nodes[:-1]:
            free_name(state, each.name, self)
        at = state.index[self.stage]
        made = (Stage(each, whole_loops(each)) for each in nodes)
        return replace(state, stages=(*state.stages[:at], *made, *state.stages[at + 1 :]))

    @property
    def word(self) -> str:
        """The word by which a request allows the step."""
        return f"winograd{self.outputs}"

    def __str__(self) -> str:
        return f"{self.stage}.winograd(outputs={self.outputs})"


@dataclass(frozen=True, slots=True)
class RoundOperands:
    """Let the operands of a sum of products be rounded to a format of tensor cores: "tf32".

    The rounding of operands is an error of the kernel, of which `meaning` gives the bound.
    """

    code: ClassVar[str] = "RND"
    stage: str
    form: str

    def apply(self, state: State) -> State:
        """Return the state with the operands of the stage marked.

        Raises:
            StepError: the stage has been changed before, or its node is no such sum.
        """
        stage, node = compute_of(state, self.stage, self)
        untouched(state, stage, self)
        made, why = rounded_operands(node, self.form)
        if made is None:
            raise StepError(f"{self}: {why.why}")
        stages = (Stage(made, whole_loops(made)) if one is stage else one for one in state.stages)
        return replace(state, stages=tuple(stages))

    @property
    def word(self) -> str:
        """The word by which a request allows the step."""
        return self.form

    def __str__(self) -> str:
        return f"{self.stage}.round_operands({self.form!r})"


Reformulation: TypeAlias = Winograd | RoundOperands


def reformulations(state: State) -> tuple[Reformulation, ...]:
    """Return the steps of a state that change the rounding of its results."""
    return tuple(step for step in state.steps if isinstance(step, Reformulation))


def reformulated(state: State) -> str:
    """Return the steps of a state that change rounding, for people; "": none."""
    return "; ".join(map(str, reformulations(state)))


def executed_flop(state: State) -> int:
    """Return the number of operations of a kernel; 0 if steps leave out some products."""
    if any(isinstance(step, SkipPadding | SplitPhases) for step in state.steps):
        return 0
    return flop_count(meaning(state))


def meaning(state: State) -> Dag:
    """Return the Dag of a state with reformulated nodes in place of the original ones.

    Its values equal the values of `state.dag` except for rounding, so that kernels are checked
    against its own error bounds. All other steps preserve values and rounding.
    """
    last = reformulations(state)[-1:]
    if not last:
        return state.dag
    upto = state.steps.index(last[0]) + 1
    # Joined axes would change the shapes of arguments.
    steps = (step for step in state.steps[:upto] if not isinstance(step, Join))
    then = State.naive(state.dag).do(*steps)
    return replace(state.dag, nodes=tuple(stage.node for stage in then.stages))
