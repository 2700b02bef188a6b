"""Jobs of models: submission, reuse, the journal of a worker, bundles, and pages."""

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from onnx import TensorProto, helper
from sqlalchemy import Engine

from ansorpy.bundle.load import load_model
from ansorpy.events import (
    Derived,
    FirstAnswer,
    Preflight,
    RoundDone,
    Suspect,
    TaskDone,
    TaskResult,
    TimeSpent,
)
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.model.compile import ModelResult
from ansorpy.model.events import BundleWritten, Cutting, Divided, ModelEstimate, Recut
from ansorpy.records import Record
from ansorpy.server.db.engine import reading
from ansorpy.server.db.models import JobRow
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.submission import MAX_MODEL_TASKS, ModelSource, Submission
from ansorpy.server.schemas.job import JobRequest
from ansorpy.server.schemas.model import SimplifyRequest
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.model_journal import HISTORY, ModelJournal
from ansorpy.server.worker.tuner_main import load_engine, run_job
from ansorpy.tuner.tasks.checkpoint import Checkpoint
from ansorpy.verdict import Judgment
from tests.server.onnx_models import small
from tests.server.service import Service, service

DAGS = parse(
    "def t0_conv(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    " def t1_gemm(float(8) A) -> (B) { B(i) = A(i) + A(i) }"
)
DIVIDED = Divided(5, 4, {"views": 1}, 3, 2, 0.1, {"t0_conv": 2.0, "t1_gemm": 1.0}, ("TopK",), DAGS)
AFTER = Checkpoint(1.0, {}, {}, {}, {})
SUSPECT = Suspect("wrong", "A packed", 5, 5, 6, 64, 1e-6)
BUNDLE = b"PK" + bytes(range(256)) * 40_000  # three chunks


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


@pytest.fixture
def digest(running: Service, tmp_path: Path) -> str:
    return running.put_model(small(tmp_path / "small.onnx").read_bytes())


def ask(running: Service, digest: str, **changes: Any) -> Any:
    asked = {"model": digest, "bind": {"batch": 1}, **changes}
    return running.client.post("/v1/jobs", json=asked)


def trials(first: int, failed: int = 0) -> list[Record]:
    good = Record("key", "w", "cpu@1", "{}", (first,), Measured((1e-3,)))
    bad = [
        replace(good, row=(first + 1 + n,), outcome=Failed("wrong", "C[0] is 1, not 2"))
        for n in range(failed)
    ]
    return [good, *bad]


def played(journal: ModelJournal, first: int, best_s: float) -> RoundDone:
    """Store a round of two trials, one of them failed."""
    suspects = (SUSPECT,)
    done = RoundDone("t0_conv", 1, 2, best_s, {"wrong": 1}, {}, TimeSpent(), suspects=suspects)
    journal.append_round(done, trials(first, failed=1), AFTER)
    return done


def answered(out: Path) -> Iterator[Any]:
    """Yield the events up to the first bundle."""
    yield DIVIDED
    yield Derived("t0_conv", 3, 9, 0.1)
    yield FirstAnswer("t0_conv", out / "a.zip", 2e-3, 0.5, ("random",))
    yield ModelEstimate(4e-3, 1, 2, {"t0_conv": 2.0, "t1_gemm": 1.0})
    yield FirstAnswer("t1_gemm", out / "b.zip", 1e-3, 0.6, ("random",))
    yield ModelEstimate(5e-3, 2, 2, {"t0_conv": 2.0, "t1_gemm": 1.0})
    yield written(out, BUNDLE, 5e-3)


def written(
    out: Path, content: bytes, model_s: float, verdict: Judgment | None = None
) -> BundleWritten:
    path = out / "model.zip"
    path.write_bytes(content)
    return BundleWritten(path, model_s, 1e-7, 2e-5, "the interpreter of graphs", 1.0, verdict)


def result(name: str, best_s: float, winner: Literal["tuned", "baseline"] = "tuned") -> TaskResult:
    return TaskResult(name, "key", best_s, None, 1, 1.0, True, winner, None, 240)


def tune(submission: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
    """Act as the engine: first answers, a round, a better bundle."""
    assert submission.model is not None
    yield from answered(out)
    yield Preflight("t0_conv", "a first answer", 0.0, 1 << 20, 1 << 30)
    yield played(journal, 0, 5e-4)
    yield ModelEstimate(2e-3, 2, 2, {"t0_conv": 2.0, "t1_gemm": 1.0})
    yield TaskDone(result("t0_conv", 5e-4))
    yield written(out, BUNDLE + b"!", 2e-3)
    tasks = (result("t0_conv", 5e-4), result("t1_gemm", 1e-3))
    yield ModelResult(
        out / "model.zip", 2e-3, 1e-7, 2e-5, "r", 3, tasks, ("TopK",), 2, 1.0, "trials"
    )


def work(running: Service, tmp_path: Path, tuned: Any = tune, **settings: Any) -> list[str]:
    """Run the next job in this process; return the messages of the tuner process."""
    said: list[str] = []
    given = ServiceSettings(data_dir=tmp_path, **settings)
    run_job(
        given, running.engine, running.claim(), tmp_path, tuned, lambda what, **_: said.append(what)
    )
    return said


def row_of(engine: Engine, job_id: str) -> JobRow:
    with reading(engine) as tx:
        return queries.find(tx, 1, job_id)


# --- submission


def test_a_submission_of_a_model_is_stored_whole() -> None:
    source = ModelSource("0" * 64, {"batch": 1}, {"x": (1, 3)}, {"trials_per_task": 8})
    asked = Submission((), model=source, trials=64)
    again = Submission.of(asked.document)
    assert (again.document, again.workload) == (asked.document, asked.workload)
    assert (again.model_options().trials_per_task, again.model_options().trials) == (8, 64)
    assert asked.most_trials == 8 * MAX_MODEL_TASKS


def test_an_unknown_model_and_that_of_another_tenant_are_not_found(
    running: Service, digest: str
) -> None:
    for headers, asked in (({}, "0" * 64), (running.key("other", "tune"), digest)):
        reply = running.client.post("/v1/jobs", json={"model": asked}, headers=headers)
        assert reply.status_code == 404
        assert "no model of yours has this digest" in reply.json()["detail"]


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "def f(float(4) A) -> (B) { B(i) = A(i) }"},
        {"weights": {"mm": 2.0}},
        {"shapes": {"x": [-1]}},
        {"budget": {"trials_per_task": 0}},
    ],
)
def test_a_wrong_request_for_a_model_is_refused(
    running: Service, digest: str, changes: dict[str, Any]
) -> None:
    assert ask(running, digest, **changes).status_code == 422


@pytest.mark.parametrize("schema", [JobRequest, SimplifyRequest])
def test_jobs_and_simplify_bind_the_same_values(
    schema: type[JobRequest] | type[SimplifyRequest],
) -> None:
    asked = schema.model_validate({"model": "0" * 64, "bind": {"input.1": 2.0, "alpha": 0.5}})
    assert asked.bind == {"input.1": 2, "alpha": 0.5}
    assert isinstance(asked.bind["input.1"], int)


def test_options_of_models_need_a_model(running: Service) -> None:
    text = "def f(float(4) A) -> (B) { B(i) = A(i) }"
    for changes in ({"hosted": True}, {"shapes": {"A": [4]}}, {"budget": {"trials_per_task": 8}}):
        assert running.client.post("/v1/jobs", json={"text": text, **changes}).status_code == 422


def test_the_same_model_and_options_are_one_job(running: Service, digest: str) -> None:
    first = ask(running, digest, budget={"trials": 64}).json()
    again = ask(running, digest, budget={"trials": 32}).json()
    assert (again["how"], again["id"]) == ("coalesced", first["id"])
    for changes in (
        {"bind": {"batch": 2}},
        {"hosted": True},
        {"cores": 2},
        {"budget": {"trials": 65}},
        {"shapes": {"x": [1, 3, 12, 12]}},
    ):
        assert ask(running, digest, **changes).json()["how"] == "created", changes


def test_trials_per_task_are_counted_once_the_tasks_are_known(
    running: Service, digest: str, tmp_path: Path
) -> None:
    budget = {"trials_per_task": 8}
    job_id = ask(running, digest, budget=budget).json()["id"]
    assert row_of(running.engine, job_id).trials == 8 * MAX_MODEL_TASKS
    work(running, tmp_path)
    assert row_of(running.engine, job_id).trials == 16
    assert ask(running, digest, budget=budget).json()["how"] == "answered"


def test_the_model_of_a_queued_job_cannot_be_removed(running: Service, digest: str) -> None:
    job_id = ask(running, digest).json()["id"]
    assert row_of(running.engine, job_id).model == digest


# --- the worker


def test_a_model_is_tuned_and_stored(running: Service, digest: str, tmp_path: Path) -> None:
    job_id = ask(running, digest).json()["id"]
    before = running.client.get(f"/v1/jobs/{job_id}").json()
    assert (before["model"]["divided"], before["tasks"]) == (False, [])
    assert work(running, tmp_path)[-1] == "done"
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["trials"], job["best_s"]) == ("succeeded", 2, 2e-3)
    model = job["model"]
    assert (model["sha256"], model["nodes_before"], model["nodes"]) == (digest, 5, 4)
    assert (model["hosted"], model["parts"], model["answered"]) == (["TopK"], 3, 2)
    assert [one["latency_s"] for one in model["history"]] == [5e-3, 2e-3]
    conv, gemm = model["tasks"]
    assert (conv["weight"], conv["state"], conv["best_s"]) == (2.0, "done", 5e-4)
    assert conv["share"] + gemm["share"] == pytest.approx(1.0)
    assert (job["tasks"][0]["trials"], job["tasks"][0]["failures"]) == (2, {"wrong": 1})
    assert model["bundle"]["sha256"] == sha256(BUNDLE + b"!").hexdigest()
    assert model["bundle"]["final"]
    stream = running.client.get(f"/v1/jobs/{job_id}/events?format=jsonl").text
    assert [json.loads(line)["kind"] for line in stream.splitlines()] == [
        "state", "state", "divided", "answered", "estimate", "answered", "estimate", "bundle",
        "preflight", "improved", "round", "estimate", "bundle", "finished", "state",
    ]  # fmt: skip
    assert ask(running, digest).json()["how"] == "answered"


@pytest.mark.parametrize("budget", [{"trials": 64}, {"trials_per_task": 8}])
def test_a_model_that_needs_no_kernel_is_tuned_by_the_engine(
    running: Service, tmp_path: Path, budget: dict[str, int]
) -> None:
    facts = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    made = helper.make_model(helper.make_graph(nodes, "same", facts[:1], facts[1:]))
    digest = running.put_model(made.SerializeToString())
    job_id = running.client.post("/v1/jobs", json={"model": digest, "budget": budget}).json()["id"]
    assert work(running, tmp_path, load_engine(ServiceSettings(data_dir=tmp_path)))[-1] == "done"
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["trials"], job["tasks"]) == ("succeeded", 0, [])
    assert (job["model"]["divided"], job["model"]["parts"]) == (True, 0)
    assert running.client.get(f"/jobs/{job_id}").status_code == 200
    bundle = running.client.get(f"/v1/bundles/{job['model']['bundle']['sha256']}")
    (tmp_path / "same.zip").write_bytes(bundle.content)
    with load_model(tmp_path / "same.zip") as model:
        np.testing.assert_array_equal(model(np.array([1, 2], np.float32)), [1, 2])


def test_a_job_of_a_model_tells_the_suspects_of_its_tasks(
    running: Service, digest: str, tmp_path: Path
) -> None:
    job_id = ask(running, digest).json()["id"]
    work(running, tmp_path)
    page = running.client.get(f"/jobs/{job_id}").text
    assert f"t0_conv: {SUSPECT}" in page


@pytest.mark.parametrize(("tasks", "state"), [(512, "succeeded"), (513, "failed")])
def test_a_model_has_at_most_512_tasks(
    running: Service, digest: str, tmp_path: Path, tasks: int, state: str
) -> None:
    dags = tuple(replace(DAGS[1], name=f"t{n}") for n in range(tasks))

    def many(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
        weights = {dag.name: 1.0 for dag in dags}
        yield replace(DIVIDED, tasks=tasks, weights=weights, dags=dags)
        yield written(out, BUNDLE, 1e-3)
        done = tuple(result(dag.name, 1e-3) for dag in dags)
        yield ModelResult(out / "m.zip", 1e-3, 0.0, 1e-5, "r", tasks, done, (), 0, 1.0, "trials")

    job_id = ask(running, digest).json()["id"]
    work(running, tmp_path, many)
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert job["state"] == state
    if state == "failed":
        expected = "cannot take 513 tasks because of the limit of a request; expected at most 512"
        assert job["reason"] == expected
    else:
        assert len(job["tasks"]) == 512


def test_a_task_of_a_model_has_limited_tensors(
    running: Service, digest: str, tmp_path: Path
) -> None:
    job_id = ask(running, digest).json()["id"]
    work(running, tmp_path, max_tensor_bytes=200)
    assert "cannot take task 0 because its tensors have" in row_of(running.engine, job_id).reason


def test_pieces_of_a_task_are_tasks_of_the_job(
    running: Service, digest: str, tmp_path: Path
) -> None:
    piece = replace(DAGS[1], name="t2_gemm")
    weights = {"t0_conv": 0.0, "t1_gemm": 1.0, "t2_gemm": 4.0}

    def cut(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
        yield from answered(out)
        yield Cutting(("t0_conv",), 3, (piece,))
        yield FirstAnswer("t2_gemm", out / "b.zip", 1e-4, 0.6, ("random",))
        yield ModelEstimate(1.4e-3, 3, 3, weights)
        yield Recut("t0_conv", 2e-3, 1e-4, 2, 2e-4)
        tasks = (result("t1_gemm", 1e-3), result("t2_gemm", 1e-4))
        yield written(out, BUNDLE, 1.4e-3)
        yield ModelResult(out / "m.zip", 1.4e-3, 0.0, 1e-5, "r", 5, tasks, (), 0, 1.0, "trials")

    job_id = ask(running, digest).json()["id"]
    work(running, tmp_path, cut)
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert job["state"] == "succeeded"
    assert {task["name"]: task["weight"] for task in job["tasks"]} == weights


def test_a_later_lease_adds_to_the_first_one(running: Service, digest: str, tmp_path: Path) -> None:
    def killed(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
        yield from answered(out)
        yield played(journal, 0, 5e-4)
        raise KeyboardInterrupt  # ends this process, as a kill would

    def resumed(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
        assert journal.done == {"t0_conv": 2, "t1_gemm": 0}
        assert len(journal.all("key")) == 2
        yield from answered(out)
        yield played(journal, 0, 5e-4)  # the commit of this one was not acknowledged before
        yield played(journal, 10, 4e-4)

    job_id = ask(running, digest).json()["id"]
    with pytest.raises(KeyboardInterrupt):
        work(running, tmp_path, killed)
    so_far = running.client.get(f"/v1/jobs/{job_id}").json()
    assert (so_far["state"], so_far["trials"]) == ("running", 2)
    assert so_far["model"]["bundle"]["sha256"] == sha256(BUNDLE).hexdigest()
    for how in ("pause", "resume"):
        assert running.client.post(f"/v1/jobs/{job_id}/{how}").status_code == 200
    work(running, tmp_path, resumed)
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    (conv, _) = job["tasks"]
    assert (conv["trials"], conv["failures"], conv["best_s"]) == (4, {"wrong": 2}, 4e-4)
    stream = running.client.get(f"/v1/jobs/{job_id}/events?format=jsonl&wait=false").text
    kinds = [json.loads(line)["kind"] for line in stream.splitlines()]
    assert (kinds.count("divided"), kinds.count("bundle")) == (1, 1)


def test_a_fresh_job_reads_its_own_records_only(
    running: Service, digest: str, tmp_path: Path
) -> None:
    seen: list[int] = []

    def look(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
        seen.append(len(journal.all("key")))
        yield DIVIDED
        yield played(journal, len(seen) * 10, 1e-3)
        seen.append(len(journal.all("key")))

    for fresh in (False, False, True):
        ask(running, digest, fresh=fresh, seed=len(seen), budget={"trials": 64 + len(seen)})
        work(running, tmp_path, look)
        with running.engine.begin() as link:
            link.exec_driver_sql("update jobs set state = 'failed'")
    assert seen == [0, 2, 2, 4, 0, 2]


def test_of_many_estimates_some_are_left_out(running: Service, digest: str, tmp_path: Path) -> None:
    def chatty(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
        yield from answered(out)
        for n in range(HISTORY + 10):
            yield ModelEstimate(1.0 / (n + 1), 2, 2, {})

    job_id = ask(running, digest).json()["id"]
    work(running, tmp_path, chatty)
    history = running.client.get(f"/v1/jobs/{job_id}").json()["model"]["history"]
    assert len(history) <= HISTORY
    assert history[-1]["latency_s"] == 1.0 / (HISTORY + 10)
    assert history[0]["latency_s"] == 5e-3


# --- bundles


def test_a_bundle_is_sent_whole_in_parts_and_not_twice(
    running: Service, digest: str, tmp_path: Path
) -> None:
    job_id = ask(running, digest).json()["id"]
    path = f"/v1/jobs/{job_id}/model"
    assert running.client.get(path).status_code == 404
    work(running, tmp_path)
    content = BUNDLE + b"!"
    whole = running.client.get(path)
    assert whole.content == content
    etag = whole.headers["etag"]
    assert etag == f'"{sha256(content).hexdigest()}"'
    assert running.client.get(path, headers={"If-None-Match": etag}).status_code == 304
    begin, end = (4 << 20) - 3, (8 << 20) + 5  # three chunks
    part = running.client.get(path, headers={"Range": f"bytes={begin}-{end - 1}"})
    assert (part.status_code, part.content) == (206, content[begin:end])
    assert part.headers["content-range"] == f"bytes {begin}-{end - 1}/{len(content)}"
    beyond = running.client.get(path, headers={"Range": f"bytes={len(content)}-"})
    assert beyond.status_code == 416
    first = running.client.get(f"/v1/bundles/{sha256(BUNDLE).hexdigest()}")
    assert first.content == BUNDLE  # the one before the newest stays
    assert running.client.head(path).headers["content-length"] == str(len(content))


def test_a_cancelled_job_keeps_its_newest_bundle(
    running: Service, digest: str, tmp_path: Path
) -> None:
    job_id = ask(running, digest).json()["id"]

    def cancelled(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
        yield from answered(out)
        assert running.client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
        yield played(journal, 0, 1e-3)

    assert work(running, tmp_path, cancelled)[-1] == "lost"
    job = running.client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["trials"]) == ("cancelled", 0)
    assert running.client.get(f"/v1/jobs/{job_id}/model").content == BUNDLE


# --- pages


def test_the_page_of_a_model_shows_tasks_and_bundle(
    running: Service, digest: str, tmp_path: Path
) -> None:
    job_id = ask(running, digest).json()["id"]
    assert "divided the model" in running.client.get(f"/jobs/{job_id}").text
    assert f"Model {digest[:12]}" in running.client.get("/jobs").text
    work(running, tmp_path)
    page = running.client.get(f"/jobs/{job_id}").text
    for shown in ("t0_conv", "t1_gemm", "50.0 %", f"/v1/jobs/{job_id}/model", "1 node: TopK"):
        assert shown in page
    rows = running.client.get(f"/jobs/{job_id}/charts/latency.jsonl").text.splitlines()
    assert [json.loads(row)["latency_s"] for row in rows] == [None, 5e-3, 5e-3, 2e-3, 2e-3]
    assert running.client.get(f"/v1/jobs/{job_id}/explain").status_code == 404
    assert running.client.get(f"/compare?a={job_id}&b={job_id}").status_code == 200
