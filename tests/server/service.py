"""A service for tests, on any database, with helpers that act as a worker."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from ansorpy.artifact.package import unbox
from ansorpy.frontends.tc.text import parse
from ansorpy.importers.child import ChildAnswer, ReadLimits, ask_child
from ansorpy.server.access import keys
from ansorpy.server.app import create_app
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.model_files import CHUNK_BYTES
from ansorpy.server.db.models import BundleRow, ModelChunkRow, ModelFileRow, PackageRow, WorkerRow
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.latency import Latency
from ansorpy.server.service import model_reader
from ansorpy.server.settings import ServiceSettings
from ansorpy.tuner.tasks.trust import versions
from ansorpy.verdict import Judgment, Peer
from tests.artifact.test_pack import packed
from tests.importers.hostile import VALID

MM = "def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
PROGRESS = {"mm": {"trials": 16, "best_s": 1e-3, "failures": {"wrong": 1}, "sketches": 3}}
SLOWER = Judgment("kernel", 1e-3, (Peer("NumPy", 5e-4),), 1, "float64 loops", ("search longer",))
RESULT: Mapping[str, Any] = {
    "name": "mm", "best_s": 1e-3, "timing": "race", "baseline_s": 2e-3, "naive_s": 2e-3,
    "numpy_s": None, "trials": 16, "seconds": 1.5, "verified": True, "winner": "tuned", "flop": 240,
    "failures": {"wrong": 1}, "kernel": True, "verdict": SLOWER.as_object(),
}  # fmt: skip
ANSWERS: dict[tuple[object, ...], ChildAnswer] = {}


@cache
def package(text: str = MM) -> bytes:
    """Return a real kernel package."""
    with TemporaryDirectory() as folder:
        return packed(parse(text)[0], Path(folder))[0].read_bytes()


def answer_of(
    entry: str, path: Path, request: Mapping[str, Any], limits: ReadLimits, **more: Any
) -> ChildAnswer:
    """Return the answer of a child about a model, started once: that takes a second of a core.

    A child that a limit ended, or that writes a file, is started each time.
    """
    given = {name: value for name, value in request.items() if name != "sandbox"}
    key = entry, path.name, path.read_bytes(), json.dumps(given, sort_keys=True), limits
    if key in ANSWERS:
        return ANSWERS[key]
    answer = ask_child(entry, path, request, limits, **more)
    if not (answer.refusal or more["written_bytes"]):
        ANSWERS[key] = answer
    return answer


@dataclass(frozen=True)
class Service:
    """A running service and its database."""

    client: TestClient
    engine: Engine

    def submit(self, text: str = MM, **changes: Any) -> str:
        """Queue a job and return its id."""
        reply = self.client.post("/v1/jobs", json={"text": text, **changes})
        assert reply.status_code in (200, 202), reply.text
        return str(reply.json()["id"])

    def worker(self, target: str, cores: int = 2, arch: str = "znver4", age_s: float = 0.0) -> None:
        """Register a worker whose last heartbeat was `age_s` ago; a second one replaces it."""
        facts = json.dumps({"target": {"kind": "cpu", "cpu": arch, "cores": cores}})
        with transaction(self.engine) as tx:
            now_s = now(tx)
            row = WorkerRow(
                id="registered", host="h", pid=1, state="idle", job_id=None, target=target,
                facts=facts, started_s=now_s, heartbeat_s=now_s - age_s, jobs_done=0,
            )  # fmt: skip
            tx.merge(row)

    def key(self, tenant: str, *scopes: str, expires_s: float | None = None) -> dict[str, str]:
        """Return the header with a new key of a tenant."""
        with transaction(self.engine) as tx:
            key, _ = keys.create(tx, tenant, scopes, now(tx), expires_s=expires_s)
        return {"Authorization": f"Bearer {key}"}

    def put_model(self, content: bytes = VALID, name: str = "") -> str:
        """Store a model and return its digest."""
        digest = sha256(content).hexdigest()
        params = {"name": name} if name else {}
        reply = self.client.put(f"/v1/models/{digest}", content=content, params=params)
        assert reply.status_code in (200, 201), reply.text
        return digest

    def claim(self, **told: Any) -> lease.Claim:
        """Claim the next job; `told` describes the worker."""
        with transaction(self.engine) as tx:
            claimed = lease.claim(tx, "w", now(tx), 30.0, **{"target": "f00d", **told})
        assert claimed is not None
        return claimed

    @contextmanager
    def held(self, claimed: lease.Claim) -> Iterator[Any]:
        """Give (transaction, row, time) of a claimed job."""
        with transaction(self.engine) as tx:
            row = lease.lock_leased(tx, claimed, now(tx), 30.0)
            assert row is not None
            yield tx, row, now(tx)

    def progress(self, claimed: lease.Claim) -> None:
        """Store progress."""
        with self.held(claimed) as (_, row, now_s):
            lease.store_progress(row, PROGRESS, now_s)

    def deliver(self, claimed: lease.Claim, content: bytes, final: bool = True) -> str:
        """Store a kernel; return its digest."""
        digest = sha256(content).hexdigest()
        with self.held(claimed) as (tx, row, now_s):
            made = PackageRow(
                sha256=digest, size_bytes=len(content), content=content,
                manifest=unbox(content, "p").files["manifest.json"].decode(), created_s=now_s,
            )  # fmt: skip
            lease.add_kernel(tx, row, "mm", made, Latency(1e-3, "race"), final, now_s, row.best_s)
        return digest

    def own_bundle(self, tx: Session, job_id: str, content: bytes) -> str:
        """Make a job the owner of a bundle with this content; return its digest."""
        digest = sha256(content).hexdigest()
        size_bytes, now_s = len(content), now(tx)
        file = {"sha256": digest, "size_bytes": size_bytes}
        tx.add(ModelFileRow(**file, created_s=now_s, touched_s=now_s))
        tx.flush()
        for number, begin in enumerate(range(0, size_bytes, CHUNK_BYTES)):
            part = content[begin : begin + CHUNK_BYTES]
            tx.add(ModelChunkRow(sha256=digest, number=number, content=part))
        tx.flush()
        tx.add(
            BundleRow(
                job_id=job_id, **file, latency_s=1e-3, error=0.0, bound=2e-5, reference="r",
                final=True, versions=json.dumps(dict(versions())), created_s=now_s,
            )
        )  # fmt: skip
        return digest

    def finish(self, claimed: lease.Claim) -> None:
        """Mark a job succeeded."""
        with self.held(claimed) as (tx, row, now_s):
            lease.finish(tx, row, [RESULT], "trials", now_s)

    def succeed(self, **changes: Any) -> tuple[str, str]:
        """Submit and finish a job; return its id and the digest of its kernel."""
        job_id = self.submit(**changes)
        claimed = self.claim()
        digest = self.deliver(claimed, package())
        self.finish(claimed)
        return job_id, digest


@contextmanager
def service(
    url: str, headers: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[Service]:
    """Run a service on a database, without a worker."""
    with TemporaryDirectory() as folder:
        given: dict[str, Any] = {
            "embedded_worker": False, "event_stream_s": 0.5, "event_poll_s": 0.05,
            "data_dir": folder, **settings,
        }  # fmt: skip
        app = create_app(ServiceSettings(database_url=url, **given))
        with (
            pytest.MonkeyPatch.context() as patch,
            TestClient(app, base_url="http://localhost", headers=dict(headers or {})) as client,
        ):
            patch.setattr(model_reader, "ask_child", answer_of)
            engine = open_database(url)
            try:
                yield Service(client, engine)
            finally:
                engine.dispose()
