"""/v1/simplify and /v1/passes: the report, the file, refusals by node and operator, limits."""

import hashlib
from collections.abc import Iterator
from inspect import getdoc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ansorpy.graph.passes import PASSES
from tests.importers.hostile import VALID, node, of
from tests.server.service import Service, service
from tests.server.test_models_route import leftovers, put, relu

ROWS = (  # rows of a docstring, and the fields that have their text
    ("", "summary"), ("Condition", "condition"), ("Rewrite", "rewrite"),
    ("Not handled", "not_handled"), ("Rounding", "rounding"), ("Source", "source"),
)  # fmt: skip
FILE = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Service]:
    with service(f"sqlite:///{tmp_path}/simplify.db", data_dir=tmp_path) as found:
        yield found


def scaled_conv() -> bytes:
    """Return a convolution with a batch normalisation behind it, and two copies."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.uniform(0.5, 1.0, shape).astype(np.float32), name)
        for name, shape in (("w", (4, 3, 3, 3)), ("s", 4), ("b", 4), ("m", 4), ("v", 4))
    ]
    nodes = [
        node("Identity", "x", "i"), node("Conv", "i w", "c"), node("Identity", "c", "j"),
        node("BatchNormalization", "j s b m v"),
    ]  # fmt: skip
    wanted = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [wanted], [given], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    return bytes(made.SerializeToString())


def simplify(running: Service, content: bytes, query: str = "", **headers: str) -> Any:
    return running.client.post(f"/v1/simplify{query}", content=content, headers={**FILE, **headers})


def test_the_report_tells_passes_and_counts(running: Service, tmp_path: Path) -> None:
    reply = simplify(running, scaled_conv())
    assert reply.status_code == 200, reply.text
    told = reply.json()
    assert told["before"] == {"Identity": 2, "Conv": 1, "BatchNormalization": 1}
    assert told["after"] == {"Conv": 1}
    fired = {one["name"]: one for one in told["fired"]}
    assert fired["batch_norm"] == {"name": "batch_norm", "sites": 1, "nodes_removed": 1}
    assert told["compared_by"] == "onnx.reference"
    assert 0 <= told["error"] <= 2e-5
    assert told["link"] is None
    assert running.client.get("/v1/models").json()["models"] == []
    assert leftovers(tmp_path) == []


def test_exact_leaves_out_passes_that_change_roundings(running: Service) -> None:
    told = simplify(running, scaled_conv(), "?exact=true").json()
    assert told["after"] == {"Conv": 1, "BatchNormalization": 1}
    assert told["error"] == 0.0


def test_accept_returns_the_file_of_the_report(running: Service) -> None:
    told = simplify(running, scaled_conv()).json()
    reply = simplify(running, scaled_conv(), Accept="application/octet-stream")
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["etag"] == f'"{told["sha256"]}"'
    assert hashlib.sha256(reply.content).hexdigest() == told["sha256"]
    assert len(reply.content) == told["size_bytes"]
    graph = onnx.load_model_from_string(reply.content).graph
    assert [one.op_type for one in graph.node] == ["Conv"]


def test_a_stored_model_is_simplified_and_kept(running: Service) -> None:
    digest = running.put_model(scaled_conv())
    told = running.client.post("/v1/simplify?keep=true", json={"model": digest}).json()
    assert told["link"] == f"/v1/models/{told['sha256']}/file"
    file = running.client.get(told["link"]).content
    assert hashlib.sha256(file).hexdigest() == told["sha256"]
    kept = running.client.get(f"/v1/models/{told['sha256']}").json()
    assert (kept["operators"], kept["refusal"]) == ({"Conv": 1}, None)
    assert len(running.client.get("/v1/models").json()["models"]) == 2


def test_symbolic_extents_are_bound(running: Service) -> None:
    digest = running.put_model(relu(2, "batch"))
    asked: dict[str, Any] = {"model": digest}
    reply = running.client.post("/v1/simplify", json=asked)
    assert (reply.status_code, reply.json()["code"]) == (422, "spec")
    assert "batch" in reply.json()["detail"]
    told = running.client.post("/v1/simplify", json={**asked, "bind": {"batch": 4}}).json()
    assert (told["before"], told["after"]) == ({"Relu": 2}, {"Relu": 1})
    told = running.client.post("/v1/simplify", json={**asked, "shapes": {"x": [5, 3]}}).json()
    assert told["after"] == {"Relu": 1}
    reply = running.client.post("/v1/simplify", json={**asked, "bind": {"size": 4}})
    assert reply.status_code == 422
    assert "the model has no such input or extent" in reply.json()["detail"]


def test_a_refusal_names_node_and_operator(running: Service) -> None:
    reply = simplify(running, of(node("Frob", "x")).SerializeToString())
    assert reply.status_code == 422
    assert reply.json()["detail"] == (
        "cannot compile node 'Frob_node' (Frob) because operator 'Frob' has no kernel; expected an"
        " operator of the list in docs/operators.md"
    )


@pytest.mark.parametrize(
    "body",
    [
        {}, {"model": "x"}, {"model": None}, {"model": "0" * 64, "more": 1},
        {"model": "0" * 64, "bind": {"n": "1"}}, {"model": "0" * 64, "bind": {"n": 1e300}},
        {"model": "0" * 64, "shapes": {"x": [-1]}}, {"model": "0" * 64, "shapes": {"x": [1.5]}},
        {"model": "0" * 64, "bind": {f"n{n}": 1 for n in range(65)}},
        {"model": "0" * 64, "bind": {"Xcanary9q" * 50: 1}},
        {"model": "0" * 64, "shapes": {"Xcanary9q": ["x"]}},
    ],
    ids=range(11),
)  # fmt: skip
def test_a_malformed_request_is_a_problem(running: Service, body: Any) -> None:
    reply = running.client.post("/v1/simplify", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "shape")
    assert "Xcanary9q" not in reply.text


def test_an_unknown_model_is_not_found(running: Service) -> None:
    reply = running.client.post("/v1/simplify", json={"model": "0" * 64})
    assert (reply.status_code, reply.json()["code"]) == (404, "unknown")


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "", "application/zip"])
def test_other_types_of_bodies_are_refused(running: Service, kind: str) -> None:
    reply = running.client.post("/v1/simplify", content=VALID, headers={"Content-Type": kind})
    assert (reply.status_code, reply.json()["code"]) == (415, "type")


def test_simplifications_at_once_are_bounded(running: Service) -> None:
    slots = running.client.app.state.dependencies.reader.slots  # type: ignore[attr-defined]
    with slots.taken(1):
        reply = simplify(running, VALID)
        assert (reply.status_code, reply.json()["code"]) == (429, "rate")
        assert int(reply.headers["retry-after"]) > 0
    with slots.taken(2), slots.taken(3):
        reply = simplify(running, VALID)
        assert (reply.status_code, reply.json()["code"]) == (503, "full")
        assert int(reply.headers["retry-after"]) > 0
    assert simplify(running, VALID).status_code == 200


def test_a_full_quota_keeps_nothing(tmp_path: Path) -> None:
    with service(f"sqlite:///{tmp_path}/simplify.db", max_models=1) as running:
        digest = running.put_model(scaled_conv())
        reply = running.client.post("/v1/simplify?keep=true", json={"model": digest})
        assert (reply.status_code, reply.json()["code"]) == (429, "quota")
        assert running.client.post("/v1/simplify", json={"model": digest}).status_code == 200
        assert len(running.client.get("/v1/models").json()["models"]) == 1


def test_a_foreign_page_simplifies_nothing(running: Service) -> None:
    reply = simplify(running, VALID, Origin="https://evil.example")
    assert (reply.status_code, reply.json()["code"]) == (403, "origin")
    reply = put(running, VALID, headers={"Sec-Fetch-Site": "cross-site"})
    assert (reply.status_code, reply.json()["code"]) == (403, "origin")


def test_the_passes_are_those_of_the_manager(running: Service) -> None:
    reply = running.client.get("/v1/passes")
    assert len(reply.content) < 16 * 1024
    told = reply.json()["passes"]
    assert [(one["name"], one["exact"]) for one in told] == [(p.name, p.exact) for p in PASSES]
    for one, known in zip(told, PASSES, strict=True):
        words = (getdoc(known.apply) or "").split()
        seen = [word for label, key in ROWS if one[key] for word in f"{label} {one[key]}".split()]
        assert seen == words, one["name"]
