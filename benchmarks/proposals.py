"""The proposals of a search, with times from another process: one side of `best_at_64`.

    PYTHONPATH=CHECKOUT python -P benchmarks/proposals.py WORKLOAD SEED TRIALS TARGET

The script runs in the compared checkout, which may be older than this file: it imports only
names that releases keep. Each line on standard output is a JSON value, answered by one line on
standard input:

    {"workload": KEY, "plans": N, "engine": FOLDER}     no answer
    [[PLAN, [SIZE, ...]], ...]                          [SECONDS or null for a failure, ...]
"""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np

import ansorpy
from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import ForTask, Sample
from ansorpy.cost.roofline import RooflineModel
from ansorpy.features import extract
from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.replay import plan_text
from ansorpy.search import Candidate, eps_greedy, evolve
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from benchmarks.workloads import FIVE

ROUND: Final = 16  # trials per round, as in a tuning of up to 256 trials


def cpu_rules() -> Any:
    """Return the rules for CPUs; before release 0.2 they were in the package `rules`."""
    try:
        return import_module("ansorpy.rules").CPU
    except ModuleNotFoundError:
        return import_module("rules").CPU


class Search:
    """Evolution with the learned cost model on one workload, without measuring."""

    def __init__(self, dag: Dag, target: Target, seed: int) -> None:
        self.target = target
        self.key = workload_key(dag)
        self.plans, self.texts = list[Plan](), list[str]()
        for plan in all_plans(derive(dag, target, cpu_rules()).sketches, target):
            text = plan_text(plan)
            if text not in self.texts and len(sample(plan, 1, np.random.default_rng(0))):
                self.plans.append(plan)
                self.texts.append(text)
        self.rng = np.random.default_rng(seed)
        self.model = GbmModel(RooflineModel(target), seed)
        self.costs_s: dict[Candidate, float] = {}

    def propose(self, count: int) -> list[Candidate]:
        """Return the candidates of a round."""
        ranked = sorted(self.costs_s, key=lambda each: (self.costs_s[each], each))
        alive = [each for each in ranked if self.costs_s[each] < inf]
        found = evolve(
            self.plans, ForTask(self.model, self.key), self.costs_s.keys(), self.rng,
            measured=alive, target=self.target,
        )  # fmt: skip
        return eps_greedy(found, self.plans, self.costs_s.keys(), count, self.rng)

    def learn(self, chosen: Sequence[Candidate], costs_s: Sequence[float]) -> None:
        """Train the cost model on the costs of a round, inf for a failure."""
        self.costs_s.update(zip(chosen, costs_s, strict=True))
        samples = []
        for number in sorted({each.plan for each in chosen}):
            own = [each for each in chosen if each.plan == number]
            rows = np.array([each.row for each in own], np.int64)
            features = extract(self.plans[number], rows, self.target)
            samples.append(Sample(self.key, features, np.array([self.costs_s[c] for c in own])))
        self.model.update(samples)


def main(workload: str, seed: str, trials: str, target: str) -> None:
    """Propose candidates round by round, and read their times."""
    search = Search(FIVE[workload](), Target.of_facts(json.loads(target)), int(seed))
    engine = str(Path(ansorpy.__file__).parents[1])
    _say({"workload": search.key, "plans": len(search.plans), "engine": engine})
    while (left := int(trials) - len(search.costs_s)) > 0:
        chosen = search.propose(min(ROUND, left))
        if not chosen:
            break  # the whole space is measured
        _say([[search.texts[each.plan], list(map(int, each.row))] for each in chosen])
        costs_s = json.loads(sys.stdin.readline())
        search.learn(chosen, [inf if cost_s is None else cost_s for cost_s in costs_s])


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
