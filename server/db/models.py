"""The tables."""

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables."""


class RecordRow(Base):
    """One trial. `body` is the canonical JSON of ansorpy.records; the rest serves queries."""

    __tablename__ = "records"
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)  # sha256 of body
    key: Mapped[str] = mapped_column(String(128))
    cost_s: Mapped[float | None]  # only of complete trials: what `best` ranks
    body: Mapped[str]

    __table_args__ = (
        Index("ix_records_key", "key", "seq"),
        Index("ix_records_best", "key", "cost_s"),
    )


class JobRow(Base):
    """One tuning job. Times are seconds since the epoch."""

    __tablename__ = "jobs"
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)  # uuid4 hex
    state: Mapped[str] = mapped_column(String(16), index=True)  # server.db.store.MOVES
    request: Mapped[str]  # JSON, validated when it was submitted
    created_s: Mapped[float]
    updated_s: Mapped[float]
    attempt: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str] = mapped_column(String(64), default="")
    lease_token: Mapped[int] = mapped_column(default=0)  # +1 per claim: fences a paused owner
    lease_until_s: Mapped[float] = mapped_column(default=0.0)
    progress: Mapped[str] = mapped_column(default="{}")  # JSON
    results: Mapped[str] = mapped_column(default="[]")  # JSON
    error: Mapped[str] = mapped_column(default="")


class KernelRow(Base):
    """One finished zip of a job; the file is named by its digest."""

    __tablename__ = "kernels"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    task: Mapped[str] = mapped_column(String(63), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    size_bytes: Mapped[int]
