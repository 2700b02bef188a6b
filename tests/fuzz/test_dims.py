"""The fuzz of dims: about 20 seconds in every run, ten minutes in the night."""

import subprocess
import sys

import numpy as np
import pytest

from ansorpy.te.dims import dims_of
from tests.fuzz import dims
from tests.fuzz.dims import SIZES, check_candidate, drawn_dag
from tests.night import night

DAY = 48 * SIZES  # pairs; a candidate takes 0.4 s of a core
NIGHT = 1_400 * SIZES


@pytest.mark.slow
@pytest.mark.timeout(9000)
@pytest.mark.parametrize("pairs", night((DAY, NIGHT), [DAY]))
def test_random_candidates_with_dims_are_right_at_random_sizes(pairs: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.dims", "--pairs", str(pairs), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{pairs} pairs of {pairs // SIZES} candidates" in done.stdout
    assert "0 wrong results, 0 accesses outside" in done.stdout


def test_candidates_of_the_night_have_500_dags_and_a_quarter_has_two_dims() -> None:
    dags = [drawn_dag(np.random.default_rng(seed)) for seed in range(1, 1 + NIGHT // SIZES)]
    assert len({text for text, _ in dags}) >= 500
    assert sum(len(dims_of(dag)) == 2 for _, dag in dags) >= len(dags) / 4


@pytest.mark.parametrize("seed", [8, 38])
def test_candidates_that_once_failed_stay_right(seed: int) -> None:
    """Digits of a fused sum beside their loops; a tail of one element on many lanes."""
    assert check_candidate(seed, source=False).error is None


def test_a_write_outside_is_reported_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansorpy.measure.outcome import Failed

    monkeypatch.setattr(dims, "verify", lambda *_: Failed("out-of-bounds", "wrote 4 bytes"))
    finding = check_candidate(3, source=False)
    assert finding.seed == 3
    assert finding.error is not None
    assert finding.error.startswith("out-of-bounds: wrote 4 bytes")
