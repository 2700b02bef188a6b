"""The fuzz of pairs, in small (16) for every run and in full (2,000) for the night."""

import subprocess
import sys

import pytest

from tests.fuzz.pairs import check_pair
from tests.night import night


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("count", night((6, 2000), [6]))
def test_random_candidates_of_random_dags_are_right(count: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.pairs", "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{count} pairs" in done.stdout
    assert "0 wrong" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("count", night((4, 2000), [4]))
def test_the_operators_of_the_suite_are_right_at_odd_sizes(count: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.pairs", "--suite", "--every", "9"]
    done = subprocess.run([*command, "--count", str(count)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{count} pairs" in done.stdout
    assert "0 wrong" in done.stdout


@pytest.mark.parametrize("seed", [28, 20579, 21554, 21623])
def test_pairs_that_were_once_wrong_stay_right(seed: int) -> None:
    """A tie within the error bound; literals whose select was decided; an output made ahead."""
    assert check_pair(seed).error is None


def test_columns_are_not_loaded_where_their_condition_does_not_hold() -> None:
    assert check_pair(300483, suite=True).error is None  # it read before its input


def test_a_wrong_pair_is_reported_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansorpy.measure.outcome import Failed
    from tests.fuzz import pairs

    monkeypatch.setattr(pairs, "verify", lambda *_: Failed("wrong", "1 of 6 elements of C"))
    finding = pairs.check_pair(3)
    assert finding.seed == 3
    assert finding.error is not None
    assert finding.error.startswith("wrong: 1 of 6 elements of C")
