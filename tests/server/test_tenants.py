"""Resources of a tenant are unknown to all other tenants.

The routes come from the OpenAPI document, so that a new route is tested automatically, and a
route with an unknown parameter fails.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ansorpy.server.db.records import record_row
from tests.importers.hostile import VALID
from tests.server.service import MM, Service, package, service
from tests.test_records import trial

OPEN = {"/healthz", "/readyz"}  # public routes


@dataclass(frozen=True)
class Two:
    """Two tenants; the ids belong to the first one."""

    running: Service
    owner: dict[str, str]
    other: dict[str, str]
    ids: dict[str, str]

    @property
    def operations(self) -> list[tuple[str, str, dict[str, Any]]]:
        document = self.running.client.get("/openapi.json").json()
        return [
            (method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]

    def call(self, method: str, path: str, headers: dict[str, str], **query: str) -> Any:
        names = re.findall(r"{(\w+)}", path)
        assert set(names) <= set(self.ids), f"{path}: say here what {names} may be"
        place = path.format(**self.ids)
        return self.running.client.request(
            method, place, headers=headers, params=query, follow_redirects=False
        )


@pytest.fixture
def two(url: str) -> Iterator[Two]:
    with service(url) as first:
        owner, other = first.key("owner", "admin"), first.key("other", "admin")
    with service(url, owner) as running:
        job_id, digest = running.succeed()
        claimed_id, model = running.submit(fresh=True), running.put_model()
        with running.held(running.claim()) as (tx, row, _):
            tx.add(record_row(trial(1.0), row.tenant_id, row.id, "mm", 1, origin="measured"))
            row.model = model  # its job has not ended, so that DELETE is a 409
            running.own_bundle(tx, job_id, package())
        ids = {
            "job_id": job_id, "sha256": digest, "file": "kernel.py", "task": "mm", "model": model,
        }  # fmt: skip
        running.client.headers.pop("Authorization")
        yield Two(running, owner, other, {**ids, "job": claimed_id})


def test_every_route_with_an_id_of_another_tenant_is_not_found(two: Two) -> None:
    tried = 0
    for method, path, _ in sorted(two.operations, key=lambda one: one[0] == "delete"):
        if "{" not in path or method == "put":  # PUT makes a model of the caller's own
            continue
        foreign = two.call(method, path, two.other)
        own = two.call(method, path, two.owner)
        assert own.status_code in (200, 202, 204, 307, 409), (method, path, own.text)
        assert foreign.status_code == 404, (method, path, foreign.text)
        missing = {**two.ids, "job_id": "0" * 32, "sha256": "0" * 64, "model": "0" * 64}
        nothing = Two(two.running, two.owner, two.other, missing).call(method, path, two.other)
        assert nothing.json() == foreign.json(), "foreign and missing can be told apart"
        tried += 1
    assert tried >= 12


def test_lists_show_nothing_of_other_tenants(two: Two) -> None:
    secrets = {two.ids[name] for name in ("job_id", "sha256", "job", "model")}
    seen = 0
    for method, path, _ in two.operations:
        if method != "get" or "{" in path:
            continue
        told = two.call(method, path, two.other).text
        assert not any(secret in told for secret in secrets), path
        mine = two.call(method, path, two.owner).text
        seen += any(secret in mine for secret in secrets)
    assert seen >= 1
    assert two.call("get", "/v1/records", two.other).text == ""
    assert two.call("get", "/v1/records", two.owner).text.count("\n") == 1
    assert two.call("get", "/v1/records", two.other, job=two.ids["job"]).status_code == 404
    assert two.call("get", "/v1/records", two.owner, job=two.ids["job"]).status_code == 200


def test_a_model_of_another_tenant_is_unknown_until_it_is_sent(two: Two) -> None:
    place, client = f"/v1/models/{two.ids['model']}", two.running.client
    asked = {"model": two.ids["model"]}
    assert client.post("/v1/simplify", json=asked, headers=two.owner).status_code == 200
    assert client.post("/v1/simplify", json=asked, headers=two.other).status_code == 404
    # Knowing a digest is not enough: all bytes are needed, and the first PUT is a 201 for everyone.
    assert client.put(place, content=b"", headers=two.other).status_code == 422
    assert client.put(place, content=VALID, headers=two.other).status_code == 201
    assert client.delete(place, headers=two.other).status_code == 204
    assert client.get(f"{place}/file", headers=two.owner).content == VALID
    assert client.get(place, headers=two.other).status_code == 404


def test_every_route_but_public_ones_needs_a_key(two: Two) -> None:
    for method, path, operation in two.operations:
        status = two.call(method, path, {}).status_code
        if path in OPEN:
            assert status == 200
            assert "security" not in operation
        else:
            assert status == 401, (method, path)
            assert operation["security"] == [{"key": []}]


def test_a_read_key_changes_nothing(two: Two) -> None:
    reader = two.running.key("owner", "read")
    for method, path, _ in two.operations:
        if method != "get":
            assert two.call(method, path, reader).status_code == 403, path


def test_equal_work_of_another_tenant_is_tuned_again(two: Two) -> None:
    mine = two.running.client.post("/v1/jobs", json={"text": MM}, headers=two.owner)
    other = two.running.client.post("/v1/jobs", json={"text": MM}, headers=two.other)
    assert (mine.json()["how"], other.json()["how"]) == ("answered", "created")
