import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.errors import RecordError
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.records import (
    JsonlStore,
    MemoryStore,
    Race,
    Record,
    Store,
    decode,
    encode,
    import_jsonl,
    task_key,
)
from ansorpy.target import Target

KEY = task_key("ab" * 32, Target(cores=2))
RACE = Race("tuned", "tuned", (1e-3, 1.1e-3), (4e-3,), (), (-1.0, 1.0), (1e-4,), 8, 64, 12.5, "00")


def trial(cost_s: float, *, key: str = KEY, row: tuple[int, ...] = (4, 8)) -> Record:
    return Record(
        key, "ab" * 32, "cpu@1", '{"steps":[]}', row, Measured((cost_s, cost_s * 1.1)),
        "cd" * 32, (("ansorpy", "0.1.0"),), 1.5,
    )  # fmt: skip


FAILED = replace(trial(1.0), outcome=Failed("wrong", "off by one", "C[3]", 0.2))


class StoreContract:
    """What every store promises; a subclass gives the `make` fixture (same place each call)."""

    @pytest.fixture
    def make(self) -> Callable[[], Store]:
        raise NotImplementedError

    def test_the_best_is_the_fastest_trial_that_was_not_aborted(
        self, make: Callable[[], Store]
    ) -> None:
        store = make()
        aborted = replace(trial(0.1), outcome=Measured((0.1,), aborted=True))
        store.append([trial(3.0), trial(2.0), FAILED, aborted])
        store.append([trial(1.0, key="other/key/1"), replace(trial(0.5), race=RACE)])
        best = store.best(KEY)
        assert best is not None
        assert best == trial(2.0)

    def test_no_best_where_nothing_was_measured(self, make: Callable[[], Store]) -> None:
        store = make()
        store.append([FAILED])
        assert store.best(KEY) is None
        assert store.best("unknown") is None

    def test_records_come_back_whole_and_in_order(self, make: Callable[[], Store]) -> None:
        store = make()
        written = (trial(3.0), FAILED, replace(trial(2.0), race=RACE))
        store.append(written)
        assert store.all(KEY) == written
        assert tuple(store.export()) == written

    def test_the_same_record_twice_is_kept_once(self, make: Callable[[], Store]) -> None:
        store = make()
        store.append([trial(1.0), trial(1.0)])
        store.append([trial(1.0)])
        assert (store.count(), store.count(KEY), store.count("unknown")) == (1, 1, 0)

    def test_export_and_import_between_stores(self, make: Callable[[], Store]) -> None:
        source = MemoryStore()
        source.append([trial(1.0), FAILED])
        lines = [encode(record) for record in source.export()]
        store = make()
        store.append(tuple(import_jsonl(lines)))
        assert store.all(KEY) == source.all(KEY)


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def make(self) -> Callable[[], Store]:
        store = MemoryStore()
        return lambda: store


class TestJsonlStore(StoreContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: JsonlStore(tmp_path / "deep" / "records.jsonl")

    def test_a_torn_last_line_is_dropped_and_repaired(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        JsonlStore(path).append([trial(1.0), trial(2.0)])
        whole = path.read_bytes()
        path.write_bytes(whole[:-20])
        store = JsonlStore(path)
        assert store.all(KEY) == (trial(1.0),)
        store.append([trial(3.0)])
        assert JsonlStore(path).all(KEY) == (trial(1.0), trial(3.0))

    def test_every_torn_tail_keeps_what_stands_before_it(self, tmp_path: Path) -> None:
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
        with pytest.raises(RecordError, match=r"records\.jsonl, line 2: not a record: KeyError"):
            JsonlStore(path)

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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "not a record: JSONDecodeError"),
        ("[]", "not a record: TypeError"),
        (encode(trial(1.0)).replace('"format":1', '"format":9'), "format 9, this version reads 1"),
        (encode(trial(1.0)).replace('"measured"', '"guessed"'), "outcome 'guessed'"),
        (encode(trial(1.0)).replace("[4,8]", '["x"]'), "not a record: ValueError"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(line: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        decode(line)


def test_what_was_timed_by_itself_has_the_id_that_it_always_had() -> None:
    alone = replace(trial(1.0), outcome=Measured((1.0,)))
    assert "slowdown" not in json.loads(encode(alone))["outcome"]
    beside = replace(alone, outcome=Measured((1.0,), slowdown=2.0))
    assert isinstance(beside.outcome, Measured)
    assert (beside.outcome.cost_s, beside.best_s) == (0.5, 1.0)
    assert beside.id != alone.id


def test_the_note_of_a_lost_baseline_is_kept_and_a_race_without_one_keeps_its_id() -> None:
    raced = replace(trial(1.0), race=RACE)
    assert "numpy_note" not in json.loads(encode(raced))["race"]
    noted = replace(raced, race=replace(RACE, numpy_note="in the NumPy baseline: MemoryError"))
    assert decode(encode(noted)) == noted
    assert noted.id != raced.id


def test_a_line_is_plain_json_without_secrets_of_python() -> None:
    assert json.loads(encode(trial(1.0)))["outcome"]["times_s"] == [1.0, 1.1]


def test_the_key_counts_features_and_threads_but_not_the_marketing_name() -> None:
    base = Target(features=("avx2",), cpu="znver4")
    assert task_key("w", base) == task_key("w", replace(base, cpu="icelake"))
    others = (replace(base, cores=2), replace(base, features=()), replace(base, l2_bytes=1))
    assert len({task_key("w", target) for target in (base, *others)}) == 4


def test_the_race_delivers_the_winner() -> None:
    assert RACE.best_s == 1e-3
    lost = replace(RACE, winner="baseline", delivered="naive", numpy_s=(5e-4,))
    assert (lost.best_s, lost.baseline_s) == (4e-3, 5e-4)
    assert replace(lost, naive_s=(), numpy_s=()).baseline_s is None
