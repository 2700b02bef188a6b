"""Jobs of graphs without weights: submission, reuse, refusals, and a real worker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ansorpy.bundle.load import load_model
from ansorpy.errors import PackageError
from ansorpy.model.home import home_model
from ansorpy.model.join import join_model
from ansorpy.server.app import create_app
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.jobs.submission import ModelSource, Submission
from ansorpy.server.settings import ServiceSettings
from tests.graph.wire.hostile import BUILT, READ, valid
from tests.server.databases import ON_SQLITE
from tests.server.onnx_models import small
from tests.server.service import Service, service
from tests.server.test_service import ENDED, wait_for

LIMIT_S = 400.0
BIND = {"batch": 2}


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def graph_of(path: Path) -> dict[str, Any]:
    """Return the document of a model file."""
    return home_model(path, BIND).sent.document.json


def test_a_submission_of_a_graph_is_stored_whole() -> None:
    asked = Submission((), model=ModelSource("0" * 64, graph='{"ansorpy_graph":1}'))
    again = Submission.of(asked.document)
    assert again.model == asked.model
    assert again.workload == asked.workload


def test_other_weights_of_the_same_graph_are_the_same_job(running: Service, tmp_path: Path) -> None:
    first, second, other = (
        small(tmp_path / f"{n}.onnx", node, seed)
        for n, (node, seed) in enumerate((("Relu", 0), ("Relu", 1), ("Sigmoid", 1)))
    )

    def post(path: Path) -> Any:
        return running.client.post("/v1/jobs", json={"graph": graph_of(path)})

    one, two, three = (post(path) for path in (first, second, other))
    assert one.status_code == 202, one.text
    assert (two.json()["how"], two.json()["id"]) == ("coalesced", one.json()["id"])
    assert three.json()["how"] == "created"
    assert one.json()["model"]["sha256"] == home_model(first, BIND).sent.document.sha256
    text = running.client.get(f"/v1/jobs/{one.json()['id']}").text
    assert "batch" not in text
    assert "head" not in text


def test_a_graph_of_another_tenant_is_a_job_of_its_own(running: Service) -> None:
    asked = {"graph": valid()}
    one = running.client.post("/v1/jobs", json=asked).json()
    headers = running.key("other", "tune", "read")
    two = running.client.post("/v1/jobs", json=asked, headers=headers).json()
    assert (one["how"], two["how"]) == ("created", "created")
    assert running.client.get(f"/v1/jobs/{one['id']}", headers=headers).status_code == 404


@ON_SQLITE  # none reaches a database
def test_a_hostile_document_is_refused_at_once(running: Service) -> None:
    documents = {name: make() for name, (make, _) in READ.items()}
    for name, document in documents.items():
        if document != []:
            reply = running.client.post("/v1/jobs", json={"graph": document})
            assert reply.status_code in (413, 422), (name, reply.text)
            assert len(reply.content) < 4096, name


def test_a_refusal_names_the_place(running: Service) -> None:
    document = valid()
    document["nodes"][1]["inputs"][0] = 7
    reply = running.client.post("/v1/jobs", json={"graph": document})
    assert reply.status_code == 422
    assert reply.json()["detail"] == (
        "cannot take graph.nodes.1.inputs.0 because its value does not fit; expected the"
        " number of a value, below 4"
    )


@pytest.mark.parametrize(
    "more", [{"bind": {"batch": 1}}, {"shapes": {"x": [4]}}, {"model": "0" * 64}]
)
def test_a_graph_takes_neither_extents_nor_another_source(
    running: Service, more: dict[str, Any]
) -> None:
    assert running.client.post("/v1/jobs", json={"graph": valid(), **more}).status_code == 422


def test_absent_weights_are_limited_like_models(url: str) -> None:
    document = valid()
    document["weights"][0]["shape"] = [20, 3, 3, 3]
    with service(url, max_model_bytes=1024) as found:
        reply = found.client.post("/v1/jobs", json={"graph": document})
    assert reply.status_code == 422
    assert "have 2160 bytes, limit 1024" in reply.json()["detail"]


@pytest.mark.night
def test_a_graph_is_tuned_once_for_models_of_other_weights_and_joined_at_home(
    tmp_path: Path,
) -> None:
    settings = ServiceSettings(data_dir=tmp_path, poll_s=0.05)
    first, second = (small(tmp_path / f"{seed}.onnx", seed=seed) for seed in (0, 1))
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        running = Service(client, open_database(settings.url))

        def done(path: Path, **changes: Any) -> Any:
            asked = {"graph": graph_of(path), "budget": {"trials": 8}, **changes}
            reply = client.post("/v1/jobs", json=asked)
            return wait_for(client, reply.json()["id"], *ENDED, limit_s=LIMIT_S)

        one = done(first)
        assert one["state"] == "succeeded", one["reason"]
        assert one["trials"] > 0
        answered = client.post(
            "/v1/jobs", json={"graph": graph_of(second), "budget": {"trials": 8}}
        )
        assert (answered.status_code, answered.json()["id"]) == (200, one["id"])
        two = done(second, hosted=True)  # an option that makes another job of the same tasks
        assert (two["state"], two["trials"]) == ("succeeded", 0), two["reason"]
        bare = tmp_path / "bare.zip"
        bare.write_bytes(client.get(f"/v1/jobs/{two['id']}/model").content)
        with pytest.raises(PackageError, match="because it has no weights"):
            load_model(bare)
        for path in (first, second):
            made = join_model(bare, path, tmp_path / f"{path.stem}.zip", BIND)
            assert made.error <= made.bound
            with load_model(made.bundle) as model:
                assert model.selftest() == []
        failed = client.post("/v1/jobs", json={"graph": BUILT["an unknown operator"][0]()})
        job = wait_for(client, failed.json()["id"], *ENDED, limit_s=LIMIT_S)
        assert job["state"] == "failed"
        assert "nodes[0]" in job["reason"]
        assert str(tmp_path) not in job["reason"]
        running.engine.dispose()
