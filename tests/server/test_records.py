from collections.abc import Callable

import pytest
from sqlalchemy import Engine, insert, update

from ansorpy.records import MEASURED, RecordStore, encode
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import RecordRow, TenantRow
from ansorpy.server.db.records import FEW, SqlStore
from ansorpy.server.db.upgrade import local_tenant, open_database
from tests.test_records import KEY, StoreContract, trial


class TestSqlStore(StoreContract):
    @pytest.fixture
    def make(self, engine: Engine) -> Callable[[], RecordStore]:
        return lambda: SqlStore(engine, local_tenant(engine))


def test_sqlite_is_durable_and_waits_for_other_writers(tmp_path: object) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/jobs.db")
    with transaction(engine) as tx:
        pragmas = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        connection = tx.connection()
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]
    assert values == ["wal", 2, 30000, 1]
    engine.dispose()


def test_a_stored_record_that_cannot_be_decoded_is_skipped(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """A record of an older version must not end every tuning of its task."""
    store = SqlStore(engine, local_tenant(engine))
    store.append([trial(0.5), trial(1.0)], MEASURED)
    with transaction(engine) as tx:
        broken = {RecordRow.body: encode(trial(0.5)).replace("0.5", "-0.5")}
        tx.execute(update(RecordRow).where(RecordRow.cost_s == 0.5).values(broken))
    assert store.all(KEY) == (trial(1.0),)
    assert tuple(store.export()) == (trial(1.0),)
    assert store.best(KEY) == trial(1.0)
    assert "skipping a stored record: not a record: times_s" in caplog.text


def test_the_best_record_is_found_behind_many_that_cannot_be_decoded(engine: Engine) -> None:
    store = SqlStore(engine, local_tenant(engine))
    broken = [trial(0.1 + 0.01 * n) for n in range(2 * FEW + 1)]
    store.append([*broken, trial(1.0), trial(2.0)], MEASURED)
    with transaction(engine) as tx:
        tx.execute(update(RecordRow).where(RecordRow.cost_s < 0.5).values(body="{}"))
    assert store.best(KEY) == trial(1.0)


def test_tenants_do_not_see_each_others_records(engine: Engine) -> None:
    with transaction(engine) as tx:
        tx.execute(insert(TenantRow), {"name": "other", "created_s": 0.0})
    own, other = SqlStore(engine, 1), SqlStore(engine, 2)
    own.append([trial(2.0)])
    other.append([trial(1.0), trial(2.0)])
    assert (own.count(), other.count()) == (1, 2)
    assert own.all(KEY) == (trial(2.0),)
    assert own.best(KEY) == trial(2.0)
    assert tuple(own.export()) == (trial(2.0),)
