"""The baseline of a task before its first trial: the untuned kernel and NumPy, timed in turns.

Source: docs/adr/0058-first-answers.md.
"""

from contextlib import suppress

from ansorpy.errors import LoweringError
from ansorpy.events import BaselineTimed
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.paired_benchmark import NUMPY
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.tuner.race.cpu_form import patience
from ansorpy.tuner.race.ranking import NAIVE
from ansorpy.tuner.tasks.task import Task


def measured(task: Task, pool: RacePool, best_s: float | None) -> BaselineTimed | None:
    """Check and time the untuned kernel, and time NumPy; return None if neither finished.

    The untuned kernel is built as candidates are: its delivered form compiles for a second. One
    process is enough, because the final race measures both again in several.

    Args:
        best_s: time of a tuned kernel in seconds, which bounds the time of the untuned kernel.
    """
    plan = naive(task.dag, task.target)
    programs = {}
    with suppress(LoweringError):
        programs[NAIVE] = bind(plan, plan.smallest_row, task.target)
    times = pool.race(programs, first_case_s=patience(best_s), late=lambda: True)
    rival = times.get(NUMPY)
    note = rival.message if isinstance(rival, Failed) else ""
    found = BaselineTimed(task.name, _least_s(times.get(NAIVE)), _least_s(rival), note)
    return None if found.baseline_s is None else found


def _least_s(times: PairedTimes | Failed | None) -> float | None:
    """Return the fastest sample of a contestant in seconds, None if it did not finish."""
    return min(times.per_process_s) if isinstance(times, PairedTimes) else None
