"""The comparison of the gradient with equal trials, on a small network with invented times."""

from math import inf
from typing import Any

import pytest

from ansorpy.frontends.tc.text import parse
from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from benchmarks.objectives import NETWORK, WEIGHTS, at_share, latency_s, page, searched
from tests.fakes import FakePool

TARGET = Target(vector_bits=256, registers=16)
TWO = parse(
    "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    " def nn(float(8,24) A, float(24,16) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
)


def test_the_network_has_the_layers_of_resnet18() -> None:
    convolutions = sum(count for name, (count, _) in NETWORK.items() if name != "dense")
    assert convolutions == 20
    assert WEIGHTS["c56"] == 4.0


def test_the_latency_of_the_network_is_a_weighted_sum() -> None:
    assert latency_s({"a": 2.0, "b": 3.0}, {"a": 4.0, "b": 1.0}) == 11.0
    assert latency_s({"a": 2.0}, {"a": 4.0, "b": 1.0}) == inf


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_both_arms_have_the_same_trials(strategy: Any) -> None:
    spaces = {dag.name: Task.of(dag, TARGET, rules_name("cpu", CPU)) for dag in TWO}
    for space in spaces.values():
        space.space.explore(CPU)
    pools: Any = {dag.name: FakePool(dag, TARGET) for dag in TWO}
    weights = {"mm": 100.0, "nn": 1.0}
    row = searched(spaces, pools, weights, strategy, 0, 24)
    assert sum(row["allocation"].values()) == 24
    equal = row["allocation"]["mm"] == row["allocation"]["nn"]
    assert equal == (strategy == "round-robin")
    assert row["curve"][-1] == [24, latency_s(row["best_s"], weights)]
    assert not any(space.history.costs_s for space in spaces.values())


def test_the_page_compares_the_arms_seed_by_seed() -> None:
    def row(strategy: str, seed: int, last_s: float) -> dict[str, Any]:
        return {
            "strategy": strategy, "seed": seed, "trials": 100,
            "curve": [[60, 4.0], [100, last_s]],
            "allocation": dict.fromkeys(NETWORK, 8), "best_s": dict.fromkeys(NETWORK, 1e-3),
        }  # fmt: skip

    rows = [row("gradient", 0, 1.0), row("round-robin", 0, 2.0)]
    rows += [row("gradient", 1, 2.0), row("round-robin", 1, 1.0), row("gradient", 2, 1.0)]
    assert [at_share(rows[0], share) for share in (0.5, 0.75, 1.0)] == [inf, 4.0, 1.0]
    text = page(rows, {"model": "a processor", "vector_bits": 256, "threads": 1})
    assert "12 tasks, 2 seeds" in text
    assert "| 1.250 (0.500 to 2.000) | 1 of 2 |" in text
