"""The cache of machine code by build request, and of outcomes by machine code (ADR-0039)."""

from collections import OrderedDict
from dataclasses import replace
from typing import Final, Generic, TypeVar

from ansorpy.measure.backend import MachineCode
from ansorpy.measure.outcome import Measured
from ansorpy.measure.protocols import BuildRequest, BuildResult
from ansorpy.te.dag import Dag

ENTRIES: Final = 256  # entries of each kind; machine code of a candidate takes 20 to 60 KiB

K = TypeVar("K")
V = TypeVar("V")


class _Lru(Generic[K, V]):
    """A mapping that evicts the least recently used entry above `limit` entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)


class CodeCache:
    """Machine code that was built for one task, and the outcome of each distinct machine code.

    Candidates with equal machine code and equal meaning share one measurement.
    """

    def __init__(self, limit: int = ENTRIES) -> None:
        self._limit = limit
        self.clear()

    def clear(self) -> None:
        """Remove every entry."""
        self._code = _Lru[BuildRequest, BuildResult](self._limit)
        self._outcomes = _Lru[tuple[Dag | None, MachineCode], Measured](self._limit)

    def code(self, request: BuildRequest) -> BuildResult | None:
        """Return the result of an equal request; None if it is not cached."""
        return self._code.get(request)

    def put_code(self, request: BuildRequest, result: BuildResult) -> None:
        """Cache the result of a build."""
        self._code.put(request, result)

    def outcome(self, meaning: Dag | None, done: BuildResult) -> Measured | None:
        """Return the outcome of equal machine code of the same meaning; None if not cached.

        Its seconds of building come from this build; checking and timing take none.
        """
        known = self._outcomes.get((meaning, done.built))
        if known is None:
            return None
        return replace(known, build_s=done.build_s, check_s=0.0, run_s=0.0, load_s=0.0)

    def put_outcome(self, meaning: Dag | None, built: MachineCode, outcome: Measured) -> None:
        """Cache the outcome of machine code."""
        self._outcomes.put((meaning, built), outcome)
