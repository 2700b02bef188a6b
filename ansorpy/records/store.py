"""Stores of records: append-only, and the source of each record's origin."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ansorpy.measure.outcome import Measured
from ansorpy.records.record import IMPORTED, MEASURED, Origin, Record


class RecordStore(Protocol):
    """An append-only store. Appended records survive a crash; equal records are kept once.

    Returned records have the `origin` of their first `append`.
    """

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Keep `records`, all of them or (after a crash) a prefix.

        Args:
            origin: `measured` from the tuner that measured them; never taken from a file.
        """
        ...

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task, oldest first."""
        ...

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task (races do not count), or None."""
        ...

    def similar(self, structure: str) -> tuple[Record, ...]:
        """Return the fastest complete trial of each key whose Dags have this structure.

        They are of other shapes, other machines or other numbers of threads (`structure_key`).
        """
        ...

    def count(self, key: str | None = None) -> int:
        """Return the number of records, of one task or of all."""
        ...

    def export(self) -> Iterator[Record]:
        """Yield every record, oldest first."""
        ...


def best_of(records: Iterable[Record]) -> Record | None:
    """Return the fastest complete trial, the earliest of equal ones; None if none has a time."""
    timed = [
        record
        for record in records
        if isinstance(record.outcome, Measured)
        and not record.outcome.aborted
        and record.race is None
    ]
    return min(timed, key=lambda record: record.best_s or 0.0, default=None)


def best_of_each(records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the fastest complete trial of every key, in the order in which keys come first.

    Trials that the store has measured come before imported ones, whose times are claims. Of a key
    without a complete trial none is returned.
    """
    best: dict[str, Record] = {}
    for record in records:
        if best_of([record]) is None:
            continue
        before = best.setdefault(record.key, record)
        if (before.origin == MEASURED) == (record.origin == MEASURED):
            best[record.key] = best_of([before, record]) or before
        elif record.origin == MEASURED:
            best[record.key] = record
    return tuple(best.values())


class MemoryStore:
    """A store of this process only: for tests, and for searches without earlier records."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Keep `records` until the process ends."""
        self._add({record.id: record for record in records}, origin)

    def _add(self, records: Mapping[str, Record], origin: Origin) -> None:
        """Keep records by id; to compute one takes the JSON of its record."""
        for key, record in records.items():
            self._records.setdefault(key, replace(record, origin=origin))

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task, oldest first."""
        return tuple(record for record in self._records.values() if record.key == key)

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task, or None."""
        return best_of(self.all(key))

    def similar(self, structure: str) -> tuple[Record, ...]:
        """Return the fastest complete trial of each key whose Dags have this structure."""
        return best_of_each(one for one in self._records.values() if one.structure == structure)

    def count(self, key: str | None = None) -> int:
        """Return the number of records, of one task or of all."""
        return len(self._records) if key is None else len(self.all(key))

    def export(self) -> Iterator[Record]:
        """Yield every record, oldest first."""
        yield from self._records.values()
