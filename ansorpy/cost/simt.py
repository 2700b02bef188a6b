"""The analytic model of a GPU: seconds of a launch from counted facts, without a device.

A launch takes the longest of its parts, as they overlap: instructions issued, float32
multiply-adds, matrix instructions, waves of shared memory, sectors of the L2 cache, bytes of the
device memory, and the latency of a warp. The parts are counted for the busiest SM: the last wave
of blocks leaves others idle. Latency is the time of a warp alone, which issues an instruction per
clock except in stalls: few resident warps are bound by it, however little work they have. A warp
with 64 independent sums has almost no stalls, so that one of them fills a scheduler.

Not handled: banks of registers, contention between SMs, clocks under load. Seconds
are estimates: they rank launches, and say nothing about a device until fitted to one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

from ansorpy.codegen.simt.occupancy import occupancy
from ansorpy.expr.coalescing import SECTOR_BYTES
from ansorpy.gpus import Gpu
from ansorpy.rewrites.warp_products import BF16

# Raised if the estimate of a program changes: records of other versions are not compared with.
ESTIMATE_VERSION: Final = 6
SHARED_WAVE_CLOCKS: Final = 1.0  # clocks of an SM for a wave of shared memory: 128 bytes
L2_BYTES_PER_CLOCK: Final = 64.0  # bytes of an SM and clock from L2
MATRIX_MULTIPLY_ADDS: Final = BF16.multiply_adds  # multiply-adds of one instruction
LAUNCH_S: Final = 2.0e-6  # overhead of a launch inside of a graph, start to end
STALL_CLOCKS: Final = 1.0  # clocks of a warp for each that it is counted to wait


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Counts of a launch. Instructions, waves and sectors are sums over the warps of one block.

    Stalls count for one warp.

    Args:
        blocks: blocks of the launch.
        threads: threads of a block.
        registers: registers of a thread.
        shared_bytes: shared memory of a block.
        instructions: warp instructions, multiply-adds included.
        multiply_adds: warp instructions FFMA.
        shared_waves: passes of 128 bytes through shared memory, conflicts included.
        sectors: transfers of 32 bytes from and to L2.
        memory_bytes: transfers of the whole launch from and to device memory.
        stall_clocks: clocks of a warp in which it issues nothing, alone on an SM.
        matrix_products: warp instructions HMMA, of 16 x 8 x 16 multiply-adds of bfloat16, or of
            half as many of tf32, at half the rate: both take the same time.
    """

    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    instructions: float
    multiply_adds: float
    shared_waves: float
    sectors: float
    memory_bytes: float
    stall_clocks: float
    matrix_products: float = 0.0

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if getattr(self, field.name) < 0]
        if wrong or not self.blocks:
            raise ValueError(f"a launch of {self.blocks} blocks with negative counts: {wrong}")
        if self.multiply_adds + self.matrix_products > self.instructions:
            raise ValueError("a launch has more multiply-adds than instructions")


@dataclass(frozen=True, slots=True)
class Parts:
    """Estimated seconds of the overlapping parts of a launch, and of its start and end."""

    issue_s: float
    multiply_add_s: float
    matrix_s: float
    shared_s: float
    l2_s: float
    memory_s: float
    latency_s: float
    launch_s: float = LAUNCH_S

    @property
    def seconds(self) -> float:
        """Estimated seconds of the launch."""
        return self.launch_s + max(
            self.issue_s,
            self.multiply_add_s,
            self.matrix_s,
            self.shared_s,
            self.l2_s,
            self.memory_s,
            self.latency_s,
        )

    @property
    def bound_by(self) -> str:
        """The name of the longest part."""
        parts = [field.name for field in fields(self) if field.name != "launch_s"]
        return max(parts, key=lambda name: float(getattr(self, name))).removesuffix("_s")


def estimate(facts: LaunchFacts, gpu: Gpu) -> Parts | None:
    """Return the estimated parts of a launch, or None if a block fits no SM."""
    fits = occupancy(gpu, facts.threads, facts.registers, facts.shared_bytes)
    if not fits.blocks_per_sm:
        return None
    busiest = -(-facts.blocks // gpu.sms)  # blocks of the SM that ends last
    clock_s = busiest / gpu.clock_hz  # seconds of one clock per block, on the busiest SM
    rounds = -(-busiest // fits.blocks_per_sm)  # blocks that follow each other
    alone = facts.instructions / -(-facts.threads // gpu.warp)  # clocks of a warp without stalls
    return Parts(
        issue_s=clock_s * facts.instructions / gpu.schedulers_per_sm,
        multiply_add_s=clock_s * facts.multiply_adds * gpu.warp / gpu.ffma_per_clock,
        matrix_s=clock_s * facts.matrix_products * MATRIX_MULTIPLY_ADDS / gpu.bf16_per_clock,
        shared_s=clock_s * facts.shared_waves * SHARED_WAVE_CLOCKS,
        l2_s=clock_s * facts.sectors * SECTOR_BYTES / L2_BYTES_PER_CLOCK,
        memory_s=facts.memory_bytes / _bandwidth(facts, gpu),
        latency_s=rounds * (alone + STALL_CLOCKS * facts.stall_clocks) / gpu.clock_hz,
    )


def seconds(launches: Iterable[LaunchFacts], gpu: Gpu) -> float | None:
    """Return the estimated seconds of launches one after the other; None if one cannot run."""
    total = 0.0
    for facts in launches:
        parts = estimate(facts, gpu)
        if parts is None:
            return None
        total += parts.seconds
    return total


def _bandwidth(facts: LaunchFacts, gpu: Gpu) -> float:
    """Return bytes per second of device memory: few blocks reach it from few SMs."""
    return gpu.memory_bytes_per_s * min(facts.blocks, gpu.sms) / gpu.sms
