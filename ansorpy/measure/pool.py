"""Programs to outcomes: build on every core, check and time on the slot's own cores (see `pump`).

builders   one worker per core: compile, with a time-out; idle while their core is timed on
slot       checks, and times on one thread, in a fresh child per batch and per run of a race
runner     times on several threads, in one long-lived child of its own (an OpenMP runtime
           must not be forked after it has started)
racers     fresh interpreters for finalists and baselines on several threads
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.closing import Closing
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import SHARED, Built
from ansorpy.measure.draft import Draft
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.roofline import attainable_flop_per_s
from ansorpy.measure.timing import final_race
from ansorpy.measure.timing.build_cache import Kept
from ansorpy.measure.timing.measurement_cache import Timed
from ansorpy.measure.timing.protocol import CONTROL_RATIO, QUIET, Race
from ansorpy.measure.timing.requests import built, trial, trial_of_library
from ansorpy.measure.timing.worker_pool import Crew, Settings
from ansorpy.measure.verify.references import References
from ansorpy.measure.workers.pipeline import Steps, at_once
from ansorpy.measure.workers.worker_main import BuildDone, BuildJob
from ansorpy.target import Target
from ansorpy.te.dag import Dag

SOURCE_BUILDERS: Final = 2
CONTROL_S: Final = 0.25  # at most: what takes longer than loud spells is timed by itself


@dataclass(frozen=True, slots=True)
class Exported:
    """A library whose own functions passed every case, and their times."""

    library: Library
    outcome: Measured


class MeasurePool(Closing):
    """The measuring processes of one task; a context manager that leaves none behind."""

    def __init__(self, dag: Dag, target: Target, settings: Settings | None = None) -> None:
        self.dag = dag
        self.target = target
        self.settings = settings or Settings()
        self.crew = Crew(target, self.settings)
        self._control: tuple[Built, float] | None = None
        self._kept = Kept()
        self._timed = Timed()
        self._references = References(
            dag, self.settings.seed, self.settings.edges, self.crew.sealed, self.crew.cases
        )
        try:
            self.crew.start()  # it imports while the first reference is computed
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        self._references.close()
        self.crew.close()

    def measure(
        self,
        candidates: Sequence[Program | Draft],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
        then: Sequence[Draft | Kernel] = (),
    ) -> list[Outcome | None]:
        """Return one outcome per candidate, in order; None for those that it was too late for.

        Builders bind what is a draft; one that cannot become loops is a failed build, and one that
        becomes machine code that was timed before has the outcome of that.

        Args:
            best_s: the least cost so far: what is hopelessly slower is given up early.
            late: once it says so, nothing further is built or measured.
            then: what is going to be measured next, or to race; begun, as by `begin`, once there is
                nothing else to build.
        """
        fresh = True

        def after(number: int, done: BuildDone) -> Steps[Outcome | None]:
            nonlocal best_s, fresh
            if late():
                return None
            meaning = candidates[number].meaning
            if isinstance(candidates[number], Draft):
                known = self._timed.of(meaning, done.built, done.build_s)
                if known is not None:
                    self._kept.offer(jobs[number], done.built, known.cost_s)
                    return known
            first, fresh = fresh, False
            job = self.crew.trial_of(done.built, meaning, best_s, self._control)
            outcome = yield from trial(self.crew, job, first)
            if not isinstance(outcome, Measured):
                return outcome
            self._note_control(done.built, outcome)
            self._kept.offer(jobs[number], done.built, outcome.cost_s)
            if outcome.slowdown <= QUIET:
                self._timed.note(meaning, done.built, outcome)
            best_s = outcome.cost_s if best_s is None else min(best_s, outcome.cost_s)
            return replace(outcome, build_s=done.build_s)

        self._get_ready()
        for meaning in {one.meaning for one in candidates}:
            self.crew.cases_of(meaning)  # before any core is held
        jobs = [self.crew.job_of(one) for one in candidates]
        with self._intact():
            timeout_s = self.settings.build_timeout_s
            later = [self.crew.job_of(one) for one in then]
            found = self.crew.flow(jobs, timeout_s, after, (late, None), later)
            self.crew.forget(jobs)
            self.crew.begin_all(() if late() else later)
        return found

    def begin(self, candidates: Sequence[Draft]) -> None:
        """Begin to build what `measure` is going to be given, on all cores but one.

        It goes on while the caller does something else; nothing is begun where there is one core,
        or that was begun before.
        """
        with self._intact():
            self.crew.begin_all([self.crew.job_of(one) for one in candidates])

    def ahead(self, kernel: Kernel) -> None:
        """Begin to build a kernel that is going to race.

        It goes on while the caller does something else; a builder joins in what is measured
        meanwhile when it is done, and remembers the machine code. Two do: numba takes half a
        second to load, and finalists are built side by side.
        """
        with self._intact():
            self.crew.begin(self.crew.job_of(kernel), builders=SOURCE_BUILDERS)

    def race(
        self,
        contestants: Mapping[str, Program | Kernel],
        numpy: bool = True,
        looked_at: Mapping[str, float] | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> dict[str, Race | Failed]:
        """Check the contestants, then time them in turns in several fresh processes.

        With `numpy`, NumPy's evaluation takes part under that name, where there is one; if it
        fails, the kernels race without it, and its entry is the failure. Whoever is clearly beaten
        in the first process is spared the others.

        Args:
            looked_at: names that run one case only, and seconds that this may take; whoever wants
                to deliver them has to `verify`.
            late: once it says so, no further process is started.
        """
        self._get_ready()
        with self._intact():
            return final_race.race(self.crew, self.dag, contestants, numpy, looked_at or {}, late)

    def attainable_flop_per_s(self) -> float:
        """Measure what no kernel of the task exceeds, in operations per second; 0.0 if unknown."""
        with self._intact():
            return attainable_flop_per_s(self.dag, self.target, final_race.core_peak(self.crew))

    def heat(
        self,
        candidates: Sequence[Program | Draft],
        budget_s: float,
        meanwhile: Kernel | None = None,
    ) -> list[final_race.Heated | None]:
        """Time candidates that passed their trials once more, in turns in one fresh process.

        They are not checked again: whoever wants to deliver one races it. Nor are those built again
        whose machine code was kept.

        Args:
            budget_s: of timing, shared by all; each is sampled three times at least.
            meanwhile: a kernel that is probably going to race: it is built where a core is free,
                and remembered; where none is, nothing is begun.

        Returns:
            The fastest sample of each in seconds per call, one for all that are the same machine
            code, and a number that says which these are; None where there is none.
        """
        self._get_ready()
        with self._intact():
            return final_race.heat(self.crew, candidates, self._kept, budget_s, meanwhile)

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        """Build a kernel and run every case; None where all hold."""
        self._references.all()
        job = self.crew.job_of(kernel)
        with self._intact():
            done = at_once(built(self.crew, job, self.settings.source_timeout_s))
            if isinstance(done, Failed):
                return done
            with self.crew.hold():
                verdict = at_once(final_race.fit(self.crew, done, kernel.meaning, None))
        return verdict if isinstance(verdict, Failed) else None

    def begin_call(
        self, files: Mapping[str, bytes], meaning: Dag | None = None
    ) -> final_race.Calling:
        """Begin to import a delivered `kernel.py` and to run the first case through its `run`.

        The call goes on beside what follows if a core is free for it; `end_call` has its result.

        Args:
            files: `kernel.py` and what lies beside it, by name.
            meaning: what it was reformulated to compute.
        """
        self._references.all()
        with self._intact():
            return final_race.begin_call(self.crew, files, meaning)

    def end_call(self, calling: final_race.Calling) -> Failed | None:
        """Return the failure of a call; None if results, dtypes and shapes are right."""
        with self._intact():
            return final_race.end_call(self.crew, calling)

    def export(self, what: Export, first_only: bool = False) -> Exported | Failed:
        """Build a library, run every case through its own functions, and time it.

        Args:
            first_only: run the first case only, dense random numbers: what there is time for
                where an answer is wanted at once.
        """
        job = BuildJob(SHARED, what, self.target)
        with self._intact():
            done = at_once(built(self.crew, job, self.settings.build_timeout_s))
            if isinstance(done, Failed):
                return done
            assert isinstance(done.built, Library)
            cases = self._references.first() if first_only else self._references.all()
            folder = self.crew.cases_of(what.program.meaning, cases)
            with self.crew.hold():
                outcome = at_once(trial_of_library(self.crew, done.built, folder))
            self.crew.start_others()  # not earlier: they would slow a first answer down
        return outcome if isinstance(outcome, Failed) else Exported(done.built, outcome)

    def _get_ready(self) -> None:
        """Start every process, and make the cases while they import."""
        with self._intact():
            self.crew.start_others()
        self._references.all()

    def _note_control(self, built: Built, outcome: Measured) -> None:
        """Time the next ones beside this one where it is much faster than what they are beside.

        Not wherever it is faster: what is fastest was also lucky, and luck would add up. Nor in a
        moment so loud that the control hardly ran: what was too little of a cost would then be the
        measure of the next, and so on.
        """
        if outcome.slowdown > QUIET:
            return
        limit_s = CONTROL_S if self._control is None else CONTROL_RATIO * self._control[1]
        if outcome.cost_s < limit_s and not outcome.aborted:
            self._control = built, outcome.cost_s

    @contextmanager
    def _intact(self) -> Generator[None]:
        """End the processes where the block is left early: half a frame may be in a pipe."""
        try:
            yield
        except BaseException:
            self.crew.abandon()
            raise
