"""AutoTVM: templates with knobs, tuners, records as a start, clusters of devices."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from ansorpy.cluster.crew import Crew
from ansorpy.cluster.processes import ProcessSlots
from ansorpy.errors import RunError
from ansorpy.events import Seeded
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.host import local_target
from ansorpy.records import IMPORTED, MemoryStore, import_jsonl, target_digest
from ansorpy.schedule.knobs import split_knob
from ansorpy.tuner.parts.knob_space import TUNERS
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tune import run
from tests.cluster.plain_slot import plain_target
from tests.server.service import MM
from tests.systems.stage import Stage, template_body


@pytest.mark.night
def test_a_template_has_the_search_and_the_records_of_any_job(stage: Stage) -> None:
    """A user gives a Dag and named knobs, and gets the rounds and records of any other job."""
    (task,) = stage.template["tasks"]
    assert (task["trials"], task["verified"], task["final"]) == (2, True, True)
    trials, others = stage.records(stage.template), stage.records(stage.auto)
    assert len({(one["plan"], tuple(one["row"])) for one in trials}) == 2, (
        "a value of the knob each"
    )
    assert {frozenset(one) for one in trials} == {frozenset(one) for one in others}
    assert trials[0]["workload"] == others[0]["workload"]
    assert len(stage.events(stage.template, "round")) == 1


def test_a_split_knob_has_the_factors_of_define_split() -> None:
    """A user writes `define_split` as in AutoTVM: ten ways to cut 512 into two."""
    assert len(split_knob("tile", 512, num_outputs=2).values) == 10
    assert len(split_knob("tile", 512, 2, policy="power2", max_factor=32).values) == 6


def test_the_tuner_is_chosen_by_name(stage: Stage) -> None:
    """A user chooses among random, grid, genetic and model-guided search; others are refused."""
    assert set(TUNERS) == {"random", "grid", "genetic", "model"}
    body = {**template_body(), "budget": {"trials": 64}}
    ids = set()
    for name in TUNERS:
        reply = stage.client.post("/v1/jobs", json={**body, "tuner": name})
        assert reply.status_code == 202, reply.text
        assert reply.json()["how"] == "created"
        ids.add(reply.json()["id"])
    assert len(ids) == len(TUNERS)
    wrong = stage.client.post("/v1/jobs", json={**template_body(), "tuner": "annealing"})
    assert wrong.status_code == 422
    assert all(name in wrong.json()["detail"] for name in TUNERS)


@pytest.mark.night
def test_records_of_an_earlier_job_start_a_search(stage: Stage, tmp_path: Path) -> None:
    """A user imports the records of a job; the next search measures their best programs first."""
    lines = stage.client.get("/v1/records", params={"job": stage.auto["id"]}).text
    store = MemoryStore()
    store.append(list(import_jsonl(lines.splitlines())), IMPORTED)
    request = Request(parse(MM), local_target(1), trials=8, first_answer=False)
    with closing(run(request, find_rules("cpu"), store, tmp_path)) as events:
        seeded = next(one for one in events if isinstance(one, Seeded))
    assert seeded.programs > 0
    assert seeded.reasons == ()


@pytest.mark.night
def test_imported_records_of_a_template_start_the_template(stage: Stage, tmp_path: Path) -> None:
    """A user takes the records of a template to another machine, and goes on there."""
    # Trials only: a kernel of an earlier job may have won the race of the template's job.
    lines = map(json.dumps, stage.records(stage.template))
    store = MemoryStore()
    store.append(list(import_jsonl(lines)), IMPORTED)
    template = template_body()["template"]
    request = Request(parse(MM), local_target(1), mode="template", template=template, trials=8)
    with closing(run(request, store=store, out=tmp_path)) as events:
        seeded = next(one for one in events if isinstance(one, Seeded))
    assert (seeded.programs, seeded.reasons) == (2, ())


@pytest.mark.slow
def test_workers_join_a_tracker_with_a_key_and_a_priority() -> None:
    """A user's slots join and leave a cluster, each with the key of its kind, which a job names.

    Priorities are in `tests/cluster/test_shared_slot.py`.
    """
    slots = ProcessSlots([usable_cores()[:1]], "tests.cluster.plain_slot")
    plain, own = Crew(slots, plain_target()), Crew(slots, local_target(1), patience_s=0.1)
    (name,) = plain.wait()
    with pytest.raises(RunError, match=f"of kind {target_digest(plain_target())}; expected"):
        own.wait()
    slots.running[name].process.kill()
    assert plain.usable() == []
    assert plain.wait() != [name]
    slots.close()
