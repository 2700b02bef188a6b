"""Candidates sampled, featurised and scored per second, on one core.

    python -m benchmarks.columnar [--rows 8192] [--repeats 7] [--profile]

Every rate is the best of the repeats (other work on the machine only ever slows them down).
"total" is one candidate sampled, featurised and scored by LightGBM with 100 trees; "evolve" is
a whole round of evolution over all plans of the sketch with the settings of the search.
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ansorpy.cost.gbm import TREES, GbmModel
from ansorpy.cost.model import Batch, Sample, Scores
from ansorpy.cost.random import RandomModel
from ansorpy.features import extract
from ansorpy.features.extract import Prepared, prepare
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import mutate, sample, unique
from ansorpy.rules import CPU
from ansorpy.search import EvolutionSettings, evolve
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu, matmul_relu

TARGET = Target(cores=2)
WORKLOADS: dict[str, Callable[[], Dag]] = {
    "matmul 512 + relu": lambda: matmul_relu(512, 512, 512),
    "conv2d 1x64x56x56, 64 3x3, + bias + relu": lambda: conv2d_bias_relu(
        1, 64, 56, 56, 64, 3, Window(padding=1)
    ),
}


def best_s(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest of the durations of `call`."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def trained(plan: Plan) -> GbmModel:
    """Return a model as large as in a search: 100 trees over 1000 candidates, made-up costs."""
    rng = np.random.default_rng(0)
    batch = extract(plan, sample(plan, 1000, rng), TARGET)
    costs_s = np.exp(batch.sum(axis=1) @ rng.normal(0, 0.02, batch.shape[2]))
    model = GbmModel(RandomModel(rng), threads=1)
    model.update([Sample("benchmark", batch, costs_s.astype(np.float64))])
    return model


def legal_plans(dag: Dag) -> list[Plan]:
    """Return all plans of all sketches that have a legal row, the tiled sketches first."""
    sketches = derive(dag, TARGET, CPU).sketches
    made = [plan for sketch in sketches for plan in plans(sketch, TARGET)]
    return [plan for plan in made if len(sample(plan, 1, np.random.default_rng(0)))]


def rates(plan: Plan, model: GbmModel, rows: int, repeats: int) -> dict[str, float]:
    """Return candidates per second of each stage."""
    rng = np.random.default_rng(1)
    drawn = sample(plan, rows, rng)
    batch = extract(plan, drawn, TARGET)
    seconds = {
        "sampled": best_s(lambda: unique(sample(plan, rows, rng)), repeats),
        "mutated": best_s(lambda: unique(mutate(plan, drawn, rng)), repeats),
        "featurised": best_s(lambda: extract(plan, drawn, TARGET), repeats),
        "scored": best_s(lambda: model.predict([batch]), repeats),
    }
    total = seconds["sampled"] + seconds["featurised"] + seconds["scored"]
    return {name: rows / s for name, s in {**seconds, "total": total}.items()}


def evolve_rate(plans: Sequence[Plan], model: GbmModel, repeats: int) -> float:
    """Return candidates per second of a whole round of evolution."""
    settings = EvolutionSettings()

    class Counting:
        asked = 0

        def predict(self, batches: Sequence[Batch]) -> list[Scores]:
            self.asked += sum(map(len, batches))
            return model.predict(batches)

    counting = Counting()
    evolve(plans, counting, (), np.random.default_rng(2), settings, target=TARGET)
    shortest = best_s(
        lambda: evolve(plans, model, (), np.random.default_rng(2), settings, target=TARGET),
        repeats,
    )
    return counting.asked / shortest


def main() -> None:
    """Print the table, and a profile if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    for name, build in WORKLOADS.items():
        found = legal_plans(build())
        plan = found[0]
        model = trained(plan)
        prepare_s = best_s(partial(Prepared, plan, TARGET), args.repeats)
        ready = prepare(plan).of(TARGET)
        print(f"\n{name}: {len(found)} plans; the first has {len(plan.sizes)} sizes,")
        print(
            f"{ready.stores} stores, {ready.steps} column operations, prepared in"
            f" {prepare_s * 1e3:.1f} ms; {TREES} trees, one thread, {args.rows} rows at a time"
        )
        for stage, rate in rates(plan, model, args.rows, args.repeats).items():
            print(f"  {stage:12s} {rate:12,.0f} candidates/s")
        print(f"  {'evolve':12s} {evolve_rate(found, model, 3):12,.0f} candidates/s")
        if args.profile:
            profile = cProfile.Profile()
            profile.runcall(
                evolve,
                found,
                model,
                (),
                np.random.default_rng(3),
                EvolutionSettings(),
                target=TARGET,
            )
            pstats.Stats(profile).sort_stats("tottime").print_stats(16)


if __name__ == "__main__":
    main()
