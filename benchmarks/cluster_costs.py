"""Seconds of the parts of a tuning on a cluster, measured on this machine, as samples.

`benchmarks.cluster_simulation measure` stores them. Each function yields rows: name of the part,
`size` on which it depends (0 if on none), and samples in seconds.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from ansorpy.cluster.crew import Crew
from ansorpy.cluster.messages import SlotAnswer, SlotFacts, answered, own_versions, question
from ansorpy.cluster.processes import MAIN, ProcessSlots
from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import Sample
from ansorpy.cost.roofline import RooflineModel
from ansorpy.events import RoundDone
from ansorpy.features import extract
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Measured
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.unbound import unbound
from ansorpy.measure.values import encode
from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.records import MEASURED, MemoryStore, Record, target_digest
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.server.db.engine import connect, transaction
from ansorpy.server.db.records import SqlStore
from ansorpy.server.db.upgrade import upgrade
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.submission import Submission
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.search_state import StopCriteria
from ansorpy.tuner.tasks.checkpoint import Checkpoint
from ansorpy.tuner.tasks.history import History
from ansorpy.tuner.tune import run
from benchmarks.common import Row
from benchmarks.queue import MM, database
from benchmarks.workloads import FIVE

WORKLOADS: Final = ("matmul", "conv2d")
ROUND: Final = 64
BATCHES: Final = (1, 4, 16)
KNOWN: Final = (512, 2048, 8192, 32768)  # candidates that the cost model learns from
HISTORY: Final = (1000, 10_000, 100_000)  # candidates of a task that were measured
ROUNDS: Final = (100, 1000, 10_000)  # rounds before a checkpoint
SLOTS: Final = (1, 10, 100, 1000)
TASKS: Final = 100
REPEATS: Final = 20

Rows = Iterator[Row]

LIMIT_S: Final = 600.0  # limit of a question


def row(name: str, size: int, samples_s: Sequence[float], **facts: object) -> Row:
    """Return a row: samples in seconds and their quantiles."""
    found = sorted(float(f"{one:.4g}") for one in samples_s)
    at = {f"p{q}_s": float(np.quantile(found, q / 100)) for q in (10, 50, 90, 99)}
    mean_s = sum(found) / len(found)
    return {"name": name, "size": size, "mean_s": mean_s, **at, **facts, "samples_s": found}


def times_of(call: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the seconds of calls; the first one is not timed."""
    call()
    found = []
    for _ in range(repeats):
        begin_s = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin_s)
    return found


def tuned(name: str, trials: int) -> tuple[list[RoundDone], list[Record]]:
    """Return the rounds and the records of a tuning on this machine."""
    store = MemoryStore()
    asked = Request(
        (FIVE[name](),), local_target(1), trials=trials, fresh=True, first_answer=False, race=False
    )
    with TemporaryDirectory() as out:
        events = list(run(asked, store=store, out=Path(out)))
    rounds = [one for one in events if isinstance(one, RoundDone)]
    return rounds, [one for one in store.export() if one.race is None]


def of_tunings(trials: int) -> tuple[list[Row], list[Record]]:
    """Return the rows of builds, trials and proposals of real tunings, and their records."""
    rows, every = list[Row](), list[Record]()
    for name in WORKLOADS:
        rounds, records = tuned(name, trials)
        done = [one.outcome for one in records if isinstance(one.outcome, Measured)]
        timed_s = [one.load_s + one.check_s + one.run_s for one in done]
        rows.append(row("build", 0, [one.build_s for one in done if one.build_s], workload=name))
        rows.append(row("trial", 0, timed_s, workload=name))
        # The first rounds are shorter, or open the rest of the search space.
        proposed_s = [one.spent.propose_s for one in rounds[3:]]
        rows.append(row("propose", ROUND, proposed_s, workload=name))
        every += records
    return rows, every


def space(dag: Dag, target: Target, count: int) -> list[tuple[Plan, np.ndarray]]:
    """Return plans of a Dag with random rows of each, `count` in all."""
    plans = all_plans(derive(dag, target, CPU).sketches, target)[:24]
    rng = np.random.default_rng(0)
    each = -(-count // len(plans))
    found = ((plan, sample(plan, each, rng)) for plan in plans)
    return [(plan, rows) for plan, rows in found if len(rows)]


def of_training() -> Rows:
    """Yield the seconds of one training of the cost model by the number of candidates."""
    target = local_target(1)
    pools = [[extract(p, r, target) for p, r in space(FIVE[n](), target, 2000)] for n in WORKLOADS]
    for count in KNOWN:
        rng, samples = np.random.default_rng(1), []
        for k in range(TASKS):
            features = pools[k % len(pools)]
            each = max(1, count // TASKS // len(features))
            for batch in features[: count // TASKS]:
                picked = batch[rng.integers(len(batch), size=each)]
                noise = rng.normal(1.0, 0.05, picked.shape).astype(np.float32)
                costs_s = 1e-3 * np.exp(rng.normal(0.0, 0.7, each))
                samples.append(Sample(f"task {k}", picked * noise, costs_s))
        stores = sum(one.batch.shape[0] * one.batch.shape[1] for one in samples)
        known = sum(len(one.costs_s) for one in samples)

        def train(samples: Sequence[Sample] = samples) -> None:
            GbmModel(RooflineModel(target)).update(samples)

        yield row("train", known, times_of(train, 3 if count > 4000 else 5), stores=stores)


def of_history() -> Rows:
    """Yield the seconds that a round takes of the measured candidates of its task."""
    for count in HISTORY:
        history, rng = History(), np.random.default_rng(0)
        for k in range(count):
            history.costs_s[Candidate(k % 20, (k, 4, 8, 16, 32))] = float(rng.random())
        history.times_s = dict(history.costs_s)

        def read(history: History = history) -> None:
            _ = {*history.costs_s}, history.ranked()
            _ = history.best_s, history.trial_s, history.least_cost_s, history.trial_s

        yield row("history", count, times_of(read, 5))


def candidates(names: Sequence[str], count: int) -> list[tuple[Plan, tuple[int, ...]]]:
    """Return plans and rows of different candidates, the plans in turns."""
    found = []
    for name in names:
        pairs = space(FIVE[name](), local_target(1), count)
        most = max(len(rows) for _, rows in pairs)
        found += [
            (plan, tuple(map(int, rows[k]))) for k in range(most) for plan, rows in pairs
            if k < len(rows)
        ]  # fmt: skip
    return found


def of_messages() -> Rows:
    """Yield the seconds of questions and answers by the candidates of a batch, and their bytes."""
    picked = candidates(WORKLOADS, 200)
    outcome = Measured(tuple(1e-3 + 1e-6 * k for k in range(10)), 0.03, 0.005, 0.01)
    for count in BATCHES:
        frame = encode(SlotAnswer([outcome] * count))
        places = iter(range(0, 1 << 30, count))
        ask = partial(_question, picked, count, places)
        yield row("encode", count, times_of(ask), bytes=max(len(ask()) for _ in range(9)))
        yield row("decode", count, times_of(partial(answered, frame)), bytes=len(frame))


def _question(
    picked: Sequence[tuple[Plan, tuple[int, ...]]], count: int, places: Iterator[int]
) -> bytes:
    begin = next(places) % (len(picked) - count)
    chosen = [unbound(*one) for one in picked[begin : begin + count]]
    return encode(question("measure", 1, chosen, 1e-3))


def of_crew() -> Rows:
    """Yield the seconds of a look at the slots by their number, and without reasons."""
    target = local_target(1)
    for count in SLOTS:
        fact = SlotFacts(target_digest(target), "host", (0,), target, own_versions())
        slots: Any = Present({f"1:{k}": fact for k in range(count)})
        crew = Crew(slots, target)
        yield row("look", count, times_of(crew.usable, 5))
        yield row("look, reasons kept", count, times_of(Kept(slots, target).usable, 5))


class Kept(Crew):
    """Slots whose reasons are known."""

    def _reason(self, slot: SlotFacts) -> str:
        return ""


class Present:
    """Slots that are there; none is asked."""

    def __init__(self, facts: Mapping[str, SlotFacts]) -> None:
        self._facts = facts

    def present(self) -> Mapping[str, SlotFacts]:
        """Return all slots."""
        return dict(self._facts)


def of_checkpoints() -> Rows:
    """Yield the seconds of a checkpoint as JSON by the rounds before it, and of its criteria."""
    for count in ROUNDS:
        history = [1e-3 / (1 + k) for k in range(count // TASKS)]
        task = {"trials": 1, "rounds": 1, "trials_since_gain": 1, "stopped": "", "grouped": False}
        names = [f"task{k}" for k in range(TASKS)]
        latencies = tuple((64 * k, 1e-3 / (1 + k)) for k in range(count))
        criteria = StopCriteria({}, None, 0.001)
        criteria.latencies = list(latencies)
        plan = "x" * 400
        checkpoint = Checkpoint(
            1.0, {"seconds": 1.0, "tasks": {n: {**task, "history_s": history} for n in names}},
            {}, {}, dict.fromkeys(names, 1.0), latencies,
            {n: [(plan, (1, 2, 3))] * 10 for n in names},
        )  # fmt: skip
        text = json.dumps(asdict(checkpoint))
        taken_s = times_of(partial(_stored, checkpoint, criteria), 5)
        yield row("checkpoint", count, taken_s, bytes=len(text))


def _stored(checkpoint: Checkpoint, criteria: StopCriteria) -> tuple[str, bool]:
    return json.dumps(asdict(checkpoint)), criteria.stale


def of_store(kind: str, records: Sequence[Record]) -> Rows:
    """Yield wall and processor seconds of batches of records in a database."""
    with database(kind) as url:
        engine = connect(url)
        upgrade(engine)
        with transaction(engine) as tx:
            tenant = queries.submit(tx, 1, Submission(MM), 0.0).job.tenant_id
        store, numbers = SqlStore(engine, tenant), iter(range(1 << 30))
        for count in (16, ROUND):
            wall_s, processor_s = [], []
            for _ in range(REPEATS * 2):
                new = [replace(one, created_s=1.8e9 + next(numbers)) for one in records[:count]]
                begin_s, before_s = time.perf_counter(), time.process_time()
                store.append(new, MEASURED)
                wall_s.append(time.perf_counter() - begin_s)
                processor_s.append(time.process_time() - before_s)
            yield row(f"store in {kind}", count, wall_s)
            yield row(f"store in {kind}, processor", count, processor_s)
        engine.dispose()


def of_slot() -> Rows:
    """Yield the seconds in which a slot opens a pool, its references and processes included."""
    target, dag = local_target(1), FIVE["matmul"]()
    picked = [unbound(*one) for one in candidates(["matmul"], 200)]
    opened_s = []
    with there(ProcessSlots([usable_cores()], MAIN), 1) as slots:
        (name,) = slots.present()
        for number in range(8):
            opening = question("open", number, dag, target, 0, MeasureSettings())
            slots.ask(name, opening, LIMIT_S).result()
            laps = []
            for turn in range(2):
                begin_s = time.perf_counter()
                asking = question("measure", number, picked[turn : turn + 1], None)
                answered(slots.ask(name, asking, LIMIT_S).result())
                laps.append(time.perf_counter() - begin_s)
            opened_s.append(max(0.0, laps[0] - laps[1]))
    yield row("open", 0, opened_s[1:])  # the first pool starts the processes of the slot


def of_sleepers(candidate_s: float) -> Rows:
    """Yield the seconds per candidate of slots at once that sleep in place of a trial."""
    target, dag = local_target(1), FIVE["matmul"]()
    picked = [unbound(*one) for one in candidates(["matmul"], 200)]
    os.environ["ANSORPY_TEST_SLOT"] = json.dumps({"sleep": candidate_s})
    for count in (1, 2, 4):
        core_sets = [usable_cores()] * count
        with there(ProcessSlots(core_sets, "tests.cluster.formula_slot"), count) as slots:
            names, taken_s = list(slots.present()), []
            for name in names:
                asking = question("open", 1, dag, target, 0, MeasureSettings())
                slots.ask(name, asking, LIMIT_S).result()
            for turn in range(4):
                asking = question("measure", 1, picked[turn * 16 :][:16], None)
                begin_s = time.perf_counter()
                for answer in [slots.ask(name, asking, LIMIT_S) for name in names]:
                    answered(answer.result())
                    taken_s.append((time.perf_counter() - begin_s) / 16)
        yield row("sleeping slot", count, taken_s)


@contextmanager
def there(slots: ProcessSlots, count: int) -> Iterator[ProcessSlots]:
    """Yield slots once all are there; end them after the block."""
    try:
        while len(slots.present()) < count:
            time.sleep(0.02)
        yield slots
    finally:
        slots.close()


def measured(trials: int, candidate_s: float) -> Rows:
    """Yield all rows."""
    rows, records = of_tunings(trials)
    yield from rows
    yield from of_sleepers(candidate_s)
    yield from of_slot()
    yield from of_messages()
    yield from of_crew()
    yield from of_history()
    yield from of_checkpoints()
    for kind in ("sqlite", "postgres"):
        yield from of_store(kind, records)
    yield from of_training()
