"""The two services of a measurement: a *builder* (unbound candidate -> machine code) and a *slot*
(machine code -> outcome).

Local processes implement both (`workers.local_builder`, `timing.local_slot`). A remote machine, an
emulator or a CUDA device takes part by implementing these protocols; `BuildRunPipeline` drives any
mixture. Both are asynchronous without threads: a request is submitted, a file descriptor becomes
readable, the answer is taken.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import MachineCode
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.unbound import Unbound
from ansorpy.target import Target
from ansorpy.te.dag import Dag


@dataclass(frozen=True)
class BuildRequest:
    """Make machine code of an unbound candidate, a program, delivered source, or a library."""

    backend: str
    what: Program | Kernel | Export | Unbound
    target: Target

    @staticmethod
    def of(backend: str, what: Program | Kernel | Unbound, target: Target) -> "BuildRequest":
        """Return the request of a candidate; builders do not need its meaning."""
        return BuildRequest(backend, replace(what, meaning=None), target)


@dataclass(frozen=True)
class BuildResult:
    """Machine code, and the seconds that it took to make."""

    built: MachineCode
    build_s: float


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """Check and time machine code.

    best_s     least cost of the task so far: a slot may give up early on a slower kernel, and runs
               every case only for a faster one
    reference  the reference kernel and its usual cost, to be timed beside the candidate (ADR-0074)
    fresh      run it in a process, or on a context, that no other candidate has used
    first_only the first case is every case
    """

    built: MachineCode
    meaning: Dag | None
    best_s: float | None = None
    reference: tuple[MachineCode, float] | None = None
    fresh: bool = False
    first_only: bool = False


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Check machine code on every case; with `glance_s` on the first, for at most so long."""

    built: MachineCode
    meaning: Dag | None
    glance_s: float | None = None


@dataclass(frozen=True)
class Checked:
    """The cases passed; `errors` of the first case, per output, if every case was run."""

    load_s: float
    check_s: float
    errors: tuple[float, ...] = ()


class Builder(Protocol):
    """A compiler that works on one batch at a time.

    `results` has one entry per submitted request, in the same order. A request that cannot be built
    is a `Failed`, never an exception; a batch that crashed its compiler or exceeded its time-out is
    a `Failed` for each of its requests. A result may be cached: equal requests give machine code of
    equal meaning and speed.
    """

    @property
    def cores(self) -> frozenset[int]:
        """The cores of this machine that a build occupies; empty if it runs elsewhere."""

    @property
    def idle(self) -> bool:
        """True if the builder has started and has no batch in progress."""

    def submit(self, requests: Sequence[BuildRequest], timeout_s: float) -> None:
        """Start a batch and return; the results of the batch before have been taken."""

    def fileno(self) -> int:
        """Return a descriptor that is readable once `results` would not block."""

    def patience_s(self) -> float:
        """Return for how many seconds to wait for the descriptor before calling `results`."""

    def results(self) -> list[BuildResult | Failed]:
        """Return the results of the batch in progress; block until they are there."""


class Measurer(Protocol):
    """A measuring back end of another package: it times machine code in place of a slot.

    It may run the code elsewhere, simulate it, or price it. One object serves all tasks of a
    tuning, one call at a time, in the process of the tuning, each call in a thread of its own. A
    call without an answer after `timeout_s` seconds, an attribute that may be missing (60), ends
    the tuning. Its times rank candidates and compare with one another only: leaders are checked
    and raced by the slot of this machine.
    """

    def measure(self, trial: TrialRequest, dag: Dag) -> Measured | Failed:
        """Return the samples of one call of the kernel, in seconds, or the reason for their lack.

        Args:
            trial: machine code (`ansorpy.codegen.loader.Built`: object files, the functions of the
                phases, buffers in the order of their addresses), and the least cost so far.
            dag: the meaning of the kernel.

        Returns:
            `Measured`, whose `times_s` has one finite positive number per sample, at least one; the
            least one ranks. `Failed` for a candidate without a time. Any exception ends the tuning.
        """


class Slot(Protocol):
    """A place that checks and times machine code of one task, one request at a time.

    Machine code may hang, crash or write anywhere: all of that is a `Failed`, and leaves later
    requests unaffected. Times of one slot compare with times of the same slot only.
    """

    @property
    def cores(self) -> frozenset[int]:
        """The cores of this machine that must be idle while it measures; empty if elsewhere."""

    def prepare(self, meanings: Iterable[Dag | None], first_only: bool = False) -> None:
        """Make the cases for programs of these meanings; called before `reserve`."""

    def reserve(self) -> AbstractContextManager[None]:
        """Keep other jobs from measuring at this place; entered around one or more requests."""

    def submit(self, request: TrialRequest | CheckRequest) -> None:
        """Start a request and return; the answer to the request before has been taken."""

    def fileno(self) -> int:
        """Return a descriptor that is readable once `advance` would not block; it may change."""

    def patience_s(self) -> float:
        """Return for how many seconds to wait for the descriptor before calling `advance`."""

    def advance(self) -> Outcome | Checked | None:
        """Take one step of the request in progress; return its answer, None if more steps follow.

        The answer to a `TrialRequest` is an `Outcome`, to a `CheckRequest` `Checked` or `Failed`.
        """
