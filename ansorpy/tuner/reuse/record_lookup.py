"""Look-up of records of earlier tunings of a task: an answer, or a warm start."""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from ansorpy.codegen import shared_library
from ansorpy.codegen.exported_types import Library
from ansorpy.codegen.simd_file import simd_version
from ansorpy.codegen.version import EARLIER_COMPILERS
from ansorpy.errors import BuildError
from ansorpy.events import TaskResult
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.records import Race, Record
from ansorpy.replay import UNFIT, check_row, plan_from_text
from ansorpy.target import GpuTarget
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.networks import Networks, named, totals
from ansorpy.tuner.options.tune_options import TuneOptions, later_options
from ansorpy.tuner.race import device_race
from ansorpy.tuner.race.contestant import Contestant, contestant
from ansorpy.tuner.race.final_race import deliver, export_of, result_of
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
    task: Task, records: Sequence[Record], request: str, trials: float, folder: Path
) -> TaskResult | None:
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
        path = deliver_again(task, record, folder)
        if path is not None:
            task.history.note(failures_of(records))
            return result_of(task, record, path, from_store=True)
    return None


def deliver_again(task: Task, record: Record, folder: Path) -> Path | None:
    """Write the zip of a stored race, None if today's code generator makes another kernel."""
    current = is_current(record, task.dag)
    if isinstance(task.target, GpuTarget):
        return device_race.deliver_again(task, record, folder) if current else None
    entry = _again(task, record) if current else None
    if entry is None or record.race is None:
        return None
    if entry.reformulated != record.race.reformulated:  # results would be rounded another way
        return None
    native = _native_again(task, entry, record.race)
    return deliver(task, record, entry, native, folder)


def _again(task: Task, record: Record) -> Contestant | None:
    """Return the kernel of a record, None if it has none, or another one than was raced."""
    try:
        plan = plan_from_text(task.dag, task.target, record.plan)
        check_row(plan, record.row)
        entry = contestant(task, plan, record.plan, record.row)
    except UNFIT:
        return None
    if isinstance(entry, Failed):
        return None
    return entry if record.source_sha256 in raced_digests(entry.kernel.source) else None


def raced_digests(source: str) -> Iterator[str]:
    """Yield the sha256 of a kernel's text, hex, as it is and as earlier compilers headed it."""
    for compiler in (simd_version(), *EARLIER_COMPILERS):
        yield sha256(source.replace(simd_version(), compiler).encode()).hexdigest()


def _native_again(task: Task, entry: Contestant, race: Race) -> Library | str:
    """Return the library of a record where its code is the very code that was verified."""
    if not race.native_sha256:
        return race.native_note or "not exported: tuned by an older version"
    try:
        library = shared_library.build(export_of(task, entry), task.target)
    except BuildError as error:
        return f"not exported: {error}"
    same = library.object_sha256 == race.native_sha256
    return library if same else "not exported: other machine code than what was verified"
