"""The outcome of a trial: times, an estimate or a failure, all as values."""

from dataclasses import dataclass
from typing import Literal

FailureKind = Literal[
    "build", "build-timeout", "load", "crash", "run-timeout", "wrong", "out-of-bounds", "memory",
    "spills", "occupancy",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """Wall times of one call in seconds, one per sample, warm-up excluded."""

    times_s: tuple[float, ...]
    build_s: float = 0.0  # emit and compile
    check_s: float = 0.0
    run_s: float = 0.0  # all of the timing
    aborted: bool = False  # hopeless: stopped after its first sample
    load_s: float = 0.0  # machine code to callable
    slowdown: float = 1.0  # slowdown of the reference kernel beside it

    @property
    def best_s(self) -> float:
        """The fastest sample, as measured: the time that people are shown."""
        return min(self.times_s)

    @property
    def cost_s(self) -> float:
        """The number that the search ranks by: the fastest sample over `slowdown` (ADR-0074).

        A cost compares with other costs of the same pool only, and is never shown as a time.
        """
        return min(self.times_s) / self.slowdown


@dataclass(frozen=True, slots=True)
class Estimated:
    """Seconds that an analytic model gives for one call, without a device (ADR-0143).

    They rank candidates and are no measurement: there is no `best_s`, which people are shown.

    Args:
        seconds: of all launches, one after the other.
        parts: seconds by the name of the part, sorted, each summed over the launches.
        registers: largest count of a thread over the launches.
        assembled: ptxas counted the registers; else they are an estimate, too.
        build_s: seconds of this machine for binding, printing, compiling and estimating.
    """

    seconds: float
    parts: tuple[tuple[str, float], ...] = ()
    registers: int = 0
    assembled: bool = False
    build_s: float = 0.0

    @property
    def cost_s(self) -> float:
        """The number that the search ranks by; it compares with other estimates only."""
        return self.seconds


@dataclass(frozen=True, slots=True)
class Failed:
    """A trial without a time; `message` is one line, `excerpt` output or a traceback."""

    kind: FailureKind
    message: str
    excerpt: str = ""
    seconds: float = 0.0


Outcome = Measured | Estimated | Failed
