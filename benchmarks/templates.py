"""Tuners of templates beside the automatic search, at equal trials.

    python -m benchmarks.templates [--trials 64] [--seeds 3] [--only ROW ...] [--threads 1]

A row is an operator with a template: the two knobs of AutoTVM's tutorial, and templates of our own
as a user would write them. Each tuner and the search of mode auto get the same trials, in rounds of
16, in turns. A program is measured once, for all of them; the best of each is timed again, all of a
seed in turns in one process. Seeds are the outermost loop and existing rows are kept: the command
may be interrupted at any time.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from statistics import median
from typing import Any, Final

from ansorpy.measure.host import local_target
from ansorpy.rules import CPU
from ansorpy.schedule import Config, StagedSchedule
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.parts.knob_space import TUNERS, KnobSpace
from ansorpy.tuner.parts.spaces import space_of
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from benchmarks.common import (
    RAW,
    Results,
    Row,
    arguments,
    chosen,
    duration,
    finite,
    publish,
    say,
    table,
    times,
)
from benchmarks.machine import run_facts
from benchmarks.search import EVOLUTION, ROUND, Arm, arm
from benchmarks.shared_trials import SharedPool, TrialCache, code_digest
from benchmarks.workloads import FIVE

AUTO: Final = "auto"
ARMS: Final = (AUTO, *TUNERS)
RERANK_S: Final = 0.2  # seconds of timing again, per kernel
KEYS: Final = ("row", "arm", "seed", "trials", "threads")
VECTORS: Final = (8, 16, 32, 64, 128)  # elements per step; those without whole vectors are illegal


def tutorial(s: StagedSchedule, cfg: Config) -> None:
    """Tile rows and columns, as in AutoTVM's tutorial."""
    y, x = s["C"].axis
    (k,) = s["C"].reduce_axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, "C", y)
    xo, xi = cfg["tile_x"].apply(s, "C", x)
    s["C"].reorder(yo, xo, k, yi, xi)


def matmul(s: StagedSchedule, cfg: Config) -> None:
    """Tile in registers and in caches, with vectors along columns and a packed operand."""
    c = s["C"]
    y, x = c.axis
    (k,) = c.reduce_axis
    cfg.define_split("tile_y", y, num_outputs=3, policy="power2", max_factor=64)
    cfg.define_split("tile_x", x, num_outputs=3, policy="power2", max_factor=64)
    cfg.define_split("tile_k", k, num_outputs=2, policy="power2")
    cfg.define_knob("packs", [False, True])
    cfg.define_knob("unroll", [0, 16, 64])
    y0, y1, y2 = cfg["tile_y"].apply(s, c, y)
    x0, x1, x2 = cfg["tile_x"].apply(s, c, x)
    k0, k1 = cfg["tile_k"].apply(s, c, k)
    c.reorder(y0, x0, k0, y1, x1, k1, y2, x2)
    c.vectorize(x2)
    c.unroll_budget(cfg["unroll"].number)
    if cfg["packs"].val:
        c.pack("B")


def conv2d(s: StagedSchedule, cfg: Config) -> None:
    """Tile filters and columns of a convolution, with vectors along filters."""
    s["biased"].compute_inline()
    c = s["conv"]
    n, f, h, w = c.axis
    rc, rh, rw = c.reduce_axis
    cfg.define_split("tile_f", f, num_outputs=2, policy="power2")
    cfg.define_split("tile_w", w, num_outputs=2)
    cfg.define_split("tile_c", rc, num_outputs=2, policy="power2")
    cfg.define_knob("pad", ["root", "inline"])
    cfg.define_knob("place", ["root", "row"])
    cfg.define_knob("unroll", [0, 16, 64])
    f0, f1 = cfg["tile_f"].apply(s, c, f)
    w0, w1 = cfg["tile_w"].apply(s, c, w)
    c0, c1 = cfg["tile_c"].apply(s, c, rc)
    c.reorder(n, f0, h, w0, c0, rh, rw, c1, w1, f1)
    c.vectorize(f1)
    c.pack("W")
    c.unroll_budget(cfg["unroll"].number)
    if cfg["pad"].val == "inline":
        s["pad"].compute_inline()
    relu = s["relu"]
    i0, i1, i2, i3 = relu.axis
    relu.reorder(i0, i2, i1, i3)
    relu.vectorize(i3)
    if cfg["place"].val == "row":
        c.compute_at("relu", i2)


def depthwise(s: StagedSchedule, cfg: Config) -> None:
    """Tile rows and columns of a depthwise convolution, with vectors along columns."""
    c = s["conv"]
    n, channel, h, w = c.axis
    ry, rx = c.reduce_axis
    cfg.define_split("tile_h", h, num_outputs=2, max_factor=16)
    cfg.define_split("tile_w", w, num_outputs=2, policy="power2")
    cfg.define_knob("pad", ["root", "inline"])
    cfg.define_knob("unroll", [0, 16, 64])
    h0, h1 = cfg["tile_h"].apply(s, c, h)
    w0, w1 = cfg["tile_w"].apply(s, c, w)
    c.reorder(n, channel, h0, w0, ry, rx, h1, w1)
    c.vectorize(w1)
    c.unroll_budget(cfg["unroll"].number)
    if cfg["pad"].val == "inline":
        s["pad"].compute_inline()


def softmax(s: StagedSchedule, cfg: Config) -> None:
    """Compute the stages of a row together, with vectors along the row."""
    row, column = s["softmax"].axis
    s["softmax"].vectorize(column)
    for name in ("maximum", "exponent", "total"):
        stage = s[name]
        stage.vectorize((*stage.reduce_axis, *stage.axis[1:])[0])
        cfg.define_knob(f"{name}_at", ["row", "root"])
        cfg.define_knob(f"{name}_vec", VECTORS)
        s.set_size(f"{name}.vec", cfg[f"{name}_vec"].number)
        if cfg[f"{name}_at"].val == "row":
            stage.compute_at("softmax", row)
    cfg.define_knob("vec", VECTORS)
    s.set_size("softmax.vec", cfg["vec"].number)


Written = Callable[[StagedSchedule, Config], None]
ROWS: Final[Mapping[str, tuple[str, Written]]] = {  # workload and template
    "matmul, tutorial": ("matmul", tutorial),
    "matmul, vectors": ("matmul", matmul),
    "conv2d": ("conv2d", conv2d),
    "depthwise": ("depthwise", depthwise),
    "softmax": ("softmax", softmax),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """The searches of one row and seed."""

    target: Target
    trials: int

    def arms(self, row: str, seed: int) -> dict[str, Arm]:
        """Return the searches, without trials."""
        workload, template = ROWS[row]
        dag = FIVE[workload]()
        own = Task.of(dag, self.target, rules_name(self.target.kind, CPU))
        own.space.explore(CPU)
        found = {AUTO: arm(own, EVOLUTION, seed)}
        for tuner in TUNERS:
            task = knob_task(dag, self.target, template, tuner)
            found[tuner] = arm(task, EVOLUTION, seed)
        return found

    def measured(self, row: str, seed: int) -> Iterator[Row]:
        """Run the searches in turns, time the best of each again, and yield a row for each."""
        arms = self.arms(row, seed)
        tasks = [one.task for one in arms.values()]
        cores = self.target.cores
        cache = TrialCache(RAW / f"trials-{ROWS[row][0]}-{cores}-{code_digest()}.jsonl")
        with SharedPool(tasks[0].dag, self.target, cache) as pool:
            while self.step(arms.values(), pool):
                pass
            leaders = {name: one.task.history.ranked()[:1] for name, one in arms.items()}
            best = {
                name: arms[name].task.space.unbound(one[0]) for name, one in leaders.items() if one
            }
            timed = pool.rerank(list(best.values()), RERANK_S * len(best))
            best_s = {name: one and one.cost_s for name, one in zip(best, timed, strict=True)}
        for name, search in arms.items():
            yield {
                "row": row, "arm": name, "seed": seed, "trials": self.trials, "threads": cores,
                "best_s": best_s.get(name), "costs_s": [finite(c) for c in search.costs_s],
                "failures": dict(search.task.history.failures), "think_s": search.think_s,
                **space_facts(search.task),
            }  # fmt: skip

    def step(self, arms: Any, pool: SharedPool) -> bool:
        """Give each search a round; return whether one of them measured anything."""
        before = [len(one.costs_s) for one in arms]
        for one in arms:
            left = self.trials - len(one.costs_s)
            if left > 0:
                one.step(pool, min(ROUND, left))
        return before != [len(one.costs_s) for one in arms]


def knob_task(dag: Dag, target: Target, template: Written, tuner: str) -> Task:
    """Return a task with the space of a template."""
    space = space_of(Request((dag,), target, mode="template", template=template, tuner=tuner))
    assert space is not None
    task = Task.of(dag, target, space.name)
    task.space.own = space
    task.space.explore(())
    return task


def space_facts(task: Task) -> Row:
    """Return the number of points of a template, and those that were looked at without schedule."""
    own = task.space.own
    if not isinstance(own, KnobSpace):
        return {"points": None, "illegal": None}
    illegal = sum(one is None for one in own.candidates.values())
    return {"points": own.size, "illegal": illegal}


def page(rows: Sequence[Row], machine: Row, trials: int) -> str:
    """Return the Markdown page."""
    lines: list[Row] = []
    for name in ROWS:
        mine = [one for one in rows if one["row"] == name]
        if not mine:
            continue
        line: Row = {"row": name, "seeds": len({one["seed"] for one in mine})}
        points = [one["points"] for one in mine if one["points"] is not None]
        line["points"] = points[0] if points else 0
        for which in ARMS:
            seconds = [one["best_s"] or inf for one in mine if one["arm"] == which]
            line[which] = median(seconds) if seconds else inf
        lines.append(line)

    def cell(which: str, line: Row) -> str:
        ratio = line[which] / line[AUTO] if 0 < line[AUTO] < inf and line[which] < inf else None
        return duration(line[which]) + ("" if which == AUTO else f" ({times(ratio)})")

    found = table(
        lines,
        {
            "template": lambda line: line["row"],
            "points": lambda line: line["points"],
            "seeds": lambda line: line["seeds"],
            **{which: partial(cell, which) for which in ARMS},
        },
    )
    return (
        "# Tuners of templates beside the automatic search\n\n"
        f"Time of the best after {trials} trials, median over the seeds, and its ratio to that of"
        f" mode auto (above 1x: slower). {machine['model']}, {machine['vector_bits']} bits,"
        f" {machine['threads']} thread(s).\n\n{found}\n"
        "The template of the tutorial marks no loop: tiles that fit registers are vectorized, the"
        " others are scalar. The templates are in benchmarks/templates.py.\n"
    )


def main() -> None:
    """Measure the missing rows; write JSON and table."""
    parser = arguments(__doc__, "templates")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    facts = run_facts(args.threads, 0, trials=args.trials, seeds=args.seeds, round=ROUND)
    results = Results(args.out, KEYS, facts, args.fresh)
    bench = Bench(local_target(args.threads), args.trials)
    for seed in range(args.seeds):
        for row in chosen(ROWS, args.only):
            key = {"row": row, "seed": seed, "trials": args.trials, "threads": args.threads}
            if all(results.find(**key, arm=which) for which in ARMS):
                continue
            begin_s = time.monotonic()
            for measured in bench.measured(row, seed):
                results.add(measured)
            say(f"{row}, seed {seed}: {time.monotonic() - begin_s:.0f} s")
            done = [one for one in results.rows if one["trials"] == args.trials]
            publish(args.out, page(done, facts["machine"], args.trials))


if __name__ == "__main__":
    main()
