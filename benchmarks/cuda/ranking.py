"""Compare the analytic estimate of candidates for a GPU with their machine code, without a device.

    python -m benchmarks.cuda.ranking [--count 256] [NAME ...]

Candidates are drawn from all plans at random. The estimate knows their loops only, and takes the
longest of overlapping parts. The reference knows the SASS that ptxas makes and no loop: a warp is
followed through it (`warp.py`), instruction by instruction, each of which waits for its operands.
Blocks that fit an SM by the registers of ptxas run together, for as long as one warp alone and all
their work on the busiest unit take (the bound of greedy schedules; Brent, J. ACM 21, 1974). Device
memory is left out: all operands fit in the L2 cache.

Told are Spearman's coefficient, the best reference over the best among the 16 least estimates, and
candidates per second of CPU time: drawn, bound, written, compiled by LLVM and ptxas, and estimated.
The result files are `benchmarks/results/cuda_ranking.json` and `.md`.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from ansorpy.codegen.simt.assemble import Cubin, disassemble
from ansorpy.codegen.simt.assemble import assemble as assembled
from ansorpy.codegen.simt.launch import Launch
from ansorpy.codegen.simt.occupancy import occupancy
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.cost.simt import LaunchFacts, estimate, seconds
from ansorpy.cost.simt_facts import program_facts
from ansorpy.errors import AnsorError
from ansorpy.gpus import Gpu
from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.workloads import Window
from benchmarks.common import RESULTS, Row, chosen, publish, say, table, write_lists
from benchmarks.cuda.fit import spearman
from benchmarks.cuda.warp import UnknownError, follow

TARGET: Final = cuda_target("sm_90")
COUNT: Final = 256
TOP: Final = 16  # least estimates that should hold the best candidate
NEAR: Final = 1.05  # times the best reference
SECTORS_PER_CLOCK: Final = 2.0  # from L2 to an SM
DRAWS: Final = 8  # times the count: rows that may be drawn
CASES: Final[Mapping[str, Callable[[], Dag]]] = {
    "matmul": lambda: workloads.matmul(128, 256, 64),
    "conv2d": lambda: workloads.conv2d(1, 16, 14, 14, 32, 3, Window(padding=1)),
    "softmax": lambda: workloads.softmax(256, 1024),
}


@dataclass(frozen=True, slots=True)
class Compared:
    """A candidate: seconds of the estimate and of the reference, without the start of a launch."""

    sizes: Mapping[str, int]
    estimate_s: float
    reference_s: float
    facts: tuple[LaunchFacts, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The comparison of one operator.

    Args:
        left_out: candidates by the reason why they are not compared.
        top_ratio: best reference among the TOP least estimates over the best: 1 if it is there.
        per_cpu_s: candidates compiled and estimated per second of CPU time, children included.
    """

    name: str
    candidates: int
    left_out: Mapping[str, int]
    spearman: float | None
    top_ratio: float
    per_cpu_s: float
    ratio_low: float  # estimate over reference: 10th percentile
    ratio_high: float  # 90th percentile


def drawn(dag: Dag, rng: np.random.Generator) -> Iterator[tuple[Mapping[str, int], Program]]:
    """Yield bound programs of random plans, each once; rows that cannot be bound are left out."""
    sketches = derive(dag, TARGET, CUDA).sketches
    every = [plan for sketch in sketches for plan in plans(sketch, TARGET)]
    seen: set[Program] = set()
    while True:
        plan = every[int(rng.integers(len(every)))]
        for row in sample(plan, 1, rng):
            sizes = {size.name: int(n) for size, n in zip(plan.sizes, row, strict=True)}
            try:
                program = bind(plan, tuple(sizes.values()), TARGET)
            except AnsorError:
                continue
            if program not in seen:
                seen.add(program)
                yield sizes, program


def compare(name: str, dag: Dag, count: int) -> tuple[Ranking, list[Compared]]:
    """Return the comparison of `count` candidates of an operator; fewer if no more are found."""
    gpu = TARGET.gpu
    assert gpu is not None
    rows: list[Compared] = []
    left_out: Counter[str] = Counter()
    spent_s, built = 0.0, 0
    source = drawn(dag, np.random.default_rng(0))
    for _ in range(DRAWS * count):
        if len(rows) == count:
            break
        began_s = cpu_s()
        try:
            sizes, program = next(source)
            code = simt_code(program, TARGET)
            cubins = [assembled(ptx(text, TARGET.cpu), TARGET.cpu) for text in code.texts]
        except AnsorError:
            left_out["no kernel"] += 1
            continue
        facts = program_facts(program, code.launches, (None,) * len(code.launches))
        estimate_s = work_s(facts, gpu)
        spent_s, built = spent_s + cpu_s() - began_s, built + 1
        if any(spilled(cubin, one) for cubin, one in zip(cubins, code.launches, strict=True)):
            left_out["spills"] += 1
            continue
        timed = [pair for pair in zip(cubins, code.launches, strict=True) if not pair[1].ahead]
        try:
            reference_s = sum(greedy_s(cubin, launch, gpu) for cubin, launch in timed)
        except UnknownError as error:
            left_out[str(error)] += 1
            continue
        if estimate_s is None:
            left_out["occupancy"] += 1
            continue
        rows.append(Compared(sizes, estimate_s, reference_s, facts))
        if not len(rows) % 16:
            say(f"{name}: {len(rows)} candidates, {dict(left_out)} left out")
    return ranking(name, rows, left_out, built / spent_s), rows


def ranking(
    name: str, rows: list[Compared], left_out: Mapping[str, int], per_cpu_s: float
) -> Ranking:
    """Return the summary of at least one candidate."""
    estimates = [one.estimate_s for one in rows]
    references = [one.reference_s for one in rows]
    top = sorted(rows, key=lambda one: one.estimate_s)[:TOP]
    low, high = np.quantile(np.divide(estimates, references), (0.1, 0.9))
    return Ranking(
        name, len(rows), dict(left_out), spearman(estimates, references),
        min(one.reference_s for one in top) / min(references), per_cpu_s, float(low), float(high),
    )  # fmt: skip


def greedy_s(cubin: Cubin, launch: Launch, gpu: Gpu) -> float:
    """Return the seconds of a launch by its machine code, without its start.

    Raises:
        UnknownError: its loops cannot be followed, or a block fits no SM.
    """
    held = cubin.resources(launch.name)
    shared_bytes = held.shared_bytes + launch.dynamic_bytes
    resident = occupancy(gpu, launch.threads, held.registers, shared_bytes).blocks_per_sm
    if not resident:
        raise UnknownError("a block fits no SM")
    one = follow(disassemble(cubin), launch.name, launch.threads, launch.blocks // 2)
    warps = -(-launch.threads // gpu.warp)
    busiest = max(  # clocks of an SM for a warp, by unit
        one.instructions / gpu.schedulers_per_sm,
        one.multiply_adds * gpu.warp / gpu.ffma_per_clock,
        one.shared_waves,
        one.sectors / SECTORS_PER_CLOCK,
    )
    blocks = -(-launch.blocks // gpu.sms)
    rounds = -(-blocks // resident)
    return (rounds * one.span + blocks * warps * busiest) / gpu.clock_hz


def work_s(launches: tuple[LaunchFacts, ...], gpu: Gpu) -> float | None:
    """Return estimated seconds without the starts of launches; None if one cannot run."""
    found = seconds(launches, gpu)
    if found is None:
        return None
    parts = [estimate(one, gpu) for one in launches]
    return found - sum(one.launch_s for one in parts if one is not None)


def spilled(cubin: Cubin, launch: Launch) -> bool:
    """Return whether registers of a launch go to local memory."""
    held = cubin.resources(launch.name)
    return bool(held.spill_store_bytes or held.spill_load_bytes)


def cpu_s() -> float:
    """Return the CPU time of this process and its ended children."""
    return sum(os.times()[:4])


def page(rows: list[Row]) -> str:
    """Return the table as Markdown."""
    cells: Mapping[str, Callable[[Row], object]] = {
        "operator": lambda row: row["name"],
        "candidates": lambda row: row["candidates"],
        "Spearman": lambda row: "-" if row["spearman"] is None else f"{row['spearman']:.3f}",
        f"best of the first {TOP} / best": lambda row: f"{row['top_ratio']:.3f}",
        "estimate / reference, 10 % to 90 %": lambda row: (
            f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        ),
        "candidates per CPU second": lambda row: f"{row['per_cpu_s']:.1f}",
        "left out": lambda row: ", ".join(f"{n} {why}" for why, n in row["left_out"].items()),
    }
    return (
        "# Analytic estimates of kernels for a GPU beside their machine code\n\n"
        "`python -m benchmarks.cuda.ranking`: random candidates for sm_90. The reference is"
        " a greedy schedule of\nthe SASS: a warp that is followed through it, each instruction"
        " after its operands, and the work of the blocks that\nfit an SM by ptxas on its busiest"
        " unit; a device took no part. It shares no formula with the"
        " estimate.\nCandidates that spill, or run too long to be followed, are left out."
        " Goals: Spearman"
        f" 0.8, the first {TOP} of {COUNT} within {NEAR}, 4 candidates\nper CPU second.\n\n"
        + table(rows, cells)
    )


def main() -> int:
    """Write the result files; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--count", type=int, default=COUNT, help="candidates of an operator")
    args = parser.parse_args()
    told: list[Row] = []
    for name in chosen(tuple(CASES), args.names or None):
        found, rows = compare(name, CASES[name](), args.count)
        told.append(asdict(found))
        say(f"{name}: {found}")
        worst = sorted(rows, key=lambda one: one.reference_s)[:1]
        worst += sorted(rows, key=lambda one: abs(np.log(one.estimate_s / one.reference_s)))[-3:]
        for one in worst:
            say(f"  {one}")
    if not args.names:
        results = RESULTS / "cuda_ranking.json"
        write_lists(results, {"operators": told})
        publish(results, page(told))
    good = [row["spearman"] or 0.0 for row in told]
    return int(min(good) < 0.8 or any(row["top_ratio"] > NEAR for row in told))


if __name__ == "__main__":
    sys.exit(main())
