"""Modes over REST: a schedule or a template is a field, and a wrong step is told by its number."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansorpy.server.jobs.submission import Submission
from ansorpy.server.worker.journal import JobJournal
from ansorpy.server.worker.leased_job import LeasedJob
from ansorpy.target import Target
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools
from tests.server.service import MM, Service, service

STEPS: list[list[Any]] = [
    ["SP", "C", "i", 2, [2]],
    ["RE", "C", ["i.0", "k", "i.1", "j"]],
]


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def body(**changes: Any) -> dict[str, Any]:
    return {"text": MM, "mode": "manual", "schedule": {"steps": STEPS}, **changes}


def test_a_job_of_a_schedule_is_one_trial_with_its_loops_among_the_events(
    running: Service, tmp_path: Path
) -> None:
    reply = running.client.post("/v1/jobs", json=body())
    assert reply.status_code == 202, reply.text
    job = reply.json()
    assert job["budget"]["trials"] == 1
    claim = running.claim()
    submission = Submission.of(claim.request)
    journal = JobJournal(LeasedJob(running.engine, claim, 30.0, 1.0))
    request = Request.of(submission, submission.dags, Target("cpu"), first_answer=False)
    for event in run(request, store=journal, out=tmp_path, pools=fake_pools(), journal=journal):
        journal.take(event)
    done = running.client.get(f"/v1/jobs/{job['id']}").json()
    assert (done["state"], done["trials"]) == ("succeeded", 1)
    assert done["tasks"][0]["kernel"]
    lines = running.client.get(f"/v1/jobs/{job['id']}/events?format=jsonl").text.splitlines()
    (derived,) = [one for one in map(json.loads, lines) if one["kind"] == "derived"]
    assert "for C:i.0 in 2" in derived["loops"]


def test_text_is_taken_too_and_is_the_same_job(running: Service) -> None:
    first = running.client.post("/v1/jobs", json=body()).json()
    text = "io, ii = C.split(i, inner=[2])\nC.reorder(io, k, ii, j)"
    again = running.client.post("/v1/jobs", json=body(schedule=text)).json()
    assert (again["id"], again["how"]) == (first["id"], "coalesced")
    other = running.client.post("/v1/jobs", json={"text": MM}).json()
    assert other["id"] != first["id"]


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"schedule": {"steps": [*STEPS, ["SP", "C", "i", 2, [3]]]}},
         "cannot apply step 3 (i.0, i.1 = C.split(i, inner=[3])) because no loop 'i' in stage 'C';"
         " there are i.0, k, i.1, j; expected a step for the loops of C, i.0, k, i.1, j"),
        ({"schedule": {"steps": [["SP", "secretstage", "i", 2, [3]]]}},
         "cannot apply step 1 (i.0, i.1 = (...).split(i, inner=[3])) because no stage '(...)';"
         " there are A, B, C; expected one of the stages A, B, C"),
        ({"schedule": {"steps": [["SP", "C", "i", 2, [10**30]]]}},
         "cannot read step 1 because of a length out of range; expected lengths of 1 to"
         " 2147483647"),
        ({"schedule": {"steps": [["SP", "C", "i", 10**9, []]]}},
         "cannot read step 1 because of its form: parts = 1000000000, 0 to 64 expected; expected a"
         ' list of a code and its operands, such as ["SP", "C", "i", 2, [8]]'),
        ({"schedule": None},
         "cannot tune with mode manual because there is no schedule; expected steps and sizes in"
         " schedule"),
        ({"mode": "auto"},
         "cannot tune with a schedule in mode auto because the mode has other candidates; expected"
         " mode manual"),
        ({"text": f"{MM} def nn(float(4) A) -> (B) {{ B(i) = A(i) }}"},
         "cannot tune several tasks with mode manual because its schedule or template is of one"
         " task; expected the name of one in tasks"),
        ({"target": "cuda:sm_90"},
         "cannot tune with mode manual for cuda because schedules of users are lowered for"
         " processors only; expected target cpu"),
    ],
)  # fmt: skip
def test_a_wrong_schedule_names_the_step_and_echoes_no_input(
    running: Service, changes: dict[str, Any], detail: str
) -> None:
    reply = running.client.post("/v1/jobs", json=body(**changes))
    assert (reply.status_code, reply.json()["detail"]) == (422, detail)


TEMPLATE: dict[str, Any] = {
    "knobs": {"tile": {"split": "C.j", "num_outputs": 2}, "unroll": [0, 16]},
    "steps": [["SP", "C", "j", 2, {"knob": "tile"}]],
    "sizes": {"C.unroll": {"knob": "unroll"}},
}


@pytest.mark.parametrize("written", ["json", "text"])
def test_a_job_of_a_template_tries_its_knobs(
    running: Service, tmp_path: Path, written: str
) -> None:
    text = (
        'knob tile = {"split": "C.j", "num_outputs": 2}\nknob unroll = [0, 16]\n'
        "C.split(j, inner=$tile)\nC.unroll = $unroll"
    )
    told = {"mode": "template", "template": TEMPLATE if written == "json" else text}
    budget = {"trials": 20}
    sent = {"text": MM, **told, "tuner": "grid", "budget": budget}
    job = running.client.post("/v1/jobs", json=sent).json()
    claim = running.claim()
    submission = Submission.of(claim.request)
    journal = JobJournal(LeasedJob(running.engine, claim, 30.0, 1.0))
    request = Request.of(submission, submission.dags, Target("cpu"), first_answer=False)
    for event in run(request, store=journal, out=tmp_path, pools=fake_pools(), journal=journal):
        journal.take(event)
    done = running.client.get(f"/v1/jobs/{job['id']}").json()
    assert (done["state"], done["trials"]) == ("succeeded", 8)
    assert done["tasks"][0]["sketches"] is None, "rules derive nothing for a template"
    other = running.client.post("/v1/jobs", json={**sent, "tuner": "random"}).json()
    assert other["how"] == "created"


@pytest.mark.parametrize(
    ("written", "detail"),
    [
        ({**TEMPLATE, "knobs": {"secretknob": {"split": "C.secretloop", "num_outputs": 2}}},
         "cannot split by the knob (...) because 'C.(...)' is no loop; expected C.i, C.j, C.k"),
        ({**TEMPLATE, "knob": {}},
         "cannot read the field 'knob' of a template; expected knobs, steps, sizes, pack"),
        ({"function": "os.system"},
         "cannot read the field 'function' of a template; expected knobs, steps, sizes, pack"),
    ],
)  # fmt: skip
def test_a_wrong_template_names_the_knob_or_the_field(
    running: Service, written: dict[str, Any], detail: str
) -> None:
    told = {"text": MM, "mode": "template", "template": written}
    reply = running.client.post("/v1/jobs", json=told)
    assert (reply.status_code, reply.json()["detail"]) == (422, detail)


def test_a_model_has_no_mode_of_one_task(running: Service) -> None:
    told = body(text=None, model="0" * 64)
    reply = running.client.post("/v1/jobs", json=told)
    assert reply.status_code == 422
    expected = (
        "cannot tune a model with mode manual because a schedule is of one task; expected mode auto"
    )
    assert reply.json()["detail"] == expected
