"""A tuning that starts from other tasks, end to end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansorpy.events import Event, Finished, Judged, RoundDone, Skipped, Warmed
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.printer import text as printed
from ansorpy.measure.outcome import Measured, Outcome
from ansorpy.progress import as_line
from ansorpy.records import MemoryStore
from ansorpy.target import Target
from ansorpy.tuner.checkpoint import StoreJournal
from ansorpy.tuner.experience import Experience
from ansorpy.tuner.request import Request
from ansorpy.tuner.rules import find_rules
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
OTHER = "def other(float(48,32) A, float(32,24) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TARGET = Target(vector_bits=256, registers=16)


def length(program: Program) -> Outcome:
    return Measured((1e-6 * len(printed(program)),))


def brevity(program: Program) -> Outcome:
    return Measured((1.0 / len(printed(program)),))


def tune(
    text: str,
    out: Path,
    experience: Experience | None,
    verdict: Callable[[Program], Outcome] = length,
    store: MemoryStore | None = None,
    **options: Any,
) -> Iterator[Event]:
    request = Request(parse(text), TARGET, **{"trials": 32, "transfer": True, **options})
    return run(
        request, find_rules("cpu"), store or MemoryStore(), out, clock=lambda: 0.0,
        pools=fake_pools(verdict=verdict), experience=experience,
    )  # fmt: skip


def of(kind: type, found: list[Event]) -> list[Any]:
    return [event for event in found if isinstance(event, kind)]


def test_a_tuning_leaves_experience_from_which_another_task_starts(tmp_path: Path) -> None:
    kept = Experience(tmp_path / "kept")
    first = list(tune(MM, tmp_path, kept))
    assert not of(Warmed, first)
    assert not of(Judged, first)
    assert kept.lesson(TARGET, ()).candidates == 32
    found = list(tune(OTHER, tmp_path, kept))
    (warmed,) = of(Warmed, found)
    assert (warmed.candidates, warmed.tasks) == (32, 1)
    assert as_line(warmed) == "warm start from 32 trials of 1 other tasks, 0.0 s"
    judged = of(Judged, found)[0]
    assert (judged.task, judged.candidates) == ("other", 24)
    line = as_line(judged)
    assert line is not None
    assert line.startswith("other: warm start ")
    assert found.index(warmed) < found.index(of(RoundDone, found)[0]) < found.index(judged)
    assert kept.lesson(TARGET, ()).tasks == 2


@pytest.mark.parametrize("few_candidates", [(256, 4)], indirect=True)
def test_a_misleading_prior_is_dropped_and_the_tuning_continues(tmp_path: Path) -> None:
    kept = Experience(tmp_path / "kept")
    list(tune(MM, tmp_path, kept, length, trials=96))
    found = list(tune(OTHER, tmp_path, kept, brevity))
    judged = of(Judged, found)[-1]
    assert not judged.kept
    line = as_line(judged)
    assert line is not None
    assert "dropped after 24 trials" in line
    assert of(RoundDone, found)[-1].trials == 32


@pytest.mark.parametrize(
    "off", [{"transfer": False}, {"fresh": True}], ids=lambda off: next(iter(off))
)
def test_without_transfer_the_candidates_of_a_cold_search_are_measured(
    tmp_path: Path, off: dict[str, Any]
) -> None:
    kept, cold, warm, without = Experience(tmp_path / "kept"), *(MemoryStore() for _ in range(3))
    list(tune(MM, tmp_path, kept))
    list(tune(OTHER, tmp_path, None, store=cold))
    found = list(tune(OTHER, tmp_path, kept, store=without, **off))
    assert not of(Warmed, found)
    list(tune(OTHER, tmp_path, kept, store=warm))
    rows = [[(r.plan, r.row) for r in store.export()] for store in (cold, without, warm)]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def test_the_same_experience_and_seed_measure_the_same(tmp_path: Path) -> None:
    stores = [MemoryStore(), MemoryStore()]
    for number, store in enumerate(stores):
        kept = Experience(tmp_path / f"{number}")
        list(tune(MM, tmp_path, kept))
        list(tune(OTHER, tmp_path, kept, store=store))
    one, two = ([(r.plan, r.row) for r in store.export()] for store in stores)
    assert one == two


def test_broken_files_are_reported_and_ignored(tmp_path: Path) -> None:
    kept = Experience(tmp_path / "kept")
    list(tune(MM, tmp_path, kept))
    (path,) = kept.folder.iterdir()
    path.write_bytes(b"nothing")
    found = list(tune(OTHER, tmp_path, kept))
    (skipped,) = of(Skipped, found)
    assert skipped.reasons == (f"{path}: broken: its checksum is another",)
    assert as_line(skipped) == f"experience skipped: {skipped.reasons[0]}"
    assert isinstance(found[-1], Finished)
    assert found[-1].results[0].kernel is not None


def test_a_tuning_that_may_be_resumed_starts_cold(tmp_path: Path) -> None:
    store = MemoryStore()
    request = Request(parse(MM), TARGET)
    with pytest.raises(ValueError, match="starts cold"):
        next(run(request, store=store, out=tmp_path, journal=StoreJournal(store),
                 experience=Experience(tmp_path)))  # fmt: skip
