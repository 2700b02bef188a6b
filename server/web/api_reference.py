"""API reference: the OpenAPI document as a page without scripts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansorpy.server.web.templating import render


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter of an operation."""

    name: str
    place: str
    required: bool
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """One response of an operation."""

    status: str
    text: str
    kinds: str
    example: str


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation: a method of a path."""

    name: str
    method: str
    path: str
    tag: str
    summary: str
    secured: bool
    parameters: tuple[ParameterRow, ...]
    body: str  # an example
    responses: tuple[ResponseRow, ...]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of a model."""

    name: str
    kind: str
    text: str


def page(document: Mapping[str, Any]) -> str:
    """Return the HTML of an OpenAPI document."""
    shapes = {
        name: tuple(_fields(schema)) for name, schema in document["components"]["schemas"].items()
    }
    found = tuple(operations(document))
    tags = tuple(dict.fromkeys(operation.tag for operation in found))
    return render(
        "reference.html", info=document["info"], operations=found, tags=tags, shapes=shapes
    )


def operations(document: Mapping[str, Any]) -> Iterator[OperationRow]:
    """Yield the operations in the order of the document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield OperationRow(
                name=operation["operationId"],
                method=method.upper(),
                path=path,
                tag=operation["tags"][0],
                summary=operation.get("description", operation.get("summary", "")),
                secured=bool(operation.get("security")),
                parameters=tuple(map(_parameter, operation.get("parameters", ()))),
                body=_body(operation),
                responses=tuple(
                    _answer(status, answer)
                    for status, answer in sorted(operation["responses"].items())
                ),
            )


def _parameter(entry: Mapping[str, Any]) -> ParameterRow:
    return ParameterRow(
        entry["name"], entry["in"], entry.get("required", False), kind_of(entry["schema"]),
        entry.get("description", ""),
    )  # fmt: skip


def _body(operation: Mapping[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = content.get("examples", {})
    return "\n\n".join(
        f"{example['summary']}\n{_pretty(example['value'])}" for example in examples.values()
    )


def _answer(status: str, answer: Mapping[str, Any]) -> ResponseRow:
    content = answer.get("content", {})
    examples = [c["example"] for c in content.values() if "example" in c and status < "400"]
    return ResponseRow(
        status, answer["description"], ", ".join(content), _pretty(examples[0]) if examples else ""
    )


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2)


def _fields(schema: Mapping[str, Any]) -> Iterator[FieldRow]:
    for name, told in schema.get("properties", {}).items():
        yield FieldRow(name, kind_of(told), told.get("description", ""))


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return a short description of the type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(kind_of(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    limits = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    told = [f"{sign} {schema[key]:g}" for key, sign in limits.items() if key in schema]
    return f"{kind} {', '.join(told)}".strip()
