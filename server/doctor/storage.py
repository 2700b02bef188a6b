"""Checks of the data folder and the database."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import make_url

from ansorpy.records import file_store_path
from ansorpy.server.db.engine import POSTGRES, reading, sqlite_path
from ansorpy.server.db.records import SqlStore
from ansorpy.server.db.sqlite_file import OTHERS, files_of
from ansorpy.server.db.upgrade import NEEDED, local_tenant, open_database
from ansorpy.server.doctor.finding import Finding
from ansorpy.server.settings import ServiceSettings

FREE_BYTES: Final = 200 << 20  # free space that the data folder needs


def folder(settings: ServiceSettings) -> Finding:
    """Check the free space of the data folder."""
    place = settings.data_dir
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(place).free
    told = f"{place}, {free_bytes >> 20} MiB free"
    if free_bytes < FREE_BYTES:
        return Finding("data", "bad", f"{told}; {FREE_BYTES >> 20} MiB needed")
    return Finding("data", "ok", told)


def database(settings: ServiceSettings) -> Finding:
    """Open the database, run its integrity check, count the records."""
    url = make_url(settings.url)
    if url.get_backend_name() == POSTGRES:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            return Finding(
                "database", "bad", "PostgreSQL needs a driver: `pip install 'ansorpy[postgres]'`"
            )
    engine = open_database(settings.url)
    try:
        with reading(engine) as tx:
            sqlite = engine.dialect.name == "sqlite"
            health = tx.scalar(text("PRAGMA quick_check")) if sqlite else "ok"
        count = SqlStore(engine, local_tenant(engine)).count()
    finally:
        engine.dispose()
    place = url.render_as_string(hide_password=True)
    told = f"{place}, schema {NEEDED}, {count} records ({health})"
    return Finding("database", "ok" if health == "ok" else "bad", told)


def private(settings: ServiceSettings) -> Finding:
    """Check that other users cannot read or replace database, records and their folders."""
    wrong = [(path, path.stat().st_mode & 0o777) for path in _kept(settings) if path.exists()]
    readable = [
        f"{path} has mode {mode:o}; expected {mode & ~OTHERS:o}:"
        f" `chmod {mode & ~OTHERS:o} {path}` (as its owner)"
        for path, mode in wrong
        if mode & OTHERS
    ]
    if readable:
        return Finding("private", "bad", "other users can read stored data: " + "; ".join(readable))
    return Finding("private", "ok", "files and folders are private to this user")


def _kept(settings: ServiceSettings) -> Iterator[Path]:
    """Yield the folders and files with records or keys of this user."""
    records = file_store_path()
    database = sqlite_path(settings.url)
    yield from dict.fromkeys((settings.data_dir, records.parent))
    if database is not None:
        yield from files_of(database)
    yield records
