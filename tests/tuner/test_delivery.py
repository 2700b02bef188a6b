"""The candidates of the final race."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ansorpy.artifact import unbox
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.events import Finished, TaskResult
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.printer import text
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.libraries import Exported
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.measure.unbound import Unbound, bound
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import matmul
from ansorpy.tuner.delivery.deliveries import RACES
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.race.cpu_form import FINALISTS
from ansorpy.tuner.race.first_answer import First
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run
from tests.fakes import FakePool, cost_s, pools_of
from tests.measure.in_process import loops

pytestmark = pytest.mark.usefixtures("few_candidates")


def tuned(
    out: Path,
    kind: type[FakePool],
    verdict: Callable[[Program], Outcome] | None = None,
    libraries: bool = False,
    trials: int = 32,
) -> TaskResult:
    """Tune a small matmul with a pool of this kind."""

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        pool = kind(dag, target)
        pool.verdict = verdict or pool.verdict
        return pool

    one = matmul(48, 48, 48)
    request = Request(
        (one,), Target(), trials=trials, fresh=True, libraries=libraries, first_answer=not libraries
    )
    *_, end = run(request, CPU, MemoryStore(), out, pools=pools_of(open_pool))
    assert isinstance(end, Finished)
    return end.results[0]


@pytest.mark.parametrize("same", [True, False])
def test_leaders_with_equal_machine_code_race_once(tmp_path: Path, same: bool) -> None:
    """And leaders of other machine code all race, though their times are equal."""
    raced: list[list[str]] = []

    class Pool(FakePool):
        def rerank(
            self, candidates: Sequence[Program | Unbound], *rest: Any, **named: Any
        ) -> list[ShortlistTime | None]:
            assert len(candidates) > FINALISTS
            return [ShortlistTime(1e-3, 0 if same else place) for place in range(len(candidates))]

        def race(
            self, contestants: Mapping[str, Program | Kernel], *rest: object, **named: object
        ) -> dict[str, PairedTimes | Failed]:
            raced.append([*contestants])
            return super().race(contestants)

    tuned(tmp_path, Pool)
    assert raced == [["naive", *(f"tuned {n}" for n in range(1 if same else FINALISTS))]]


def test_the_fastest_as_measured_is_timed_again_in_spite_of_drift_correction(
    tmp_path: Path,
) -> None:
    """The correction halves the time of all but the truly fast."""
    trials: dict[str, float] = {}
    again: set[str] = set()

    def corrected(program: Program) -> Outcome:
        seconds = cost_s(program)
        return Measured((seconds,), slowdown=1.0 if seconds < 1.2e-3 else 2.0)

    class Pool(FakePool):
        def measure(self, *rest: Any, **named: Any) -> list[Outcome | None]:
            found = super().measure(*rest, **named)
            trials.update({text(program): cost_s(program) for program in self.measured})
            return found

        def rerank(
            self, candidates: Sequence[Program | Unbound], *rest: Any, **named: Any
        ) -> list[ShortlistTime | None]:
            programs = [bound(one, self.target) for one in candidates]
            again.update(map(text, programs))
            return [ShortlistTime(cost_s(program), place) for place, program in enumerate(programs)]

    tuned(tmp_path, Pool, corrected)
    assert min(trials.values()) < 1.2e-3
    assert min(trials, key=lambda one: trials[one]) in again


@pytest.mark.parametrize("bad", [1, 4, 100])
def test_the_next_candidates_race_if_no_finalist_passes(tmp_path: Path, bad: int) -> None:
    """A finalist that does not pass is counted, with its reason."""
    seen: list[Program | Kernel] = []

    class Pool(FakePool):
        def race(
            self, contestants: Mapping[str, Program | Kernel], *rest: object, **named: object
        ) -> dict[str, PairedTimes | Failed]:
            found = super().race(contestants)
            for name in contestants:
                if name != "naive":
                    seen.append(contestants[name])
                    if len(seen) <= bad:
                        found[name] = Failed("wrong", "C[0] is 1, not 2")
            return found

    result = tuned(tmp_path, Pool)
    races = min(RACES, bad // FINALISTS + 1)
    assert len(seen) == races * FINALISTS
    assert result.failures["wrong"] == min(bad, len(seen))
    assert result.examples["wrong"] == "C[0] is 1, not 2"
    assert result.winner == ("tuned" if bad < RACES * FINALISTS else "baseline")


def test_the_untuned_kernel_races_alone_once_every_finalist_has_failed(tmp_path: Path) -> None:
    """In a race with finalists it has little time."""
    raced: list[list[str]] = []

    class Pool(FakePool):
        def race(
            self, contestants: Mapping[str, Program | Kernel], *rest: object, **named: object
        ) -> dict[str, PairedTimes | Failed]:
            raced.append([*contestants])
            if len(contestants) == 1:
                return super().race(contestants)
            return dict.fromkeys(contestants, Failed("run-timeout", "no answer after 1 s"))

    result = tuned(tmp_path, Pool, trials=2)
    assert [len(one) for one in raced] == [3, 1]
    assert (result.winner, result.kernel is not None) == ("baseline", True)


@pytest.mark.parametrize("bad", [0, FINALISTS])
def test_a_kernel_file_that_fails_its_call_is_not_delivered(tmp_path: Path, bad: int) -> None:
    called: list[bytes] = []

    class Pool(FakePool):
        def end_call(self) -> Failed | float:
            called.append(self.called["kernel.py"])
            broken = len(called) <= bad
            return Failed("crash", "NotImplementedError: float16") if broken else 0.5

    result = tuned(tmp_path, Pool)
    races = bad // FINALISTS + 1  # each but the last ends with the untuned kernel
    assert len(called) == bad + races
    assert result.kernel is not None
    delivered = unbox(result.kernel.read_bytes(), "zip").files["kernel.py"]
    source = called[-1].decode().partition("# A kernel made by")[2]
    assert delivered.decode().partition("# A kernel made by")[2] == source
    assert result.failures == ({"crash": bad} if bad else {})


def test_no_kernel_is_delivered_if_every_kernel_file_fails_its_call(tmp_path: Path) -> None:
    class Pool(FakePool):
        def end_call(self) -> Failed | float:
            return Failed("crash", "NotImplementedError: float16")

    result = tuned(tmp_path, Pool)
    assert (result.kernel, result.verified) == (None, False)
    assert result.examples == {"crash": "NotImplementedError: float16"}
    assert [*tmp_path.glob("*.zip")] == []


@pytest.mark.parametrize(
    ("lucky", "trials"), [(0, 32), (0, 48), (FINALISTS - 1, 32), (FINALISTS, 32)]
)
def test_too_low_costs_exclude_no_candidate_from_reranking(
    tmp_path: Path, lucky: int, trials: int
) -> None:
    """So long as fewer are too good than race; else only their twins in machine code are timed."""
    heats: list[list[str]] = []  # loops of the candidates that are timed again
    fast: set[str] = set()
    count = 0

    class Pool(FakePool):
        def rerank(
            self, candidates: Sequence[Program | Unbound], *rest: Any, **named: Any
        ) -> list[ShortlistTime | None]:
            heats.append([loops(one, self.target).text for one in candidates])
            return super().rerank(candidates, *rest, **named)

    def verdict(program: Program) -> Outcome:
        nonlocal count
        count += 1
        if count <= lucky:
            fast.add(text(program))
        return Measured((1e-4 if count <= lucky else 1e-3 + 1e-6 * count,))

    tuned(tmp_path, Pool, verdict, trials=trials)
    if lucky < FINALISTS:
        assert [len(one) for one in heats] == [32]
    else:
        assert all(fast.issuperset(heat) for heat in heats)  # none if three are left


@pytest.mark.parametrize("passes", ["tuned", "baseline"])
def test_a_library_of_the_untuned_kernel_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: str
) -> None:
    """It is delivered if no leader passes every case in its own library."""
    asked: list[list[Candidate]] = []

    def delivered(
        task: Task, attempts: Sequence[Sequence[Candidate]], *_: object, tested: bool, **__: object
    ) -> First:
        asked.extend(map(list, attempts))
        (chosen,) = attempts[-1 if passes == "baseline" else 0]
        library = Library(b"", b"", (), (), "k", (), 0, 0)
        (record,) = task.records([chosen], [Measured((1e-3,))])
        return First(chosen, tmp_path / "a.zip", 1e-3, library, ("all",), record, None)

    monkeypatch.setattr(first_answer, "deliver_library", delivered)
    result = tuned(tmp_path, FakePool, libraries=True)
    assert len(asked) == RACES + 1
    assert result.winner == passes
    assert (result.candidate is None) == (passes == "baseline")


def test_choices_of_a_task_are_built_while_the_next_one_is_opened(tmp_path: Path) -> None:
    """The libraries of a task are asked for before the previous task's are delivered."""
    steps: list[tuple[str, str]] = []

    class Watched(FakePool):
        def prebuild(self, *requests: object, later: bool = False) -> None:
            steps.append(("build", self.dag.name))

        def export(self, *exports: Export, first_only: bool = False) -> Exported | Failed:
            steps.append(("deliver", self.dag.name))
            return super().export(*exports, first_only=first_only)

    dags = tuple(replace(matmul(16 + n, 16, 16), name=f"m{n}") for n in range(4))
    request = Request(dags, Target(), trials=0, fresh=True, libraries=True, first_answer=False)
    *_, end = run(
        request, CPU, MemoryStore(), tmp_path,
        pools=pools_of(Watched),
    )  # fmt: skip
    assert isinstance(end, Finished)
    names = [dag.name for dag in dags]
    assert [name for what, name in steps if what == "build"] == names
    for before, after in pairwise(names):
        assert steps.index(("build", after)) < steps.index(("deliver", before))
