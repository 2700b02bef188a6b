"""Steps that change the terms, axes or operands of a reduction; values stay the same."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ansorpy.errors import StepError
from ansorpy.rewrites.grouped_conv import find_group, grouped
from ansorpy.rewrites.joined_axes import joined
from ansorpy.rewrites.padded_rows import find_operands, with_rows
from ansorpy.rewrites.padding import find_padding, skipped
from ansorpy.rewrites.transposed_conv import find_walks, phased
from ansorpy.state.state import Stage, State, whole_loops
from ansorpy.state.steps.guard import compute_of, free_name, untouched
from ansorpy.te.dag import Compute


@dataclass(frozen=True, slots=True)
class Join:
    """Join neighbouring axes that all nodes walk together; `stage` is the last one.

    Inputs and outputs have other shapes, of as many elements (`joined`).
    """

    code: ClassVar[str] = "JA"
    stage: str

    def apply(self, state: State) -> State:
        """Return the state of the joined nodes.

        Raises:
            StepError: the stage is not the last one, there was a step before, or no axes are
                walked together.
        """
        if state.steps or self.stage != state.stages[-1].name:
            raise StepError(f"{self}: expected the first step, of {state.stages[-1].name!r}")
        made = joined(state.dag)
        if made == state.dag:
            raise StepError(f"{self}: no two axes are walked together by all nodes")
        return replace(state, stages=State.naive(made).stages)

    def __str__(self) -> str:
        return f"{self.stage}.join_axes()"


@dataclass(frozen=True, slots=True)
class SplitGroups:
    """Give the groups of a grouped reduction an axis: "<stage>_groups", copied to the stage."""

    code: ClassVar[str] = "SG"
    stage: str

    def apply(self, state: State) -> State:
        """Return the state with the two stages.

        Raises:
            StepError: the stage has been changed before, or it divides none of its axes.
        """
        stage, node = compute_of(state, self.stage, self)
        untouched(state, stage, self)
        operands, why = find_group(node)
        if operands is None:
            raise StepError(f"{self}: {why.why}")
        return _put(state, {self.stage: grouped(node, operands)}, self)

    def __str__(self) -> str:
        return f"{self.stage}.split_groups()"


@dataclass(frozen=True, slots=True)
class SplitPhases:
    """Leave out the products with zeros between the elements of `spread`.

    "<spread>_dense" takes the place of `spread`; "<stage>_phases" is copied to the stage.
    """

    code: ClassVar[str] = "PH"
    stage: str
    spread: str

    def apply(self, state: State) -> State:
        """Return the state with the three stages.

        Raises:
            StepError: one of the stages has been changed before, `spread` is an output or has
                another reader, or there are no zeros between its elements.
        """
        spread, node = _pair(state, self.spread, self.stage, self)
        walks, why = find_walks(spread, node)
        if not walks:
            raise StepError(f"{self}: {why.why}")
        dense, *sums = phased(spread, node, walks)
        return _put(state, {self.spread: (dense,), self.stage: tuple(sums)}, self)

    def __str__(self) -> str:
        return f"{self.stage}.split_phases({self.spread})"


@dataclass(frozen=True, slots=True)
class SkipPadding:
    """Leave out the products with the zeros that `padded` has around another tensor.

    The stage reads that tensor under a condition; `padded` is no stage any more.
    """

    code: ClassVar[str] = "PAD"
    stage: str
    padded: str

    def apply(self, state: State) -> State:
        """Return the state with one stage less.

        Raises:
            StepError: one of the stages has been changed before, `padded` is an output or has
                another reader, or it puts no zeros around anything.
        """
        padded, node = _pair(state, self.padded, self.stage, self)
        operands, why = find_padding(padded, node)
        if operands is None:
            raise StepError(f"{self}: {why.why}")
        return _put(state, {self.padded: (), self.stage: (skipped(padded, node),)}, self)

    def __str__(self) -> str:
        return f"{self.stage}.skip_padding({self.padded})"


@dataclass(frozen=True, slots=True)
class PadRows:
    """Read the operands of a reduction from copies with rows of whole groups, "A_rows".

    The copies come just before the stage, and are computed at root.
    """

    code: ClassVar[str] = "ROWS"
    stage: str

    def apply(self, state: State) -> State:
        """Return the state with the copies.

        Raises:
            StepError: the stage has been changed before, or no operand has such rows.
        """
        stage, node = compute_of(state, self.stage, self)
        untouched(state, stage, self)
        operands, why = find_operands(node, {each.name: each.node for each in state.stages})
        if not operands:
            raise StepError(f"{self}: {why.why}")
        for one in operands:
            free_name(state, one.name, self)
        made = [Stage(one.copy, whole_loops(one.copy), prepares=True) for one in operands]
        total = with_rows(node, operands)
        made.append(Stage(total, whole_loops(total)))
        at = state.index[self.stage]
        return replace(state, stages=(*state.stages[:at], *made, *state.stages[at + 1 :]))

    def __str__(self) -> str:
        return f"{self.stage}.pad_rows()"


def _pair(state: State, name: str, reader: str, step: object) -> tuple[Compute, Compute]:
    """Return the nodes of two untouched stages, of which the second alone reads the first."""
    nodes = []
    for each in (name, reader):
        stage, node = compute_of(state, each, step)
        untouched(state, stage, step)
        nodes.append(node)
    readers = {
        other.name
        for other in state.stages
        if isinstance(other.node, Compute) and any(read.tensor == name for read in other.node.reads)
    }
    if name in state.dag.outputs or readers != {reader}:
        raise StepError(f"{step}: {name!r} is read elsewhere too")
    source, sink = nodes
    return source, sink


def _put(state: State, nodes: dict[str, tuple[Compute, ...]], step: object) -> State:
    """Return the state with other nodes in the place of some stages."""
    stages: list[Stage] = []
    for stage in state.stages:
        if stage.name not in nodes:
            stages.append(stage)
            continue
        for node in nodes[stage.name]:
            if node.name != stage.name:
                free_name(state, node.name, step)
            stages.append(Stage(node, whole_loops(node)))
    return replace(state, stages=tuple(stages))
