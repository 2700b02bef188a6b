"""Predictions of a search about its next turn."""

from dataclasses import replace

import pytest

from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.topi.workloads import matmul
from ansorpy.tuner.options.objective import WeightedSum
from ansorpy.tuner.rounds.scheduler import LARGE_ROUND, Settings
from ansorpy.tuner.rounds.search_state import FIRST_HELD, HELD, SearchState, StopCriteria
from ansorpy.tuner.rounds.share import Share, Turn
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import TimeBudget

TARGET = Target()


def standing(trials: int, tasks: int = 1, seconds: float | None = None) -> SearchState:
    dags = [replace(matmul(16, 16, 16), name=f"mm{number}") for number in range(tasks)]
    opened = [Task.of(dag, TARGET, rules_name("cpu", CPU)) for dag in dags]
    goal, budget = StopCriteria({}, None, None, 0.0), TimeBudget(seconds, 0.0, tasks, lambda: 0.0)
    shares, weights = [Share(task.name) for task in opened], WeightedSum(((1.0,) * tasks,))
    return SearchState(opened, shares, Settings(trials), weights, 0, goal, budget, lambda: 0.0)


def first_turn(of: SearchState) -> Turn:
    turn = of.next_turn()
    assert turn is not None
    return turn


@pytest.mark.parametrize(
    ("trials", "tasks", "seconds", "task_continues"),
    [(64, 1, None, True), (8, 1, None, False), (64, 2, None, False), (64, 1, 1000.0, True)],
)
def test_a_single_task_continues_while_trials_are_left(
    trials: int, tasks: int, seconds: float | None, task_continues: bool
) -> None:
    found = standing(trials, tasks, seconds)
    assert found.task_continues(first_turn(found)) is task_continues


def test_more_candidates_wait_for_the_round_that_opens_all_plans() -> None:
    small, large = standing(64), standing(8 * LARGE_ROUND)
    assert small.deferred(first_turn(small)) == first_turn(small).trials // HELD
    turn = first_turn(large)
    assert large.deferred(turn) == FIRST_HELD
    large.tasks[turn.task.name].history.rounds = 1
    assert large.deferred(turn) == turn.trials // HELD
