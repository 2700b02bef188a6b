"""Builds and measurements side by side: cores that nothing is timed on go on building.

A builder on a core of the slot (or on its twin) rests while the slot works. The slot starts as
soon as something is ready and its cores are free, and gives them back when nothing is: on two
cores one builds all the time, the other does both, a candidate at a time. Where every core is the
slot's, builders finish what there is to build first: two phases. A builder that was begun on
something before the batch joins in when it is done, and answers first what it was begun on.
"""

import selectors
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

from ansorpy.measure.workers.replies import Reply
from ansorpy.measure.workers.worker import GRACE_S, Worker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """What a worker is asked."""

    worker: Worker
    function: str
    argument: object
    timeout_s: float
    fresh: bool = False


Steps = Generator[Call, Reply, T]  # calls one after the other, their replies, then a result


class Pump(Generic[T]):
    """The flow of one batch.

    Args:
        builders: each on cores of its own.
        area: the cores that must be quiet while something is timed.
        build: the call that builds number i, on some builder.
        measure: what to do with the reply: steps on the slot's workers, or already the result.
        hold: taken while the slot works.
        unless: once the first says so nothing more is built, and the second is the result of what
            was not.
        owner: the builder that began on a number before the batch; no other one builds it.
        after: called once, when all is built or being built and a builder that never rests has
            nothing to do.
    """

    def __init__(
        self,
        builders: Sequence[Worker],
        area: frozenset[int],
        build: Callable[[int, Worker], Call],
        measure: Callable[[int, Reply, float], Steps[T] | T],
        hold: Callable[[], AbstractContextManager[None]],
        unless: tuple[Callable[[], bool], T] | None = None,
        owner: Callable[[int], Worker | None] = lambda number: None,
        after: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._idle = list(builders)
        self._area = area
        self._build, self._measure, self._hold, self._clock = build, measure, hold, clock
        self._unless, self._owner, self._after = unless, owner, after
        self._ready: deque[tuple[int, Steps[T]]] = deque()
        self._results: dict[int, T] = {}
        self._running: dict[int, tuple[Call, float, Callable[[Reply, float], None]]] = {}
        self._building = 0  # on cores of the area
        self._timed: tuple[int, Steps[T]] | None = None
        self._holding = False

    def run(self, count: int) -> list[T]:
        """Return the results of 0 ... count - 1."""
        waiting = deque(range(count))
        with selectors.DefaultSelector() as selector, ExitStack() as held:
            self._selector = selector
            while len(self._results) < count:
                self._start_slot(held)
                self._give_up(waiting)
                self._start_builders(waiting)
                if not waiting and any(not one.spec.cores & self._area for one in self._idle):
                    self._after()
                    self._after = lambda: None
                self._wait()
        return [self._results[i] for i in range(count)]

    def _give_up(self, waiting: "deque[int]") -> None:
        if waiting and self._unless is not None and self._unless[0]():
            self._results.update(dict.fromkeys(waiting, self._unless[1]))
            waiting.clear()

    def _start_slot(self, held: ExitStack) -> None:
        if self._timed is not None or self._building:
            return
        if not self._ready:
            held.close()  # others may time something now
            self._holding = False
            return
        if not self._holding:
            for worker in self._idle:
                if worker.spec.cores & self._area:
                    worker.join()
            held.enter_context(self._hold())
            self._holding = True
        while self._timed is None and self._ready:
            self._timed = self._ready.popleft()
            self._step(None)

    def _start_builders(self, waiting: "deque[int]") -> None:
        for worker in sorted(self._idle, key=lambda one: one.busy):
            shared = bool(worker.spec.cores & self._area)
            busy = self._timed is not None or (self._ready and not self._building)
            number = self._next(waiting, worker)
            if number is None or (shared and busy) or (worker.busy and self._running):
                continue
            self._idle.remove(worker)
            self._building += shared
            waiting.remove(number)

            def built(
                reply: Reply,
                seconds: float,
                number: int = number,
                worker: Worker = worker,
                shared: bool = shared,
            ) -> None:
                self._idle.append(worker)
                self._building -= shared
                self._note(number, reply, seconds)

            self._send(self._build(number, worker), built)

    def _next(self, waiting: "deque[int]", worker: Worker) -> int | None:
        """Return what a builder began on before, else the first that nobody did."""
        own = (number for number in waiting if self._owner(number) is worker)
        free = (number for number in waiting if self._owner(number) is None)
        return next(own, next(free, None))

    def _note(self, number: int, reply: Reply, seconds: float) -> None:
        found = self._measure(number, reply, seconds)
        if isinstance(found, Generator):
            self._ready.append((number, found))
        else:
            self._results[number] = found

    def _step(self, reply: Reply | None) -> None:
        """Go on with what is being measured."""
        assert self._timed is not None
        number, steps = self._timed
        try:
            call = next(steps) if reply is None else steps.send(reply)
        except StopIteration as end:
            self._results[number], self._timed = end.value, None
        else:
            self._send(call, lambda reply, seconds: self._step(reply))

    def _send(self, call: Call, then: Callable[[Reply, float], None]) -> None:
        worker = call.worker
        worker.send(call.function, call.argument, call.timeout_s, fresh=call.fresh)
        self._running[worker.fileno()] = (call, self._clock(), then)
        self._selector.register(worker.fileno(), selectors.EVENT_READ)

    def _wait(self) -> None:
        if not self._running:
            return
        ends = [began + 2 * call.timeout_s for call, began, _ in self._running.values()]
        patience_s = min(ends) + GRACE_S - self._clock()
        ready = [key.fd for key, _ in self._selector.select(max(0.0, patience_s))]
        for fd in ready or list(self._running):  # none: all are silent, `receive` decides
            call, began, then = self._running.pop(fd)
            self._selector.unregister(fd)
            then(call.worker.receive(), self._clock() - began)


def at_once(steps: Steps[T]) -> T:
    """Return the result of steps, waiting for every reply."""
    try:
        call = next(steps)
        while True:
            call = steps.send(
                call.worker.call(call.function, call.argument, call.timeout_s, fresh=call.fresh)
            )
    except StopIteration as end:
        result: T = end.value
        return result
