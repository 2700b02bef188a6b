"""The cases of a task as files: the first is made beside other work, the rest when it is needed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ansorpy.measure.cases import Case, each_case, save_cases
from ansorpy.measure.inputs import constants
from ansorpy.te.dag import Dag

FIRST: Final = "first"  # the folder of the first case alone


class References:
    """Makes the cases of `each_case` and keeps them below `folder`.

    The first begins at once, in a thread: NumPy lets others go on while it computes.
    """

    def __init__(self, dag: Dag, seed: int, edges: bool, folder: Path) -> None:
        self._dag, self._folder = dag, folder
        self._cases: Iterator[Case] = each_case(dag, seed, edges)
        self._thread = ThreadPoolExecutor(1, "reference")
        self._first = self._thread.submit(next, self._cases)
        self._made: set[Path] = set()

    def first(self) -> Path:
        """Return the folder of the first case, once that is known.

        Raises:
            SpecError: an element outside a tensor is read.
        """
        place = self._folder / FIRST
        if place not in self._made:
            first = self._first.result()
            place.mkdir(exist_ok=True)
            save_cases((first,), constants(self._dag), place)
            self._made.add(place)
        return place

    def all(self) -> Path:
        """Return the folder of all cases; they are made when it is first asked for.

        Raises:
            SpecError: an element outside a tensor is read.
        """
        if self._folder not in self._made:
            cases = (self._first.result(), *self._cases)
            save_cases(cases, constants(self._dag), self._folder)
            self._made.add(self._folder)
        return self._folder

    def close(self) -> None:
        """Let go of the thread; what it has begun it ends."""
        self._thread.shutdown(wait=False, cancel_futures=True)
