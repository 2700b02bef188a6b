"""Times of a raced kernel at single sizes of its dims, in one process of the kind of a race."""

from collections.abc import Sequence
from typing import Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.measure.protocols import BuildResult
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.timing.local_slot import LocalSlot
from ansorpy.measure.timing.paired_benchmark import BenchmarkJob, EachSizeJob, SizedTimes
from ansorpy.measure.workers.failure_kinds import failed_run
from ansorpy.measure.workers.pipeline import build_all
from ansorpy.measure.workers.replies import Returned
from ansorpy.te.dag import Dag

EACH_SIZE: Final = "ansorpy.measure.timing.paired_benchmark:benchmark_each_size"
VISITS: Final = 5  # samples of each contestant at each size; half of a race


def time_sizes(
    batches: BatchMeasurer,
    slot: LocalSlot,
    dag: Dag,
    kernel: Program | Kernel,
    sizes: Sequence[tuple[int, ...]],
    numpy: bool,
) -> SizedTimes | Failed:
    """Time a kernel at single sizes; as `RacePool.time_sizes`."""
    settings, queue = slot.settings, batches.queue
    (done,) = build_all(queue, [batches.request_of(kernel)], settings.source_timeout_s)
    if not isinstance(done, BuildResult):
        return done
    job = BenchmarkJob(
        settings.backend, (("ours", done.built),), str(slot.cases.of(None)), settings.sampling,
        slot.workers.threads, VISITS, dag if numpy else None,
    )  # fmt: skip
    queue.wait_quiet()
    with slot.reserve(), slot.workers.racers(1) as (racer,):
        fresh, timeout_s = racer is slot.workers.slot, settings.race_timeout_s
        reply = racer.call(EACH_SIZE, EachSizeJob(job, dag, tuple(sizes)), timeout_s, fresh=fresh)
    if not isinstance(reply, Returned):
        return failed_run(reply, 0.0)
    found: SizedTimes = reply.value
    if any(min(row, default=0.0) <= 0.0 for row in found) or len(found) != len(sizes):
        return Failed("crash", "no times of all sizes", reply.excerpt)
    return found
