"""Weights by network, the objectives that options make, and the latencies of networks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy.errors import SpecError
from ansorpy.events import Finished, NetworkResult
from ansorpy.frontends.tc.text import parse
from ansorpy.records import MemoryStore
from ansorpy.result import network_line
from ansorpy.server.jobs.submission import Submission
from ansorpy.target import Target
from ansorpy.te.analysis import structure_key
from ansorpy.topi.workloads import conv2d, matmul
from ansorpy.tuner.options.allocation import objective_of
from ansorpy.tuner.options.networks import ONLY, network_results, networks_of, task_weights
from ansorpy.tuner.options.tune_options import TuneOptions
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.scheduler import Settings, TaskScheduler
from ansorpy.tuner.rounds.share import Share

pytestmark = pytest.mark.usefixtures("few_candidates")

TWO = parse(
    "def mm(float(8,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }\n"
    "def sm(float(8,5) A) -> (C) { C(i) +=! A(i,k) }"
)
NETS = {"a/mm": 3.0, "b/mm": 1.0, "b/sm": 2.0}
# (trials, best time after them in seconds) of a large and a small task; invented numbers.
CURVES = {
    "mm": [(8, 4.1e-3), (24, 2.2e-3), (40, 1.6e-3), (72, 1.5e-3), (136, 1.42e-3), (400, 1.4e-3)],
    "sm": [(8, 3.0e-5), (24, 2.1e-5), (40, 1.2e-5), (72, 0.8e-5), (136, 0.7e-5), (400, 0.6e-5)],
}


@dataclass(frozen=True)
class Result:
    name: str
    best_s: float | None
    baseline_s: float | None = None


def request(**options: Any) -> Request:
    return Request.of(TuneOptions(**options), TWO, Target())


def allocation(trials: int = 256, **options: Any) -> tuple[dict[str, int], bool]:
    """Return the trials of each task over the curves, and whether the objective was reached."""
    asked = TuneOptions(trials=trials, **options)
    networks = networks_of(asked.weights, ["mm", "sm"])
    objective = objective_of(asked, networks, ["mm", "sm"], {})
    shares = [
        Share(name, weight) for name, weight in task_weights(asked.weights, list(CURVES)).items()
    ]
    strategy: Any = "round-robin" if asked.strategy == "round-robin" else "gradient"
    dealer = TaskScheduler(
        shares,
        Settings(trials, strategy=strategy),
        np.random.default_rng(0),
        lambda: 0.0,
        objective,
    )
    while not dealer.reached and (turn := dealer.next_turn()) is not None:
        seen = dealer.allocation[turn.task.name] + turn.trials
        best_s = min(s for at, s in [(0, 1.0), *CURVES[turn.task.name]] if at <= seen)
        dealer.report(turn, turn.trials, best_s)
    return dict(dealer.allocation), dealer.reached


def test_a_single_network_has_weight_one_unless_given() -> None:
    assert networks_of({}, ["mm", "sm"]) == {ONLY: {"mm": 1.0, "sm": 1.0}}
    assert networks_of({"mm": 3.0}, ["mm", "sm"]) == {ONLY: {"mm": 3.0, "sm": 1.0}}


def test_a_task_without_a_weight_in_a_network_does_not_occur_there() -> None:
    found = networks_of(NETS, ["mm", "sm"])
    assert found == {"a": {"mm": 3.0, "sm": 0.0}, "b": {"mm": 1.0, "sm": 2.0}}
    assert task_weights(NETS, ["mm", "sm"]) == {"mm": 4.0, "sm": 2.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"x": 1.0}}, "cannot weight x because it is no task; expected mm, sm"),
        ({"weights": {"a/x": 1.0}}, "cannot weight a/x because x is no task"),
        ({"weights": {"a b/mm": 1.0}}, "cannot weight a b/mm because of its form"),
        ({"weights": {"a/b/mm": 1.0}}, "because of its form; expected NETWORK/mm"),
        ({"weights": {"mm": 1.0, "a/sm": 1.0}}, "cannot weight mm beside a/sm"),
        ({"weights": {"a/mm": 1.0}}, "cannot tune sm because it occurs in no network"),
        ({"network_targets_s": {"a": 1e-3}}, "because the weights name no network"),
        ({"weights": NETS, "network_targets_s": {"c": 1.0}}, "c because it is no network"),
        ({"task_targets_s": {"c": 1.0}}, "of c because it is no task; expected mm, sm"),
        (
            {"task_targets_s": {"mm": 1.0}, "objective": "speedup"},
            "and task_targets_s because each is an objective",
        ),
        ({"objective": "best"}, "objective 'best'; expected latency or speedup"),
        ({"strategy": ""}, "strategy ''; expected gradient or similar or round-robin"),
        ({"tasks": ["nn"]}, "cannot choose nn because it is no task; expected mm, sm"),
    ],
)
def test_a_wrong_allocation_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        request(**options)


def test_chosen_tasks_are_tuned_in_the_order_of_the_text() -> None:
    assert [dag.name for dag in request(tasks=["sm"]).dags] == ["sm"]
    assert [dag.name for dag in request(tasks=["sm", "mm"]).dags] == ["mm", "sm"]


def test_the_latency_objective_favours_the_slow_task_and_speedup_the_small_network() -> None:
    weights = {"large/mm": 1.0, "small/sm": 1.0}
    latency, _ = allocation(weights=weights)
    speedup, _ = allocation(weights=weights, objective="speedup")
    equal, _ = allocation(weights=weights, strategy="round-robin")
    assert equal == {"mm": 128, "sm": 128}
    assert latency["mm"] > 200 > speedup["mm"]
    assert speedup["sm"] > latency["sm"]


def test_a_network_at_its_target_gets_no_further_trials() -> None:
    weights = {"large/mm": 1.0, "small/sm": 1.0}
    found, reached = allocation(weights=weights, network_targets_s={"large": 2e-3, "small": 1e-6})
    assert not reached
    assert found["mm"] < 60 < found["sm"]


def test_the_search_ends_once_all_targets_are_reached() -> None:
    weights = {"large/mm": 1.0, "small/sm": 1.0}
    found, reached = allocation(weights=weights, network_targets_s={"large": 2e-3, "small": 2e-5})
    assert reached
    assert sum(found.values()) < 128
    found, reached = allocation(task_targets_s={"mm": 2e-3, "sm": 2e-5})
    assert reached
    assert sum(found.values()) < 128


def test_tasks_that_are_not_searched_count_in_the_objective() -> None:
    asked = TuneOptions(weights=NETS, network_targets_s={"a": 2e-3, "b": 1e-3})
    networks = networks_of(NETS, ["mm", "sm"])
    objective = objective_of(asked, networks, ["sm"], {"mm": 8e-4})
    assert not objective.reached(np.array([1e-5]))  # a takes 2.4 ms for any time of sm
    np.testing.assert_allclose(objective.value(np.array([1e-5])), 2.4e-3 + 1e-3)
    np.testing.assert_allclose(objective.gradient(np.array([1e-5])), [0.0])
    np.testing.assert_allclose(objective.gradient(np.array([1e-3])), [2.0])


def test_latencies_of_networks() -> None:
    networks = networks_of(NETS, ["mm", "sm"])
    results = [Result("mm", 1e-3, 4e-3), Result("sm", 1e-4)]
    found = network_results(networks, results, {"b": 1e-3})
    assert [one.name for one in found] == ["a", "b"]
    np.testing.assert_allclose([one.best_s or 0.0 for one in found], [3e-3, 1.2e-3])
    assert (found[0].baseline_s, found[1].baseline_s) == (0.012, None)
    assert network_line(found[0]) == "network a: 3 ms, 4.00x untuned or NumPy"
    assert network_line(found[1]) == "network b: 1.2 ms, target 1 ms missed"
    assert network_results(networks_of({}, ["mm"]), results, {}) == ()
    assert "no latency" in network_line(NetworkResult("a", None, None, None))


def test_jobs_of_other_networks_objectives_and_tasks_are_other_workloads() -> None:
    options: list[dict[str, Any]] = [
        {}, {"weights": {"mm": 4.0, "sm": 2.0}}, {"weights": NETS},
        {"weights": NETS, "objective": "speedup"}, {"strategy": "similar"},
        {"weights": NETS, "network_targets_s": {"a": 1.0}}, {"task_targets_s": {"mm": 1.0}},
    ]  # fmt: skip
    found = [Submission(TWO, **one) for one in options]
    assert len({one.workload for one in found}) == len(found)
    assert [Submission.of(one.document) for one in found] == found


def test_the_structure_of_a_computation_has_no_extents() -> None:
    assert structure_key(matmul(8, 16, 32)) == structure_key(matmul(5, 7, 9))
    assert structure_key(matmul(8, 16, 32)) != structure_key(conv2d(1, 3, 8, 8, 4, 3))


def test_two_networks_are_tuned_in_one_request(tmp_path: Any) -> None:
    seen: list[Any] = []
    found = ansorpy.tune(
        TWO, trials=16, weights=NETS, strategy="round-robin", network_targets_s={"b": 10.0},
        store=MemoryStore(), out=tmp_path, on_event=seen.append,
    )  # fmt: skip
    assert [one.name for one in found.networks] == ["a", "b"]
    best = {task.name: task.best_s or 0.0 for task in found.tasks}
    assert found.networks[1].best_s == pytest.approx(best["mm"] + 2 * best["sm"])
    assert "target 10 s reached" in repr(found)
    assert "network a" in found._repr_html_()
    assert isinstance(seen[-1], Finished)
