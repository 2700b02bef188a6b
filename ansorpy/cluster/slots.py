"""The places that answer questions: the seam between a search and a carrier of its bytes."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Protocol

from ansorpy.cluster.messages import Question, SlotFacts
from ansorpy.errors import RunError


class LostSlotError(RunError):
    """The slot ended, cannot be reached, or was late, before it answered."""


class ReturnedError(RunError):
    """The slot gave a question back before it began; another slot may answer it."""


class SlotGroup(Protocol):
    """Slots that come and go. Each answers one question at a time, in the order of arrival.

    A name belongs to one process: a slot that is started again has a new name and no pools.
    """

    def present(self) -> Mapping[str, SlotFacts]:
        """Return the slots that can be asked now, by name."""

    def resting(self) -> str:
        """Return when the first slot outside its hours is back, as ISO 8601; "" if none rests."""

    def ask(self, name: str, question: Question, limit_s: float) -> "Future[bytes]":
        """Send a question; the future has the frame of the answer.

        It raises `ReturnedError`, or `LostSlotError`: the slot is not present any more then. A
        question that takes longer than `limit_s` from its begin ends its slot.
        """

    def close(self) -> None:
        """End the work of this driver on all slots; may be called twice."""
