"""Slots of a Ray cluster, asked through a bridge process that is started again if it ends."""

import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict
from itertools import count
from threading import Lock
from typing import Final

from ansorpy.cluster.framed import FramedProcess
from ansorpy.cluster.greeting import Greeting
from ansorpy.cluster.messages import Question, SlotFacts
from ansorpy.cluster.share import ClusterUser
from ansorpy.cluster.slots import LostSlotError, ReturnedError
from ansorpy.measure.values import encode

BRIDGE: Final = "ansorpy.cluster.ray.bridge"
AGAIN_S: Final = 2.0  # seconds between two starts of a bridge
SILENT_S: Final = 120.0  # seconds without a message until a bridge is ended


class Bridge:
    """A bridge process, the names of its slots, and the questions that it has not answered."""

    def __init__(
        self, address: str, share: ClusterUser, environment: Mapping[str, str], module: str = ""
    ) -> None:
        told = json.dumps(asdict(share))
        command = [sys.executable, "-m", BRIDGE, address, told, *([module] if module else [])]
        self._due: dict[int, Future[bytes]] = {}
        self._numbers = count(1)
        self.names: list[str] = []
        self.resting = ""
        self.heard_s = time.monotonic()
        self.process = FramedProcess(command, self._take, self._ended, environment)

    def ask(self, name: str, question: Question, limit_s: float) -> "Future[bytes]":
        """Send a question; as `SlotGroup.ask`."""
        future: Future[bytes] = Future()
        number = next(self._numbers)
        header = {
            "ask": number, "slot": name, "limit": limit_s, "method": question.method,
            "trials": question.trials,
        }  # fmt: skip
        message = json.dumps(header).encode() + b"\n" + encode(question)
        if not self.process.send(message, lambda: self._due.update({number: future})):
            future.set_exception(LostSlotError("the bridge to the cluster has ended"))
        return future

    def _take(self, frame: bytes) -> None:
        line, _, data = frame.partition(b"\n")
        header = json.loads(line)
        self.heard_s = time.monotonic()
        if "slots" in header:
            self.names = [str(name) for name in header["slots"]]
            self.resting = str(header["resting"])[:40]
        elif "answer" in header:
            self._due.pop(header["answer"]).set_result(data)
        else:
            reason = str(header["reason"])[:500]
            if "returned" in header:
                self._due.pop(header["returned"]).set_exception(ReturnedError(reason))
            else:
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
        share: the name under which it uses the slots.
        module: the slot daemon, if it is another one.
    """

    def __init__(
        self,
        address: str,
        environment: Mapping[str, str],
        share: ClusterUser,
        module: str = "",
    ) -> None:
        self._address, self._environment, self._module = address, environment, module
        self._share = share
        self._greeting = Greeting(self.ask)
        self._count, self._closed = 0, False
        self._lock = Lock()  # rounds of several threads look at the slots
        self._start()

    def _start(self) -> None:
        self._count += 1
        self.bridge = Bridge(self._address, self._share, self._environment, self._module)
        self._again_s = time.monotonic() + AGAIN_S

    def present(self) -> Mapping[str, SlotFacts]:
        """Return the slots that have told their facts; start a bridge that has ended again."""
        with self._lock:
            now_s, process = time.monotonic(), self.bridge.process
            if process.alive and self.bridge.heard_s < now_s - SILENT_S:
                process.kill()
            if not self._closed and now_s >= self._again_s and not process.alive:
                process.close()
                self._start()
            return self._greeting.known([f"{self._count}:{one}" for one in self.bridge.names])

    def resting(self) -> str:
        """Return when the first slot outside its hours is back; as `SlotGroup.resting`."""
        return self.bridge.resting

    def ask(self, name: str, question: Question, limit_s: float) -> "Future[bytes]":
        """Send a question; as `SlotGroup.ask`."""
        number, _, inside = name.partition(":")
        if number != str(self._count):
            future: Future[bytes] = Future()
            future.set_exception(ReturnedError("the bridge to the slot has ended"))
            return future
        return self.bridge.ask(inside, question, limit_s)

    def close(self) -> None:
        """End the bridge; may be called twice."""
        self._closed = True
        self.bridge.process.close()
