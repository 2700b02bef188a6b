"""What was timed: the same machine code is not timed again (ADR-0084)."""

from dataclasses import replace
from typing import Final

from ansorpy.measure.backend import Built
from ansorpy.measure.outcome import Measured
from ansorpy.te.dag import Dag

REMEMBERED: Final = 256  # each some tens of kilobytes


class Timed:
    """The outcomes of the machine code that was timed last."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._outcomes: dict[tuple[Dag | None, Built], Measured] = {}  # the last one used last

    def of(self, meaning: Dag | None, built: Built, build_s: float) -> Measured | None:
        """Return what was found for the same machine code of the same meaning, at no time."""
        known = self._outcomes.get((meaning, built))
        if known is None:
            return None
        self.note(meaning, built, known)
        return replace(known, build_s=build_s, check_s=0.0, run_s=0.0, load_s=0.0)

    def note(self, meaning: Dag | None, built: Built, outcome: Measured) -> None:
        """Remember what was found; the one that was not asked for for longest is forgotten."""
        self._outcomes.pop((meaning, built), None)
        self._outcomes[meaning, built] = outcome
        if len(self._outcomes) > self._limit:
            del self._outcomes[next(iter(self._outcomes))]
