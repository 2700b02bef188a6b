"""The places that answer questions: the seam between a search and a carrier of its bytes."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Protocol

from ansorpy.cluster.messages import SlotFacts
from ansorpy.errors import RunError


class LostSlotError(RunError):
    """The slot ended, or cannot be reached, before it answered."""


class SlotGroup(Protocol):
    """Slots that come and go. Each answers one question at a time, in the order of arrival.

    A name belongs to one process: a slot that is started again has a new name and no pools.
    """

    def present(self) -> Mapping[str, SlotFacts]:
        """Return the slots that can be asked now, by name."""

    def ask(self, name: str, frame: bytes) -> "Future[bytes]":
        """Send a question; the future has the frame of the answer, or raises `LostSlotError`."""

    def drop(self, name: str) -> None:
        """End a slot that is late, with all that it runs: it is not present from now on.

        Its futures raise `LostSlotError`.
        """

    def close(self) -> None:
        """End the work of this driver on all slots; may be called twice."""
