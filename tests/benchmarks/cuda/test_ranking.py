"""The summary of estimates beside machine code, as it is written to the result file."""

import json
from collections import Counter
from dataclasses import asdict

import pytest

from benchmarks.cuda.ranking import Compared, page, ranking


def test_a_summary_is_json_and_a_row_of_the_page() -> None:
    rows = [
        Compared({"k": n}, estimate_s, n * 1e-6, ()) for n, estimate_s in ((1, 3e-6), (2, 4e-6))
    ]
    found = json.loads(json.dumps(asdict(ranking("mm", rows, Counter({"spills": 3}), 2.5))))
    assert found["left_out"] == {"spills": 3}
    assert found["spearman"] == pytest.approx(1.0)
    assert found["top_ratio"] == 1.0
    assert "| mm | 2 | 1.000 | 1.000 | 2.10 to 2.90 | 2.5 | 3 spills |" in page([found])
