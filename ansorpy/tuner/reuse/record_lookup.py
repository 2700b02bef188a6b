"""Look-up of records of earlier tunings of a task: an answer, or a warm start."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from ansorpy.events import TaskResult
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.records import Record
from ansorpy.replay import UNFIT, check_row, plan_from_text
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.networks import Networks, named, totals
from ansorpy.tuner.options.tune_options import TuneOptions, later_options
from ansorpy.tuner.race.contestant import Code, contestant
from ansorpy.tuner.race.form import DeliveredForm
from ansorpy.tuner.race.race import deliver
from ansorpy.tuner.race.results import result_of
from ansorpy.tuner.requests.own_kernels import OwnByTask
from ansorpy.tuner.tasks.history import failures_of
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import is_current, is_trusted


def request_digest(
    tasks: Sequence[Task],
    options: TuneOptions,
    networks: Networks,
    own: OwnByTask = MappingProxyType({}),
) -> str:
    """Return the digest of a request: equal requests may have the same answer.

    Options of release 0.1 are written as they were then; a later option is written if it differs
    from its default.

    Args:
        networks: of the tasks that are tuned; equal Dags are one task.
        own: kernels of the user's own in the final race.
    """
    weights = totals(networks)
    asked: dict[str, object] = {
        "tasks": [(task.key, task.identity.rules, weights[task.name]) for task in tasks],
        "trials": options.trials,
        "seconds": options.seconds,
        "seed": options.seed,
    }
    goal = [options.target_latency_s, options.stop_if_gain_below]
    if any(part is not None for part in goal):
        asked["goal"] = goal
    if named(networks):
        asked["networks"] = {
            name: [row[task.name] for task in tasks] for name, row in networks.items()
        }
    asked |= later_options(options)
    if own:
        asked["own"] = {name: [one.digest for one in ones] for name, ones in own.items()}
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def recorded(dag: Dag, records: Sequence[Record]) -> dict[tuple[str, tuple[int, ...]], Outcome]:
    """Return the first outcome of each candidate of a Dag, by (plan as text, row), that is trusted.

    The first stays the first when a later tuning appends the same candidate again.
    """
    found: dict[tuple[str, tuple[int, ...]], Outcome] = {}
    for record in records:
        if record.race is None and is_trusted(record, dag):
            found.setdefault((record.plan, record.row), record.outcome)
    return found


def answer(
    task: Task, form: DeliveredForm[Code], records: Sequence[Record], request: str, trials: float,
    folder: Path,
) -> TaskResult | None:  # fmt: skip
    """Return the finished result of an earlier tuning, None if there is none good enough.

    Good enough: a race that this installation measured with the code generator it has, under the
    same rules, for the same request or with at least as many trials behind it. Its kernel is made
    again, and must be the very text that was raced.
    """
    for record in reversed(records):
        outcome = record.race
        same = record.rules == task.identity.rules
        if outcome is None or not same or not is_trusted(record, task.dag):
            continue
        if outcome.request != request and outcome.trials < trials:
            continue
        path = deliver_again(task, form, record, folder)
        if path is not None:
            task.history.note(failures_of(records))
            return result_of(task, record, path, from_store=True)
    return None


def deliver_again(
    task: Task, form: DeliveredForm[Code], record: Record, folder: Path
) -> Path | None:
    """Write the zip of a stored race, None if today's code generator makes another kernel."""
    race = record.race
    if race is None or not is_current(record, task.dag):
        return None
    try:
        plan = plan_from_text(task.dag, task.target, record.plan)
        check_row(plan, record.row)
        entry = contestant(task, plan, record.plan, record.row, form.emit)
        # Results of another reformulation would be rounded another way.
        if isinstance(entry, Failed) or entry.reformulated != race.reformulated:
            return None
        raced = form.again(task, entry, record)
    except UNFIT:
        return None
    return None if raced is None else deliver(task, form, raced, folder)
