"""Hostile record files are imported, and tasks that they name are tuned afterwards.

    python -m tests.attack.records --count 1000 --seed 0

A file depends on its seed only. The result counts tracebacks, answers from the store, and later
harmed tunings: a tuning that raises, uses a time or a failure of the file, or spends more
than a quarter of its trials on it. For every file the first steps of a tuning are checked; for one
file in `--every` the command `records import` and a whole tuning on formulas; at the end one
tuning with real kernels, of all files together.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from typer.testing import CliRunner

from ansorpy.artifact import load
from ansorpy.cost.random import RandomModel
from ansorpy.errors import RecordError
from ansorpy.events import Event, Finished, RoundDone, Seeded
from ansorpy.measure.host import local_target
from ansorpy.records import JsonlStore, MemoryStore, Record, decode, encode, import_jsonl, lines_of
from ansorpy.records import task_key as key_of
from ansorpy.server.cli import app
from ansorpy.state.steps import reformulations
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.reuse import record_lookup, warm
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run
from tests.attack.forge import CONV, TARGET, TASKS, TRIALS, Attack, attack
from tests.fakes import fake_pools

FASTEST_S: Final = 1e-3  # scale of tests.fakes.cost_s
MOST: Final = TRIALS // 4  # largest number of measured programs of a file


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one file; `harm` is "" if the file did none."""

    seed: int
    kind: str
    accepted: bool
    harm: str = ""


@cache
def explored(name: str) -> Task:
    """Return a task with its search space, cached and never changed."""
    (dag,) = (dag for dag in TASKS if dag.name == name)
    rules = find_rules("cpu")
    task = Task.of(dag, TARGET, rules_name("cpu", rules))
    task.space.explore(rules)
    return task


def fresh(dag: Dag) -> Task:
    """Return a task in its state before the first round."""
    task = explored(dag.name)
    plans, texts = list(task.space.plans), list(task.space.texts)
    return Task(task.identity, replace(task.space, plans=plans, texts=texts))


def taken(content: bytes) -> tuple[Record, ...]:
    """Return the records of a file; check that each survives another export and import.

    Raises:
        RecordError: the file is refused.
    """
    text = content.decode(errors="surrogateescape")
    records = tuple(import_jsonl(lines_of(StringIO(text, newline="\n")), "file"))
    for record in records:
        assert decode(line_of(record)) == record
    return records


def line_of(record: Record) -> str:
    """Return the exported line of a record."""
    store = MemoryStore()
    store.append([record])
    (found,) = store.export()
    assert isfinite(found.best_s or 0.0)
    return encode(found)


def check(one: Attack, whole: bool) -> Finding:
    """Import a hostile file, and check a later tuning.

    Args:
        whole: use the command and a whole tuning, too.
    """
    try:
        records = taken(one.content)
    except RecordError:
        records = ()
    accepted = bool(records)
    with TemporaryDirectory() as folder:
        harm = _harm_at_start(one.dag, records, Path(folder))
        if whole and not harm:
            harm = _harm_of_import(one.content, Path(folder)) or _harm_of_tuning(
                one.dag, records, Path(folder)
            )
    return Finding(one.seed, one.kind, accepted, harm)


def _harm_at_start(dag: Dag, records: Sequence[Record], folder: Path) -> str:
    """Return the harm to the first steps of a tuning: an answer, times, too many programs."""
    task = fresh(dag)
    store = MemoryStore()
    store.append(records)
    known = store.all(task.key)
    if record_lookup.answer(task, CpuForm(), known, "request", 1, folder) is not None:
        return "answered from the store"
    task.load_records(known)
    warm.seed(task, known, TRIALS)
    if task.history.known or task.history.costs_s or task.history.failures:
        return "took times or failures from the file"
    if len(task.queue.held) > MOST:
        return f"{len(task.queue.held)} programs of the file would be measured"
    for candidate in task.queue.held:
        if reformulations(task.space.plans[candidate.plan].state):
            return "a program rounds in another way than was asked for"
        task.space.unbound(candidate)
        if not np.isfinite(task.space.features(candidate.plan, [candidate])).all():
            return "a program has features that are not finite"
    return ""


def _harm_of_import(content: bytes, folder: Path) -> str:
    """Return the harm to `ansorpy records import` and to a JSONL store."""
    file = folder / "records.jsonl"
    file.write_bytes(content)
    url = f"sqlite:///{folder}/a.db"
    found = CliRunner().invoke(
        app, ("records", "import", str(file)), env={"ANSORPY_DATABASE_URL": url}
    )
    sentences = found.stderr.splitlines()
    if found.exit_code not in (0, 2) or len(sentences) != 1:
        return f"the command ended with {found.exit_code}: {found.exception!r}"
    with suppress(RecordError):
        JsonlStore(file)
    return ""


def _harm_of_tuning(dag: Dag, records: Sequence[Record], folder: Path) -> str:
    """Return the harm to a whole tuning on formulas."""
    store = MemoryStore()
    store.append(records)
    request = Request((dag,), TARGET, trials=TRIALS)
    model = RandomModel(np.random.default_rng(0))
    events = list(run(request, find_rules("cpu"), store, folder, model, fake_pools()))
    return _told_wrong(events, FASTEST_S)


def _told_wrong(events: Sequence[Event], fastest_s: float) -> str:
    end = events[-1]
    assert isinstance(end, Finished)
    (result,) = end.results
    if result.from_store or not result.verified or result.trials != TRIALS:
        return f"from store {result.from_store}, verified {result.verified}, {result.trials} trials"
    if any(e.programs > MOST for e in events if isinstance(e, Seeded)):
        return "too many programs of the file were measured"
    bests = [e.best_s for e in events if isinstance(e, RoundDone) and e.best_s is not None]
    if not bests or min(bests) < fastest_s:
        return "a time of the file was told as the best"
    return ""


def harm_with_real_kernels(attacks: Sequence[Attack]) -> str:
    """Return the harm of all files together to a tuning with real kernels, or ""."""
    target = local_target(1)
    key = key_of(workload_key(CONV), target)
    store = MemoryStore()
    for one in attacks:
        try:
            store.append([replace(record, key=key) for record in taken(one.content)])
        except RecordError:
            continue
    with TemporaryDirectory() as folder:
        request = Request((CONV,), target, trials=TRIALS)
        events = list(run(request, find_rules("cpu"), store, Path(folder)))
        wrong = _told_wrong(events, 1e-8)
        end = events[-1]
        assert isinstance(end, Finished)
        kernel = end.results[0].kernel
        if wrong or kernel is None:
            return wrong or "no kernel"
        failed = load(kernel).selftest()
        return f"the kernel fails its test: {failed}" if failed else ""


def main() -> int:
    """Attack with many files; 0 if none did harm."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0, help="of the first file")
    options.add_argument("--every", type=int, default=20, help="a whole tuning for one in so many")
    options.add_argument("--real", action="store_true", help="real kernels at the end, too")
    given = options.parse_args()
    attacks = [attack(seed) for seed in range(given.seed, given.seed + given.count)]
    findings = []
    for number, one in enumerate(attacks):
        findings.append(_found(one, number % given.every == 0))
        sys.stderr.write(f"\r{number + 1} of {given.count} ")
    harmed = [finding for finding in findings if finding.harm]
    if given.real and (harm := harm_with_real_kernels(attacks)):
        harmed.append(Finding(-1, "all together", True, harm))
    for finding in harmed:
        sys.stdout.write(f"seed {finding.seed} ({finding.kind}): {finding.harm}\n")
    kinds = Counter(finding.kind for finding in findings)
    accepted = sum(finding.accepted for finding in findings)
    raised = sum(finding.harm.startswith("Traceback") for finding in harmed)
    sys.stdout.write(
        f"{given.count} files ({dict(kinds)}), {accepted} with records that are taken in:"
        f" {raised} tracebacks, {len(harmed) - raised} answers or tunings harmed\n"
    )
    return 1 if harmed else 0


def _found(one: Attack, whole: bool) -> Finding:
    try:
        return check(one, whole)
    except Exception as error:  # noqa: BLE001 - any surprise is a finding with its seed
        return Finding(one.seed, one.kind, True, f"Traceback: {type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main())
