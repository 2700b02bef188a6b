"""Rounds as contests write them, with made-up times."""

from typing import Any

from benchmarks.suite.contest import Terms

FMA, COPY = 100e9, 10e9


def answer(median_s: float, away: float = 1e-7) -> dict[str, Any]:
    """Return the stored result of one process of a contestant."""
    return {
        "median_s": median_s, "least_s": median_s * 0.9, "samples": 10, "foreign": 0.0,
        "away": away, "facts": {"ready_s": 0.1},
    }  # fmt: skip


def contest(case: str, at: int, /, threads: int = 2, **times_s: float) -> dict[str, Any]:
    """Return one row of a round."""
    return {
        "case": case, "threads": threads, "round": at, "fma_flop_per_s": FMA, "fma_spread": 0.0,
        "copy_bytes_per_s": COPY, "kernels": {}, "terms": vars_of(Terms()),
        "contestants": {name: answer(time_s) for name, time_s in times_s.items()},
    }  # fmt: skip


def vars_of(terms: Terms) -> dict[str, Any]:
    """Return the fields of terms."""
    return {"visits": terms.visits, "visit_s": terms.visit_s}


FACTS: dict[str, Any] = {
    "date": "2026-01-02T03:04:05+0000", "commit": "abc", "seed": 0,
    "settings": {"rounds": 3, "trials": 64},
    "machine": {
        "model": "A processor", "cpu": "znver4", "vector_bits": 512, "caches": {"L1d": "32K"},
        "threads": 2, "fma_float32_flop_per_s": FMA, "copy_bytes_per_s": COPY,
    },
    "contestants": {"torch": {"torch": "2.13.0"}},
}  # fmt: skip
