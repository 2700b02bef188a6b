"""Answers come from trusted records only; all others start a search, and are measured again."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ansorpy.events import Event, Finished, Improved, RoundDone, Seeded, TaskResult
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.records import IMPORTED, MEASURED, MemoryStore, Origin, Record
from ansorpy.replay import plan_from_text
from ansorpy.state.steps import reformulations
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.reuse.warm import LOOKED_AT, NOTES, SEEDS
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.trust import CODEGEN, is_current, is_trusted, versions
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

(MM,) = parse("def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
CONV = conv2d(1, 8, 8, 8, 8, 3, Window(padding=1))
TARGET = Target(vector_bits=256, registers=16)
DEEP = "[" * 90_000


def tuned(
    out: Path, store: MemoryStore, dag: Dag = MM, trials: int = 32, allow: tuple[str, ...] = ()
) -> list[Event]:
    request = Request((dag,), TARGET, trials=trials, allow=allow)
    rules = find_rules("cpu", allow)
    return list(run(request, rules, store, out, pools=fake_pools(), clock=lambda: 0.0))


def result_of(events: Sequence[Event]) -> TaskResult:
    end = events[-1]
    assert isinstance(end, Finished)
    (result,) = end.results
    return result


@cache
def measured(dag: Dag = MM, allow: tuple[str, ...] = (), trials: int = 32) -> tuple[Record, ...]:
    """Return the records of a tuning: its trials, and last its race."""
    store = MemoryStore()
    with TemporaryDirectory() as out:
        tuned(Path(out), store, dag, trials, allow)
    return tuple(store.export())


def store_of(records: Sequence[Record], origin: Origin) -> MemoryStore:
    store = MemoryStore()
    store.append(records, origin)
    return store


def made_with(record: Record, name: str, version: str | None) -> Record:
    found = {**dict(record.versions), name: version}
    kept = sorted((name, each) for name, each in found.items() if each is not None)
    return replace(record, versions=tuple(kept))


def seeded(events: Sequence[Event]) -> Seeded:
    (found,) = [event for event in events if isinstance(event, Seeded)]
    return found


def first_trials(store: MemoryStore, known: Sequence[Record]) -> list[tuple[str, tuple[int, ...]]]:
    """Return (plan, row) of the trials of the last tuning, in order."""
    old = {record.id for record in known}
    new = [one for one in store.export() if one.id not in old and one.race is None]
    return [(record.plan, record.row) for record in new]


@pytest.mark.parametrize(
    ("name", "version", "answers"),
    [
        (CODEGEN, "0", False),
        (CODEGEN, None, False),
        ("numba", "0.1", False),
        ("llvmlite", "0.1", False),
        ("numpy", "0.1", True),
        ("ansorpy", "0.0.1", True),
    ],
)
def test_a_record_of_another_code_generator_never_answers(
    tmp_path: Path, name: str, version: str | None, answers: bool
) -> None:
    records = [made_with(record, name, version) for record in measured()]
    assert {is_current(record, MM) for record in records} == {answers}
    store = store_of(records, MEASURED)
    events = tuned(tmp_path, store)
    assert result_of(events).from_store is answers
    if not answers:
        assert seeded(events).programs == SEEDS
        assert seeded(events).reasons == ()


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("def f(float(16,24) A, float(24) B) -> (C) { C(i) +=! A(i,k) * B(k) }", True),
        ("def f(float16(16,24) A, float16(24) B) -> (C) { C(i) +=! A(i,k) * B(k) }", False),
        (
            "def f(float(16,24) A, float s) -> (M, E) {"
            " X(i,j) = A(i,j) * s  M(i) max=! X(i,j)  E(i,j) = exp(X(i,j) - M(i)) }",
            False,
        ),
        (
            "def f(float(16,24) A, float s) -> (M, E) {"
            " X(i,j) = A(i,j) + s  M(i) max=! X(i,j)  E(i,j) = X(i,j) - M(i) }",
            True,
        ),
        ("def f(float(16,24) A) -> (E) { E(i,j) = exp(A(i,j)) }", False),
        (
            "def f(float(16,24) A, float(16,24) B) -> (C) {"
            " C(i,j) = j < 24 ? A(i,j) : B(i,j-24) where j in 0:48 }",
            False,
        ),
    ],
    ids=["float32", "16 bits", "a product for two", "a sum for two", "a power", "a choice"],
)
def test_a_record_of_generator_6_answers_if_its_machine_code_is_the_same(
    tmp_path: Path, text: str, answers: bool
) -> None:
    (dag,) = parse(text)
    store = store_of([made_with(one, CODEGEN, "6") for one in measured(dag)], MEASURED)
    events = tuned(tmp_path, store, dag)
    assert result_of(events).from_store is answers
    assert answers or seeded(events).programs > 0


def test_every_record_names_the_version_of_the_code_generator() -> None:
    named = {dict(record.versions)[CODEGEN] for record in measured()}
    assert named == {dict(versions(MM))[CODEGEN]}


def test_an_imported_race_is_no_answer_and_its_program_is_measured_first(tmp_path: Path) -> None:
    records = measured()
    race = records[-1]
    store = store_of(records, IMPORTED)
    events = tuned(tmp_path, store)
    result = result_of(events)
    assert not result.from_store
    assert result.trials == 32
    first = first_trials(store, records)[:SEEDS]
    assert (race.plan, race.row) in first
    assert set(first) <= {(record.plan, record.row) for record in records}


def test_measured_records_answer_beside_imported_ones(tmp_path: Path) -> None:
    own = measured()
    store = store_of(own, MEASURED)
    store.append([replace(record, created_s=1.0) for record in own])
    assert result_of(tuned(tmp_path, store)).from_store


def test_a_forged_time_is_no_best_time(tmp_path: Path) -> None:
    records = [
        replace(record, outcome=Measured((1e-9,)), created_s=1.0)
        for record in measured()
        if record.race is None
    ]
    events = tuned(tmp_path, store_of(records, IMPORTED))
    told = [e.best_s for e in events if isinstance(e, RoundDone | Improved)]
    assert told
    assert min(best_s for best_s in told if best_s is not None) >= 1e-3  # at least `cost_s`
    assert result_of(events).best_s == 1.2e-3


def test_a_forged_failure_keeps_no_program_out_of_the_search(tmp_path: Path) -> None:
    records = [
        replace(record, outcome=Failed("crash", "signal 11"))
        for record in measured()
        if record.race is None
    ]
    store = store_of(records, IMPORTED)
    tuned(tmp_path, store)
    cold = MemoryStore()
    tuned(tmp_path, cold)
    assert first_trials(store, records) == first_trials(cold, [])


@pytest.mark.parametrize(("trials", "programs"), [(8, 2), (16, 4), (64, SEEDS)])
def test_at_most_a_quarter_of_the_trials_goes_to_imported_programs(
    tmp_path: Path, trials: int, programs: int
) -> None:
    store = store_of(measured(), IMPORTED)
    events = tuned(tmp_path, store, trials=trials)
    assert seeded(events).programs == programs
    assert result_of(events).trials == trials


def relabelled() -> list[Record]:
    """Return records of Winograd's transforms under the rules of a request without them."""
    free = measured(CONV, ("winograd4",), trials=8)
    plain = rules_name("cpu", find_rules("cpu"))
    found = []
    for record in free:
        plan = plan_from_text(CONV, TARGET, record.plan)
        if reformulations(plan.state):
            race = free[-1].race
            assert race is not None
            forged = replace(race, reformulated="", trials=10**9, tuned_s=(1e-6,))
            found.append(replace(record, rules=plain, outcome=Measured((1e-6,)), race=forged))
    assert found
    return found


def test_forged_races_of_winograd_are_neither_an_answer_nor_a_start(tmp_path: Path) -> None:
    store = store_of(relabelled(), IMPORTED)
    events = tuned(tmp_path, store, CONV, trials=8)
    assert not result_of(events).from_store
    assert seeded(events).programs == 0
    assert seeded(events).reasons
    for reason in seeded(events).reasons:
        assert reason.endswith("starts nothing: its sketch is none of this request")


def test_a_record_with_an_undeclared_reformulation_is_no_answer(tmp_path: Path) -> None:
    """Beside the origin: the plan itself is looked at."""
    store = store_of(relabelled(), MEASURED)
    assert not result_of(tuned(tmp_path, store, CONV, trials=8)).from_store


def hostile(record: Record) -> Iterator[Record]:
    """Yield records that the reader takes and that cannot be replayed."""
    plan = json.loads(record.plan)
    yield replace(record, plan=DEEP)
    yield replace(record, plan="nonsense")
    yield replace(record, plan="[]")
    yield replace(record, plan="{}")
    yield replace(record, plan=json.dumps({**plan, "steps": [["SP", "C", "i", 10**9, []]]}))
    yield replace(record, plan=json.dumps({**plan, "choices": []}))
    yield replace(record, plan=json.dumps({**plan, "choices": {"C": 1}}))
    for field, value in (
        ("parallel", -1), ("parallel", 10**12), ("lane", "nowhere"), ("at", ["C", "nowhere"]),
        ("at", ["nowhere", "i"]), ("at", "inlined"), ("pack", ["C"]), ("pack", ["nowhere"]),
    ):  # fmt: skip
        choices = {name: {**c, field: value} for name, c in plan["choices"].items()}
        yield replace(record, plan=json.dumps({**plan, "choices": choices}))
    yield replace(record, row=tuple(0 for _ in record.row))
    yield replace(record, row=tuple(2**53 for _ in record.row))
    yield replace(record, row=record.row[:-1])
    yield replace(record, row=())


@pytest.mark.parametrize("origin", [IMPORTED, MEASURED])
def test_records_that_cannot_be_replayed_harm_no_later_tuning(
    tmp_path: Path, origin: Origin
) -> None:
    good = measured()
    store = store_of(list(hostile(good[-1])), origin)
    if origin == IMPORTED:
        store.append([one for good_ in good[:1] for one in hostile(good_)])
    events = tuned(tmp_path, store)
    result = result_of(events)
    assert not result.from_store
    assert (result.trials, result.verified, result.best_s) == (32, True, 1.2e-3)
    if origin == IMPORTED:
        assert seeded(events).programs == 0
        assert len(seeded(events).reasons) == NOTES


def test_a_flood_of_records_is_looked_at_in_part(tmp_path: Path) -> None:
    (race,) = measured()[-1:]
    flood = [replace(race, plan=f"[{number}]") for number in range(2 * LOOKED_AT)]
    slow = [replace(race, outcome=Measured((9.0,)), race=None)]
    assert seeded(tuned(tmp_path, store_of(flood + slow, IMPORTED))).programs == 0
    assert seeded(tuned(tmp_path, store_of(flood[: LOOKED_AT - 1] + slow, IMPORTED))).programs == 1


def test_trust_needs_both_the_origin_and_the_version() -> None:
    race = replace(measured()[-1], origin=MEASURED)
    assert is_trusted(race, MM)
    assert not is_trusted(replace(race, origin=IMPORTED), MM)
    assert not is_trusted(made_with(race, CODEGEN, "0"), MM)
