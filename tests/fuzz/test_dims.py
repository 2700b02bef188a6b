"""The fuzz of dims, in small (2 candidates) for every run and in full for the night."""

import subprocess
import sys

import pytest

from tests.fuzz import dims
from tests.fuzz.dims import SIZES, check_candidate
from tests.night import night


@pytest.mark.slow
@pytest.mark.timeout(9000)
@pytest.mark.parametrize("pairs", night((2 * SIZES, 20_000), [2 * SIZES]))
def test_random_candidates_with_dims_are_right_at_random_sizes(pairs: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.dims", "--pairs", str(pairs), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{pairs} pairs of {pairs // SIZES} candidates" in done.stdout
    assert "0 wrong results, 0 accesses outside" in done.stdout


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
