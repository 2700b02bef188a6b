"""Files of measured candidates: whole, bounded, and harmless if they are broken."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.cost.model import Sample
from ansorpy.errors import RecordError
from ansorpy.features import NAMES, version
from ansorpy.records import JsonlStore, MemoryStore
from ansorpy.target import Target
from ansorpy.tuner import experience, experience_file
from ansorpy.tuner.experience import PER_TASK, Experience, thinned
from ansorpy.tuner.experience_file import decode, encode

TARGET = Target()


def sample(n: int, stores: int = 2, seed: int = 0, task: str = "t/x/1") -> Sample:
    rng = np.random.default_rng(seed)
    costs_s = rng.uniform(1e-6, 1.0, n)
    costs_s[rng.random(n) < 0.2] = np.inf
    return Sample(task, rng.random((n, stores, len(NAMES)), np.float32), costs_s)


SAMPLES = st.lists(
    st.builds(sample, st.integers(0, 9), st.integers(0, 3), st.integers(0, 99)),
    min_size=1,
    max_size=4,
)


def same(one: Sample, two: Sample) -> bool:
    alike = one.task == two.task and one.batch.shape == two.batch.shape
    return alike and bool(
        np.array_equal(one.batch, two.batch) and np.array_equal(one.costs_s, two.costs_s)
    )


@given(samples=SAMPLES)
@settings(max_examples=50)
def test_decoding_inverts_encoding(samples: list[Sample]) -> None:
    found = decode(encode(samples))
    assert len(found) == len(samples)
    assert all(map(same, found, samples))
    assert all(s.batch.dtype == np.float32 and s.costs_s.dtype == np.float64 for s in found)


@given(samples=SAMPLES, data=st.data())
@settings(max_examples=100)
def test_every_broken_file_is_reported(samples: list[Sample], data: st.DataObject) -> None:
    content = bytearray(encode(samples))
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    with pytest.raises(RecordError):
        decode(bytes(content))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"1e999",
        b'{"format": 1}',
        b'{"format": 1, "features": "%s", "task": "t", "shapes": [[1, -1]]}',
        b'{"format": 1, "features": "%s", "task": "t", "shapes": [[1000000000000, 1000000000000]]}',
        b'{"format": 1, "features": "%s", "task": "t", "shapes": [1]}',
        b'{"format": 1, "features": "%s", "task": "t", "shapes": [[1, 0]]}',
        b'{"format": 1, "features": "another", "task": "t", "shapes": []}',
    ],
)
def test_a_wrong_file_with_a_correct_checksum_is_refused(line: bytes) -> None:
    filled = line.replace(b"%s", version().encode())
    rest = filled + b"\n" + bytes(8 if b"[1, 0]" in line else 0)  # a cost of 0 seconds
    with pytest.raises(RecordError):
        decode(experience_file._checksum(rest) + b"\n" + rest)


@given(samples=SAMPLES, most=st.integers(1, 40))
@settings(max_examples=50)
def test_a_share_is_taken_evenly_and_in_order(samples: list[Sample], most: int) -> None:
    every = np.concatenate([s.costs_s for s in samples])
    found = list(thinned(samples, most))
    costs_s = [cost for s in found for cost in s.costs_s.tolist()]
    assert len(costs_s) == min(most, len(every))
    rest = iter(every.tolist())
    assert all(cost in rest for cost in costs_s)  # a subsequence
    if len(every) and most > 1:
        assert (costs_s[0], costs_s[-1]) == (every[0], every[-1])


def test_a_task_keeps_its_latest_candidates(tmp_path: Path) -> None:
    kept = Experience(tmp_path / "a" / "b")
    samples = [sample(48, stores=1 + i % 2, seed=i) for i in range(7)]
    for each in samples:
        assert kept.keep(TARGET, [each]) == ""
    lesson = kept.lesson(TARGET, ())
    assert (lesson.candidates, lesson.tasks, lesson.skipped) == (PER_TASK, 1, ())
    found = np.concatenate([s.costs_s for s in lesson.samples])
    assert np.array_equal(found, np.concatenate([s.costs_s for s in samples])[-PER_TASK:])
    assert same(lesson.samples[-1], samples[-1])


def test_a_lesson_is_of_other_tasks_on_the_same_target(tmp_path: Path) -> None:
    kept = Experience(tmp_path)
    assert kept.lesson(TARGET, ()).samples == ()
    for task in ("a/x/1", "b/x/1", "c/x/1"):
        kept.keep(TARGET, [sample(4, task=task)])
    kept.keep(Target(cores=2), [sample(4, task="d/x/2")])
    kept.keep(Target(l2_bytes=1), [sample(4, task="e/y/1")])
    assert {s.task for s in kept.lesson(TARGET, ["b/x/1"]).samples} == {"a/x/1", "c/x/1"}
    assert kept.keep(TARGET, []) == ""


def test_files_and_lessons_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experience, "FILES", 6)
    monkeypatch.setattr(experience, "TASKS", 4)
    monkeypatch.setattr(experience, "TAUGHT", 20)
    kept = Experience(tmp_path)
    for i in range(9):
        kept.keep(TARGET, [sample(10, task=f"{i}/x/1")])
    assert len(list(tmp_path.iterdir())) == 6
    lesson = kept.lesson(TARGET, ())
    assert (lesson.tasks, lesson.candidates) == (4, 20)


def test_a_broken_file_is_skipped_with_a_reason_and_then_replaced(
    tmp_path: Path,
) -> None:
    kept = Experience(tmp_path)
    kept.keep(TARGET, [sample(4, task="a/x/1")])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    kept.keep(TARGET, [sample(4, task="b/x/1")])
    lesson = kept.lesson(TARGET, ())
    assert {s.task for s in lesson.samples} == {"b/x/1"}
    assert lesson.skipped == (f"{path}: broken: its checksum is another",)
    kept.keep(TARGET, [sample(3, task="a/x/1")])
    assert kept.lesson(TARGET, ["b/x/1"]).candidates == 3


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Experience(tmp_path / "file")
    assert "File exists" in kept.keep(TARGET, [sample(4)])
    assert kept.lesson(TARGET, ()).samples == ()


def test_transfer_data_is_kept_beside_a_persistent_store(tmp_path: Path) -> None:
    beside = Experience.beside(JsonlStore(tmp_path / "records.jsonl"))
    assert beside is not None
    assert beside.folder == tmp_path / "records.experience"
    assert Experience.beside(MemoryStore()) is None
