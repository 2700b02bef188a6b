"""The whole walk with the real code generator, on one and on two threads.

The pools of most tests share their processes, as the pools of one tuning do.
"""

import pickle
from collections.abc import Callable, Iterator

import pytest

from ansorpy.codegen.numba_source import emit
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import CODEGEN
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool, LocalProcesses
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.unbound import bound, unbound
from ansorpy.measure.workers.local_builder import MAIN
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.night import night

pytestmark = pytest.mark.slow

TEXT = """def f(float(48,32) A, float(32,64) B) -> (D) {
  C(i,j) +=! A(i,k) * B(k,j)
  D(i,j) = max(C(i,j), 0.0)
}"""


def walk(cores: int) -> tuple[Dag, Target, Program]:
    (dag,) = parse(TEXT)
    target = local_target(cores)
    plan = naive(dag, target)
    return dag, target, bind(plan, plan.smallest_row, target)


@pytest.fixture(scope="module", params=night([1, 2], day=[2]))
def shared(request: pytest.FixtureRequest) -> Iterator[LocalProcesses]:
    made = LocalProcesses(local_target(request.param), MeasureSettings())
    yield made
    made.close()


Opened = Callable[..., LocalPool]


@pytest.fixture
def cores(shared: LocalProcesses) -> int:
    return shared.workers.threads


@pytest.fixture
def opened(shared: LocalProcesses) -> Opened:
    """Return a function that opens a pool on the shared processes, which know no machine code."""
    shared.queue.cache.clear()

    def pool(settings: MeasureSettings | None = None) -> LocalPool:
        dag, target, _ = walk(shared.workers.threads)
        return LocalPool(dag, target, settings, shared)

    return pool


def test_builders_bind_candidates_and_a_row_that_does_not_fit_is_a_failed_build() -> None:
    dag, target, program = walk(1)
    plan = naive(dag, target)
    row = plan.smallest_row
    assert bound(unbound(plan, row), target) == program
    with LocalPool(dag, target) as pool:
        good, bad = pool.measure([unbound(plan, row), unbound(plan, (*row, 1))])
    assert isinstance(good, Measured), good
    assert isinstance(bad, Failed)
    assert bad.kind == "build"
    assert "one per size" in bad.message


def test_a_prebuilt_kernel_is_raced(cores: int, opened: Opened) -> None:
    _, target, program = walk(cores)
    kernel = emit(program, target, cores)
    with opened(MeasureSettings(race_processes=1, race_visits=3)) as pool:
        pool.prebuild(kernel)
        request = pool.batches.request_of(kernel)
        batches = [batch for batch in pool.queue.batches.values() if request in batch]
        assert len(batches) == min(2, len(pool.workers.builders))
        assert isinstance(pool.measure([program])[0], Measured)
        assert isinstance(pool.race({"naive": kernel}, numpy=False)["naive"], PairedTimes)


def test_prebuilt_candidates_are_measured(cores: int, opened: Opened) -> None:
    dag, target, program = walk(cores)
    plan = naive(dag, target)
    row = plan.smallest_row
    asked = [unbound(plan, row), unbound(plan, (*row, 1))]
    with opened() as pool:
        assert isinstance(pool.measure([program])[0], Measured)
        for builder in pool.workers.builders:
            builder.worker.call(f"{MAIN}:prepare", CODEGEN, 60.0)  # wait until it has started
        first = pool.batches.request_of(asked[0])
        pool.prebuild(*asked)
        if len(pool.workers.builders) > 1:
            assert any(first in batch for batch in pool.queue.batches.values())
        good, bad = pool.measure(asked)
        assert isinstance(good, Measured), good
        assert isinstance(bad, Failed)
        assert "one per size" in bad.message
        assert not pool.queue.batches
        pool.queue.cache.clear()
        pool.prebuild(*asked)  # and never measured
        assert isinstance(pool.measure([program])[0], Measured)
        pool.workers.abandon()
        pool.queue.forget()
        pool.queue.cache.clear()
        pool.prebuild(*asked)  # no builder has started
        assert not pool.queue.batches
        assert isinstance(pool.measure(asked)[0], Measured)


def test_a_build_beside_a_shortlist_leaves_the_cores_of_the_slot(
    cores: int, opened: Opened
) -> None:
    _, target, program = walk(cores)
    kernel = emit(program, target, cores)
    with opened(MeasureSettings(race_processes=1, race_visits=3)) as pool:
        assert pool.rerank([program, program], 0.1, kernel)[0] is not None
        free = [one for one in pool.workers.builders if not one.cores & pool.slot.cores]
        request = pool.batches.request_of(kernel)
        busy = [one for one, batch in pool.queue.batches.items() if request in batch]
        known = pool.queue.cache.code(request) is not None
        assert set(busy) <= set(free)
        assert bool(busy) or known or not free
        found = pool.race({"naive": emit(program, target, 1), "leader": kernel}, numpy=False)
    assert all(isinstance(race, PairedTimes) for race in found.values()), found


def test_generated_code_is_measured_and_raced(cores: int, opened: Opened) -> None:
    _, target, program = walk(cores)
    with opened(MeasureSettings(race_processes=2, race_visits=3)) as pool:
        first, second = pool.measure([program, program])
        assert isinstance(first, Measured), first
        assert isinstance(second, Measured), second
        found = pool.race({"naive": program, "delivered": emit(program, target, cores)})
    assert list(found) == ["naive", "delivered", "numpy"]
    for name, race in found.items():
        assert isinstance(race, PairedTimes), (name, race)
        assert race.median_s > 0


def test_the_same_machine_code_is_timed_once(cores: int, opened: Opened) -> None:
    dag, target, program = walk(cores)
    plan = naive(dag, target)
    row = plan.smallest_row
    candidate = unbound(plan, row)
    with opened() as pool:
        (first,) = pool.measure([candidate])
        (again,) = pool.measure([candidate])
        (asked,) = pool.measure([program])  # a bound program is timed at every call
        times = pool.rerank([candidate, program, candidate], 0.1)
    assert isinstance(first, Measured), first
    assert isinstance(again, Measured), again
    assert isinstance(asked, Measured), asked
    assert min(first.run_s, asked.run_s) > 0
    assert again.times_s == first.times_s
    assert (again.check_s, again.run_s, again.load_s) == (0.0, 0.0, 0.0)
    assert again.build_s > 0
    assert times[0] is not None
    assert times == [times[0]] * 3


def test_the_peak_is_measured_on_the_cores_of_the_slot(opened: Opened) -> None:
    with opened() as pool:
        assert pool.attainable_flop_per_s() > 0


def test_the_parent_unpickles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dag, target, program = walk(1)
    plan = naive(dag, target)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the parent unpickles")

    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    with LocalPool(dag, target, MeasureSettings(race_processes=1, race_visits=3)) as pool:
        row = plan.smallest_row
        outcomes = pool.measure([unbound(plan, row), unbound(plan, (*row, 1)), program])
        kernel = emit(program, target, 1)
        pool.prebuild(kernel)
        prepared: list[str] = []
        raced = pool.race({"naive": kernel}, numpy=True, beside=lambda: prepared.append("x"))
        assert pool.verify(kernel) is None
        assert prepared == ["x"]
        assert pool.attainable_flop_per_s() > 0  # measured in the background of the race
    assert [type(one) for one in outcomes] == [Measured, Failed, Measured]
    assert all(isinstance(one, PairedTimes) for one in raced.values())
