"""Calls at several sizes of dims as one: its time is the mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EachSize:
    """One call at each size; a sample of it is the mean over the sizes."""

    calls: Sequence[Callable[[], object]]

    def __call__(self) -> None:
        """Call once at each size."""
        for call in self.calls:
            call()
