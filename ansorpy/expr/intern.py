"""Weak tables of interned values: equal expressions are one object (hash-consing).

A table maps a key to a weak reference. A key names the parts of a value by `id`, so that a table
keeps nothing alive: the value itself holds its parts, and an id is valid as long as the value is.
An entry of a dead value is overwritten by the next value of the same key, or swept away when the
table has doubled.
"""

import os
from collections.abc import Callable
from threading import RLock
from types import NoneType
from typing import Final, Generic, TypeVar, cast
from weakref import ref

FIRST_SWEEP: Final = 4096  # entries of a table before dead ones are looked for

T = TypeVar("T")
Key = tuple[object, ...]

absent: Final = cast("Callable[[], None]", NoneType)  # a dead reference, to be called like one

# One lock for all tables: a finalizer that interns may run while this thread adds (so reentrant),
# and a fork must not copy a table that another thread is changing.
_LOCK: Final = RLock()
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


class InternTable(Generic[T]):
    """Weak references to the values of one class, by key.

    `get(key, absent)()` is the fast path: the live value of a key, or None.
    """

    def __init__(self) -> None:
        self._refs: dict[Key, ref[T]] = {}
        self._sweep_at = FIRST_SWEEP
        self.get: Final[Callable[[Key, Callable[[], None]], Callable[[], T | None]]] = (
            self._refs.get
        )

    def add(self, key: Key, value: T) -> T:
        """Return the value of a key: `value`, unless another thread was faster."""
        with _LOCK:
            found = self._refs.get(key, absent)()
            if found is not None:
                return found
            if len(self._refs) >= self._sweep_at:
                self.sweep()
                self._sweep_at = max(FIRST_SWEEP, 2 * len(self._refs))
            self._refs[key] = ref(value)
            return value

    def sweep(self) -> None:
        """Remove the entries of dead values."""
        with _LOCK:
            for key, entry in tuple(self._refs.items()):
                if entry() is None and self._refs.get(key) is entry:
                    del self._refs[key]

    def __len__(self) -> int:
        """Return how many entries there are, entries of dead values included."""
        return len(self._refs)
