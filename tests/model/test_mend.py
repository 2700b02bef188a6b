"""Answers in place of untuned kernels, before a bundle is written."""

from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansorpy.events import Finished, Stopped
from ansorpy.model import mend
from ansorpy.model.compilation import Compilation
from ansorpy.model.mend import answered, untuned

TIMES_S = {"small": 1e-6, "middle": 1e-3, "large": 2e-3, "tuned": 1e-3}


class Work:
    """A model of four tasks; three have untuned kernels, one of them with hardly any share."""

    def __init__(self, counts: list[int]) -> None:
        self.tasks = SimpleNamespace(weights=dict.fromkeys(TIMES_S, 1.0))
        self.libraries = {name: SimpleNamespace(best_s=s) for name, s in TIMES_S.items()}
        self.results = {
            name: SimpleNamespace(winner="tuned" if name == "tuned" else "baseline")
            for name in TIMES_S
        }
        self.model_s = sum(TIMES_S.values())
        self.budget = SimpleNamespace(
            answered=lambda: counts.pop(0) if counts else 0, late_answers_s=lambda: 5.0
        )

    def dag(self, name: str) -> str:
        return name

    def follow(self, events: list[str]) -> Generator[Any, None, Finished]:
        for name in events:
            self.results[name] = SimpleNamespace(winner="tuned")
        yield from ()
        return Finished((), 0.0, "trials")


def outcome(work: Work, monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> list[list[str]]:
    """Return the tasks of each tuning that `answered` asks for."""
    asked: list[list[str]] = []

    def tune(dags: Any, folder: Path) -> Any:
        asked.append(list(dags))
        return [] if fails else dags

    monkeypatch.setattr(mend, "tuning_request", lambda _, dags, **__: dags)
    stopped: Stopped = "trials"
    for _ in answered(cast(Compilation, work), tune, Path(), stopped):
        pass
    return asked


def test_the_largest_untuned_tasks_are_answered_first_and_tiny_ones_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert untuned(cast(Compilation, Work([]))) == ["large", "middle"]
    assert outcome(Work([1, 3]), monkeypatch) == [["large"], ["middle"]]
    assert outcome(Work([9, 9]), monkeypatch) == [["large", "middle"]]


def test_without_time_no_tuning_of_no_task_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the count is asked for once a pass: time goes on between two questions."""
    assert outcome(Work([]), monkeypatch) == []
    assert outcome(Work([1, 0]), monkeypatch) == [["large"]]


def test_a_pass_without_an_answer_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(Work([2, 2, 2]), monkeypatch, fails=True) == [["large", "middle"]]
