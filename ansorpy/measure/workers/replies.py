"""The five ways in which a call of a worker process ends."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned `value`; `excerpt` is the end of the output of the child."""

    value: Any
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised: the phase, and the exception's type, message and traceback."""

    phase: str
    error: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Died:
    """The child ended without an answer: a signal (negative code) or an exit code."""

    code: int
    note: str
    fault: int | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The child was killed at its time-out."""

    timeout_s: float
    note: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Misbehaved:
    """The child was killed because its answer was malformed or it exceeded a limit."""

    why: str
    note: str
    excerpt: str


Reply = Returned | Raised | Died | TimedOut | Misbehaved
