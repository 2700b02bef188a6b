"""The choice among candidates of a model's tasks, timed with hot and with cold weights.

    python -m benchmarks.models.cold_ranking model.onnx [--task NAME ...] [--trials 64]

Searches each task with hot weights, then times the leaders in turns: once with hot weights, twice
with cold ones. `hot` and `cold` are the choices of the first timings of each kind, both judged by
the second cold timing, as ratios to its least time; `correlation` compares the ranks of the hot
and the first cold timing, `repeat` of both cold ones, the most that `correlation` can reach.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.graph.graph import Array
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.importers.model_file import read_model
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Measured
from ansorpy.measure.timing.cold_weights import cold_bytes, has_cold_weights
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.unbound import Unbound, unbound
from ansorpy.model.tasks import tasks_of
from ansorpy.records import MemoryStore
from ansorpy.replay import plan_from_text
from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.te.analysis import weight_bytes
from ansorpy.te.dag import Dag
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from benchmarks.common import RESULTS, Results, Row, publish
from benchmarks.machine import run_facts

RESULT: Final = RESULTS / "cold_ranking.json"
LEADERS: Final = 24  # candidates that are timed again
SECONDS: Final = 8.0  # seconds of each timing of the leaders
KINDS: Final = ("hot", "cold", "cold")


def leaders(dag: Dag, target: Target, trials: int) -> list[Unbound]:
    """Search a task with hot weights; return its best candidates, the fastest first."""
    store = MemoryStore()
    request = Request((dag,), target, trials=trials, fresh=True, first_answer=False, libraries=True)
    for _ in run(request, CPU, store):
        pass
    timed = [
        (record.outcome.cost_s, number, record)
        for number, record in enumerate(store.export())
        if isinstance(record.outcome, Measured) and record.race is None
    ]
    ranked = [record for _, _, record in sorted(timed)[:LEADERS]]
    return [unbound(plan_from_text(dag, target, one.plan), one.row) for one in ranked]


def timings(dag: Dag, target: Target, cold: int, candidates: Sequence[Unbound]) -> Array:
    """Return seconds per kind and candidate; infinite for a beaten candidate without a time."""
    rows = []
    for kind in KINDS:
        settings = MeasureSettings()
        sampling = replace(settings.sampling, cold_bytes=cold if kind == "cold" else 0)
        with LocalPool(dag, target, replace(settings, sampling=sampling)) as pool:
            times = pool.rerank(candidates, SECONDS, None)
        rows.append([np.inf if one is None else one.cost_s for one in times])
    return np.array(rows)


def rank_correlation(left: Array, right: Array) -> float:
    """Return Spearman's coefficient."""
    first, second = (np.argsort(np.argsort(times)).astype(np.float64) for times in (left, right))
    return float(np.corrcoef(first, second)[0, 1])


def row_of(name: str, times: Array, weights: int) -> Row:
    """Return the row of a task."""
    hot, cold, judge = times[:, np.isfinite(times).all(axis=0)]
    least = judge.min()
    return {
        "task": name,
        "weights_bytes": weights,
        "candidates": len(judge),
        "hot_s": float(hot.min()),
        "cold_s": float(cold.min()),
        "hot": float(judge[hot.argmin()] / least),
        "cold": float(judge[cold.argmin()] / least),
        "correlation": rank_correlation(hot, cold),
        "repeat": rank_correlation(cold, judge),
    }


def page_of(rows: Sequence[Row]) -> str:
    """Return the Markdown page of the results."""
    heads = ("bundle", "task", "weights", "hot", "cold", *(f"choice {k}" for k in KINDS[:2]))
    lines = [
        f"| {row['bundle']} | {row['task']} | {row['weights_bytes'] / 2**20:.1f} MiB"
        f" | {row['hot_s'] * 1e6:.0f} us | {row['cold_s'] * 1e6:.0f} us"
        f" | {row['hot']:.3f} | {row['cold']:.3f}"
        f" | {row['correlation']:.2f} | {row['repeat']:.2f} |"
        for row in rows
    ]
    return "\n".join(
        [
            "# Choices by hot and by cold weights",
            "",
            "By `benchmarks.models.cold_ranking`, which explains the columns.",
            "",
            "| " + " | ".join([*heads, "correlation", "repeat"]) + " |",
            "|" + "---|" * (len(heads) + 2),
            *lines,
            "",
        ]
    )


def main(words: Sequence[str] | None = None) -> None:
    """Measure tasks of a model and write the results."""
    parser = argparse.ArgumentParser(description="Compare choices by hot and by cold timings.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(words)
    target = local_target(1)
    tasks = tasks_of(partition(simplify(read_model(options.model)).graph))
    cold = cold_bytes(tasks.weights_bytes, target)
    if not cold:
        raise SystemExit(f"cannot compare: the weights of {options.model.name} fit the caches")
    results = Results(
        options.out, ("bundle", "task"), run_facts(1, 0, trials=options.trials), fresh=False
    )
    for dag in tasks.dags:
        weights = sum(weight_bytes(dag).values())
        if (options.task and dag.name not in options.task) or not has_cold_weights(dag):
            continue
        found = leaders(dag, target, options.trials)
        row = row_of(dag.name, timings(dag, target, cold, found), weights)
        results.add({"bundle": options.model.stem, **row})
        print(row, flush=True)
    publish(options.out, page_of(results.rows))


if __name__ == "__main__":
    main()
