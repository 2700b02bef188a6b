"""One round: who proposes, and how many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from ansorpy.cost.model import Batch, Sample, Scores
from ansorpy.frontends.tc.text import parse
from ansorpy.population import enumerate_all
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.topi.workloads import matmul
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import play
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
    found.space.explore(find_rules("cpu"))
    return found


def test_candidates_held_by_a_round_are_measured_first_in_the_next() -> None:
    open_task = task()
    rng = np.random.default_rng(0)
    prebuilt: list[list[object]] = []

    class Pool(FakePool):
        def prebuild(self, *requests: object, later: bool = False) -> None:
            prebuilt.append(list(requests))

    pool = Pool(open_task.dag, TARGET)
    measured: list[Candidate] = []
    for _ in range(3):
        held = list(open_task.queue.held)
        played = play(open_task, 16, Taste(1.0), pool, rng, lambda: 0.0, held=3)
        assert len(played.chosen) == 16
        assert list(played.chosen[: len(held)]) == held
        assert prebuilt[-1] == [open_task.space.unbound(one) for one in held]
        assert len(open_task.queue.held) == 3
        measured += played.chosen
    assert len(set(measured)) == len(measured)
    assert not set(open_task.queue.held) & set(measured)


@pytest.mark.parametrize("goes_on", [False, True])
def test_held_candidates_are_built_while_the_model_learns_if_the_task_goes_on(
    goes_on: bool,
) -> None:
    open_task = task()
    rng = np.random.default_rng(0)
    prebuilt: list[list[object]] = []

    class Pool(FakePool):
        def prebuild(self, *requests: object, later: bool = False) -> None:
            prebuilt.append(list(requests))

    pool = Pool(open_task.dag, TARGET)
    play(open_task, 16, Taste(1.0), pool, rng, lambda: 0.0, held=3, goes_on=goes_on)
    held = [*map(open_task.space.unbound, open_task.queue.held)]
    assert len(held) == 3
    assert prebuilt == ([[], held] if goes_on else [[]])


def test_a_small_space_is_measured_to_the_last_row() -> None:
    (dag,) = parse("def relu(float(8) A) -> (B) { B(i) = fmax(A(i), 0) }")
    open_task = Task.of(dag, TARGET, rules_name("cpu", CPU))
    open_task.space.explore(find_rules("cpu"))
    pool, rng = FakePool(dag, TARGET), np.random.default_rng(0)
    counts: list[int] = []
    while not counts or counts[-1]:
        played = play(open_task, 16, Taste(1.0), pool, rng, lambda: 0.0)
        counts.append(len(played.chosen))
    every = sum(len(enumerate_all(plan) or ()) for plan in open_task.space.plans)
    assert sum(counts) == len(open_task.history.costs_s) == every
    assert not open_task.queue.held
