"""Stores of records by name: ours, and stores of packages behind checks of their answers."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ansorpy.errors import shown
from ansorpy.records import IMPORTED, Origin, Record, RecordStore
from ansorpy.tuner.options.plugins import STORES, Plugin, chosen, failed, guarded
from ansorpy.tuner.parts.plugged import check_methods

VARIABLE: Final = "ANSORPY_STORE"
METHODS = ("append", "all", "best", "similar", "count", "export")


@dataclass(frozen=True, slots=True)
class PluggedStore:
    """A store of another package; an error names the package and the method."""

    plugin: Plugin
    store: RecordStore

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Keep `records`; PluginError if the store raises."""
        guarded(self.plugin, "append", self.store.append, records, origin)

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task, oldest first."""
        found = self._records("all", key)
        if any(record.key != key for record in found):
            raise failed(self.plugin, "all", f"returned a record of another task than {key}")
        return found

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task, or None."""
        found = guarded(self.plugin, "best", self.store.best, key)
        return None if found is None else self._record("best", found)

    def similar(self, structure: str) -> tuple[Record, ...]:
        """Return the fastest complete trial of each key whose Dags have this structure."""
        return self._records("similar", structure)

    def count(self, key: str | None = None) -> int:
        """Return the number of records, of one task or of all."""
        found: int = guarded(self.plugin, "count", lambda: int(self.store.count(key)))
        return found

    def export(self) -> Iterator[Record]:
        """Yield every record, oldest first."""
        found = guarded(self.plugin, "export", lambda: iter(self.store.export()))
        while (one := guarded(self.plugin, "export", next, found, None)) is not None:
            yield self._record("export", one)

    def _records(self, method: str, argument: str) -> tuple[Record, ...]:
        found = guarded(self.plugin, method, lambda: [*getattr(self.store, method)(argument)])
        return tuple(self._record(method, one) for one in found)

    def _record(self, method: str, answer: Any) -> Record:
        if not isinstance(answer, Record):
            raise failed(self.plugin, method, f"returned {shown(repr(answer))}, not a Record")
        return answer


def store_of(given: RecordStore | str | None) -> RecordStore:
    """Return a store by its name; a store itself; for None that which ANSORPY_STORE names.

    Without the variable it is the database, which the commands and the service have, too.

    Raises:
        SpecError: no store of this name is installed.
        PluginError: the store cannot be loaded or made.
    """
    if given is None:
        given = os.environ.get(VARIABLE) or STORES.default
    if not isinstance(given, str):
        return given
    plugin = chosen(STORES, given)
    made: RecordStore = plugin.make()
    if plugin.is_ours:
        return made
    check_methods(plugin, made, METHODS)
    return PluggedStore(plugin, made)
