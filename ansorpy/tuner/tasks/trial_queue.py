"""The queue of a task: candidates that wait for a trial."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansorpy.measure.outcome import Outcome
from ansorpy.search import Candidate


@dataclass(slots=True)
class TrialQueue:
    """Candidates that are measured before those of the search strategy."""

    first: Candidate | None = None  # the delivered first answer, which is measured first
    held: list[Candidate] = field(default_factory=list)  # deferred to the next round
    # Outcomes that take the place of trials, by (plan as text, row); ADR-0030.
    recorded: Mapping[tuple[str, tuple[int, ...]], Outcome] = field(default_factory=dict)

    def defer(self, candidate: Candidate) -> None:
        """Defer a candidate to the next round, ahead of others."""
        self.held = [candidate, *(one for one in self.held if one != candidate)]
