"""A task with a part for each range of its sizes, as the set-up of a tuning makes it."""

from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.te.dims import in_range, ranges_of
from ansorpy.tuner.tasks.identity import Identity
from ansorpy.tuner.tasks.ranges import JoinedSpace
from ansorpy.tuner.tasks.search_space import SearchSpace
from ansorpy.tuner.tasks.task import Task


def with_parts(text: str, most: int = 4) -> Task:
    """Return the task of a text, without trials; with one range it has no parts."""
    (dag,), target = parse(text), local_target(1)
    ranges = ranges_of(dag, most)
    parts = tuple(Task.of(in_range(dag, sizes), target, "cpu") for sizes in ranges)
    joined = JoinedSpace.of("cpu", ranges, tuple(part.space for part in parts)) if parts else None
    return Task(Identity(dag, target, "cpu"), SearchSpace(dag, target, joined), parts=parts)
