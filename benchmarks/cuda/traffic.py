"""Count the bytes that the best candidates of row operators move on a GPU, without a device.

    python -m benchmarks.cuda.traffic [--rows N] [NAME ...]

Candidates are drawn from every plan and ranked by the sectors counted from their loops; those of
the best plans are emulated, and every request of a warp is counted. `requested` bytes are 32 for
each sector of each request; `touched` bytes count a sector once per block, as if its L1 cache held
all of it. Both are compared with the bytes of the inputs and outputs. The result files are
`benchmarks/results/cuda_traffic.json` and `.md`.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Final

import numpy as np

from ansorpy.codegen.simt.emulator.log import LoggedKernel
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.cost.simt_facts import program_facts
from ansorpy.errors import AnsorError
from ansorpy.expr.coalescing import SECTOR_BYTES
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.loopir.nodes import Program, Scope
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from benchmarks.common import RESULTS, Row, chosen, publish, say, table, write_lists

TARGET: Final = cuda_target("sm_90")
ROWS: Final = 24  # candidates of a plan
EMULATED: Final = 8  # plans whose best candidates are emulated
GOAL: Final = 1.05  # times the least bytes
CASES: Final[Mapping[str, Callable[[], Dag]]] = {
    "softmax": lambda: workloads.softmax(128, 1024),
    "layer_norm": lambda: workloads.layer_norm(256, 512),
    "rms_norm": lambda: workloads.rms_norm(256, 512),
    "elementwise_chain": lambda: workloads.elementwise_chain(256, 512),
    "row_sum": lambda: workloads.reduce_rows(64, 2048),
    "column_sum": lambda: workloads.reduce_columns(2048, 256),
    "max_pool2d": lambda: workloads.max_pool2d(1, 8, 64, 64, 3, 2, 1),
}


@dataclass(frozen=True, slots=True)
class Counted:
    """Bytes of one candidate, and the sizes of its plan."""

    name: str
    plan: int
    sizes: Mapping[str, int]
    launches: int
    least_bytes: int
    requested_bytes: int
    touched_bytes: int

    @property
    def requested(self) -> float:
        """Requested bytes over the least."""
        return self.requested_bytes / self.least_bytes

    @property
    def touched(self) -> float:
        """Touched bytes over the least."""
        return self.touched_bytes / self.least_bytes


def best(name: str, dag: Dag, rows: int) -> Counted:
    """Return the candidate of an operator that moves the fewest bytes."""
    rng = np.random.default_rng(0)
    found = []  # the best of every plan
    for number, plan in enumerate(all_plans(derive(dag, TARGET, CUDA).sketches, TARGET)):
        mine = []
        for row in sample(plan, rows, rng):
            sizes = {size.name: int(n) for size, n in zip(plan.sizes, row, strict=True)}
            try:
                program = bind(plan, tuple(sizes.values()), TARGET)
                sectors = counted_sectors(program)
            except AnsorError:  # exceeds a block, or has no kernel: not a candidate
                continue
            mine.append((sectors, number, sizes, program))
        found += sorted(mine, key=lambda one: one[0])[:1]
    found.sort(key=lambda one: one[:2])
    counted = [emulated(name, *one[1:]) for one in found[:EMULATED]]
    return min(counted, key=lambda one: (min(one.requested, one.touched) > GOAL, one.requested))


def counted_sectors(program: Program) -> float:
    """Return the sectors of all launches, counted from the loops of a block."""
    launches = simt_code(program, TARGET).launches
    facts = program_facts(program, launches, (None,) * len(launches))
    return sum(one.sectors * one.blocks for one in facts)


def emulated(name: str, plan: int, sizes: Mapping[str, int], program: Program) -> Counted:
    """Return the bytes of a candidate, counted while it runs."""
    arrays = [aligned(prod(b.extents) * SIZE_BYTES[b.dtype]) for b in program.buffers]
    kernel = LoggedKernel(simt_code(program, TARGET))
    log = kernel.log([array.ctypes.data for array in arrays])
    outside = (Scope.INPUT, Scope.OUTPUT)
    pairs = zip(program.buffers, arrays, strict=True)
    return Counted(
        name, plan, sizes, len(log.launches),
        sum(array.nbytes for buffer, array in pairs if buffer.scope in outside),
        SECTOR_BYTES * sum(
            row.cost
            for launch in log.launches for row in launch.traffic if row.access.space == "global"
        ),
        SECTOR_BYTES * sum(launch.touched for launch in log.launches),
    )  # fmt: skip


def aligned(size_bytes: int) -> np.ndarray:
    """Return zeros at an address that a device would give: a multiple of 256 bytes."""
    whole = np.zeros(size_bytes + 256, np.uint8)
    start = -whole.ctypes.data % 256
    return whole[start : start + size_bytes]


def page(rows: list[Counted]) -> str:
    """Return the table as Markdown."""
    cells: Mapping[str, Callable[[Row], object]] = {
        "operator": lambda row: row["name"],
        "least bytes": lambda row: row["least_bytes"],
        "requested / least": lambda row: f"{row['requested_bytes'] / row['least_bytes']:.3f}",
        "touched / least": lambda row: f"{row['touched_bytes'] / row['least_bytes']:.3f}",
        "launches": lambda row: row["launches"],
        "sizes": lambda row: ", ".join(f"{name} {n}" for name, n in row["sizes"].items()),
    }
    return (
        "# Bytes that row operators move on a GPU\n\n"
        "Counted by emulation (`python -m benchmarks.cuda.traffic`): 32 bytes per sector of every"
        " request of a\nwarp (`requested`), or per sector and block (`touched`), over the bytes of"
        f" inputs and outputs. Goal: {GOAL}.\n\n{table([asdict(one) for one in rows], cells)}"
    )


def main() -> int:
    """Write the result files; return 1 if a candidate misses the goal by both counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=ROWS, help="candidates of a plan")
    args = parser.parse_args()
    rows = []
    for name in chosen(tuple(CASES), args.names or None):
        rows.append(best(name, CASES[name](), args.rows))
        one = rows[-1]
        say(f"{name}: requested {one.requested:.3f}, touched {one.touched:.3f} of the least")
    if not args.names:
        results = RESULTS / "cuda_traffic.json"
        write_lists(results, {"candidates": [asdict(one) for one in rows]})
        publish(results, page(rows))
    return int(any(min(one.requested, one.touched) > GOAL for one in rows))


if __name__ == "__main__":
    sys.exit(main())
