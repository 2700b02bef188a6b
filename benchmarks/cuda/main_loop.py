"""Count the machine code of the main loop of tuned matrix products, without a device.

    python -m benchmarks.cuda.main_loop [--trials 256] [NAME ...]

Each product is tuned by estimates alone, or has the tile sizes of a block. The winner is compiled
by LLVM and assembled by ptxas for sm_90, and nvdisasm prints the cubin. Told are the share of FFMA
among the instructions of the main loop, of HMMA for bfloat16 and tf32, spilled bytes,
registers, and barriers per step of the reduction, counted in the SASS. Kernels of these sizes take
too long under the emulator: correctness is tested at small sizes. The result files are
`benchmarks/results/cuda_main_loop.json` and `.md`; rows of products that are not named are kept.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from ansorpy import te
from ansorpy.codegen.simt.assemble import has_assembler
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.expr.coalescing import WARP
from ansorpy.measure.estimates import EstimatePool, emulated
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.rewrites.warp_products import BF16, TF32
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import play
from benchmarks.common import RESULTS, Row, chosen, percent, publish, say, table, write_lists
from benchmarks.cuda.report import LaunchReport, static_report
from benchmarks.cuda.sass import Counts, Sass

TARGET: Final = cuda_target("sm_90")
TRIALS: Final = 256
ROUND: Final = 64  # trials of a round
SEED: Final = 0
GOAL: Final = 0.9  # share of FFMA in the main loop
BUILD_TIMEOUT_S: Final = 300.0  # other work on the machine must not decide which candidates fail
MATRIX_GOAL: Final = 60 / 210  # share of HMMA in the main loop
# Share from which tensor cores bind the loop, not the issue of instructions: an HMMA of tf32 takes
# one of them 6.4 clocks of sm_90.
TF32_GOAL: Final = 1 / 6.4
# Multiply-adds of a thread in one instruction of a loop, by the operands of its products.
MULTIPLY_ADDS: Final[Mapping[str, Mapping[str, int]]] = {
    "float32": {"FFMA": 1},
    "bfloat16": {"FFMA": 1, "HMMA": BF16.multiply_adds // WARP},
    "tf32": {"FFMA": 1, "HMMA": TF32.multiply_adds // WARP},
}
# Tile sizes of blocks, by axis and level: 128 x 256 x 32 and 256 x 64 x 16 on matrix instructions,
# 128 x 128 x 16 of FFMA; and the threads of the copies of operands with padded rows.
BLOCK: Final[Mapping[str, int]] = {
    "i.1": 2, "i.2": 64, "j.1": 32, "j.2": 4, "j.3": 2, "k.1": 32, "threads": 128,
}  # fmt: skip
FFMA_BLOCK: Final[Mapping[str, int]] = {
    "i.1": 2, "i.2": 16, "i.3": 4, "j.1": 2, "j.2": 16, "j.3": 4, "k.1": 16, "threads": 128,
}  # fmt: skip
TF32_BLOCK: Final[Mapping[str, int]] = {
    "i.1": 8, "i.2": 32, "j.1": 8, "j.2": 4, "j.3": 2, "k.1": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A product by its extents n, m, k; `block` has tile sizes in place of a search.

    Of "tf32", operands are float32, and the request allows to round them.
    """

    sizes: tuple[int, int, int]
    dtype: str = "float32"
    block: Mapping[str, int] | None = None

    @property
    def allow(self) -> tuple[str, ...]:
        """The words that the request allows."""
        return ("tf32",) if self.dtype == "tf32" else ()

    @property
    def dag(self) -> Dag:
        """The product; bfloat16 is multiplied and added in float32."""
        if self.dtype != "bfloat16":
            return workloads.matmul(*self.sizes)
        n, m, k = self.sizes
        a, b = te.placeholder((n, k), "A", self.dtype), te.placeholder((k, m), "B", self.dtype)
        r = te.reduce_axis((0, k), "k")
        c = te.compute(
            (n, m),
            lambda i, j: te.sum(te.cast(a[i, r], "float32") * te.cast(b[r, j], "float32"), axis=r),
            "C",
            axes="ij",
        )
        return te.dag(c, "matmul")


CASES: Final[Mapping[str, Case]] = {
    "1024x1024x1024": Case((1024, 1024, 1024)),
    "1000x1000x1000": Case((1000, 1000, 1000)),
    "1023x1025x1027": Case((1023, 1025, 1027)),
    "4096x4096x4096": Case((4096, 4096, 4096)),
    "4095x4097x4099": Case((4095, 4097, 4099)),
    "4096, 128x128x16": Case((4096, 4096, 4096), block=FFMA_BLOCK),
    "4095, 128x128x16": Case((4095, 4097, 4099), block=FFMA_BLOCK),
    "bfloat16 4096, 128x256x32": Case((4096, 4096, 4096), "bfloat16", BLOCK),
    "bfloat16 4095, 128x256x32": Case((4095, 4097, 4099), "bfloat16", BLOCK),
    "bfloat16 4096x4096x4096": Case((4096, 4096, 4096), "bfloat16"),
    "bfloat16 1000x1000x1000": Case((1000, 1000, 1000), "bfloat16"),
    "bfloat16 1023x1025x1027": Case((1023, 1025, 1027), "bfloat16"),
    "bfloat16 4095x4097x4099": Case((4095, 4097, 4099), "bfloat16"),
    "tf32 4096, 256x64x16": Case((4096, 4096, 4096), "tf32", TF32_BLOCK),
    "tf32 1000, 256x64x16": Case((1000, 1000, 1000), "tf32", TF32_BLOCK),
    "tf32 4096x4096x4096": Case((4096, 4096, 4096), "tf32"),
}


def tuned(case: Case, trials: int, seed: int) -> tuple[Task, Counter[str]]:
    """Return the task of a product after a search by estimates, and its failures by reason."""
    task = Task.of(case.dag, TARGET, "cuda", estimated=True)
    task.space.explore(find_rules("cuda", case.allow))
    model, rng = default_model(TARGET, seed), np.random.default_rng(seed)
    failures: Counter[str] = Counter()
    settings = MeasureSettings(runner=False, build_timeout_s=BUILD_TIMEOUT_S)
    with EstimatePool(task.dag, TARGET, emulated(settings)) as pool:
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


def best(task: Task, dtype: str) -> Row:
    """Return the facts of the machine code of the best candidate."""
    found = task.history.ranked()[0]
    told = main_loop(task.space.plans[found.plan], found.row, dtype)
    return {**told, "estimate_us": 1e6 * task.history.costs_s[found]}


def main_loop(plan: Plan, row: Sequence[int], dtype: str) -> Row:
    """Return the facts of the machine code of a candidate.

    Raises:
        BuildError: ptxas and nvdisasm are not installed.
    """
    sizes = {size.name: int(n) for size, n in zip(plan.sizes, row, strict=True)}
    own = tuple(_product(sizes, axis, (1, 3)) for axis in "ij")  # quads and neighbours
    step = _product(sizes, "k", (1,))
    code = simt_code(bind(plan, row, TARGET), TARGET)
    launches = static_report(code, TARGET)
    launch = max(launches, key=lambda one: multiply_adds(one.main, dtype))
    return {
        "sizes": sizes,
        "own": own,
        "step": step,
        "launches": len(launches),
        **shown(launch, prod(own) * step, dtype),
    }


def shown(launch: LaunchReport, products: int, dtype: str) -> Row:
    """Return the facts of the main loop of a launch.

    Args:
        products: multiply-adds of a thread in one step of the reduction.
        dtype: of the operands, "tf32" if they are rounded.
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
        "hmma": main["HMMA"],
        "hmma_share": main.share("HMMA"),
        "steps": multiply_adds(main, dtype) / products,
        "barriers_per_step": barriers_per_step(launch.sass, products, dtype),
    }


def barriers_per_step(sass: Sass, products: int, dtype: str) -> float | None:
    """Return the barriers of a step of the reduction; None if no loop has any.

    A main loop of less than a step has its barriers in the loop around it, which is a step.

    Args:
        products: multiply-adds of a thread in a step.
        dtype: of the operands, "tf32" if they are rounded.
    """
    done = multiply_adds(sass.main, dtype)
    if done >= products:
        return sass.main["BAR"] * products / done
    around = [loop for loop in sass.loops if loop["BAR"] and multiply_adds(loop, dtype) >= done]
    return float(min(around, key=lambda loop: loop.total)["BAR"]) if around else None


def multiply_adds(counts: Counts, dtype: str) -> int:
    """Return the multiply-adds of a thread in a stretch of machine code."""
    return sum(count * counts[code] for code, count in MULTIPLY_ADDS[dtype].items())


def _product(sizes: Mapping[str, int], axis: str, parts: tuple[int, ...]) -> int:
    """Return the product of some tile sizes of an axis."""
    wanted = tuple(f".{axis}.{part}" for part in parts)
    return prod(n for name, n in sizes.items() if name.endswith(wanted))


def holds(row: Row) -> bool:
    """Return whether a product meets the goals: FFMA or HMMA, spills, and barriers."""
    barriers = row["barriers_per_step"]
    few = barriers is not None and barriers <= 1
    goals = {"float32": GOAL, "bfloat16": MATRIX_GOAL, "tf32": TF32_GOAL}
    dtype = CASES[row["name"]].dtype
    busy = row["ffma_share" if dtype == "float32" else "hmma_share"] >= goals[dtype]
    return busy and not row["spilled_bytes"] and few


def page(rows: list[Row]) -> str:
    """Return the table as Markdown."""
    cells: Mapping[str, Callable[[Row], object]] = {
        "product": lambda row: row["name"],
        "candidates": lambda row: row["candidates"],
        "failed": lambda row: ", ".join(f"{n} {why}" for why, n in row["failures"].items()) or "-",
        "sums of a thread": lambda row: f"{row['own'][0]} x {row['own'][1]}",
        "step of k": lambda row: row["step"],
        "launches": lambda row: row.get("launches", 1),
        "blocks x threads": lambda row: f"{row['blocks']} x {row['threads']}",
        "registers": lambda row: row["registers"],
        "spilled bytes": lambda row: row["spilled_bytes"],
        "shared bytes": lambda row: row["shared_bytes"],
        "main loop": lambda row: row["instructions"],
        "FFMA": lambda row: percent(row["ffma_share"]),
        "HMMA": lambda row: (
            f"{row['hmma']} ({percent(row['hmma_share'])})" if row.get("hmma") else "-"
        ),
        "BAR per step": lambda row: (
            "-" if row["barriers_per_step"] is None else f"{row['barriers_per_step']:.2f}"
        ),
        "goals": lambda row: "met" if holds(row) else "missed",
    }
    return (
        "# The main loop of tuned matrix products for a GPU\n\n"
        "`python -m benchmarks.cuda.main_loop`: float32, or bfloat16 and tf32 with sums in float32,"
        f" tuned for sm_90 by estimates, seed {SEED}; counted in\nthe machine code of the best"
        " candidate. Static: no GPU took part, nothing was timed, and kernels of these sizes were"
        f" not emulated.\nGoals: {percent(GOAL)} FFMA, of bfloat16 60 HMMA in 210 instructions, of"
        f" tf32 {percent(TF32_GOAL)} HMMA; no"
        " spilled bytes, one barrier per step of k.\nThree launches are two copies of operands to"
        " padded rows (ADR-0150): with them, odd sizes have the main loop of whole sizes.\n\n"
        + table(rows, cells)
    )


def counted(case: Case, trials: int, seed: int) -> Row:
    """Return the row of a product without its name."""
    if case.block is None:
        task, failures = tuned(case, trials, seed)
        return {"candidates": task.history.trials, "failures": failures, **best(task, case.dtype)}
    plan = plans(derive(case.dag, TARGET, find_rules("cuda", case.allow)).sketches[0], TARGET)[0]
    row = [case.block.get(".".join(size.name.split(".")[-2:]), 1) for size in plan.sizes]
    return {"candidates": 1, "failures": Counter[str](), **main_loop(plan, row, case.dtype)}


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
        told.append({"name": name, **counted(CASES[name], args.trials, args.seed)})
        say(str(told[-1]))
    if (args.trials, args.seed) == (TRIALS, SEED):
        results = RESULTS / "cuda_main_loop.json"
        rows = {row["name"]: row for row in (*json.loads(results.read_text())["products"], *told)}
        listed = [rows[name] for name in CASES if name in rows]
        write_lists(results, {"products": listed})
        publish(results, page(listed))
    return int(not all(map(holds, told)))


if __name__ == "__main__":
    sys.exit(main())
