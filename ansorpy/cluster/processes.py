"""Slots that are processes of this machine, one for each set of cores."""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Final

from ansorpy.cluster.framed import FramedProcess
from ansorpy.cluster.greeting import Greeting
from ansorpy.cluster.messages import SlotFacts
from ansorpy.cluster.slots import LostSlotError

MAIN: Final = "ansorpy.cluster.slot_daemon"


class SlotProcess:
    """A slot daemon and the questions that it has not answered, in order."""

    def __init__(self, cores: Sequence[int], module: str = MAIN) -> None:
        command = [sys.executable, "-m", module, ",".join(map(str, cores))]
        self._due: deque[Future[bytes]] = deque()
        self.process = FramedProcess(command, self._take, self._ended)

    def ask(self, frame: bytes) -> "Future[bytes]":
        """Send a question; the future has the answer, or raises `LostSlotError`."""
        future: Future[bytes] = Future()
        if not self.process.send(frame, lambda: self._due.append(future)):
            future.set_exception(LostSlotError("the process of the slot has ended"))
        return future

    def _take(self, frame: bytes) -> None:
        self._due.popleft().set_result(frame)

    def _ended(self) -> None:
        for future in self._due:
            future.set_exception(LostSlotError("the process of the slot ended before it answered"))


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

    def ask(self, name: str, frame: bytes) -> "Future[bytes]":
        """Send a question; as `SlotGroup.ask`."""
        if name not in self.running:
            future: Future[bytes] = Future()
            future.set_exception(LostSlotError(f"there is no slot {name}"))
            return future
        return self.running[name].ask(frame)

    def drop(self, name: str) -> None:
        """End a slot that is late; as `SlotGroup.drop`."""
        if name in self.running:
            self.running[name].process.kill()

    def close(self) -> None:
        """End every slot; may be called twice."""
        self._closed = True
        for one in self.running.values():
            one.process.close()
        self.running.clear()
