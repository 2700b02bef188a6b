"""OpenAPI document: FastAPI's document, with further models and examples added."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ansorpy.server.http.openapi_examples import BODIES, REPLIES, SIMPLIFY_BODIES
from ansorpy.server.schemas.job import JobRequest
from ansorpy.server.schemas.model import SimplifyRequest
from ansorpy.server.schemas.problem import MEDIA_TYPE, Problem

MODELS: Final[tuple[type[BaseModel], ...]] = (  # used by `$ref` in routes
    JobRequest,
    SimplifyRequest,
    Problem,
)
EXAMPLES: Final = {JobRequest.__name__: BODIES, SimplifyRequest.__name__: SIMPLIFY_BODIES}
REFERENCE: Final = "#/components/schemas/{model}"
ABOUT: Final = (
    "Tunes tensor computations: the input is a computation, the output a verified, fast kernel."
    " Errors are RFC 9457 problem details; times are in seconds."
)
PROBLEM: Final = {
    "type": "about:blank", "title": "Not Found", "status": 404, "code": "unknown",
    "detail": "cannot find this job because no job of yours has this id; expected an id of"
    " /v1/jobs",
    "errors": [],
}  # fmt: skip


def install_openapi(app: FastAPI) -> None:
    """Make `app.openapi()` return the extended document, built once."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, description=ABOUT, routes=app.routes
    )
    known = document.setdefault("components", {}).setdefault("schemas", {})
    _, models = models_json_schema(
        [(model, "validation") for model in MODELS], ref_template=REFERENCE
    )
    known.update({name: schema for name, schema in models["$defs"].items() if name not in known})
    for methods in document["paths"].values():
        for operation in methods.values():
            _add_examples(operation)
    return document


def _add_examples(operation: Mapping[str, Any]) -> None:
    """Add an example to every JSON body and reply of an operation."""
    bodies = operation.get("requestBody", {}).get("content", {})
    for content in bodies.values():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        if name in EXAMPLES:
            content["examples"] = EXAMPLES[name]
    for answer in operation["responses"].values():
        for media, content in answer.get("content", {}).items():
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            if media == MEDIA_TYPE:
                content["example"] = PROBLEM
            elif name in REPLIES:
                content["example"] = REPLIES[name]
