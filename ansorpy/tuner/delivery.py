"""Kernels leave a tuning: the best so far on the way, the winner of the final race at the end."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Final

from ansorpy.cost.model import CostModel
from ansorpy.events import Delivered, FirstAnswer, TaskResult
from ansorpy.measure.outcome import Failed
from ansorpy.records import Record
from ansorpy.search import Candidate
from ansorpy.tuner import final_race, first_answer, record_lookup
from ansorpy.tuner.checkpoint import Journal
from ansorpy.tuner.contestant import Contestant, finalist, untuned
from ansorpy.tuner.final_race import Raced
from ansorpy.tuner.first_answer import First
from ansorpy.tuner.pools import Pools
from ansorpy.tuner.task import Task
from ansorpy.tuner.time_budget import Pace
from ansorpy.tuner.twins import zips

LEADERS: Final = 16  # of the trials, timed again in turns: one by one, some were only lucky
LEADING: Final = 1.2  # times the last of so many as may race: the first may be too good
HEAT_S: Final = 0.6
FINALISTS: Final = 3  # of the leaders; the race times them as they are delivered
RACES: Final = 3  # at most, where no finalist passes
INTERIM: Final = "interim"  # what the race of a kernel on the way answers: no request


class Deliveries:
    """Races finalists and writes zips; a race of the same finalists is not run twice.

    Args:
        digest: of the request that the final kernels answer.
        out: folder of the zips.
        hasty: the first answer is the last: there will be no trials.
    """

    def __init__(
        self,
        pools: Pools,
        journal: Journal,
        digest: str,
        out: Path,
        pace: Pace,
        hasty: bool = False,
    ) -> None:
        self._pools, self._journal, self._hasty = pools, journal, hasty
        self._digest, self._out, self._pace = digest, out, pace
        self._raced: dict[str, tuple[Sequence[Candidate], Raced]] = {}
        self._firsts: dict[str, First] = {}
        self._written: dict[str, set[Path]] = {}  # the zips of this tuning by task

    def prepare(self, task: Task) -> None:
        """Start the processes of a task, and its first reference."""
        self._pools.of(task)

    def at_once(self, task: Task, model: CostModel, seed: int) -> FirstAnswer | None:
        """Deliver what is known best, or what the model chooses; None where nothing came so far.

        It is measured first, if anything is.
        """
        found = first_answer.answer(task, model, self._pools.of(task), seed, self._out)
        if found is None:
            return None
        task.first = found.candidate
        self._pace.saw_answer()
        self._firsts[task.name] = found
        self._written.setdefault(task.name, set()).add(found.kernel)
        return found.event(task, self._pace.spent_s)

    def prepare_race(self, task: Task) -> None:
        """Have the untuned kernel built while the second round is proposed: the race needs it.

        Nothing is timed meanwhile, and all cores but one would idle.
        """
        if task.rounds == 1 and task.name not in self._raced:
            entry = untuned(task)
            if isinstance(entry, Contestant):
                self._pools.of(task).prebuild_source(entry.kernel)

    def on_the_way(self, task: Task) -> Delivered | None:
        """Deliver the best so far where it is worth the time; None where it is not.

        It passed what a final kernel passes.
        """
        before = self._raced.get(task.name)
        leaders = self._leaders(task)
        stale = before is None or before[0][:1] != leaders[:1]
        if not leaders or not stale or not self._pace.delivery_is_due():
            return None
        raced = self._race(task, INTERIM)
        if isinstance(raced, list):
            return None
        path = self._write(task, raced)
        return Delivered(task.name, path, raced.best_s)

    def settled(self, task: Task, kept: Record | None) -> TaskResult | None:
        """Return the result of a task that needs no race, None if it needs one.

        It is that of a race that is kept, or the first answer of a task without trials.
        """
        if kept is not None and kept.race is not None and kept.race.request == self._digest:
            path = record_lookup.deliver_again(task, kept, self._out)
            if path is not None:
                return final_race.result_of(task, kept, path)
        answered = self._firsts.get(task.name)
        if answered is not None and not task.trials and (self._hasty or not task.known):
            return answered.result(task, self._pace.spent_s)
        return None

    def finish(self, task: Task) -> TaskResult:
        """Race the best of a task, keep the record, write the zip."""
        before = self._raced.get(task.name)
        if before is not None and before[0] == self._leaders(task):
            raced: Raced | list[Failed] = before[1]
        else:
            raced = self._race(task, self._digest)
        if isinstance(raced, list):
            return final_race.empty_result(task, raced)
        sealed = final_race.sealed(task, raced, self._digest)
        return final_race.result_of(task, sealed.record, self._write(task, sealed))

    def tidy(self, task: Task, result: TaskResult) -> None:
        """Remove the zips that this tuning wrote before that of the result, if it has one."""
        if result.kernel is not None:
            for path in self._written.pop(result.name, set()) - {result.kernel}:
                for own in zips(path, task):
                    own.unlink(missing_ok=True)

    def _leaders(self, task: Task) -> list[Candidate]:
        """Return who may race; each takes a second to compile, for which a hurry has no time.

        Costs that were taken in a loud moment may be too small: one or two do not keep all
        others from the heat, nor do they keep the fastest as measured from it (ADR-0089).
        """
        if self._pace.hurried:
            return task.ranked()[:1]
        ranked = task.ranked()[:LEADERS]
        limit_s = LEADING * max((task.costs_s[one] for one in ranked[:FINALISTS]), default=0.0)
        near = [candidate for candidate in ranked if task.costs_s[candidate] <= limit_s]
        leaders = near if len(near) > FINALISTS else ranked[:FINALISTS]
        return list(dict.fromkeys([*leaders, *task.fastest()[:FINALISTS]]))

    def _finalists(
        self, task: Task, leaders: Sequence[Candidate]
    ) -> dict[Candidate, Contestant | Failed]:
        """Return those of the leaders who race, the fastest first, as they would be delivered.

        To compile that takes a second, most of which another core has while leaders are timed.
        """
        if len(leaders) <= FINALISTS or self._is_late():
            return {leader: finalist(task, leader) for leader in leaders[:FINALISTS]}
        pool = self._pools.of(task)
        first = finalist(task, leaders[0])
        kernel = first.kernel if isinstance(first, Contestant) else None
        times = pool.rerank([task.unbound(candidate) for candidate in leaders], HEAT_S, kernel)
        found: dict[int, tuple[float, int]] = {}  # by machine code: its time, its first place
        for place, heated in enumerate(times):
            if heated is not None:
                found.setdefault(heated.code, (heated.cost_s, place))
        ranked = [leaders[place] for _, place in sorted(found.values())]
        best = ranked[:FINALISTS] or leaders[:FINALISTS]
        return {one: first if one == leaders[0] else finalist(task, one) for one in best}

    def _race(self, task: Task, request: str) -> Raced | list[Failed]:
        """Race the leaders; where none passes as it would be delivered, those who come next."""
        begin_s = self._pace.spent_s
        pool = self._pools.of(task)
        for _ in range(RACES):
            finalists = self._finalists(task, self._leaders(task))
            raced = final_race.race(task, finalists, pool, request, late=self._is_late)
            survived = any(isfinite(task.costs_s[candidate]) for candidate in finalists)
            if survived or task.best_s is None or self._is_late():
                break
        self._pace.saw_finish(self._pace.spent_s - begin_s)
        if isinstance(raced, Raced):
            self._raced[task.name] = self._leaders(task), raced
            task.saw_race(raced.best_s)
        return raced

    def _is_late(self) -> bool:
        return self._pace.left_s <= 0

    def _write(self, task: Task, raced: Raced) -> Path:
        path = final_race.deliver(task, raced.record, raced.entry, raced.native, self._out)
        self._written.setdefault(task.name, set()).add(path)
        self._journal.race(task.name, raced.record)
        return path
