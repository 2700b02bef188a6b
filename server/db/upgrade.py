"""Schema versions: check that a database has the schema of this version, or upgrade it."""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, inspect, select, text

from ansorpy.errors import SpecError
from ansorpy.server.db.engine import POSTGRES, READS, connect, reading
from ansorpy.server.db.models import TenantRow

MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
# Oldest first.
KNOWN: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
NEEDED: Final = KNOWN[-1]
LOCAL: Final = "local"  # tenant of the command line, and of requests without a key
LOCK: Final = 0x616E736F72  # PostgreSQL advisory lock: one upgrade at a time


class SchemaError(SpecError):
    """The schema of the database differs from the schema of this version."""


def open_database(url: str) -> Engine:
    """Return an engine with the tables of this version.

    A new SQLite file gets its tables here; other databases need `ansorpy db upgrade`.

    Raises:
        SchemaError: the tables are missing, older or newer.
    """
    engine = connect(url)
    if engine.dialect.name == "sqlite" and not is_current(engine):
        with engine.connect() as connection:
            empty = not inspect(connection).get_table_names()
        if empty:
            upgrade(engine)
    try:
        check(engine)
    except SchemaError:
        engine.dispose()
        raise
    return engine


def revision(engine: Engine) -> str | None:
    """Return the revision of the database, or None for an empty database."""
    with engine.execution_options(**{READS: True}).connect() as connection:
        return _revision(connection)


def is_current(engine: Engine) -> bool:
    """Return whether the database has the schema of this version."""
    return revision(engine) == NEEDED


def check(engine: Engine) -> None:
    """Raise SchemaError unless the database has the schema of this version."""
    schema = revision(engine)
    if schema == NEEDED:
        return
    place = engine.url.render_as_string(hide_password=True)
    with engine.connect() as connection:
        _refuse_strangers(connection)
    state = "has no tables" if schema is None else f"has schema {schema}"
    raise SchemaError(
        f"cannot use {place} because it {state}; expected schema {NEEDED}: run `ansorpy db upgrade`"
    )


def upgrade(engine: Engine) -> str:
    """Bring the database to the schema of this version, in one transaction; return its revision.

    Raises:
        SchemaError: a newer version made it, or one without migrations.
    """
    with engine.begin() as connection:
        if engine.dialect.name == POSTGRES:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
        _refuse_strangers(connection)
        _run(connection)
    return NEEDED


def local_tenant(engine: Engine) -> int:
    """Return the id of the tenant LOCAL."""
    with reading(engine) as tx:
        return tx.scalars(select(TenantRow.id).where(TenantRow.name == LOCAL)).one()


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return None if found is None else str(found)


def _refuse_strangers(connection: Connection) -> None:
    """Raise SchemaError if no migration leads from this schema to NEEDED."""
    place = connection.engine.url.render_as_string(hide_password=True)
    stored = _revision(connection)
    if stored is None and inspect(connection).has_table("records"):
        raise SchemaError(
            f"cannot upgrade {place} because a version without migrations made it; expected an"
            " empty database: move it away"
        )
    if stored is not None and stored not in KNOWN:
        raise SchemaError(
            f"cannot use {place} because a newer ansorpy made its schema {stored}; expected"
            f" {NEEDED} or older"
        )


def _run(connection: Connection) -> None:
    # A late import, because every command checks the revision, but few upgrade.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
