"""Jobs whose sizes each call decides: requests, progress, kernels, resumption, models."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ansorpy
from ansorpy import te
from ansorpy.bundle.load import load_model
from ansorpy.client import Client
from ansorpy.client.model import Job
from ansorpy.frontends.json.write import to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.importers.onnx_run import reference_run
from ansorpy.server.cli import app
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.ranges import TaskSizes
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.web.filters import NOTHING
from ansorpy.server.worker.tuner_process import children
from ansorpy.te.bindings import FORMS
from tests.server.onnx_models import small
from tests.server.process import Live, process, until
from tests.server.service import RESULT, Service, service

TEXT = "def mm(float(N,16) A, float(16,8) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
DIM = te.dim("N", 1, 12)
LIMIT_S = 240.0


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


# --- requests


def test_equal_ranges_are_one_workload_in_every_notation(running: Service) -> None:
    ranged = TEXT.replace("N,", "N in 1..12,")
    bodies: list[Mapping[str, Any]] = [
        {"text": ranged},
        {"text": TEXT, "bind": {"N": "1..12"}},
        {"dags": [to_json(parse(TEXT, {"N": DIM})[0])]},
    ]
    replies = [running.client.post("/v1/jobs", json=body).json() for body in bodies]
    assert [reply["how"] for reply in replies] == ["created", "coalesced", "coalesced"]
    assert replies[0]["tasks"][0]["dims"] == ["N in 1..12"]
    other = running.client.post(
        "/v1/jobs", json={"text": TEXT, "bind": {"N": "1..12@1:0.9+12:0.1"}}
    )
    assert other.json()["how"] == "created"
    assert other.json()["tasks"][0]["dims"] == ["N in 1..12 @ 1: 0.9 + 12: 0.1"]


def test_a_range_of_a_model_is_stored_as_text_and_read_as_a_dim(running: Service) -> None:
    digest = running.put_model()
    body = {"model": digest, "bind": {"batch": "8..64:8@8:0.90+64:0.1"}}
    job = running.client.post("/v1/jobs", json=body).json()
    assert job["model"]["bind"] == {"batch": "8..64:8@8:0.9+64:0.1"}
    model = Submission.of(running.claim().request).model
    assert model is not None
    assert model.bind == {"batch": "8..64:8@8:0.9+64:0.1"}
    assert "batch = 8..64:8@8:0.9+64:0.1" in running.client.get(f"/jobs/{job['id']}").text


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("9..3", "3..9"),
        ("8..63:8", "multiples of 8"),
        ("-1..4", "integers from 1 to 2147483647"),
        ("1..8@9:1", "sizes from 1 to 8"),
        ("12", f"a number, or a range such as {FORMS}"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/simplify"])
def test_a_wrong_range_is_refused_with_the_expected_one(
    running: Service, path: str, sizes: str, expected: str
) -> None:
    source = {"text": TEXT} if path == "/v1/jobs" else {"model": "0" * 64}
    reply = running.client.post(path, json={**source, "bind": {"N": sizes}})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["place"] == "bind.?"
    assert reply.json()["detail"] == (
        f"cannot take bind.? because its value does not fit; expected {expected}"
    )


def test_a_tensor_that_may_be_empty_is_refused(running: Service) -> None:
    reply = running.client.post("/v1/jobs", json={"text": TEXT, "bind": {"N": "0..4"}})
    assert reply.status_code == 422
    assert "may be 0; expected sizes from 1" in reply.text


def test_the_limit_of_tensors_counts_the_largest_sizes(running: Service) -> None:
    body = {"text": TEXT, "bind": {"N": "1..20000000"}}
    reply = running.client.post("/v1/jobs", json=body)
    assert reply.status_code == 422
    assert "N in 1..20000000 needs" in reply.json()["detail"]
    fits = reply.json()["detail"].partition("expected N in ")[2].partition(",")[0]
    assert running.client.post("/v1/jobs", json={**body, "bind": {"N": fits}}).status_code == 202
    low, _, high = fits.partition("..")
    more = {"N": f"{low}..{int(high) + 1}"}
    assert running.client.post("/v1/jobs", json={**body, "bind": more}).status_code == 422


# --- progress


def test_a_page_and_a_reply_show_the_ranges_of_a_task(running: Service) -> None:
    job_id = running.submit(TEXT, bind={"N": "1..12"})
    claimed = running.claim()
    progress = {
        "mm_N_1_1": {"trials": 12, "best_s": 1e-6, "failures": {"wrong": 1}, "sketches": 5},
        "mm_N_2_12": {"trials": 8, "best_s": 3e-6, "failures": {"wrong": 2}, "sketches": 3},
    }
    with running.held(claimed) as (_, row, now_s):
        lease.store_progress(row, progress, now_s)
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    task = job["tasks"][0]
    assert (job["trials"], task["trials"], task["failures"]) == (20, 20, {"wrong": 3})
    assert task["best_s"] is None, "times of ranges are none of the task"
    assert task["ranges"] == [
        {"name": name, "sizes": sizes, **progress[name]}
        for name, sizes in (("mm_N_1_1", "N = 1"), ("mm_N_2_12", "N = 2..12"))
    ]
    page = running.client.get(f"/jobs/{job_id}").text
    for text in ("N in 1..12", "N = 2..12", 'data-searched="mm_N_1_1 mm_N_2_12"'):
        assert text in page
    code = running.client.get(f"/jobs/{job_id}?tab=code").text
    assert "Each range of sizes has a kernel of its own" in code


def test_the_ranges_of_the_search_are_shown_and_not_those_of_first_answers() -> None:
    dag = parse(TEXT.replace("N,", "N in 1..512,"))[0]
    sizes = TaskSizes.of(dag, 4)
    first = {f"mm_N_{a}_{b}": {"sketches": 1} for a, b in ((1, 1), (2, 8), (9, 64), (65, 512))}
    assert [one["sizes"] for one in sizes.searched("mm", first)["searched"]] == [
        "N = 1", "N = 2..8", "N = 9..64", "N = 65..512",
    ]  # fmt: skip
    later = {**first, "mm_N_1_1": {"trials": 8}, "mm_N_2_512": {"trials": 12}}
    found = sizes.searched("mm", later)
    assert [one["sizes"] for one in found["searched"]] == ["N = 1", "N = 2..512"]
    assert found["trials"] == 20
    whole = {**first, "mm": {"trials": 3}}
    assert sizes.searched("mm", whole) == {}, "its trials are those of the whole task"


def test_a_reply_and_a_page_tell_the_time_at_each_size(running: Service) -> None:
    job_id = running.submit(TEXT, bind={"N": "1..12"})
    timed = [
        {"sizes": {"N": 1}, "kernel_for": "N in 1..1", "best_s": 1e-6, "numpy_s": 3e-6},
        {"sizes": {"N": 2}, "kernel_for": "N in 2..12", "best_s": 2e-6, "numpy_s": 3e-6},
        {"sizes": {"N": 12}, "kernel_for": "N in 2..12", "best_s": 7e-6, "numpy_s": None},
    ]
    before = running.client.get(f"/jobs/{job_id}").text
    assert '<div id="sizes" data-part>' in before, "its script puts the sizes there"
    assert "Time by size" not in before
    with running.held(running.claim()) as (tx, row, now_s):
        lease.finish(tx, row, [{**RESULT, "by_size": timed}], "trials", now_s)
    assert running.client.get(f"/v1/jobs/{job_id}").json()["tasks"][0]["by_size"] == timed
    page = running.client.get(f"/jobs/{job_id}").text
    for text in (
        "Time by size: mm",
        "<title>kernel for N in 2..12, N = 12: 7.00 µs</title>",
        "<title>NumPy, N = 2: 3.00 µs</title>",
        f'<td class="number">7.00 µs</td><td class="number">{NOTHING}</td>',
    ):
        assert text in page


# --- with the worker


@contextmanager
def live_service(folder: Path) -> Iterator[tuple[Live, Client]]:
    url = f"sqlite:///{folder}/service.db"
    settings = {"ANSORPY_EMBEDDED_WORKER": "1", "ANSORPY_POLL_S": "0.05"}
    with process(url, **settings) as live, Client(live.url) as client:
        yield live, client


def followed(live: Live, job_id: str, holds: Callable[[Any], bool]) -> Any:
    """Return a job once a condition holds for it."""
    until(lambda: holds(live.get(f"/v1/jobs/{job_id}").json()), limit_s=LIMIT_S)
    return live.get(f"/v1/jobs/{job_id}").json()


def check(path: Path) -> None:
    """Compare a kernel with NumPy at sizes of all ranges."""
    kernel, rng = ansorpy.load(path), np.random.default_rng(0)
    b = rng.random((16, 8), np.float32)
    for size in range(1, 13):
        a = rng.random((size, 16), np.float32)
        np.testing.assert_allclose(kernel(a, b), a.astype(np.float64) @ b, rtol=1e-5)


def events_of(live: Live, job_id: str, kind: str) -> list[Any]:
    lines = live.get(f"/v1/jobs/{job_id}/events?format=jsonl").text.splitlines()
    return [one for one in map(json.loads, lines) if one["kind"] == kind]


@pytest.mark.slow
def test_a_killed_tuner_of_ranges_resumes_and_ends(tmp_path: Path) -> None:
    with live_service(tmp_path) as (live, client):
        job_id = client.submit(text=TEXT, bind={"N": DIM}, trials=48, seed=3).id
        followed(live, job_id, lambda job: job["trials"] > 0)
        (worker,) = children(live.pid)
        for tuner in children(worker):
            os.kill(tuner, signal.SIGKILL)
        early = client.pull(job_id, "mm", tmp_path / "early")
        check(early)
        job = followed(live, job_id, lambda job: job["state"] in ("succeeded", "failed"))
        assert (job["state"], job["attempts"], job["trials"]) == ("succeeded", 2, 48), job
        task = job["tasks"][0]
        assert [one["sizes"] for one in task["ranges"]] == ["N = 1", "N = 2..12"]
        assert (task["trials"], task["verified"]) == (48, True)
        assert sum(one["trials"] for one in task["ranges"]) == 48
        rounds = [(one["task"], one["round"]) for one in events_of(live, job_id, "round")]
        assert len(rounds) == len(set(rounds)), "no stored round is played again"
        check(client.pull(job_id, "mm", tmp_path / "last"))
        page = live.get(f"/jobs/{job_id}?tab=code")
        assert page.status_code == 200
        assert "# mm_N_2_12" in page.text, "the sketch of each range"
        assert live.get(f"/jobs/{job_id}/explain").status_code == 200
        (tmp_path / "mm.te").write_text(TEXT)
        sent = CliRunner().invoke(
            app,
            ["submit", str(tmp_path / "mm.te"), "--bind", "N=1..12", "--trials", "48"],
            env={"ANSORPY_URL": live.url},
        )
        assert sent.stdout == f"{job_id}\n", sent.output
        assert "answered" in sent.stderr


@pytest.mark.slow
def test_a_job_of_ranges_is_paused_resumed_and_cancelled_with_its_best(tmp_path: Path) -> None:
    with live_service(tmp_path) as (live, client):
        job_id = client.submit(text=TEXT, bind={"N": "1..12"}, trials=4096).id
        followed(live, job_id, lambda job: job["trials"] > 0)
        assert client.pause(job_id).state == "paused"
        trials = client.job(job_id).trials
        assert client.resume(job_id).state == "queued"
        job = followed(live, job_id, lambda job: job["trials"] > trials)
        assert sum(one["trials"] for one in job["tasks"][0]["ranges"]) == job["trials"]
        assert client.cancel(job_id).state == "cancelled"
        check(client.pull(job_id, "mm", tmp_path))
        assert live.get(f"/jobs/{job_id}").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("keep_weights_home", [False, True])
def test_a_model_with_ranges_is_one_bundle_for_all_sizes(
    tmp_path: Path, keep_weights_home: bool
) -> None:
    source = small(tmp_path / "small.onnx")
    jobs: list[Job] = []
    with live_service(tmp_path) as (live, client):
        bundle = client.tune_model(
            source,
            bind={"batch": "1..12"},
            trials=64,
            out=tmp_path / "out.zip",
            keep_weights_home=keep_weights_home,
            on_change=jobs.append,
        )
        name = "d0" if keep_weights_home else "batch"
        tasks = {task.name: task for task in jobs[-1].tasks}
        assert all(task.dims == [f"{name} in 1..12"] for task in tasks.values())
        assert sum(task.trials for task in tasks.values()) == jobs[-1].trials > 0
        ranged = [task for task in tasks.values() if task.ranges]
        assert ranged, "a task has kernels of ranges"
        for task in ranged:
            assert task.trials == sum(one["trials"] for one in task.ranges)
        assert live.get(f"/jobs/{jobs[-1].id}").status_code == 200
    rng = np.random.default_rng(0)
    with load_model(bundle) as model:
        assert model.selftest() == []
        for size in (1, 2, 7, 12):
            x = rng.standard_normal((size, 3, 12, 12)).astype(np.float32)
            (expected,) = reference_run(source, {"x": x}).values()
            np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)
