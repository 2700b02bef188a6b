"""Trials of one task, shared among slots in batches, with their costs on one scale."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Final

from ansorpy.cluster.calls import ATTEMPTS, TaskCalls
from ansorpy.cluster.messages import answered, outcomes
from ansorpy.cluster.scale import DRIFT, Marks, drift, marks_of, scaled
from ansorpy.cluster.slots import LostSlotError, ReturnedError
from ansorpy.errors import WireError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.unbound import Unbound

BATCH: Final = 16  # candidates of one question at most: a lost slot costs one batch
GRACE_S: Final = 60.0  # seconds of a question beside the time-outs of its candidates
RETRIES: Final = 3  # rounds in which the marks of a slot may disagree, until it is left alone
TICK_S: Final = 0.5  # seconds after which slots that came or went are looked at

Candidate = Program | Unbound


@dataclass(slots=True)
class Batch:
    """Places of candidates in a round, and how many slots have lost them."""

    places: tuple[int, ...]
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Running:
    """A question under way; `batch` is None if the slot times the marks."""

    slot: str
    batch: Batch | None


@dataclass(slots=True)
class Scale:
    """Factors by slot, and the marks that a slot without a factor times.

    The slot of the first candidate has factor 1.0. `apart` counts how often the marks of a slot
    disagreed, `rough` is its mean ratio then.
    """

    factors: dict[str, float] = field(default_factory=dict)
    rough: dict[str, float] = field(default_factory=dict)
    apart: dict[str, int] = field(default_factory=dict)
    marked: list[Candidate] = field(default_factory=list)
    marks: Marks = field(default_factory=Marks)


class SharedRound:
    """Candidates of one round on their way through the slots.

    A batch goes to an idle slot; a lost one goes to another slot, once. Outcomes of a slot are held
    until its factor is known. They depend on the order of candidates, never on the order in which
    slots answer.

    Args:
        run_timeout_s: time-out of one candidate.
        late: once it is true, no further batch is given out.
    """

    def __init__(
        self,
        calls: TaskCalls,
        scale: Scale,
        candidates: Sequence[Candidate],
        best_s: float | None,
        run_timeout_s: float,
        late: Callable[[], bool],
    ) -> None:
        self._calls, self._crew, self._scale = calls, calls.crew, scale
        self._candidates, self._best_s = candidates, best_s
        self._run_timeout_s, self._late = run_timeout_s, late
        self._outcomes: list[Outcome | None] = [None] * len(candidates)
        self._waiting: deque[Batch] = deque()
        self._held: dict[str, list[tuple[Batch, list[Outcome]]]] = {}
        self._running: dict[Future[bytes], Running] = {}
        self._no: set[str] = set()  # slots whose marks disagreed in this round

    def run(self) -> list[Outcome | None]:
        """Return one outcome per candidate; None if it became late first."""
        slots = self._crew.wait(self._apart())
        count = len(self._candidates)
        size = max(1, min(BATCH, -(-count // len(slots))))
        for begin in range(0, count, size):
            self._waiting.append(Batch(tuple(range(begin, min(begin + size, count)))))
        while self._waiting or self._running or self._held:
            if self._late():
                self._waiting.clear()
            self._begin()
            if not self._running:
                if not self._waiting:
                    break
                self._crew.wait(self._apart())
                self._crew.pause()
                continue
            wait(self._running, TICK_S, FIRST_COMPLETED)
            for future in [one for one in self._running if one.done()]:
                self._take(self._running.pop(future), future)
            self._choose_marks()
            self._settle()
        return self._outcomes

    def _disagreeing(self) -> set[str]:
        """Return the slots whose marks disagreed in this round, or too often."""
        apart = self._scale.apart.items()
        return {name for name, times in apart if times >= RETRIES or name in self._no}

    def _apart(self) -> set[str]:
        """Return the slots that this round does not use; none if there are no others."""
        apart, usable = self._disagreeing(), self._crew.usable()
        if not usable or not apart.issuperset(usable):
            return apart
        for name in usable:
            self._scale.factors[name] = self._scale.rough[name]
            del self._scale.apart[name]
            self._crew.note(f"slot {name} is used all the same: no other one is there")
        return apart.difference(usable)

    def _begin(self) -> None:
        """Give the marks or a batch to each slot that has nothing to do."""
        scale = self._scale
        for name in self._crew.idle(self._apart()):
            factor = scale.factors.get(name)
            marks = factor is None and scale.marked and (self._waiting or name in self._held)
            batch = self._waiting and (factor is not None or name not in self._held)
            if not (marks or batch) or not self._crew.hold(name):
                continue
            if marks:
                self._ask(name, None, scale.marked, None)
            else:
                first = self._waiting.popleft()
                known = self._best_s is not None and factor is not None
                limit_s = self._best_s * factor if known else None  # type: ignore[operator]
                self._ask(name, first, [self._candidates[k] for k in first.places], limit_s)

    def _ask(
        self, name: str, batch: Batch | None, chosen: Sequence[Candidate], best_s: float | None
    ) -> None:
        limit_s = GRACE_S + len(chosen) * self._run_timeout_s
        future = self._calls.ask(name, limit_s, "measure", list(chosen), best_s)
        self._running[future] = Running(name, batch)

    def _take(self, running: Running, future: "Future[bytes]") -> None:
        """Take the answer to a question, or give its candidates back."""
        self._crew.release(running.slot)
        count = len(self._scale.marked) if running.batch is None else len(running.batch.places)
        try:
            told = outcomes(answered(future.result()), count)
        except ReturnedError:
            self._give_back(running)
            return
        except (LostSlotError, WireError) as error:
            self._give_back(running, str(error))
            return
        answer = [one for one in told if one is not None]
        if running.batch is None:
            if len(answer) == count:
                self._judge(running.slot, answer)
            return
        batch = self._split(running.batch, told)
        others = {*self._crew.usable()} - self._disagreeing() - {running.slot}
        if answer and (slow := drift(answer)) >= DRIFT and others:
            reason = f"its reference kernel takes {slow:.2f} times as long as before"
            self._crew.set_aside(running.slot, reason)
            self._waiting.appendleft(batch)
        elif answer:
            self._held.setdefault(running.slot, []).append((batch, answer))

    def _judge(self, name: str, answer: Sequence[Outcome]) -> None:
        """Take the times of the marks: a factor, or a slot that is not used for this task."""
        factor = self._scale.marks.factor(answer)
        if factor is not None:
            self._scale.factors[name] = factor
            return
        self._scale.rough[name] = self._scale.marks.rough_factor(answer)
        self._scale.apart[name] = self._scale.apart.get(name, 0) + 1
        self._no.add(name)
        self._crew.tell(name, f"its times of {len(answer)} kernels disagree with another slot")
        self._return_held(name)

    def _return_held(self, name: str) -> None:
        """Let other slots measure the candidates whose outcomes are held."""
        self._waiting.extendleft(batch for batch, _ in reversed(self._held.pop(name, [])))

    def _split(self, batch: Batch, answer: Sequence[Outcome | None]) -> Batch:
        """Give back the candidates that a slot did not come to; return the others."""
        left = tuple(k for k, one in zip(batch.places, answer, strict=True) if one is None)
        if left:
            self._waiting.appendleft(Batch(left, batch.losses))
        return Batch(tuple(k for k in batch.places if k not in left), batch.losses)

    def _give_back(self, running: Running, reason: str = "") -> None:
        """Return the batches of a slot that is gone; the second loss of a batch is its failure.

        Without a reason the slot has given the batch back.
        """
        self._return_held(running.slot)
        if running.batch is None:
            return
        running.batch.losses += bool(reason)
        if running.batch.losses < ATTEMPTS:
            self._waiting.appendleft(running.batch)
            return
        for place in running.batch.places:
            self._outcomes[place] = Failed("crash", f"two slots lost its batch: {reason}"[:500])

    def _choose_marks(self) -> None:
        """Choose the marks from the first candidates with a time, once none before is under way."""
        if self._scale.marked:
            return
        under_way = [one.batch for one in self._running.values() if one.batch is not None]
        first = min(
            (one.places for one in (*self._waiting, *under_way)), default=(len(self._outcomes),)
        )
        timed = [
            (batch.places, name, answer)
            for name, pairs in self._held.items()
            for batch, answer in pairs
            if marks_of(answer) and batch.places < first
        ]
        if timed:
            places, name, answer = min(timed, key=lambda one: one[0])
            picked = marks_of(answer)
            self._scale.marked = [self._candidates[places[k]] for k in picked]
            self._scale.marks = Marks(tuple(picked.values()))
            self._scale.factors[name] = 1.0

    def _settle(self) -> None:
        """Note the outcomes whose factor is known, or needless; give back batches of lost slots."""
        usable = self._crew.usable()
        for name, pairs in list(self._held.items()):
            factor = self._scale.factors.get(name)
            for pair in list(pairs):
                batch, answer = pair
                if factor is None and any(isinstance(one, Measured) for one in answer):
                    continue
                pairs.remove(pair)
                for place, one in zip(batch.places, answer, strict=True):
                    self._outcomes[place] = scaled(one, factor or 1.0)
            if pairs and name not in usable:
                self._return_held(name)
            elif not pairs:
                del self._held[name]
