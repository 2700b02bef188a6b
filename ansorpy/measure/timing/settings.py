"""The settings of local processes that measure."""

from dataclasses import dataclass, field

from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.workers.pool import WorkerSettings


@dataclass(frozen=True, slots=True)
class MeasureSettings(WorkerSettings):
    """The measurement of candidates and the processes for it; times in seconds."""

    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    build_timeout_s: float = 20.0
    source_timeout_s: float = 120.0  # time-out of a build of delivered source, by numba's front end
    run_timeout_s: float = 10.0  # time-out of load, check and timing of one candidate
    race_timeout_s: float = 120.0  # time-out of one process of a race
    race_processes: int = 3
    race_visits: int = 10
    seed: int = 0
    edges: bool = True  # check zeros, subnormals and large values too
