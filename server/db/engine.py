"""How we talk to the database: durable SQLite, one transaction door."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from server.db.models import Base

PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "foreign_keys=ON")


def open_database(url: str) -> Engine:
    """Return an engine with its tables made.

    SQLite runs in WAL mode with synchronous=FULL (what was committed survives a power cut) and
    every transaction begins IMMEDIATE, so that a reader never fails to become a writer.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        engine = create_engine(url, pool_pre_ping=True)
    else:
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
        event.listen(engine, "connect", _set_pragmas)
        event.listen(engine, "begin", _begin_immediate)
    Base.metadata.create_all(engine)
    return engine


def _set_pragmas(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def transaction(engine: Engine) -> Generator[Session]:
    """Commit if the block ends, roll back if it raises."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session
