"""A builder and a slot without processes: deterministic implementations of the two protocols."""

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.errors import AnsorError
from ansorpy.loopir.nodes import Buffer, Program
from ansorpy.loopir.printer import text
from ansorpy.measure.code_cache import CodeCache
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.protocols import (
    BuildRequest,
    BuildResult,
    Checked,
    CheckRequest,
    TrialRequest,
)
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.unbound import Unbound, bound
from ansorpy.measure.workers.build_queue import BuildQueue
from ansorpy.target import Target
from ansorpy.te.dag import Dag


@dataclass(frozen=True)
class LoopText:
    """The text of a program as its machine code."""

    text: str
    program: Program = field(compare=False)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.program.buffers

    @property
    def phases(self) -> tuple[PhaseInfo, ...]:
        return ()

    @property
    def steady(self) -> tuple[str, ...]:
        return ()


class Answers:
    """Answers that were computed already, and a descriptor that is readable while there are any."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def patience_s(self) -> float:
        return 1.0

    def _tell(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def _taken(self) -> None:
        os.eventfd_read(self._descriptor)


class InProcessBuilder(Answers):
    """A builder that binds and prints when a batch is submitted."""

    cores: frozenset[int] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.built: list[BuildRequest] = []
        self._results: list[BuildResult | Failed] | None = None

    @property
    def idle(self) -> bool:
        return self._results is None

    def submit(self, requests: Sequence[BuildRequest], timeout_s: float) -> None:
        assert self._results is None
        self.built += requests
        self._results = [_built(request) for request in requests]
        self._tell()

    def results(self) -> list[BuildResult | Failed]:
        found, self._results = self._results, None
        assert found is not None
        self._taken()
        return found


class InProcessSlot(Answers):
    """A slot whose outcomes are computed from the program by a function."""

    cores: frozenset[int] = frozenset()

    def __init__(self, outcome: Callable[[Program], Outcome]) -> None:
        super().__init__()
        self.requests: list[TrialRequest | CheckRequest] = []
        self.prepared: set[Dag | None] = set()
        self._outcome = outcome
        self._answer: Outcome | Checked | None = None

    def prepare(self, meanings: Iterable[Dag | None], first_only: bool = False) -> None:
        self.prepared |= set(meanings)

    def reserve(self) -> AbstractContextManager[None]:
        return nullcontext()

    def submit(self, request: TrialRequest | CheckRequest) -> None:
        assert self._answer is None
        self.requests.append(request)
        assert isinstance(request.built, LoopText)
        found = self._outcome(request.built.program)
        is_check = isinstance(request, CheckRequest) and not isinstance(found, Failed)
        self._answer = Checked(0.0, 0.0) if is_check else found
        self._tell()

    def advance(self) -> Outcome | Checked | None:
        answer, self._answer = self._answer, None
        self._taken()
        return answer


def in_process(
    target: Target, outcome: Callable[[Program], Outcome], builders: int = 1
) -> BatchMeasurer:
    """Return a measurer of candidates that starts no process."""
    made = [InProcessBuilder() for _ in range(builders)]
    queue = BuildQueue(made, frozenset(), CodeCache())
    return BatchMeasurer(queue, InProcessSlot(outcome), "in process", target)


def _built(request: BuildRequest) -> BuildResult | Failed:
    assert isinstance(request.what, Program | Unbound)
    try:
        return BuildResult(loops(request.what, request.target), 0.0)
    except AnsorError as error:
        return Failed("build", f"{type(error).__name__}: {error}")


@lru_cache(maxsize=2048)  # many tests tune one task with one seed
def loops(what: Program | Unbound, target: Target) -> LoopText:
    """Return a bound candidate and its text."""
    program = bound(what, target)
    return LoopText(text(program), program)


def prebuild(batches: BatchMeasurer, candidates: Sequence[Unbound], later: bool = False) -> None:
    """Start to build candidates; as `MeasurePool.prebuild`."""
    requests = [batches.request_of(one) for one in candidates]
    batches.queue.prebuild(requests, 1.0, later)
