"""Calls of the client about models, against a running service."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import onnx
import pytest
from sqlalchemy import select

from ansorpy.client import Client, ServiceError
from ansorpy.errors import PackageError, SpecError
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import ModelFileRow, ModelRow
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.jobs import models
from ansorpy.server.routes.models import PAGE
from tests.client.test_client import Answer, Faulty, lost_reply, unreachable
from tests.importers.hostile import VALID, node, of
from tests.server.process import Live, process
from tests.server.test_models_route import relu


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('models') / 'ansorpy.db'}"


@pytest.fixture(scope="module")
def live(url: str) -> Iterator[Live]:
    with process(url) as found:
        yield found


@pytest.fixture
def client(live: Live) -> Iterator[Client]:
    with Client(live.url) as found:
        yield found


def file(folder: Path, content: bytes = VALID) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(content)
    return path


def test_a_model_goes_and_comes_back(client: Client, tmp_path: Path) -> None:
    digest = hashlib.sha256(VALID).hexdigest()
    made = client.model(client.put_model(file(tmp_path)))
    assert (made.sha256, made.size_bytes, made.operators) == (digest, len(VALID), {"Relu": 1})
    assert made.refusal is None
    assert client.put_model(file(tmp_path)) == digest
    assert digest in [one.sha256 for one in client.models()]
    path = client.pull_model(digest, tmp_path / "deep" / "out.onnx")
    assert path.read_bytes() == VALID
    assert [one.name for one in path.parent.iterdir()] == ["out.onnx"]
    client.delete_model(digest)
    with pytest.raises(ServiceError) as caught:
        client.model(digest)
    assert caught.value.status == 404
    with pytest.raises(ServiceError):
        client.pull_model(digest, tmp_path / "new.onnx")
    assert not (tmp_path / "new.onnx").exists()


def asked(request: httpx.Request, real: httpx.BaseTransport) -> Answer:
    return real.handle_request(request)


def test_a_file_is_sent_whole_again_after_a_fault(live: Live, tmp_path: Path) -> None:
    network = Faulty(unreachable, asked, lost_reply)
    content = relu(7)
    with Client(live.url, transport=network) as client:
        digest = client.put_model(file(tmp_path, content))
    assert [request.method for request in network.seen] == ["GET", "GET", "PUT", "PUT"]
    assert digest == hashlib.sha256(content).hexdigest()


def test_every_model_is_listed_over_pages(client: Client, url: str, tmp_path: Path) -> None:
    wanted = {client.put_model(file(tmp_path))}
    engine = open_database(url)
    with transaction(engine) as tx:
        # Copies of a row: each upload would start a process that reads the model.
        (read,) = (tx.get_one(ModelFileRow, digest) for digest in wanted)
        tenant_id = tx.scalars(select(ModelRow.tenant_id).limit(1)).one()
        for number in range(PAGE):
            digest = hashlib.sha256(bytes([number])).hexdigest()
            tx.add(
                ModelFileRow(
                    sha256=digest, size_bytes=read.size_bytes, created_s=read.created_s,
                    touched_s=read.touched_s, facts=read.facts,
                )
            )  # fmt: skip
            tx.flush()
            assert models.add(tx, tenant_id, digest, read.created_s)
            wanted.add(digest)
    engine.dispose()
    found = [one.sha256 for one in client.models()]
    assert wanted <= set(found)
    assert len(found) == len(set(found))


def test_a_model_is_simplified_from_a_file_and_by_digest(client: Client, tmp_path: Path) -> None:
    path = file(tmp_path, relu(3))
    made = client.simplify(path, keep=True)
    assert (made.before, made.after) == ({"Relu": 3}, {"Relu": 1})
    small = client.pull_model(made.sha256, tmp_path / "small.onnx")
    assert [one.op_type for one in onnx.load_model(small).graph.node] == ["Relu"]
    again = client.simplify(client.put_model(path), exact=True)
    assert (again.sha256, again.link) == (made.sha256, None)
    bound = client.simplify(file(tmp_path, relu(3, "batch")), bind={"batch": 4})
    assert bound.after == {"Relu": 1}


def test_refusals_are_errors_with_node_and_operator(client: Client, tmp_path: Path) -> None:
    path = file(tmp_path, of(node("Frob", "x")).SerializeToString())
    with pytest.raises(ServiceError, match=r"node 'Frob_node' \(Frob\)") as caught:
        client.simplify(path)
    assert (caught.value.status, caught.value.code) == (422, "spec")
    with pytest.raises(SpecError, match="cannot find model 'x' because that is no digest"):
        client.model("x")
    with pytest.raises(SpecError, match="because of No such file"):
        client.put_model(tmp_path / "nowhere.onnx")


def test_damaged_bytes_are_not_written(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = client.put_model(file(tmp_path))
    other = client.put_model(file(tmp_path, relu(2)))
    monkeypatch.setattr("ansorpy.client.model_calls._checked", lambda _: other)
    with pytest.raises(PackageError, match="expected another download"):
        client.pull_model(digest, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()
