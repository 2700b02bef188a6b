"""Conditions that several steps share; each raises StepError naming the step and the place."""

from ansorpy.errors import StepError
from ansorpy.state.axis import Loop
from ansorpy.state.state import Attached, Root, Stage, State, whole_loops
from ansorpy.te.dag import Compute


def compute_of(state: State, name: str, step: object) -> tuple[Stage, Compute]:
    """Return a stage and its node, which must compute something."""
    stage = state.stage(name)
    if not isinstance(stage.node, Compute):
        raise StepError(f"{step}: {name!r} is an input, it has no loops")
    return stage, stage.node


def loop_of(stage: Stage, name: str, step: object) -> Loop:
    """Return the loop called `name`."""
    for loop in stage.loops:
        if loop.name == name:
            return loop
    names = ", ".join(loop.name for loop in stage.loops)
    raise StepError(
        f"{step}: no loop {name!r} in stage {stage.name!r}; there are {names or 'none'}"
    )


def whole_loop_of(stage: Stage, name: str, step: object) -> Loop:
    """Return the loop called `name`, which must be undivided and without annotation."""
    loop = loop_of(stage, name, step)
    if loop.extent is None:
        raise StepError(f"{step}: loop {name!r} is already part of a split")
    if loop.annotation:
        raise StepError(f"{step}: loop {name!r} is already annotated {loop.annotation!r}")
    return loop


def no_guest(state: State, stage: str, loops: tuple[str, ...], step: object) -> None:
    """Refuse if a stage is attached to one of `loops`, which the step would replace."""
    for other in state.stages:
        where = other.location
        if isinstance(where, Attached) and where.stage == stage and where.loop in loops:
            raise StepError(f"{step}: {other.name!r} is computed at {stage}.{where.loop}")


def untouched(state: State, stage: Stage, step: object) -> None:
    """Refuse a stage that a step has already changed, or that another stage is attached to."""
    if stage.loops != whole_loops(stage.node) or stage.role is not None:
        raise StepError(f"{step}: the loops of {stage.name!r} are already changed")
    if stage.location != Root():
        raise StepError(f"{step}: {stage.name!r} is {stage.location}, not at root")
    no_guest(state, stage.name, tuple(loop.name for loop in stage.loops), step)


def free_name(state: State, name: str, step: object) -> None:
    """Refuse to insert a second stage called `name`."""
    if name in state.index:
        raise StepError(f"{step}: there already is a stage {name!r}")
