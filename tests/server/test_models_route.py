"""/v1/models: PUT, list, read, download, delete; refusals before and after the body.

`make test` sends some hostile models to the service, `make test-all` all of them;
`tests.importers.test_limits` refuses all of them, in the process of the test.
"""

import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from ansorpy.errors import RunError
from ansorpy.measure.sandbox.isolation import isolation_for
from ansorpy.server.http.openapi_examples import DIGEST
from ansorpy.server.service import model_reader
from tests.importers.hostile import CASES, VALID, node, of
from tests.night import night
from tests.server.process import SOON_S, process
from tests.server.service import Service, service

MAX_REPLY_BYTES = 16 * 1024
# Each is refused by another part of the reader, or ended by a limit.
QUICK = (
    "random bytes", "extents that wrap", "link", "huge range", "endless loop", "name of code",
)  # fmt: skip


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Service]:
    with service(f"sqlite:///{tmp_path}/models.db", data_dir=tmp_path) as found:
        yield found


def relu(count: int, first: Any = 2, operator: str = "Relu") -> bytes:
    """Return a chain of Relu nodes; `first` is the first extent of the input."""
    wanted = helper.make_tensor_value_info("x", TensorProto.FLOAT, (first, 3))
    given = helper.make_tensor_value_info(f"y{count - 1}", TensorProto.FLOAT, (first, 3))
    names = ["x", *(f"y{n}" for n in range(count))]
    nodes = [helper.make_node(operator, [names[n]], [names[n + 1]]) for n in range(count)]
    graph = helper.make_graph(nodes, "g", [wanted], [given])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    return bytes(made.SerializeToString())


def put(running: Service, content: bytes, digest: str | None = None, **more: Any) -> Any:
    digest = digest or hashlib.sha256(content).hexdigest()
    return running.client.put(f"/v1/models/{digest}", content=content, **more)


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("service-*/*"))


def test_a_model_is_stored_once_and_comes_back(running: Service, tmp_path: Path) -> None:
    digest = hashlib.sha256(VALID).hexdigest()
    first, again = put(running, VALID), put(running, VALID)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.headers["location"] == f"/v1/models/{digest}"
    told = first.json()
    assert told == again.json() == running.client.get(f"/v1/models/{digest}").json()
    assert (told["sha256"], told["size_bytes"], told["refusal"]) == (digest, len(VALID), None)
    assert told["operators"] == {"Relu": 1}
    assert told["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 3]}]
    assert [one["name"] for one in told["outputs"]] == ["y"]
    (row,) = running.client.get("/v1/models").json()["models"]
    assert (row["sha256"], row["node_count"], row["refused"]) == (digest, 1, False)
    file = running.client.get(f"/v1/models/{digest}/file")
    assert (file.content, file.headers["etag"]) == (VALID, f'"{digest}"')
    part = running.client.get(f"/v1/models/{digest}/file", headers={"Range": "bytes=3-9"})
    assert (part.status_code, part.content) == (206, VALID[3:10])
    known = {"If-None-Match": file.headers["etag"]}
    assert running.client.get(f"/v1/models/{digest}/file", headers=known).status_code == 304
    head = running.client.head(f"/v1/models/{digest}/file")
    assert (head.headers["content-length"], head.content) == (str(len(VALID)), b"")
    assert running.client.delete(f"/v1/models/{digest}").status_code == 204
    for reply in (
        running.client.get(f"/v1/models/{digest}"), running.client.get(f"/v1/models/{digest}/file"),
        running.client.delete(f"/v1/models/{digest}"),
    ):  # fmt: skip
        assert (reply.status_code, reply.json()["code"]) == (404, "unknown")
    assert leftovers(tmp_path) == []


def test_the_list_has_pages(running: Service) -> None:
    digests = [put(running, relu(count)).json()["sha256"] for count in (1, 2, 3)]
    first = running.client.get("/v1/models?limit=2").json()
    rest = running.client.get(f"/v1/models?limit=2&before={first['next']}").json()
    assert [one["sha256"] for one in first["models"] + rest["models"]] == digests[::-1]
    assert rest["next"] is None


def test_a_wrong_digest_keeps_nothing(running: Service, tmp_path: Path) -> None:
    reply = put(running, VALID, DIGEST)
    assert reply.status_code == 422
    assert reply.json()["detail"] == (
        f"cannot store this model because its sha256 is {hashlib.sha256(VALID).hexdigest()};"
        " expected the digest of the address"
    )
    assert running.client.get("/v1/models").json()["models"] == []
    assert leftovers(tmp_path) == []


def test_a_file_that_is_no_model_is_refused(running: Service) -> None:
    for content in (b"", b"no model at all", VALID[: len(VALID) // 2]):
        reply = put(running, content)
        assert reply.status_code == 422
        assert "cannot read model.onnx because" in reply.json()["detail"]
    assert running.client.get("/v1/models").json()["models"] == []


@pytest.mark.parametrize(
    "name",
    ["version 1000000000 of ai.onnx", "version -1 of ai.onnx", "outputs of one name",
     "very many outputs"],
)  # fmt: skip
def test_a_model_with_odd_declarations_is_not_stored(running: Service, name: str) -> None:
    make, told = CASES[name]
    made = make()
    reply = put(running, made if isinstance(made, bytes) else made.SerializeToString())
    assert reply.status_code == 422
    assert re.search(told, reply.json()["detail"])
    assert running.client.get("/v1/models").json()["models"] == []


def test_a_model_with_a_symbolic_extent_is_kept_with_its_refusal(running: Service) -> None:
    told = put(running, relu(1, "batch")).json()
    assert told["inputs"][0]["shape"] == ["batch", 3]
    assert "batch" in told["refusal"]
    (row,) = running.client.get("/v1/models").json()["models"]
    assert row["refused"]


def test_a_job_of_a_model_that_is_known_not_to_compile_is_refused(running: Service) -> None:
    symbolic = put(running, relu(1, "batch")).json()
    assert '"bind": {"batch": 1}' in symbolic["refusal"]
    asked = {"model": symbolic["sha256"]}
    reply = running.client.post("/v1/jobs", json=asked)
    assert (reply.status_code, reply.json()["detail"]) == (422, symbolic["refusal"])
    assert "--" not in reply.text
    bound = running.client.post("/v1/jobs", json={**asked, "bind": {"batch": 1}})
    assert bound.status_code == 202, bound.text
    unknown = put(running, relu(1, operator="Twirl")).json()
    assert "Twirl" in unknown["refusal"]
    for more in ({}, {"bind": {"batch": 1}}, {"hosted": True}):
        reply = running.client.post("/v1/jobs", json={"model": unknown["sha256"], **more})
        assert (reply.status_code, reply.json()["detail"]) == (422, unknown["refusal"])


@pytest.mark.parametrize("name", night(CASES, QUICK))
def test_a_hostile_model_is_refused_without_harm(
    running: Service, tmp_path: Path, name: str
) -> None:
    made = CASES[name][0]()
    content = made if isinstance(made, bytes) else made.SerializeToString()
    reply = put(running, content)
    assert reply.status_code in (201, 422), reply.text
    if reply.status_code == 201:
        assert reply.json()["refusal"]
    assert len(reply.content) < MAX_REPLY_BYTES
    assert str(tmp_path) not in reply.text
    kind = {"Content-Type": "application/octet-stream"}
    reply = running.client.post("/v1/simplify", content=content, headers=kind)
    assert reply.status_code == 422, reply.text
    assert len(reply.content) < MAX_REPLY_BYTES
    assert str(tmp_path) not in reply.text
    assert leftovers(tmp_path) == []


def test_facts_of_many_inputs_stay_small(running: Service) -> None:
    long = "\u4e16" * 60
    names = [f"{long}{n}" for n in range(500)]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [long] * 12) for name in names]
    graph = helper.make_graph([node("Relu", names[0])], "g", inputs, [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    ])  # fmt: skip
    reply = put(running, helper.make_model(graph).SerializeToString())
    assert reply.status_code == 201, reply.text
    assert reply.json()["input_count"] == 500
    assert len(reply.content) < MAX_REPLY_BYTES


def test_a_long_file_is_refused(tmp_path: Path) -> None:
    url, most = f"sqlite:///{tmp_path}/models.db", 10_000
    with service(url, data_dir=tmp_path, max_model_bytes=most) as running:

        def parts() -> Iterator[bytes]:
            for _ in range(100):
                yield bytes(most // 10)

        for content in (bytes(most + 1), parts()):
            reply = running.client.put(f"/v1/models/{DIGEST}", content=content)
            assert reply.status_code == 413
            assert reply.json()["detail"].endswith(f"expected at most {most} bytes")
        assert leftovers(tmp_path) == []


def test_a_full_quota_is_a_429(tmp_path: Path) -> None:
    with service(f"sqlite:///{tmp_path}/models.db", max_models=1) as running:
        put(running, VALID)
        reply = put(running, relu(2))
        assert (reply.status_code, reply.json()["code"]) == (429, "quota")
        assert int(reply.headers["retry-after"]) > 0
        assert put(running, VALID).status_code == 200
        digest = hashlib.sha256(VALID).hexdigest()
        assert running.client.delete(f"/v1/models/{digest}").status_code == 204
        assert put(running, relu(2)).status_code == 201


def test_declared_bytes_are_refused_before_the_body(tmp_path: Path) -> None:
    environment = {
        "ANSORPY_MAX_MODEL_BYTES": "10000", "ANSORPY_MAX_MODELS_BYTES": "9000",
        "ANSORPY_DATA_DIR": str(tmp_path),
    }  # fmt: skip
    with process(f"sqlite:///{tmp_path}/models.db", **environment) as live:
        for method, path, size, status in (
            ("PUT", f"/v1/models/{DIGEST}", 10_001, 413),
            ("PUT", f"/v1/models/{DIGEST}", 10**18, 413),
            ("PUT", f"/v1/models/{DIGEST}", 9001, 429),
            ("POST", "/v1/simplify", 10_001, 413),
        ):
            with socket.create_connection((live.http.base_url.host, live.http.base_url.port)) as c:
                c.settimeout(SOON_S)
                head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
                c.sendall(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode())
                # No byte of the body is sent: the answer came before it.
                assert c.recv(4096).split(b" ", 2)[1] == str(status).encode(), (method, size)
        assert live.get("/healthz").status_code == 200
    assert leftovers(tmp_path) == []


def test_a_service_without_isolation_says_so(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(running, VALID)
    told = "cannot isolate; expected Landlock"

    def refuse(mode: str) -> None:
        raise RunError(told)

    monkeypatch.setattr("ansorpy.server.service.model_reader.isolation_for", refuse)
    kind = {"Content-Type": "application/octet-stream"}
    for reply in (
        put(running, relu(2)),
        running.client.post("/v1/simplify", content=VALID, headers=kind),
    ):
        assert (reply.status_code, reply.json()["code"]) == (501, "installation")
        assert reply.json()["detail"] == told
    assert len(running.client.get("/v1/models").json()["models"]) == 1
    assert running.client.get("/v1/passes").status_code == 200


def test_uploads_at_once_are_bounded(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data_dir": tmp_path, "max_uploads": 1, "max_uploads_in_all": 2}
    with service(f"sqlite:///{tmp_path}/models.db", **settings) as running:
        uploads = running.client.app.state.dependencies.uploads  # type: ignore[attr-defined]
        with uploads.folder(1):
            reply = put(running, VALID)
            assert (reply.status_code, reply.json()["code"]) == (429, "rate")
            assert int(reply.headers["retry-after"]) > 0
        with uploads.folder(2), uploads.folder(3):
            reply = put(running, VALID)
            assert (reply.status_code, reply.json()["code"]) == (503, "full")
            assert int(reply.headers["retry-after"]) > 0
        assert put(running, VALID).status_code == 201


def test_equal_files_at_once_are_one_model(url: str) -> None:
    with service(url, max_uploads=8) as running:
        content, codes = relu(3), []

        def work() -> None:
            codes.append(put(running, content).status_code)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes) == [200, 200, 200, 201]
        assert len(running.client.get("/v1/models").json()["models"]) == 1
        digest = hashlib.sha256(content).hexdigest()
        assert running.client.get(f"/v1/models/{digest}/file").content == content


def test_a_reader_that_needs_too_much_memory_is_ended(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"model_memory_bytes": 1 << 28, "data_dir": tmp_path}
    with service(f"sqlite:///{tmp_path}/models.db", **settings) as running:
        # 256 MiB are enough for the facts; the constants of this model take more.
        ones = [node("ConstantOfShape", "n", f"c{n}") for n in range(40)]
        sums = [helper.make_node("Add", ["x" if not n else f"s{n - 1}", f"c{n}"], [f"s{n}"])
                for n in range(40)]  # fmt: skip
        shape = helper.make_tensor("n", TensorProto.INT64, [2], [4096, 4096])
        content = of(*ones, *sums, tensors=[shape], outputs=("s39",)).SerializeToString()
        reply = put(running, content)
        assert reply.status_code in (201, 422)
        kind = {"Content-Type": "application/octet-stream"}
        reply = running.client.post("/v1/simplify", content=content, headers=kind)
        assert reply.status_code == 422, reply.text
        assert put(running, b"x").status_code == 422  # the service goes on
    assert onnx.load_model_from_string(content).graph.node


def test_the_reader_is_confined(
    running: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isolation_for("auto").isolates:
        pytest.skip("this machine has neither bubblewrap nor Landlock with seccomp")
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    monkeypatch.setattr(model_reader, "CHILD", "tests.server.prying_reader")
    reply = put(running, str(tmp_path).encode())
    assert reply.status_code == 422
    assert reply.json()["detail"] == "read: False, write: False, program: False, socket: False"
    assert secret.read_text() == "hidden"


def test_an_address_of_another_form_is_refused(running: Service) -> None:
    for name in ("x", "0" * 63, "G" * 64, "0" * 65, "%2e%2e"):
        for method in ("put", "get", "delete"):
            reply = running.client.request(method, f"/v1/models/{name}")
            assert reply.status_code in (404, 405, 422), (method, name)
