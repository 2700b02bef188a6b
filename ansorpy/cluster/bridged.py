"""Slots of a Ray cluster, asked through a bridge process that is started again if it ends."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from threading import Lock
from typing import Final

from ansorpy.cluster.framed import FramedProcess
from ansorpy.cluster.greeting import Greeting
from ansorpy.cluster.messages import SlotFacts
from ansorpy.cluster.slots import LostSlotError

BRIDGE: Final = "ansorpy.cluster.ray.bridge"
AGAIN_S: Final = 2.0  # seconds between two starts of a bridge


class Bridge:
    """A bridge process, the names of its slots, and the questions that it has not answered."""

    def __init__(self, address: str, environment: Mapping[str, str], module: str = "") -> None:
        command = [sys.executable, "-m", BRIDGE, address, *([module] if module else [])]
        self._due: dict[int, Future[bytes]] = {}
        self._numbers = count(1)
        self.names: list[str] = []
        self.process = FramedProcess(command, self._take, self._ended, environment)

    def ask(self, name: str, frame: bytes) -> "Future[bytes]":
        """Send a question; the future has the answer, or raises `LostSlotError`."""
        future: Future[bytes] = Future()
        number = next(self._numbers)
        message = json.dumps({"ask": number, "slot": name}).encode() + b"\n" + frame
        if not self.process.send(message, lambda: self._due.update({number: future})):
            future.set_exception(LostSlotError("the bridge to the cluster has ended"))
        return future

    def drop(self, name: str) -> None:
        """End a slot that is late."""
        self.names = [one for one in self.names if one != name]
        self.process.send(json.dumps({"drop": name}).encode(), lambda: None)

    def _take(self, frame: bytes) -> None:
        line, _, data = frame.partition(b"\n")
        header = json.loads(line)
        if "slots" in header:
            self.names = [str(name) for name in header["slots"]]
        elif "answer" in header:
            self._due.pop(header["answer"]).set_result(data)
        else:
            reason = str(header["reason"])[:500]
            self._due.pop(header["lost"]).set_exception(LostSlotError(reason))

    def _ended(self) -> None:
        self.names = []
        for future in self._due.values():
            future.set_exception(LostSlotError("the bridge to the cluster ended"))


class BridgedSlots:
    """The slots of a Ray cluster; as `SlotGroup`.

    Args:
        address: HOST:PORT of the head.
        environment: of the bridge (`ray.environment.ray_environment`).
        module: the slot daemon, if it is another one.
    """

    def __init__(
        self,
        address: str,
        environment: Mapping[str, str],
        module: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._environment, self._module = address, environment, module
        self._clock = clock
        self._greeting = Greeting(self.ask)
        self._count, self._closed = 0, False
        self._lock = Lock()  # rounds of several threads look at the slots
        self._start()

    def _start(self) -> None:
        self._count += 1
        self.bridge = Bridge(self._address, self._environment, self._module)
        self._again_s = self._clock() + AGAIN_S

    def present(self) -> Mapping[str, SlotFacts]:
        """Return the slots that have told their facts; start a bridge that has ended again."""
        with self._lock:
            due = not self._closed and self._clock() >= self._again_s
            if due and not self.bridge.process.alive:
                self.bridge.process.close()
                self._start()
            return self._greeting.known([f"{self._count}:{one}" for one in self.bridge.names])

    def ask(self, name: str, frame: bytes) -> "Future[bytes]":
        """Send a question; as `SlotGroup.ask`."""
        number, _, inside = name.partition(":")
        if number != str(self._count):
            future: Future[bytes] = Future()
            future.set_exception(LostSlotError("the bridge to the slot has ended"))
            return future
        return self.bridge.ask(inside, frame)

    def drop(self, name: str) -> None:
        """End a slot that is late; as `SlotGroup.drop`."""
        number, _, inside = name.partition(":")
        if number == str(self._count):
            self.bridge.drop(inside)

    def close(self) -> None:
        """End the bridge; may be called twice."""
        self._closed = True
        self.bridge.process.close()
