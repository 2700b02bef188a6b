import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ansorpy.server.http.openapi import PROBLEM
from ansorpy.server.http.openapi_examples import BODIES, REPLIES, SIMPLIFY_BODIES
from ansorpy.server.schemas.model import SimplifyRequest
from ansorpy.server.schemas.problem import Problem
from tests.server.service import Service, service

SHAPES = ("job", "explain", "model", "service")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Service]:
    with service(f"sqlite:///{tmp_path}/openapi.db") as found:
        yield found


@pytest.fixture
def document(running: Service) -> Mapping[str, Any]:
    told: Mapping[str, Any] = running.client.get("/openapi.json").json()
    return told


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_the_operations_are_complete(document: Mapping[str, Any]) -> None:
    assert {f"{method} {path}": o["operationId"] for method, path, o in operations(document)} == {
        "post /v1/jobs": "submitJob",
        "get /v1/jobs": "listJobs",
        "get /v1/jobs/{job_id}": "readJob",
        "delete /v1/jobs/{job_id}": "deleteJob",
        "post /v1/jobs/{job_id}/retry": "retryJob",
        "post /v1/jobs/{job_id}/cancel": "cancelJob",
        "post /v1/jobs/{job_id}/pause": "pauseJob",
        "post /v1/jobs/{job_id}/resume": "resumeJob",
        "get /v1/jobs/{job_id}/events": "followJob",
        "get /v1/jobs/{job_id}/explain": "explainJob",
        "get /v1/jobs/{job_id}/kernels/{task}": "findKernel",
        "get /v1/jobs/{job_id}/model": "findBundle",
        "get /v1/bundles/{sha256}": "downloadBundle",
        "get /v1/kernels/{sha256}": "downloadKernel",
        "get /v1/kernels/{sha256}/{file}": "downloadKernelFile",
        "get /v1/models": "listModels",
        "put /v1/models/{model}": "putModel",
        "get /v1/models/{model}": "readModel",
        "get /v1/models/{model}/file": "downloadModel",
        "delete /v1/models/{model}": "deleteModel",
        "post /v1/simplify": "simplifyModel",
        "get /v1/passes": "listPasses",
        "get /v1/records": "exportRecords",
        "post /v1/records": "importRecords",
        "get /v1/targets": "listTargets",
        "get /v1/capabilities": "listCapabilities",
        "get /v1/plugins": "listPlugins",
        "get /v1/rules": "listRules",
        "get /v1/workers": "listWorkers",
        "get /v1/machines": "listMachines",
        "get /metrics": "metrics",
        "get /healthz": "health",
        "get /readyz": "ready",
    }


def test_every_problem_is_typed_and_has_an_example(document: Mapping[str, Any]) -> None:
    for _, path, operation in operations(document):
        for code, answer in operation["responses"].items():
            if code < "400":
                continue
            (media,) = answer["content"]
            assert media == "application/problem+json", path
            told = answer["content"][media]
            assert told["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert Problem.model_validate(told["example"]) == Problem.model_validate(PROBLEM)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_json_reply_has_an_example(document: Mapping[str, Any]) -> None:
    for _, path, operation in operations(document):
        for code, answer in operation["responses"].items():
            for media, content in answer.get("content", {}).items():
                if media == "application/json" and code < "300":
                    assert "example" in content or "schema" in content, path
                    name = content["schema"].get("$ref", "").rpartition("/")[2]
                    assert not name or content["example"] == REPLIES[name], path


def test_every_example_matches_its_model(running: Service) -> None:
    stored = running.put_model()
    models = {
        name: value
        for module in SHAPES
        for name, value in vars(import_module(f"ansorpy.server.schemas.{module}")).items()
        if isinstance(value, type) and issubclass(value, BaseModel)
    }
    for name, example in REPLIES.items():
        models[name].model_validate(example)
    for number, body in enumerate(BODIES.values()):
        own = {"model": stored} if "model" in body["value"] else {}
        reply = running.client.post("/v1/jobs", json={**body["value"], **own, "seed": number})
        assert reply.status_code == 202, reply.text
    for body in SIMPLIFY_BODIES.values():
        SimplifyRequest.model_validate(body["value"])


def test_every_parameter_is_explained(document: Mapping[str, Any]) -> None:
    for _, path, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] != "header":
                assert parameter.get("description"), f"{path}: {parameter['name']}"


def test_the_reference_is_vendored_and_small(running: Service, document: Mapping[str, Any]) -> None:
    reply = running.client.get("/docs")
    assert "img-src 'self' data:" in reply.headers["content-security-policy"]
    assert "default-src 'self'" in reply.headers["content-security-policy"]
    size_bytes = 0
    for place in re.findall(r'(?:src|href)="([^"]+\.(?:js|css))"', reply.text):
        assert place.startswith("/"), place
        part = running.client.get(place)
        assert part.status_code == 200, place
        assert "data:" not in part.headers["content-security-policy"]
        size_bytes += int(part.headers["content-length"])
    told = running.client.get("/docs/openapi.json")
    assert told.json() == document
    assert size_bytes + int(told.headers["content-length"]) < 600_000
    plain = running.client.get("/docs/swagger-ui.css", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text.startswith(".swagger-ui")
    assert running.client.get("/docs/LICENSE").status_code == 422
