"""The forecast of the gain of more trials: curves, medians, held-out errors, and its text."""

import json
from math import inf
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.events import Finished, Forecast
from ansorpy.frontends.tc.text import parse
from ansorpy.records import MemoryStore
from ansorpy.result import explanation
from ansorpy.rules import CPU
from ansorpy.server.service.explain import forecast_of as stored_forecast
from ansorpy.server.worker.journal import wire_of
from ansorpy.target import Target
from ansorpy.tuner.forecast import FIRST, doublings, forecast_of_sum, held_out_error, similar
from ansorpy.tuner.request import Request
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
OTHER = "def mv(float(24,32) A, float(32) B) -> (C) { C(i) +=! A(i,k) * B(k) }"
times = st.lists(st.one_of(st.floats(1e-6, 1.0), st.just(inf)), max_size=80)


@given(times)
def test_a_doubling_is_the_gain_between_two_prefixes(drawn: list[float]) -> None:
    expected: list[tuple[int, object]] = []
    for at in (FIRST, 2 * FIRST, 4 * FIRST):
        if 2 * at <= len(drawn) and min(drawn[:at]) < inf:
            expected.append((at, pytest.approx(1 - min(drawn[: 2 * at]) / min(drawn[:at]))))
    found: list[tuple[int, object]] = [*doublings(tuple(drawn))]
    assert found == expected
    assert all(0.0 <= gain < 1.0 for _, gain in doublings(tuple(drawn)))


def test_doublings_of_similar_length_count_if_there_are_enough() -> None:
    short, long = [(16, 0.3)] * 8, [(256, 0.01)] * 7
    assert similar(20, [*short, *long]) == [0.3] * 8
    assert similar(256, [*short, *long]) == [0.3] * 8 + [0.01] * 7


@given(st.lists(st.lists(st.floats(0.0, 0.9), min_size=1, max_size=3), min_size=2, max_size=6))
def test_the_error_is_that_of_forecasts_from_the_other_jobs(gains: list[list[float]]) -> None:
    jobs = [[(16, gain) for gain in job] for job in gains]
    expected = []
    for number, job in enumerate(gains):
        rest = [gain for other in (*gains[:number], *gains[number + 1 :]) for gain in other]
        expected += [abs(median(rest) - gain) for gain in job]
    assert held_out_error(jobs) == pytest.approx(median(expected))
    assert held_out_error(jobs[:1]) is None


def test_a_forecast_tells_its_error_and_the_jobs_behind_it() -> None:
    assert str(Forecast(64, 0.031, 0.12, 0.024, 12)) == (
        "64 more trials would save 3.1 % of the time (estimate; median error 2.4 points on 12 past"
        " jobs; one in four saved 12.0 % or more)"
    )
    assert str(Forecast(64, 0.0, None, None, 1)) == (
        "64 more trials would save 0.0 % of the time (estimate; error not known from one past job)"
    )
    assert str(Forecast(64, None, None, None, 0)) == (
        "64 more trials: no estimate of their gain, because there are no past jobs"
    )


def test_the_forecast_of_a_sum_weighs_its_parts() -> None:
    parts = [(0.5, Forecast(64, 0.04, 0.1, 0.02, 12)), (0.25, Forecast(32, 0.08, 0.2, 0.04, 12))]
    assert forecast_of_sum(parts) == Forecast(96, 0.04, None, 0.02, 12)
    unknown = (0.25, Forecast(32, None, None, None, 0))
    assert forecast_of_sum([parts[0], unknown]) == Forecast(96, None, None, None, 12)
    assert forecast_of_sum([]) is None


def test_a_tuning_ends_with_a_forecast_from_the_jobs_before_it(tmp_path: Path) -> None:
    store = MemoryStore()
    told = []
    for text in (MM, OTHER):
        request = Request(tuple(parse(text)), Target(cores=1), trials=32, seed=3)
        *_, end = list(run(request, CPU, store, tmp_path, pools=fake_pools()))
        assert isinstance(end, Finished)
        (result,) = end.results
        told.append(result.forecast)
        assert f"  outlook   {result.forecast}" in explanation([result])
    first, second = told
    assert second is not None
    assert first == Forecast(32, None, None, None, 0)
    (curve,) = store.curves(9, {result.key})
    assert second == Forecast(32, doublings(curve)[0][1], None, None, 1)
    reply = stored_forecast(json.dumps([wire_of(result)]), result.name)
    assert reply is not None
    assert (reply.gain, reply.text) == (second.gain, str(second))
