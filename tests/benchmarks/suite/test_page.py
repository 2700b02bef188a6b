"""The page, the plots and the README agree with the rows."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from ansorpy.measure.outcome import Failed, Measured
from ansorpy.records import Record
from benchmarks.suite import plots
from benchmarks.suite.cases import ONE
from benchmarks.suite.duel import Duel, our_curve, read, their_curve
from benchmarks.suite.environments import ROOT
from benchmarks.suite.measured import BEGIN, END, FEW, inserted, section
from benchmarks.suite.page import page
from benchmarks.suite.publish import joined
from benchmarks.suite.summary import merged
from benchmarks.suite.tune import WatchedStore
from tests.benchmarks.suite.made import FACTS, contest

ROWS = merged(
    [
        contest("c2d_r64", 0, ansorpy=1e-3, ansorpy_rt=2e-3, ort=1.5e-3, torch=3e-3),
        contest("gmm_512", 0, ansorpy_rt=1e-3, torch=8e-4),
        contest("gmm_512", 0, 1, ansorpy_rt=2e-3, torch=4e-3),
    ]
)
DUEL = Duel(
    "gmm_512", 2, ((0.5, 16, 3e-3), (1.0, 32, 1e-3), (2.0, 64, 9e-4)), ((20.0, 1, 2e-3),),
    2.0, 25.0, 9e-4, 1.8e-3,
)  # fmt: skip


def line(text: str, start: str) -> list[str]:
    (found,) = [row for row in text.splitlines() if row.startswith(f"| {start} ")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_the_page_has_a_line_per_row_with_its_ratios() -> None:
    text = page(ROWS, [], [FACTS], {})
    two, one = text.split("## One thread\n")[0], text.split("## One thread\n")[1]
    cells = line(two, "conv2d 64 at 56, 3x3")
    assert cells[1:8] == [
        "1 ms", "2 ms", "ONNX Runtime, weights constant", "1.5 ms", "1.5x", "1.5x", "1.5x",
    ]  # fmt: skip
    assert line(two, "matmul 512")[1:8] == [
        "=", "1 ms", "torch", "800 us", "0.8x", "=", "0.8x",
    ]  # fmt: skip
    assert line(one, "matmul 512")[2:6] == ["2 ms", "torch", "4 ms", "2x"]
    assert "| **the best of all** | 1.1x (2 rows; 0.80 gmm_512 to 1.50 c2d_r64) |" in text


def test_runs_on_other_numbers_of_threads_are_joined_and_labelled() -> None:
    def run(date: str, commit: str, *threads: int) -> dict[str, list[Any]]:
        rows = [row for row in ROWS if row["threads"] in threads]
        return {"facts": [{**FACTS, "date": date, "commit": commit}], "rows": rows, "duels": []}

    one = joined([run("2026-11-22", "new", 2), run("2026-11-21", "old", 2, 1)])
    assert [row["case"] for row in one["rows"]] == [row["case"] for row in ROWS]
    assert [facts["threads"] for facts in one["facts"]] == [[2], [1]]
    text = page(one["rows"], [], one["facts"], {})
    assert text.index("commit new") < text.index("two threads") < text.index("commit old")
    told = section(one["rows"], one["facts"])
    assert "2026-11-22, 2 threads (1 thread: 2026-11-21)." in told
    assert joined([one]) == one


def test_repeated_rows_replace_older_rows() -> None:
    again = merged([contest("c2d_r64", 0, ansorpy=9e-4, ansorpy_rt=1e-3, torch=2e-3)])

    def run(date: str, commit: str, rows: list[Any]) -> dict[str, list[Any]]:
        return {"facts": [{**FACTS, "date": date, "commit": commit}], "rows": rows, "duels": []}

    one = joined([run("2026-11-22", "new", again), run("2026-11-21", "old", ROWS)])
    assert [(row["case"], row["threads"]) for row in one["rows"]] == [
        (row["case"], row["threads"]) for row in ROWS
    ]
    assert again[0] in one["rows"]
    new, old = one["facts"]
    assert (new["threads"], new["cases"]) == ([2], ["c2d_r64"])
    assert (old["threads"], old["cases"]) == ([1, 2], ["gmm_512"])
    text = page(one["rows"], [], one["facts"], {})
    assert "rounds of c2d_r64: 1 of two threads" in text
    assert "rounds of gmm_512: 1 of one thread, 1 of two threads" in text
    told = section(one["rows"], one["facts"])
    assert "2026-11-22, 2 threads (1 row of 1 thread: 2026-11-21) (1 row of 2 threads:" in told
    assert joined([one]) == one


def test_the_page_names_failures_and_the_error_of_every_peer() -> None:
    rounds = [contest("gmm_512", 0, ansorpy_rt=1.0)]
    rounds[0]["contestants"]["torch"] = {"failed": "wrong: 0.5 away\nand more"}
    rounds[0]["contestants"]["ort_rt"] = {"unfit": "no weights"}
    text = page(merged(rounds), [], [FACTS], {})
    assert "- torch, gmm_512, 2 threads: wrong: 0.5 away\n" in text
    assert "ONNX Runtime |" not in text
    assert "| ansorpy | 1.0e-07 | gmm_512 |" in text


def test_a_duel_counts_the_time_until_their_result_was_beaten() -> None:
    assert DUEL.ratio == 2.0
    assert DUEL.reached_s == 1.0
    assert DUEL.share == 1.0 / 25.0
    text = page(ROWS, [DUEL], [FACTS], {"curves": "c.svg"})
    assert "our kernel is 2x faster, mean of 1 rows" in text
    assert "reached in 1 of 1, after 4.0%" in text
    assert "![Tuning curves](c.svg)" in text


def test_a_duel_tells_the_gain_of_winograd() -> None:
    assert DUEL.ratio_with_winograd == DUEL.ratio
    assert "| = |" in page(ROWS, [DUEL], [FACTS], {})
    assert DUEL.our_s is not None
    allowed = replace(DUEL, winograd_s=DUEL.our_s / 2)
    assert allowed.ratio_with_winograd == 4.0
    assert "2x faster, mean of 1 rows, 4x with Winograd allowed." in page(
        ROWS, [allowed], [FACTS], {}
    )


def test_a_duel_with_an_unreached_result_is_marked() -> None:
    slow = Duel("gmm_512", 2, ((0.5, 16, 3e-3),), DUEL.theirs, 2.0, 25.0, 3e-3, 1.8e-3)
    assert slow.share is None
    assert "reached in" not in page(ROWS, [slow], [FACTS], {})


def test_curves_are_read_from_the_files_of_the_searches() -> None:
    assert our_curve({"curve": [[0.1, 16, None], [0.2, 32, 1e-3]]}) == (
        (0.1, 16, inf), (0.2, 32, 1e-3),
    )  # fmt: skip
    batches = [
        {"seconds": 5.0, "costs_s": [None, 3.0]}, {"seconds": 9.0, "costs_s": [4.0, 2.0]},
    ]  # fmt: skip
    assert their_curve({"batches": batches}) == (
        (5.0, 1, inf), (5.0, 2, 3.0), (9.0, 3, 3.0), (9.0, 4, 2.0),
    )  # fmt: skip
    row = {
        "case": "gmm_512", "threads": 2, "ours": [[0.1, 16, None]], "theirs": [[5.0, 1, 1.0]],
        "our_tuning_s": 1.0, "their_tuning_s": 6.0, "our_s": None, "their_s": 1.0,
    }  # fmt: skip
    assert read(row).ours == ((0.1, 16, inf),)
    assert read(row).ratio is None


def test_trials_are_scaled_to_end_where_the_contest_saw_the_kernel() -> None:
    facts = {"curve": [[0.1, 0, 5e-3], [0.2, 1, 8e-3], [0.3, 2, 4e-3], [0.4, 3, 2e-3]]}
    assert our_curve(facts, 3e-3) == (
        (0.1, 0, 5e-3), (0.2, 1, 5e-3), (0.3, 2, 5e-3), (0.4, 3, 3e-3),
    )  # fmt: skip
    assert our_curve(facts, 1e-3)[1:] == ((0.2, 1, 4e-3), (0.3, 2, 2e-3), (0.4, 3, 1e-3))
    merged = {"curve": [[0.1, 0, 5e-3], [0.2, 1, 5e-3]]}  # as it was kept once: no trial was faster
    assert our_curve(merged, 1e-3) == ((0.1, 0, 5e-3), (0.2, 1, 5e-3))


def test_a_curve_begins_with_the_first_answer_and_its_best_never_rises() -> None:
    store = WatchedStore()
    store.note(1.0, 2e-3)
    for outcome in (Failed("wrong", "by 1"), Measured((1e-3,)), Measured((3e-3,))):
        store.append([Record("k", "w", "cpu@1", "{}", (1,), outcome)])
    assert [(trial, best_s) for _, trial, best_s in store.curve] == [
        (0, 2e-3), (1, None), (2, 1e-3), (3, 1e-3),
    ]  # fmt: skip


@pytest.mark.night
def test_plots_are_svg_and_are_left_out_without_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = [
        plots.ratios(tmp_path / "ratios.svg", ROWS),
        plots.roofline(tmp_path / "roofline.svg", ROWS),
        plots.curves(tmp_path / "curves.svg", [DUEL]),
    ]
    for path in drawn:
        assert path is not None
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert plots.ratios(tmp_path / "none.svg", []) is None
    assert plots.roofline(tmp_path / "none.svg", []) is None
    assert plots.curves(tmp_path / "none.svg", []) is None


def test_the_readme_keeps_everything_outside_the_markers() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter"
    assert inserted(text, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter"
    with pytest.raises(ValueError, match="suite: begin"):
        inserted("no markers", "new")


def test_the_section_of_the_readme_compares_with_the_matching_column() -> None:
    text = section(ROWS, [FACTS])
    cells = line(text, "conv2d 64 at 56, 3x3")
    assert cells[1:4] == ["1 ms", "1.5 ms, ONNX Runtime, weights constant", "1.5x"]
    assert line(text, "matmul 512")[1:4] == ["1 ms", "800 us, torch", "0.8x"]
    assert "faster by 2x on 1 thread (1 row), 1.1x on 2 threads (2 rows)" in text
    assert text.count("| matmul 512 ") == 1
    assert text.endswith("](../benchmarks/results/suite.md).")


def test_the_summary_shows_a_few_rows_and_the_page_all() -> None:
    names = {case.name for case in ONE}
    assert set(FEW) < names
    assert len(FEW) < 10
    rows = merged([contest(name, 0, ansorpy_rt=1e-3, torch=8e-4) for name in names])
    assert section(rows, [FACTS]).count("\n| ") == len(FEW) + 1  # and the heads
    assert page(rows, [], [FACTS], {}).count("| 1 ms |") >= len(names)


def test_the_summary_has_the_markers() -> None:
    text = (ROOT / "docs" / "measured.md").read_text()
    assert text.index(BEGIN) < text.index(END)
