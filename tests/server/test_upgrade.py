from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, Table, create_engine, inspect

from ansorpy.records import IMPORTED, encode
from ansorpy.server.access import keys
from ansorpy.server.db.engine import connect, transaction
from ansorpy.server.db.models import Base
from ansorpy.server.db.records import SqlStore
from ansorpy.server.db.upgrade import (
    KNOWN,
    MIGRATIONS,
    NEEDED,
    SchemaError,
    check,
    is_current,
    local_tenant,
    open_database,
    upgrade,
)
from tests.server.databases import Cluster
from tests.server.test_lease import claim, job, recover, submit
from tests.test_records import KEY, trial


def test_the_revisions_in_the_code_are_those_of_the_folder() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert scripts.get_heads() == [NEEDED]
    assert sorted(script.revision for script in scripts.walk_revisions()) == sorted(KNOWN)


def test_an_upgrade_makes_exactly_the_tables_of_the_models(new_url: Callable[[], str]) -> None:
    engine = connect(new_url())
    assert upgrade(engine) == NEEDED
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    assert is_current(engine)
    assert upgrade(engine) == NEEDED  # a second upgrade does nothing
    assert local_tenant(engine) == 1
    engine.dispose()


def test_the_first_schema_is_upgraded_and_keeps_its_keys(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    engine = open_database(url)
    with transaction(engine) as tx:
        key, _ = keys.create(tx, "a", ("read",), 0.0)
    migrate(engine, "0001")
    assert upgrade(engine) == NEEDED
    engine.dispose()
    engine = open_database(url)
    with transaction(engine) as tx:
        assert keys.check(tx, key, 1.0) is not None
    engine.dispose()


def test_a_new_sqlite_file_gets_its_tables_at_once(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'deep' / 'a.db'}")
    assert inspect(engine).has_table("jobs")
    engine.dispose()


@pytest.mark.db
def test_a_new_postgres_database_is_not_changed_at_start(postgres: Cluster) -> None:
    with pytest.raises(SchemaError, match="has no tables; expected schema"):
        open_database(postgres.new_database())


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("9999", f"a newer ansorpy made its schema 9999; expected {NEEDED} or older"),
        (None, "a version without migrations made it; expected an empty database"),
    ],
)
def test_a_database_of_another_version_is_refused(
    url: str, revision: str | None, message: str
) -> None:
    engine = create_engine(connect(url).url)
    with engine.begin() as connection:
        if revision is None:
            connection.exec_driver_sql("DROP TABLE alembic_version")
        else:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    with pytest.raises(SchemaError, match=message):
        open_database(url)
    with pytest.raises(SchemaError, match=message):
        upgrade(engine)
    engine.dispose()


def migrate(engine: Engine, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        go = command.upgrade if revision > "0001" else command.downgrade
        go(config, revision)


def test_a_running_job_of_the_first_schema_keeps_its_lease(url: str) -> None:
    engine = open_database(url)
    job_id = submit(engine)
    claim(engine, 100.0)
    migrate(engine, "0001")
    assert "lease_s" not in {column["name"] for column in inspect(engine).get_columns("jobs")}
    with pytest.raises(SchemaError, match=f"has schema 0001; expected schema {NEEDED}"):
        check(engine)
    upgrade(engine)
    assert recover(engine, 100.0) == 0
    assert job(engine, job_id).lease_s == 30.0
    engine.dispose()


def test_records_of_the_first_schema_count_as_imported(url: str) -> None:
    engine = open_database(url)
    migrate(engine, "0001")
    fields = {
        "tenant_id": 1, "id": trial(1.0).id, "candidate": "c", "task": "", "round": 0,
        "key": KEY, "cost_s": 1.0, "body": encode(trial(1.0)),
    }  # fmt: skip
    with engine.begin() as connection:
        row = Table("records", MetaData(), autoload_with=connection)
        connection.execute(row.insert().values(fields))
    assert upgrade(engine) == NEEDED
    (record,) = SqlStore(engine, local_tenant(engine)).all(KEY)
    assert (record, record.id, record.origin) == (trial(1.0), trial(1.0).id, IMPORTED)
    engine.dispose()
