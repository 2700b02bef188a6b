"""Chains of many steps, those that the benchmark of a step's cost runs."""

from pathlib import Path

import numpy as np
import pytest

from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.load import load_model
from ansorpy.bundle.memory import memory_of
from benchmarks.models.step_overhead import KINDS, LANES, chain

STEPS = 100
TASKS = 3


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = chain(STEPS, TASKS, 2)
    assert memory_of(plan).arena.size_bytes == 2 * TASKS * 2 * LANES * 4
    return write_bundle(tmp_path_factory.mktemp("chains") / "chain.zip", plan)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_chain_of_steps_adds_up_on_any_number_of_threads(threads: int, path: Path) -> None:
    x = np.arange(TASKS * 2 * LANES, dtype=np.float32)
    with load_model(path, threads=threads) as model:
        wanted = x + sum(1.0 + number % KINDS for number in range(STEPS))
        for _ in range(200):
            np.testing.assert_array_equal(model(x), wanted)
