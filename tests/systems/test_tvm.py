"""TVM: the computation apart from its schedule, and graphs above operators."""

import pytest

from ansorpy.rules import CPU
from tests.server.test_simplify_route import FILE, scaled_conv
from tests.systems.stage import Stage


@pytest.mark.night
def test_a_dag_without_a_schedule_is_tuned(stage: Stage) -> None:
    """A user posts a Dag; GET returns its sketches, chosen steps, latency, and source."""
    (task,) = stage.auto["tasks"]
    told = stage.client.get(f"/v1/jobs/{stage.auto['id']}/explain").json()
    assert told["sketches"] == task["sketches"] == 3
    assert [one["rule"] for one in told["visits"][0]["verdicts"]] == [
        type(rule).__name__ for rule in CPU
    ][: len(told["visits"][0]["verdicts"])]
    assert task["best_s"] > 0
    assert task["verified"]
    trials = stage.records(stage.auto)
    assert len(trials) == 2
    assert all('"steps"' in one["plan"] for one in trials)
    source = stage.client.get(f"/v1/kernels/{task['kernel']}/kernel.py").text
    assert "def phase0" in source


def test_graph_passes_are_listed_with_the_nodes_before_and_after(stage: Stage) -> None:
    """A user sees each pass that fired, its sites, and the nodes before and after."""
    told = stage.client.post("/v1/simplify", content=scaled_conv(), headers=FILE).json()
    assert sum(told["before"].values()) == 4
    assert sum(told["after"].values()) == 1
    passes = [one["name"] for one in stage.client.get("/v1/passes").json()["passes"]]
    fired = {one["name"]: one["nodes_removed"] for one in told["fired"]}
    assert set(fired) <= set(passes)
    assert fired["batch_norm"] == 1
