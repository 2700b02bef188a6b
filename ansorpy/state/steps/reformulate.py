"""Steps that put another way of computing the same in place of a stage."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ansorpy.errors import SpecError, StepError
from ansorpy.state.state import Stage, State, whole_loops
from ansorpy.state.steps.guard import compute_of, free_name, untouched
from ansorpy.te.dag import Compute, Dag, Node
from ansorpy.te.winograd import recognise, rewrite


@dataclass(frozen=True, slots=True)
class Winograd:
    """Compute a convolution by F(outputs, taps): transforms around a matrix product.

    The stages "<stage>.window" ... come just before; the stage keeps its name and shape, its node
    is the last transform. The result differs from that of the sum by rounding only, but by other
    bounds: `meaning` gives the Dag that they are to be taken from.
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
        source = {each.name: each.node for each in state.stages}
        nodes = self.nodes(node, source)
        for each in nodes[:-1]:
            free_name(state, each.name, self)
        at = state.index[self.stage]
        made = (Stage(each, whole_loops(each)) for each in nodes)
        return replace(state, stages=(*state.stages[:at], *made, *state.stages[at + 1 :]))

    def nodes(self, node: Compute, nodes: dict[str, Node]) -> tuple[Compute, ...]:
        """Return the nodes that take the place of one; StepError where it is not recognised."""
        found, why = recognise(node)
        if found is None:
            raise StepError(f"{self}: {why.why}")
        try:
            return rewrite(found, self.outputs, nodes[found.data.tensor].shape)
        except SpecError as error:
            raise StepError(f"{self}: {error}") from error

    def __str__(self) -> str:
        return f"{self.stage}.winograd(outputs={self.outputs})"


def meaning(state: State) -> Dag:
    """Return the Dag of a state, with what its steps reformulated in place of the originals.

    Its values are those of `state.dag` but for rounding; the error bounds of its kernels are its
    own. All other steps keep both.
    """
    dag = state.dag
    for step in state.steps:
        if isinstance(step, Winograd):
            at = dag.index[step.stage]
            node = dag.nodes[at]
            assert isinstance(node, Compute)  # as the step found
            made = step.nodes(node, {each.name: each for each in dag.nodes})
            dag = replace(dag, nodes=(*dag.nodes[:at], *made, *dag.nodes[at + 1 :]))
    return dag
