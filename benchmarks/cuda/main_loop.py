"""Count the machine code of the main loop of tuned matrix products, without a device.

    python -m benchmarks.cuda.main_loop [--trials 256] [NAME ...]

Each product is tuned by estimates alone. The winner is compiled by LLVM and assembled by ptxas for
sm_90, and nvdisasm prints the cubin. Told are the share of FFMA among the instructions of the main
loop, spilled bytes, registers, and barriers per step of the reduction, counted in the SASS. Kernels
of these sizes take too long under the emulator: correctness is tested at small sizes. The result
files are `benchmarks/results/cuda_main_loop.json` and `.md`.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from ansorpy.codegen.simt.assemble import has_assembler
from ansorpy.codegen.simt.report import LaunchReport, static_report
from ansorpy.codegen.simt.sass import Sass
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.measure.estimates import EstimatePool, emulated
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.plan.bind import bind
from ansorpy.target import cuda_target
from ansorpy.topi import workloads
from ansorpy.tuner.rules import find_rules
from ansorpy.tuner.setup import default_model
from ansorpy.tuner.task import Task
from ansorpy.tuner.tune import play
from benchmarks.common import RESULTS, Row, chosen, percent, publish, say, table, write_lists

TARGET: Final = cuda_target("sm_90")
TRIALS: Final = 256
ROUND: Final = 64  # trials of a round
SEED: Final = 0
GOAL: Final = 0.9  # share of FFMA in the main loop
CASES: Final[Mapping[str, tuple[int, int, int]]] = {
    "1024x1024x1024": (1024, 1024, 1024),
    "1000x1000x1000": (1000, 1000, 1000),
    "1023x1025x1027": (1023, 1025, 1027),
}


def tuned(sizes: tuple[int, int, int], trials: int, seed: int) -> tuple[Task, Counter[str]]:
    """Return the task of a product after a search by estimates, and its failures by reason."""
    task = Task.of(workloads.matmul(*sizes), TARGET, "cuda", estimated=True)
    task.explore(find_rules("cuda"))
    model, rng = default_model(TARGET, seed), np.random.default_rng(seed)
    failures: Counter[str] = Counter()
    with EstimatePool(task.dag, TARGET, emulated(MeasureSettings(runner=False))) as pool:
        for count in _rounds(trials):
            done = play(task, count, model, pool, rng, time.monotonic)
            failures.update(one.kind for one in done.outcomes if isinstance(one, Failed))
            if not done.chosen:
                break
    return task, failures


def _rounds(trials: int) -> Iterator[int]:
    """Yield the trials of every round."""
    for begin, end in pairwise((*range(0, trials, ROUND), trials)):
        yield end - begin


def main_loop(task: Task) -> Row:
    """Return the facts of the machine code of the best candidate.

    Raises:
        BuildError: ptxas and nvdisasm are not installed.
    """
    best = task.ranked()[0]
    plan = task.plans[best.plan]
    sizes = {size.name: int(n) for size, n in zip(plan.sizes, best.row, strict=True)}
    own = tuple(_product(sizes, axis, (1, 3)) for axis in "ij")  # quads and neighbours
    step = _product(sizes, "k", (1,))
    code = simt_code(bind(plan, best.row, TARGET), TARGET)
    (launch,) = static_report(code, TARGET).launches
    return {
        "sizes": sizes,
        "own": own,
        "step": step,
        "estimate_us": 1e6 * task.costs_s[best],
        **shown(launch, prod(own) * step),
    }


def shown(launch: LaunchReport, products: int) -> Row:
    """Return the facts of the main loop of a launch.

    Args:
        products: multiply-adds of a thread in one step of the reduction.
    """
    main, held = launch.main, launch.resources
    return {
        "blocks": launch.launch.blocks,
        "threads": launch.launch.threads,
        "blocks_per_sm": launch.occupancy.blocks_per_sm,
        "registers": held.registers,
        "shared_bytes": held.shared_bytes + launch.launch.dynamic_bytes,
        "spilled_bytes": held.spill_store_bytes + held.spill_load_bytes,
        "instructions": main.total,
        "ffma": main["FFMA"],
        "ffma_share": main.share("FFMA"),
        "steps": main["FFMA"] / products,
        "barriers_per_step": barriers_per_step(launch.sass, products),
    }


def barriers_per_step(sass: Sass, products: int) -> float | None:
    """Return the barriers of a step of the reduction; None if no loop has any.

    A main loop of less than a step has its barriers in the loop around it, which is a step.

    Args:
        products: multiply-adds of a thread in a step.
    """
    main = sass.main
    if main["FFMA"] >= products:
        return main["BAR"] * products / main["FFMA"]
    around = [loop for loop in sass.loops if loop["BAR"] and loop["FFMA"] >= main["FFMA"]]
    return float(min(around, key=lambda loop: loop.total)["BAR"]) if around else None


def _product(sizes: Mapping[str, int], axis: str, parts: tuple[int, ...]) -> int:
    """Return the product of some tile sizes of an axis."""
    wanted = tuple(f".{axis}.{part}" for part in parts)
    return prod(n for name, n in sizes.items() if name.endswith(wanted))


def holds(row: Row) -> bool:
    """Return whether a product meets the goals: FFMA, spills, and barriers."""
    barriers = row["barriers_per_step"]
    few = barriers is not None and barriers <= 1
    return row["ffma_share"] >= GOAL and not row["spilled_bytes"] and few


def page(rows: list[Row]) -> str:
    """Return the table as Markdown."""
    cells: Mapping[str, Callable[[Row], object]] = {
        "product": lambda row: row["name"],
        "candidates": lambda row: row["candidates"],
        "failed": lambda row: ", ".join(f"{n} {why}" for why, n in row["failures"].items()) or "-",
        "sums of a thread": lambda row: f"{row['own'][0]} x {row['own'][1]}",
        "step of k": lambda row: row["step"],
        "blocks x threads": lambda row: f"{row['blocks']} x {row['threads']}",
        "registers": lambda row: row["registers"],
        "spilled bytes": lambda row: row["spilled_bytes"],
        "shared bytes": lambda row: row["shared_bytes"],
        "main loop": lambda row: row["instructions"],
        "FFMA": lambda row: percent(row["ffma_share"]),
        "BAR per step": lambda row: (
            "-" if row["barriers_per_step"] is None else f"{row['barriers_per_step']:.2f}"
        ),
        "goals": lambda row: "met" if holds(row) else "missed",
    }
    return (
        "# The main loop of tuned matrix products for a GPU\n\n"
        "`python -m benchmarks.cuda.main_loop`: float32, tuned for sm_90 by estimates, seed"
        f" {SEED}; counted in the machine code of the\nbest candidate. Static: no GPU took part,"
        " nothing was timed, and kernels of these sizes were not emulated.\nGoals:"
        f" {percent(GOAL)} FFMA, no spilled bytes, one barrier per step of k.\n\n"
        + table(rows, cells)
    )


def main() -> int:
    """Write the result files; return 1 if a goal is missed, 2 without ptxas."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--trials", type=int, default=TRIALS, help="candidates of a product")
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    if not has_assembler():
        say("cannot count machine code because ptxas is missing; expected the extra [cuda]")
        return 2
    told: list[Row] = []
    for name in chosen(tuple(CASES), args.names or None):
        task, failures = tuned(CASES[name], args.trials, args.seed)
        told.append(
            {"name": name, "candidates": task.trials, "failures": failures, **main_loop(task)}
        )
        say(str(told[-1]))
    if not args.names and args.seed == SEED:
        results = RESULTS / "cuda_main_loop.json"
        write_lists(results, {"products": told})
        publish(results, page(told))
    return int(not all(map(holds, told)))


if __name__ == "__main__":
    sys.exit(main())
