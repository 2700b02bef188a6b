"""Evolution with the cost model against random search, with the same budget.

    python -m benchmarks.search [--trials 128] [--seeds 5] [--only WORKLOAD ...]

Both searches draw from the same plans, in rounds of 16, and use the same measuring processes. A
program is measured once, for all searches and seeds: equal programs have equal times, so no
difference between the arms is noise of timing, and drift of the machine affects both. The two
searches of a seed advance round by round in turns.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from operator import itemgetter
from statistics import median
from typing import Final

import numpy as np

from ansorpy.cost.model import CostModel
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Outcome
from ansorpy.rules import CPU
from ansorpy.search import Candidate, random_search
from ansorpy.target import Target
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.rounds.round import bind, emit, measure
from ansorpy.tuner.tasks.history import costs_of
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import play
from benchmarks.common import (
    RAW,
    Cell,
    Results,
    Row,
    arguments,
    at_budget,
    chosen,
    duration,
    finite,
    publish,
    running_best,
    say,
    table,
)
from benchmarks.machine import run_facts
from benchmarks.search_plot import draw
from benchmarks.shared_trials import SharedPool, TrialCache, code_digest
from benchmarks.workloads import FIVE, TITLES

EVOLUTION: Final = "evolution"
RANDOM: Final = "random"
STRATEGIES: Final = (EVOLUTION, RANDOM)
BUDGETS: Final = (16, 32, 64, 128)
JUDGED: Final = 64  # trials at which the searches are compared
CLOSE: Final = 0.01  # relative difference within which the searches count as level
ROUND: Final = 16  # trials per round, as in a tuning of up to 256 trials
KEYS: Final = ("workload", "strategy", "seed", "trials", "threads")


@dataclass
class Arm:
    """One search: a strategy, a seed, and its measured candidates."""

    task: Task
    strategy: str
    rng: np.random.Generator
    model: CostModel
    costs_s: list[float] = field(default_factory=list)  # in the order of the trials
    quality: list[Mapping[str, float]] = field(default_factory=list)  # per round
    think_s: float = 0.0  # seconds of proposing and training

    def step(self, pool: SharedPool, count: int) -> None:
        """Run one round of at most `count` trials."""
        if self.strategy == EVOLUTION:
            played = play(self.task, count, self.model, pool, self.rng, time.monotonic)
            outcomes: Sequence[Outcome] = played.outcomes
            self.quality.append(played.quality)
            self.think_s += played.spent.propose_s + played.spent.train_s
        else:
            found = self._random(count)
            unbound = bind(self.task, found)
            found, outcomes = measure(
                self.task, found, emit(pool, unbound, [None] * len(unbound)), lambda: False
            )
            self.task.history.learn(found, outcomes)
        self.costs_s += costs_of(outcomes).tolist()

    def _random(self, count: int) -> list[Candidate]:
        begin_s = time.monotonic()
        found = random_search(
            self.task.space.plans, self.task.history.costs_s.keys(), count, self.rng
        )
        self.think_s += time.monotonic() - begin_s
        return found


def without_trials(task: Task) -> Task:
    """Return a task with the plans of another one, which is not changed."""
    plans, texts = list(task.space.plans), list(task.space.texts)
    return Task(task.identity, replace(task.space, plans=plans, texts=texts))


def arm(space: Task, strategy: str, seed: int) -> Arm:
    """Return a search without measurements; `space` has the plans and is not changed."""
    task = without_trials(space)
    rng = np.random.default_rng(seed).spawn(2)[STRATEGIES.index(strategy)]
    return Arm(task, strategy, rng, default_model(space.target, seed))


def race(space: Task, pool: SharedPool, seed: int, trials: int) -> Iterator[Row]:
    """Run both searches of a seed, in turns, and yield their rows."""
    arms = [arm(space, strategy, seed) for strategy in STRATEGIES]
    while any(len(one.costs_s) < trials for one in arms):
        before = [len(one.costs_s) for one in arms]
        for one in arms:
            one.step(pool, min(ROUND, trials - len(one.costs_s)))
        if before == [len(one.costs_s) for one in arms]:
            break  # both have measured the whole space
    for one in arms:
        yield {
            "strategy": one.strategy,
            "seed": seed,
            "trials": trials,
            "threads": space.target.cores,
            "plans": len(space.space.plans),
            "flop": space.identity.flop,
            "costs_s": [finite(cost_s) for cost_s in one.costs_s],
            "failures": dict(one.task.history.failures),
            "quality": [dict(quality) for quality in one.quality],
            "think_s": one.think_s,
        }


def measured(workload: str, seeds: Sequence[int], trials: int, target: Target) -> Iterator[Row]:
    """Yield two rows per seed."""
    space = Task.of(FIVE[workload](), target, rules_name(target.kind, CPU))
    space.space.explore(CPU)
    cache = TrialCache(RAW / f"trials-{workload}-{target.cores}-{code_digest()}.jsonl")
    with SharedPool(space.dag, target, cache) as pool:
        for seed in seeds:
            begin_s, asked, known = time.monotonic(), pool.asked, len(cache.known)
            for row in race(space, pool, seed, trials):
                seconds = time.monotonic() - begin_s
                shared = pool.asked - asked - (len(cache.known) - known)
                yield {"workload": workload, **row, "seconds": seconds, "shared": shared}


def best_s(row: Row) -> list[float]:
    """Return the best so far after every trial of a row."""
    return running_best(inf if cost is None else cost for cost in row["costs_s"])


Curves = Mapping[str, Sequence[Sequence[float]]]  # by strategy: one running best per seed


def curves(rows: Sequence[Row]) -> dict[str, Curves]:
    """Return running bests by workload and strategy, of workloads with both strategies."""
    found: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["workload"]][row["strategy"]].append(best_s(row))
    return {
        name: dict(found[name])
        for name in FIVE
        if all(strategy in found[name] for strategy in STRATEGIES)
    }


def summary(workload: str, both: Curves, trials: int) -> Row:
    """Return the medians and extremes of both searches at one budget, and the better search."""
    row: Row = {"workload": workload, "trials": trials, "seeds": len(both[RANDOM])}
    for strategy in STRATEGIES:
        at = [at_budget(curve, trials) for curve in both[strategy]]
        row[strategy] = {"median": median(at), "least": min(at), "most": max(at)}
    ours, theirs = row[EVOLUTION]["median"], row[RANDOM]["median"]
    row["gain"] = theirs / ours if ours < inf else 0.0
    row["ahead"] = EVOLUTION if ours < theirs else RANDOM if theirs < ours else "equal"
    row["close"] = abs(row["gain"] - 1.0) <= CLOSE
    return row


def quality_at(rows: Sequence[Row], name: str) -> list[float]:
    """Return the median over the seeds of a quality of the model, round by round."""
    rounds = [[q.get(name, 0.0) for q in row["quality"]] for row in rows]
    return [median(values) for values in zip(*rounds, strict=False)] if rounds else []


def page(rows: Sequence[Row], machine: Row, plot: str) -> str:
    """Return the Markdown page."""
    found = curves(rows)
    budgets = [budget for budget in BUDGETS if budget <= max(r["trials"] for r in rows)]
    lines = [summary(name, both, budget) for name, both in found.items() for budget in budgets]
    judged = [line for line in lines if line["trials"] == min(JUDGED, budgets[-1])]
    wins = [line for line in judged if line["ahead"] == EVOLUTION]
    clear = sum(not line["close"] for line in wins)

    def cell(strategy: str, line: Row) -> str:
        one = line[strategy]
        low, high = duration(one["least"]), duration(one["most"])
        return f"{duration(one['median'])} ({low} to {high})"

    bests = table(
        lines,
        {
            "workload": lambda r: TITLES[r["workload"]],
            "trials": lambda r: r["trials"],
            "seeds": lambda r: r["seeds"],
            "evolution, median (least to most)": lambda r: cell(EVOLUTION, r),
            "random, median (least to most)": lambda r: cell(RANDOM, r),
            "random / evolution": lambda r: f"{r['gain']:.2f}",
            "ahead": lambda r: r["ahead"] + (", within 1 %" if r["close"] else ""),
        },
    )
    evolved = [row for row in rows if row["strategy"] == EVOLUTION]
    return (
        f"# Search: evolution with the cost model against random search\n\nAfter"
        f" {min(JUDGED, budgets[-1])} trials evolution has the better median on {len(wins)} of"
        f" {len(judged)} workloads, on {clear} of them by more than 1 %."
        f" {machine['model']}, {machine['vector_bits']} bits,"
        f" {machine['threads']} thread(s).\n\n{bests}\n![best latency against trials]({plot})\n\n"
        f"## The cost model, round by round\n\nMedian over the seeds, of predictions made before a"
        f" round is learned; the first round is the analytic model's.\n\n{_quality(evolved)}\n"
        "Same plans, same rounds of 16, same measuring processes. A program is measured once per"
        " workload and its outcome shared by all seeds and both searches, so the arms differ by"
        " what they ask for, not by noise of timing. Times are those of the search (the fastest of"
        " three samples), not of a final race.\n"
    )


def _quality(rows: Sequence[Row]) -> str:
    measures = {"kendall": "Kendall", "top_k_recall": "recall@8", "peak": "a-peak@8"}
    lines = []
    for name in FIVE:
        own = [row for row in rows if row["workload"] == name]
        for measure_name, title in measures.items():
            values = quality_at(own, measure_name)
            if values:
                lines.append({"workload": TITLES[name], "measure": title, "rounds": values})
    count = max((len(line["rounds"]) for line in lines), default=0)

    def at(number: int, line: Row) -> str:
        return f"{line['rounds'][number]:.2f}" if number < len(line["rounds"]) else "-"

    columns: dict[str, Cell] = {name: itemgetter(name) for name in ("workload", "measure")}
    columns |= {str(number + 1): partial(at, number) for number in range(count)}
    return table(lines, columns)


def main() -> None:
    """Measure the missing rows; write JSON, table and plot."""
    parser = arguments(__doc__, "search")
    parser.add_argument("--trials", type=int, default=BUDGETS[-1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    target = local_target(args.threads)
    facts = run_facts(args.threads, 0, trials=args.trials, seeds=args.seeds, round=ROUND)
    results = Results(args.out, KEYS, facts, args.fresh)
    plot = args.out.with_suffix(".svg")

    def done(workload: str, seed: int) -> bool:
        key = {"workload": workload, "trials": args.trials, "threads": args.threads, "seed": seed}
        return all(results.find(strategy=strategy, **key) for strategy in STRATEGIES)

    for workload in chosen(FIVE, args.only):
        seeds = [seed for seed in range(args.seeds) if not done(workload, seed)]
        for row in measured(workload, seeds, args.trials, target) if seeds else ():
            results.add(row)
            best = duration(best_s(row)[-1] if row["costs_s"] else None)
            say(f"{workload}, seed {row['seed']}, {row['strategy']}: {best}, {row['failures']}")
    mine = [r for r in results.rows if r["trials"] == args.trials and r["threads"] == args.threads]
    draw(plot, curves(mine), TITLES)
    publish(args.out, page(mine, facts["machine"], plot.name))
    print(page(mine, facts["machine"], plot.name))


if __name__ == "__main__":
    main()
