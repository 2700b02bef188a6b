"""The client against a running service, with faults of the network."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import httpx
import numpy as np
import pytest
from stamina.instrumentation import set_on_retry_hooks

from ansorpy.artifact.package import box, unbox
from ansorpy.bundle.load import load_model
from ansorpy.client import (
    Client,
    Event,
    Job,
    KernelCache,
    Model,
    ModelLine,
    ServiceError,
    Simplification,
    TaskState,
    load,
)
from ansorpy.client.connection import Address, address_of
from ansorpy.client.model import ReplyError, event_of, job_of, line_of
from ansorpy.errors import PackageError, SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.model.home import home_model
from ansorpy.records import encode
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.http.openapi_examples import REPLIES
from ansorpy.server.jobs import lease
from tests.importers.hostile import VALID
from tests.model.test_join import tuned
from tests.server.onnx_models import small
from tests.server.process import Live, process
from tests.server.service import MM, Service, package
from tests.test_records import trial

Answer = httpx.Response | Exception
FACTS = {  # a model that was divided into no tasks
    "nodes_before": 1, "nodes": 1, "passes": {}, "parts": 1, "hosted": [], "trials": 8,
    "answered": 0, "history": [], "tasks": {},
}  # fmt: skip


class Faulty(httpx.BaseTransport):
    """Transport that applies a list of faults, one per request."""

    def __init__(self, *faults: Callable[[httpx.Request, httpx.BaseTransport], Answer]) -> None:
        self.real = httpx.HTTPTransport()
        self.faults = list(faults)
        self.seen: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if not self.faults:
            return self.real.handle_request(request)
        answer = self.faults.pop(0)(request, self.real)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.real.close()


def unreachable(_: httpx.Request, __: httpx.BaseTransport) -> Answer:
    return httpx.ConnectError("no route")


def lost_reply(request: httpx.Request, real: httpx.BaseTransport) -> Answer:
    real.handle_request(request).close()  # the service answered, but the reply was lost
    return httpx.ReadError("connection reset")


def pass_on(request: httpx.Request, real: httpx.BaseTransport) -> Answer:
    return real.handle_request(request)


def flipped(request: httpx.Request, real: httpx.BaseTransport) -> Answer:
    reply = real.handle_request(request)
    data = bytearray(reply.read())
    data[len(data) // 2] ^= 1
    return httpx.Response(200, content=bytes(data))


def busy(_: httpx.Request, __: httpx.BaseTransport) -> Answer:
    body = {"title": "Too Many Requests", "status": 429, "code": "rate", "detail": "later"}
    return httpx.Response(429, headers={"Retry-After": "1"}, content=json.dumps(body))


def busy_for_long(_: httpx.Request, __: httpx.BaseTransport) -> Answer:
    return httpx.Response(429, headers={"Retry-After": "3600"}, content=b"{}")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('client') / 'ansorpy.db'}"


@pytest.fixture(scope="module")
def live(url: str) -> Iterator[Live]:
    # Short streams: a reader must not notice their ends.
    with process(url, ANSORPY_EVENT_STREAM_S="0.3", ANSORPY_EVENT_POLL_S="0.05") as found:
        yield found


@pytest.fixture
def stage(live: Live, url: str) -> Iterator[Service]:
    engine = open_database(url)
    yield Service(live.http, engine)  # type: ignore[arg-type]
    engine.dispose()


@pytest.fixture(autouse=True)
def nothing_waits(request: pytest.FixtureRequest) -> None:
    """A worker claims the oldest job, so jobs of other tests must be gone."""
    if {"live", "stage"} & set(request.fixturenames):
        live: Live = request.getfixturevalue("live")
        with Client(live.url) as client:
            for job in client.jobs("queued"):
                client.cancel(job.id)


@contextmanager
def client_of(live: Live, *faults: Callable[..., Answer]) -> Iterator[tuple[Client, Faulty]]:
    network = Faulty(*faults)
    with Client(live.url, transport=network) as client:
        yield client, network


def test_a_submission_with_a_lost_reply_makes_one_job(live: Live) -> None:
    with client_of(live, unreachable, lost_reply) as (client, network):
        before = {job.id for job in client.jobs()}
        network.faults = [unreachable, lost_reply]
        job = client.submit(MM, trials=8, fresh=True)
        assert job.how == "repeated"
        assert {job.id for job in client.jobs()} - before == {job.id}
    keys = {r.headers["idempotency-key"] for r in network.seen if r.method == "POST"}
    assert len(keys) == 1


@pytest.fixture
def waits_s() -> Iterator[list[float]]:
    """Return a list that collects the wait before every retry, in seconds."""
    planned_s: list[float] = []
    set_on_retry_hooks([lambda details: planned_s.append(details.wait_for)])
    yield planned_s
    set_on_retry_hooks(None)


def test_retry_after_is_respected(live: Live, waits_s: list[float]) -> None:
    with client_of(live, busy) as (client, network):
        client.health()
        assert waits_s == [1.0]
        assert len(network.seen) == 2
        network.faults = [busy_for_long]
        with pytest.raises(ServiceError) as caught:
            client.health()
    assert (caught.value.status, caught.value.retry_after_s) == (429, 3600.0)
    assert len(network.seen) == 3


def test_invalid_requests_are_not_retried(live: Live) -> None:
    with client_of(live) as (client, network), pytest.raises(ServiceError) as caught:
        client.submit("def nonsense")
    assert (caught.value.status, caught.value.code) == (422, "spec")
    assert "text:1:" in str(caught.value)
    assert len(network.seen) == 1


def test_an_unreachable_service_is_an_error_after_retries() -> None:
    place = r"cannot reach http://127\.0\.0\.1:9 because .*`ansorpy serve`, or set ANSORPY_URL"
    with (
        Client("http://127.0.0.1:9", attempts=2) as client,
        pytest.raises(ServiceError, match=place) as caught,
    ):
        client.health()
    assert caught.value.status == 0


def test_a_job_is_followed_to_its_end(live: Live, stage: Service) -> None:
    package()
    with client_of(live) as (client, _):
        job = client.submit(dags=parse(MM), trials=8, fresh=True, seconds=60.0)
        assert (job.state, job.budget["seconds"], job.how) == ("queued", 60.0, "created")

        def work() -> None:
            claimed = stage.claim()
            stage.progress(claimed)
            stage.deliver(claimed, package())
            time.sleep(0.5)
            stage.finish(claimed)

        worker = threading.Thread(target=work)
        worker.start()
        states = [seen.state for seen in client.watch(job.id, every_s=0.02)]
        worker.join()
        assert states[-1] == "succeeded"
        assert "running" in states
        # No state is reported twice: an unchanged job is a 304.
        assert len(states) <= 6
        assert client.wait(job.id).task("mm").winner == "tuned"


def test_every_event_arrives_once_across_streams(live: Live, stage: Service) -> None:
    package()
    with client_of(live) as (client, network):
        job = client.submit(MM, trials=8, fresh=True)

        def work() -> None:
            time.sleep(0.8)
            claimed = stage.claim()
            time.sleep(0.8)
            stage.deliver(claimed, package())
            stage.finish(claimed)

        worker = threading.Thread(target=work)
        worker.start()
        events = list(client.events(job.id, sleep=lambda s: time.sleep(s / 20)))
        worker.join()
        assert [event.number for event in events] == [1, 2, 3, 4, 5]
        assert [event.kind for event in events] == ["state", "state", "kernel", "finished", "state"]
        assert sum(r.url.path.endswith("/events") for r in network.seen) >= 3
        rest = list(client.events(job.id, after=3))
        assert [event.number for event in rest] == [4, 5]
        with pytest.raises(ServiceError, match="404"):
            next(client.events("0" * 32))


def test_a_job_is_paused_resumed_and_cancelled(live: Live) -> None:
    with client_of(live) as (client, _):
        job = client.submit(MM, trials=8, fresh=True)
        assert client.pause(job.id).state == "paused"
        assert client.resume(job.id).state == "queued"
        assert client.cancel(job.id).state == "cancelled"
        with pytest.raises(ServiceError) as caught:
            client.resume(job.id)
    assert (caught.value.status, caught.value.code) == (409, "state")


def test_a_service_without_id_prefixes_returns_no_wrong_job(live: Live) -> None:
    with client_of(live) as (client, network):
        job = client.submit(MM, trials=8, fresh=True)
        assert client.find(job.id[:12]) == job.id

        def unfiltered(_: httpx.Request, real: httpx.BaseTransport) -> Answer:
            return real.handle_request(httpx.Request("GET", f"{live.url}/v1/jobs"))

        network.faults = [unfiltered]
        other = "f" * 8 if job.id[0] != "f" else "0" * 8
        with pytest.raises(ServiceError, match="no id begins with that"):
            client.cancel(other)
        assert client.job(job.id).state == "queued"
        client.cancel(job.id)


def test_jobs_are_listed_page_by_page(live: Live) -> None:
    with client_of(live) as (client, network):
        ids = [client.submit(MM, trials=8, fresh=True, seed=n).id for n in range(25)]
        listed = [job.id for job in client.jobs("queued")]
        assert listed[:25] == ids[::-1]
        assert sum(r.method == "GET" for r in network.seen) >= 2
        for job_id in ids:
            client.cancel(job_id)


def test_explanations_and_records_are_complete(live: Live, stage: Service) -> None:
    with client_of(live) as (client, _):
        job = client.submit(MM, trials=8, fresh=True)
        pages = list(client.explain(job.id, "mm"))
        assert sum(len(page["visits"]) for page in pages) == pages[0]["visit_count"]
        assert list(client.records(job.id)) == []
        assert client.targets() == {}
        assert client.workers() == []
        assert client.ready()["database"] == "sqlite"


def test_many_records_are_imported_in_parts(live: Live) -> None:
    lines = [encode(trial(1.0, row=(number,))) for number in range(1, 4)]
    spaced = [line.replace("{", "{" + " " * 300_000, 1) for line in lines]
    with client_of(live) as (client, network):
        assert client.import_records([*spaced, ""]) == 3
        assert [r.method for r in network.seen] == ["POST"] * 3
        assert client.import_records(lines) == 0
        assert {json.loads(line)["row"][0] for line in client.records()} >= {1, 2, 3}
        assert client.import_records([]) == 0
        with pytest.raises(ServiceError, match="cannot import line 1 because it is no record"):
            client.import_records(["x"])


def test_a_kernel_is_pulled_and_checked(live: Live, stage: Service, tmp_path: Path) -> None:
    job_id, digest = stage.succeed(fresh=True)
    with client_of(live) as (client, network):
        path = client.pull(job_id, "mm", tmp_path)
        assert path.read_bytes() == package()
        network.faults = [flipped]
        with pytest.raises(PackageError, match=f"expected {digest}"):
            client.package(digest)
        waiting = client.submit(MM, trials=9, fresh=True)
        with pytest.raises(ServiceError, match="no kernel"):
            client.pull(waiting.id, "mm", tmp_path)
        with pytest.raises(ServiceError, match="task other: no kernel"):
            client.pull(job_id, "other", tmp_path)
        client.cancel(waiting.id)


def test_a_model_is_stored_once_tuned_and_its_bundle_checked(
    live: Live, stage: Service, tmp_path: Path
) -> None:
    bundle = b"PK" + bytes(range(256)) * 20_000

    def work(job: Job) -> None:
        if job.state == "queued":
            claimed = stage.claim()
            with stage.held(claimed) as (tx, row, now_s):
                row.model_facts = json.dumps(FACTS)
                stage.own_bundle(tx, row.id, bundle)
                lease.finish(tx, row, [], "trials", now_s)

    file = tmp_path / "m.onnx"
    file.write_bytes(VALID)
    with client_of(live) as (client, network):
        path = client.tune_model(
            file, out=tmp_path / "out", bind={"batch": 1}, trials_per_task=8, on_change=work
        )
        assert path == tmp_path / "out" / "m.zip"
        assert path.read_bytes() == bundle
        assert client.put_model(file) == sha256(VALID).hexdigest()
        puts = [request for request in network.seen if request.method == "PUT"]
        assert len(puts) == 1
        (posted,) = [r for r in network.seen if r.method == "POST"]
        assert json.loads(posted.read())["budget"]["trials_per_task"] == 8
        (job, *_) = client.jobs("succeeded")
        assert job.model == sha256(VALID).hexdigest()
        network.faults = [pass_on, flipped]
        with pytest.raises(PackageError, match="because its sha256 is"):
            client.pull_bundle(job.id, tmp_path / "other.zip")
        assert sorted(one.name for one in tmp_path.iterdir()) == ["m.onnx", "out"]


def test_weights_of_a_model_stay_home(live: Live, stage: Service, tmp_path: Path) -> None:
    file = small(tmp_path / "m.onnx")
    bare = tmp_path / "served" / "bare.zip"
    tuned(home_model(file, {"batch": 2}).graph, bare)

    def work(job: Job) -> None:
        if job.state == "queued":
            claimed = stage.claim()
            with stage.held(claimed) as (tx, row, now_s):
                row.model_facts = json.dumps(FACTS)
                stage.own_bundle(tx, row.id, bare.read_bytes())
                lease.finish(tx, row, [], "trials", now_s)

    with client_of(live) as (client, network):
        path = client.tune_model(
            file, out=tmp_path / "out", bind={"batch": 2}, keep_weights_home=True, on_change=work
        )
        assert [request.method for request in network.seen if request.method == "PUT"] == []
        (posted,) = [r for r in network.seen if r.method == "POST"]
        content = posted.read()
    assert json.loads(content)["graph"]["nodes"][0]["op"] == "Conv"
    assert not [name for name in ("batch", "head", "small") if name.encode() in content]
    assert [one.name for one in path.parent.iterdir()] == ["m.zip"]
    with load_model(path) as model:
        assert model.selftest() == []
        assert [one.name for one in model.inputs] == ["x"]


def test_a_model_without_a_bundle_is_an_error(live: Live, stage: Service, tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(VALID)

    def refuse(job: Job) -> None:
        if job.state == "queued":
            with stage.held(stage.claim()) as (tx, row, now_s):
                lease.fail(tx, row, "node 'n': no kernel", now_s)

    with client_of(live) as (client, _):
        with pytest.raises(ServiceError, match="failed: node 'n': no kernel"):
            client.tune_model(file, seed=1, on_change=refuse)
        with pytest.raises(SpecError, match="expected an ONNX model"):
            client.tune_model(tmp_path / "none.onnx")
        (tmp_path / "text.onnx").write_text("no model")
        with pytest.raises(ServiceError, match="422"):
            client.put_model(tmp_path / "text.onnx")


@pytest.mark.parametrize("url", ["http://one.example:8720", "https://one.example"])
@pytest.mark.parametrize(
    ("place", "follows"),
    [
        ("/v1/other", True),
        ("{url}/v1/other", True),
        ("http://evil.example/", False),
        ("//evil.example/", False),
        ("http://one.example:8721/", False),
        ("https://one.example:8720/", False),
        ("http://one.example/", False),
        ("http://one.example:443/", False),
        ("https://one.example.evil.example/", False),
    ],
)
def test_the_key_is_sent_to_the_origin_of_the_service_only(
    url: str, place: str, follows: bool
) -> None:
    def away(_: httpx.Request, __: httpx.BaseTransport) -> Answer:
        return httpx.Response(307, headers={"Location": place.format(url=url)})

    def here(_: httpx.Request, __: httpx.BaseTransport) -> Answer:
        return httpx.Response(200, content=b"{}")

    network = Faulty(away, here)
    with Client(url, "secret", transport=network) as client:
        if follows:
            assert client.health() == {}
        else:
            with pytest.raises(ServiceError):
                client.health()
        for path in ("/v1/x", "/v1/y"):  # downloads and streams follow no redirect
            network.faults = [away, here]
            with pytest.raises(ServiceError), client._connection.stream(path, {}, 1.0):
                pass
    origins = {(one.url.scheme, one.url.host, one.url.port) for one in network.seen}
    assert origins == {(httpx.URL(url).scheme, "one.example", httpx.URL(url).port)}
    assert len(network.seen) == 3 + follows
    assert {one.headers["authorization"] for one in network.seen} == {"Bearer secret"}


@pytest.mark.slow
def test_a_digest_is_loaded_from_the_service_once(
    live: Live, stage: Service, tmp_path: Path
) -> None:
    _, digest = stage.succeed(fresh=True)
    cache = KernelCache(tmp_path)
    kernel = load(f"sha256:{digest}", url=live.url, cache=cache)
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    b = np.arange(30, dtype=np.float32).reshape(5, 6)
    np.testing.assert_allclose(kernel(a, b), a @ b)
    assert kernel.digest == digest
    again = load(f"sha256:{digest}", url="http://127.0.0.1:9", cache=cache)
    np.testing.assert_allclose(again(a, b), a @ b)
    np.testing.assert_allclose(load(cache.path(digest))(a, b), a @ b)


def test_clients_and_jobs_are_shown_in_one_line() -> None:
    with Client("http://127.0.0.1:9", "a secret key") as client:
        assert repr(client) == "<client of http://127.0.0.1:9>"
    tasks = [{"name": name} for name in ("a", "b", "c", "d", "e")]
    told = {"id": "0" * 32, "state": "running", "tasks": tasks, "budget": {}, "trials": 8}
    assert repr(job_of(told)) == f"<job {'0' * 32} running, a, b, c and 2 more: 8 trials>"
    one = job_of({**told, "tasks": tasks[:1], "best_s": 1.5e-3})
    assert repr(one) == f"<job {'0' * 32} running, a: 8 trials, best 1.5 ms>"


def test_parts_of_replies_are_shown_in_one_line() -> None:
    line = {"id": "0" * 32, "state": "running", "tasks": ["a", "b", "c"], "task_count": 5}
    told = line_of({**line, "trials": 8, "trials_asked": 64, "best_s": 1.5e-3})
    assert repr(told) == (
        f"<job {'0' * 32} running, a, b, c and 2 more: 8 of 64 trials, best 1.5 ms>"
    )
    assert repr(TaskState("mm", trials=8)) == "<task mm: 8 trials>"
    state = TaskState("mm", trials=8, best_s=1.5e-3, kernel="ab" * 32)
    assert repr(state) == "<task mm: 8 trials, best 1.5 ms, kernel abababababab>"
    body = {"task": "mm", "failures": {"wrong": 8}}
    assert repr(Event(7, "round", 1.0, body)) == "<event 7: round of mm>"
    assert repr(Event(8, "ended", 1.0, {})) == "<event 8: ended>"


def test_models_are_shown_in_one_line() -> None:
    model = Model("ab" * 32, 3 << 20, 0.0, 17, {"Conv": 17}, input_count=1, output_count=2)
    assert repr(model) == "<model abababababab: 17 nodes, 1 input, 2 outputs, 3 MiB>"
    refused = ModelLine("ab" * 32, 3 << 20, 0.0, 1, refused=True)
    assert repr(refused) == (
        "<model abababababab: 1 node, 3 MiB, refused without values of its symbolic extents>"
    )
    fired = [{"pass": "views", "sites": 2}, {"pass": "constants", "sites": 1}]
    before = Simplification({"Conv": 9, "Add": 3}, {"Conv": 9}, fired, "onnx", 1e-7, "ab" * 32, 1)
    assert repr(before) == "<simplification abababababab: 12 to 9 nodes by 2 passes, error 1.0e-07>"


class Shelf:
    """A source of packages with arbitrary content."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def package(self, digest: str) -> bytes:
        return self.data


def test_a_modified_cache_is_refused(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    digest = unbox(package(), "p").digest
    path = cache.put(package(), digest)
    for at in range(0, len(package()), 997):
        changed = bytearray(package())
        changed[at] ^= 0x80
        path.write_bytes(changed)
        with pytest.raises(PackageError, match=f"expected {digest}"):
            load(f"sha256:{digest}", cache=cache)


def test_a_package_with_another_digest_is_refused_and_not_cached(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    with pytest.raises(PackageError, match="expected " + "0" * 64):
        load("sha256:" + "0" * 64, cache=cache, source=Shelf(package()))
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_for_another_processor_is_refused_and_not_cached(tmp_path: Path) -> None:
    found = unbox(package(), "p")
    target = {**found.manifest["target"], "needs": ["avx99"]}
    data = box(found.files, {**found.manifest, "target": target})
    digest = unbox(data, "p").digest
    with pytest.raises(PackageError, match="made for a processor with avx99"):
        load(f"sha256:{digest}", cache=KernelCache(tmp_path), source=Shelf(data))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["sha256:", "sha256:xyz", "sha256:" + "A" * 64])
def test_an_invalid_digest_is_refused(what: str) -> None:
    with pytest.raises(PackageError, match="64 hex digits"):
        load(what)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="No such file"):
        load(tmp_path / "nothing.zip")


def test_the_environment_names_the_service_and_the_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from a file\n")
    assert address_of(environment={}) == Address("http://127.0.0.1:8720")
    told = {"ANSORPY_URL": "https://x", "ANSORPY_API_KEY": "k", "ANSORPY_API_KEY_FILE": str(file)}
    assert address_of(environment=told) == Address("https://x", "k")
    del told["ANSORPY_API_KEY"]
    assert address_of(environment=told) == Address("https://x", "from a file")
    assert address_of("http://y", "z", told) == Address("http://y", "z")
    with pytest.raises(SpecError, match="ANSORPY_API_KEY_FILE"):
        address_of(environment={"ANSORPY_API_KEY_FILE": "/nowhere"})
    with pytest.raises(SpecError, match="ftp://x: expected http"):
        Address("ftp://x")


def test_unknown_fields_of_a_newer_service_are_ignored() -> None:
    told = {**REPLIES["JobReply"], "new": 1}
    told["tasks"] = [{**told["tasks"][0], "newer": 2}]
    job = job_of(told)
    assert isinstance(job, Job)
    assert job.id == told["id"]
    assert job.task("mm").gflops == pytest.approx(102.8, rel=1e-3)
    with pytest.raises(KeyError):
        job.task("other")


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "..", "", "a\n", "\x1b[2J", "é", 7])
def test_names_of_a_reply_are_data(name: object, tmp_path: Path) -> None:
    told = REPLIES["JobReply"]
    task = told["tasks"][0]
    model = {"sha256": "0" * 64, "bundle": None}
    for changed in (
        {"id": name}, {"tasks": [{**task, "name": name}]}, {"tasks": [{**task, "kernel": name}]},
        {"model": {**model, "sha256": name}}, {"model": {**model, "bundle": {"sha256": name}}},
    ):  # fmt: skip
        content = json.dumps({**told, **changed}).encode()
        network = Faulty(*[lambda *_, c=content: httpx.Response(200, content=c)] * 2)
        with Client("http://one.example", transport=network) as client:
            for pull in (client.pull, lambda job, _, out: client.pull_bundle(job, out / "x.zip")):
                with pytest.raises(ReplyError, match="of the reply because it is no name"):
                    pull("0" * 32, str(name), tmp_path / "out")
    line = {"id": "0" * 32, "state": "queued", "tasks": [], "task_count": 0, "trials": 0}
    for field, value in (("id", name), ("tasks", [name]), ("model", name)):
        with pytest.raises(ReplyError):
            line_of({**line, "trials_asked": 1, field: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("told", [None, [], {}, {"id": "0" * 32}])
def test_an_invalid_job_or_event_is_an_error(told: object) -> None:
    with pytest.raises(ReplyError, match="not a"):
        job_of(told)
    with pytest.raises(ReplyError, match="not a"):
        event_of(told)
