"""Cold searches against searches that start from the measurements of other tasks.

    python -m benchmarks.transfer [--trials 64] [--seeds 3] [--only WORKLOAD ...] [--threads 2]

For every seed, every workload is first searched cold; its measurements are stored as transfer
data, as a tuning stores them. Then each workload is searched again, once starting from the
workloads of all other operators, once from all other workloads, some of which have the same
operator in another shape. The best candidate of every search after 8, 16, 32 ... trials is timed
again, all of a seed in turns in one process: times of different searches cannot be compared
(ADR-0074). Seeds are the outermost loop and existing rows are kept: the command may be interrupted
at any time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Final

from ansorpy.cost.model import Sample
from ansorpy.cost.roofline import RooflineModel
from ansorpy.cost.transfer import TransferModel
from ansorpy.measure.host import local_target
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu, depthwise_conv2d, matmul, softmax
from ansorpy.tuner.experience import Experience
from ansorpy.tuner.plugged import default_model
from ansorpy.tuner.task import Task, rules_name
from benchmarks.common import (
    RAW,
    Results,
    Row,
    arguments,
    chosen,
    duration,
    finite,
    publish,
    running_best,
    say,
    table,
)
from benchmarks.machine import run_facts
from benchmarks.search import EVOLUTION, ROUND, Arm, arm
from benchmarks.shared_trials import SharedPool, TrialCache, code_digest
from benchmarks.workloads import FIVE, TITLES

COLD: Final = "cold"
OPERATORS: Final = "other operators"
SHAPES: Final = "other shapes too"
ARMS: Final = (COLD, OPERATORS, SHAPES)
BUDGETS: Final = (8, 16, 32, 64, 128)
GOAL: Final = 64  # trials of the cold search whose result a warm search should reach with fewer
CLOSE: Final = 1.02  # factor on its result within which it counts as reached: noise of timing
RERANK_S: Final = 0.2  # seconds of timing again, per kernel
KEYS: Final = ("workload", "arm", "seed", "trials", "threads")

_SAME: Final = Window(padding=1)
# The operators of the five in other shapes: searched once, as transfer data only.
SOURCES: Final[Mapping[str, Callable[[], Dag]]] = {
    "matmul_mlp": partial(matmul, 128, 768, 3072),
    "conv2d_late": partial(conv2d_bias_relu, 1, 256, 14, 14, 256, 3, _SAME),
    "softmax_wide": partial(softmax, 256, 4096),
    "depthwise_late": partial(depthwise_conv2d, 1, 384, 14, 14, 3, _SAME),
}
WORKLOADS: Final[Mapping[str, Callable[[], Dag]]] = {**FIVE, **SOURCES}


def operator(workload: str) -> str:
    """Return the operator of a workload."""
    return workload.split("_")[0]


@dataclass
class Bench:
    """Searches of all workloads, with the spaces that they share."""

    target: Target
    trials: int
    folder: Path

    def __post_init__(self) -> None:
        self._spaces: dict[str, Task] = {}

    def space(self, workload: str) -> Task:
        """Return a task with its plans, derived once."""
        if workload not in self._spaces:
            rules = rules_name(self.target.kind, CPU)
            self._spaces[workload] = Task.of(WORKLOADS[workload](), self.target, rules)
            self._spaces[workload].explore(CPU)
        return self._spaces[workload]

    def experience(self, workload: str, seed: int) -> Experience:
        """Return the file with the transfer data of the cold search of a workload."""
        return Experience(self.folder / ("sources" if workload in SOURCES else str(seed)))

    def lesson(self, seed: int, without: Sequence[str]) -> list[Sample]:
        """Return the transfer data of the cold searches of all workloads but these."""
        keys = [self.space(name).key for name in without]
        places = [self.experience(name, seed) for name in (*FIVE, *SOURCES)]
        folders = {place.folder: place for place in places}.values()
        return [s for place in folders for s in place.lesson(self.target, keys).samples]

    def knows(self, workload: str, seed: int) -> bool:
        """Return whether the transfer data of a cold search exists."""
        return bool(self.lesson(seed, [name for name in WORKLOADS if name != workload]))

    def warmed(self, workload: str, which: str, seed: int) -> TransferModel:
        """Return the prior of an arm, without the transfer data that the arm must not use."""
        without = [
            name
            for name in WORKLOADS
            if name == workload or (which == OPERATORS and operator(name) == operator(workload))
        ]
        prior = TransferModel(RooflineModel(self.target), seed)
        if which != COLD:
            prior.learn(self.lesson(seed, without))
        return prior

    def rows(
        self, workload: str, arms: Sequence[str], seed: int, cold: Row | None = None
    ) -> Iterator[Row]:
        """Run some arms of one workload and seed, in turns; with a cold row, time all again."""
        space = self.space(workload)
        cores = self.target.cores
        cache = TrialCache(RAW / f"trials-{workload}-{cores}-{code_digest()}.jsonl")
        priors = [self.warmed(workload, which, seed) for which in arms]
        searches = [arm(space, EVOLUTION, seed) for _ in arms]
        for search, prior in zip(searches, priors, strict=True):
            search.model, search.prior = default_model(self.target, seed, prior), prior
        with SharedPool(space.dag, self.target, cache) as pool:
            while any(len(one.costs_s) < self.trials for one in searches):
                before = [len(one.costs_s) for one in searches]
                for one in searches:
                    one.step(pool, min(ROUND, self.trials - len(one.costs_s)))
                if before == [len(one.costs_s) for one in searches]:
                    break  # all have measured the whole space
            found = {which: leaders(one) for which, one in zip(arms, searches, strict=True)}
            if cold is not None:
                found[COLD] = cold["leaders"]
                found = rerank(space, pool, found)
        for which, prior, search in zip(arms, priors, searches, strict=True):
            if which == COLD:
                wrong = self.keep(workload, search, seed)
                if wrong:
                    raise SystemExit(wrong)
            yield {
                "workload": workload, "arm": which, "seed": seed, "trials": self.trials,
                "threads": self.target.cores, "leaders": found[which],
                "cold": {} if which == COLD else found[COLD], **self._facts(search, prior),
            }  # fmt: skip

    def keep(self, workload: str, search: Arm, seed: int) -> str:
        """Store the measurements of a cold search."""
        samples = list(search.task.samples(list(search.task.costs_s)))
        return self.experience(workload, seed).keep(self.target, samples)

    def _facts(self, search: Arm, prior: TransferModel) -> Row:
        judged = prior.judgements.get(search.task.key)
        return {
            "costs_s": [finite(cost_s) for cost_s in search.costs_s],
            "quality": [dict(quality) for quality in search.quality],
            "judged": None
            if judged is None
            else {"kendall": judged.kendall, "roofline": judged.roofline, "kept": judged.kept},
            "failures": dict(search.task.failures),
            "think_s": search.think_s,
        }


def leaders(search: Arm) -> dict[str, Any]:
    """Return plan and row of the best candidate of a search after each number of trials."""
    order = list(search.task.costs_s)  # in the order of measurement
    found = {}
    for budget in BUDGETS:
        if budget <= len(order):
            best = min(order[:budget], key=search.task.costs_s.__getitem__)
            found[str(budget)] = [best.plan, list(best.row)]
    return found


def rerank(
    space: Task, pool: SharedPool, found: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the seconds of leaders by arm and trials, timed in turns; None for a failure."""
    every = {str(one): one for by_trials in found.values() for one in by_trials.values()}
    candidates = [space.unbound(Candidate(plan, tuple(row))) for plan, row in every.values()]
    reranked = pool.rerank(candidates, RERANK_S * len(candidates))
    times = {key: one and one.cost_s for key, one in zip(every, reranked, strict=True)}
    return {
        which: {trials: times[str(one)] for trials, one in by_trials.items()}
        for which, by_trials in found.items()
    }


Bests = Mapping[str, Sequence[Mapping[str, float]]]  # by arm: seconds by trials, per seed


def curves(rows: Sequence[Row], workload: str) -> Bests:
    """Return the times of the leaders of the seeds that have all arms."""
    mine = [row for row in rows if row["workload"] == workload and row["arm"] != COLD]
    found = {(row["arm"], row["seed"]): row for row in mine}
    seeds = sorted({row["seed"] for row in mine})
    whole = [seed for seed in seeds if all((which, seed) in found for which in ARMS[1:])]
    return {
        COLD: [found[OPERATORS, seed]["cold"] for seed in whole],
        **{which: [found[which, seed]["leaders"] for seed in whole] for which in ARMS[1:]},
    }


def gain(bests: Bests, which: str, trials: int) -> float:
    """Return the speed-up of the best of the warm searches over the cold ones, over the seeds."""
    pairs = zip(bests[COLD], bests[which], strict=True)
    return mean([after(cold, trials) / after(warm, trials) for cold, warm in pairs])


def after(times: Mapping[str, float | None], trials: int) -> float:
    """Return the seconds of the leader after so many trials, of all trials if there were fewer."""
    most = max((int(n) for n in times if int(n) <= trials), default=0)
    return times.get(str(most)) or inf


def mean(values: Sequence[float]) -> float:
    """Return the geometric mean; 0 if a factor is not positive and finite."""
    if not values or any(not 0 < value < inf for value in values):
        return 0.0
    return geometric_mean(values)


def reached_at(bests: Bests, which: str, trials: int) -> float:
    """Return the median number of trials until a leader reached the final cold result."""
    needed = []
    for cold, warm in zip(bests[COLD], bests[which], strict=True):
        wanted = after(cold, trials) * CLOSE
        needed.append(next((n for n in BUDGETS if after(warm, n) <= wanted), inf))
    return median(needed)


def page(rows: Sequence[Row], machine: Row, trials: int) -> str:
    """Return the Markdown page."""
    budgets = [budget for budget in BUDGETS if budget <= trials]
    goal = min(GOAL, trials)
    found = {name: curves(rows, name) for name in FIVE}
    found = {name: bests for name, bests in found.items() if bests[COLD]}
    if not found:
        return "# Transfer\n\nNo workload has all arms yet.\n"
    lines: list[Row] = []
    for name, bests in found.items():
        for which in ARMS:
            line: Row = {"workload": TITLES[name], "arm": which, "seeds": len(bests[which])}
            for budget in budgets:
                line[f"{budget}"] = median(after(best, budget) for best in bests[which])
            line["reached"] = reached_at(bests, which, goal)
            line["tau"] = _taus(rows, name, which)
            lines.append(line)
    at = {str(b): partial(lambda key, row: duration(row[key]), str(b)) for b in budgets}
    bests_table = table(
        lines,
        {
            "workload": lambda row: row["workload"],
            "start": lambda row: row["arm"],
            "seeds": lambda row: row["seeds"],
            **at,
            f"as good as cold at {goal}": lambda row: _trials(row["reached"]),
            "tau of round 1": lambda row: row["tau"],
        },
    )
    means = [
        {"arm": w, **{b: mean([gain(c, w, b) for c in found.values()]) for b in budgets}}
        for w in ARMS[1:]
    ]
    ratio = {str(b): partial(lambda key, row: f"{row[key]:.3f}", b) for b in budgets}
    means_table = table(means, {"cold / warm": lambda row: row["arm"], **ratio})
    return (
        "# Transfer: a search that starts from other tasks against a cold one\n\n"
        f"Geometric means over {len(found)} workloads of cold best / warm best after so many"
        f" trials (above 1: warm is ahead). {machine['model']}, {machine['vector_bits']} bits,"
        f" {machine['threads']} thread(s).\n\n{means_table}\n"
        f"Best so far after so many trials, median over the seeds:\n\n{bests_table}\n"
        "Experience of a seed: the cold searches of that seed on the other workloads, and one of"
        f" each of {len(SOURCES)} other shapes. The tau is Kendall's, of the predictions for the"
        " first round; the cold one's is the analytic model's. \"dropped\" counts seeds in which"
        " the guard went back to that. Rounds of 16, same measuring processes. Times are of what"
        " the search believed best, timed again in turns with all others of its seed; as good as"
        f" cold: within {CLOSE - 1:.0%} of its result.\n"
    )


def _taus(rows: Sequence[Row], workload: str, which: str) -> str:
    mine = [row for row in rows if row["workload"] == workload and row["arm"] == which]
    taus = [row["quality"][0].get("kendall", 0.0) for row in mine if row["quality"]]
    dropped = sum(row["judged"] is not None and not row["judged"]["kept"] for row in mine)
    told = f"{median(taus):.2f}" if taus else "-"
    return f"{told}, {dropped} dropped" if dropped else told


def _trials(count: float) -> str:
    return "never" if count == inf else f"{count:g}"


def main() -> None:
    """Measure the missing rows; write JSON and table."""
    parser = arguments(__doc__, "transfer")
    parser.add_argument("--trials", type=int, default=GOAL)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    facts = run_facts(args.threads, 0, trials=args.trials, seeds=args.seeds, round=ROUND)
    results = Results(args.out, KEYS, facts, args.fresh)
    folder = RAW / f"transfer-{args.threads}-{args.trials}"
    bench = Bench(local_target(args.threads), args.trials, folder)

    def wanted(workload: str, which: str, seed: int) -> bool:
        key = {"workload": workload, "arm": which, "seed": seed}
        there = results.find(**key, trials=args.trials, threads=args.threads) is not None
        return not there or (which == COLD and not bench.knows(workload, seed))

    def play(workload: str, arms: Sequence[str], seed: int) -> None:
        cold = (
            None
            if arms == [COLD]
            else results.find(
                workload=workload, arm=COLD, seed=seed, trials=args.trials, threads=args.threads
            )
        )
        for row in bench.rows(workload, arms, seed, cold) if arms else ():
            results.add(row)
            best = duration(running_best(c or inf for c in row["costs_s"])[-1])
            say(f"{workload}, seed {seed}, {row['arm']}: {best}, {row['judged']}")

    targets = chosen(FIVE, args.only)
    for seed in range(args.seeds):
        for name in [*targets, *(SOURCES if seed == 0 else ())]:
            play(name, [COLD] if wanted(name, COLD, seed) else [], seed)
        for name in targets:
            lacks = any(wanted(name, which, seed) for which in ARMS[1:])
            play(name, list(ARMS[1:]) if lacks else [], seed)
        mine = [
            r for r in results.rows if (r["trials"], r["threads"]) == (args.trials, args.threads)
        ]
        publish(args.out, page(mine, facts["machine"], args.trials))
    print(args.out.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
