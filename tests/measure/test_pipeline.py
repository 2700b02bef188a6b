"""The build-run pipeline over the two protocols: in this process, and with napping workers."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from ansorpy.loopir.nodes import Program
from ansorpy.measure.code_cache import CodeCache
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.protocols import (
    Builder,
    BuildRequest,
    BuildResult,
    Checked,
    CheckRequest,
    Slot,
    TrialRequest,
)
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.unbound import Unbound, unbound
from ansorpy.measure.workers.build_queue import BuildQueue
from ansorpy.measure.workers.pipeline import BuildRunPipeline, build_all
from ansorpy.measure.workers.replies import Returned
from ansorpy.measure.workers.spec import WorkerSpec
from ansorpy.measure.workers.worker import Worker
from ansorpy.plan.choices import naive
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.fakes import cost_s
from tests.measure.fake import BACKEND, FakeBuilt, matmul, program
from tests.measure.in_process import InProcessBuilder, InProcessSlot, in_process, prebuild

DAG = matmul()
TARGET = Target(cores=1)
NAP = f"{__name__}:nap"
NAP_S = 0.2  # seconds; long beside the delay of a call on a busy machine
Span = tuple[float, float]


# --- in this process


def candidates(count: int) -> list[Unbound]:
    import numpy as np

    plan: Plan = naive(DAG, TARGET)
    rows = sample(plan, 20 * count, np.random.default_rng(0))
    return [unbound(plan, row) for row in sorted({tuple(map(int, row)) for row in rows})][:count]


def measured(program: Program) -> Measured:
    return Measured((cost_s(program),))


def parts(batches: BatchMeasurer) -> tuple[list[InProcessBuilder], InProcessSlot]:
    """Return builders and slot, which implement the protocols."""
    slot: Slot = batches.slot
    builders: Sequence[Builder] = batches.queue.builders
    assert isinstance(slot, InProcessSlot)
    return [one for one in builders if isinstance(one, InProcessBuilder)], slot


@pytest.mark.parametrize("builders", [1, 2, 3])
def test_outcomes_come_in_the_order_of_the_candidates(builders: int) -> None:
    found: list[list[Outcome | None]] = []
    for count in (1, builders):
        batches = in_process(TARGET, measured, count)
        found.append(batches.measure(candidates(4), None, lambda: False, 1.0))
    assert found[0] == found[1]
    assert len({one.times_s for one in found[0] if isinstance(one, Measured)}) > 1


def test_each_candidate_is_built_once_and_asked_with_the_least_cost_before_it() -> None:
    batches = in_process(TARGET, measured)
    asked = candidates(4)
    found = batches.measure([*asked, asked[0]], None, lambda: False, 1.0)
    (builder,), slot = parts(batches)
    assert [one.what for one in builder.built] == [batches.request_of(one).what for one in asked]
    assert found[4] == found[0]
    assert len(slot.requests) == len({id(one) for one in slot.requests}) <= 4
    best_s: float | None = None
    for request, outcome in zip(slot.requests, found, strict=False):
        assert isinstance(request, TrialRequest)
        assert isinstance(outcome, Measured)
        assert request.best_s == best_s
        best_s = outcome.cost_s if best_s is None else min(best_s, outcome.cost_s)
    fresh = [one.fresh for one in slot.requests if isinstance(one, TrialRequest)]
    assert fresh == [True, *[False] * (len(fresh) - 1)]


def test_prebuilt_candidates_are_not_built_again() -> None:
    batches = in_process(TARGET, measured, builders=2)
    asked = candidates(4)
    prebuild(batches, asked[:2])
    prebuild(batches, asked[:2])  # under way
    found = batches.measure(asked, None, lambda: False, 1.0)
    builders, _ = parts(batches)
    assert sum(len(one.built) for one in builders) == 4
    assert all(isinstance(one, Measured) for one in found)
    prebuild(batches, asked)  # cached
    assert sum(len(one.built) for one in builders) == 4


@pytest.mark.parametrize("late", [False, True])
def test_later_candidates_are_built_once_nothing_else_is_left_to_build(late: bool) -> None:
    batches = in_process(TARGET, measured, builders=2)
    asked = candidates(4)
    prebuild(batches, asked[2:], later=True)
    builders, slot = parts(batches)
    assert not any(one.built for one in builders)
    batches.measure(asked[:2], None, lambda: late, 1.0)
    built = [one.what for builder in builders for one in builder.built]
    wanted = [] if late else asked
    assert len(built) == len(wanted)
    assert all(batches.request_of(one).what in built for one in wanted)
    assert len(slot.requests) <= 2


def test_the_last_builder_is_left_to_the_caller() -> None:
    batches = in_process(TARGET, measured)
    prebuild(batches, candidates(2))
    (builder,), _ = parts(batches)
    assert builder.built == []


def test_an_only_builder_works_beside_the_caller_if_there_is_another_core() -> None:
    batches = in_process(TARGET, measured)
    queue = batches.queue
    beside = BuildQueue(queue.builders, queue.quiet, queue.cache, cores=2)
    beside.prebuild([batches.request_of(one) for one in candidates(2)], 1.0)
    (builder,), _ = parts(batches)
    assert len(builder.built) == 2


def test_a_failed_build_is_an_outcome_and_reaches_no_slot() -> None:
    good = candidates(1)[0]
    bad = Unbound(good.plan, (*good.row, 1), None)
    batches = in_process(TARGET, measured)
    found = batches.measure([bad, good], None, lambda: False, 1.0)
    assert isinstance(found[0], Failed)
    assert isinstance(found[1], Measured)
    assert len(parts(batches)[1].requests) == 1


def test_a_candidate_that_failed_in_a_batch_is_built_again_alone() -> None:
    good = candidates(1)[0]
    bad = Unbound(good.plan, (*good.row, 1), None)
    batches = in_process(TARGET, measured, builders=2)
    prebuild(batches, [bad, good])
    found = batches.measure([bad, good], None, lambda: False, 1.0)
    assert isinstance(found[0], Failed)
    assert isinstance(found[1], Measured)
    built = [one.what for builder in parts(batches)[0] for one in builder.built]
    assert built.count(batches.request_of(bad).what) == 2
    assert built.count(batches.request_of(good).what) == 1


class LateBuilder(InProcessBuilder):
    """A builder whose first batch has ended at the second look at it."""

    looks = 0

    def fileno(self) -> int:
        self.looks += 1
        if self.looks > 1 and not self.idle:
            super()._tell()
        return super().fileno()

    def _tell(self) -> None:
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_a_batch_that_ends_while_following_ones_begin_is_not_lost(fails: bool) -> None:
    good, other = candidates(2)
    wanted = Unbound(good.plan, (*good.row, 1), None) if fails else good
    request_of = in_process(TARGET, measured).request_of
    late = LateBuilder()
    queue = BuildQueue([late, InProcessBuilder()], frozenset(), CodeCache())
    queue.start(late, [request_of(wanted)], 1.0)
    queue.prebuild([request_of(other)], 1.0, later=True)
    (found,) = build_all(queue, [request_of(wanted)], 1.0)
    assert isinstance(found, Failed if fails else BuildResult)


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_more_is_built_or_measured_once_it_is_late(count: int) -> None:
    batches = in_process(TARGET, measured, count)
    builders, slot = parts(batches)
    found = batches.measure(candidates(4), None, lambda: len(slot.requests) >= 1, 1.0)
    assert [one is None for one in found] == [False, True, True, True]
    assert [len(one.built) for one in builders] == [1] * count
    assert len(slot.requests) == 1


def test_contestants_are_checked_and_failures_are_named() -> None:
    def verdict(one: Program) -> Outcome:
        return Failed("wrong", "C[0] is 1, not 2") if one.name == "bad" else Measured((1.0,))

    batches = in_process(TARGET, verdict)
    good, bad = batches.check([program("good", DAG), program("bad", DAG)], [None, 2.0], 1.0)
    assert isinstance(bad, Failed)
    assert not isinstance(good, Failed)
    assert isinstance(good[1], Checked)
    requests = parts(batches)[1].requests
    assert [one.glance_s for one in requests if isinstance(one, CheckRequest)] == [None, 2.0]


def test_the_reference_is_a_kernel_that_is_much_faster_and_not_slowed_down() -> None:
    batches = in_process(TARGET, measured)
    first, loud, calm = (FakeBuilt(name, ()) for name in ("first", "loud", "calm"))
    batches.note_reference(first, Measured((1e-3,)))
    batches.note_reference(loud, Measured((1e-3,), slowdown=9.0))  # 0.1 ms after correction
    batches.note_reference(calm, Measured((9e-4,)))
    assert batches.reference == (first, 1e-3)
    batches.note_reference(calm, Measured((5e-4,), slowdown=1.1))
    assert batches.reference is not None
    assert batches.reference[0] == calm


# --- with worker processes that sleep


def nap(seconds: float) -> Span:
    begin = time.monotonic()
    time.sleep(seconds)
    return begin, time.monotonic()


@dataclass(frozen=True)
class Nap:
    """The span of a build, in place of machine code."""

    span: Span
    number: str
    buffers: tuple[()] = ()
    phases: tuple[()] = ()
    steady: tuple[()] = ()


class Sleeper:
    """A builder and a slot whose work is a nap of a worker process."""

    def __init__(self, worker: Worker, cores: frozenset[int], nap_s: float = NAP_S) -> None:
        self.worker, self.cores, self.nap_s, self.reserved = worker, cores, nap_s, 0
        self.numbers: list[str] = []

    @property
    def idle(self) -> bool:
        return self.worker.idle

    def fileno(self) -> int:
        return self.worker.fileno()

    def patience_s(self) -> float:
        return self.worker.patience_s()

    def submit(self, requests: Any, timeout_s: float = 5.0) -> None:
        if isinstance(requests, list | tuple):
            self.numbers = [one.what.name for one in requests]
        self.worker.send(NAP, self.nap_s, timeout_s)

    def results(self) -> list[BuildResult | Failed]:
        span = self.span()
        return [BuildResult(Nap(span, number), 0.0) for number in self.numbers]

    def span(self) -> Span:
        reply = self.worker.receive()
        assert isinstance(reply, Returned), reply
        begin, end = reply.value
        return begin, end

    def advance(self) -> Outcome | Checked | None:
        begin, end = self.span()
        return Measured((begin, end))

    def prepare(self, meanings: Iterable[Dag | None], first_only: bool = False) -> None:
        """Do nothing."""

    def reserve(self) -> AbstractContextManager[None]:
        @contextmanager
        def reserved() -> Iterator[None]:
            self.reserved += 1
            yield

        return reserved()


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Worker]]:
    """Three processes for all tests: to start one takes half a second of a core."""
    # Every worker runs on core 0; the cores of a sleeper decide whether it disturbs the slot.
    spec = WorkerSpec(frozenset({0}), folder=str(tmp_path_factory.mktemp("naps")))
    made = [Worker(spec) for _ in range(3)]
    for one in made:
        one.call(NAP, 0.0, 60.0)  # wait until it has started
    yield made
    for one in made:
        one.close()


Sleepers = Callable[..., list[Sleeper]]


@pytest.fixture
def sleepers(workers: list[Worker]) -> Iterator[Sleepers]:
    """Return a function that makes a sleeper for each number of a core."""

    def made(*cores: int) -> list[Sleeper]:
        pairs = zip(cores, workers, strict=False)
        return [Sleeper(worker, frozenset({core})) for core, worker in pairs]

    yield made
    assert all(one.idle for one in workers), "a test leaves a call to the next one"


def requests(count: int) -> list[BuildRequest]:
    return [BuildRequest(BACKEND, program(str(i), DAG), TARGET) for i in range(count)]


def flow(
    builders: list[Sleeper], slot: Sleeper, count: int, batch: int = 0
) -> list[tuple[Span, Span]]:
    """Return when each candidate was built and when it was measured.

    Args:
        batch: how many of them are in a batch of the first builder before the pipeline begins.
    """
    queue = BuildQueue(builders, slot.cores, CodeCache())
    asked = requests(count)
    if batch:
        builders[0].nap_s = 10 * NAP_S
        queue.start(builders[0], asked[:batch], 5.0)
        builders[0].nap_s = NAP_S

    def request_of(number: int, done: BuildResult) -> TrialRequest:
        assert isinstance(done.built, Nap)
        assert done.built.number == str(number)
        return TrialRequest(done.built, None)

    def result_of(_: int, done: BuildResult, answer: Outcome | Checked) -> tuple[Span, Span]:
        assert isinstance(answer, Measured)
        assert isinstance(done.built, Nap)
        begin, end = answer.times_s
        return done.built.span, (begin, end)

    pipeline = BuildRunPipeline[tuple[Span, Span]](queue, slot, request_of, result_of)
    found = pipeline.run(asked, 5.0)
    return [one for one in found if not isinstance(one, Failed)]


def overlap(one: Span, two: Span) -> bool:
    return one[0] < two[1] and two[0] < one[1]


@pytest.mark.slow
def test_nothing_is_built_while_every_core_is_timed_on(sleepers: Sleepers) -> None:
    a, b, slot = sleepers(0, 0, 0)
    found = flow([a, b], slot, 6)
    reserved = slot.reserved
    built, timed = [one for one, _ in found], [two for _, two in found]
    assert not any(overlap(one, two) for one in built for two in timed)
    assert 1 <= reserved <= 3  # for as many candidates as there are builders, at least
    assert any(overlap(one, two) for one in built for two in built if one is not two)


@pytest.mark.slow
def test_builders_on_other_cores_build_while_the_slot_measures(sleepers: Sleepers) -> None:
    a, slot = sleepers(0, 1)
    found = flow([a], slot, 6)
    built, timed = [one for one, _ in found], [two for _, two in found]
    assert any(overlap(one, two) for one in built for two in timed)
    for first, second in pairwise(timed):
        assert not overlap(first, second)


@pytest.mark.slow
def test_a_batch_in_progress_is_waited_for_and_other_builders_go_ahead(sleepers: Sleepers) -> None:
    a, b, slot = sleepers(0, 1, 2)
    begin = time.monotonic()
    found = flow([a, b], slot, 5, batch=2)
    late = begin + 9 * NAP_S
    assert len(found) == 5
    assert [built[1] > late for built, _ in found] == [True, True, False, False, False]


@pytest.mark.slow
def test_nothing_is_measured_while_a_batch_disturbs_the_slot(sleepers: Sleepers) -> None:
    a, slot = sleepers(0, 0)
    begin = time.monotonic()
    found = flow([a], slot, 3, batch=1)
    assert min(start for _, (start, _) in found) >= begin + 10 * NAP_S


@pytest.mark.slow
def test_a_queue_without_a_slot_builds_on_all_builders(sleepers: Sleepers) -> None:
    a, b = sleepers(0, 1)
    found = build_all(BuildQueue([a, b], frozenset({0}), CodeCache()), requests(4), 5.0)
    spans = [one.built.span for one in found if isinstance(one, BuildResult)
             and isinstance(one.built, Nap)]  # fmt: skip
    assert len(spans) == 4
    assert any(overlap(one, two) for one, two in pairwise(spans))


@pytest.mark.slow
def test_a_call_waits_for_the_call_in_the_background_and_gets_its_own_answer(
    sleepers: Sleepers,
) -> None:
    (a,) = sleepers(0)
    begin = time.monotonic()
    a.worker.call_in_background(NAP, 4 * NAP_S, 5.0)
    reply = a.worker.call(NAP, NAP_S, 5.0)
    assert isinstance(reply, Returned)
    assert reply.value[0] >= begin + 4 * NAP_S


@pytest.mark.slow
def test_a_prebuilt_batch_prefers_a_builder_that_does_not_disturb_the_slot(
    sleepers: Sleepers,
) -> None:
    disturbs, free = sleepers(1, 0)
    queue = BuildQueue([disturbs, free], frozenset({1}), CodeCache())
    queue.prebuild(requests(2), 5.0)
    assert list(queue.batches) == [free]
    queue.wait_quiet()  # nothing to wait for
    assert list(queue.batches) == [free]
    assert len(list(queue.take(free))) == 2
