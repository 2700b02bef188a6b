"""The candidates of a user in place of those that rules derive: one schedule."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np

from ansorpy.cost.model import ForTask
from ansorpy.loopir.printer import text
from ansorpy.replay import plan_text
from ansorpy.schedule.lowered import Scheduled, applied, scheduled
from ansorpy.schedule.schedule import read_schedule
from ansorpy.search import Candidate
from ansorpy.state.steps import reformulations
from ansorpy.te.dag import Dag
from ansorpy.tuner.modes import check_one_task
from ansorpy.tuner.options import TuneOptions
from ansorpy.tuner.request import Request
from ansorpy.tuner.task import Space, Task

MAX_LINES: Final = 200  # lines of a loop nest that are shown


@dataclass(frozen=True, slots=True)
class OneSchedule:
    """A space of one candidate: the schedule of mode manual."""

    name: str
    made: Scheduled
    loops: str
    single: bool = True

    def open(self, task: Task) -> None:
        """Add the plan of the schedule."""
        task.add_plan(self.made.plan, plan_text(self.made.plan))
        task.allowed = frozenset(reformulations(self.made.plan.state))

    def propose(
        self,
        task: Task,
        ranker: ForTask,
        taken: Collection[Candidate],
        count: int,
        rng: np.random.Generator,
    ) -> list[Candidate]:
        """Return the schedule unless it is measured."""
        one = Candidate(task.add_plan(self.made.plan, plan_text(self.made.plan)), self.made.row)
        return [] if one in {*task.costs_s, *taken} else [one]


def space_of(request: Request) -> Space | None:
    """Return the candidates that a request describes; None for mode auto.

    Raises:
        SpecError: a step or a size does not fit.
    """
    if request.mode == "auto":
        return None
    schedule = read_schedule(request.schedule)
    (dag,) = request.dags
    made = scheduled(schedule, dag, request.target, frozenset(request.allow))
    loops = shortened(text(made.program(request.target)))
    return OneSchedule(digest_name("manual", schedule.to_json()), made, loops)


def check_space(options: TuneOptions, dags: Sequence[Dag]) -> None:
    """Refuse a schedule whose steps do not fit, on any machine: its loops are not lowered.

    Raises:
        SpecError: names the step.
    """
    if options.mode != "auto":
        check_one_task(options, len(dags))
        applied(read_schedule(options.schedule), dags[0], frozenset(options.allow))


def digest_name(mode: str, document: dict[str, Any]) -> str:
    """Return the name that records have in place of a rule set: the mode and a digest."""
    told = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"{mode}@{sha256(told.encode()).hexdigest()[:12]}"


def shortened(loops: str) -> str:
    """Return the first lines of a loop nest, and the number of the others."""
    lines = loops.splitlines()
    more = len(lines) - MAX_LINES
    return loops if more <= 0 else "\n".join([*lines[:MAX_LINES], f"... {more} more lines"])
