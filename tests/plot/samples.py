"""A task with trials of known times, as pictures take it."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from ansorpy.events import TaskResult
from ansorpy.frontends.json.write import dumps
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.plan.choices import plans
from ansorpy.plot.subject import Subject
from ansorpy.records import Race, RacedOwn, Record
from ansorpy.replay import plan_text
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.analysis import workload_key
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.verdict import verdict_of_race

(DAG,) = parse("def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
TARGET = Target(vector_bits=256, registers=16)
PLANS = [p for s in derive(DAG, TARGET, find_rules("cpu")).sketches for p in plans(s, TARGET)]
PLAN = max(PLANS, key=lambda plan: len(plan.sizes))
PEER = "ONNX Runtime 1.32.0"
RACE = Race(
    "tuned", "tuned", (1e-6, 1.1e-6), (50e-6,), (3e-6,), (-1.0, 1.0), (1e-3,), 4, 40, 9.0, "00",
    flop=2 * 16 * 24 * 32, peak_flop_per_s=1e11, peers=(RacedOwn(PEER, (2e-6,)),),
)  # fmt: skip
RESULT = TaskResult(
    name="mm", key="k", best_s=1e-6, baseline_s=3e-6, trials=40, seconds=9.0, verified=True,
    winner="tuned", kernel=Path("kernels/mm-1.zip"), naive_s=50e-6, numpy_s=3e-6,
    peers=RACE.peers, verdict=verdict_of_race(RACE, 1),
)  # fmt: skip


def record(outcome: Outcome, row: tuple[int, ...], race: Race | None = None) -> Record:
    return Record(
        "k", workload_key(DAG), "cpu@1", plan_text(PLAN), row, outcome, dag=dumps(DAG), race=race
    )


def subject(trials: int = 40, failed: int = 3) -> Subject:
    """A task whose first size decides the time, without the trials of its last sizes."""
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 9, (trials, len(PLAN.sizes)))
    records = [
        record(Measured((1e-6 * (1.0 + float(row[0])),)), tuple(map(int, row))) for row in rows
    ]
    records[1:1] = [record(Failed("wrong", "C[0] is 1, not 2"), (n,)) for n in range(failed)]
    records.append(record(Measured(RACE.tuned_s), (), RACE))
    return Subject(RESULT, tuple(records), TARGET)


def without_times(task: Subject) -> Subject:
    """The same task if every trial failed and there was no race."""
    failed = tuple(replace(one, outcome=Failed("wrong", "")) for one in task.trials)
    return replace(
        task, records=failed, result=replace(task.result, best_s=None, verdict=None, peers=())
    )
