from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed
from ansorpy.rules import CPU
from ansorpy.server.db.records import record_row
from ansorpy.server.service.explain import target_of
from ansorpy.sketch import derive
from ansorpy.target import Target, cuda_target
from tests.server.service import MM, Service, service
from tests.test_records import trial

NET = (
    "def net(float(64,64) A, float(64,64) B, float(64) bias) -> (G) {"
    " C(i,j) +=! A(i,k) * B(k,j)  E(i,j) = C(i,j) + bias(j)  D(i,j) = max(E(i,j), 0)"
    " F(i,j) +=! D(k,i) * B(k,j)  G(i,j) = max(F(i,j), 0) }"
)


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def pages(running: Service, job_id: str, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        reply = running.client.get(f"/v1/jobs/{job_id}/explain", params={**query, "after": after})
        assert reply.status_code == 200, reply.text
        assert len(reply.content) < 16 * 1024
        found.append(reply.json())
        after = found[-1]["next"]
    return found


def test_every_rule_at_every_visit_has_a_reason(running: Service) -> None:
    job_id = running.submit(text=NET)
    told = pages(running, job_id)
    visits = [visit for page in told for visit in page["visits"]]
    wanted = derive(parse(NET)[0], Target(), CPU)
    assert [visit["number"] for visit in visits] == list(range(len(wanted.visits)))
    assert told[0]["sketches"] == len(wanted.sketches)
    assert len(told) > 1, "one page shows nothing of paging"
    for shown, visit in zip(visits, wanted.visits, strict=True):
        assert shown["sketch"] == visit.sketch
        assert [v["rule"] for v in shown["verdicts"]] == [t.rule for t in visit.trials]
        assert all(verdict["why"] for verdict in shown["verdicts"])
        following = [number for v in shown["verdicts"] for number in v["successors"]]
        assert all(0 < number < len(visits) for number in following)


def test_the_task_is_chosen_by_name(running: Service) -> None:
    job_id = running.submit(text=MM + NET, budget={"trials": 64})
    path = f"/v1/jobs/{job_id}/explain"
    assert running.client.get(path).json()["tasks"] == ["mm", "net"]
    assert pages(running, job_id, task="net")[0]["task"] == "net"
    assert running.client.get(path, params={"task": "other"}).status_code == 404
    assert running.client.get(path, params={"task": "../x"}).status_code == 422


def test_failures_by_kind_have_examples_and_advice(running: Service) -> None:
    job_id = running.submit()
    claimed = running.claim()
    outcomes = [Failed("wrong", f"C[0] is {n}, not 2" + "x" * 999) for n in range(5)]
    with running.held(claimed) as (tx, row, _):
        for n, outcome in enumerate((*outcomes, Failed("crash", "signal 11"))):
            record = replace(trial(1.0, row=(n,)), outcome=outcome)
            tx.add(record_row(record, row.tenant_id, row.id, "mm", 1, origin="measured"))
    wrong, crash = running.client.get(f"/v1/jobs/{job_id}/explain").json()["failures"]
    assert (wrong["kind"], wrong["count"], len(wrong["examples"])) == ("wrong", 5, 3)
    assert wrong["examples"][0].startswith("C[0] is 0")
    assert (crash["kind"], crash["count"], crash["examples"]) == ("crash", 1, ["signal 11"])
    assert all(failure["next_step"] for failure in (wrong, crash))


def test_a_target_is_read_from_the_facts_of_a_worker() -> None:
    machine = Target(vector_bits=256, features=("avx2", "fma"), cpu="x")
    assert target_of({"target": machine.facts()}, 2) == Target(
        vector_bits=256, features=("avx2", "fma"), cpu="x", cores=2
    )
    assert target_of({"target": cuda_target("sm_90").facts()}, 132) == cuda_target("sm_90")
    assert target_of({}, 2) is None
