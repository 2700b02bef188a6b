"""Store a bundle that the tuning of a model has written."""

import json
from collections.abc import Callable, Mapping
from hashlib import file_digest
from typing import BinaryIO
from zipfile import BadZipFile, ZipFile

from sqlalchemy import select
from sqlalchemy.orm import Session

from ansorpy.bundle.format import MANIFEST
from ansorpy.model.events import BundleWritten, bundle_latency
from ansorpy.server.db import model_files
from ansorpy.server.db.engine import now, reading
from ansorpy.server.db.models import BundleRow, JobRow
from ansorpy.server.jobs.events import add_event
from ansorpy.server.jobs.latency import BUNDLE, Latency
from ansorpy.server.jobs.states import touch
from ansorpy.server.worker.leased_job import LeasedJob
from ansorpy.tuner.tasks.trust import versions

KEPT = 2  # bundles of a job: the newest, and the one before, which may be on its way to a client


def store_bundle(leased: LeasedJob, event: BundleWritten, spent_s: Callable[[], float]) -> None:
    """Store a bundle as the newest of a leased job; remove all but the newest two.

    The file goes to the database in chunks before the job knows it, so that no transaction is long.

    Raises:
        LeaseLostError: the lease was lost; the file has no owner and is removed by a sweep.
    """
    with event.bundle.open("rb") as file:
        sha256 = file_digest(file, "sha256").hexdigest()
        size_bytes = file.tell()
        memory = _memory_of(file)
        stored = False
        while not stored:  # a deletion of the same file may come between
            leased.extend_lease()
            model_files.write(leased.engine, sha256, size_bytes, file)
            stored = leased.write(
                lambda tx, row, now_s: _add(
                    tx, row, sha256, size_bytes, event, memory, spent_s(), now_s
                )
            )
    for old in leased.write(_forget):
        with reading(leased.engine) as tx:
            before_s = now(tx)
        model_files.drop_unowned(leased.engine, old, before_s)


def _add(
    tx: Session,
    row: JobRow,
    sha256: str,
    size_bytes: int,
    event: BundleWritten,
    memory: Mapping[str, int],
    seconds: float,
    now_s: float,
) -> bool:
    """Make a job the owner of a complete file; return False if the file was removed."""
    if model_files.lock_complete(tx, sha256) is None:
        return False
    known = select(BundleRow).where(BundleRow.job_id == row.id).order_by(BundleRow.seq.desc())
    newest = tx.scalar(known.limit(1))
    if newest is not None and newest.sha256 == sha256:
        return True
    for same in tx.scalars(known.where(BundleRow.sha256 == sha256)).all():
        tx.delete(same)
        tx.flush()
    latency = Latency(*bundle_latency(event.model_s, event.verdict))
    facts = {
        "sha256": sha256, "size_bytes": size_bytes, "latency_s": latency.best_s,
        "error": event.error, "bound": event.bound, "reference": event.reference,
    }  # fmt: skip
    made_with = json.dumps(dict(versions()))
    tx.add(BundleRow(job_id=row.id, final=False, versions=made_with, created_s=now_s, **facts))
    told = {BUNDLE: latency.as_fact(), "memory": memory}
    row.model_facts = json.dumps({**json.loads(row.model_facts), **told})
    row.seconds_done = seconds
    touch(row, now_s)
    add_event(tx, row, "bundle", {**facts, "timing": latency.timing, "seconds": seconds}, now_s)
    return True


def _memory_of(file: BinaryIO) -> Mapping[str, int]:
    """Return the memory plan of a bundle, in bytes by name; {} without one."""
    try:
        with ZipFile(file) as archive:
            memory: Mapping[str, int] = json.loads(archive.read(MANIFEST))["memory"]
            return memory
    except (BadZipFile, KeyError, ValueError):
        return {}


def _forget(tx: Session, row: JobRow, now_s: float) -> list[str]:
    """Delete the rows of all but the newest bundles of a job; return their digests."""
    query = select(BundleRow).where(BundleRow.job_id == row.id).order_by(BundleRow.seq.desc())
    old = tx.scalars(query.offset(KEPT)).all()
    for one in old:
        tx.delete(one)
    return [one.sha256 for one in old]
