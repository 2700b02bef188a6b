"""SQLAlchemy models. Times are seconds since the epoch, JSON is stored as text, ids are hex digits.

docs/service/database.md describes the tables; a change of this file needs a migration.
"""

from sqlalchemy import (
    BigInteger,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# SQLite auto-increments only INTEGER primary keys.
Serial = BigInteger().with_variant(Integer, "sqlite")
Sha256 = String(64)
JobId = String(32)  # uuid4 hex
WorkerId = String(128)
Cluster = String(300)
TITLE_CHARS = 200
REUSE = (  # columns of ix_jobs_workload, see server.jobs.reuse
    "tenant_id", "workload", "state", "seq", "target", "trials", "seconds", "target_latency_s",
    "stop_if_gain_below", "best_s",
)  # fmt: skip


class Base(DeclarativeBase):
    """Base of all tables; names all constraints, so that migrations can change them."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {float: Double}  # noqa: RUF012 - read by SQLAlchemy


class TenantRow(Base):
    """An owner of jobs, records, kernels and models. A limit of None: the settings' limit."""

    __tablename__ = "tenants"
    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    created_s: Mapped[float]
    disabled_s: Mapped[float | None]
    max_queued_jobs: Mapped[int | None]
    max_running_jobs: Mapped[int | None]
    max_trials_per_day: Mapped[int | None]
    max_seconds_per_day: Mapped[float | None]
    max_models: Mapped[int | None]
    max_models_bytes: Mapped[int | None] = mapped_column(BigInteger)


class ApiKeyRow(Base):
    """An API key, stored as a digest of its 256 random bits."""

    __tablename__ = "api_keys"
    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"), index=True)
    prefix: Mapped[str] = mapped_column(String(16))  # identifies the key in lists and commands
    sha256: Mapped[str] = mapped_column(Sha256, unique=True)
    scopes: Mapped[str] = mapped_column(String(64))  # subset of read,tune,admin
    label: Mapped[str] = mapped_column(String(80), default="")
    created_s: Mapped[float]
    expires_s: Mapped[float | None]
    revoked_s: Mapped[float | None]
    used_s: Mapped[float | None]  # last use, to the minute


class SessionRow(Base):
    """A browser session of a key, stored as a digest of the secret in its cookie."""

    __tablename__ = "sessions"
    sha256: Mapped[str] = mapped_column(Sha256, primary_key=True)
    key_id: Mapped[int] = mapped_column(ForeignKey("api_keys.id"), index=True)
    created_s: Mapped[float]
    expires_s: Mapped[float]


class JobRow(Base):
    """A tuning job: request, state, lease, progress, results."""

    __tablename__ = "jobs"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    id: Mapped[str] = mapped_column(JobId, unique=True)
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"))
    state: Mapped[str] = mapped_column(String(16))  # server.jobs.states.MOVES
    reason: Mapped[str] = mapped_column(default="")  # reason of a failed, paused or early ended job
    priority: Mapped[int] = mapped_column(default=0)  # higher ones are claimed first
    version: Mapped[int] = mapped_column(default=1)  # incremented by every visible change

    request: Mapped[str]  # server.jobs.submission: the canonical document
    request_sha256: Mapped[str] = mapped_column(Sha256)
    workload: Mapped[str] = mapped_column(Sha256)  # digest of the tasks, their names and weights
    # Digest of the ONNX model, of a job of a model; the model stays while the job has not ended.
    model: Mapped[str | None] = mapped_column(Sha256)
    # Names of the tasks, or the file name of the model; for people and for searches
    title: Mapped[str] = mapped_column(String(TITLE_CHARS), default="", server_default="")
    target: Mapped[str] = mapped_column(String(32), default="")  # as requested; digest once claimed
    cores: Mapped[int]
    trials: Mapped[int]
    seconds: Mapped[float | None]
    target_latency_s: Mapped[float | None]
    stop_if_gain_below: Mapped[float | None]

    created_s: Mapped[float]
    updated_s: Mapped[float]
    started_s: Mapped[float | None]  # first claim
    ended_s: Mapped[float | None]

    attempts: Mapped[int] = mapped_column(default=0)  # number of claims
    lost: Mapped[int] = mapped_column(default=0)  # losses of a worker since the last stored round
    lease_owner: Mapped[str] = mapped_column(WorkerId, default="")
    lease_token: Mapped[int] = mapped_column(default=0)  # incremented per claim and revocation
    lease_until_s: Mapped[float] = mapped_column(default=0.0)
    lease_s: Mapped[float] = mapped_column(default=0.0)  # length of the lease at its last extension

    trials_done: Mapped[int] = mapped_column(default=0)
    rounds_done: Mapped[int] = mapped_column(default=0)
    seconds_done: Mapped[float] = mapped_column(default=0.0)  # tuning time, of all leases
    best_s: Mapped[float | None]  # weighted sum of the task times, once all tasks have one
    progress: Mapped[str] = mapped_column(default="{}")  # JSON: task -> facts
    results: Mapped[str] = mapped_column(default="[]")  # JSON: one object per task of an ended job
    events: Mapped[int] = mapped_column(default=0)  # number of the last event
    # JSON: nodes, tasks and estimates of a model (server.worker.model_journal); "" until divided
    model_facts: Mapped[str] = mapped_column(default="", server_default="")

    __table_args__ = (
        # Has the head of a tenant's queue as one entry.
        Index("ix_jobs_queue", "state", "target", "tenant_id", priority.desc(), "seq", "cores"),
        Index("ix_jobs_tenant", "tenant_id", "state", "seq"),
        # Has all columns of the search for a reusable job, so that no row is read.
        Index("ix_jobs_workload", *REUSE),
        Index("ix_jobs_model", "tenant_id", "model", "seq"),
    )


class IdempotencyRow(Base):
    """The first request with an Idempotency-Key."""

    __tablename__ = "idempotency_keys"
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(Sha256)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    created_s: Mapped[float] = mapped_column(index=True)


class JobEventRow(Base):
    """An event of a job; `seq` is its Last-Event-ID."""

    __tablename__ = "job_events"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 1, 2, ...
    at_s: Mapped[float]
    kind: Mapped[str] = mapped_column(String(16))  # server.jobs.events
    body: Mapped[str]  # JSON object


class RecordRow(Base):
    """A trial or race. `body` is the canonical JSON of ansorpy.records; other columns are indexes.

    Trials of the command line and imported records have the job_id None.
    """

    __tablename__ = "records"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"))
    id: Mapped[str] = mapped_column(Sha256)  # digest of body
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"))
    candidate: Mapped[str] = mapped_column(Sha256)  # digest of task, key, plan and row
    task: Mapped[str] = mapped_column(String(63), default="")  # name of the task in the job
    round: Mapped[int] = mapped_column(default=0)  # round of the job, from 1; 0 for a race
    key: Mapped[str] = mapped_column(String(128))
    cost_s: Mapped[float | None]  # time of a complete trial; `SqlStore.best` ranks by it
    failure: Mapped[str | None] = mapped_column(String(16))  # kind
    # ansorpy.records.Origin; rows of older versions count as imported
    origin: Mapped[str] = mapped_column(String(16), server_default="imported")
    structure: Mapped[str | None] = mapped_column(String(128))  # structure key of the Dag in body
    body: Mapped[str]

    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("job_id", "candidate"),  # no trial of a job is counted twice
        Index("ix_records_key", "tenant_id", "key", "seq"),
        Index("ix_records_best", "tenant_id", "key", "cost_s"),
        Index("ix_records_structure", "tenant_id", "structure", "key", "cost_s"),
    )


class SearchRow(Base):
    """State of the search of a job, from which another worker resumes it."""

    __tablename__ = "searches"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    round: Mapped[int]  # last stored round
    known_seq: Mapped[int] = mapped_column(Serial)  # the job reads earlier records up to this one
    body: Mapped[str]  # JSON: scheduler, random state, seconds spent
    updated_s: Mapped[float]


class PackageRow(Base):
    """A kernel zip, immutable."""

    __tablename__ = "packages"
    sha256: Mapped[str] = mapped_column(Sha256, primary_key=True)
    size_bytes: Mapped[int]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    manifest: Mapped[str]  # JSON, a copy of manifest.json in the zip
    created_s: Mapped[float]


class KernelRow(Base):
    """A kernel delivered by a job; the highest `seq` is the current kernel of a task."""

    __tablename__ = "kernels"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    task: Mapped[str] = mapped_column(String(63))
    sha256: Mapped[str] = mapped_column(ForeignKey("packages.sha256"), index=True)
    best_s: Mapped[float | None]
    final: Mapped[bool]  # False: the best kernel of an unfinished search
    created_s: Mapped[float]

    __table_args__ = (UniqueConstraint("job_id", "task", "sha256"),)


class ModelFileRow(Base):
    """An ONNX file, immutable, in chunks; tenants that have the same file share it."""

    __tablename__ = "model_files"
    sha256: Mapped[str] = mapped_column(Sha256, primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_s: Mapped[float]
    touched_s: Mapped[float]  # the last write of a chunk
    facts: Mapped[str] = mapped_column(default="")  # JSON: server.schemas.model; "" until read


class ModelChunkRow(Base):
    """A part of an ONNX file, of `db.model_files.CHUNK_BYTES` but for the last one."""

    __tablename__ = "model_chunks"
    sha256: Mapped[str] = mapped_column(ForeignKey("model_files.sha256"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 0, 1, ...
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)


class ModelRow(Base):
    """A model of a tenant: its file is complete."""

    __tablename__ = "models"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"))
    sha256: Mapped[str] = mapped_column(ForeignKey("model_files.sha256"), index=True)
    name: Mapped[str] = mapped_column(String(128), default="", server_default="")  # the file name
    created_s: Mapped[float]

    __table_args__ = (
        UniqueConstraint("tenant_id", "sha256"),
        Index("ix_models_tenant", "tenant_id", "seq"),
    )


class BundleRow(Base):
    """A bundle delivered by the job of a model; the highest `seq` is the current one.

    Its file lies beside the files of models.
    """

    __tablename__ = "bundles"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    sha256: Mapped[str] = mapped_column(ForeignKey("model_files.sha256"), index=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    latency_s: Mapped[float]  # sum of the times of its kernels
    error: Mapped[float]  # largest difference to the reference, as a share of its largest element
    bound: Mapped[float]
    reference: Mapped[str]
    final: Mapped[bool]  # False: of an unfinished search
    versions: Mapped[str]  # JSON: versions of the worker's packages
    created_s: Mapped[float]

    __table_args__ = (UniqueConstraint("job_id", "sha256"),)


class WorkerRow(Base):
    """A worker process; alive while its heartbeat is recent."""

    __tablename__ = "workers"
    id: Mapped[str] = mapped_column(WorkerId, primary_key=True)
    host: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))  # starting, idle, busy, stopped
    job_id: Mapped[str | None] = mapped_column(JobId)
    target: Mapped[str] = mapped_column(String(32))  # digest
    facts: Mapped[str]  # JSON: target and versions
    started_s: Mapped[float]
    heartbeat_s: Mapped[float] = mapped_column(index=True)
    jobs_done: Mapped[int] = mapped_column(default=0)


class SurveyRow(Base):
    """A cluster, and the lease of the worker that surveys it."""

    __tablename__ = "surveys"
    cluster: Mapped[str] = mapped_column(Cluster, primary_key=True)  # HOST:PORT of its head
    owner: Mapped[str] = mapped_column(WorkerId)
    until_s: Mapped[float]  # end of the lease
    seen_s: Mapped[float]  # the last report
    reason: Mapped[str]  # reason of a report without slots: the cluster cannot be reached


class SlotRow(Base):
    """A slot of a cluster in the last report; `trials`, `busy_s`, `up_s` since the slot started."""

    __tablename__ = "slots"
    cluster: Mapped[str] = mapped_column(Cluster, primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    facts: Mapped[str]  # JSON: server.schemas.survey.SlotReport
    trials: Mapped[int] = mapped_column(BigInteger)
    busy_s: Mapped[float]
    up_s: Mapped[float]
    from_busy_s: Mapped[float]  # busy_s and up_s when the last minute of `busy` ended
    from_up_s: Mapped[float]
    busy: Mapped[float]  # share of the last minute in which the slot worked
    seen_s: Mapped[float]


class SlotMinuteRow(Base):
    """Trials and working time of all slots of a cluster in a minute."""

    __tablename__ = "slot_minutes"
    cluster: Mapped[str] = mapped_column(Cluster, primary_key=True)
    minute: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    trials: Mapped[int] = mapped_column(BigInteger)
    busy_s: Mapped[float]
