"""Files of models in the database: complete or invisible, shared, removed with their last owner."""

import hashlib
import threading
from io import BytesIO
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select

from ansorpy.server.db import model_files
from ansorpy.server.db.engine import reading, transaction
from ansorpy.server.db.models import JobRow, ModelChunkRow, ModelFileRow
from ansorpy.server.jobs import models, queries
from ansorpy.server.jobs.errors import NotFoundError, QuotaError, StateError
from ansorpy.server.jobs.models import ModelQuota
from ansorpy.server.schemas.model import ModelFacts
from ansorpy.server.service.models import ModelService
from tests.server.test_lease import add_tenant, submit

FACTS = ModelFacts(
    node_count=1, operators={"Relu": 1}, inputs=[], outputs=[], input_count=0, output_count=0,
    refusal=None,
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "CHUNK_BYTES", 100)


def data(seed: int = 0, size: int = 2345) -> bytes:
    return bytes((seed + n * n) % 251 for n in range(size))


def put(service: ModelService, folder: Path, content: bytes, tenant: int = 1) -> tuple[str, bool]:
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{digest}.{tenant}.{threading.get_ident()}"
    path.write_bytes(content)
    return digest, service.store(tenant, digest, path, FACTS)


def stored_chunks(engine: Engine) -> int:
    with reading(engine) as tx:
        return tx.scalar(select(func.count()).select_from(ModelChunkRow)) or 0


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 2345])
def test_a_file_comes_back_as_it_was(engine: Engine, tmp_path: Path, size: int) -> None:
    service = ModelService(engine)
    digest, new = put(service, tmp_path, data(size=size))
    assert new
    assert put(service, tmp_path, data(size=size)) == (digest, False)
    found = service.find(1, digest)
    assert (found.sha256, found.size_bytes, found.facts) == (
        digest, size, FACTS.model_dump_json()
    )  # fmt: skip
    service.export(1, digest, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data(size=size)
    with pytest.raises(FileExistsError):
        service.export(1, digest, tmp_path / "out")


def test_tenants_share_a_file_and_do_not_see_it(engine: Engine, tmp_path: Path) -> None:
    service, other = ModelService(engine), add_tenant(engine, "b")
    digest, _ = put(service, tmp_path, data())
    for ask in (service.find, service.delete):
        with pytest.raises(NotFoundError, match="no model of yours has this digest"):
            ask(other, digest)
    with pytest.raises(NotFoundError):
        service.export(other, digest, tmp_path / "out")
    assert put(service, tmp_path, data(), other) == (digest, True)
    assert stored_chunks(engine) == model_files.chunk_count(len(data()))
    service.delete(1, digest)
    service.export(other, digest, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data()
    service.delete(other, digest)
    assert stored_chunks(engine) == 0
    with reading(engine) as tx:
        assert tx.get(ModelFileRow, digest) is None


def test_models_are_listed_newest_first(engine: Engine, tmp_path: Path) -> None:
    service = ModelService(engine)
    digests = [put(service, tmp_path, data(seed))[0] for seed in range(5)]
    found: list[str] = []
    before: int | None = None
    while True:
        with reading(engine) as tx:
            page, before = models.list_models(tx, 1, before, limit=2)
        assert len(page) <= 2
        found += [one.sha256 for one in page]
        if before is None:
            break
    assert found == digests[::-1]


def test_a_model_of_a_live_job_cannot_be_deleted(engine: Engine, tmp_path: Path) -> None:
    service = ModelService(engine)
    digest, _ = put(service, tmp_path, data())
    job_id = submit(engine)
    with transaction(engine) as tx:
        queries.find(tx, 1, job_id).model = digest
    with pytest.raises(StateError, match="a job that has not ended uses it"):
        service.delete(1, digest)
    with transaction(engine) as tx:
        queries.cancel(tx, 1, job_id, 1.0)
    service.delete(1, digest)
    with reading(engine) as tx:
        assert tx.scalar(select(JobRow.model).where(JobRow.id == job_id)) == digest


def test_the_quota_counts_models_and_bytes(engine: Engine, tmp_path: Path) -> None:
    service = ModelService(engine, ModelQuota(models=2, size_bytes=5000))
    put(service, tmp_path, data(0))
    with pytest.raises(QuotaError, match="at most 5000 bytes of models: delete one"):
        put(service, tmp_path, data(1, 3000))
    digest, _ = put(service, tmp_path, data(1))
    with pytest.raises(QuotaError, match="at most 2 models: delete one"):
        put(service, tmp_path, data(2, 1))
    assert put(service, tmp_path, data(1)) == (digest, False)  # it takes no more room
    service.delete(1, digest)
    put(service, tmp_path, data(2, 1))


def test_a_killed_upload_is_invisible_and_swept(engine: Engine, tmp_path: Path) -> None:
    service, digest = ModelService(engine), hashlib.sha256(data()).hexdigest()
    assert model_files.write(engine, digest, len(data()), BytesIO(data()))
    with pytest.raises(NotFoundError):
        service.find(1, digest)
    assert model_files.sweep(engine) == 0  # it may be under way, on another machine
    with transaction(engine) as tx:
        tx.get_one(ModelFileRow, digest).touched_s -= 2 * model_files.ABANDONED_S
    assert model_files.sweep(engine) == 1
    assert stored_chunks(engine) == 0
    assert put(service, tmp_path, data()) == (digest, True)
    with transaction(engine) as tx:
        tx.get_one(ModelFileRow, digest).touched_s -= 2 * model_files.ABANDONED_S
    assert model_files.sweep(engine) == 0


def test_an_upload_completes_a_killed_upload(engine: Engine, tmp_path: Path) -> None:
    digest, content = hashlib.sha256(data()).hexdigest(), data()
    model_files.write(engine, digest, len(content), BytesIO(content))
    with transaction(engine) as tx:
        tx.delete(tx.get_one(ModelChunkRow, (digest, 3)))
    with transaction(engine) as tx:
        assert model_files.lock_complete(tx, digest) is None
    service = ModelService(engine)
    put(service, tmp_path, content)
    service.export(1, digest, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content


def test_concurrent_stores_and_deletes_leave_no_part_of_a_file(
    engine: Engine, tmp_path: Path
) -> None:
    service = ModelService(engine)
    tenants = [add_tenant(engine, name) for name in "bcd"]
    digest = hashlib.sha256(data()).hexdigest()
    errors: list[BaseException] = []

    def work(tenant: int) -> None:
        try:
            for _ in range(4):
                put(service, tmp_path, data(), tenant)
                target = tmp_path / f"out.{tenant}"
                service.export(tenant, digest, target)
                assert target.read_bytes() == data()
                target.unlink()
                service.delete(tenant, digest)
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(tenant,)) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert stored_chunks(engine) == 0
