"""The rows and the page of the budgets in seconds."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

from ansorpy.events import TooShort
from benchmarks.budgets import LEAST, headline, is_over, is_wrong, page, self_test


def row(**changes: Any) -> dict[str, Any]:
    return {
        "name": "softmax", "beside": "nothing", "asked_s": 12.0, "taken_s": 12.5, "least_s": None,
        "trials": 7, "untuned": 0, "verdict": "1.21x faster than NumPy", "selftest": "",
        "failed": "", **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked_s", "least_s", "taken_s", "over"),
    [
        (12.0, None, 13.4, False),
        (12.0, None, 13.6, True),
        (60.0, None, 65.9, False),
        (60.0, None, 66.1, True),
        (5.0, 9.0, 10.4, False),
        (5.0, 9.0, 10.6, True),
    ],
)
def test_a_row_may_exceed_its_seconds_by_a_tenth_or_a_little(
    asked_s: float, least_s: float | None, taken_s: float, over: bool
) -> None:
    assert is_over(row(asked_s=asked_s, least_s=least_s, taken_s=taken_s)) == over


def test_the_line_about_too_few_seconds_is_read() -> None:
    told = LEAST.search(str(TooShort(5.0, 9.2, 1, "a raced kernel")))
    assert told is not None
    assert told[1] == "9"


def test_a_failed_self_test_is_wrong_and_shown() -> None:
    rows = [row(), row(name="matmul_relu", selftest="assert 1 == 2")]
    assert [is_wrong(one) for one in rows] == [False, True]
    text = page(rows, {"cpu": "EPYC", "commit": "abc"})
    assert "1 of 2 rows" in text
    assert "assert 1 == 2" in text


def test_a_verdict_is_told_in_a_few_words() -> None:
    sentence = "1.21x faster than ONNX Runtime 1.32 (48.1 us against 58.3 us, 1 thread), verified"
    assert headline({"sentence": sentence}) == "1.21x faster than ONNX Runtime 1.32"
    assert headline(None) == "none"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys; assert sys.argv[1:] == ['--selftest']", ""),
        ("import ansorpy", "halted"),
    ],
)
def test_a_self_test_runs_where_ansorpy_cannot_be_imported(
    tmp_path: Path, text: str, said: str
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("kernel.py", text)
    assert said in self_test(tmp_path / "a.zip")
    assert bool(self_test(tmp_path / "a.zip")) == bool(said)
