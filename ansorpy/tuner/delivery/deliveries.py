"""Delivery of kernels: the best so far during the search, the winner of the final race."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

from ansorpy.cost.model import CostModel
from ansorpy.events import (
    BaselineTimed,
    Delivered,
    Emulating,
    Event,
    FirstAnswer,
    Racing,
    TaskDone,
    TaskResult,
)
from ansorpy.measure.outcome import Failed
from ansorpy.records import Record
from ansorpy.search import Candidate
from ansorpy.tuner.delivery import emulated
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.race import baseline, first_answer
from ansorpy.tuner.race.contestant import Contestant, untuned, untuned_candidate
from ansorpy.tuner.race.cpu_form import RERANK_S
from ansorpy.tuner.race.first_answer import First
from ansorpy.tuner.race.form import DeliveredForm, RaceResult
from ansorpy.tuner.race.race import deliver, race
from ansorpy.tuner.race.race_record import sealed
from ansorpy.tuner.race.results import empty_result, result_of
from ansorpy.tuner.reuse import record_lookup
from ansorpy.tuner.tasks.checkpoint import Journal
from ansorpy.tuner.tasks.ranges import in_turn, near, with_small_packs
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import Answer, TimeBudget
from ansorpy.tuner.tasks.twins import each_told, twin_result, zips

UNKNOWN_S: Final = 0.25  # time of a choice that never ran: the untuned kernel has 20 times that
RACES: Final = 3  # races at most, if no finalist passes
PART_LEADERS: Final = 8  # candidates of a range of sizes that are timed again in turns
PART_RERANK_S: Final = 0.5  # seconds in which they are
JOINED: Final = 2  # candidates that join kernels of ranges, measured and raced at the end
INTERIM: Final = "interim"  # the request of an intermediate race: it answers none


class Deliveries:
    """Races finalists and writes zips; a race of the same finalists is not run twice.

    Args:
        form: of the kernels that race and are delivered.
        digest: of the request that the final kernels answer.
        out: folder of the zips.
        hasty: the first answer is final, because there will be no trials.
        stored_races: of an earlier, interrupted attempt at this tuning, by task.
        libraries: deliver the verified library of the best candidate, without a race.
        repeatable: let no time that has no record decide: neither which of several choices is the
            first answer, nor whether a race drops a candidate while the search goes on.
        early: the option of that name.
        estimated: without a device, the first kernel that passes under the emulator is delivered.
        model, seed: of the tuning, for choices of the cost model that race without a trial.
    """

    def __init__(
        self,
        form: DeliveredForm[Any],
        pools: Pools,
        journal: Journal,
        digest: str,
        out: Path,
        budget: TimeBudget,
        hasty: bool = False,
        stored_races: Mapping[str, Record] | None = None,
        libraries: bool = False,
        repeatable: bool = False,
        early: bool = False,
        estimated: bool = False,
        model: CostModel | None = None,
        seed: int = 0,
    ) -> None:
        self._form, self._model, self._seed = form, model, seed
        self._libraries, self._repeatable, self._early = libraries, repeatable, early
        self._estimated = estimated
        self._hasty = hasty and form.on_the_way
        self._stored_races = stored_races or {}
        self._pools, self._journal = pools, journal
        self._digest, self._out, self._budget = digest, out, budget
        self._raced: dict[str, tuple[Sequence[Candidate], RaceResult[Any]]] = {}
        self._firsts: dict[str, First] = {}
        self._offered: dict[str, tuple[Candidate, float]] = {}  # the newest library, and its time
        self._written: dict[str, set[Path]] = {}  # the zips of this tuning by task
        self._untuned: set[str] = set()  # tasks that get their untuned kernel
        self._attempts: dict[str, list[list[Candidate]]] = {}  # choices of a first answer
        self._chosen: dict[str, list[Candidate]] = {}  # choices that race without a trial

    def open_pool(self, task: Task) -> None:
        """Start the processes of a task; its reference results are computed beside other work.

        An early tuning needs results of all cases for its first answer.
        """
        pool = self._pools.of(task)
        if self._early:
            pool.begin_cases()

    def answer_kind(self) -> Answer:
        """Return the first answer of the next task that its form has and there is time for."""
        kind = self._budget.answer() if self._form.on_the_way else "none"
        return "one" if kind == "several" and not self._hasty else kind

    @property
    def ends_with_answer(self) -> bool:
        """True if first answers are results: no search and no race follows."""
        return self._hasty

    def untuned_answer(self, task: Task) -> Iterator[FirstAnswer]:
        """Deliver the untuned kernel for lack of time, checked as a first answer is."""
        plain = [untuned_candidate(task)]
        found = self._deliver_library(task, [plain], first_only=not self._early)
        self._untuned.add(task.name)
        if found is not None:
            self._budget.note_answer(task.name)
            self._firsts[task.name] = found
            yield from each_told(task, found.event(task, self._budget.spent_s))

    def choose_answer(self, task: Task, model: CostModel, seed: int, kind: Answer) -> None:
        """Take the best known candidate, or the choices of the model, and start to build them.

        If choices of another task wait, they are measured first: these are built after that.
        """
        timer = self._timed_again if kind == "several" and not self._repeatable else None
        later = bool(self._attempts)
        attempts = self._attempts[task.name] = first_answer.attempts_of(task, model, seed, timer)
        if attempts and self._hasty:
            first_answer.prebuild(task, attempts[0], self._pools.racing(task), later)

    def first_answer(self, task: Task) -> Iterator[FirstAnswer]:
        """Deliver the fastest choice of `choose_answer`, unless all fail.

        The first trial of the search, if there is one, measures the same candidate.
        """
        begin_s = self._budget.spent_s
        attempts = self._attempts.pop(task.name)
        found = self._deliver_library(task, attempts, not self._early, not self._hasty)
        self._budget.note_library(self._budget.spent_s - begin_s)
        if found is None:
            return
        task.queue.first = found.candidate
        self._offered[task.name] = found.candidate, found.best_s
        short = self._early and not self._repeatable
        self._budget.note_answer(task.name, found.trial_s, short)
        self._firsts[task.name] = found
        yield from each_told(task, found.event(task, self._budget.spent_s))

    def baseline(self, task: Task) -> Iterator[BaselineTimed]:
        """Time the untuned kernel and NumPy, so that a speed-up is known during the search."""
        answered = self._firsts.get(task.name)
        best_s = None if answered is None else answered.best_s
        found = baseline.measured(task, self._pools.racing(task), best_s)
        if found is not None:
            yield found

    def prepare_race(self, task: Task) -> None:
        """Build the untuned kernel, which the race needs, while the second round is proposed.

        Nothing is timed meanwhile, and all cores but one would idle.
        """
        if self._libraries or not self._form.on_the_way:
            return
        if task.history.rounds == 1 and task.name not in self._raced:
            entry = untuned(task, self._form.emit)
            if isinstance(entry, Contestant):
                self._pools.racing(task).prebuild(entry.kernel)

    def intermediate(self, task: Task) -> Iterator[Delivered]:
        """Race, check and deliver the best kernel so far, if that is worth its time.

        Until the first race of a task, which takes seconds, an early tuning delivers libraries.
        """
        if self._libraries or self._repeatable or not self._form.on_the_way:
            return
        before = self._raced.get(task.name)
        leaders = self._leaders(task)
        stale = before is None or before[0][:1] != leaders[:1]
        if not leaders or not stale:
            return
        if self._budget.delivery_is_due():
            raced = self._race(task, INTERIM)
            if isinstance(raced, RaceResult):
                path = self._write(task, raced, best_so_far=True)
                yield from each_told(task, Delivered(task.name, path, raced.best_s))
        elif self._early and before is None:
            yield from self._library(task, leaders[0])

    def _library(self, task: Task, leader: Candidate) -> Iterator[Delivered]:
        """Deliver the library of a new leader if it is faster than the one before."""
        offered = self._offered.get(task.name)
        if (offered is not None and offered[0] == leader) or not self._budget.library_is_due():
            return
        begin_s = self._budget.spent_s
        made = self._deliver_library(task, [[leader]], best_so_far=True)
        self._budget.note_library(self._budget.spent_s - begin_s)
        before_s = inf if offered is None else offered[1]
        self._offered[task.name] = leader, before_s
        if made is None:
            return
        if made.best_s < before_s:
            self._offered[task.name] = leader, made.best_s
            yield from each_told(task, Delivered(task.name, made.kernel, made.best_s, "trial"))

    def end(self, task: Task, interrupted: bool = False) -> Generator[Event, None, TaskResult]:
        """Race a task unless its result is known; then remove the zips that came before.

        Args:
            interrupted: a user waits for the end: a first answer without trials is delivered as
                it is.
        """
        begin_s = self._budget.spent_s
        kept = self._stored_races.get(task.name)
        result = self.result_without_race(task, kept, interrupted)
        if result is None and self._estimated:
            yield Emulating(task.name)
            leaders, pool = self._leaders(task), self._pools.of(task)
            result = emulated.checked(task, leaders, pool, self._out, self._budget)
        elif result is None and self._libraries:
            result = self.finish_library(task)
            self._budget.note_finish(self._budget.spent_s - begin_s)
        elif result is None:
            yield Racing(task.name)
            result = self.finish(task)
        yield TaskDone(result)
        for twin in task.identity.twins:
            yield TaskDone(twin_result(result, task, twin))
        self.remove_superseded(task, result)
        self._budget.note_end()
        return result

    def result_without_race(
        self, task: Task, kept: Record | None, interrupted: bool = False
    ) -> TaskResult | None:
        """Return the result of a stored race or of a first answer without trials, else None."""
        if kept is not None and kept.race is not None and kept.race.request == self._digest:
            path = record_lookup.deliver_again(task, self._form, kept, self._out)
            if path is not None:
                return result_of(task, kept, path)
        answered = self._firsts.get(task.name)
        if answered is None or task.history.trials:
            return None
        if not self._hasty:
            if task.history.known or not interrupted:
                return None
            answered = answered.as_last(task, self._out)
            self._note_written(task, answered.kernel)
        result = answered.result(task, self._budget.spent_s)
        return as_untuned(result) if task.name in self._untuned else result

    def finish(self, task: Task) -> TaskResult:
        """Race the best candidates of a task, append the record, write the zip."""
        opened = task.space.plans or self._form.on_the_way
        if not opened or (task.space.fixed and task.history.least_cost_s is None):
            return empty_result(task)
        before = self._raced.get(task.name)
        if before is not None and before[0] == self._leaders(task):
            raced: RaceResult[Any] | list[Failed] = before[1]
        else:
            raced = self._race(task, self._digest)
        if isinstance(raced, list):
            return empty_result(task, raced)
        last = sealed(task, raced, self._digest)
        return result_of(task, last.record, self._write(task, last))

    def finish_library(self, task: Task) -> TaskResult:
        """Deliver the library of the leader that is fastest when timed in turns.

        The library of the naive loops is delivered if no leader passes every case. A task that was
        interrupted before its search space was opened has no result, nor a task of a model that had
        no trial: its answer stays.
        """
        if not task.space.plans or not (task.history.trials or self._hasty):
            return empty_result(task)
        leaders = self._leaders(task)
        if not self._budget.finish_tight():
            leaders = [one for one, _ in self._timed_again(task, leaders, RERANK_S)]
        attempts = [[one] for one in (*leaders[:RACES], untuned_candidate(task))]
        done = self._deliver_library(task, attempts)
        if done is None:
            return empty_result(task)
        result = done.result(task, self._budget.spent_s)
        return result if done.candidate in leaders else as_untuned(result)

    def best_of_parts(self, task: Task) -> list[tuple[Candidate, ...]]:
        """Return candidates of the parts of a task that are joined: the best, the second best.

        []: a part has none, or the task has no parts. A repeatable tuning takes the best as timed
        in trials. In a model, whose packed weights stay in memory, the candidates are one for each
        range, about as fast as the best, whose packs are the smallest together.
        """
        ranked = [self._best_of_part(part) for part in task.parts]
        if self._libraries and ranked and all(ranked):
            alike = [near(of_part) for of_part in ranked]
            return [with_small_packs([part.space for part in task.parts], alike)]
        best = [[one for one, _ in of_part] for of_part in ranked]
        return in_turn(best)[: 1 if self._repeatable else JOINED]

    def _best_of_part(self, part: Task) -> list[tuple[Candidate, float]]:
        """Return the leaders of a part with their costs in seconds, the least first."""
        leaders = part.history.ranked()[:PART_LEADERS]
        if not (self._repeatable or self._budget.finish_tight()):
            return self._timed_again(part, leaders, PART_RERANK_S)
        return [(one, part.history.costs_s[one]) for one in leaders]

    def _timed_again(
        self, task: Task, leaders: list[Candidate], seconds: float
    ) -> list[tuple[Candidate, float]]:
        """Return the leaders with their costs in seconds, by times in turns if they are several."""
        trials = [(one, task.history.costs_s.get(one, inf)) for one in leaders]
        if len(leaders) < 2:
            return trials
        unbound = [task.space.unbound(candidate) for candidate in leaders]
        times = self._pools.racing(task).rerank(unbound, seconds, None)
        timed = [(c, t.cost_s) for c, t in zip(leaders, times, strict=True) if t is not None]
        return sorted(timed, key=lambda pair: pair[1]) or trials

    def remove_superseded(self, task: Task, result: TaskResult) -> None:
        """Remove the zips of this tuning that a zip of the result replaces."""
        if result.kernel is not None:
            for path in self._written.pop(result.name, set()) - {result.kernel}:
                for own in zips(path, task):
                    own.unlink(missing_ok=True)

    def _leaders(self, task: Task) -> list[Candidate]:
        """Return the candidates that may race; before any trial, choices of the cost model."""
        chosen = self._chosen.get(task.name, []) if task.history.costs_s else self._choices(task)
        untried = [one for one in chosen if one not in task.history.costs_s]
        return self._form.leaders(task.history, self._budget.hurried) or untried

    def _choices(self, task: Task) -> list[Candidate]:
        """Return the choices of the cost model; one if there was no time for a trial."""
        if self._libraries or not task.space.plans or task.space.fixed:
            return []
        if task.name not in self._chosen:
            choices = [] if task.queue.first is None else [task.queue.first]
            if not choices and self._model is not None:
                choices = first_answer.choose(task, self._model, self._seed)
                task.queue.first = next(iter(choices), None)
            self._chosen[task.name] = choices[:1] if self._form.on_the_way else choices
        return self._chosen[task.name]

    def _race(self, task: Task, request: str) -> RaceResult[Any] | list[Failed]:
        """Race the leaders; if none passes in its delivered form, race the next ones."""
        begin_s, late = self._budget.spent_s, self._budget.finish_late
        pool, leaders = self._pools.racing(task), self._leaders(task)
        for _ in range(RACES):
            tight = self._budget.finish_tight()
            finalists = self._form.finalists(task, leaders, pool, tight)
            raced = race(
                task, self._form, finalists, pool, request, late=late,
                expected_s=self._expected_s(task),
            )  # fmt: skip
            leaders = self._leaders(task)
            survived = any(
                isfinite(task.history.costs_s.get(candidate, 0.0)) for candidate in finalists
            )
            # Alone in a race, the untuned kernel may take as long as it needs.
            over = not leaders and (not finalists or isinstance(raced, RaceResult))
            if survived or over or late():
                break
        self._budget.note_finish(self._budget.spent_s - begin_s)
        if isinstance(raced, RaceResult):
            self._raced[task.name] = leaders, raced
            task.history.note_race(raced.best_s)
        return raced

    def _expected_s(self, task: Task) -> float | None:
        """Return the time of the finalist that races without a trial; None if there were trials."""
        if task.history.costs_s or task.queue.first is None:
            return None
        answered = self._firsts.get(task.name)
        return UNKNOWN_S if answered is None else answered.best_s

    def _write(self, task: Task, raced: RaceResult[Any], best_so_far: bool = False) -> Path:
        path = deliver(task, self._form, raced, self._out, best_so_far)
        self._note_written(task, path)
        self._journal.append_race(task.name, raced.record)
        return path

    def _deliver_library(
        self,
        task: Task,
        attempts: Sequence[Sequence[Candidate]],
        first_only: bool = False,
        best_so_far: bool = False,
    ) -> First | None:
        """Deliver a library; as `first_answer.deliver_library`."""
        made = first_answer.deliver_library(
            task, attempts, self._pools.racing(task), self._out, first_only=first_only,
            best_so_far=best_so_far, tested=not self._libraries,
        )  # fmt: skip
        if made is not None:
            self._note_written(task, made.kernel)
        return made

    def _note_written(self, task: Task, path: Path) -> None:
        self._written.setdefault(task.name, set()).add(path)


def as_untuned(result: TaskResult) -> TaskResult:
    """Return the result of a library, marked as the untuned kernel."""
    return replace(result, winner="baseline", candidate=None)
