"""The whole walk with the real code generator."""

import pickle

import pytest

from ansorpy.codegen.numba_source import emit
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.draft import bound, drafted
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing.protocol import Race
from ansorpy.measure.timing.worker_pool import CHILD, Settings
from ansorpy.measure.workers.replies import Returned
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.target import Target
from ansorpy.te.dag import Dag

pytestmark = [pytest.mark.measure, pytest.mark.slow]

TEXT = """def f(float(48,32) A, float(32,64) B) -> (D) {
  C(i,j) +=! A(i,k) * B(k,j)
  D(i,j) = max(C(i,j), 0.0)
}"""


def walk(cores: int) -> tuple[Dag, Target, Program]:
    (dag,) = parse(TEXT)
    target = local_target(cores)
    plan = naive(dag, target)
    return dag, target, bind(plan, plan.smallest_row, target)


def test_builders_bind_drafts_and_a_row_that_does_not_fit_is_a_failed_build() -> None:
    dag, target, program = walk(1)
    plan = naive(dag, target)
    row = plan.smallest_row
    assert bound(drafted(plan, row), target) == program
    with MeasurePool(dag, target) as pool:
        good, bad = pool.measure([drafted(plan, row), drafted(plan, (*row, 1))])
    assert isinstance(good, Measured), good
    assert isinstance(bad, Failed)
    assert bad.kind == "build"
    assert "sizes" in bad.message


@pytest.mark.parametrize("cores", [1, 2])
def test_a_kernel_that_was_begun_ahead_is_there_when_it_is_raced(cores: int) -> None:
    dag, target, program = walk(cores)
    kernel = emit(program, target, cores)
    with MeasurePool(dag, target, Settings(race_processes=1, race_visits=3)) as pool:
        pool.ahead(kernel)
        assert pool.crew._begun[pool.crew.job_of(kernel)] in pool.crew.builders
        assert isinstance(pool.measure([program])[0], Measured)
        assert isinstance(pool.race({"naive": kernel}, numpy=False)["naive"], Race)


@pytest.mark.parametrize("cores", [1, 2])
def test_candidates_that_were_begun_are_built_when_they_are_measured(cores: int) -> None:
    dag, target, program = walk(cores)
    plan = naive(dag, target)
    row = plan.smallest_row
    drafts = [drafted(plan, row), drafted(plan, (*row, 1))]
    with MeasurePool(dag, target) as pool:
        assert isinstance(pool.measure([program])[0], Measured)  # everything runs
        pool.begin(drafts)
        job = pool.crew.job_of(drafts[0])
        owner = pool.crew._begun.get(job)
        if len(pool.crew.builders) > 1:
            assert owner is not None
            owner.join()
            reply = owner.call(f"{CHILD}:build", job, 60.0)
            assert isinstance(reply, Returned)
        good, bad = pool.measure(drafts)
        assert isinstance(good, Measured), good
        assert isinstance(bad, Failed)
        assert "sizes" in bad.message
        assert not pool.crew._begun
        pool.begin(drafts)  # and never measured: nobody waits for it
        assert isinstance(pool.measure([program])[0], Measured)
        pool.crew.abandon()
        pool.begin(drafts)  # nor for processes to start
        assert not pool.crew._begun
        assert isinstance(pool.measure(drafts)[0], Measured)


@pytest.mark.parametrize("cores", [1, 2])
def test_what_is_begun_during_a_heat_never_waits_on_a_core_of_the_slot(cores: int) -> None:
    dag, target, program = walk(cores)
    kernel = emit(program, target, cores)
    with MeasurePool(dag, target, Settings(race_processes=1, race_visits=3)) as pool:
        assert pool.heat([program, program], 0.1, kernel)[0] is not None
        owner = pool.crew._begun.get(pool.crew.job_of(kernel))
        free = [b for b in pool.crew.builders if not b.spec.cores & pool.crew.slot.spec.cores]
        assert owner in free if free else owner is None
        found = pool.race({"naive": emit(program, target, 1), "leader": kernel}, numpy=False)
    assert all(isinstance(race, Race) for race in found.values()), found


@pytest.mark.parametrize("cores", [1, 2])
def test_generated_code_is_measured_and_raced(cores: int) -> None:
    dag, target, program = walk(cores)
    with MeasurePool(dag, target, Settings(race_processes=2, race_visits=3)) as pool:
        first, second = pool.measure([program, program])
        assert isinstance(first, Measured), first
        assert isinstance(second, Measured), second
        found = pool.race({"naive": program, "delivered": emit(program, target, cores)})
    assert list(found) == ["naive", "delivered", "numpy"]
    for name, race in found.items():
        assert isinstance(race, Race), (name, race)
        assert race.median_s > 0


@pytest.mark.parametrize("cores", [1, 2])
def test_the_same_machine_code_is_timed_once(cores: int) -> None:
    dag, target, program = walk(cores)
    plan = naive(dag, target)
    row = plan.smallest_row
    draft = drafted(plan, row)
    with MeasurePool(dag, target) as pool:
        (first,) = pool.measure([draft])
        (again,) = pool.measure([draft])
        (asked,) = pool.measure([program])  # no trial of a search: timed whenever it is asked for
        times = pool.heat([draft, program, draft], 0.1)
    assert isinstance(first, Measured), first
    assert isinstance(again, Measured), again
    assert isinstance(asked, Measured), asked
    assert min(first.run_s, asked.run_s) > 0
    assert again.times_s == first.times_s
    assert (again.check_s, again.run_s, again.load_s) == (0.0, 0.0, 0.0)
    assert again.build_s > 0
    assert times[0] is not None
    assert times == [times[0]] * 3


@pytest.mark.parametrize("cores", [1, 2])
def test_what_is_measured_next_is_begun_before_it_is_asked_for(cores: int) -> None:
    dag, target, program = walk(cores)
    plan = naive(dag, target)
    row = plan.smallest_row
    drafts = [drafted(plan, row), drafted(plan, (*row, 1))]
    with MeasurePool(dag, target) as pool:
        assert pool.measure([program], late=lambda: True, then=drafts) == [None]
        assert not pool.crew._begun
        assert isinstance(pool.measure([program], then=drafts)[0], Measured)
        begun = dict(pool.crew._begun)
        assert len(begun) == (len(drafts) if len(pool.crew.builders) > 1 else 0)
        pool.begin(drafts)  # again: nothing
        assert pool.crew._begun == begun
        good, bad = pool.measure(drafts)
    assert isinstance(good, Measured), good
    assert isinstance(bad, Failed)


@pytest.mark.parametrize("cores", [1, 2])
def test_the_peak_is_measured_where_kernels_are_timed(cores: int) -> None:
    dag, target, _ = walk(cores)
    with MeasurePool(dag, target) as pool:
        assert pool.attainable_flop_per_s() > 0


def test_the_parent_unpickles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dag, target, program = walk(1)
    plan = naive(dag, target)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the parent unpickles")

    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    with MeasurePool(dag, target, Settings(race_processes=1, race_visits=3)) as pool:
        row = plan.smallest_row
        outcomes = pool.measure([drafted(plan, row), drafted(plan, (*row, 1)), program])
        kernel = emit(program, target, 1)
        pool.ahead(kernel)
        raced = pool.race({"naive": kernel}, numpy=True)
        assert pool.verify(kernel) is None
    assert [type(one) for one in outcomes] == [Measured, Failed, Measured]
    assert all(isinstance(one, Race) for one in raced.values())
