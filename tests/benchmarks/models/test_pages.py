"""The tables of whole models: ratios, means of complete sets, replaced rows, goals."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.common import Results, Row
from benchmarks.models.ladder import LADDER
from benchmarks.models.latency_page import KEYS, best_of, page, publish_latency, speed_up
from benchmarks.models.sizes import page_of
from benchmarks.models.verified import misses

FACTS: dict[str, Any] = {
    "date": "2026-01-01T00:00:00+0000",
    "commit": "abc",
    "settings": {"rounds": 3, "seconds": 3.0},
    "versions": {"numpy": "2"},
    "machine": {"model": "CPU", "vector_bits": 512, "cores": 2},
}


def row(model: str, ours_s: float = 1.0, **others_s: float) -> Row:
    times_s = {"ansorpy": ours_s, "ort": 1.2, "openvino": 1.1, **others_s}
    return {
        "model": model, "threads": 1, "allow": "", "trials_per_task": 32, "trials": 64,
        "tune_s": 9.0, "kernels_s": 0.9, "tasks": 2, "calls": 3, "hosted": [],
        "tuned_error": 1e-7,
        "runtimes": {
            name: {
                "failed": "" if time_s else "it broke",
                "visits_s": [time_s, 2 * time_s, 4 * time_s] if time_s else [],
                "least_s": time_s, "calls": 9, "difference": 0.0,
            }
            for name, time_s in times_s.items()
        },
    }  # fmt: skip


def test_a_ratio_is_taken_round_by_round() -> None:
    found = row("gpt2")
    found["runtimes"]["ort"]["visits_s"] = [1.5, 2.0, 8.0]  # 1.5, 1 and 2 times ours
    ratio = speed_up(found, "ort")
    assert ratio is not None
    assert (ratio.least, ratio.median, ratio.most) == (1.0, 1.5, 2.0)
    assert str(ratio) == "1.50x (1.00 to 2.00)"


def test_the_best_peer_is_the_fastest_and_is_not_told_if_a_peer_failed() -> None:
    best = best_of(row("gpt2", inductor=1.05))
    assert best is not None
    assert best[0] == "inductor"
    assert best[1].median == pytest.approx(1.05)
    assert best_of(row("gpt2", openvino=0.0)) is None
    assert speed_up(row("gpt2"), "inductor") is None


def test_a_mean_is_told_for_all_models_only() -> None:
    rows = [row(name) for name in LADDER]
    told = page(rows, [FACTS], "plot.svg")
    assert "against ONNX Runtime 1.20x, worst 1.20x (squeezenet); against the best 1.10x" in told
    assert page(rows, [FACTS, FACTS], "plot.svg") == told
    told = page(rows[1:], [FACTS], "plot.svg")
    assert "against ONNX Runtime not told: 11 of 12 models" in told
    failed = [row(name, ort=0.0 if name == "gpt2" else 1.2) for name in LADDER]
    assert "against ONNX Runtime not told: 11 of 12 models" in page(failed, [FACTS], "plot.svg")


def test_a_model_that_is_measured_again_replaces_its_row_only(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "models.json"
    for model, ours_s in (("gpt2", 1.0), ("minilm", 1.0), ("gpt2", 0.5)):
        Results(path, KEYS, FACTS, fresh=False).add(row(model, ours_s))
    publish_latency(path)
    found = {one["model"]: one for one in Results(path, KEYS, FACTS, fresh=False).rows}
    assert {name: one["runtimes"]["ansorpy"]["least_s"] for name, one in found.items()} == {
        "gpt2": 0.5,
        "minilm": 1.0,
    }
    assert "| gpt2 | 64 (32 x 2) |" in path.with_suffix(".md").read_text()
    assert (tmp_path / "models-ratios.svg").read_text().startswith("<?xml")


def test_goals_that_a_first_bundle_misses_are_named() -> None:
    met: Row = {
        "failed": "", "error": 2e-5, "own_error": 0.0, "arena_bytes": 105,
        "arena_bound_bytes": 100, "import_s": 1.0, "passes_s": 1.0, "partition_s": 1.0,
    }  # fmt: skip
    assert misses(met) == []
    assert misses({**met, "error": 3e-5}) == ["error"]
    assert misses({**met, "error": 3e-5, "own_error": 1e-5}) == []
    assert misses({**met, "error": float("nan")}) == ["error"]
    assert misses({**met, "arena_bytes": 106}) == ["arena"]
    assert misses({**met, "passes_s": 1.1}) == ["front"]
    assert misses({"failed": "no bundle"}) == ["bundle"]


def test_ratios_of_a_range_are_told_over_its_sizes() -> None:
    times = [{"ansorpy": 1.0, "own": 0.5, "ort": 2.0}, {"ansorpy": 2.0, "ort": 1.0}]
    found = {
        "model": "m", "ranges": "n 1..2", "trials": 0, "seconds": 9.0, "own_seconds": [4.0],
        "packed_bytes": 3 << 20, "own_packed_bytes": [1 << 20], "calls": 9,
        "resident_bytes": {"ansorpy": [1 << 20, 2 << 20], "ort": [4 << 20, 4 << 20]},
        "sizes": [
            {"sizes": {"n": n}, "times_s": one, "error": 1e-6 * n}
            for n, one in enumerate(times, 1)
        ],
    }  # fmt: skip
    told = page_of([found], "CPU")
    assert (
        "| m | n 1..2 | 0.50 (0.50) | 1.00 (0.50) | - | 9 | 4 | 3.0 / 1.0 | 1, 2 | 4, 4 | 9" in told
    )
    assert "| n 2 | 2 s | - | 1 s |" in told
