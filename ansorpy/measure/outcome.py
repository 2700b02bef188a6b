"""What a trial gives: a value either way, never 1e10 or None."""

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
    slowdown: float = 1.0  # times slower than usual that the control ran beside it

    @property
    def cost_s(self) -> float:
        """The number that the search minimises: the fastest sample, had the machine been usual."""
        return min(self.times_s) / self.slowdown


@dataclass(frozen=True, slots=True)
class Failed:
    """The trial gave no time; `message` is one line, `excerpt` what helps to find the cause."""

    kind: FailureKind
    message: str
    excerpt: str = ""
    seconds: float = 0.0


Outcome = Measured | Failed
