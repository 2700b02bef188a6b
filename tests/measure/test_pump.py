"""The flow of a batch, with real processes: who works beside whom."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path

import pytest

from ansorpy.measure.workers.pipeline import Call, Pump, Steps, at_once
from ansorpy.measure.workers.replies import Reply, Returned
from ansorpy.measure.workers.spec import WorkerSpec
from ansorpy.measure.workers.worker import Worker

pytestmark = pytest.mark.measure

NAP = f"{__name__}:nap"
NAP_S = 0.2  # long beside what a busy machine takes to pass a call on
Span = tuple[float, float]


def nap(seconds: float) -> Span:
    begin = time.monotonic()
    time.sleep(seconds)
    return begin, time.monotonic()


@contextmanager
def crew(folder: Path, *cores: int) -> Generator[list[Worker]]:
    # Two names for one real core: who rests beside whom goes by the numbers of the `area`.
    workers = [Worker(WorkerSpec(frozenset({0}), folder=str(folder))) for _ in cores]
    try:
        for worker in workers:
            worker.call(NAP, 0.0, 60.0)  # it is there when it is needed
        yield workers
    finally:
        for worker in workers:
            worker.close()


def spans(reply: Reply) -> Span:
    assert isinstance(reply, Returned), reply
    begin, end = reply.value
    return begin, end


def flow(
    builders: list[Worker], slot: Worker, area: frozenset[int], count: int
) -> tuple[list[tuple[Span, Span]], int]:
    held = 0

    @contextmanager
    def hold() -> Iterator[None]:
        nonlocal held
        held += 1
        yield

    def measure(number: int, reply: Reply, seconds: float) -> Steps[tuple[Span, Span]]:
        timed = yield Call(slot, NAP, NAP_S, 5.0)
        return spans(reply), spans(timed)

    def build(number: int, worker: Worker) -> Call:
        return Call(worker, NAP, NAP_S, 5.0)

    return Pump[tuple[Span, Span]](builders, area, build, measure, hold).run(count), held


def overlap(one: Span, two: Span) -> bool:
    return one[0] < two[1] and two[0] < one[1]


def test_where_every_core_is_timed_on_nothing_is_built_meanwhile(tmp_path: Path) -> None:
    with crew(tmp_path, 0, 1, 2) as (a, b, slot):
        found, held = flow([a, b], slot, frozenset({0}), 6)
    built, timed = [one for one, _ in found], [two for _, two in found]
    assert not any(overlap(one, two) for one in built for two in timed)
    assert 1 <= held <= 3  # never for less than there are builders
    assert any(overlap(one, two) for one in built for two in built if one is not two)


def test_other_cores_build_on(tmp_path: Path) -> None:
    with crew(tmp_path, 0, 1) as (a, slot):
        found, _ = flow([a], slot, frozenset({1}), 6)
    built, timed = [one for one, _ in found], [two for _, two in found]
    assert any(overlap(one, two) for one in built for two in timed)
    for first, second in pairwise(timed):
        assert not overlap(first, second)


def test_what_cannot_be_measured_has_its_result_at_once(tmp_path: Path) -> None:
    def measure(number: int, reply: Reply, seconds: float) -> Steps[str] | str:
        return "lost" if number % 2 else later()

    def later() -> Steps[str]:
        yield Call(slot, NAP, 0.0, 5.0)
        return "timed"

    with crew(tmp_path, 0, 1) as (a, slot):
        pump = Pump([a], frozenset({1}), lambda i, w: Call(w, NAP, 0.0, 5.0), measure, nullcontext)
        assert pump.run(4) == ["timed", "lost", "timed", "lost"]
        assert pump.run(0) == []


def test_once_it_is_late_nothing_further_is_built(tmp_path: Path) -> None:
    begun: list[int] = []

    def build(number: int, worker: Worker) -> Call:
        begun.append(number)
        return Call(worker, NAP, 0.0, 5.0)

    def measure(number: int, reply: Reply, seconds: float) -> str:
        return "built"

    late = (lambda: len(begun) >= 2, "given up")
    with crew(tmp_path, 0) as (a,):
        pump = Pump[str]([a], frozenset({1}), build, measure, nullcontext, late)
        assert pump.run(5) == ["built"] * 2 + ["given up"] * 3
    assert begun == [0, 1]


def test_steps_alone_wait_for_every_reply(tmp_path: Path) -> None:
    def steps() -> Steps[float]:
        reply = yield Call(slot, NAP, 0.01, 5.0)
        again = yield Call(slot, NAP, 0.01, 5.0)
        return spans(again)[0] - spans(reply)[1]

    with crew(tmp_path, 0) as (slot,):
        made: Callable[[], Steps[float]] = steps
        assert at_once(made()) >= 0


def test_a_builder_that_was_begun_on_something_joins_in_when_it_is_done(tmp_path: Path) -> None:
    with crew(tmp_path, 0, 1, 2) as (a, b, slot):
        a.call_in_background(NAP, 10 * NAP_S, 5.0)
        over = time.monotonic() + 10 * NAP_S
        assert a.busy
        found, _ = flow([a, b], slot, frozenset(), 4)
    assert min(begin for (begin, _), _ in found) < over - NAP_S  # the other one goes ahead
    assert len(found) == 4


def test_a_builder_answers_first_what_it_was_begun_on_and_nobody_else_does(tmp_path: Path) -> None:
    takers: dict[int, Worker] = {}
    order: list[int] = []

    def build(number: int, worker: Worker) -> Call:
        takers[number] = worker
        order.append(number)
        return Call(worker, NAP, NAP_S, 5.0)

    def measure(number: int, reply: Reply, seconds: float) -> int:
        return number

    with crew(tmp_path, 0, 1) as (a, b):
        owners = {1: b, 3: b, 4: a}
        pump = Pump[int]([a, b], frozenset(), build, measure, nullcontext, owner=owners.get)
        assert pump.run(6) == list(range(6))
    assert {number: takers[number] for number in owners} == owners
    assert {order.index(4), order.index(1)} == {0, 1}
    assert set(takers.values()) == {a, b}


def test_nothing_is_timed_on_the_core_of_what_was_begun(tmp_path: Path) -> None:
    with crew(tmp_path, 0, 1) as (a, slot):
        begin = time.monotonic()
        a.call_in_background(NAP, 5 * NAP_S, 5.0)
        found, _ = flow([a], slot, frozenset({0}), 2)
    assert min(start for _, (start, _) in found) >= begin + 5 * NAP_S


def test_a_call_waits_for_what_was_begun_and_gets_its_own_answer(tmp_path: Path) -> None:
    with crew(tmp_path, 0) as (a,):
        begin = time.monotonic()
        a.call_in_background(NAP, 4 * NAP_S, 5.0)
        start, _ = spans(a.call(NAP, NAP_S, 5.0))
    assert start >= begin + 4 * NAP_S  # the begun call itself has started before that


@pytest.mark.parametrize("area", [frozenset[int](), frozenset({0}), frozenset({0, 1})])
def test_what_comes_after_begins_once_where_nothing_is_timed(
    tmp_path: Path, area: frozenset[int]
) -> None:
    """When the last one is being built: not before, and on no core that is timed on."""
    left: list[int] = []
    built: list[int] = []

    def build(number: int, worker: Worker) -> Call:
        built.append(number)
        return Call(worker, NAP, NAP_S, 5.0)

    def measure(number: int, reply: Reply, seconds: float) -> Steps[int]:
        yield Call(slot, NAP, NAP_S, 5.0)
        return number

    with crew(tmp_path, 0, 1, 2) as (a, b, slot):
        b.spec = WorkerSpec(frozenset({1}), folder=str(tmp_path))  # by its number; see `crew`
        pump = Pump[int](
            [a, b], area, build, measure, nullcontext, after=lambda: left.append(5 - len(built))
        )
        assert pump.run(5) == list(range(5))
    assert left == ([] if area == {0, 1} else [0])
