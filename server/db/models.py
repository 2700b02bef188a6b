"""The tables. Times are seconds since the epoch, JSON is kept as text, ids are hex.

docs/service/database.md says what each table is for; migrations follow this file.
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

# SQLite gives only INTEGER keys numbers of its own.
Serial = BigInteger().with_variant(Integer, "sqlite")
Sha256 = String(64)
JobId = String(32)  # uuid4 hex
WorkerId = String(128)
TWIN = (
    "tenant_id", "workload", "state", "seq", "target", "trials", "seconds", "target_latency_s",
    "stop_if_gain_below", "best_s",
)  # fmt: skip


class Base(DeclarativeBase):
    """All tables; constraints have names, so that a migration can change them."""

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
    """Whoever owns jobs, records and kernels. A limit of None is that of the settings."""

    __tablename__ = "tenants"
    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    created_s: Mapped[float]
    disabled_s: Mapped[float | None]
    max_queued_jobs: Mapped[int | None]
    max_running_jobs: Mapped[int | None]
    max_trials_per_day: Mapped[int | None]
    max_seconds_per_day: Mapped[float | None]


class ApiKeyRow(Base):
    """An API key. The key itself, 256 random bits, is shown once and never stored."""

    __tablename__ = "api_keys"
    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"), index=True)
    prefix: Mapped[str] = mapped_column(String(16))  # for people, to tell keys apart
    sha256: Mapped[str] = mapped_column(Sha256, unique=True)
    scopes: Mapped[str] = mapped_column(String(64))  # of read, tune, admin; comma between
    label: Mapped[str] = mapped_column(String(80), default="")
    created_s: Mapped[float]
    expires_s: Mapped[float | None]
    revoked_s: Mapped[float | None]
    used_s: Mapped[float | None]  # the last time, to the minute


class SessionRow(Base):
    """A browser that is signed in with a key; the secret of its cookie is never stored."""

    __tablename__ = "sessions"
    sha256: Mapped[str] = mapped_column(Sha256, primary_key=True)
    key_id: Mapped[int] = mapped_column(ForeignKey("api_keys.id"), index=True)
    created_s: Mapped[float]
    expires_s: Mapped[float]


class JobRow(Base):
    """One tuning job: what was asked, how it stands, who has it on lease."""

    __tablename__ = "jobs"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    id: Mapped[str] = mapped_column(JobId, unique=True)
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"))
    state: Mapped[str] = mapped_column(String(16))  # server.jobs.states.MOVES
    reason: Mapped[str] = mapped_column(default="")  # why it failed, paused or ended early
    priority: Mapped[int] = mapped_column(default=0)  # higher first
    version: Mapped[int] = mapped_column(default=1)  # +1 with every change a reader may see

    request: Mapped[str]  # server.jobs.submission: the canonical document
    request_sha256: Mapped[str] = mapped_column(Sha256)
    workload: Mapped[str] = mapped_column(Sha256)  # of the tasks, their names and weights
    target: Mapped[str] = mapped_column(String(32), default="")  # as asked for; digest once claimed
    cores: Mapped[int]
    trials: Mapped[int]
    seconds: Mapped[float | None]
    target_latency_s: Mapped[float | None]
    stop_if_gain_below: Mapped[float | None]

    created_s: Mapped[float]
    updated_s: Mapped[float]
    started_s: Mapped[float | None]  # the first claim
    ended_s: Mapped[float | None]

    attempts: Mapped[int] = mapped_column(default=0)  # leases that were taken
    lost: Mapped[int] = mapped_column(default=0)  # leases whose worker died with the job
    lease_owner: Mapped[str] = mapped_column(WorkerId, default="")
    lease_token: Mapped[int] = mapped_column(default=0)  # +1 per claim and per revocation
    lease_until_s: Mapped[float] = mapped_column(default=0.0)
    lease_s: Mapped[float] = mapped_column(default=0.0)  # its length when it was last extended

    trials_done: Mapped[int] = mapped_column(default=0)
    rounds_done: Mapped[int] = mapped_column(default=0)
    seconds_done: Mapped[float] = mapped_column(default=0.0)  # of all leases
    best_s: Mapped[float | None]  # weighted sum over the tasks, once all have one
    progress: Mapped[str] = mapped_column(default="{}")  # JSON: task -> facts
    results: Mapped[str] = mapped_column(default="[]")  # JSON: one object per task, at the end
    events: Mapped[int] = mapped_column(default=0)  # the number of the last one

    __table_args__ = (
        # The head of a tenant's queue is one entry of it.
        Index("ix_jobs_queue", "state", "target", "tenant_id", priority.desc(), "seq", "cores"),
        Index("ix_jobs_tenant", "tenant_id", "state", "seq"),
        # All that decides whether a job makes a submission needless: no row of a twin is read.
        Index("ix_jobs_workload", *TWIN),
    )


class IdempotencyRow(Base):
    """What an Idempotency-Key was first used for."""

    __tablename__ = "idempotency_keys"
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(Sha256)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    created_s: Mapped[float] = mapped_column(index=True)


class JobEventRow(Base):
    """What happened in a job, in order: `seq` is the Last-Event-ID of its stream."""

    __tablename__ = "job_events"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 1, 2, ...
    at_s: Mapped[float]
    kind: Mapped[str] = mapped_column(String(16))  # server.jobs.events
    body: Mapped[str]  # JSON object


class RecordRow(Base):
    """One trial or race. `body` is the canonical JSON of ansorpy.records; the rest serves queries.

    Trials of no job (a tuning from the command line, an import) have job_id None.
    """

    __tablename__ = "records"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(ForeignKey("tenants.id"))
    id: Mapped[str] = mapped_column(Sha256)  # of body
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"))
    candidate: Mapped[str] = mapped_column(Sha256)  # of task, key, plan and row
    task: Mapped[str] = mapped_column(String(63), default="")  # of the job
    round: Mapped[int] = mapped_column(default=0)  # of the job, 1, 2, ...; a race: 0
    key: Mapped[str] = mapped_column(String(128))
    cost_s: Mapped[float | None]  # only of complete trials: what `best` ranks
    failure: Mapped[str | None] = mapped_column(String(16))  # kind
    # ansorpy.records.Origin; a row of an older version has none, and counts as imported
    origin: Mapped[str] = mapped_column(String(16), server_default="imported")
    body: Mapped[str]

    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("job_id", "candidate"),  # no trial of a job is counted twice
        Index("ix_records_key", "tenant_id", "key", "seq"),
        Index("ix_records_best", "tenant_id", "key", "cost_s"),
    )


class SearchRow(Base):
    """Where the search of a job stands, so that another worker goes on from there."""

    __tablename__ = "searches"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    round: Mapped[int]  # the last one that is stored
    known_seq: Mapped[int] = mapped_column(
        Serial
    )  # records up to here, and its own, are all that the job knows
    body: Mapped[str]  # JSON: scheduler, random numbers, seconds spent
    updated_s: Mapped[float]


class PackageRow(Base):
    """A kernel zip, by digest; immutable."""

    __tablename__ = "packages"
    sha256: Mapped[str] = mapped_column(Sha256, primary_key=True)
    size_bytes: Mapped[int]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    manifest: Mapped[str]  # JSON, as in the zip
    created_s: Mapped[float]


class KernelRow(Base):
    """A kernel that a job delivered; of one task the one with the highest `seq` counts."""

    __tablename__ = "kernels"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    task: Mapped[str] = mapped_column(String(63))
    sha256: Mapped[str] = mapped_column(ForeignKey("packages.sha256"), index=True)
    best_s: Mapped[float | None]
    final: Mapped[bool]  # False: the best so far of a job that was still running
    created_s: Mapped[float]

    __table_args__ = (UniqueConstraint("job_id", "task", "sha256"),)


class WorkerRow(Base):
    """A worker process, alive while its heartbeat is young."""

    __tablename__ = "workers"
    id: Mapped[str] = mapped_column(WorkerId, primary_key=True)
    host: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))  # starting, idle, busy, stopped
    job_id: Mapped[str | None] = mapped_column(JobId)
    target: Mapped[str] = mapped_column(String(32))  # digest
    facts: Mapped[str]  # JSON: the target, versions, isolation levels
    started_s: Mapped[float]
    heartbeat_s: Mapped[float] = mapped_column(index=True)
    jobs_done: Mapped[int] = mapped_column(default=0)
