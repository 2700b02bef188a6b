"""The outcome of a trial: times or a failure, both as values."""

from dataclasses import dataclass
from typing import Literal

FailureKind = Literal[
    "build", "build-timeout", "load", "crash", "run-timeout", "wrong", "out-of-bounds", "memory"
]


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
class Failed:
    """A trial without a time; `message` is one line, `excerpt` output or a traceback."""

    kind: FailureKind
    message: str
    excerpt: str = ""
    seconds: float = 0.0


Outcome = Measured | Failed
