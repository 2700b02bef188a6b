"""The build-run pipeline: build candidates on all cores while the slot measures finished ones.

A builder on a core of the slot (or on its SMT sibling) rests while the slot measures. The slot
starts as soon as machine code is ready and its cores are free, and releases them when none is: on
two cores one builds all the time, the other one builds and measures in turns. If every core belongs
to the slot, the pipeline degenerates into two phases. A batch that was started before the pipeline
is waited for, not repeated.
"""

import select
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Generic, TypeVar

from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.protocols import (
    Builder,
    BuildRequest,
    BuildResult,
    Checked,
    CheckRequest,
    Slot,
    TrialRequest,
)
from ansorpy.measure.workers.build_queue import BuildQueue

T = TypeVar("T")


class BuildRunPipeline(Generic[T]):
    """The flow of one sequence of build requests.

    Args:
        slot: None if nothing is to be measured.
        request_of: the request to the slot for number i, or already its result. It is called when
            the slot is free, so that it can use all earlier outcomes.
        result_of: the result of number i from its machine code and the answer of the slot.
        stop: once the first is true nothing more is built, and the second is the result of every
            number that was not built.
    """

    def __init__(
        self,
        queue: BuildQueue,
        slot: Slot | None,
        request_of: Callable[[int, BuildResult], TrialRequest | CheckRequest | T],
        result_of: Callable[[int, BuildResult, Outcome | Checked], T],
        stop: tuple[Callable[[], bool], T] | None = None,
    ) -> None:
        self._queue, self._slot = queue, slot
        self._request_of, self._result_of, self._stop = request_of, result_of, stop
        self._results: dict[int, T | Failed] = {}
        self._numbers: dict[BuildRequest, list[int]] = {}  # numbers by unfinished request
        self._waiting: deque[BuildRequest] = deque()
        self._ready: deque[tuple[int, BuildResult]] = deque()
        self._measured: tuple[int, BuildResult] | None = None  # in the slot
        self._reserved = False

    def run(self, requests: Sequence[BuildRequest], timeout_s: float) -> list[T | Failed]:
        """Return the results of the requests, or the failures of their builds, in order."""
        for number, request in enumerate(requests):
            self._numbers.setdefault(request, []).append(number)
        self._queue.take_finished()
        self._look_up()
        with ExitStack() as reserved:
            while len(self._results) < len(requests):
                self._start_slot(reserved)
                self._give_up()
                self._start_builders(timeout_s)
                self._wait()
        self._start_following(beside=False)
        return [self._results[number] for number in range(len(requests))]

    def _look_up(self) -> None:
        """Take known machine code; have every request built that no builder has."""
        under_way = {one for batch in self._queue.batches.values() for one in batch}
        for request in tuple(self._numbers):
            known = self._queue.cache.code(request)
            if known is not None:
                self._note(request, known)
            elif request not in under_way and request not in self._waiting:
                self._waiting.append(request)

    def _start_following(self, beside: bool) -> None:
        if self._stop is None or not self._stop[0]():
            self._queue.start_following(beside)

    def _give_up(self) -> None:
        if self._waiting and self._stop is not None and self._stop[0]():
            for request in self._waiting:
                self._results |= dict.fromkeys(self._numbers.pop(request), self._stop[1])
            self._waiting.clear()

    def _start_slot(self, reserved: ExitStack) -> None:
        if self._measured is not None or self._queue.disturbing:
            return
        if not self._ready:
            reserved.close()  # other jobs may measure now
            self._reserved = False
            return
        if not self._reserved:
            reserved.enter_context(nullcontext() if self._slot is None else self._slot.reserve())
            self._reserved = True
        while self._measured is None and self._ready:
            number, built = self._ready.popleft()
            request = self._request_of(number, built)
            if isinstance(request, TrialRequest | CheckRequest):
                assert self._slot is not None
                self._slot.submit(request)
                self._measured = number, built
            else:
                self._results[number] = request

    def _start_builders(self, timeout_s: float) -> None:
        if not self._waiting:
            self._start_following(beside=True)
        for builder in self._queue.builders:
            if not self._waiting:
                return
            slot_works = self._measured is not None or (self._ready and not self._queue.disturbing)
            if builder in self._queue.batches or (self._queue.disturbs(builder) and slot_works):
                continue
            self._queue.start(builder, [self._waiting.popleft()], timeout_s)

    def _note(self, request: BuildRequest, result: BuildResult | Failed) -> None:
        for number in self._numbers.pop(request, ()):  # two builders may build the same
            if isinstance(result, Failed):
                self._results[number] = result
            else:
                self._ready.append((number, result))

    def _built(self, builder: Builder) -> None:
        """Take the batch of a builder; a failure in a batch of several is built again alone."""
        alone = len(self._queue.batches[builder]) == 1
        for request, result in self._queue.take(builder):
            if isinstance(result, BuildResult) or alone:
                self._note(request, result)
            elif request in self._numbers:
                self._waiting.append(request)

    def _advance(self) -> None:
        assert self._slot is not None
        assert self._measured is not None
        answer = self._slot.advance()
        if answer is not None:
            (number, built), self._measured = self._measured, None
            self._results[number] = self._result_of(number, built, answer)

    def _wait(self) -> None:
        """Wait for a builder or the slot; take the answers that are there."""
        sources: dict[int, tuple[float, Callable[[], None]]] = {
            one.fileno(): (one.patience_s(), partial(self._built, one))
            for one in self._queue.batches
        }
        if self._slot is not None and self._measured is not None:
            sources[self._slot.fileno()] = self._slot.patience_s(), self._advance
        if not sources:
            self._look_up()  # the queue takes finished batches before it starts the following ones
            return
        poll = select.poll()
        for descriptor in sources:
            poll.register(descriptor, select.POLLIN)
        patience_s, overdue = min((one[0], descriptor) for descriptor, one in sources.items())
        ready = [descriptor for descriptor, _ in poll.poll(patience_s * 1e3)]
        for descriptor in ready or [overdue]:
            sources[descriptor][1]()


def build_all(
    queue: BuildQueue, requests: Sequence[BuildRequest], timeout_s: float
) -> list[BuildResult | Failed]:
    """Build on all builders; return machine code or failure of each request."""
    pipeline = BuildRunPipeline[BuildResult](queue, None, lambda _, result: result, _no_answer)
    return pipeline.run(requests, timeout_s)


def _no_answer(number: int, _built: BuildResult, answer: object) -> BuildResult:
    raise AssertionError(f"request {number} of a pipeline without a slot was answered: {answer}")
