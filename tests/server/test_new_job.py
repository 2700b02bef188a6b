"""The page of a new job without a script: checks, sizes, submission."""

import html
from pathlib import Path
from typing import Any

import pytest

from tests.server.onnx_models import small
from tests.server.service import Service, service

OWN = {"Origin": "http://localhost"}
TEXT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
FIELDS = {
    "by": "text", "text": TEXT, "size.M": "4", "size.K": "5", "size.N": "1..6", "threads": "1",
    "limit": "seconds", "amount": "30",
}  # fmt: skip


def sent(running: Service, **changes: Any) -> Any:
    fields = {**FIELDS, **changes}
    return running.client.post("/jobs/new", data=fields, headers=OWN, follow_redirects=False)


def test_a_form_makes_a_job_with_the_given_sizes_and_budget(url: str) -> None:
    with service(url) as running:
        assert 'name="size.M"' in running.client.get("/jobs/new").text
        reply = sent(running)
        assert reply.status_code == 303
        told = running.client.get("/v1" + reply.headers["location"]).json()
        assert (told["budget"]["seconds"], told["budget"]["trials"]) == (30.0, 100_000)
        assert told["tasks"][0]["dims"] == ["N in 1..6"]
        by_body = {"by": "json", "json": '{"text": "def f(float(4) A) -> (C) { C(i) = A(i) }"}'}
        assert sent(running, **by_body).status_code == 303
        assert len(running.client.get("/v1/jobs").json()["jobs"]) == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"size.M": ""}, "has no value"),
        ({"size.M": "0"}, "positive integers"),
        ({"text": "def mm(float(M) A"}, "text:1:"),
        ({"threads": "x"}, "cores: expected an integer"),
        ({"by": "json", "json": "{"}, "a key in double quotes"),
        ({"by": "model", "model": "0" * 64}, "cannot find this model"),
    ],
    ids=str,
)
def test_a_mistake_is_told_beside_the_fields_that_were_sent(
    changes: dict[str, str], told: str, url: str
) -> None:
    with service(url) as running:
        for check, status in (("", 422), ("yes", 200)):
            reply = sent(running, **changes, check=check)
            assert reply.status_code == status
            page = html.unescape(reply.text)
            assert told in page
            assert changes.get("text", TEXT) in page
        assert running.client.get("/v1/jobs").json()["jobs"] == []


def test_a_check_queues_nothing_and_names_the_sizes_of_a_model(url: str, tmp_path: Path) -> None:
    with service(url) as running:
        assert "<strong>mm</strong>" in sent(running, check="yes").text
        model = running.put_model(small(tmp_path / "small.onnx").read_bytes(), name="small.onnx")
        page = running.client.get(f"/jobs/new?model={model}").text
        assert 'name="size.batch"' in page
        assert "small.onnx</option>" in page
        chosen = {"by": "model", "model": model, "size.batch": "2"}
        assert "The model can be compiled with batch=2" in sent(running, **chosen, check="yes").text
        assert running.client.get("/v1/jobs").json()["jobs"] == []
        assert sent(running, **chosen).status_code == 303
        refused = running.client.post("/jobs/new", data=FIELDS)
        assert refused.status_code == 403, "a request that names no page"
