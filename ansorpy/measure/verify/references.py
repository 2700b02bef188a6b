"""The cases of a task as files: the first is made beside other work, the rest when it is needed."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansorpy.measure.sandbox.seals import Sealed
from ansorpy.measure.verify.cases import Case, each_case, save_cases
from ansorpy.measure.verify.inputs import constants
from ansorpy.te.dag import Dag


class References:
    """Makes the cases of `each_case` and keeps them in sealed folders; all of them in `whole`.

    The first begins at once, in a thread: NumPy lets others go on while it computes.
    """

    def __init__(self, dag: Dag, seed: int, edges: bool, sealed: Sealed, whole: Path) -> None:
        self._dag, self._sealed, self._whole = dag, sealed, whole
        self._cases: Iterator[Case] = each_case(dag, seed, edges)
        self._thread = ThreadPoolExecutor(1, "reference")
        self._first = self._thread.submit(next, self._cases)
        self._made: set[Path] = set()
        self._one: Path | None = None

    def first(self) -> Path:
        """Return the folder of the first case, once that is known.

        Raises:
            SpecError: an element outside a tensor is read.
        """
        if self._one is None:
            first = self._first.result()
            self._one = self._sealed.folder()
            self._save((first,), self._one)
        return self._one

    def all(self) -> Path:
        """Return the folder of all cases; they are made when it is first asked for.

        Raises:
            SpecError: an element outside a tensor is read.
        """
        if self._whole not in self._made:
            self._save((self._first.result(), *self._cases), self._whole)
        return self._whole

    def _save(self, cases: Sequence[Case], folder: Path) -> None:
        self._sealed.keep(folder, save_cases(cases, constants(self._dag), folder))
        self._made.add(folder)

    def close(self) -> None:
        """Let go of the thread; what it has begun it ends."""
        self._thread.shutdown(wait=False, cancel_futures=True)
