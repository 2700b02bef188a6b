"""Database engine: connections to SQLite or PostgreSQL, transactions, and the shared clock."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Dialect, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from ansorpy.server.db.sqlite_file import DatabaseFile

PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "foreign_keys=ON")
POSTGRES: Final = "postgresql"
FROZEN: Final = "ansorpy_frozen"  # info of a connection to a file that no process can change
READS: Final = "ansorpy_reads"  # execution option of read-only transactions


def connect(url: str) -> Engine:
    """Return an engine; `ansorpy.server.db.upgrade` checks its tables.

    SQLite runs in WAL mode with synchronous=FULL, so that commits survive a power failure. Writing
    transactions begin IMMEDIATE, so that a reader never fails to become a writer. The files
    are private to their user (`ansorpy.server.db.sqlite_file`). If the disk is full, so that the
    files beside the database cannot be made, transactions that write fail, and others read.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        if parsed.drivername == POSTGRES:
            parsed = parsed.set(drivername="postgresql+psycopg")
        return create_engine(parsed, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
    path = sqlite_path(url)
    if path is not None:
        _guard(engine, DatabaseFile(path))
    else:
        event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite database, or None for other databases and `:memory:`."""
    parsed = make_url(url)
    named = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(str(parsed.database)).absolute() if named else None


def _guard(engine: Engine, file: DatabaseFile) -> None:
    """Make the file of an engine private, and fail transactions after it was replaced."""

    def opened(dialect: Dialect, record: ConnectionPoolEntry, given: Any, named: Any) -> Any:
        file.prepare()
        connection: Any = dialect.connect(*given, **named)
        try:
            _set_pragmas(connection)
        except sqlite3.OperationalError:
            connection.close()
            if not file.is_readable_alone():
                raise
            connection = sqlite3.connect(file.frozen_uri, uri=True, check_same_thread=False)
            connection.isolation_level = None
            record.info[FROZEN] = True
        return connection

    def returned(_: object, record: ConnectionPoolEntry) -> None:
        if record.info.pop(FROZEN, False):
            record.invalidate()  # the next transaction sees whether there is room

    def check(*_: object) -> None:
        file.tighten()
        file.check()

    def check_again(_: object) -> None:
        file.check()

    event.listen(engine, "do_connect", opened)
    event.listen(engine, "checkin", returned)
    event.listen(engine, "connect", check)
    event.listen(engine, "begin", check_again)
    event.listen(engine, "commit", check_again)


def _set_pragmas(connection: Any, _record: object = None) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_immediate(connection: Any) -> None:
    only_reads = connection.get_execution_options().get(READS, False)
    connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")


@contextmanager
def transaction(engine: Engine) -> Generator[Session]:
    """Open a transaction; commit at the end of the block, roll back on an exception."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def reading(engine: Engine) -> Generator[Session]:
    """Open a read-only transaction, which never waits for writers."""
    with Session(engine.execution_options(**{READS: True}), expire_on_commit=False) as session:
        yield session


def now(tx: Session) -> float:
    """Return the seconds since the epoch, by PostgreSQL's clock or the machine's (SQLite)."""
    if tx.get_bind().dialect.name != POSTGRES:
        return time.time()
    found = tx.scalar(text("SELECT EXTRACT(EPOCH FROM clock_timestamp())"))
    assert found is not None
    return float(found)
