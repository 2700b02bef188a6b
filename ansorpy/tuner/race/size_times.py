"""Times of the delivered kernel at single sizes of its dims, beside NumPy's, for people.

The times of trials and races are means over sizes, which hide where a kernel is slow.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.records import Race, SizeTimes
from ansorpy.te.dims import dims_of, spread
from ansorpy.tuner.tasks.task import Task

PER_RANGE: Final = (5, 3, 2)  # sizes of each range; fewer if calls are long
CALLS: Final = 12  # calls of each contestant at a size, at least: samples, and untimed ones
MOST_S: Final = 4.0  # seconds that they may take together; else nothing is timed


def timed_by_size(task: Task, pool: RacePool, kernel: Kernel, race: Race) -> tuple[SizeTimes, ...]:
    """Return times of a raced kernel, and of NumPy if it has raced; () without dims or in failure.

    They are no trials, and decide nothing.
    """
    for sizes, numpy in _plans(task, bool(race.numpy_s)):
        call_s = race.best_s + (min(race.numpy_s) if numpy else 0.0)
        if sizes and CALLS * len(sizes) * call_s <= MOST_S:
            found = pool.time_sizes(kernel, sizes, numpy)
            if isinstance(found, Failed):
                return ()
            return tuple(map(SizeTimes, sizes, found))
    return ()


def _plans(task: Task, numpy: bool) -> Iterator[tuple[list[tuple[int, ...]], bool]]:
    """Yield sizes with whether NumPy takes part, the plan that tells most first."""
    for beside in dict.fromkeys((numpy, False)):
        for most in PER_RANGE:
            yield sizes_to_time(task, most), beside


def sizes_to_time(task: Task, most: int) -> list[tuple[int, ...]]:
    """Return the sizes of dims that represent each range, at most `most` of each, rising.

    Several dims grow together over their whole ranges.
    """
    dims = dims_of(task.dag)
    every = [[one] for one in task.ranges] if len(dims) == 1 else [list(dims)]
    listed = ([tuple(one.values()) for one in spread(of)] for of in every if of)
    return [size for of_range in listed for size in _few(of_range, most)]


def _few(sizes: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Return at most `most` of some sizes, evenly, the first and the last one among them."""
    last = len(sizes) - 1
    places = dict.fromkeys(round(k * last / (most - 1)) for k in range(most))
    return [sizes[place] for place in places]
