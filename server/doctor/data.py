"""The data folder and the database."""

import shutil
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import make_url

from ansorpy.server.db.engine import POSTGRES, reading
from ansorpy.server.db.records import SqlStore
from ansorpy.server.db.upgrade import NEEDED, local_tenant, open_database
from ansorpy.server.doctor.finding import Finding
from ansorpy.server.settings import Settings

FREE_BYTES: Final = 200 << 20


def folder(settings: Settings) -> Finding:
    """Check that files find a place."""
    place = settings.data_dir
    place.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(place).free
    told = f"{place}, {free_bytes >> 20} MiB free"
    if free_bytes < FREE_BYTES:
        return Finding("data", "bad", f"{told}; {FREE_BYTES >> 20} MiB needed")
    return Finding("data", "ok", told)


def database(settings: Settings) -> Finding:
    """Open the database, check what is in it, count the records."""
    url = make_url(settings.url)
    if url.get_backend_name() == POSTGRES:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            return Finding("database", "bad", "no driver: `pip install 'ansorpy[postgres]'`")
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
