import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.errors import RecordError
from ansorpy.measure.outcome import Estimated, Failed, Measured
from ansorpy.records import (
    IMPORTED,
    MAX_LINE_BYTES,
    MEASURED,
    JsonlStore,
    MemoryStore,
    Race,
    Record,
    RecordStore,
    SizeTimes,
    decode,
    encode,
    import_jsonl,
    lines_of,
    reader,
    task_key,
)
from ansorpy.target import CpuTarget, Target, cuda_target

KEY = task_key("ab" * 32, Target(cores=2))
RACE = Race("tuned", "tuned", (1e-3, 1.1e-3), (4e-3,), (), (-1.0, 1.0), (1e-4,), 8, 64, 12.5, "00")


def trial(cost_s: float, *, key: str = KEY, row: tuple[int, ...] = (4, 8)) -> Record:
    return Record(
        key, "ab" * 32, "cpu@1", '{"steps":[]}', row, Measured((cost_s, cost_s * 1.1)),
        "cd" * 32, (("ansorpy", "0.1.0"),), 1.5,
    )  # fmt: skip


ESTIMATES = task_key("ab" * 32, cuda_target("sm_90"), estimated=True)
ESTIMATE = Estimated(2e-4, (("issue", 1e-4), ("memory", 2e-4)), 96, True, 0.25)
ESTIMATED = Record(ESTIMATES, "ab" * 32, "cuda@1", '{"steps":[]}', (4, 8), ESTIMATE)
FAILED = replace(trial(1.0), outcome=Failed("wrong", "off by one", "C[3]", 0.2))


class StoreContract:
    """The contract of stores; a subclass gives the `make` fixture (same place each call)."""

    @pytest.fixture
    def make(self) -> Callable[[], RecordStore]:
        raise NotImplementedError

    def test_the_best_is_the_fastest_trial_that_was_not_aborted(
        self, make: Callable[[], RecordStore]
    ) -> None:
        store = make()
        aborted = replace(trial(0.1), outcome=Measured((0.1,), aborted=True))
        store.append([trial(3.0), trial(2.0), FAILED, aborted])
        store.append([trial(1.0, key="other/key/1"), replace(trial(0.5), race=RACE), ESTIMATED])
        best = store.best(KEY)
        assert store.best(ESTIMATES) is None
        assert best is not None
        assert best == trial(2.0)

    def test_a_store_without_measurements_has_no_best(
        self, make: Callable[[], RecordStore]
    ) -> None:
        store = make()
        store.append([FAILED])
        assert store.best(KEY) is None
        assert store.best("unknown") is None

    def test_the_best_of_each_key_of_a_structure_is_found(
        self, make: Callable[[], RecordStore]
    ) -> None:
        store = make()
        here = [replace(trial(cost_s), structure="ab") for cost_s in (2.0, 1.0)]
        there = replace(trial(3.0, key="other/key/1"), structure="ab")
        store.append([*here, there, trial(0.5), replace(trial(0.1), structure="cd")])
        store.append([replace(FAILED, structure="ab"), replace(trial(0.2), race=RACE)])
        assert set(store.similar("ab")) == {here[1], there}
        assert store.similar("unknown") == ()

    def test_records_come_back_whole_and_in_order(self, make: Callable[[], RecordStore]) -> None:
        store = make()
        written = (trial(3.0), FAILED, replace(trial(2.0), race=RACE))
        store.append(written)
        assert store.all(KEY) == written
        assert tuple(store.export()) == written

    def test_the_same_record_twice_is_kept_once(self, make: Callable[[], RecordStore]) -> None:
        store = make()
        store.append([trial(1.0), trial(1.0)])
        store.append([trial(1.0)])
        assert (store.count(), store.count(KEY), store.count("unknown")) == (1, 1, 0)

    def test_export_and_import_between_stores(self, make: Callable[[], RecordStore]) -> None:
        source = MemoryStore()
        source.append([trial(1.0), FAILED])
        lines = [encode(record) for record in source.export()]
        store = make()
        store.append(tuple(import_jsonl(lines)))
        assert store.all(KEY) == source.all(KEY)

    def test_a_record_is_imported_unless_a_tuner_measured_it(
        self, make: Callable[[], RecordStore]
    ) -> None:
        store = make()
        store.append([trial(1.0), replace(trial(2.0), origin=MEASURED)])
        store.append([trial(3.0)], MEASURED)
        found = [IMPORTED, IMPORTED, MEASURED]
        assert [record.origin for record in make().all(KEY)] == found
        assert [record.origin for record in make().export()] == found

    def test_the_first_origin_of_a_record_stays(self, make: Callable[[], RecordStore]) -> None:
        store = make()
        store.append([trial(1.0)], MEASURED)
        store.append([trial(2.0)])
        store.append([trial(1.0)])
        store.append([trial(2.0)], MEASURED)
        assert [record.origin for record in make().all(KEY)] == [MEASURED, IMPORTED]


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def make(self) -> Callable[[], RecordStore]:
        store = MemoryStore()
        return lambda: store


class TestJsonlStore(StoreContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], RecordStore]:
        return lambda: JsonlStore(tmp_path / "deep" / "records.jsonl")

    def test_a_torn_last_line_is_dropped_and_repaired(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        JsonlStore(path).append([trial(1.0), trial(2.0)])
        whole = path.read_bytes()
        path.write_bytes(whole[:-20])
        store = JsonlStore(str(path))
        assert store.all(KEY) == (trial(1.0),)
        store.append([trial(3.0)])
        assert JsonlStore(path).all(KEY) == (trial(1.0), trial(3.0))

    def test_records_before_a_torn_tail_are_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        JsonlStore(path).append([trial(1.0), trial(2.0)])
        whole = path.read_bytes()
        first = whole.index(b"\n") + 1
        for end in range(first, len(whole)):
            path.write_bytes(whole[:end])
            assert JsonlStore(path).all(KEY) == (trial(1.0),)

    def test_a_broken_line_in_the_middle_is_an_error_with_its_number(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        path.write_text(encode(trial(1.0)) + "\n{}\n" + encode(trial(2.0)) + "\n")
        with pytest.raises(RecordError, match=r"records\.jsonl, line 2: format None"):
            JsonlStore(path)

    def test_bytes_that_are_not_utf8_are_an_error_with_their_line(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        line = encode(trial(1.0)).replace("cpu@1", "cpu@?").encode()
        path.write_bytes(encode(trial(1.0)).encode() + b"\n" + line.replace(b"?", b"\xff") + b"\n")
        with pytest.raises(RecordError, match=r"records\.jsonl, line 2: not a record: rules"):
            JsonlStore(path)

    def test_pasted_lines_and_a_file_from_elsewhere_are_imported(self, tmp_path: Path) -> None:
        path, copy = tmp_path / "records.jsonl", tmp_path / "copy.jsonl"
        JsonlStore(path).append([trial(1.0)], MEASURED)
        pasted = {**json.loads(encode(trial(2.0))), "origin": MEASURED}
        with path.open("a") as file:
            file.write(json.dumps(pasted) + "\n")
        assert [r.origin for r in JsonlStore(path).all(KEY)] == [MEASURED, IMPORTED]
        copy.write_bytes(path.read_bytes())
        assert [r.origin for r in JsonlStore(copy).all(KEY)] == [IMPORTED, IMPORTED]

    def test_a_torn_list_of_measured_records_is_repaired(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        store = JsonlStore(path)
        store.append([trial(1.0), trial(2.0)], MEASURED)
        whole = store.measured_path.read_bytes()
        store.measured_path.write_bytes(whole[:-20])
        JsonlStore(path).append([trial(3.0)], MEASURED)
        found = [record.origin for record in JsonlStore(path).all(KEY)]
        assert found == [MEASURED, IMPORTED, MEASURED]

    def test_two_writers_share_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        one, two = JsonlStore(path), JsonlStore(path)
        one.append([trial(1.0)])
        two.append([trial(2.0)])
        one.append([trial(3.0)])
        assert JsonlStore(path).count() == 3


@given(
    times=st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=5),
    row=st.lists(st.integers(1, 2**31), max_size=20),
    text=st.text(max_size=50),
)
def test_decode_undoes_encode(times: list[float], row: list[int], text: str) -> None:
    for outcome in (
        Measured(tuple(times), 0.1, 0.2, 0.3, True),
        Measured(tuple(times), slowdown=max(times)),
        Failed("crash", text, text, 1.0),
    ):
        record = replace(trial(1.0, row=tuple(row)), outcome=outcome, race=RACE)
        assert decode(encode(record)) == record
        assert decode(encode(record)).id == record.id


def test_times_at_sizes_are_kept_and_records_without_them_keep_their_ids() -> None:
    timed = (SizeTimes((1, 64), (1e-6,)), SizeTimes((8, 64), (2e-6, 3e-6)))
    record = replace(trial(1.0), race=replace(RACE, by_size=timed))
    assert decode(encode(record)) == record
    assert "by_size" not in encode(replace(trial(1.0), race=RACE))


def altered(place: str, text: str, record: Record | None = None) -> str:
    """Return the line of a record with one field, named by its way, in other JSON text."""
    found = json.loads(encode(record or replace(trial(1.0), race=RACE)))
    *way, last = place.split(".")
    inner = found
    for name in way:
        inner = inner[name]
    inner[last] = "@@"
    return json.dumps(found).replace('"@@"', text)


DEEP = "[" * 100_000
HOSTILE = [
    ("nonsense", "not a record: Expecting value"),
    ("[]", "not a record: expected an object"),
    (DEEP, "not a record: nested too deep"),
    ("x" * (MAX_LINE_BYTES + 1), "not a record: 1048577 characters, limit 1048576"),
    (altered("format", "9"), "format 9, this version reads 1"),
    (altered("key", '"a", "key": "b"'), "a key is there twice"),
    (altered("key", '"' + "k" * 129 + '"'), "key is .* expected at most 128 printable ASCII"),
    (altered("key", '"a\\u0000"'), "key is .* expected at most 128 printable ASCII"),
    (altered("key", '"\\ud800"'), "key is .* expected at most 128 printable ASCII"),
    (altered("plan", '"\\ud800"'), "plan is .* expected text"),
    (altered("plan", '"' + "p" * 300_000 + '"'), "plan is .* expected text of at most 262144"),
    (altered("row", '["x"]'), "row is .* expected an integer"),
    (altered("row", "[1e999]"), "row is .* expected an integer"),
    (altered("row", "[-1]"), "row is .* expected an integer"),
    (altered("row", "[true]"), "row is .* expected an integer"),
    (altered("row", f"[{10**400}]"), "row is .* expected an integer"),
    (altered("row", f"[{'1' * 5000}]"), "not a record: Exceeds the limit"),
    (altered("row", str([1] * 5000)), "row is .* expected a list of 0 to 4096 items"),
    (altered("versions", '{"numba": 1}'), "versions is .* expected at most 128 printable"),
    (altered("versions", "[]"), "versions is .* expected an object"),
    (altered("created_s", "NaN"), "NaN is not JSON"),
    (altered("created_s", "Infinity"), "Infinity is not JSON"),
    (altered("created_s", "1e999"), "created_s is inf, expected a number"),
    (altered("outcome", '{"is": "guessed"}'), "expected an outcome that is measured, estimated"),
    (altered("outcome", DEEP[:400] + "]" * 400), "expected an outcome"),
    (altered("outcome.times_s", "[]"), "times_s is .* expected a list of 1 to 4096 items"),
    (altered("outcome.times_s", "[0.0]"), "times_s is .* expected a number from 1e-12"),
    (altered("outcome.times_s", "[-1.0]"), "times_s is .* expected a number from 1e-12"),
    (altered("outcome.times_s", "[1e-300]"), "times_s is .* expected a number from 1e-12"),
    (altered("outcome.times_s", '"fast"'), "times_s is 'fast', expected a list"),
    (altered("outcome.slowdown", '"fast"'), "slowdown is 'fast', expected a number"),
    (altered("outcome.slowdown", "[1]"), "slowdown is .* expected a number"),
    (altered("outcome.aborted", "1"), "aborted is 1, expected true or false"),
    (altered("outcome.extra", "1"), "field 'extra' is not known"),
    (altered("parts", '{"search": "annealing"}'), "not a record: 'annealing', expected an object"),
    (altered("parts", '{"search": {"name": "a"}}'), "field 'package' is missing"),
    (altered("parts", "[]"), r"parts is \[\], expected an object of at most"),
    (altered("outcome.kind", '"' + "k" * 100_000 + '"', FAILED), "kind is .* expected one of"),
    (altered("outcome.message", '"' + "m" * 100_000 + '"', FAILED), "message is .* expected text"),
    (altered("outcome.seconds", "0", ESTIMATED), "seconds is 0, expected a number from 1e-12"),
    (altered("outcome.parts", "[]", ESTIMATED), "parts is .* expected an object of at most 16"),
    (altered("outcome.parts", '{"issue": -1}', ESTIMATED), "parts is .* expected a number from 0"),
    (altered("outcome.parts", '{"\\u00e9": 1}', ESTIMATED), "parts is .* printable ASCII"),
    (altered("key", f'"{KEY}"', ESTIMATED), "that is the key of measurements"),
    (altered("key", f'"{ESTIMATES}"'), "cannot keep a race under .*/estimated"),
    (altered("key", f'"{ESTIMATES}"', trial(1.0)), "cannot keep a measurement under"),
    (altered("race", "{}"), "field '.*' is missing"),
    (altered("race.winner", '"evil"'), "winner is 'evil', expected one of tuned, baseline"),
    (altered("race.delivered", '"evil"'), "delivered is 'evil', expected one of tuned, naive"),
    (altered("race.tuned_s", "[]"), "expected samples of what it delivered"),
    (altered("race.span", "[]"), "span is .* expected a list of 2 to 2 items"),
    (altered("race.span", "[1, -1]"), "span is .* expected its lower end first"),
    (altered("race.tolerances", "[]"), "tolerances is .* expected a list of 1 to"),
    (altered("race.tolerances", "[-1]"), "tolerances is .* expected a number from 0"),
    (altered("race.magnitude", '"1"'), "magnitude is '1', expected an integer"),
    (altered("race.magnitude", "[1]"), "magnitude is .* expected an integer"),
    (altered("race.trials", "1e9"), "trials is .* expected an integer"),
    (altered("race.trials", "-1"), "trials is -1, expected an integer"),
    (altered("race.by_size", '[{"sizes": [0], "times_s": [1]}]'), "sizes is .* an integer from 1"),
    (altered("race.by_size", '[{"sizes": [1], "times_s": []}]'), "times_s is .* list of 1 to 2"),
    (altered("race.by_size", '[{"sizes": [1]}]'), "field 'times_s' is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_the_error_of_a_hostile_line_names_the_expected_value(line: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        decode(line)
    with pytest.raises(RecordError, match="line 1: "):
        tuple(import_jsonl([line]))


@pytest.mark.parametrize(
    ("kind", "table"),
    [(Measured, reader.OUTCOME_MEASURED), (Failed, reader.OUTCOME_FAILED), (Race, reader.RACE)],
)
def test_the_reader_knows_every_field(
    kind: type[Measured | Failed | Race], table: Mapping[str, object]
) -> None:
    names = {field.name for field in fields(kind)}
    assert set(table) == names
    later = {field.name for field in fields(kind) if field.default is not MISSING}
    assert later == reader.OPTIONAL & (names - ({"seconds"} if kind is Race else set()))


def test_a_line_without_end_is_read_in_part() -> None:
    (part, _) = lines_of(StringIO("x" * (MAX_LINE_BYTES + 7)))
    assert len(part) == MAX_LINE_BYTES + 1


def test_records_of_earlier_commits_are_read_and_keep_their_ids() -> None:
    old = json.loads(encode(replace(trial(1.0), race=RACE)))
    for later in reader.OPTIONAL & old["race"].keys() - {"seconds"}:
        del old["race"][later]
    for later in ("load_s", "aborted"):
        del old["outcome"][later]
    record = decode(json.dumps({**old, "origin": MEASURED, "unknown": 1}))
    assert record == replace(trial(1.0), race=RACE)
    assert record.origin == IMPORTED
    assert record.id == replace(record, origin=MEASURED).id
    assert record.id == "3976532f0e2a90c46f0c36554224488d8e3874f76e048671723a24d96e3936f5"


def test_records_without_slowdown_keep_their_ids() -> None:
    alone = replace(trial(1.0), outcome=Measured((1.0,)))
    assert "slowdown" not in json.loads(encode(alone))["outcome"]
    beside = replace(alone, outcome=Measured((1.0,), slowdown=2.0))
    assert isinstance(beside.outcome, Measured)
    assert (beside.outcome.cost_s, beside.best_s) == (0.5, 1.0)
    assert beside.id != alone.id


def test_an_estimate_is_read_again_and_has_no_time_for_people() -> None:
    assert decode(encode(ESTIMATED)) == ESTIMATED
    assert ESTIMATED.best_s is None
    assert ESTIMATE.cost_s == 2e-4
    assert json.loads(encode(ESTIMATED))["outcome"]["is"] == "estimated"


@pytest.mark.parametrize(
    "change",
    [{"key": KEY}, {"outcome": Measured((1.0,))}, {"race": RACE}],
    ids=["key of measurements", "measurement", "race"],
)
def test_no_record_mixes_estimates_and_measurements(change: Mapping[str, object]) -> None:
    with pytest.raises(RecordError, match=r"^cannot keep (an estimate|a measurement|a race) under"):
        replace(ESTIMATED, **change)  # type: ignore[arg-type]


def test_a_failure_may_stand_among_estimates() -> None:
    failed = replace(ESTIMATED, outcome=Failed("spills", "64 bytes of a thread"))
    assert decode(encode(failed)) == failed


def test_the_note_of_a_lost_baseline_is_kept_and_a_race_without_one_keeps_its_id() -> None:
    raced = replace(trial(1.0), race=RACE)
    assert "numpy_note" not in json.loads(encode(raced))["race"]
    noted = replace(raced, race=replace(RACE, numpy_note="in the NumPy baseline: MemoryError"))
    assert decode(encode(noted)) == noted
    assert noted.id != raced.id


def test_chosen_parts_are_kept_and_a_record_without_them_keeps_its_id() -> None:
    assert "parts" not in json.loads(encode(trial(1.0)))
    chosen = replace(trial(1.0), parts=(("search", "annealing", "example-parts 1.0"),))
    told = {"search": {"name": "annealing", "package": "example-parts 1.0"}}
    assert json.loads(encode(chosen))["parts"] == told
    assert decode(encode(chosen)) == chosen
    assert chosen.id != trial(1.0).id


def test_a_line_is_plain_json_without_secrets_of_python() -> None:
    assert json.loads(encode(trial(1.0)))["outcome"]["times_s"] == [1.0, 1.1]


def test_the_key_counts_features_and_threads_but_not_the_marketing_name() -> None:
    base = CpuTarget(features=("avx2",), cpu="znver4")
    assert task_key("w", base) == task_key("w", replace(base, cpu="icelake"))
    others = (replace(base, cores=2), replace(base, features=()), replace(base, l2_bytes=1))
    assert len({task_key("w", target) for target in (base, *others)}) == 4


def test_keys_of_weights_from_two_places_differ() -> None:
    target = Target(l3_bytes=1000)
    endings = {0: "/1", 1: "/1/cold-l3", 1000: "/1/cold-l3", 1001: "/1/cold"}
    for cold_bytes, ending in endings.items():
        assert task_key("w", target, cold_bytes).endswith(ending)


def test_the_race_delivers_the_winner() -> None:
    assert RACE.best_s == 1e-3
    lost = replace(RACE, winner="baseline", delivered="naive", numpy_s=(5e-4,))
    assert (lost.best_s, lost.baseline_s) == (4e-3, 5e-4)
    assert replace(lost, naive_s=(), numpy_s=()).baseline_s is None
