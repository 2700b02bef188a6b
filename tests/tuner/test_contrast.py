"""The winner against the runner-up: parts of scores, and traits that differ."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import Sample
from ansorpy.cost.roofline import RooflineModel
from ansorpy.events import Contrast, Finished, ScorePart, TaskResult
from ansorpy.features import NAMES
from ansorpy.frontends.tc.text import parse
from ansorpy.population import sample
from ansorpy.records import MemoryStore
from ansorpy.result import explanation
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.server.service.explain import contrast_of as stored_contrast
from ansorpy.server.worker.journal import wire_of
from ansorpy.target import Target
from ansorpy.tuner.reasons.contrast import FEATURES, PRIOR, STORES, differences, runner_up
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run
from ansorpy.units import duration
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def learned(seed: int = 0) -> tuple[Task, GbmModel, list[Candidate]]:
    """Return a task whose candidates of several plans have costs, and a model of them."""
    (dag,) = parse(MM)
    task = Task.of(dag, Target(cores=1), "cpu@0")
    task.space.explore(CPU, 16)
    rng = np.random.default_rng(seed)
    for number, plan in enumerate(task.space.plans):
        for row in sample(plan, 4, rng).tolist():
            task.history.costs_s[Candidate(number, tuple(row))] = float(rng.uniform(1e-3, 1e-2))
    model = GbmModel(RooflineModel(task.target))
    chosen = list(task.history.costs_s)
    model.update([Sample(one.task, one.batch, one.costs_s) for one in task.samples(chosen)])
    return task, model, chosen


def test_the_parts_of_a_score_add_up_to_it() -> None:
    task, model, chosen = learned()
    for one in chosen:
        batch = task.space.features(one.plan, [one])
        (scores,) = model.predict([batch], task.key)
        parts = model.parts(batch, task.key)
        assert parts.shape == (len(NAMES) + 2,)
        assert parts.sum() == pytest.approx(float(scores[0]), abs=1e-9)
    with pytest.raises(ValueError, match="before the first training"):
        GbmModel(RooflineModel(task.target)).parts(batch)


def test_differences_are_parts_of_the_difference_of_two_scores() -> None:
    task, model, chosen = learned(1)
    for one, two in pairwise(chosen):
        batches = [task.space.features(c.plan, [c]) for c in (one, two)]
        delta = np.subtract(*(model.parts(batch, task.key) for batch in batches))
        found = differences(task, one, two, model)
        assert len(found) <= FEATURES
        names = (*NAMES, STORES, PRIOR)
        for told in found:
            part = delta[names.index(told.name)]
            assert told.part == pytest.approx(part)
            assert told.share == pytest.approx(abs(part) / np.abs(delta).sum())
            assert told.name == PRIOR or told.winner != told.runner_up
        assert [told.share for told in found] == sorted((t.share for t in found), reverse=True)
    assert differences(task, one, one, model) == ()


def test_a_feature_is_told_by_its_sum_over_the_stores() -> None:
    task, model, chosen = learned(2)
    one, two = chosen[0], chosen[-1]
    found = {told.name: told for told in differences(task, one, two, model)}
    for name, told in found.items():
        if name.startswith("core."):
            column = task.space.features(one.plan, [one])[0, :, NAMES.index(name)].astype(float)
            assert told.winner == pytest.approx(float((2.0**column - 1.0).sum()))
    assert found, "two plans of other structure differ"


def test_the_runner_up_has_other_machine_code() -> None:
    task, _, chosen = learned()
    best, equal, next_, *_ = chosen
    task.history.costs_s |= {best: 1e-6, equal: 1e-6, next_: 2e-6}
    assert runner_up(task, best) == next_
    assert runner_up(task, next_) == min(best, equal)


def test_a_contrast_is_one_sentence_of_each_kind_of_reason() -> None:
    parts = (
        ScorePart("core.loads", 1200.0, 2400.0, 0.06, 0.6),
        ScorePart(PRIOR, 0.0, 0.0, -0.04, 0.4),
    )
    told = Contrast(1.25e-5, 2e-5, ("A packed", "C.i.1 = 4"), ("C.i.1 = 8",), parts)
    assert str(told) == (
        "12.5 us against 20 us in trials; it alone has A packed, C.i.1 = 4; the runner-up alone"
        " has C.i.1 = 8; the scores of the cost model differ by core.loads 1200 against 2400 (60 %"
        " of the difference, for it), analytic model (40 % of the difference, against it)"
    )
    assert str(Contrast(1e-3, None, (), ())) == "1 ms against not timed in trials"


def test_a_tuning_tells_its_winner_against_the_runner_up(tmp_path: Path) -> None:
    request = Request(tuple(parse(MM)), Target(cores=1), trials=32, seed=3)
    *_, end = list(run(request, CPU, MemoryStore(), tmp_path, pools=fake_pools()))
    assert isinstance(end, Finished)
    (result,) = end.results
    told = result.contrast
    assert told is not None
    assert told.differences
    assert not {*told.only_winner} & {*told.only_runner_up}
    assert told.winner_s is not None
    assert told.runner_up_s is not None
    times = f"{duration(told.runner_up_s)} in trials, the winner {duration(told.winner_s)}"
    assert f"  runner-up {times}" in explanation([result])
    stored = json.dumps([wire_of(result)])
    reply = stored_contrast(stored, "mm")
    assert reply is not None
    assert reply.text == str(told)
    assert [one.model_dump() for one in reply.differences] == list(map(asdict, told.differences))
    assert stored_contrast(stored, "other") is None
    assert isinstance(result, TaskResult)
