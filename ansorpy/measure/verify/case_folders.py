"""The test cases of a task as sealed folders that measuring processes read.

A thread computes the first cases beside other work, and all others once they are needed or
`begin_others` is called.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice, takewhile
from pathlib import Path
from shutil import rmtree

from ansorpy.measure.sandbox.seals import Sealed
from ansorpy.measure.verify.cases import Case, each_case, first_count, load_cases, save_cases
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.te.dag import Dag


class CaseFolders:
    """Folders with the cases of `each_case`, and with those for programs of another meaning."""

    def __init__(self, dag: Dag, seed: int, edges: bool, sealed: Sealed) -> None:
        self._dag, self._sealed = dag, sealed
        self._whole = sealed.folder()
        self._cases: Iterator[Case] = each_case(dag, seed, edges)
        self._thread = ThreadPoolExecutor(1, "reference")
        self._count = first_count(dag)
        self._first: Future[tuple[Case, ...]] | None = self._thread.submit(self._firsts)
        self._others: Future[list[Case]] | None = None
        self._closed = False
        self._filled: set[Path] = set()
        self._single: Path | None = None
        self._reformulated: dict[tuple[Path, Dag], Path] = {}

    def first(self) -> Path:
        """Return the folder of the first cases, all that are timed; wait until they are computed.

        Raises:
            SpecError: an element outside a tensor is read.
        """
        if self._single is None:
            first = self._first_cases()
            self._single = self._sealed.folder()
            self._save(first, self._single)
        return self._single

    def _firsts(self) -> tuple[Case, ...]:
        return tuple(islice(self._cases, self._count))

    def _first_cases(self) -> tuple[Case, ...]:
        """Return the first cases, whose arrays are mapped once a folder has them."""
        if self._first is not None:
            return self._first.result()
        folder = next(iter(self._filled))
        self._sealed.check(folder)
        return load_cases(folder)[0][: self._count]

    def begin_others(self) -> None:
        """Start to compute all other cases beside other work; return at once."""
        if self._others is None:
            open_cases = takewhile(lambda _: not self._closed, self._cases)
            self._others = self._thread.submit(list, open_cases)

    def all(self) -> Path:
        """Return the folder of all cases; compute them at the first call.

        Raises:
            SpecError: an element outside a tensor is read.
        """
        if self._whole not in self._filled:
            self.begin_others()
            assert self._others is not None
            others = self._others.result()
            self._save((*self._first_cases(), *others), self._whole)
            others.clear()  # the files have them
        return self._whole

    def of(self, meaning: Dag | None, cases: Path | None = None) -> Path:
        """Return the folder of the cases for programs of a meaning; make it at the first call.

        Args:
            meaning: the Dag that the programs compute; None: the task's own.
            cases: the folder of some of the task's own cases; of all of them unless given.

        Raises:
            RunError: a file of the folder was changed since it was written.
        """
        cases = self.all() if cases is None else cases
        folder = cases if meaning is None else self._reformulated.get((cases, meaning))
        if folder is None:
            assert meaning is not None
            folder = self._reformulated[cases, meaning] = self._reformulate(cases, meaning)
        self._sealed.check(folder)
        return folder

    def _reformulate(self, cases: Path, meaning: Dag) -> Path:
        self._sealed.check(cases)
        folder = self._sealed.folder()
        known, fixed = load_cases(cases)
        self._sealed.keep(folder, save_cases(reformulated(known, meaning), fixed, folder))
        return folder

    def _save(self, cases: Sequence[Case], folder: Path) -> None:
        self._sealed.keep(folder, save_cases(cases, constants(self._dag), folder))
        self._filled.add(folder)
        self._first = None  # the folder has it

    def close(self) -> None:
        """Remove the folders; end the thread once its present computation is done."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        for folder in (self._whole, self._single, *self._reformulated.values()):
            if folder is not None:
                rmtree(folder, ignore_errors=True)
