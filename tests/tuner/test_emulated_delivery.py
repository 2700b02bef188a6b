"""Tunings for a GPU without a device, from the request to the zip, as a user asks for them."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import ansorpy
from ansorpy import te
from ansorpy.artifact.package import read_bytes, unbox
from ansorpy.codegen.kernel import Kernel
from ansorpy.cost.simt import ESTIMATE_VERSION
from ansorpy.errors import SpecError
from ansorpy.events import Emulating, Event, Finished, FirstAnswer, Improved, Racing, RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Estimated, Failed, Outcome
from ansorpy.measure.unbound import Unbound, bound
from ansorpy.progress import NOT_TIMED, Tally, as_line
from ansorpy.records import ESTIMATED, MEASURED, JsonlStore, MemoryStore, Record, best_of, task_key
from ansorpy.result import Result
from ansorpy.rules import CUDA
from ansorpy.target import Target, cuda_target
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.tuner.delivery.emulated import FINALISTS
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from tests.fakes import pools_of

pytestmark = pytest.mark.usefixtures("few_candidates")

SM_90: Final = cuda_target("sm_90")
DAGS: Final = {
    "matmul": lambda: workloads.matmul(16, 32, 8),
    "softmax": lambda: workloads.softmax(4, 96),
    "conv2d_relu": lambda: conv_relu(),
}
TIMES: Final = re.compile(r"\d (s|ms|us|ns)\b|GFLOP|\dx\b|speed-up")


def conv_relu() -> Dag:
    """Return a small convolution with its activation."""
    image, weights = te.placeholder((1, 4, 6, 6), "A"), te.placeholder((8, 4, 3, 3), "W")
    out = ansorpy.topi.conv2d(image, weights, padding=1)
    return te.dag(ansorpy.topi.relu(out))


def manifest_of(kernel: Path) -> dict[str, Any]:
    files = unbox(read_bytes(kernel), str(kernel)).files
    assert {"kernel.ptx", "manifest.json"} <= set(files)
    assert b".visible .entry" in files["kernel.ptx"]
    return dict(json.loads(files["manifest.json"]))


@pytest.mark.parametrize("name", DAGS)
def test_a_tuning_for_a_gpu_delivers_a_zip_that_is_verified_and_not_timed(
    name: str, tmp_path: Path
) -> None:
    store, events = JsonlStore(tmp_path / "records.jsonl"), list[Event]()
    result = ansorpy.tune(
        DAGS[name](), "cuda:sm_90", trials=8, store=store, out=tmp_path, on_event=events.append
    )
    (task,) = result.tasks
    assert task.kernel is not None, task.examples
    manifest = manifest_of(task.kernel)
    assert (manifest["verified"], manifest["timed"]) == ("emulated", False)
    assert not {"latency_s", "rate", "baseline_s", "winner", "numpy_s"} & set(manifest)
    assert manifest["cuda"]["arch"] == "sm_90"
    assert [one["blocks"] > 0 for one in manifest["cuda"]["launches"]]
    assert (task.estimated, task.verified, task.best_s, task.rate) == (True, True, None, None)
    assert (task.winner, task.baseline_s, task.trials) == (None, None, 8)
    assert "not timed: estimated without a GPU, verified under emulation" in repr(result)
    shown = repr(result).replace(f"{result.seconds:.1f} s in all", "")
    assert not TIMES.search(shown), shown
    assert not any(isinstance(one, Improved | Racing | FirstAnswer) for one in events)
    rounds = [one for one in events if isinstance(one, RoundDone)]
    assert all(one.estimated and one.best_s is None for one in rounds)
    assert any(isinstance(one, Emulating) for one in events)
    _check_records(store, task.key)


def _check_records(store: JsonlStore, key: str) -> None:
    """Check that every record is an estimate under a key of its own, and answers nothing."""
    records = tuple(store.export())
    assert len(records) == 8
    assert {record.key for record in records} == {key}
    assert key.endswith(ESTIMATED)
    assert all(isinstance(record.outcome, Estimated | Failed) for record in records)
    assert all(record.race is None for record in records)
    assert {dict(record.versions)["estimate"] for record in records} == {str(ESTIMATE_VERSION)}
    assert store.all(key.removesuffix(ESTIMATED)) == ()
    assert best_of(records) is None


class EmulatedPool:
    """A pool that estimates and checks by functions, without processes."""

    def __init__(
        self,
        wrong: Sequence[int] = (),
        fails: bool = False,
        failure: Failed = Failed("wrong", "C[0] is 1, not 2"),  # noqa: B008 - immutable
    ) -> None:
        self.wrong, self.fails, self.verified = frozenset(wrong), fails, list[Program]()
        self.failure = failure

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        programs = [bound(one, SM_90) for one in candidates]
        return [
            Failed("spills", "8 bytes of a thread spilled")
            if self.fails
            else Estimated(1e-6 * (1 + len(repr(program))), (("issue_s", 1e-6),), 40)
            for program in programs
        ]

    def prebuild(self, *requests: object, later: bool = False) -> None:
        """Build nothing ahead."""

    def begin_cases(self) -> None:
        """Compute nothing ahead."""

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        assert isinstance(kernel, Program)
        self.verified.append(kernel)
        number = len(self.verified) - 1
        return self.failure if number in self.wrong else None

    def close(self) -> None:
        """Do nothing."""


def tuned(
    pool: EmulatedPool, out: Path, *, trials: int = 16, store: MemoryStore | None = None,
    dags: tuple[Dag, ...] = (workloads.matmul(16, 32, 8),),
) -> Finished:  # fmt: skip
    request = Request(dags, SM_90, trials=trials)
    opened = lambda dag, target: pool  # noqa: E731
    *_, end = run(request, CUDA, store or MemoryStore(), out, pools=pools_of(opened))
    assert isinstance(end, Finished)
    return end


def test_the_least_estimate_is_checked_first(tmp_path: Path) -> None:
    pool = EmulatedPool()
    (result,) = tuned(pool, tmp_path).results
    assert len(pool.verified) == 1
    assert result.kernel is not None


def test_the_next_candidate_is_delivered_if_the_first_is_wrong(tmp_path: Path) -> None:
    pool = EmulatedPool(wrong=[0, 1])
    (result,) = tuned(pool, tmp_path).results
    assert len(pool.verified) == 3
    assert len(set(map(repr, pool.verified))) == 3
    assert result.kernel is not None
    assert result.failures["wrong"] >= 2, "rows of a wrong program fail without another check"


def test_the_naive_loops_are_delivered_if_no_finalist_passes(tmp_path: Path) -> None:
    pool = EmulatedPool(wrong=range(FINALISTS))
    (result,) = tuned(pool, tmp_path).results
    assert result.kernel is not None
    assert len(pool.verified) == FINALISTS + 1


def test_without_a_candidate_that_passes_there_is_no_kernel(tmp_path: Path) -> None:
    end = tuned(EmulatedPool(wrong=range(100)), tmp_path)
    (result,) = end.results
    assert (result.kernel, result.verified, result.estimated) == (None, False, True)
    assert not list(tmp_path.glob("*.zip"))
    assert "no kernel" in repr(Result(end.results, 1.0, end.stopped))


def test_no_other_candidate_is_checked_once_a_check_takes_too_long(tmp_path: Path) -> None:
    pool = EmulatedPool(wrong=[0], failure=Failed("run-timeout", "no end within 600 s"))
    (result,) = tuned(pool, tmp_path).results
    assert len(pool.verified) == 1
    assert (result.kernel, result.failures["run-timeout"]) == (None, 1)
    assert result.examples["run-timeout"] == "no end within 600 s"


def test_candidates_that_spill_are_told_with_their_reason(tmp_path: Path) -> None:
    (result,) = tuned(EmulatedPool(fails=True), tmp_path).results
    assert result.kernel is None
    assert result.failures["spills"] >= 16
    assert result.examples["spills"] == "8 bytes of a thread spilled"


def test_a_tuning_without_trials_delivers_the_choice_of_the_model(tmp_path: Path) -> None:
    (result,) = tuned(EmulatedPool(), tmp_path, trials=0).results
    assert (result.kernel is not None, result.trials) == (True, 0)


def test_equal_tasks_get_a_zip_each_with_their_own_names(tmp_path: Path) -> None:
    first = workloads.matmul(16, 32, 8)
    body = "{ out(i,j) +=! left(i,k) * right(k,j) }"
    (twin,) = parse(f"def twin(float(16,8) left, float(8,32) right) -> (out) {body}", {})
    assert workload_key(first) == workload_key(twin)
    results = tuned(EmulatedPool(), tmp_path, dags=(first, twin)).results
    kernels = [one.kernel for one in results if one.kernel is not None]
    names = [[one["name"] for one in manifest_of(kernel)["inputs"]] for kernel in kernels]
    assert names == [[node.name for node in dag.placeholders] for dag in (first, twin)]


def test_a_later_search_starts_from_estimates_and_answers_nothing_from_them(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    tuned(EmulatedPool(), tmp_path, store=store)
    known = store.count()
    (result,) = tuned(EmulatedPool(), tmp_path, store=store).results
    assert not result.from_store
    assert store.count() == known + 16, "no candidate is estimated twice"


def test_measurements_and_estimates_of_one_gpu_do_not_see_each_other(tmp_path: Path) -> None:
    store = MemoryStore()
    (result,) = tuned(EmulatedPool(), tmp_path, store=store).results
    dag = workloads.matmul(16, 32, 8)
    assert result.key == task_key(workload_key(dag), SM_90, estimated=True)
    assert store.all(task_key(workload_key(dag), SM_90)) == ()


def test_estimates_of_another_model_only_start_a_search(tmp_path: Path) -> None:
    store, older = MemoryStore(), MemoryStore()
    tuned(EmulatedPool(), tmp_path, store=store)

    def aged(record: Record) -> Record:
        versions = tuple((name, "0" if name == "estimate" else v) for name, v in record.versions)
        return replace(record, versions=versions)

    older.append([aged(record) for record in store.export()], MEASURED)
    events = list(_events(older, tmp_path))
    rounds = [one for one in events if isinstance(one, RoundDone)]
    assert rounds[-1].trials == 16


def _events(store: MemoryStore, out: Path) -> Iterator[Event]:
    pool = EmulatedPool()
    request = Request((workloads.matmul(16, 32, 8),), SM_90, trials=16)
    return run(request, CUDA, store, out, pools=pools_of(lambda dag, target: pool))


@pytest.mark.parametrize("option", [{"target_latency_s": 1e-3}, {"stop_if_gain_below": 0.1}])
def test_options_that_need_times_are_refused(option: dict[str, float]) -> None:
    told = f"cannot tune with {next(iter(option))} for this GPU because its candidates are estim"
    with pytest.raises(SpecError, match=told):
        Request((workloads.matmul(4, 4, 4),), SM_90, **option)  # type: ignore[arg-type]


def test_a_model_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot tune a model for cuda because a bundle holds"):
        Request((workloads.matmul(4, 4, 4),), SM_90, libraries=True)
    assert Request((workloads.matmul(4, 4, 4),), Target(), libraries=True).libraries


def test_progress_tells_estimates_as_such(tmp_path: Path) -> None:
    tally = Tally(0.0)
    lines = []
    for event in _events(MemoryStore(), tmp_path):
        shown = tally.take(event, 1.0)
        lines.append("" if shown is None else as_line(shown))
        if isinstance(event, RoundDone):
            assert NOT_TIMED in tally.status(1.0)
            assert "best" not in tally.status(1.0)
    assert any(NOT_TIMED in line for line in lines)
    assert any("under the emulator" in line for line in lines)
    assert not any("best none" in line for line in lines)
