"""Buttons on the page of a job: scopes, origins and results."""

from collections.abc import Iterator

import pytest

from ansorpy.server.db.engine import now, transaction
from ansorpy.server.jobs import lease
from tests.server.service import MM, Service, service

OWN = {"Origin": "http://localhost"}
HOW = ("cancel", "pause", "resume", "retry", "delete")


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def steer(running: Service, job_id: str, how: str, headers: dict[str, str]) -> int:
    path = f"/jobs/{job_id}/{how}"
    return running.client.post(path, headers=headers, follow_redirects=False).status_code


def buttons(running: Service, job_id: str, headers: dict[str, str] | None = None) -> set[str]:
    text = running.client.get(f"/jobs/{job_id}", headers=headers).text
    return {how for how in HOW if f"/jobs/{job_id}/{how}" in text}


def test_buttons_follow_the_state(running: Service) -> None:
    job_id = running.submit()
    assert buttons(running, job_id) == {"pause", "cancel", "delete"}
    assert steer(running, job_id, "pause", OWN) == 303
    assert buttons(running, job_id) == {"resume", "cancel", "delete"}
    assert steer(running, job_id, "resume", OWN) == 303
    running.claim()
    assert buttons(running, job_id) == {"pause", "cancel", "delete"}
    assert steer(running, job_id, "cancel", OWN) == 303
    assert buttons(running, job_id) == {"retry", "delete"}
    assert running.client.get(f"/v1/jobs/{job_id}").json()["state"] == "cancelled"


def test_a_disallowed_transition_is_an_error_page(running: Service) -> None:
    job_id = running.submit()
    steer(running, job_id, "cancel", OWN)
    late = running.client.post(f"/jobs/{job_id}/resume", headers=OWN)
    assert late.status_code == 409
    assert late.headers["content-type"].startswith("text/html")
    assert steer(running, job_id, "remove", OWN) == 404
    assert steer(running, "0" * 32, "cancel", OWN) == 404


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Origin": "null"}, {"Origin": "http://evil.example"}, {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)  # fmt: skip
def test_only_forms_of_the_service_change_jobs(running: Service, headers: dict[str, str]) -> None:
    job_id = running.submit()
    for how in HOW:
        assert steer(running, job_id, how, headers) == 403
    chosen = {"how": "delete", "job": job_id}
    assert running.client.post("/jobs", data=chosen, headers=headers).status_code == 403
    assert running.client.get(f"/v1/jobs/{job_id}").json()["state"] == "queued"


def test_a_job_is_run_again_and_deleted_with_its_kernels(running: Service) -> None:
    job_id, digest = running.succeed(fresh=True)
    place = running.client.post(f"/jobs/{job_id}/retry", headers=OWN, follow_redirects=False)
    again = place.headers["location"].rpartition("/")[2]
    told = running.client.get(f"/v1/jobs/{again}").json()
    assert (told["state"], again != job_id) == ("queued", True)
    claimed = running.claim()
    assert steer(running, again, "retry", OWN) == 409, "it has not ended"
    chosen = {"how": "delete", "job": [job_id, again]}
    assert running.client.post("/jobs", data=chosen, headers=OWN).status_code == 200
    for gone in (job_id, again):
        assert running.client.get(f"/v1/jobs/{gone}").status_code == 404
    assert running.client.get(f"/v1/kernels/{digest}").status_code == 404
    with transaction(running.engine) as tx:
        assert lease.lock_leased(tx, claimed, now(tx), 30.0) is None, "its worker stores no more"


def test_a_retry_with_a_key_makes_one_job(running: Service) -> None:
    job_id, _ = running.succeed()
    place, key = f"/v1/jobs/{job_id}/retry", {"Idempotency-Key": "k"}
    first, second = (running.client.post(place, headers=key) for _ in range(2))
    assert (first.status_code, first.headers["location"]) == (202, second.headers["location"])
    assert running.client.delete(f"/v1/jobs/{job_id}").status_code == 204
    assert running.client.delete(f"/v1/jobs/{job_id}").status_code == 404
    again = first.json()["id"]
    assert running.client.get(f"/v1/jobs/{again}").status_code == 200


def test_another_site_cannot_use_the_api(running: Service) -> None:
    job_id = running.submit()
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        reply = running.client.post(f"/v1/jobs/{job_id}/cancel", headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (403, "origin")
    assert running.client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200  # a program


def test_a_read_key_sees_no_buttons(url: str) -> None:
    with service(url) as first:
        own, reader = first.key("one", "tune"), first.key("one", "read")
        other = first.key("two", "tune")
    with service(url) as running:
        reply = running.client.post("/v1/jobs", json={"text": MM}, headers=own)
        job_id = str(reply.json()["id"])
        assert buttons(running, job_id, own) == {"pause", "cancel", "delete"}
        assert buttons(running, job_id, reader) == set()
        assert steer(running, job_id, "cancel", {**OWN, **reader}) == 403
        assert steer(running, job_id, "cancel", {**OWN, **other}) == 404
        assert steer(running, job_id, "cancel", {**OWN, **own}) == 303


def test_without_a_key_a_form_redirects_to_the_login(url: str) -> None:
    with service(url) as first:
        job_id = first.submit()
        first.key("one", "tune")
    with service(url) as running:
        reply = running.client.post(f"/jobs/{job_id}/cancel", headers=OWN, follow_redirects=False)
        assert (reply.status_code, reply.headers["location"]) == (303, "/login?next=%2Fjobs")
