"""Tunings that measure on the device, here the emulated driver: records, race, zip, faults."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pytest

from ansorpy.artifact import load
from ansorpy.artifact.package import read_bytes, unbox
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import SpecError
from ansorpy.events import Event, Finished, Racing, RoundDone, Seeded
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import DEVICE
from ansorpy.measure.local import LocalBackEnd, LocalPool
from ansorpy.measure.outcome import Estimated, Failed, Measured
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.plan.bind import bind
from ansorpy.records import ESTIMATED, MEASURED, MemoryStore, Record, task_key
from ansorpy.replay import plan_from_text
from ansorpy.result import Result, explanation
from ansorpy.rules import CUDA
from ansorpy.target import Target, cuda_target, gpu_target
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.tuner.options import targets
from ansorpy.tuner.parts.pools import Pools, back_end_of
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from tests.artifact.emulated_driver import ZipDevice
from tests.codegen.simt.device.test_operators import EMULATED
from tests.codegen.simt.emulator.test_measured import last_store_dropped
from tests.fakes import pools_of
from tests.tuner.test_emulated_delivery import EmulatedPool

pytestmark = pytest.mark.usefixtures("few_candidates")

SM_90: Final = cuda_target("sm_90")
DAG: Final = workloads.matmul(16, 32, 8)
KEY: Final = task_key(workload_key(DAG), SM_90)
PATIENT: Final = MeasureSettings(
    sampling=SamplingOptions(samples=3), build_timeout_s=300.0, run_timeout_s=300.0,
    race_timeout_s=900.0, race_processes=1, race_visits=2,
)  # fmt: skip


def request(trials: int = 8, **options: Any) -> Request:
    return Request((DAG,), SM_90, trials=trials, device=EMULATED, **options)


def events_of(
    asked: Request, store: MemoryStore, out: Path, kind: type[LocalPool] | None = None
) -> list[Event]:
    """Return the events of a tuning in the measuring processes."""

    def opened() -> Pools:
        settings = replace(PATIENT, backend=EMULATED)
        return Pools(LocalBackEnd(asked.target, settings, kind or LocalPool))

    return list(run(asked, CUDA, store, out, pools=opened))


def result_of(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def manifest_of(kernel: Path) -> dict[str, Any]:
    return dict(unbox(read_bytes(kernel), str(kernel)).manifest)


@pytest.mark.slow
def test_a_device_measures_races_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    events = events_of(request(), store, tmp_path)
    end = result_of(events)
    (result,) = end.results
    assert result.kernel is not None, result.examples
    assert (result.key, result.estimated, result.verified) == (KEY, False, True)
    assert any(isinstance(one, Racing) for one in events)
    assert not any(one.estimated for one in events if isinstance(one, RoundDone))
    shown = repr(Result(end.results, 1.0, end.stopped))
    assert "naive loops take" in explanation(end.results)
    assert "NumPy" not in shown

    records = store.all(KEY)
    assert len(records) == 9, "eight trials and the race"
    assert all(isinstance(record.outcome, Measured | Failed) for record in records)
    assert store.all(KEY + ESTIMATED) == ()
    race = records[-1].race
    assert race is not None
    assert race.numpy_s == ()
    manifest = manifest_of(result.kernel)
    assert (manifest["verified"], manifest["timed"]) == ("device", True)
    assert manifest["latency_s"]["min"] == result.best_s
    assert manifest["naive_s"]["min"] == result.naive_s == result.baseline_s
    assert manifest["numpy_s"] is None

    plan = plan_from_text(DAG, SM_90, records[-1].plan)
    code = simt_code(bind(plan, records[-1].row, SM_90), SM_90)
    ZipDevice(code).install(monkeypatch)
    kernel = load(result.kernel)
    assert re.search(r" for a GPU, [\d.]+ us, sha256:", repr(kernel))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(node.shape).astype(np.float32) for node in DAG.placeholders]
    np.testing.assert_allclose(kernel(*arrays), arrays[0] @ arrays[1], rtol=1e-4, atol=1e-4)

    again = result_of(list(run(request(), CUDA, store, tmp_path / "again"))).results[0]
    assert (again.from_store, again.best_s) == (True, result.best_s)
    assert again.kernel is not None
    assert read_bytes(again.kernel) == read_bytes(result.kernel)


class FaultyPool(LocalPool):
    """A pool whose first finalist is wrong in the race, as kernels with faults are."""

    def race(self, contestants: Mapping[str, Any], *args: Any, **options: Any) -> Any:
        changed = {
            name: last_store_dropped(program) if name == "tuned 0" else program
            for name, program in contestants.items()
        }
        return super().race(changed, *args, **options)


@pytest.mark.slow
def test_a_finalist_that_is_wrong_on_the_device_is_replaced(tmp_path: Path) -> None:
    store = MemoryStore()
    (result,) = result_of(events_of(request(), store, tmp_path, FaultyPool)).results
    assert result.kernel is not None
    assert result.failures["wrong"] >= 1
    race = store.all(KEY)[-1]
    trials = [r for r in store.all(KEY) if r.race is None and isinstance(r.outcome, Measured)]
    best = min(trials, key=lambda record: cast(Measured, record.outcome).cost_s)
    assert (race.plan, race.row) != (best.plan, best.row)


class TimedPool(EmulatedPool):
    """A pool that measures and races by functions, without processes; longer programs are slower.

    Args:
        broken: races in which every tuned kernel is wrong.
        silent: races that return no times.
    """

    def __init__(self, broken: int = 0, silent: int = 0) -> None:
        super().__init__()
        self.broken, self.silent, self.races = broken, silent, list[list[str]]()
        self.measured = list[tuple[int, ...]]()

    def measure(self, candidates: Any, *args: Any, **options: Any) -> Any:
        self.measured += [one.row for one in candidates]
        found = cast(list[Estimated], super().measure(candidates, *args, **options))
        return [Measured((one.seconds,)) for one in found]

    def race(self, contestants: Mapping[str, Program], **options: Any) -> Any:
        assert options["numpy"] is False
        self.races.append(list(contestants))
        if len(self.races) <= self.silent:
            return dict.fromkeys(contestants, Failed("run-timeout", "no answer after 120 s"))
        wrong = len(self.races) <= self.broken
        return {
            name: Failed("wrong", "C[0] is 1, not 2")
            if wrong and name != "naive"
            else PairedTimes(((1e-6 * len(repr(program)),),), (0.0,))
            for name, program in contestants.items()
        }

    def rerank(
        self, candidates: Sequence[object], budget_s: float, beside: object = None
    ) -> list[ShortlistTime | None]:
        return [None] * len(candidates)

    def begin_call(
        self, files: Mapping[str, bytes], meaning: Dag | None = None
    ) -> Callable[[], Failed | float]:
        return lambda: Failed("build", "a kernel for a GPU is no numba source")

    def export(self, *exports: object, first_only: bool = False) -> Failed:
        return Failed("build", "a kernel for a GPU is no library")

    def time_sizes(self, kernel: object, sizes: Sequence[tuple[int, ...]], numpy: bool) -> Failed:
        return Failed("build", "a kernel for a GPU has no dims")

    def attainable_flop_per_s(self) -> float:
        return 0.0


def quick(pool: EmulatedPool, asked: Request, store: MemoryStore, out: Path) -> list[Event]:
    opened = lambda dag, target: pool  # noqa: E731
    return list(run(asked, CUDA, store, out, pools=pools_of(opened)))


def test_other_candidates_race_if_all_finalists_fail(tmp_path: Path) -> None:
    store, pool = MemoryStore(), TimedPool(broken=1)
    (result,) = result_of(quick(pool, request(32), store, tmp_path)).results
    assert len(pool.races) == 2
    assert result.kernel is not None
    assert result.failures["wrong"] >= 1


def test_the_untuned_kernel_is_verified_whole_before_it_is_delivered(tmp_path: Path) -> None:
    store, pool = MemoryStore(), TimedPool(broken=100)
    (result,) = result_of(quick(pool, request(8), store, tmp_path)).results
    assert result.winner == "baseline"
    assert len(set(map(repr, pool.verified))) == 1
    assert result.kernel is not None
    assert manifest_of(result.kernel)["delivered"] == "naive"


def test_a_race_without_answer_is_repeated_without_the_untuned_kernel(tmp_path: Path) -> None:
    store, pool = MemoryStore(), TimedPool(silent=1)
    (result,) = result_of(quick(pool, request(8), store, tmp_path)).results
    assert "naive" in pool.races[0]
    assert "naive" not in pool.races[1]
    assert (result.winner, result.naive_s) == ("tuned", None)


def test_a_tuning_without_trials_races_the_choices_of_the_model(tmp_path: Path) -> None:
    store = MemoryStore()
    (result,) = result_of(quick(TimedPool(), request(0), store, tmp_path)).results
    assert result.kernel is not None
    assert (result.trials, result.estimated) == (0, False)


def test_estimates_start_a_search_on_a_device_and_answer_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    estimated = Request((DAG,), SM_90, trials=32)
    quick(EmulatedPool(), estimated, store, tmp_path)
    estimates = [r for r in store.all(KEY + ESTIMATED) if isinstance(r.outcome, Estimated)]
    best = min(estimates, key=lambda record: cast(Estimated, record.outcome).cost_s)
    pool = TimedPool()
    events = quick(pool, request(32), store, tmp_path)
    (seeded,) = [one for one in events if isinstance(one, Seeded)]
    assert seeded.programs == 8
    assert pool.measured[0] == best.row, "the least estimate is measured first"
    (result,) = result_of(events).results
    assert (result.from_store, result.trials) == (False, 32)
    assert set(store.all(KEY + ESTIMATED)) >= set(estimates)
    measured = store.all(KEY)
    assert not any(isinstance(record.outcome, Estimated) for record in measured)


def test_estimates_start_no_search_that_repeats_itself(tmp_path: Path) -> None:
    store = MemoryStore()
    quick(EmulatedPool(), Request((DAG,), SM_90, trials=8), store, tmp_path)
    found = quick(TimedPool(), request(8, deterministic=True), store, tmp_path)
    assert not any(isinstance(event, Seeded) for event in found)


def test_measurements_start_no_search_with_estimates(tmp_path: Path) -> None:
    store = MemoryStore()
    quick(TimedPool(), request(16), store, tmp_path)
    estimated = Request((DAG,), SM_90, trials=16)
    events = quick(EmulatedPool(), estimated, store, tmp_path)
    assert not any(isinstance(one, Seeded) for one in events)
    (result,) = result_of(events).results
    assert (result.from_store, result.best_s, result.key) == (False, None, KEY + ESTIMATED)


def test_times_of_the_emulated_driver_enter_no_store_of_a_user() -> None:
    with pytest.raises(ValueError, match="enter no store of a user"):
        next(run(request(), CUDA))


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Target:
    """Show a GPU of architecture sm_90 that is not quite the preset."""
    gpu = cuda_target("sm_90").gpu
    assert gpu is not None
    found = gpu_target("sm_90", replace(gpu, sms=114))
    monkeypatch.setattr(targets, "present_gpu", lambda: found)
    return found


def test_names_of_the_present_gpu_use_the_device(present: Target) -> None:
    for name in ("cuda", "cuda:sm_90"):
        target = targets.named_target(name, 1)
        asked = Request.of(request(), (DAG,), target)
        assert (target, asked.device, asked.estimated) == (present, DEVICE, False)
        with closing(back_end_of(asked, MeasureSettings())) as back_end:
            pool = back_end.open(DAG, target, 0)
            assert isinstance(pool, LocalPool)
            assert pool.settings.backend == DEVICE
            pool.close()


def test_other_gpus_and_processors_use_no_device(present: Target) -> None:
    other = targets.named_target("cuda:sm_80", 1)
    assert other == cuda_target("sm_80")
    for target, estimated in ((other, True), (Target(), False)):
        asked = Request.of(request(), (DAG,), target)
        assert (asked.device, asked.estimated) == ("", estimated)


def test_without_a_gpu_presets_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "present_gpu", lambda: None)
    asked = Request.of(request(), (DAG,), targets.named_target("cuda:sm_90", 1))
    assert asked.estimated
    with pytest.raises(SpecError, match="no GPU is present"):
        targets.named_target("cuda", 1)


def test_a_device_takes_options_that_need_times() -> None:
    assert request(target_latency_s=1e-3).target_latency_s == 1e-3


def test_estimates_for_the_preset_start_a_search_on_a_gpu_of_its_kind(
    present: Target, tmp_path: Path
) -> None:
    store = MemoryStore()
    quick(EmulatedPool(), Request((DAG,), SM_90, trials=32), store, tmp_path)
    asked = Request((DAG,), present, trials=32, device=EMULATED)
    events = quick(TimedPool(), asked, store, tmp_path)
    assert [one.programs for one in events if isinstance(one, Seeded)] == [8]


def test_a_record_of_a_race_that_is_not_ours_is_no_answer(tmp_path: Path) -> None:
    store, other = MemoryStore(), MemoryStore()
    quick(TimedPool(), request(8), store, tmp_path)
    changed = [_of_another_kernel(record) for record in store.all(KEY)]
    other.append(changed, MEASURED)
    (result,) = result_of(quick(TimedPool(), request(8), other, tmp_path)).results
    assert not result.from_store


def _of_another_kernel(record: Record) -> Record:
    return replace(record, source_sha256="00" * 32) if record.race else record
