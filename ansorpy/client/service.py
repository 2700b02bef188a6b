"""A client of the service: submit, follow, steer, download, verify."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import httpx

from ansorpy.artifact.package import unbox
from ansorpy.client.connection import DEFAULT_URL, Address, Connection, ServiceError
from ansorpy.client.model import Event, Job, JobLine, event_of, job_of, line_of
from ansorpy.client.model_calls import ModelCalls, download_checked
from ansorpy.client.submission import SubmitCall, TuneModelCall
from ansorpy.errors import PackageError, SpecError
from ansorpy.te.bindings import bound
from ansorpy.tuner.options.keywords import method_keywords_of

ID_CHARS = 32
ID = re.compile(rf"[0-9a-f]{{1,{ID_CHARS}}}")
QUIET_S = 45.0  # a stream of events says something at least every 15 s
PART_BYTES = 2**19  # records of one request; a service takes 1 MiB of them
JSON_LINES = "application/x-ndjson"
REST_S = 0.5  # before a broken stream is taken up again


class Client(ModelCalls):
    """A client of one service; use it as a context manager, or close it.

    A job may be named by the first digits of its id, if no other id of yours begins with them.

    Requests are repeated where the connection breaks or the service is busy: a submission carries
    an Idempotency-Key, so that no job is made twice.

    Args:
        key: an API key, where the service needs one.
        attempts: how often a request is sent at most.
        transport: of httpx; for tests.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        key: str | None = None,
        *,
        timeout_s: float = 30.0,
        attempts: int = 6,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(Address(url, key), timeout_s, attempts, transport)
        self.url = self._connection.url

    def __repr__(self) -> str:
        return f"<client of {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._connection.close()

    def health(self) -> Mapping[str, Any]:
        """Return the reply of /healthz."""
        told: Mapping[str, Any] = self._connection.get("/healthz")
        return told

    def ready(self) -> Mapping[str, Any]:
        """Return the reply of /readyz: the database, and the number of living workers."""
        told: Mapping[str, Any] = self._connection.get("/readyz")
        return told

    @method_keywords_of(SubmitCall)
    def submit(self, call: SubmitCall) -> Job:
        """Queue a job and return it; `how` says whether it is new.

        Raises:
            SpecError: an option is out of bounds.
            ServiceError: the request is wrong (422), or too much (429).
        """
        headers = {"Idempotency-Key": call.idempotency_key or uuid4().hex}
        reply = self._connection.send("POST", "/v1/jobs", body=call.body(), headers=headers)
        return job_of(reply.json())

    def find(self, job_id: str) -> str:
        """Return the id of the one job whose id begins with `job_id`; a whole id is not looked up.

        Raises:
            SpecError: it is neither an id nor the beginning of one.
            ServiceError: no job (404) or several jobs (422) begin with it.
        """
        if not ID.fullmatch(job_id):
            raise SpecError(
                f"cannot find job {job_id[:ID_CHARS]!r} because an id has hex digits only; expected"
                f" the {ID_CHARS} of an id, or the first of them"
            )
        if len(job_id) == ID_CHARS:
            return job_id
        page = self._connection.get("/v1/jobs", id=job_id)["jobs"]
        ids = [job.id for job in map(line_of, page) if job.id.startswith(job_id)]
        if not ids:
            reason = f"cannot find job {job_id} because no id begins with that"
            raise ServiceError(f"{reason}; expected one that `status` lists", 404, "unknown")
        if len(ids) > 1:
            reason = f"cannot find job {job_id} because {len(ids)} ids begin with that"
            raise ServiceError(f"{reason}; expected more digits: {', '.join(ids)}", 422, "id")
        return ids[0]

    def job(self, job_id: str) -> Job:
        """Return a job."""
        return job_of(self._connection.get(f"/v1/jobs/{self.find(job_id)}"))

    def jobs(self, state: str | None = None) -> Iterator[JobLine]:
        """Yield your jobs, newest first, a page at a time."""
        before: int | None = None
        while True:
            told = self._connection.get("/v1/jobs", state=state, before=before)
            yield from map(line_of, told["jobs"])
            before = told["next"]
            if before is None:
                return

    def watch(
        self, job_id: str, every_s: float = 1.0, sleep: Callable[[float], object] = time.sleep
    ) -> Iterator[Job]:
        """Yield the job whenever it has changed; the last one has ended."""
        etag, job_id = "", self.find(job_id)
        while True:
            headers = {"If-None-Match": etag} if etag else {}
            reply = self._connection.send("GET", f"/v1/jobs/{job_id}", headers=headers)
            if reply.status_code != 304:
                etag = reply.headers.get("etag", "")
                job = job_of(reply.json())
                yield job
                if job.ended:
                    return
            sleep(every_s)

    def wait(
        self, job_id: str, every_s: float = 1.0, sleep: Callable[[float], object] = time.sleep
    ) -> Job:
        """Return the job once it has ended."""
        *_, last = self.watch(job_id, every_s, sleep)
        return last

    def events(
        self, job_id: str, after: int = 0, sleep: Callable[[float], object] = time.sleep
    ) -> Iterator[Event]:
        """Yield the events of a job, each once, until it has ended.

        A broken stream is resumed after the last event received.

        Raises:
            ServiceError: there is no such job, or the service is away for long.
        """
        job_id, failed = self.find(job_id), 0
        path = f"/v1/jobs/{job_id}/events"
        while True:
            query: dict[str, str | int | bool] = {"after": after, "format": "sse"}
            try:
                with self._connection.stream(path, query, QUIET_S) as lines:
                    for line in lines:
                        if line.startswith("data: "):
                            event = event_of(json.loads(line[6:]))
                            after, failed = event.number, 0
                            yield event
            except ServiceError as error:
                failed += 1
                if error.status not in (0, 429, 503) or failed >= self._connection.attempts:
                    raise
            job = self.job(job_id)
            if job.ended and job.events <= after:
                return
            sleep(REST_S * 2**failed)

    def cancel(self, job_id: str) -> Job:
        """End a job for good; ServiceError 409 where it has ended."""
        return self._steer(job_id, "cancel")

    def pause(self, job_id: str) -> Job:
        """Stop a job until it is resumed; ServiceError 409 where it has ended."""
        return self._steer(job_id, "pause")

    def resume(self, job_id: str) -> Job:
        """Queue a paused job again."""
        return self._steer(job_id, "resume")

    def retry(self, job_id: str) -> Job:
        """Queue a new job of the request of a job that has ended, and return it."""
        place = f"/v1/jobs/{self.find(job_id)}/retry"
        headers = {"Idempotency-Key": uuid4().hex}
        return job_of(self._connection.send("POST", place, headers=headers).json())

    def delete(self, job_id: str) -> None:
        """Delete a job with its kernels and bundles; cancel it first if it has not ended."""
        self._connection.send("DELETE", f"/v1/jobs/{self.find(job_id)}")

    def _steer(self, job_id: str, how: str) -> Job:
        path = f"/v1/jobs/{self.find(job_id)}/{how}"
        return job_of(self._connection.send("POST", path).json())

    def explain(self, job_id: str, task: str | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the pages of an explanation."""
        after: int | None = 0
        path = f"/v1/jobs/{self.find(job_id)}/explain"
        while after is not None:
            told = self._connection.get(path, task=task, after=after)
            yield told
            after = told["next"]

    def package(self, digest: str) -> bytes:
        """Return a kernel package whose digest was checked.

        Raises:
            PackageError: the bytes have another digest.
        """
        data = self._connection.send("GET", f"/v1/kernels/{digest}").content
        unbox(data, f"kernel {digest[:12]}", digest)
        return data

    def pull(self, job_id: str, task: str, folder: Path) -> Path:
        """Write the newest kernel package of a task into a folder and return its path.

        Raises:
            ServiceError: there is none (yet).
            PackageError: the bytes have another digest.
        """
        digest = {one.name: one.kernel for one in self.job(job_id).tasks}.get(task)
        if digest is None:
            raise ServiceError(f"task {task}: no kernel (yet)", 404, "unknown")
        data = self.package(digest)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{task}-{digest[:12]}.zip"
        try:
            path.write_bytes(data)
        except OSError as error:
            raise PackageError(f"{path}: {error.strerror}") from error
        return path

    @method_keywords_of(TuneModelCall)
    def tune_model(self, call: TuneModelCall) -> Path:
        """Store a model, tune it as a job, write its bundle, and return the bundle's path.

        With `keep_weights_home` the service gets the graph alone; the weights are joined here.

        Raises:
            SpecError: the file cannot be read, or an option is out of bounds.
            ServiceError: the request is wrong (422), or too much (429), or the job has no bundle.
            PackageError: the bytes of the bundle have another digest.
            RunError: the bundle with its weights is wrong, or does not run on this machine.
        """
        headers = {"Idempotency-Key": uuid4().hex}
        body = self._model_source(call).body()
        reply = self._connection.send("POST", "/v1/jobs", body=body, headers=headers)
        for job in self.watch(job_of(reply.json()).id):
            call.on_change(job)
        if job.state != "succeeded" and _bundle_of(job) is None:
            raise ServiceError(f"job {job.id} {job.state}: {job.reason}", 0, job.state)
        if not call.keep_weights_home:
            return self.pull_bundle(job.id, call.bundle)
        from ansorpy.model.join import join_model

        bare = self.pull_bundle(job.id, call.bundle.with_suffix(".bare.zip"))
        try:
            return join_model(bare, call.model, call.bundle, bound(call.bind), call.shapes).bundle
        finally:
            bare.unlink(missing_ok=True)

    def _model_source(self, call: TuneModelCall) -> SubmitCall:
        """Return the submission of a model, which is stored unless its weights stay home."""
        if call.keep_weights_home:
            from ansorpy.model.home import home_model

            home = home_model(call.model, bound(call.bind), call.shapes)
            return call.submission(graph=home.sent.document.json)
        digest = self.put_model(call.model)
        return call.submission(model=digest, bind=call.bind, shapes=call.shapes)

    def pull_bundle(self, job_id: str, path: Path) -> Path:
        """Write the newest bundle of a job to a file and return its path.

        Raises:
            ServiceError: there is none (yet).
            PackageError: the bytes have another digest, or the file cannot be written.
        """
        job = self.job(job_id)
        digest = _bundle_of(job)
        if digest is None:
            remedy = "another job" if job.ended else f"ansorpy watch {job.id} first"
            raise ServiceError(
                f"cannot pull job {job_id} because it is {job.state} and has no bundle; expected"
                f" {remedy}",
                404,
                "unknown",
            )
        return download_checked(self._connection, f"/v1/bundles/{digest}", digest, path)

    def records(self, job_id: str | None = None) -> Iterator[str]:
        """Yield your records as JSONL lines, oldest first."""
        query = {} if job_id is None else {"job": self.find(job_id)}
        with self._connection.stream("/v1/records", query, QUIET_S) as lines:
            yield from (line for line in lines if line)

    def import_records(self, lines: Iterable[str]) -> int:
        """Import records, a JSON line each, and return the number of new ones.

        They start searches of their tasks and answer no request. The lines go in parts of at most
        half a MiB, each kept whole or not at all; lines that were sent before are kept once.

        Raises:
            ServiceError: a line is no record (422; its number counts from the start of its part),
                or longer than the service takes (413).
        """
        return sum(map(self._import_part, _parts(lines)))

    def _import_part(self, part: Sequence[str]) -> int:
        reply = self._connection.send(
            "POST", "/v1/records", body="\n".join(part), headers={"Content-Type": JSON_LINES}
        )
        return int(reply.json()["new"])

    def targets(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the facts of every target that has a living worker, by digest."""
        told = self._connection.get("/v1/targets")
        return {target["target"]: target["facts"] for target in told["targets"]}

    def capabilities(self) -> Sequence[Mapping[str, Any]]:
        """Return the instructions on products that kernels have and lack, by target."""
        told: Sequence[Mapping[str, Any]] = self._connection.get("/v1/capabilities")["targets"]
        return told

    def workers(self) -> Sequence[Mapping[str, Any]]:
        """Return the living workers; needs an admin key."""
        told: Sequence[Mapping[str, Any]] = self._connection.get("/v1/workers")["workers"]
        return told


def _parts(lines: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yield the lines in parts of at most PART_BYTES; a longer line is a part of its own."""
    part: list[str] = []
    size = 0
    for line in filter(None, map(str.strip, lines)):
        length = len(line.encode()) + 1
        if part and size + length > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(line)
        size += length
    if part:
        yield part


def _bundle_of(job: Job) -> str | None:
    """Return the digest of the newest bundle of a job."""
    bundle = (job.model or {}).get("bundle")
    return None if bundle is None else str(bundle["sha256"])
