"""Choices of the analytic model without trials, by its rates of long and of short vectors.

    python -m benchmarks.models.first_choices FOLDER [--only MODEL ...] [--stride 4]

Every fourth task of the models of the folder is searched by each set of rates as a tuning without
trials does; all choices are timed in turns on one core. `first` is the time of the first choice of
a set over the time of the fastest choice of all, `of four` the same for the fastest among the best
choices of four plans, which a first bundle times.

    python -m benchmarks.models.first_choices FOLDER --fit

prints rates that fit the times of these choices and of random candidates.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import exp, inf, log
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.cost.model import Batch
from ansorpy.cost.roofline import LONG_VECTORS, SHORT_VECTORS, CycleRates, RooflineModel
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.importers.model_file import read_model
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.model.tasks import tasks_of
from ansorpy.population.sample import sample
from ansorpy.rules import CPU
from ansorpy.search import Candidate, best_of_plans
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.first_answer import PLANS, TIMED, choose
from ansorpy.tuner.tasks.task import Task
from benchmarks.common import Cell, Results, Row, arguments, chosen, publish, say, table
from benchmarks.descent import descended
from benchmarks.machine import run_facts
from benchmarks.models.verified import bound_values, files_of

RATES: Final[Mapping[str, CycleRates]] = {"long": LONG_VECTORS, "short": SHORT_VECTORS}
KEYS: Final = ("model", "task")
SECONDS: Final = 8.0  # seconds of timing of the choices of a task
RANDOM: Final = (4, 2)  # plans with random candidates for a fit, candidates of each
FIXED: Final = ("multiply_add", "task", "memory_cores")  # the unit; rates of several cores
FACTORS: Final = (0.5, 0.8, 0.92, 1.08, 1.25, 2.0)
LEAST_GAIN: Final = 1e-4  # least decrease of the loss in a pass over all rates
TRUST: Final = 0.003  # penalty of a squared logarithm of a rate over that before the fit
LEAD: Final = 1.5  # power of least time over time: the weight of a candidate

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Timed:
    """The candidates of a task that were timed in turns, in seconds, and all their features."""

    times_s: Mapping[Candidate, float]
    features: Mapping[Candidate, Batch]


def dags_of(name: str, file: Path, stride: int) -> Iterator[Dag]:
    """Yield every task of a model whose number `stride` divides."""
    graph = simplify(read_model(file, bound_values(name), hosted=True)).graph
    yield from tasks_of(partition(graph)).dags[::stride]


def choices(task: Task, rates: CycleRates) -> list[Candidate]:
    """Return the choices of a tuning without trials, the best first."""
    return choose(task, RooflineModel(task.target, rates), 0)


def random_candidates(task: Task, rng: np.random.Generator) -> Iterator[Candidate]:
    """Yield random candidates of some plans."""
    plans, rows = RANDOM
    for number in rng.permutation(len(task.space.plans))[:plans]:
        for row in sample(task.space.plans[number], rows, rng):
            yield Candidate(int(number), tuple(map(int, row)))


def timed(task: Task, candidates: Sequence[Candidate], seconds: float) -> Timed:
    """Return the times of candidates, taken in turns in one process."""
    every = list(dict.fromkeys(candidates))
    with LocalPool(task.dag, task.target, MeasureSettings()) as pool:
        answers = pool.rerank([task.space.unbound(one) for one in every], seconds)
    times_s = {one: told.cost_s for one, told in zip(every, answers, strict=True) if told}
    features = {one: task.space.features(one.plan, [one]) for one in times_s}
    return Timed(times_s, features)


def row_of(task: Task, seconds: float) -> Row:
    """Return the row of a task: ratios to the fastest choice of all sets of rates."""
    found = {name: best_of_plans(choices(task, rates), TIMED) for name, rates in RATES.items()}
    times_s = timed(task, [one for own in found.values() for one in own], seconds).times_s
    least_s = min(times_s.values())
    row: Row = {"task": task.name, "flop": task.identity.flop, "least_s": least_s}
    for name, own in found.items():
        first_s = next(times_s[one] for one in own if one in times_s)
        row[f"{name}_first"] = first_s / least_s
        row[f"{name}_four"] = min(times_s.get(one, inf) for one in own) / least_s
    return row


def errors(rates: CycleRates, samples: Sequence[Timed], target: Target) -> float:
    """Return the mean squared error of the logarithm of an estimate, leaders before others.

    Estimates of a task may all be off by the same factor.
    """
    batches = [one.features[key].reshape(-1, 1, one.features[key].shape[2])
               for one in samples for key in one.times_s]  # fmt: skip
    cycles = RooflineModel(target, rates).cycles(np.concatenate(batches))[:, 0]
    ends = np.cumsum([len(batch) for batch in batches])[:-1]
    sums = np.array([part.sum() for part in np.split(cycles, ends)])
    found, at = [], 0
    for one in samples:
        times_s = np.array(list(one.times_s.values()))
        apart = np.log(sums[at : at + len(times_s)]) - np.log(times_s)
        weights = (times_s.min() / times_s) ** LEAD
        found.append(np.average((apart - np.average(apart, weights=weights)) ** 2, weights=weights))
        at += len(times_s)
    return float(np.mean(found))


def fitted(samples: Sequence[Timed], target: Target, start: CycleRates) -> CycleRates:
    """Return rates with smaller errors, by coordinate descent with a penalty on the distance."""
    names = [one.name for one in fields(CycleRates) if one.name not in FIXED]
    begin = {name: float(getattr(start, name)) for name in names}

    def loss(rates: Mapping[str, float]) -> float:
        moved = sum(log(rates[name] / begin[name]) ** 2 for name in names)
        return errors(replace(start, **rates), samples, target) + TRUST * moved

    return replace(start, **descended(begin, loss, FACTORS, LEAST_GAIN))


def page_of(rows: Sequence[Row], runs: Sequence[Row | None]) -> str:
    """Return the Markdown page of the results."""

    def mean(key: str) -> float:
        return exp(sum(log(row[key]) for row in rows) / len(rows))

    def ratio(key: str) -> Cell:
        return lambda row: f"{row[key]:.2f}"

    columns: dict[str, Cell] = {
        "model": lambda row: row["model"],
        "task": lambda row: row["task"],
        "best, GFLOP/s": lambda row: f"{row['flop'] / row['least_s'] / 1e9:.1f}",
    }
    summary = [f"Geometric means of {len(rows)} tasks:"]
    for name in RATES:
        for key, head in (("first", "first"), ("four", "of four")):
            columns[f"{name} vectors, {head}"] = ratio(f"{name}_{key}")
            summary.append(f"{name} vectors, {head} {mean(f'{name}_{key}'):.3f};")
    made = [
        f"- {run['date'][:10]}, {run['machine']['model']} ({run['machine']['vector_bits']} bits),"
        f" commit {run['commit']}"
        for run in runs
        if run is not None
    ]
    return "\n\n".join(
        [
            "# Choices of the analytic model without trials",
            "\n".join(dict.fromkeys(made)),
            "By `benchmarks.models.first_choices`, which explains the columns.",
            " ".join(summary)[:-1] + ".",
            table(rows, columns),
        ]
    )


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command."""
    parser = arguments(__doc__, "first_choices")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stride", type=int, default=4, help="of the tasks of a model")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of timing per task")
    parser.add_argument("--fit", action="store_true", help="print fitted rates, write no rows")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    args = parsed(words)
    target, rng = local_target(1), np.random.default_rng(0)
    results, samples = None, []
    files = files_of(args.folder)
    for model in chosen(files, args.only):
        for dag in dags_of(model, files[model], args.stride):
            task = Task.of(dag, target, "cpu")
            task.space.explore(CPU, PLANS)
            if args.fit:
                found = [one for rates in RATES.values() for one in choices(task, rates)]
                found += random_candidates(task, rng)
                samples.append(timed(task, found, args.seconds))
                say(f"{model}: {dag.name}: {len(samples[-1].times_s)} candidates")
                continue
            row = row_of(task, args.seconds)
            if results is None:
                facts = run_facts(1, 0, seconds=args.seconds)
                results = Results(args.out, KEYS, facts, args.fresh)
            results.add({"model": model, **row})
            publish(args.out, page_of(results.rows, results.runs))
            say(f"{model}: {row}")
    if samples:
        say(str(fitted(samples, target, SHORT_VECTORS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
