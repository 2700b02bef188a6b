"""Trials shared among slots: the records, lost slots, costs on one scale."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansorpy.cluster.calls import TaskCalls
from ansorpy.cluster.pool import ClusterBackEnd
from ansorpy.cluster.slots import LostSlotError
from ansorpy.errors import RunError
from ansorpy.events import SlotNews
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.records import MemoryStore, Record
from ansorpy.rules import CPU
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from tests.cluster.ordered import TEXT, Facts, cluster, facts, tuned
from tests.fakes import COMPILE_S, fake_pools


def searched(back_end: ClusterBackEnd, out: Path) -> list[Record]:
    return tuned(lambda: Pools(back_end), out)[1]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """Return the facts of the records of one process."""
    return facts(tuned(fake_pools(), tmp_path_factory.mktemp("here"))[1])


@pytest.fixture
def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no round begin before the one before has ended."""
    monkeypatch.setattr("ansorpy.cluster.pool.ROUNDS", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("count", [1, 4])
def test_slots_give_the_records_of_one_process(
    count: int, here: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(monkeypatch, *[{}] * count) as back_end:
        assert facts(searched(back_end, tmp_path)) == here


@pytest.mark.slow
def test_rounds_under_way_give_the_same_records_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for sleeps in ((0.0, 0.02, 0.0, 0.01), (0.02, 0.0, 0.01, 0.0)):
        with cluster(monkeypatch, *({"sleep": s} for s in sleeps)) as back_end:
            assert back_end.rounds() == 4
            found.append(facts(tuned(lambda: Pools(back_end), tmp_path, 72)[1]))
    assert found[0] == found[1]
    rows = [(plan, row) for plan, row, _, raced in found[0] if raced]
    assert len({*rows}) == len(rows) == 72


@pytest.mark.slow
@pytest.mark.usefixtures("one_round")
def test_costs_of_a_slower_slot_are_multiples_of_the_same_kernels(
    here: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(monkeypatch, {}, {"factor": 2.0}) as back_end:
        found = searched(back_end, tmp_path)
    for (*ours, cost, raced), (*theirs, other, also) in zip(facts(found), here, strict=True):
        assert (ours, raced) == (theirs, also)
        assert cost == pytest.approx(other)
    slow = [one.outcome for one in found if isinstance(one.outcome, Measured)]
    assert {round(one.slowdown, 6) for one in slow} == {1.0, 2.0}


@pytest.mark.slow
def test_costs_stay_on_one_scale_if_the_pool_of_a_task_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (dag,), target = parse(TEXT), local_target(1)
    plan = naive(dag, target)
    program = bind(plan, plan.smallest_row, target)
    with cluster(monkeypatch, {}, {"factor": 2.0}) as back_end:
        costs = []
        for turn in range(3):
            pool = back_end.open(dag, target, 0)
            if turn == 1:  # the slot that set the scale is busy
                assert back_end.crew.hold(back_end.crew.usable()[0])
            (outcome,) = pool.measure([program])
            pool.close()
            assert isinstance(outcome, Measured)
            costs.append(outcome.cost_s)
    assert costs == pytest.approx([costs[0]] * 3)


@pytest.mark.slow
@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("order", [{"crash": 5}, {"hang": 5}])
def test_a_batch_of_a_lost_slot_goes_to_another_one(
    order: Mapping[str, int], here: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ansorpy.cluster.sharing.GRACE_S", 5.0)
    with cluster(monkeypatch, order, {}, timeout_s=0.1) as back_end:
        assert facts(searched(back_end, tmp_path)) == here


@pytest.mark.slow
def test_a_slot_that_is_late_is_not_there_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its batch would be given to it again. The clock runs from the begin of a question."""
    (dag,), target = parse(TEXT), local_target(1)
    plan = naive(dag, target)
    program = bind(plan, plan.smallest_row, target)
    for _ in range(3):
        with cluster(monkeypatch, {"hang": 1}, {}) as back_end:
            crew = back_end.crew
            name = crew.usable()[0]
            calls = TaskCalls(crew, 1, (dag, target, 0, MeasureSettings()))
            late = calls.ask(name, 0.5, "measure", [program], None)
            behind = calls.ask(name, 0.0, "begin_cases")
            with pytest.raises(LostSlotError, match="did not answer within 0 s"):
                crew.answer(late)
            assert name not in crew.usable()
            with pytest.raises(LostSlotError):
                crew.answer(behind)


@pytest.mark.slow
@pytest.mark.usefixtures("one_round")
def test_a_batch_that_two_slots_lose_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second slot ends at the first candidate that it gets; so do all after it."""
    order = {"crash": 1, "always": True}
    with cluster(monkeypatch, order, order) as back_end:
        found = searched(back_end, tmp_path)
    outcomes = [one.outcome for one in found if one.race is None]
    assert len(outcomes) == 24
    assert all(isinstance(one, Failed) and one.kind == "crash" for one in outcomes)
    assert {one.message.partition(":")[0] for one in outcomes if isinstance(one, Failed)} == {
        "two slots lost its batch"
    }


@pytest.mark.slow
@pytest.mark.usefixtures("one_round")
def test_a_slot_that_becomes_slow_is_set_aside_and_its_batch_measured_again(
    here: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"slow_from": 8, "slowdown": 1.2}
    with cluster(monkeypatch, {}, slow) as back_end:
        events, records = tuned(lambda: Pools(back_end), tmp_path)
    assert facts(records) == here
    told = [one.news for one in events if isinstance(one, SlotNews)]
    assert told[0].startswith("2 slots of kind ")
    assert told[1].endswith("is not used: its reference kernel takes 1.20 times as long as before")
    assert told[2].startswith("1 slot of kind ")


@pytest.mark.slow
@pytest.mark.usefixtures("one_round")
def test_a_slow_slot_goes_on_if_the_times_of_the_others_disagree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no slot would be left."""
    slow = {"slow_from": 8, "slowdown": 1.2}
    with cluster(monkeypatch, slow, {"uneven": True}, patience_s=1.0) as back_end:
        events, records = tuned(lambda: Pools(back_end), tmp_path)
    told = [one.news for one in events if isinstance(one, SlotNews)]
    assert any(one.endswith("kernels disagree with another slot") for one in told)
    assert not any("its reference kernel" in one for one in told)
    outcomes = [one.outcome for one in records if one.race is None]
    assert len(outcomes) == 24
    assert all(isinstance(one, Measured) for one in outcomes)


@pytest.mark.slow
@pytest.mark.usefixtures("one_round")
def test_a_slot_whose_times_disagree_is_used_if_it_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(monkeypatch, {}, {"uneven": True}, patience_s=1.0) as back_end:
        first, last = back_end.crew.usable()
        events = []
        store = MemoryStore()
        request = Request(parse(TEXT), local_target(1), trials=48, fresh=True, early=False)
        for event in run(request, CPU, store, tmp_path, pools=lambda: Pools(back_end)):
            events.append(event)
            if isinstance(event, SlotNews) and "disagree" in event.news:
                back_end.crew.set_aside(first, "its machine leaves")
    told = [one.news for one in events if isinstance(one, SlotNews)]
    assert f"slot {last} is used all the same: no other one is there" in told
    outcomes = [one.outcome for one in store.export() if one.race is None]
    assert len(outcomes) == 48
    assert all(isinstance(one, Measured) for one in outcomes)


@pytest.mark.slow
def test_a_slot_of_another_version_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with cluster(monkeypatch, {"version": "0.1.0"}, patience_s=0.2) as back_end:
        with pytest.raises(RunError, match="cannot measure because no slot of kind") as error:
            back_end.crew.wait()
        assert "runs ansorpy 0.1.0; expected 0.2.0, as here" in str(error.value)


@pytest.mark.slow
def test_a_slot_answers_every_method_of_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """`FakePool` gives the values, and looks at no kernel."""
    kernel: Any = None
    with cluster(monkeypatch, {}) as back_end:
        pool = back_end.open(parse(TEXT)[0], local_target(1), 0)
        pool.begin_cases()
        assert pool.verify(kernel) is None
        assert {*pool.race({"naive": kernel})} == {"naive", "numpy"}
        assert pool.rerank([], 1.0) == []
        assert pool.time_sizes(kernel, [(2,), (4,)], numpy=True) == ((2e-6, 4e-6), (4e-6, 8e-6))
        assert pool.begin_call({"kernel.py": b""})() == COMPILE_S
        assert pool.export() == Failed("build", "a fake pool has no libraries")
        assert pool.attainable_flop_per_s() == 0.0
        pool.close()
