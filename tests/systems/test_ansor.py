"""Ansor: its task scheduler, as a user reaches it; the search is tested elsewhere."""

from typing import Any

import pytest

from tests.systems.stage import Stage

NETS = (
    "def one(float(4,5) A) -> (B) { B(i) +=! A(i,k) }"
    " def two(float(6,5) A) -> (B) { B(i) max=! A(i,k) }"
)
WEIGHTS = {"large/one": 3.0, "large/two": 1.0, "small/two": 2.0}


@pytest.mark.parametrize(
    "budget",
    [
        {"objective": "latency"},
        {"objective": "speedup"},
        {"network_targets_s": {"large": 0.002}},
        {"task_targets_s": {"one": 0.0001}},
        {"patience": 64},
        {"strategy": "round-robin"},
        {"strategy": "similar"},
        {"seconds": 60.0, "max_trials_per_task": 32},
    ],
    ids=lambda budget: next(iter(budget.values())) if "objective" in budget else "-".join(budget),
)
def test_each_objective_and_strategy_is_a_field_of_a_job(
    stage: Stage, budget: dict[str, Any]
) -> None:
    """A user posts two networks with an objective; the job tells it, and each network's latency."""
    body = {"text": NETS, "weights": WEIGHTS, "budget": {"trials": 64, **budget}}
    reply = stage.client.post("/v1/jobs", json=body)
    assert reply.status_code == 202, reply.text
    job = reply.json()
    assert {name: job["budget"][name] for name in budget} == budget
    assert [one["name"] for one in job["networks"]] == ["large", "small"]


def test_a_wrong_objective_is_refused_with_the_known_ones(stage: Stage) -> None:
    """A user who misspells an objective reads which ones exist."""
    body = {"text": NETS, "budget": {"objective": "geomean"}}
    reply = stage.client.post("/v1/jobs", json=body)
    assert reply.status_code == 422
    assert "latency" in reply.json()["detail"]
    assert "speedup" in reply.json()["detail"]


def test_one_task_is_chosen(stage: Stage) -> None:
    """A user tunes one task of a text alone."""
    job = stage.client.post("/v1/jobs", json={"text": NETS, "budget": {"tasks": ["two"]}}).json()
    assert [task["name"] for task in job["tasks"]] == ["two"]
