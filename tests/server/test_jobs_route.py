import json
from collections.abc import Iterator

import pytest

from ansorpy.frontends.json.write import to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import PackageRow
from ansorpy.server.jobs import lease
from ansorpy.server.schemas.job import JobRequest
from tests.server.service import MM, PROGRESS, RESULT, Service, package, service

UNKNOWN = "0" * 32


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url, max_queued_jobs=3, max_body_bytes=1 << 16) as found:
        yield found


def test_submit_queues_a_job_and_returns_its_location(running: Service) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, "budget": {"trials": 16}})
    assert reply.status_code == 202
    job = reply.json()
    assert job.pop("how") == "created"
    assert reply.headers["location"] == f"/v1/jobs/{job['id']}"
    assert reply.headers["retry-after"] == "1"
    assert running.client.get(reply.headers["location"]).json() == job
    assert (job["state"], job["attempts"], job["reason"]) == ("queued", 0, "")
    assert job["memory_bytes"] == 4 * (4 * 5 + 5 * 6 + 4 * 6)
    assert [task["name"] for task in job["tasks"]] == ["mm"]


def test_dags_in_json_are_accepted(running: Service) -> None:
    reply = running.client.post("/v1/jobs", json={"dags": [to_json(parse(MM)[0])]})
    assert reply.status_code == 202, reply.text


def test_unknown_values_of_allow_are_refused(running: Service) -> None:
    for words, status in ((["winograd4", "winograd2"], 202), (["fast"], 422)):
        reply = running.client.post("/v1/jobs", json={"text": MM, "allow": words})
        assert reply.status_code == status, reply.text


def test_tf32_is_allowed_for_a_gpu_alone(running: Service) -> None:
    job = {"text": MM, "allow": ["tf32"]}
    reply = running.client.post("/v1/jobs", json={**job, "target": "cuda:sm_90"})
    assert reply.status_code == 202, reply.text
    reply = running.client.post("/v1/jobs", json=job)
    assert reply.status_code == 422, reply.text
    assert "no rules for cpu have this name" in reply.text


*FIRST, LAST = JobRequest.model_fields
FIELDS = f"{', '.join(FIRST)} or {LAST}"


@pytest.mark.parametrize(
    ("body", "place", "detail"),
    [
        ({"budgets": {}}, "?", f"cannot take a field of the request because no such field exists;"
         f" expected {FIELDS}; the nearest is budget"),
        ({"budget": {"trails": 5}}, "budget.?", "cannot take a field of budget because no such"
         " field exists; expected trials, seconds, target_latency_s, stop_if_gain_below,"
         " patience, max_trials_per_task, objective, network_targets_s, task_targets_s,"
         " strategy, tasks or trials_per_task; the nearest is trials"),
        ({"zzzzzzzz": 1}, "?", f"cannot take a field of the request because no such field exists;"
         f" expected {FIELDS}"),
        ({"budget": {"trials": -1}}, "budget.trials", "cannot take budget.trials because its value"
         " does not fit; expected a number of at least 0"),
        ({"allow": ["../fast"]}, "allow.0", "cannot take allow.0 because its value does not fit;"
         " expected the name of rules: at most 40 letters, digits, _ and -"),
        ({"dags": [{}]}, "", "cannot take the request because it has several computations;"
         " expected exactly one of text, dags, model and graph"),
        ({"bind": {"N": 1.5}}, "bind", "cannot take bind because its values are the extents of a"
         " text; expected positive integers, or ranges such as 1..512"),
        ({"hosted": True}, "hosted", "cannot take hosted because it belongs to a model or a graph;"
         " expected a model or a graph with hosted"),
        ({"cores": "nine", "seed": -1}, "cores", "cannot take cores because its value does not fit;"
         " expected an integer (errors lists 1 more)"),
        ({"weights": {"mm": 0}}, "weights.?", "cannot take weights.? because its value does not"
         " fit; expected a number above 0.0"),
        ({"target": "x" * 33}, "target", "cannot take target because its value does not fit;"
         " expected at most 32 characters"),
    ],
)  # fmt: skip
def test_a_validation_error_names_the_expected_value(
    running: Service, body: dict[str, object], place: str, detail: str
) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, **body})
    told = reply.json()
    assert (reply.status_code, told["code"], told["detail"]) == (422, "shape", detail)
    assert told["errors"][0]["place"] == place
    assert told["errors"][0]["expected"] in detail
    for word in ("budgets", "trails", "zzzz", "fast", "nine", "xxx"):
        assert word not in reply.text, "a problem does not repeat the request"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("{", "line 1, column 2 of the body because it is not JSON; expected a key in double"
         " quotes"),
        ('{"text": "x", "text": "y"}', "text because a key occurs twice; expected each key once"),
        ('{"seed": NaN}', "seed because NaN and infinity are not JSON; expected finite numbers"),
    ],
)  # fmt: skip
def test_an_unreadable_body_has_a_reason(running: Service, body: str, detail: str) -> None:
    reply = running.client.post("/v1/jobs", content=body)
    assert (reply.status_code, reply.json()["detail"]) == (422, f"cannot take {detail}")


def test_problems_of_unknown_paths_and_methods_name_the_expected_ones(running: Service) -> None:
    for query, expected in (("limit=0", "at least 1"), ("state=x", "'queued', 'running'")):
        detail = running.client.get(f"/v1/jobs?{query}").json()["detail"]
        assert detail.startswith(f"cannot take query.{query.partition('=')[0]} because ")
        assert expected in detail


def test_an_unbound_size_is_reported_without_command_line_options(running: Service) -> None:
    text = MM.replace("float(5,6)", "float(5,N)")
    detail = running.client.post("/v1/jobs", json={"text": text}).json()["detail"]
    expected = 'expected "bind": {"N": 512}, or a range, such as N in 1..512'
    assert detail.endswith(f"size 'N' has no value; {expected}")
    assert "--" not in detail


def test_unknown_rules_cannot_be_switched_off(running: Service) -> None:
    for names, status in ((["Tiling", "SplitPhases"], 202), (["Fast"], 422), (["a b"], 422)):
        reply = running.client.post("/v1/jobs", json={"text": MM, "without": names})
        assert reply.status_code == status, reply.text
        assert "Fast" not in reply.text, "a problem does not repeat the request"


def test_symbols_are_bound(running: Service) -> None:
    text = MM.replace("float(5,6)", "float(5,N)")
    assert running.client.post("/v1/jobs", json={"text": text}).status_code == 422
    body = {"text": text, "bind": {"N": 6}}
    assert running.client.post("/v1/jobs", json=body).status_code == 202


def test_integral_floats_are_integers(running: Service) -> None:
    body = f'{{"text": "{MM}", "budget": {{"trials": 16.0}}, "cores": 2.0}}'
    reply = running.client.post("/v1/jobs", content=body)
    assert (reply.status_code, reply.json()["budget"]["trials"]) == (202, 16)
    wrong = body.replace("16.0", "16.5")
    assert running.client.post("/v1/jobs", content=wrong).status_code == 422


def test_an_idempotency_key_makes_one_job(running: Service) -> None:
    headers = {"Idempotency-Key": "mine"}
    body = {"text": MM, "fresh": True}
    first = running.client.post("/v1/jobs", json=body, headers=headers)
    again = running.client.post("/v1/jobs", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert (first.json()["how"], again.json()["how"]) == ("created", "repeated")
    assert first.json()["id"] == again.json()["id"]
    other = running.client.post("/v1/jobs", json={"text": MM, "seed": 3}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency")
    for wrong in ("", "x" * 256, "two words"):
        reply = running.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": wrong})
        assert reply.status_code == 422, wrong


def test_equal_jobs_are_coalesced_or_answered(running: Service) -> None:
    first = running.submit(budget={"trials": 64})
    same = running.client.post("/v1/jobs", json={"text": MM, "budget": {"trials": 32}})
    assert (same.status_code, same.json()["how"], same.json()["id"]) == (202, "coalesced", first)
    claimed = running.claim()
    digest = running.deliver(claimed, package())
    running.finish(claimed)
    reply = running.client.post("/v1/jobs", json={"text": MM, "budget": {"trials": 64}})
    assert (reply.status_code, reply.json()["how"]) == (200, "answered")
    assert reply.json()["tasks"][0]["kernel"] == digest
    more = running.client.post("/v1/jobs", json={"text": MM, "budget": {"trials": 65}})
    assert (more.status_code, more.json()["how"]) == (202, "created")


@pytest.mark.parametrize("made_with", [{}, {"codegen": "0"}, {"numba": "0.1"}])
def test_kernels_of_other_versions_answer_no_submission(
    running: Service, made_with: dict[str, str]
) -> None:
    old, _ = running.succeed()
    with transaction(running.engine) as tx:
        (row,) = tx.query(PackageRow).all()
        manifest = json.loads(row.manifest)
        manifest["versions"] = {**manifest["versions"], **made_with} if made_with else {}
        row.manifest = json.dumps(manifest)
    reply = running.client.post("/v1/jobs", json={"text": MM})
    assert (reply.status_code, reply.json()["how"]) == (202, "created")
    assert reply.json()["id"] != old
    assert running.client.get(f"/v1/jobs/{old}").json()["state"] == "succeeded"


def test_a_job_shows_progress_then_its_result(running: Service) -> None:
    job_id = running.submit()
    claimed = running.claim()
    running.progress(claimed)
    (task,) = running.client.get(f"/v1/jobs/{job_id}").json()["tasks"]
    assert {name: task[name] for name in PROGRESS["mm"]} == PROGRESS["mm"]
    assert (task["kernel"], task["verified"], task["winner"]) == (None, False, None)
    early = running.deliver(claimed, package(), final=False)
    (task,) = running.client.get(f"/v1/jobs/{job_id}").json()["tasks"]
    assert (task["kernel"], task["final"]) == (early, False)
    running.finish(claimed)
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert job["state"] == "succeeded"
    told = ("best_s", "baseline_s", "naive_s", "winner", "verified", "flop", "failures", "trials")
    assert {name: job["tasks"][0][name] for name in told} == {name: RESULT[name] for name in told}


def test_an_etag_is_valid_until_a_change(running: Service) -> None:
    path = f"/v1/jobs/{running.submit()}"
    first = running.client.get(path)
    tag = first.headers["etag"]
    for header in (tag, f'"x", {tag}', "*", tag.removeprefix("W/")):
        again = running.client.get(path, headers={"If-None-Match": header})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    running.progress(running.claim())
    changed = running.client.get(path, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_jobs_are_listed_newest_first_in_pages(running: Service) -> None:
    ids = [running.submit(seed=n, fresh=True) for n in range(3)]
    page = running.client.get("/v1/jobs", params={"limit": 2}).json()
    assert [job["id"] for job in page["jobs"]] == [ids[2], ids[1]]
    rest = running.client.get("/v1/jobs", params={"limit": 2, "before": page["next"]}).json()
    assert ([job["id"] for job in rest["jobs"]], rest["next"]) == ([ids[0]], None)
    running.client.post(f"/v1/jobs/{ids[1]}/cancel")
    cancelled = running.client.get("/v1/jobs", params={"state": "cancelled"}).json()
    assert [job["id"] for job in cancelled["jobs"]] == [ids[1]]


@pytest.mark.parametrize("query", ["limit=0", "limit=41", "limit=-1", f"before={2**63}", "state=x"])
def test_an_invalid_page_is_a_problem(running: Service, query: str) -> None:
    assert running.client.get(f"/v1/jobs?{query}").status_code == 422


def test_a_job_is_paused_resumed_and_cancelled(running: Service) -> None:
    path = f"/v1/jobs/{running.submit()}"
    steps = [("pause", 200, "paused"), ("pause", 200, "paused"), ("resume", 200, "queued"),
             ("cancel", 200, "cancelled"), ("cancel", 200, "cancelled")]  # fmt: skip
    for how, status, state in steps:
        reply = running.client.post(f"{path}/{how}")
        assert (reply.status_code, reply.json()["state"]) == (status, state)
    for how in ("pause", "resume"):
        reply = running.client.post(f"{path}/{how}")
        assert (reply.status_code, reply.json()["code"]) == (409, "state")


def test_a_job_is_resumed_only_if_the_queue_has_room(running: Service) -> None:
    paused, *_ = [running.submit(seed=n, fresh=True) for n in range(3)]
    assert running.client.post(f"/v1/jobs/{paused}/pause").status_code == 200
    other = running.submit(seed=3, fresh=True)
    reply = running.client.post(f"/v1/jobs/{paused}/resume")
    assert (reply.status_code, reply.json()["code"]) == (429, "quota")
    assert running.client.post(f"/v1/jobs/{other}/cancel").status_code == 200
    assert running.client.post(f"/v1/jobs/{paused}/resume").json()["state"] == "queued"


def test_a_failed_job_has_a_reason(running: Service) -> None:
    job_id = running.submit()
    reason = "no candidate survived: crash: signal 11"
    with running.held(running.claim()) as (tx, row, now_s):
        lease.fail(tx, row, reason, now_s)
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["reason"]) == ("failed", reason)


def test_a_full_queue_has_retry_after(running: Service) -> None:
    for seed in range(3):
        running.submit(seed=seed, fresh=True)
    reply = running.client.post("/v1/jobs", json={"text": MM, "fresh": True, "seed": 9})
    assert (reply.status_code, reply.json()["code"]) == (429, "quota")
    assert reply.headers["retry-after"] == "30"


def test_a_too_long_body_is_refused(running: Service) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"text": "'
        for _ in range(64):
            yield b"x" * 4096

    for body in (b'{"text": "' + b"x" * (1 << 17), chunks()):
        reply = running.client.post("/v1/jobs", content=body)
        assert (reply.status_code, reply.json()["code"]) == (413, "length")
        assert len(reply.content) < 4096


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/jobs/{UNKNOWN}", f"/v1/jobs/{UNKNOWN}/kernels/mm", f"/v1/jobs/{UNKNOWN}/events",
        f"/v1/jobs/{UNKNOWN}/explain", f"/v1/kernels/{'0' * 64}", f"/v1/records?job={UNKNOWN}",
        f"/v1/kernels/{'0' * 64}/kernel.py", "/nothing", "/v1", "/static/nothing",
        f"/v1/jobs/{UNKNOWN}/kernels/..%2f..%2fetc%2fpasswd", "/static/..%2f..%2fapp.py",
    ],
)  # fmt: skip
def test_a_missing_resource_is_a_problem(running: Service, path: str) -> None:
    reply = running.client.get(path)
    assert (reply.status_code, reply.json()["code"]) == (404, "unknown")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["detail"]


@pytest.mark.parametrize("job_id", ["nothing", "..%2f..%2fetc", "0" * 31, "A" * 32, "%00" * 32])
def test_a_malformed_id_is_a_problem(running: Service, job_id: str) -> None:
    assert running.client.get(f"/v1/jobs/{job_id}").status_code in (404, 422)


def test_an_unsupported_method_is_a_problem(running: Service) -> None:
    reply = running.client.delete("/v1/jobs")
    assert (reply.status_code, reply.json()["code"]) == (405, "method")
    assert reply.headers["allow"] == "GET, HEAD, POST"
    assert reply.json()["detail"].endswith("expected GET, HEAD or POST")
    job = running.client.put(f"/v1/jobs/{UNKNOWN}/cancel")
    assert (job.status_code, job.headers["allow"]) == (405, "POST")
