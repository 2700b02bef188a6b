"""Delivery of kernels: the best so far during the search, the winner of the final race."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ansorpy.cost.model import CostModel
from ansorpy.events import (
    BaselineTimed,
    Delivered,
    Event,
    FirstAnswer,
    Racing,
    TaskDone,
    TaskResult,
)
from ansorpy.measure.outcome import Failed
from ansorpy.plan.choices import naive
from ansorpy.records import Record
from ansorpy.replay import plan_text
from ansorpy.search import Candidate
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.race import baseline, final_race, first_answer
from ansorpy.tuner.race.contestant import Contestant, finalist, untuned
from ansorpy.tuner.race.final_race import RaceResult
from ansorpy.tuner.race.first_answer import First
from ansorpy.tuner.requests.own_kernels import OwnByTask
from ansorpy.tuner.reuse import record_lookup
from ansorpy.tuner.tasks.checkpoint import Journal
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import Answer, TimeBudget
from ansorpy.tuner.tasks.twins import each_told, twin_result, zips

LEADERS: Final = 32  # candidates timed again in turns: a single trial may have been lucky
LEADING: Final = 1.5  # ratio of a leader's cost to the third least: the least may be too small
RERANK_S: Final = 1.0  # seconds in which the leaders are timed again
FINALISTS: Final = 3  # candidates in the race, in their delivered form
UNKNOWN_S: Final = 0.25  # time of a choice that never ran: the untuned kernel has 20 times that
RACES: Final = 3  # races at most, if no finalist passes
INTERIM: Final = "interim"  # the request of an intermediate race: it answers none


class Deliveries:
    """Races finalists and writes zips; a race of the same finalists is not run twice.

    Args:
        digest: of the request that the final kernels answer.
        out: folder of the zips.
        hasty: the first answer is final, because there will be no trials.
        stored_races: of an earlier, interrupted attempt at this tuning, by task.
        libraries: deliver the verified library of the best candidate, without a race.
        repeatable: let no time that has no record decide: neither which of several choices is the
            first answer, nor whether a race drops a candidate while the search goes on.
        early: the option of that name.
        own: kernels of the user's own in the races, by task.
        peers: installed libraries take part in the races.
        model, seed: of the tuning, for choices of the cost model that race without a trial.
    """

    def __init__(
        self,
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
        own: OwnByTask = MappingProxyType({}),
        peers: bool = False,
        model: CostModel | None = None,
        seed: int = 0,
    ) -> None:
        self._own, self._peers, self._model, self._seed = own, peers, model, seed
        self._libraries, self._repeatable, self._early = libraries, repeatable, early
        self._stored_races = stored_races or {}
        self._pools, self._journal, self._hasty = pools, journal, hasty
        self._digest, self._out, self._budget = digest, out, budget
        self._raced: dict[str, tuple[Sequence[Candidate], RaceResult]] = {}
        self._firsts: dict[str, First] = {}
        self._offered: dict[str, tuple[Candidate, float]] = {}  # the newest library, and its time
        self._written: dict[str, set[Path]] = {}  # the zips of this tuning by task
        self._untuned: set[str] = set()  # tasks that get their untuned kernel
        self._attempts: dict[str, list[list[Candidate]]] = {}  # choices of a first answer

    def open_pool(self, task: Task) -> None:
        """Start the processes of a task; its reference results are computed beside other work.

        An early tuning needs results of all cases for its first answer.
        """
        pool = self._pools.racing(task)
        if self._early:
            pool.begin_cases()

    def answer_kind(self) -> Answer:
        """Return the first answer of the next task that there is time for."""
        kind = self._budget.answer()
        return "one" if kind == "several" and not self._hasty else kind

    @property
    def ends_with_answer(self) -> bool:
        """True if first answers are results: no search and no race follows."""
        return self._hasty

    def untuned_answer(self, task: Task) -> Iterator[FirstAnswer]:
        """Deliver the untuned kernel for lack of time, checked as a first answer is."""
        plain = [untuned_candidate(task)]
        found = first_answer.deliver_library(
            task, [plain], self._pools.racing(task), self._out, first_only=not self._early,
            tested=not self._libraries,
        )  # fmt: skip
        self._untuned.add(task.name)
        if found is not None:
            self._budget.note_answer(task.name)
            self._firsts[task.name] = found
            self._written.setdefault(task.name, set()).add(found.kernel)
            yield from each_told(task, found.event(task, self._budget.spent_s))

    def choose_answer(self, task: Task, model: CostModel, seed: int, kind: Answer) -> None:
        """Take the best known candidate, or the choices of the model, and start to build them."""
        timed = kind == "several" and not self._repeatable
        attempts = self._attempts[task.name] = first_answer.attempts_of(task, model, seed, timed)
        if attempts and self._hasty:
            first_answer.prebuild(task, attempts[0], self._pools.racing(task))

    def first_answer(self, task: Task) -> Iterator[FirstAnswer]:
        """Deliver the fastest choice of `choose_answer`, unless all fail.

        The first trial of the search, if there is one, measures the same candidate.
        """
        begin_s = self._budget.spent_s
        found = first_answer.deliver_library(
            task, self._attempts.pop(task.name), self._pools.racing(task), self._out,
            first_only=not self._early, best_so_far=not self._hasty, tested=not self._libraries,
        )  # fmt: skip
        self._budget.note_library(self._budget.spent_s - begin_s)
        if found is None:
            return
        task.queue.first = found.candidate
        self._offered[task.name] = found.candidate, found.best_s
        short = self._early and not self._repeatable
        self._budget.note_answer(task.name, found.trial_s, short)
        self._firsts[task.name] = found
        self._written.setdefault(task.name, set()).add(found.kernel)
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
        if task.history.rounds == 1 and task.name not in self._raced and not self._libraries:
            entry = untuned(task)
            if isinstance(entry, Contestant):
                self._pools.racing(task).prebuild(entry.kernel)

    def intermediate(self, task: Task) -> Iterator[Delivered]:
        """Race, check and deliver the best kernel so far, if that is worth its time.

        Until the first race of a task, which takes seconds, an early tuning delivers libraries.
        """
        if self._libraries or self._repeatable:
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
        pool, begin_s = self._pools.racing(task), self._budget.spent_s
        made = first_answer.deliver_library(task, [[leader]], pool, self._out, best_so_far=True)
        self._budget.note_library(self._budget.spent_s - begin_s)
        before_s = inf if offered is None else offered[1]
        self._offered[task.name] = leader, before_s
        if made is None:
            return
        self._written.setdefault(task.name, set()).add(made.kernel)
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
        if result is None and self._libraries:
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
            path = record_lookup.deliver_again(task, kept, self._out)
            if path is not None:
                return final_race.result_of(task, kept, path)
        answered = self._firsts.get(task.name)
        if answered is None or task.history.trials:
            return None
        if not self._hasty:
            if task.history.known or not interrupted:
                return None
            answered = answered.as_last(task, self._out)
            self._written.setdefault(task.name, set()).add(answered.kernel)
        result = answered.result(task, self._budget.spent_s)
        return as_untuned(result) if task.name in self._untuned else result

    def finish(self, task: Task) -> TaskResult:
        """Race the best candidates of a task, append the record, write the zip."""
        if task.space.fixed and task.history.least_cost_s is None:
            return final_race.empty_result(task, [])
        before = self._raced.get(task.name)
        if before is not None and before[0] == self._leaders(task):
            raced: RaceResult | list[Failed] = before[1]
        else:
            raced = self._race(task, self._digest)
        if isinstance(raced, list):
            return final_race.empty_result(task, raced)
        sealed = final_race.sealed(task, raced, self._digest)
        return final_race.result_of(task, sealed.record, self._write(task, sealed))

    def finish_library(self, task: Task) -> TaskResult:
        """Deliver the library of the leader that is fastest when timed in turns.

        The library of the naive loops is delivered if no leader passes every case. A task that was
        interrupted before its search space was opened has no result, nor a task of a model that had
        no trial: its answer stays.
        """
        if not task.space.plans or not (task.history.trials or self._hasty):
            return final_race.empty_result(task, [])
        leaders = self._leaders(task)
        pool = self._pools.racing(task)
        if len(leaders) > 1 and not self._budget.finish_tight():
            times = pool.rerank(
                [task.space.unbound(candidate) for candidate in leaders], RERANK_S, None
            )
            cost_s = {c: t.cost_s for c, t in zip(leaders, times, strict=True) if t is not None}
            leaders = sorted(cost_s, key=cost_s.__getitem__) or leaders
        attempts = [[one] for one in (*leaders[:RACES], untuned_candidate(task))]
        done = first_answer.deliver_library(
            task, attempts, pool, self._out, tested=not self._libraries
        )
        if done is None:
            return final_race.empty_result(task, [])
        self._written.setdefault(task.name, set()).add(done.kernel)
        result = done.result(task, self._budget.spent_s)
        if done.candidate not in leaders:
            return as_untuned(result)
        return result

    def remove_superseded(self, task: Task, result: TaskResult) -> None:
        """Remove the zips of this tuning that a zip of the result replaces."""
        if result.kernel is not None:
            for path in self._written.pop(result.name, set()) - {result.kernel}:
                for own in zips(path, task):
                    own.unlink(missing_ok=True)

    def _leaders(self, task: Task) -> list[Candidate]:
        """Return the candidates that may race; one alone if seconds are few, each takes one.

        A cost measured beside other load may be too small: one or two such costs exclude neither
        all other candidates nor the fastest as measured (ADR-0074).
        """
        if not task.history.costs_s:
            return self._choices(task)
        if self._budget.hurried:
            return task.history.ranked()[:1]
        ranked = task.history.ranked()[:LEADERS]
        limit_s = LEADING * max(
            (task.history.costs_s[one] for one in ranked[:FINALISTS]), default=0.0
        )
        near = [candidate for candidate in ranked if task.history.costs_s[candidate] <= limit_s]
        leaders = near if len(near) > FINALISTS else ranked[:FINALISTS]
        return list(dict.fromkeys([*leaders, *task.history.fastest()[:FINALISTS]]))

    def _choices(self, task: Task) -> list[Candidate]:
        """Return the choice of the cost model, which races if there was no time for a trial."""
        if self._libraries or not task.space.plans or task.space.fixed:
            return []
        if task.queue.first is None and self._model is not None:
            task.queue.first = next(iter(first_answer.choose(task, self._model, self._seed)), None)
        return [] if task.queue.first is None else [task.queue.first]

    def _finalists(
        self, task: Task, leaders: Sequence[Candidate]
    ) -> dict[Candidate, Contestant | Failed]:
        """Return the finalists among the leaders, the fastest first, in their delivered form.

        To compile that form takes a second, on another core while leaders are timed.
        """
        tight = self._budget.finish_tight()
        if len(leaders) <= FINALISTS or tight:
            some = leaders[: 1 if tight else FINALISTS]
            return {leader: finalist(task, leader) for leader in some}
        pool = self._pools.racing(task)
        first = finalist(task, leaders[0])
        kernel = first.kernel if isinstance(first, Contestant) else None
        times = pool.rerank(
            [task.space.unbound(candidate) for candidate in leaders], RERANK_S, kernel
        )
        found: dict[int, tuple[float, int]] = {}  # by machine code: its time, its first place
        for place, timed in enumerate(times):
            if timed is not None:
                found.setdefault(timed.code, (timed.cost_s, place))
        ranked = [leaders[place] for _, place in sorted(found.values())]
        best = ranked[:FINALISTS] or leaders[:FINALISTS]
        return {one: first if one == leaders[0] else finalist(task, one) for one in best}

    def _race(self, task: Task, request: str) -> RaceResult | list[Failed]:
        """Race the leaders; if none passes in its delivered form, race the next ones."""
        begin_s = self._budget.spent_s
        pool = self._pools.racing(task)
        for _ in range(RACES):
            finalists = self._finalists(task, self._leaders(task))
            own = self._own.get(task.name, ())
            raced = final_race.race(
                task, finalists, pool, request, late=self._budget.finish_late, own=own,
                expected_s=self._expected_s(task), peers=self._peers,
            )  # fmt: skip
            survived = any(
                isfinite(task.history.costs_s.get(candidate, 0.0)) for candidate in finalists
            )
            if survived or task.best_s is None or self._budget.finish_late():
                break
        self._budget.note_finish(self._budget.spent_s - begin_s)
        if isinstance(raced, RaceResult):
            self._raced[task.name] = self._leaders(task), raced
            task.history.note_race(raced.best_s)
        return raced

    def _expected_s(self, task: Task) -> float | None:
        """Return the time of the finalist that races without a trial; None if there were trials."""
        if task.history.costs_s or task.queue.first is None:
            return None
        answered = self._firsts.get(task.name)
        return UNKNOWN_S if answered is None else answered.best_s

    def _write(self, task: Task, raced: RaceResult, best_so_far: bool = False) -> Path:
        path = final_race.deliver(
            task, raced.record, raced.entry, raced.native, self._out, best_so_far
        )
        self._written.setdefault(task.name, set()).add(path)
        self._journal.append_race(task.name, raced.record)
        return path


def untuned_candidate(task: Task) -> Candidate:
    """Return the naive loops of a task as one of its candidates."""
    plan = naive(task.dag, task.target)
    return Candidate(task.space.add_plan(plan, plan_text(plan)), plan.smallest_row)


def as_untuned(result: TaskResult) -> TaskResult:
    """Return the result of a library, marked as the untuned kernel."""
    return replace(result, winner="baseline", candidate=None)
