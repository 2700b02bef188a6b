"""The queue of a task: candidates that wait for a trial."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from ansorpy.measure.outcome import Outcome
from ansorpy.search import Candidate


@dataclass(slots=True)
class TrialQueue:
    """Candidates that are measured before the search strategy proposes others."""

    first: Candidate | None = None  # the delivered first answer, which is measured first
    held: list[Candidate] = field(default_factory=list)  # deferred to the next round
    under_way: list[Candidate] = field(
        default_factory=list
    )  # candidates of rounds that have not ended
    # Outcomes that take the place of trials, by (plan as text, row); ADR-0030.
    recorded: Mapping[tuple[str, tuple[int, ...]], Outcome] = field(default_factory=dict)

    def waiting(self, measured: Container[Candidate]) -> list[Candidate]:
        """Return the deferred candidates, then the first answer unless it is measured."""
        first = self.first
        known = [*self.held, *self.under_way]
        new = first is not None and first not in measured and first not in known
        return [*self.held, first] if first is not None and new else list(self.held)

    def defer(self, candidate: Candidate) -> None:
        """Defer a candidate to the next round, ahead of others."""
        self.held = [candidate, *(one for one in self.held if one != candidate)]
