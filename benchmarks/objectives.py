"""The scheduler's gradient on f1 against round-robin, with the same trials for a whole network.

    python -m benchmarks.objectives [--trials 144] [--seeds 5]

The network is ResNet-18 at batch 1: its eleven convolutions and its dense layer, each with its
number of occurrences. Both arms of a seed have the same plans, the same model, rounds of 8 and the
same number of trials; only the choice of the next task differs. A program is measured once for all
arms and seeds, and its recorded time is used again, so no difference is noise of timing; load of
the machine makes recorded times longer for both. The latency of the network is the sum over the
tasks of occurrences times the best time of a trial; there are no final races.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from statistics import median
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalProcesses
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d, dense
from ansorpy.tuner.options.objective import WeightedSum
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.rounds.scheduler import Settings, TaskScheduler
from ansorpy.tuner.rounds.share import Share
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import play
from benchmarks.common import RAW, Results, Row, arguments, duration, publish, say, table
from benchmarks.machine import run_facts
from benchmarks.search import without_trials
from benchmarks.shared_trials import SharedPool, TrialCache, code_digest

GRADIENT: Final = "gradient"
EQUAL: Final = "round-robin"
ARMS: Final[tuple[Literal["gradient", "round-robin"], ...]] = (GRADIENT, EQUAL)
TRIALS: Final = 144  # 12 for each of the tasks
ROUND: Final = 8  # trials of a turn: few, so that the gradient chooses several times
BUDGETS: Final = (0.75, 1.0)  # shares of the trials at which the arms are compared
KEYS: Final = ("strategy", "seed", "trials", "threads")


def _conv(size: int, c: int, k: int, kernel: int, stride: int) -> Dag:
    """Return a convolution over `size` x `size` pixels that keeps their number per stride."""
    return conv2d(1, c, size, size, k, kernel, Window(stride=stride, padding=kernel // 2))


# Occurrences and Dag of each task of ResNet-18 (He et al., CVPR 2016, table 1).
NETWORK: Final[Mapping[str, tuple[int, Dag]]] = MappingProxyType(
    {
        name: (count, replace(dag, name=name))
        for name, count, dag in (
            ("stem", 1, _conv(224, 3, 64, 7, 2)),
            ("c56", 4, _conv(56, 64, 64, 3, 1)),
            ("c56_half", 1, _conv(56, 64, 128, 3, 2)),
            ("c56_skip", 1, _conv(56, 64, 128, 1, 2)),
            ("c28", 3, _conv(28, 128, 128, 3, 1)),
            ("c28_half", 1, _conv(28, 128, 256, 3, 2)),
            ("c28_skip", 1, _conv(28, 128, 256, 1, 2)),
            ("c14", 3, _conv(14, 256, 256, 3, 1)),
            ("c14_half", 1, _conv(14, 256, 512, 3, 2)),
            ("c14_skip", 1, _conv(14, 256, 512, 1, 2)),
            ("c7", 3, _conv(7, 512, 512, 3, 1)),
            ("dense", 1, dense(1, 1000, 512)),
        )
    }
)
WEIGHTS: Final = {name: float(count) for name, (count, _) in NETWORK.items()}


def latency_s(best_s: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the latency of the network; inf while a task has no time."""
    return sum(weight * best_s.get(name, inf) for name, weight in weights.items())


def searched(
    spaces: Mapping[str, Task],
    pools: Mapping[str, SharedPool],
    weights: Mapping[str, float],
    strategy: Literal["gradient", "round-robin"],
    seed: int,
    trials: int,
) -> Row:
    """Search all tasks with one strategy; return the latency of the network after every round.

    Args:
        spaces: tasks with their plans and without measurements; they are not changed.
    """
    tasks = {name: without_trials(space) for name, space in spaces.items()}
    target = next(iter(tasks.values())).target
    picking, dealing = np.random.default_rng(seed).spawn(2)
    shares = [Share(name, weights[name], task.identity.flop) for name, task in tasks.items()]
    scheduler = TaskScheduler(
        shares, Settings(trials, strategy=strategy, round_trials=ROUND), dealing, lambda: 0.0,
        WeightedSum((tuple(weights[name] for name in tasks),)),
    )  # fmt: skip
    model, curve = default_model(target, seed), []
    for turn in scheduler:
        task = tasks[turn.task.name]
        done = play(task, turn.trials, model, pools[task.name], picking, time.monotonic)
        scheduler.report(turn, len(done.chosen), done.least_cost_s)
        found = {name: one.history.least_cost_s or inf for name, one in tasks.items()}
        if latency_s(found, weights) < inf:
            curve.append([scheduler.trials, latency_s(found, weights)])
    return {
        "strategy": strategy,
        "seed": seed,
        "trials": trials,
        "threads": target.cores,
        "curve": curve,
        "allocation": dict(scheduler.allocation),
        "best_s": {name: one.history.least_cost_s for name, one in tasks.items()},
    }


def at_share(row: Row, share: float) -> float:
    """Return the latency after a share of the trials; inf before every task has a time."""
    reached = [s for trials, s in row["curve"] if trials <= share * row["trials"]]
    return reached[-1] if reached else inf


def page(rows: Sequence[Row], machine: Row) -> str:
    """Return the Markdown page."""
    seeds = sorted({row["seed"] for row in rows})
    by_key = {(row["strategy"], row["seed"]): row for row in rows}
    both = [seed for seed in seeds if all((arm, seed) in by_key for arm in ARMS)]
    lines = []
    for share in BUDGETS:
        line: Row = {"trials": int(share * rows[0]["trials"])}
        for arm in ARMS:
            line[arm] = [at_share(by_key[arm, seed], share) for seed in both]
        line["ratios"] = [
            e / g for g, e in zip(line[GRADIENT], line[EQUAL], strict=True) if g < inf
        ]
        lines.append(line)

    def spread(values: Sequence[float]) -> str:
        return f"{duration(median(values))} ({duration(min(values))} to {duration(max(values))})"

    def ratio(line: Row) -> str:
        found = line["ratios"]
        if not found:
            return "-"
        return f"{median(found):.3f} ({min(found):.3f} to {max(found):.3f})"

    compared = table(
        lines,
        {
            "trials": lambda r: r["trials"],
            "gradient on f1, median (least to most)": lambda r: spread(r[GRADIENT]),
            "round-robin, median (least to most)": lambda r: spread(r[EQUAL]),
            "round-robin / gradient of a seed": ratio,
            "gradient ahead": lambda r: f"{sum(x > 1 for x in r['ratios'])} of {len(r['ratios'])}",
        },
    )
    shares = table(
        [{"task": name} for name in NETWORK],
        {
            "task": lambda r: r["task"],
            "occurrences": lambda r: NETWORK[r["task"]][0],
            "trials by gradient, median": lambda r: median(
                by_key[GRADIENT, seed]["allocation"][r["task"]] for seed in both
            ),
            "best time, gradient": lambda r: duration(
                median(by_key[GRADIENT, seed]["best_s"][r["task"]] for seed in both)
            ),
            "best time, round-robin": lambda r: duration(
                median(by_key[EQUAL, seed]["best_s"][r["task"]] for seed in both)
            ),
        },
    )
    return (
        f"# Trials where they save most time, against equal trials\n\nResNet-18 at batch 1,"
        f" {len(NETWORK)} tasks, {len(both)} seeds. {machine['model']}, {machine['vector_bits']}"
        f" bits, {machine['threads']} thread(s). Latency of the network: the sum of the best times"
        f" of trials by occurrence.\n\n{compared}\n## Tasks\n\n{shares}\n"
        f"Both arms have the same plans, model and trials, in rounds of {ROUND}. A program is"
        " measured once for all arms and seeds and its recorded time used again: the arms differ by"
        " the trials that they ask for, not by noise of timing. Times of trials may be taken on a"
        " machine with other load; they are divided by the slowdown of a reference kernel, and"
        " compare within this page.\n"
    )


def opened(target: Target) -> dict[str, Task]:
    """Return the tasks of the network with all plans."""
    spaces = {}
    for name, (_, dag) in NETWORK.items():
        spaces[name] = Task.of(dag, target, rules_name(target.kind, CPU))
        spaces[name].space.explore(CPU)
    return spaces


def main() -> None:
    """Search the missing rows; write JSON and table."""
    parser = arguments(__doc__, "objectives")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    target = local_target(args.threads)
    facts = run_facts(args.threads, 0, trials=args.trials, seeds=args.seeds)
    results = Results(args.out, KEYS, facts, args.fresh)
    key = {"trials": args.trials, "threads": args.threads}
    missing = [
        (seed, arm)
        for seed in range(args.seeds)
        for arm in ARMS
        if results.find(strategy=arm, seed=seed, **key) is None
    ]
    if missing:
        spaces, settings = opened(target), MeasureSettings()
        shared = LocalProcesses(target, settings)
        with ExitStack() as stack:
            stack.callback(shared.close)
            pools = {}
            for name, task in spaces.items():
                cache = TrialCache(
                    RAW / f"trials-resnet18-{name}-{target.cores}-{code_digest()}.jsonl"
                )
                pools[name] = stack.enter_context(SharedPool(task.dag, target, cache, shared))
            for seed, arm in missing:
                row = searched(spaces, pools, WEIGHTS, arm, seed, args.trials)
                results.add(row)
                say(f"seed {seed}, {arm}: {duration(at_share(row, 1.0))}")
    mine = [r for r in results.rows if all(r[name] == value for name, value in key.items())]
    found = page(mine, facts["machine"])
    publish(args.out, found)
    print(found)


if __name__ == "__main__":
    main()
