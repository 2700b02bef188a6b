"""The conditions that every state satisfies after any steps."""

from itertools import groupby

from ansorpy.state.query import StateFacts
from ansorpy.state.state import Attached, Inlined, Stage, State
from ansorpy.te.dag import Compute


def check_state(state: State) -> None:
    names = [stage.name for stage in state.stages]
    assert len(set(names)) == len(names)
    assert set(state.dag.outputs) <= set(names)
    for i, node in enumerate(StateFacts(state).dag.nodes):
        if isinstance(node, Compute):
            assert {read.tensor for read in node.reads} <= set(names[:i]), node.name
    for stage in state.stages:
        check_location(state, stage)
        check_loops(stage, names)


def check_location(state: State, stage: Stage) -> None:
    where = stage.location
    if isinstance(where, Attached):
        host = state.stage(where.stage)
        assert state.index[host.name] > state.index[stage.name]
        assert where.loop in {loop.name for loop in host.loops}
        assert not isinstance(host.location, Inlined)
        assert stage.name not in state.dag.outputs


def check_loops(stage: Stage, names: list[str]) -> None:
    """Whole loops have an extent; parts are numbered from 0, and all but 0 have a length."""
    loops = [loop.name for loop in stage.loops]
    assert len(set(loops)) == len(loops)
    parts = [loop for loop in stage.loops if loop.extent is None]
    assert all(loop.length is None for loop in stage.loops if loop.extent is not None)
    for loop in parts:
        assert (loop.length is None) is loop.name.endswith(".0")
        for size in loop.length or ():
            assert any(size.startswith(f"{name}.") for name in names)
    if stage.role is not None:
        return  # each of the two stages of an rfactor has only some of the parts
    by_axis = sorted(loop.name.rsplit(".", 1) for loop in parts)
    for _, group in groupby(by_axis, key=lambda part: part[0]):
        numbers = [int(number) for _, number in group]
        assert numbers == list(range(len(numbers)))
    covered = [axis for loop in stage.loops for axis in loop.axes]
    node = stage.node
    if isinstance(node, Compute):
        assert set(covered) == {axis.name for axis in (*node.axes, *node.reduce_axes)}
