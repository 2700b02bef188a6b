"""Slots that are processes of this machine, one for each set of cores."""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Lock, Timer
from typing import Final

from ansorpy.cluster.framed import FramedProcess
from ansorpy.cluster.greeting import Greeting
from ansorpy.cluster.messages import Question, SlotFacts
from ansorpy.cluster.slots import LostSlotError, ReturnedError
from ansorpy.measure.values import encode

MAIN: Final = "ansorpy.cluster.slot_daemon"


class SlotProcess:
    """A slot daemon and the questions that it has not answered, in order."""

    def __init__(self, cores: Sequence[int], module: str = MAIN) -> None:
        command = [sys.executable, "-m", module, ",".join(map(str, cores))]
        self._due: deque[tuple[Future[bytes], float]] = deque()  # with their limits in seconds
        self._lock, self._reason = Lock(), "the process of the slot ended before it answered"
        self._timer: Timer | None = None
        self.process = FramedProcess(command, self._take, self._ended)

    def ask(self, question: Question, limit_s: float) -> "Future[bytes]":
        """Send a question; as `SlotGroup.ask`."""
        future: Future[bytes] = Future()
        if not self.process.send(encode(question), lambda: self._add(future, limit_s)):
            future.set_exception(LostSlotError("the process of the slot has ended"))
        return future

    def _add(self, future: "Future[bytes]", limit_s: float) -> None:
        with self._lock:
            self._due.append((future, limit_s))
            if len(self._due) == 1:
                self._begin()

    def _begin(self) -> None:
        """Let the clock of the first question run."""
        self._timer = Timer(self._due[0][1], self._late, self._due[0])
        self._timer.daemon = True
        self._timer.start()

    def _late(self, future: "Future[bytes]", limit_s: float) -> None:
        with self._lock:
            if not self._due or self._due[0][0] is not future:
                return
            self._reason = f"the slot did not answer within {limit_s:.0f} s"
        self.process.kill()

    def _take(self, frame: bytes) -> None:
        with self._lock:
            future, _ = self._due.popleft()
            if self._timer is not None:
                self._timer.cancel()
            if self._due:
                self._begin()
        future.set_result(frame)

    def _ended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for future, _ in self._due:
            future.set_exception(LostSlotError(self._reason))


class ProcessSlots:
    """Slots on sets of cores of this machine; a slot that ends is started again.

    Args:
        core_sets: the cores of each slot.
        module: the daemon.
    """

    def __init__(self, core_sets: Sequence[Sequence[int]], module: str = MAIN) -> None:
        self._module = module
        self._places = [tuple(one) for one in core_sets]
        self.running: dict[str, SlotProcess] = {}
        self._greeting = Greeting(self.ask)
        self._lock = Lock()  # rounds of several threads look at the slots
        self._count = 0
        self._closed = False
        self.present()

    def present(self) -> Mapping[str, SlotFacts]:
        """Return the slots that have told their facts; start slots that ended again."""
        with self._lock:
            for name in [name for name, one in self.running.items() if not one.process.alive]:
                self.running.pop(name).process.close()
            taken = {int(name.removeprefix("slot").partition("#")[0]) for name in self.running}
            for place, cores in enumerate(() if self._closed else self._places):
                if place not in taken:
                    self._count += 1
                    name = f"slot{place}#{self._count}"
                    self.running[name] = self.start(place, cores)
            return self._greeting.known(self.running)

    def start(self, place: int, cores: Sequence[int]) -> SlotProcess:
        """Start the slot of a set of cores, by its place."""
        return SlotProcess(cores, self._module)

    def resting(self) -> str:
        """Return "": a slot of this machine has no hours."""
        return ""

    def ask(self, name: str, question: Question, limit_s: float) -> "Future[bytes]":
        """Send a question; as `SlotGroup.ask`."""
        if name not in self.running:
            future: Future[bytes] = Future()
            future.set_exception(ReturnedError(f"there is no slot {name}"))
            return future
        return self.running[name].ask(question, limit_s)

    def close(self) -> None:
        """End every slot; may be called twice."""
        self._closed = True
        for one in self.running.values():
            one.process.close()
        self.running.clear()
