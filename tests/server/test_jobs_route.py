import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from ansorpy.te.spec import to_json
from ansorpy.te.text import parse
from server.app import create_app
from server.db.engine import transaction
from server.db.models import PackageRow
from server.db.upgrade import open_database
from server.jobs import lease
from server.settings import Settings

MM = "def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
RESULT = {
    "name": "mm", "best_s": 1e-3, "baseline_s": 2e-3, "naive_s": 2e-3, "numpy_s": None,
    "trials": 16, "seconds": 1.5, "verified": True, "winner": "tuned", "flop": 240,
    "failures": {"wrong": 1}, "kernel": True,
}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path, embedded_worker=False, max_body_bytes=1 << 16, max_queued_jobs=3
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.fixture
def engine(settings: Settings, client: TestClient) -> Iterator[Engine]:
    engine = open_database(settings.url)
    yield engine
    engine.dispose()


def submit(client: TestClient, **changes: Any) -> str:
    reply = client.post("/v1/jobs", json={"text": MM, **changes})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["id"])


def test_submit_queues_a_job_and_says_where_it_is(client: TestClient) -> None:
    reply = client.post("/v1/jobs", json={"text": MM, "trials": 16})
    assert reply.status_code == 202
    job = reply.json()
    assert reply.headers["location"] == f"/v1/jobs/{job['id']}"
    assert reply.headers["retry-after"] == "1"
    assert client.get(reply.headers["location"]).json() == job
    assert (job["state"], job["attempt"], job["tasks"], job["error"]) == ("queued", 0, [], None)


def test_the_wire_form_is_taken_too(client: TestClient) -> None:
    reply = client.post("/v1/jobs", json={"dags": [to_json(parse(MM)[0])]})
    assert reply.status_code == 202, reply.text


def test_symbols_are_bound(client: TestClient) -> None:
    text = MM.replace("float(5,6)", "float(5,N)")
    assert client.post("/v1/jobs", json={"text": text}).status_code == 422
    assert client.post("/v1/jobs", json={"text": text, "bind": {"N": 6}}).status_code == 202


def test_a_job_shows_progress_then_its_result(client: TestClient, engine: Engine) -> None:
    job_id = submit(client)
    facts = {"mm": {"trials": 16, "best_s": 1e-3, "failures": {"wrong": 1}, "sketches": 3}}
    with transaction(engine) as tx:
        claim = lease.claim(tx, "w", 1.0, 30.0)
        assert claim is not None
    with transaction(engine) as tx:
        row = lease.hold(tx, claim, 2.0, 30.0)
        assert row is not None
        lease.note_progress(row, facts, 2.0)
    job = client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["progress"]) == ("running", facts)
    with transaction(engine) as tx:
        row = lease.hold(tx, claim, 3.0, 30.0)
        assert row is not None
        lease.finish(tx, row, [RESULT], "trials", 3.0)
    job = client.get(f"/v1/jobs/{job_id}").json()
    assert job["state"] == "succeeded"
    assert job["tasks"] == [{**RESULT, "kernel": f"/v1/jobs/{job_id}/kernels/mm"}]


def test_a_failed_job_says_why(client: TestClient, engine: Engine) -> None:
    job_id = submit(client)
    reason = "no candidate survived: crash: signal 11"
    with transaction(engine) as tx:
        claim = lease.claim(tx, "w", 1.0, 30.0)
        assert claim is not None
        row = lease.hold(tx, claim, 2.0, 30.0)
        assert row is not None
        lease.fail(tx, row, reason, 2.0)
    job = client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["error"]) == ("failed", reason)


def test_a_kernel_is_served_with_its_digest(client: TestClient, engine: Engine) -> None:
    data = b"PK and so on"
    digest = sha256(data).hexdigest()
    job_id = submit(client)
    url = f"/v1/jobs/{job_id}/kernels/mm"
    assert client.get(url).status_code == 404
    package = PackageRow(
        sha256=digest, size_bytes=len(data), content=data, manifest="{}", created_s=0.0
    )
    with transaction(engine) as tx:
        claim = lease.claim(tx, "w", 1.0, 30.0)
        assert claim is not None
        row = lease.hold(tx, claim, 2.0, 30.0)
        assert row is not None
        lease.add_kernel(tx, row, "mm", package, 1e-3, True, 2.0)
    reply = client.get(url)
    assert (reply.status_code, reply.content) == (200, data)
    assert reply.headers["etag"] == f'"{digest}"'
    assert reply.headers["content-type"] == "application/zip"
    assert f'filename="mm-{digest[:12]}.zip"' in reply.headers["content-disposition"]
    again = client.get(url, headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_full_queue_asks_to_come_back(client: TestClient) -> None:
    for size in range(3):
        submit(client, text=MM.replace("4", str(size + 6)))
    reply = client.post("/v1/jobs", json={"text": MM})
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "30")


HOSTILE = [
    b"", b"null", b"[]", b"{", b'"text"', b"{}", b"\xff\xfe", b'{"text": NaN}',
    b'{"text": ""}', b'{"text": "def"}', b'{"text": "\\ud800"}', b'{"text": "\\u0000"}',
    b'{"text": 5}', b'{"text": "x", "dags": []}', b'{"dags": []}', b'{"dags": [{}]}',
    b'{"dags": [[]]}', b'{"dags": [{"version": 1e999}]}', b'{"text": "x", "extra": 1}',
    b'{"text": "x", "trials": 0}', b'{"text": "x", "trials": 1e3}', b'{"text": "x", "trials": "5"}',
    b'{"text": "x", "trials": 99999999999999999999999999}', b'{"text": "x", "seconds": -1}',
    b'{"text": "x", "seconds": 1e999}', b'{"text": "x", "seed": -1}', b'{"text": "x", "cores": 0}',
    b'{"text": "x", "bind": {"../N": 4}}', b'{"text": "x", "bind": {"N": 0}}',
    b'{"text": "x", "bind": {"N": 9223372036854775808}}', b'{"text": "x", "weights": {"a": NaN}}',
    b'{"dags": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    json.dumps({"text": MM, "weights": {"nothing": 1.0}}).encode(),
    json.dumps({"text": MM + MM}).encode(),
    json.dumps({"text": "def a(float(99999999999) A) -> (B) { B(i) = A(i) }"}).encode(),
    json.dumps({"text": "def a(float(4) A) -> (B) { B(i) = A(i + 1) where i in 0:4 }"}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: str(body[:40]))
def test_a_wrong_body_is_a_problem_that_repeats_nothing(client: TestClient, body: bytes) -> None:
    reply = client.post("/v1/jobs", content=body)
    assert reply.status_code == 422
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json()
    assert problem["status"] == 422
    assert problem["detail"] or problem["errors"]
    assert len(reply.content) < 4096
    assert b'"input"' not in reply.content


def test_a_huge_body_is_refused_before_it_is_read(client: TestClient) -> None:
    reply = client.post("/v1/jobs", content=b'{"text": "' + b"x" * (1 << 17))
    assert reply.status_code == 413
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["status"] == 413
    assert len(reply.content) < 4096


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/jobs/{'0' * 32}", "/v1/jobs/nothing", f"/v1/jobs/{'0' * 32}/kernels/mm",
        f"/v1/jobs/{'0' * 32}/kernels/..%2f..%2fetc", "/v1/jobs/..%2f..%2fetc%2fpasswd", "/nothing",
    ],
)  # fmt: skip
def test_what_is_not_there_is_a_problem(client: TestClient, path: str) -> None:
    reply = client.get(path)
    assert reply.status_code in (404, 422)
    assert reply.headers["content-type"] == "application/problem+json"


def test_every_operation_has_an_id_and_typed_problems(client: TestClient) -> None:
    api = client.get("/openapi.json").json()
    operations = [op for path in api["paths"].values() for op in path.values()]
    ids = {op["operationId"] for op in operations}
    assert ids == {"submitJob", "readJob", "downloadKernel", "health"}
    for operation in operations:
        for code, answer in operation["responses"].items():
            if code >= "400":
                assert list(answer["content"]) == ["application/problem+json"], operation


def test_health_says_how_the_worker_is(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "worker": "none", "pid": None}
