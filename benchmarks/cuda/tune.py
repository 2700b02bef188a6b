"""Section `tune`: a search by measured times: trials per second, and how long the card is idle."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import play
from benchmarks.cuda.bench import Bench

BUDGET_S: Final = 75.0  # seconds of each operator
ROUND: Final = 64  # trials of a round
EMULATED_ROUND: Final = 4  # trials of the only round under the emulated driver
PLANS: Final = 48
SEED: Final = 0


def run(bench: Bench) -> None:
    """Tune a matmul and a softmax."""
    if bench.emulated:
        dags = {"matmul 17": workloads.matmul(17, 33, 9)}
    else:
        dags = {
            "matmul 1024": workloads.matmul(1024, 1024, 1024),
            "softmax 64 MB": workloads.softmax(16384, 1024),
        }
    for name, dag in dags.items():
        bench.add(name, _tuned(bench, dag))


def _tuned(bench: Bench, dag: Dag) -> Mapping[str, Any]:
    task = Task.of(dag, bench.target, "cuda")
    task.space.explore(find_rules("cuda"), PLANS)
    model = default_model(bench.target, SEED)
    rng = np.random.default_rng(SEED)
    outcomes: list[Outcome] = []
    curve: list[float | None] = []
    settings = MeasureSettings(backend=bench.backend, builders=1 if bench.emulated else 0)
    with LocalPool(dag, bench.target, settings) as pool:
        start = time.monotonic()
        while True:
            count = EMULATED_ROUND if bench.emulated else ROUND
            done = play(task, count, model, pool, rng, time.monotonic)
            outcomes += done.outcomes
            curve.append(task.best_s)
            if bench.emulated or not done.chosen or time.monotonic() - start > BUDGET_S:
                break
        took_s = time.monotonic() - start
    good = [one for one in outcomes if isinstance(one, Measured)]
    failed = Counter(one.kind for one in outcomes if isinstance(one, Failed))
    told: dict[str, Any] = {
        "trials": len(outcomes),
        "measured": len(good),
        "failures": dict(failed),
        "examples": dict(task.history.examples),
    }
    if bench.emulated:
        return {**told, "times": "emulated"}
    busy_s = sum(one.check_s + one.run_s for one in good)
    return {
        **told,
        "best_s": task.best_s,
        "curve_s": curve,
        "trials_per_s": len(outcomes) / took_s,
        "idle_share": 1.0 - busy_s / took_s,
    }
