"""The schema of a database against the one this version needs: look, refuse, upgrade."""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, inspect, select, text

from ansorpy.errors import SpecError
from ansorpy.server.db.engine import POSTGRES, connect, transaction
from ansorpy.server.db.models import TenantRow

MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
KNOWN: Final = ("0001", "0002", "0003", "0004")  # all revisions there, oldest first
NEEDED: Final = KNOWN[-1]
LOCAL: Final = "local"  # the tenant of whoever needs no key: the command line, a loopback client
LOCK: Final = 0x616E736F72  # PostgreSQL advisory lock: one upgrade at a time


class SchemaError(SpecError):
    """The database has another schema than this version needs; the message says what to do."""


def open_database(url: str) -> Engine:
    """Return an engine whose tables are those of this version.

    A new SQLite file gets them at once; any other database only by `ansorpy db upgrade`.

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
    """Return the revision of the database, None where it has none."""
    with engine.connect() as connection:
        return _revision(connection)


def is_current(engine: Engine) -> bool:
    """Return whether the database has the schema of this version."""
    return revision(engine) == NEEDED


def check(engine: Engine) -> None:
    """Raise SchemaError unless the database has the schema of this version."""
    found = revision(engine)
    if found == NEEDED:
        return
    place = engine.url.render_as_string(hide_password=True)
    with engine.connect() as connection:
        _refuse_strangers(connection)
    state = "has no tables yet" if found is None else f"has schema {found}, {NEEDED} is needed"
    raise SchemaError(f"{place} {state}: run `ansorpy db upgrade`")


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
    """Return the id of the tenant of whoever needs no key."""
    with transaction(engine) as tx:
        return tx.scalars(select(TenantRow.id).where(TenantRow.name == LOCAL)).one()


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return None if found is None else str(found)


def _refuse_strangers(connection: Connection) -> None:
    """Raise SchemaError where no migration leads from this schema to ours."""
    place = connection.engine.url.render_as_string(hide_password=True)
    found = _revision(connection)
    if found is None and inspect(connection).has_table("records"):
        raise SchemaError(
            f"{place} was made by a version without migrations, which nothing can upgrade:"
            " move it away and start with an empty one"
        )
    if found is not None and found not in KNOWN:
        raise SchemaError(
            f"{place} has schema {found}, which a newer ansorpy made; this one knows {NEEDED}"
        )


def _run(connection: Connection) -> None:
    # Here, not above: every command looks at the revision, few change it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
