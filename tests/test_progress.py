"""The progress of a tuning as people see it: lines, one status line, interrupts."""

import io
import re
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy.cost.random import RandomModel
from ansorpy.events import (
    Derived,
    Event,
    Finished,
    FirstAnswer,
    Improved,
    Racing,
    RoundDone,
    Seeded,
    Started,
    Stopping,
    TaskDone,
    TaskResult,
    TimeSpent,
)
from ansorpy.frontends.tc.text import parse
from ansorpy.progress import Painter, Tally, as_line, is_painted, reporter
from ansorpy.records import MemoryStore
from ansorpy.tuner.interrupts import follow
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tune import run
from ansorpy.units import eta_s
from tests.fakes import fake_pools
from tests.test_tune import MM, TARGET

pytestmark = pytest.mark.usefixtures("few_candidates")

FIRST = FirstAnswer("mm", Path("mm-first.zip"), 1.9e-3, 1.2, ("random",))
SLOWER = Improved("mm", 2.0e-3, 8)


def round_done(trials: int, best_s: float | None) -> RoundDone:
    return RoundDone("mm", 1, trials, best_s, {}, {}, TimeSpent())


RESULT = TaskResult("mm", "k", 1e-3, 2e-3, 8, 1.0, True, "tuned", None)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        """Return the lines as a terminal shows them after all carriage returns."""
        shown: list[str] = []
        for line in self.getvalue().split("\n"):
            row = ""
            for part in line.split("\r"):
                row = part + row[len(part) :]
            shown.append(row.rstrip())
        return shown


def shown(stream: io.StringIO, events: list[Event]) -> io.StringIO:
    ticks = iter(range(10_000))
    with reporter(stream, lambda: float(next(ticks))) as report:
        for event in events:
            report(event)
    return stream


def test_the_first_answer_stays_the_best_known_until_a_trial_is_faster() -> None:
    tally = Tally(0.0)
    tally.take(Started(("mm",), (0,), 24, None), 0.0)
    tally.take(FIRST, 1.0)
    assert tally.take(SLOWER, 2.0) is None
    told = tally.take(round_done(8, 2.0e-3), 2.0)
    assert isinstance(told, RoundDone)
    assert told.best_s == 1.9e-3
    assert "best 1.9 ms" in tally.status(3.0)
    assert tally.take(Improved("mm", 1.8e-3, 16), 4.0) is not None
    assert "best 1.8 ms" in tally.status(4.0)


def test_the_status_shows_trials_time_and_eta_then_the_final_race() -> None:
    tally = Tally(0.0)
    tally.take(Started(("mm",), (0,), 40, None), 0.0)
    tally.take(Derived("mm", 3, 9, 0.1), 1.0)
    assert tally.status(1.0) == "mm: opening the search space, 0:01"
    tally.take(round_done(10, 2.0e-3), 5.0)
    bar = "mm: [#####---------------] 10/40 trials"
    assert tally.status(6.0) == f"{bar}, best 2 ms, 0:06, ETA of the search 0:14"
    tally.take(Racing("mm"), 20.0)
    race = "final race against the untuned kernel and NumPy"
    assert tally.status(25.0) == f"mm: {race}, best 2 ms, 0:25"


def test_the_eta_is_the_smaller_one_of_trials_and_seconds() -> None:
    assert eta_s(0, 10, 1.0, None) is None
    assert eta_s(0, 10, 1.0, 5.0) == 4.0
    assert eta_s(5, 10, 4.0, 5.0) == 1.0
    assert eta_s(5, 10, 4.0, 100.0) == 4.0
    assert eta_s(5, 10, 9.0, 5.0) == 0.0


@pytest.mark.parametrize("trials", [0, 8])
def test_a_first_answer_is_for_the_time_being_if_trials_follow(trials: int) -> None:
    tally = Tally(0.0)
    tally.take(Started(("mm",), (0,), trials, None), 0.0)
    tally.take(FIRST, 1.0)
    assert tally.line(FIRST).endswith("until the final zip replaces it") is (trials > 0)


def test_an_interrupt_is_acknowledged_and_marks_the_status() -> None:
    tally = Tally(0.0)
    tally.take(Started(("mm",), (0,), 40, None), 0.0)
    tally.take(round_done(10, 2.0e-3), 5.0)
    assert tally.take(Stopping(), 6.0) == Stopping()
    assert tally.status(6.0).startswith("stopping: mm: ")
    assert as_line(Stopping()) == (
        "stopping: the best so far is raced, verified and written; a second Ctrl-C ends at once"
    )


@pytest.mark.parametrize("exists", [True, False])
def test_a_second_interrupt_names_the_files_that_exist(exists: bool, tmp_path: Path) -> None:
    kernel = tmp_path / "mm-first.zip"
    if exists:
        kernel.touch()
    stream = io.StringIO()

    def tune() -> None:
        with reporter(stream) as report:
            report(FirstAnswer("mm", kernel, 1e-3, 1.0, ("random",)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune()
    told = f"; written before: {kernel}" if exists else " before a kernel could be written"
    assert stream.getvalue().splitlines()[-1] == f"ansorpy: interrupted{told}"


def test_the_zip_of_a_result_takes_the_place_of_the_first_answer(tmp_path: Path) -> None:
    kernel = tmp_path / "mm.zip"
    kernel.touch()
    tally = Tally(0.0)
    tally.take(FIRST, 1.0)
    tally.take(TaskDone(replace(RESULT, kernel=kernel)), 2.0)
    assert tally.interrupted() == f"ansorpy: interrupted; written before: {kernel}"


def test_a_terminal_keeps_events_and_repaints_one_line() -> None:
    stream = Terminal()
    events: list[Event] = [
        Started(("mm",), (0,), 24, None, threads=2), FIRST, SLOWER, round_done(8, 2e-3),
        Racing("mm"), Finished((), 9.0, "trials"),
    ]  # fmt: skip
    shown(stream, events)
    assert stream.screen() == [
        "tuning mm for 2 threads: 24 trials, 0 records known",
        "mm: first answer after 1.2 s: 1.9 ms, mm-first.zip until the final zip replaces it",
        "finished after 9.0 s (trials)",
        "",
    ]
    painted = re.split(r"[\r\n]", stream.getvalue())
    assert any("0/24 trials, best 1.9 ms" in line for line in painted)
    assert "\x1b" not in stream.getvalue()


def test_a_pipe_gets_one_line_per_event() -> None:
    stream = shown(io.StringIO(), [Started(("mm",), (0,), 24, None), FIRST, round_done(8, 2e-3)])
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("mm: round 1, 8 trials, best 1.9 ms, 0 failed")


def test_the_status_is_repainted_while_nothing_happens() -> None:
    stream = Terminal()
    seen: list[str] = []

    def status() -> str:
        seen.append(f"{len(seen)} looks")
        return seen[-1]

    painter = Painter(stream, status, tick_s=0.001)
    while len(seen) < 5:  # the time-out of the test ends a painter that stands still
        pass
    painter.close()
    assert "\r3 looks" in stream.getvalue()
    assert stream.screen() == [""]


def test_a_stream_of_jupyter_is_repainted() -> None:
    jupyter = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    assert is_painted(jupyter())
    assert is_painted(Terminal())
    assert not is_painted(io.StringIO())


@pytest.mark.parametrize(
    ("progress", "stream", "told"),
    [
        (None, io.StringIO(), False),
        (None, Terminal(), True),
        (True, io.StringIO(), True),
        (False, Terminal(), False),
    ],
    ids=["a pipe", "a terminal", "asked for", "switched off"],
)
def test_tune_shows_progress_on_standard_error(
    progress: bool | None, stream: io.StringIO, told: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fake(request: Request, *_: object, **__: object) -> Generator[Event, None, Finished]:
        yield Started(("mm",), (0,), request.trials, None)
        last = Finished((), 1.0, "trials")
        yield last
        return last

    monkeypatch.setattr("ansorpy.tuner.api.run", fake)
    monkeypatch.setattr(sys, "stderr", stream)
    seen: list[Event] = []
    ansorpy.tune(MM, trials=8, store=MemoryStore(), progress=progress, on_event=seen.append)
    assert ("tuning mm: 8 trials" in stream.getvalue()) is told
    assert [type(event) for event in seen] == [Started, Finished]


def test_an_interrupt_while_an_event_is_reported_keeps_the_best_so_far(tmp_path: Path) -> None:
    request = Request(parse(MM), TARGET, trials=1000)
    events = run(
        request, find_rules("cpu"), MemoryStore(), tmp_path,
        model=RandomModel(np.random.default_rng(0)), pools=fake_pools(), clock=lambda: 0.0,
    )  # fmt: skip
    kinds: list[type[Event]] = []

    def report(event: Event) -> None:
        kinds.append(type(event))
        if isinstance(event, RoundDone):
            raise KeyboardInterrupt

    last = follow(events, report)
    assert last.stopped == "interrupted"
    assert last.results[0].kernel is not None
    assert kinds[-4:] == [Stopping, Racing, TaskDone, Finished]


def test_programs_of_records_that_are_not_trusted_are_told_with_reasons() -> None:
    line = as_line(Seeded("mm", 2, ("record 0f starts nothing: its row has 1 sizes, expected 3",)))
    assert line == (
        "mm: 2 programs of other records are measured first;"
        " record 0f starts nothing: its row has 1 sizes, expected 3"
    )
