"""One round: who proposes, and how many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from ansorpy.cost.model import Batch, Sample, Scores
from ansorpy.session.round import play
from ansorpy.session.rules import find_rules
from ansorpy.session.task import Task, rules_name
from ansorpy.target import Target
from ansorpy.te.library import matmul
from rules import CPU
from tests.fakes import FakePool

TARGET = Target(vector_bits=256, registers=16)


@dataclass
class Taste:
    """A model that likes large numbers, or small ones."""

    sign: float

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        return [self.sign * batch.sum(axis=(1, 2), dtype=np.float64) for batch in batches]

    def update(self, samples: Sequence[Sample]) -> None:
        pass


def task() -> Task:
    found = Task.of(matmul(48, 48, 48), TARGET, rules_name("cpu", CPU))
    found.explore(find_rules("cpu"))
    return found


def sizes(open_task: Task, doubt: Taste | None, count: int) -> list[float]:
    """Return what the model that likes large numbers says of a first round, in order."""
    pool, rng = FakePool(open_task.dag, TARGET), np.random.default_rng(0)
    model = Taste(1.0)
    played = play(open_task, count, model, pool, rng, lambda: 0.0, doubt=doubt)  # type: ignore[arg-type]
    batches = [open_task.features(one.plan, [one]) for one in played.chosen]
    return [float(scores[0]) for scores in model.predict(batches)]


@pytest.mark.parametrize("count", [1, 7, 8])
def test_whoever_doubts_proposes_half_of_a_round(count: int) -> None:
    found = sizes(task(), Taste(-1.0), count)
    assert len(found) == count
    half = -(-count // 2)
    if count > 1:  # families that were never tried have a place in both halves
        assert np.median(found[:half]) > np.median(found[half:])


def test_without_doubt_all_is_proposed_by_the_model() -> None:
    assert np.median(sizes(task(), None, 8)) > np.median(sizes(task(), Taste(-1.0), 8)[4:])
