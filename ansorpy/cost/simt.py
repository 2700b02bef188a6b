"""The analytic model of a GPU: seconds of a launch from counted facts, without a device.

A launch takes the longest of its parts, as they overlap: instructions issued, float32
multiply-adds, waves of shared memory, sectors of the L2 cache, bytes of the device memory. The
parts of an SM are those of its busiest: the last wave of blocks leaves others idle. Few resident
warps cannot hide latency, which lowers every rate.

Not handled: tensor cores, banks of registers, contention between SMs, clocks under load. Seconds
are estimates: they rank launches, and say nothing about a device until fitted to one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

from ansorpy.codegen.simt.occupancy import occupancy
from ansorpy.expr.coalescing import SECTOR_BYTES
from ansorpy.gpus import Gpu

# Raised if the estimate of a program changes: records of other versions are not compared with.
ESTIMATE_VERSION: Final = 3
SHARED_WAVE_CLOCKS: Final = 1.0  # clocks of an SM for a wave of shared memory: 128 bytes
L2_BYTES_PER_CLOCK: Final = 64.0  # bytes of an SM and clock from L2
LAUNCH_S: Final = 2.0e-6  # overhead of a launch inside of a graph, start to end
# Warps of an SM that keep its schedulers busy: two per scheduler for arithmetic with 8 independent
# chains, as register tiles have, and eight for loads that wait for L2 or memory.
BUSY_WARPS_PER_SCHEDULER: Final = 2.0
STREAMING_WARPS_PER_SCHEDULER: Final = 8.0


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Counts of a launch. Instructions, waves and sectors are sums over the warps of one block.

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

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if getattr(self, field.name) < 0]
        if wrong or not self.blocks:
            raise ValueError(f"a launch of {self.blocks} blocks with negative counts: {wrong}")
        if self.multiply_adds > self.instructions:
            raise ValueError("a launch has more multiply-adds than instructions")


@dataclass(frozen=True, slots=True)
class Parts:
    """Estimated seconds of the overlapping parts of a launch, and of its start and end."""

    issue_s: float
    multiply_add_s: float
    shared_s: float
    l2_s: float
    memory_s: float
    launch_s: float = LAUNCH_S

    @property
    def seconds(self) -> float:
        """Estimated seconds of the launch."""
        return self.launch_s + max(
            self.issue_s, self.multiply_add_s, self.shared_s, self.l2_s, self.memory_s
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
    resident = min(busiest, fits.blocks_per_sm) * (fits.warps_per_sm // fits.blocks_per_sm)
    arithmetic = _hidden(resident, gpu.schedulers_per_sm * BUSY_WARPS_PER_SCHEDULER)
    streaming = _hidden(resident, gpu.schedulers_per_sm * STREAMING_WARPS_PER_SCHEDULER)
    clock_s = busiest / gpu.clock_hz  # seconds of one clock per block, on the busiest SM
    return Parts(
        issue_s=clock_s * facts.instructions / gpu.schedulers_per_sm / arithmetic,
        multiply_add_s=clock_s * facts.multiply_adds * gpu.warp / gpu.ffma_per_clock / arithmetic,
        shared_s=clock_s * facts.shared_waves * SHARED_WAVE_CLOCKS / arithmetic,
        l2_s=clock_s * facts.sectors * SECTOR_BYTES / L2_BYTES_PER_CLOCK / streaming,
        memory_s=facts.memory_bytes / _bandwidth(facts, gpu, streaming),
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


def _bandwidth(facts: LaunchFacts, gpu: Gpu, streaming: float) -> float:
    """Return bytes per second of device memory: few blocks reach it from few SMs."""
    active = min(facts.blocks, gpu.sms) / gpu.sms
    return gpu.memory_bytes_per_s * active * streaming


def _hidden(warps: float, needed: float) -> float:
    """Return the part of the peak rate that so many warps reach, from above 0 to 1."""
    return min(1.0, warps / needed)
