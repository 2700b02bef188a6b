"""The slots of one kind that a tuning uses: which are idle, and which are set aside, and why."""

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from threading import RLock
from typing import Final

from ansorpy.cluster.messages import Question, SlotFacts, refusal
from ansorpy.cluster.slots import SlotGroup
from ansorpy.errors import RunError
from ansorpy.records import target_digest
from ansorpy.target import Target
from ansorpy.units import counted

PATIENCE_S: Final = 600.0  # seconds without any slot until the tuning ends
POLL_S: Final = 0.05
LOOK_S: Final = 5.0  # seconds between two looks at the slots while an answer is awaited


class Crew:
    """Slots of the kind of a target, with enough cores and equal versions.

    Args:
        patience_s: seconds to wait while there is no slot.
    """

    def __init__(
        self,
        slots: SlotGroup,
        target: Target,
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots, self._target = slots, target
        self._patience_s, self._sleep, self._clock = patience_s, sleep, clock
        self._busy: set[str] = set()
        self._lock, self._closed = RLock(), False
        self._news: list[str] = []
        self._number = 0  # slots when they were told last
        self._judged: set[str] = set()  # slots whose facts were looked at
        self._aside: dict[str, str] = {}  # slot -> the reason why it is not used

    def usable(self) -> list[str]:
        """Return the slots that may be asked, busy ones too, in the order of their names."""
        present = self._slots.present()
        for name in present.keys() - self._judged:
            self._judged.add(name)
            if reason := self._reason(present[name]):
                self.set_aside(name, reason)
        return sorted(name for name in present if name not in self._aside)

    def _reason(self, slot: SlotFacts) -> str:
        kind, threads = target_digest(self._target), self._target.host_threads
        if reason := refusal(slot.versions):
            return reason
        if slot.kind != kind:
            return f"cannot use it because it is of kind {slot.kind}; expected {kind}"
        if len(slot.cores) < threads:
            return f"cannot use it because it has {len(slot.cores)} cores; expected {threads}"
        return ""

    def set_aside(self, name: str, reason: str) -> None:
        """Use a slot no longer, and tell the reason."""
        self._aside[name] = reason
        self.tell(name, reason)

    def tell(self, name: str, reason: str) -> None:
        """Tell why a slot is not used."""
        self.note(f"slot {name} is not used: {reason}")

    def note(self, text: str) -> None:
        """Add a sentence to the news."""
        self._news.append(text)

    def news(self) -> list[str]:
        """Return the number of slots if it has changed, and reasons, each once."""
        number = len(self.usable())
        if number != self._number:
            self._number = number
            resting = "" if number else self._slots.resting()
            rest = f"; the first slot outside its hours is back at {resting}" if resting else ""
            kind = target_digest(self._target)
            self._news.append(f"{counted(number, 'slot')} of kind {kind}{rest}")
        told, self._news = self._news, []
        return told

    def idle(self, without: Collection[str] = ()) -> list[str]:
        """Return the slots that have nothing to do."""
        with self._lock:
            return [one for one in self.usable() if one not in {*self._busy, *without}]

    def hold(self, name: str) -> bool:
        """Make an idle slot busy; False if it has become busy."""
        with self._lock:
            if name in self._busy:
                return False
            self._busy.add(name)
            return True

    def wait(self, without: Collection[str] = ()) -> list[str]:
        """Return the usable slots; wait until there is one.

        Raises:
            RunError: there is none for `patience_s`, and none that rests until its hours begin.
        """
        end_s = self._clock() + self._patience_s
        while not (found := [name for name in self.usable() if name not in without]):
            if self._closed:
                raise RunError("cannot measure because the tuning has ended")
            if self._slots.resting():
                end_s = self._clock() + self._patience_s
            if self._clock() > end_s:
                told = "; ".join(f"{name}: {text}" for name, text in self._aside.items())
                raise RunError(
                    f"cannot measure because no slot of kind {target_digest(self._target)} came"
                    f" within {self._patience_s:.0f} s; expected one{': ' if told else ''}{told}"
                )
            self._sleep(POLL_S)
        return found

    def ask(self, name: str, question: Question, limit_s: float) -> "Future[bytes]":
        """Send a question to a slot; as `SlotGroup.ask`."""
        return self._slots.ask(name, question, limit_s)

    def answer(self, future: "Future[bytes]") -> bytes:
        """Wait for an answer, and look after the slots meanwhile."""
        while True:
            with suppress(TimeoutError):
                return future.result(LOOK_S)
            self._slots.present()

    def release(self, name: str) -> None:
        """Note that a slot that was held has answered."""
        with self._lock:
            self._busy.discard(name)

    def close(self) -> None:
        """End every wait for a slot."""
        self._closed = True

    def pause(self) -> None:
        """Wait a moment for a slot that another round has."""
        self._sleep(POLL_S)
