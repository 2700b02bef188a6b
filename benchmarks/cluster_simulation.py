"""Simulated tunings on 1 to 1,000 slots: trials per second, and the part that saturates.

    python -m benchmarks.cluster_simulation measure [--trials 512]
    python -m benchmarks.cluster_simulation simulate

`measure` stores the seconds of each part of a tuning on this machine as samples
(`cluster_costs`). `simulate` draws from them (`simulated_cluster`), compares rates on 1, 2 and 4
slots with the measured ones of cluster.json, and writes results/cluster_simulation.md.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.common import (
    RESULTS,
    Row,
    duration,
    percent,
    publish,
    say,
    table,
    times,
    write_lists,
)
from benchmarks.simulated_cluster import Costs, Line, Outcome, Scene, line, simulated

OUT: Final = RESULTS / "cluster_simulation.json"
MEASURED: Final = RESULTS / "cluster.json"
CANDIDATE_S: Final = 0.1  # as `benchmarks.cluster`
SLOTS: Final = (1, 2, 4, 10, 40, 100, 400, 1000)
TRIALS: Final = 20_000  # trials of a tuning
LONG: Final = 10  # factor of the seconds of longer candidates
DRIVERS: Final = (1, 4, 16)
SIZES: Final = (10_000, 100_000, 1_000_000)  # trials of a tuning on the most slots
# The changes of the design, each on top of those before: name, fields of `Scene`.
CHANGES: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("as it is", {}),
    ("reasons why slots are not used are kept (made since)", {"kept": True}),
    ("pools of all tasks stay open", {"pools": 1000}),
    ("a batch goes to a slot that knows its task", {"prefers": True}),
    ("one scale for all tasks", {"one_scale": True}),
    ("the model is trained when its samples have grown by 10 %", {"growth": 0.1}),
    ("training beside the rounds", {"aside": True}),
    ("an idle slot wakes the rounds that wait for one", {"polls": False}),
    ("32 rounds under way", {"most": 32}),
)


def costs_of(rows: Sequence[Row], workload: str = "", kept: bool = False) -> Costs:
    """Return the costs in measured rows, of one workload or of all.

    Args:
        kept: the reasons why slots are not used are kept (made since).
    """

    def samples(name: str) -> tuple[float, ...]:
        mine = [r for r in rows if r["name"] == name and workload in ("", r.get("workload", ""))]
        return tuple(s for r in mine for s in r["samples_s"])

    def by_size(name: str) -> Line:
        return line({r["size"]: r["p50_s"] for r in rows if r["name"] == name})

    encode = max((r for r in rows if r["name"] == "encode"), key=lambda r: float(r["size"]))
    store, driver = (by_size(f"store in postgres{end}") for end in ("", ", processor"))
    return Costs(
        build=samples("build"),
        trial=samples("trial"),
        propose=samples("propose"),
        open=tuple(s for r in rows if r["name"] == "open" for s in r["samples_s"]),
        train=by_size("train"),
        history=by_size("history"),
        checkpoint=by_size("checkpoint"),
        encode=Line(0.0, encode["mean_s"] / encode["size"]),  # the first of each plan takes longer
        decode=by_size("decode"),
        look=by_size("look, reasons kept" if kept else "look"),
        store=driver,
        commit=Line(
            max(0.0, store.fixed_s - driver.fixed_s), max(0.0, store.each_s - driver.each_s)
        ),
        question_bytes=encode["bytes"] / encode["size"],
    )


def longer(costs: Costs, factor: float) -> Costs:
    """Return the costs of candidates whose builds and trials take a multiple of the seconds."""
    return replace(
        costs,
        build=tuple(factor * s for s in costs.build),
        trial=tuple(factor * s for s in costs.trial),
    )


def sleeping(rows: Sequence[Row], slots: int) -> Costs:
    """Return the costs of the experiment of cluster.json, whose slots sleep."""
    (found,) = [r for r in rows if r["name"] == "sleeping slot" and r["size"] == slots]
    costs = costs_of(rows, "matmul")
    return replace(costs, build=(0.0,), trial=tuple(found["samples_s"]), open=(0.0,))


def compared(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield simulated and measured rates on 1, 2 and 4 slots."""
    for one in json.loads(MEASURED.read_text())["rows"]:
        if one["experiment"] == "rate" and one["way"] == "processes":
            scene = Scene(one["count"], trials=round(one["rate"] * one["seconds"]))
            free = replace(sleeping(rows, one["count"]), commit=Line(0, 0))  # records in memory
            found = simulated(scene, free).rate
            yield {"slots": one["count"], "measured": one["rate"], "simulated": found}


def row_of(name: str, scene: Scene, costs: Costs) -> Row:
    """Return the row of a simulation."""
    begin_s = time.perf_counter()
    found = simulated(scene, costs)
    say(f"{name}, {scene.slots} slots: {found.rate:.1f} in {time.perf_counter() - begin_s:.1f} s")
    shares = asdict(found) | {"rate": found.rate, "first": found.first}
    shape = {"slots": scene.slots, "tasks": scene.tasks, "drivers": scene.drivers}
    used = {f"{part}_share": shares.pop(part) for part in Outcome.__slots__ if part not in KEPT}
    return {"name": name, **shape, "each": scene.trials, **used, **shares}


KEPT: Final = ("seconds", "trials")


def scaling(costs: Costs) -> Iterator[Row]:
    """Yield rates by slots: of one task, of 100, and of 100 with longer candidates."""
    long = longer(costs, LONG)
    cases = (("1 task", 1, costs), ("100 tasks", 100, costs), ("100 tasks, longer", 100, long))
    for name, tasks, each in cases:
        for slots in SLOTS:
            yield row_of(name, Scene(slots, tasks=tasks, trials=TRIALS), each)


def changed(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield rates of changed designs, each with the changes before it."""
    fields: dict[str, Any] = {}
    for name, change in CHANGES:
        fields |= change
        costs = longer(costs_of(rows, kept=fields.get("kept", False)), LONG)
        rest = {key: value for key, value in fields.items() if key != "kept"}
        for slots in (10, 100, 1000):
            yield row_of(name, Scene(slots, tasks=100, trials=TRIALS, **rest), costs)


def many(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield rates of several drivers at once, and of longer tunings, as it is and changed."""
    final: dict[str, Any] = {}
    for _, change in CHANGES:
        final |= change
    final.pop("kept")
    designs: Sequence[tuple[str, Costs, Mapping[str, Any]]]
    designs = (("as it is", costs_of(rows), {}), ("changed", costs_of(rows, kept=True), final))
    for name, costs, fields in designs:
        long = longer(costs, LONG)
        for drivers in DRIVERS:
            scene = Scene(1000, drivers, 100, 5000, **fields)
            yield row_of(f"drivers, {name}", scene, long)
        for trials in SIZES:
            scene = Scene(1000, tasks=100, trials=trials, **fields)
            yield row_of(f"trials, {name}", scene, long)


PARTS: Final = ("slots", "other", "driver", "training", "network", "bridge", "database")
NAMES: Final = {"slots": "slots busy", "other": "marks, pools"}
SHARES: Final[Mapping[str, Callable[[Row], object]]] = {
    NAMES.get(part, part): lambda row, part=part: percent(row[f"{part}_share"])  # type: ignore[misc]
    for part in PARTS
}


def page(results: Mapping[str, Sequence[Row]]) -> str:
    """Return the Markdown page."""
    rows, costs = results["simulated"], results["costs"]
    load = results["runs"][0]["machine"]["load_1min"]
    scaled = [r for r in rows if r["name"].startswith(("1 task", "100 tasks"))]
    alone = {r["name"]: r["rate"] for r in scaled if r["slots"] == 1}
    check = table(
        results["compared"],
        {
            "slots": lambda r: r["slots"],
            "measured": lambda r: f"{r['measured']:.1f}",
            "simulated": lambda r: f"{r['simulated']:.1f}",
            "difference": lambda r: f"{r['simulated'] / r['measured'] - 1:+.0%}",
        },
    )
    by_slots = table(
        scaled,
        {
            "tuning": lambda r: r["name"], "slots": lambda r: f"{r['slots']:,}",
            "trials/s": lambda r: f"{r['rate']:.1f}",
            "speed-up": lambda r: times(r["rate"] / alone[r["name"]]), **SHARES,
        },
    )  # fmt: skip
    names = [name for name, _ in CHANGES]
    designs = table(
        [r for r in rows if r["name"] in names and r["slots"] == 1000],
        {
            "change, with those above": lambda r: r["name"],
            **{
                f"{slots:,} slots": lambda r, slots=slots: next(  # type: ignore[misc]
                    f"{o['rate']:.1f}" for o in rows
                    if o["name"] == r["name"] and o["slots"] == slots
                )
                for slots in (10, 100, 1000)
            },
            "busiest at 1,000": lambda r: f"{r['first']}, {percent(r[r['first'] + '_share'])}",
        },
    )  # fmt: skip
    others = table(
        [r for r in rows if r["name"].startswith(("drivers", "trials"))],
        {
            "case": lambda r: r["name"], "drivers": lambda r: r["drivers"],
            "trials of each": lambda r: f"{r['each']:,}",
            "trials/s": lambda r: f"{r['rate']:.1f}",
            "time": lambda r: f"{r['seconds'] / 3600:.2f} h", **SHARES,
        },
    )  # fmt: skip
    parts = table(
        costs,
        {
            "part": lambda r: f"{r['name']} {r.get('workload', '')}",
            "size": lambda r: f"{r['size']:,}",
            **{q: lambda r, q=q: duration(r[f"{q}_s"]) for q in ("p10", "p50", "p90", "p99")},  # type: ignore[misc]
        },
    )
    mean_s = {
        name: sum(r["mean_s"] for r in costs if r["name"] == name) / 2
        for name in ("build", "trial")
    }
    return (
        "# A tuning on 1 to 1,000 slots, simulated\n\n"
        f"Rounds of 64, {TRIALS:,} trials. A slot has two builders; a build takes"
        f" {duration(mean_s['build'])} and a trial {duration(mean_s['trial'])} on average, and"
        f" {LONG} times that if `longer`; the load of the machine was {load:.1f}."
        " Shares of the time: `marks, pools` is the part of the"
        " slots' work that finds their scale and opens pools, `driver` the work of the driver's"
        " threads, `training` the wait for LightGBM. The first part that saturates is the"
        " training, as every round trains on all trials; with many slots it is the driver, which"
        " looks at every slot after each answer. Network, bridge and database are idle.\n\n"
        f"{by_slots}\n## Changes of the design, 100 tasks of longer candidates, trials/s\n\n"
        f"{designs}\n## Several drivers, and longer tunings, on 1,000 slots\n\n{others}\n"
        "## The simulation against measured rates\n\n"
        f"100 ms per candidate as in [cluster.md](cluster.md), trials/s:\n\n{check}\n"
        f"## Measured seconds\n\nSamples are in the result file.\n\n{parts}"
    )


def main() -> None:
    """Measure the parts, or simulate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("measure", "simulate"))
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.step == "measure":
        from benchmarks.cluster_costs import measured
        from benchmarks.machine import run_facts

        found: dict[str, list[Row]] = {"runs": [run_facts(1, 0, trials=args.trials)], "costs": []}
        for one in measured(args.trials, CANDIDATE_S):
            say(f"{one['name']} {one['size']}: {duration(one['p50_s'])}")
            found["costs"].append(one)
    else:
        found = json.loads(args.out.read_text())
        costs = found["costs"]
        found["compared"] = list(compared(costs))
        found["simulated"] = [*scaling(costs_of(costs)), *changed(costs), *many(costs)]
        publish(args.out, page(found))
    write_lists(args.out, found)


if __name__ == "__main__":
    main()
