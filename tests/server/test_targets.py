"""Targets of jobs over REST: names, known targets, and `waiting_for`."""

from collections.abc import Iterator

import pytest

from ansorpy.server.db.engine import now, transaction
from ansorpy.server.jobs import lease
from ansorpy.server.worker.description import describe
from tests.server.service import MM, Service, package, service

DIGEST = "5f2b9c0d1e3a4b6c"


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def refusal(running: Service, **body: object) -> str:
    reply = running.client.post("/v1/jobs", json={"text": MM, "fresh": True, **body})
    assert (reply.status_code, reply.json()["code"]) == (422, "spec"), reply.text
    return str(reply.json()["detail"])


def waiting(running: Service, job_id: str) -> str | None:
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert job["state"] == "queued"
    found: str | None = job["waiting_for"]
    return found


GPUS = "cuda:sm_80 or cuda:sm_90"


def test_cuda_means_the_gpu_of_a_worker(running: Service) -> None:
    expected = f"cannot tune for cuda because no worker has a GPU; expected {GPUS}"
    assert refusal(running, target="cuda") == expected


def test_a_gpu_without_a_preset_is_refused(running: Service) -> None:
    told = refusal(running, target="cuda:sm_75")
    assert told == f"cannot use target cuda:(...) because (...) has no preset; expected {GPUS}"


def test_options_that_need_times_are_refused_for_a_gpu(running: Service) -> None:
    told = refusal(running, target="cuda:sm_90", budget={"target_latency_s": 1e-3})
    assert told == (
        "cannot tune with target_latency_s for this GPU because its candidates are estimated, not"
        " timed; expected trials, seconds or patience"
    )


@pytest.mark.parametrize("target", ["a b", "5f2b", "cpu:", ":", "CPU", "cpu:a:b", "\u00e9", "../"])
def test_a_malformed_target_is_refused_with_the_known_ones(running: Service, target: str) -> None:
    running.worker(DIGEST)
    told = refusal(running, target=target)
    assert told.startswith("cannot read target ")
    assert told.endswith(
        "because it is neither KIND[:ARCH] nor a digest of 16 hex digits; expected cpu,"
        f" {DIGEST}, cpu:znver4, {GPUS}"
    )
    assert told.isascii()


@pytest.mark.parametrize("target", ["tensorprocessor", "cpu:secretarch", "ab12" * 4])
def test_an_unknown_target_is_refused_with_the_known_ones(running: Service, target: str) -> None:
    assert refusal(running, target=target).endswith(f"has that name; expected cpu, {GPUS}")
    running.worker(DIGEST)
    told = refusal(running, target=target)
    assert told.endswith(
        f"no known target has that name; expected cpu, {DIGEST}, cpu:znver4, {GPUS}"
    )
    for word in ("processor", "secret", "ab12"):
        assert word not in told, "a problem does not repeat the request"


@pytest.mark.parametrize("target", ["cpu", "cpu:znver4", DIGEST])
def test_a_known_target_without_a_live_worker_waits_with_a_reason(
    running: Service, target: str
) -> None:
    running.worker(DIGEST, age_s=3600.0)
    reply = running.client.post("/v1/jobs", json={"text": MM, "target": target})
    job = reply.json()
    lacks = f"no live worker for {target}"
    assert (reply.status_code, job["state"], job["target"]) == (202, "queued", target)
    assert job["waiting_for"] == lacks
    assert lacks in running.client.get(f"/jobs/{job['id']}").text
    path = f"/v1/jobs/{job['id']}"
    tag = running.client.get(path).headers["etag"]
    assert running.client.get(path, headers={"If-None-Match": tag}).status_code == 304
    running.worker(DIGEST)
    changed = running.client.get(path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["waiting_for"]) == (200, None)
    assert lacks not in running.client.get(f"/jobs/{job['id']}").text


def test_a_job_for_any_target_waits_for_any_worker(running: Service) -> None:
    job_id = running.submit()
    assert waiting(running, job_id) == "no live worker"
    running.worker(DIGEST, age_s=3600.0)
    assert waiting(running, job_id) == "no live worker"
    running.worker(DIGEST)
    assert waiting(running, job_id) is None


def test_only_a_queued_job_waits_for_a_worker(running: Service) -> None:
    job_id = running.submit()
    assert running.client.post(f"/v1/jobs/{job_id}/pause").json()["waiting_for"] is None
    assert running.client.post(f"/v1/jobs/{job_id}/resume").json()["waiting_for"] is not None
    claimed = running.claim()
    assert running.client.get(f"/v1/jobs/{job_id}").json()["waiting_for"] is None
    running.deliver(claimed, package())
    running.finish(claimed)
    assert running.client.get(f"/v1/jobs/{job_id}").json()["waiting_for"] is None


def test_more_cores_than_any_worker_has_are_refused(running: Service) -> None:
    running.worker(DIGEST, cores=4, age_s=3600.0)
    expected = (
        "cannot tune for 5 cores because the largest worker of this target has 4; expected 1 to 4"
    )
    assert refusal(running, cores=5) == expected
    assert refusal(running, cores=5, target="cpu:znver4") == expected
    assert running.submit(cores=4)


def test_without_registered_workers_a_job_waits_for_its_cores(running: Service) -> None:
    job_id = running.submit(cores=64)
    assert waiting(running, job_id) == "no live worker"
    running.worker(DIGEST, cores=4)
    assert waiting(running, job_id) == "no live worker with 64 cores"
    running.worker(DIGEST, cores=64)
    assert waiting(running, job_id) is None


def claim(running: Service, cores: int) -> lease.Claim | None:
    with transaction(running.engine) as tx:
        return lease.claim(
            tx, "w", now(tx), 30.0, target=DIGEST, names=("cpu", "cpu:znver4"), cores=cores
        )


@pytest.mark.parametrize("target", ["", "cpu", "cpu:znver4", DIGEST])
def test_a_worker_claims_jobs_for_its_names_and_cores(running: Service, target: str) -> None:
    running.worker(DIGEST, cores=8)
    job_id = running.submit(target=target, cores=4)
    assert claim(running, 3) is None
    claimed = claim(running, 4)
    assert claimed is not None
    assert claimed.job_id == job_id
    assert running.client.get(f"/v1/jobs/{job_id}").json()["target"] == DIGEST


def test_a_worker_does_not_claim_other_targets(running: Service) -> None:
    running.worker("0123456789abcdef", arch="skylake-avx512")
    for target in ("cpu:skylake-avx512", "0123456789abcdef"):
        running.submit(target=target, fresh=True)
    assert claim(running, 64) is None


def test_equal_jobs_for_a_name_of_the_target_are_answered(running: Service) -> None:
    running.worker(DIGEST)
    running.submit()
    claimed = claim(running, 2)
    assert claimed is not None
    running.deliver(claimed, package())
    running.finish(claimed)
    for target in ("", "cpu", "cpu:znver4", DIGEST):
        reply = running.client.post("/v1/jobs", json={"text": MM, "target": target})
        assert (reply.status_code, reply.json()["how"]) == (200, "answered"), target


def test_a_worker_describes_its_machine(running: Service) -> None:
    own = describe()
    assert own.names[0] == "cpu"
    assert own.names[1].startswith("cpu:")
    assert own.cores is not None
    running.worker(own.target, cores=own.cores, arch=own.names[1].removeprefix("cpu:"))
    assert waiting(running, running.submit(target=own.names[1], cores=own.cores)) is None
