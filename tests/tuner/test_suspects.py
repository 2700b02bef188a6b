"""Suspects among failures: Fisher's exact test, planted causes, and no causes."""

import json
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.events import RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.records import MemoryStore
from ansorpy.result import explanation
from ansorpy.rules import CPU
from ansorpy.server.service.explain import suspects_of
from ansorpy.target import Target
from ansorpy.tuner.reasons.suspects import ERROR, LEAST_FAILED, Traits, suspects, upper_tail
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from tests.fakes import cost_s, fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


@given(st.data())
def test_the_tail_is_that_of_the_hypergeometric_distribution(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    failed = data.draw(st.integers(0, count))
    having = data.draw(st.integers(0, count))
    both = data.draw(st.integers(0, min(failed, having)))
    ways = sum(
        comb(having, k) * comb(count - having, failed - k)
        for k in range(both, min(failed, having) + 1)
    )
    exact = float(Fraction(ways, comb(count, failed)))
    assert abs(upper_tail(both, failed, having, count) - exact) <= 1e-9


def trials_of(rng: np.random.Generator, count: int = 96) -> list[tuple[tuple[str, ...], int, int]]:
    """Return random traits: a subset of two choices, and two sizes."""
    draws = rng.integers(0, 4, (count, 3))
    names = ("rule a at C", "A packed")
    return [
        (tuple(n for bit, n in enumerate(names) if int(a) >> bit & 1), int(b), int(c))
        for a, b, c in draws
    ]


def test_a_planted_cause_is_the_suspect() -> None:
    for seed in range(50):
        drawn = trials_of(np.random.default_rng(seed))
        trials = [Traits(s, {"x": x, "y": y}, "crash" if x >= 2 else "") for s, x, y in drawn]
        (found,) = suspects(trials)
        bad = sum(x >= 2 for _, x, _ in drawn)
        assert (found.kind, found.trait) == ("crash", "x >= 2")
        assert (found.both, found.failed, found.having, found.trials) == (bad, bad, bad, 96)
        assert found.lift == 96 / bad


def test_failures_by_chance_have_no_suspect_but_rarely() -> None:
    said = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        chance = rng.random(96)
        drawn = zip(trials_of(rng), chance, strict=True)
        trials = [Traits(s, {"x": x, "y": y}, "wrong" if c < 0.3 else "") for (s, x, y), c in drawn]
        said += len(suspects(trials))
    assert said <= 3 * 400 * ERROR


def test_a_trait_of_every_trial_and_few_failures_say_nothing() -> None:
    every = [Traits(("rule a at C",), {"x": 1}, "crash") for _ in range(20)]
    assert suspects(every) == ()
    few = LEAST_FAILED - 1
    rare = [Traits((), {"x": n < few}, "crash" if n < few else "") for n in range(1000)]
    assert suspects(rare) == ()


def packs_a(program: Program) -> Outcome:
    """Fail exactly if the program copies A into the order of its tiles."""
    if any(buffer.name.endswith(".A.pack") for buffer in program.buffers):
        return Failed("crash", "signal 11")
    return Measured((cost_s(program),))


def test_a_tuning_tells_its_suspect_after_a_round_and_at_its_end(tmp_path: Path) -> None:
    request = Request(tuple(parse(MM)), Target(cores=1), trials=64, seed=3)
    pools = fake_pools(packs_a)
    *events, end = list(run(request, CPU, MemoryStore(), tmp_path, pools=pools))
    (result,) = end.results  # type: ignore[union-attr]
    (found,) = result.suspects
    failed = result.failures["crash"]
    assert failed >= LEAST_FAILED
    assert (found.kind, found.both, found.failed) == ("crash", failed, failed)
    assert found.trait == "A packed"
    text = (
        f"{found.both} of {failed} failures (crash) have {found.trait}, as {found.having} of"
        f" {found.trials} trials do (lift {found.lift:.1f}, p = {found.p:.1g})"
    )
    assert str(found) == text
    assert f"  failures  {text}" in explanation([result])
    rounds = [event for event in events if isinstance(event, RoundDone)]
    assert rounds[-1].suspects == (found,)
    fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
    reply = suspects_of(json.dumps({"mm": {"suspects": [fields]}, "other": {}}))["crash"]
    assert (reply.task, reply.trait, reply.text) == ("mm", found.trait, text)
