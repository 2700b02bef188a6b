"""The time of a job and its source are equal in list, API, pages, curve, manifest and verdict."""

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from ansorpy.artifact.package import unbox
from ansorpy.cost.random import RandomModel
from ansorpy.errors import SpecError
from ansorpy.events import Delivered, Event, FirstAnswer, NoTrials, Racing, RoundDone, TooShort
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Measured
from ansorpy.model.compile import ModelResult
from ansorpy.model.events import Comparing, ModelEstimate
from ansorpy.server.db.engine import transaction
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.web.filters import latency
from ansorpy.server.worker.journal import JobJournal
from ansorpy.server.worker.model_journal import ModelJournal
from ansorpy.server.worker.tuner_main import run_job
from ansorpy.target import Target
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.time_budget import TimeBudget
from ansorpy.tuner.tune import run
from ansorpy.verdict import Judgment, Peer
from tests.fakes import cost_s, fake_pools
from tests.server.onnx_models import small
from tests.server.service import MM, Service, service
from tests.server.test_model_jobs import BUNDLE, answered, ask, played, result, work, written

pytestmark = pytest.mark.usefixtures("few_candidates")

TWO = MM + "\ndef relu(float(64) A) -> (B) { B(i) = fmax(A(i), 0) }"
RACE_S = 2.5e-3  # slower than the fastest trial; the race counts
VERDICT = Judgment("bundle", 3e-3, (Peer("ONNX Runtime", 4e-3),), 1, "ONNX Runtime")


def slowed(program: Program) -> Measured:
    """Return a trial of a busy machine, with a slowdown of 1.4."""
    return Measured((cost_s(program), 1.0), slowdown=1.4)


def tuned(submission: Submission, journal: JobJournal, out: Path) -> Iterator[Event]:
    request = Request(
        submission.dags, Target(vector_bits=256, registers=16), trials=submission.trials,
        weights=submission.weights, first_answer=False,
    )  # fmt: skip
    return run(
        request,
        store=journal,
        out=out,
        model=RandomModel(np.random.default_rng(0)),
        pools=fake_pools(slowed, {f"tuned {place}": RACE_S for place in range(3)}),
        journal=journal,
    )


def finished(running: Service, folder: Path, engine: Engine, tune: Any = tuned) -> None:
    """Run the queued job in this process, with the journal of a worker."""
    settings = ServiceSettings(data_dir=folder, database_url=str(engine.url))
    run_job(settings, engine, running.claim(), folder, tune, lambda what, **told: None)


def text_of(html: str) -> str:
    """Return the words of a part of a page."""
    return " ".join(unescape(re.sub("<[^>]+>", " ", html)).split())


def part_of(html: str, pattern: str) -> str:
    """Return the words of the part of a page that a pattern names."""
    found = re.search(pattern, html, re.DOTALL)
    assert found is not None, pattern
    return text_of(found[1])


def words(one: Mapping[str, Any]) -> str:
    """Return the latency of a reply and its source as the pages show them."""
    return f"{latency(one['best_s'])} {one['timing'] or ''}".strip()


def walk(running: Service, job_id: str) -> Any:
    """Return the reply of a job whose time and source are equal at all places."""
    client = running.client
    job = client.get(f"/v1/jobs/{job_id}").json()
    here = job["best_s"], job["timing"]
    (line,) = (one for one in client.get("/v1/jobs").json()["jobs"] if one["id"] == job_id)
    assert (line["best_s"], line["timing"]) == here
    page, listed = client.get(f"/jobs/{job_id}").text, client.get("/jobs").text
    if here[0] is not None:
        assert part_of(page, r'id="best">(.*?)</dd>') == words(job)
        assert words(job) in part_of(listed, rf'(/jobs/{job_id}".*?</tr>)')
        assert words(job) in text_of(client.get(f"/compare?a={job_id}&b={job_id}").text)
    rows = [*map(json.loads, client.get(f"/jobs/{job_id}/charts/latency.jsonl").text.splitlines())]
    if here[0] is not None:
        assert (rows[-1]["latency_s"], rows[-1]["timing"]) == here
    check_lines(rows[:-1])
    for task in () if job["model"] else job["tasks"]:
        check_task(running, job, task, rows, page)
    if job["model"]:
        check_model(job)
    return job


def check_lines(rows: list[Any]) -> None:
    """Assert that no line of the search rises."""
    for task in {row["task"] for row in rows}:
        of_task = [row for row in rows if row["task"] == task and row["timing"] != "race"]
        for name in ("best_s", "latency_s"):
            times = [row[name] for row in of_task if row[name] is not None]
            assert all(after <= before for before, after in pairwise(times))


def check_task(running: Service, job: Any, task: Any, rows: list[Any], page: str) -> None:
    """Assert that the time of a task is equal on its page, in the curve, zip and verdict."""
    client, name, here = running.client, task["name"], (task["best_s"], task["timing"])
    path = f"/jobs/{job['id']}/explain?task={name}"
    derived = client.get(f"/v1{path}").json()
    assert (derived["best_s"], derived["timing"]) == here
    if here[0] is None:
        return
    if len(job["tasks"]) > 1:  # a single task has the time of its job
        assert words(task) in part_of(page, rf'(task={name}">{name}</a></th>.*?</tr>)')
    own = [row for row in rows if (row["task"], row["timing"]) == (name, here[1])]
    assert own[-1]["best_s"] == here[0]
    assert part_of(client.get(path).text, r'id="best">(.*?)</dd>') == words(task)
    if task["kernel"]:
        package = client.get(f"/v1/jobs/{job['id']}/kernels/{name}").content
        manifest = json.loads(unbox(package, name).files["manifest.json"])
        assert (manifest["latency_s"]["min"], "race") == here
    if task["verdict"]:
        assert (task["verdict"]["ours_s"], "race") == here


def check_model(job: Any) -> None:
    """Assert that a model has the time of its last bundle, and of its verdict."""
    here, bundle, verdict = (job["best_s"], job["timing"]), job["model"]["bundle"], None
    verdict = job["model"]["verdict"]
    if bundle is not None:
        assert (bundle["latency_s"], bundle["timing"]) == here
    if verdict is not None:
        assert (verdict["ours_s"], "race" if verdict["peer"] else "estimate") == here


@pytest.mark.parametrize("weights", [{}, {"mm": 3.0}])
def test_a_finished_job_has_one_time_everywhere(
    url: str, engine: Engine, tmp_path: Path, weights: Mapping[str, float]
) -> None:
    with service(url) as running:
        for text in (MM, TWO):
            job_id = running.submit(text, budget={"trials": 16}, weights=weights)
            finished(running, tmp_path, engine)
            job = walk(running, job_id)
            assert {task["best_s"] for task in job["tasks"]} == {RACE_S}
            total_s = sum(weights.get(task["name"], 1.0) * RACE_S for task in job["tasks"])
            assert (job["best_s"], job["timing"]) == (pytest.approx(total_s), "race")
            assert bool(job["sum_of"]) == (text == TWO or bool(weights))
        by_weight = "sum of 2 tasks by weight" if weights else "sum of 2 tasks"
        assert job["sum_of"] == by_weight
        assert by_weight in running.client.get(f"/jobs/{job_id}").text


def test_every_intermediate_time_was_measured(url: str, engine: Engine, tmp_path: Path) -> None:
    with service(url) as running:
        job_id = running.submit(budget={"trials": 16})
        finished(running, tmp_path, engine)
        with transaction(engine) as tx:
            told = [json.loads(e.body) for e in queries.events_after(tx, 1, job_id, 0)]
            bodies = queries.records_after(tx, 1, job_id=job_id)
        outcomes = [json.loads(row.body)["outcome"] for row in bodies]
        measured = {one["times_s"][0] for one in outcomes}
        shown = [body["best_s"] for body in told if "best_s" in body]
        assert len(shown) >= 3  # improved, round, kernel
        assert set(shown) <= measured


@pytest.mark.parametrize("text", [MM, TWO])
def test_a_cancelled_job_has_the_time_of_the_kernels_that_it_delivered(
    url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    due = iter([True])  # one race on the way
    monkeypatch.setattr(TimeBudget, "delivery_is_due", lambda self: next(due, False))
    with service(url) as running:
        job_id = running.submit(text, budget={"trials": 256})

        def cancelled(*given: Any) -> Iterator[Event]:
            rounds = None  # since the race
            for event in tuned(*given):
                yield event
                if isinstance(event, Delivered):
                    rounds = 0
                if isinstance(event, RoundDone) and rounds is not None:
                    rounds += 1
                if rounds == 3:
                    job = running.client.get(f"/v1/jobs/{job_id}").json()
                    assert job["timing"] == "trial"  # the search goes on
                    running.client.post(f"/v1/jobs/{job_id}/cancel")

        finished(running, tmp_path, engine, cancelled)
        job = walk(running, job_id)
        found = {task["name"]: (task["best_s"], task["timing"]) for task in job["tasks"]}
        raced = {name for name, (_, timing) in found.items() if timing == "race"}
        assert len(raced) == 1
        assert job["timing"] == ("race" if text == MM else "trial")
        assert job["best_s"] == pytest.approx(sum(best_s for best_s, _ in found.values()))


def test_a_failed_job_has_the_time_of_its_trials_and_tells_why(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    with service(url) as running:
        job_id = running.submit(budget={"trials": 64})

        def failed(*given: Any) -> Iterator[Event]:
            for event in tuned(*given):
                yield event
                if isinstance(event, RoundDone):
                    raise SpecError("cannot go on because of the test")

        finished(running, tmp_path, engine, failed)
        job = walk(running, job_id)
        assert (job["state"], job["timing"]) == ("failed", "trial")
        assert job["tasks"][0]["kernel"] is None


def test_a_task_that_records_answer_says_so(url: str, engine: Engine, tmp_path: Path) -> None:
    with service(url) as running:
        running.submit(MM, budget={"trials": 16})
        finished(running, tmp_path, engine)
        job_id = running.submit(TWO, budget={"trials": 8})
        finished(running, tmp_path, engine)
        mm, relu = walk(running, job_id)["tasks"]
        assert (mm["trials"], mm["from_store"], mm["timing"]) == (0, True, "race")
        assert (relu["from_store"], relu["timing"]) == (False, "race")
        assert running.client.get(f"/jobs/{job_id}").text.count("from records") == 1


def test_a_page_tells_a_short_budget_and_the_final_race(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    seen = []
    short, none = TooShort(1.0, 9.0, 1, "a raced kernel"), NoTrials(9.0, 30.0, 30)
    with service(url) as running:
        job_id = running.submit()

        def told(*given: Any) -> Iterator[Event]:
            yield short
            yield none
            yield Racing("mm")
            seen.append(running.client.get(f"/jobs/{job_id}").text)
            yield from tuned(*given)

        finished(running, tmp_path, engine, told)
        seen.append(running.client.get(f"/jobs/{job_id}").text)
        for page in seen:
            assert f"{short}." in page
            assert f"{none}." in page
        assert [page.count("The final race runs") for page in seen] == [1, 0]
        stream = running.client.get(f"/v1/jobs/{job_id}/events?format=jsonl").text
        kinds = [json.loads(line)["kind"] for line in stream.splitlines()]
        assert kinds[2:5] == ["too_short", "no_trials", "racing"]


def ended(out: Path, verdict: Judgment | None = None) -> ModelResult:
    """Return the result of a model of two tasks, one of them untuned."""
    tasks = (result("t0_conv", 5e-4), result("t1_gemm", 1e-3, "baseline"))
    return ModelResult(
        out / "model.zip", 2.1e-3, 1e-7, 2e-5, "r", 3, tasks, ("TopK",), 2, 1.0, "trials",
        verdict=verdict,
    )  # fmt: skip


@pytest.mark.parametrize("verdict", [VERDICT, None])
def test_a_finished_model_has_the_time_of_its_race_or_the_estimate_of_its_bundle(
    url: str, tmp_path: Path, verdict: Judgment | None
) -> None:
    pages = []
    with service(url) as running:
        job_id = ask(running, running.put_model(small(tmp_path / "m.onnx").read_bytes())).json()[
            "id"
        ]

        def tune(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
            yield from answered(out)
            yield played(journal, 0, 5e-4)
            yield ModelEstimate(2e-3, 2, 2, {})
            yield ModelEstimate(2.2e-3, 2, 2, {})  # times of another minute: the line stays
            yield written(out, BUNDLE + b"!", 2.1e-3)
            if verdict is not None:
                yield Comparing(("ONNX Runtime",))
                pages.append(running.client.get(f"/jobs/{job_id}").text)
                yield written(out, BUNDLE + b"?", 2.1e-3, verdict)
            yield ended(out, verdict)

        work(running, tmp_path, tune)
        job = walk(running, job_id)
        assert (job["best_s"], job["timing"]) == (
            (3e-3, "race") if verdict else (2.1e-3, "estimate")
        )
        assert [one["latency_s"] for one in job["model"]["history"]] == [5e-3, 2e-3, 2e-3]
        assert (job["model"]["estimate_s"], job["model"]["untuned"]) == (2.1e-3, 1)
        page = running.client.get(f"/jobs/{job_id}").text
        assert "1 of 2 tasks have untuned kernels" in page
        assert all("is raced against" in one for one in pages)
        assert "is raced against" not in page


def test_a_cancelled_model_has_the_time_of_the_bundle_that_it_delivered(
    url: str, tmp_path: Path
) -> None:
    with service(url) as running:
        digest = running.put_model(small(tmp_path / "m.onnx").read_bytes())
        job_id = ask(running, digest).json()["id"]

        def tune(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
            yield from answered(out)
            yield FirstAnswer("t1_gemm", out / "b.zip", 1e-3, 0.6, ("random",), from_store=True)
            yield played(journal, 0, 5e-4)
            yield ModelEstimate(2e-3, 2, 2, {})
            job = running.client.get(f"/v1/jobs/{job_id}").json()
            assert (job["best_s"], job["timing"]) == (2e-3, "estimate")  # the search goes on
            running.client.post(f"/v1/jobs/{job_id}/cancel")
            yield played(journal, 10, 4e-4)

        work(running, tmp_path, tune)
        job = walk(running, job_id)
        assert (job["best_s"], job["timing"]) == (5e-3, "estimate")
        assert [task["from_store"] for task in job["tasks"]] == [False, True]
        assert running.client.get(f"/jobs/{job_id}").text.count("from records") == 1


def test_the_page_of_a_failed_model_tells_the_reason_and_nothing_that_will_not_come(
    url: str, tmp_path: Path
) -> None:
    with service(url) as running:
        digest = running.put_model(small(tmp_path / "m.onnx").read_bytes())
        job_id = ask(running, digest).json()["id"]

        def tune(_: Submission, journal: ModelJournal, out: Path) -> Iterator[Any]:
            yield from ()
            raise SpecError("cannot compile node x because of the test")

        work(running, tmp_path, tune)
        assert walk(running, job_id)["state"] == "failed"
        page = running.client.get(f"/jobs/{job_id}").text
        assert "cannot compile node x because of the test" in page
        for never in ("first answer", "not divided", "Speed-up", 'id="latency"', "No trial has"):
            assert never not in page
