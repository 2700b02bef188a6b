"""Calls of the client about models: ONNX files of the service, by digest."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final

from ansorpy.client.connection import Connection, ServiceError
from ansorpy.client.model import value_of
from ansorpy.errors import PackageError, SpecError
from ansorpy.te.bindings import bound_as_json
from ansorpy.units import counted, size

READ_S: Final = 300.0  # time for a reply: the service reads the model first
FILE_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\]{1,128}")  # names that a service keeps
DIGITS: Final = 64  # number of hex digits of a digest
SHOWN_DIGITS: Final = 12  # digits of a digest in a repr


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the service; sizes in bytes, times since the epoch.

    `refusal` is the reason why it cannot be compiled without values of its symbolic extents, None
    if it can; `inputs` and `outputs` are objects with `name`, `dtype` and `shape`.
    """

    sha256: str
    size_bytes: int
    created_s: float
    node_count: int
    operators: Mapping[str, int] = field(default_factory=dict)
    inputs: Sequence[Mapping[str, Any]] = ()
    outputs: Sequence[Mapping[str, Any]] = ()
    input_count: int = 0
    output_count: int = 0
    refusal: str | None = None
    name: str = ""  # the file name; "" if no upload told it

    def __repr__(self) -> str:
        arrays = f"{counted(self.input_count, 'input')}, {counted(self.output_count, 'output')}"
        refused = "" if self.refusal is None else ", refused without values of its symbolic extents"
        facts = f"{counted(self.node_count, 'node')}, {arrays}, {size(self.size_bytes)}{refused}"
        return f"<model {self.name or self.sha256[:SHOWN_DIGITS]}: {facts}>"


@dataclass(frozen=True, slots=True)
class ModelLine:
    """A model in a list."""

    sha256: str
    size_bytes: int
    created_s: float
    node_count: int
    refused: bool = False
    name: str = ""  # the file name; "" if no upload told it

    def __repr__(self) -> str:
        refused = ", refused without values of its symbolic extents" if self.refused else ""
        facts = f"{counted(self.node_count, 'node')}, {size(self.size_bytes)}{refused}"
        return f"<model {self.name or self.sha256[:SHOWN_DIGITS]}: {facts}>"


@dataclass(frozen=True, slots=True)
class Simplification:
    """Nodes of a model by operator before and after the passes that fired, and their check.

    `error` is the largest difference on random inputs, as a share of an output's largest element;
    `sha256` the digest of the simplified file.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    fired: Sequence[Mapping[str, Any]]
    compared_by: str
    error: float
    sha256: str
    size_bytes: int
    error_of_original: float | None = None
    error_of_simplified: float | None = None
    link: str | None = None

    def __repr__(self) -> str:
        nodes = f"{sum(self.before.values())} to {sum(self.after.values())} nodes"
        facts = f"{nodes} by {len(self.fired)} passes, error {self.error:.1e}"
        return f"<simplification {self.sha256[:SHOWN_DIGITS]}: {facts}>"


class ModelCalls:
    """The part of `Client` for models."""

    _connection: Connection

    def put_model(self, path: Path | str) -> str:
        """Store an ONNX file at the service, unless it has it; return its sha256.

        Raises:
            SpecError: the file cannot be read.
            ServiceError: the file is no model (422), too long (413), or over the quota (429).
        """
        digest = _digest_of(Path(path))
        try:
            self.model(digest)
        except ServiceError as error:
            if error.status != 404:
                raise
            place = f"/v1/models/{digest}"
            name = Path(path).name
            query = {"name": name if FILE_NAME.fullmatch(name) else None}
            self._connection.send("PUT", place, query=query, file=Path(path), read_timeout_s=READ_S)
        return digest

    def model(self, digest: str) -> Model:
        """Return the facts of a model."""
        return value_of(Model, self._connection.get(f"/v1/models/{_checked(digest)}"))

    def models(self) -> Iterator[ModelLine]:
        """Yield your models, newest first, a page at a time."""
        before: int | None = None
        while True:
            told = self._connection.get("/v1/models", before=before)
            yield from (value_of(ModelLine, one) for one in told["models"])
            before = told["next"]
            if before is None:
                return

    def pull_model(self, digest: str, path: Path) -> Path:
        """Write the file of a model to a path and return it.

        Raises:
            ServiceError: there is no such model.
            PackageError: the bytes have another digest, or the file cannot be written.
        """
        place = f"/v1/models/{_checked(digest)}/file"
        return download_checked(self._connection, place, digest, path)

    def delete_model(self, digest: str) -> None:
        """Delete a model; ServiceError 409 if a job that has not ended uses it."""
        self._connection.send("DELETE", f"/v1/models/{_checked(digest)}")

    def simplify(
        self,
        model: Path | str,
        *,
        bind: Mapping[str, float | str] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        exact: bool = False,
        keep: bool = False,
    ) -> Simplification:
        """Run the graph passes on a model in the service and return the report.

        Args:
            model: an ONNX file, which is stored first if there are bindings, or the digest of a
                model of the service.
            bind: values of symbolic extents and scalar inputs, by name; "1..8" or a `te.dim` is a
                range.
            shapes: shapes of inputs, by name.
            exact: leave out passes that change roundings.
            keep: store the simplified file as a model, for `pull_model`.

        Raises:
            SpecError: the file cannot be read, or the digest is none.
            ServiceError: a node cannot be compiled (422), or another simplification of yours is in
                progress (429).
        """
        query = {name: "true" for name, on in (("exact", exact), ("keep", keep)) if on}
        given = {
            "bind": bound_as_json(bind or {}),
            "shapes": {k: list(v) for k, v in (shapes or {}).items()},
        }
        if isinstance(model, Path) and (bind or shapes):
            model = self.put_model(model)
        if isinstance(model, Path):
            reply = self._connection.send(
                "POST", "/v1/simplify", query=query, file=model, read_timeout_s=READ_S
            )
        else:
            body = {"model": _checked(model), **given}
            reply = self._connection.send(
                "POST", "/v1/simplify", query=query, body=body, read_timeout_s=READ_S
            )
        return value_of(Simplification, reply.json())


def download_checked(connection: Connection, place: str, digest: str, path: Path) -> Path:
    """Write a file of the service to a path, if its sha256 is `digest`, and return the path.

    Raises:
        ServiceError: there is no such file.
        PackageError: the bytes have another digest, or the file cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w+b") as file:
            connection.download(place, file)
            file.seek(0)
            found = file_digest(file, "sha256").hexdigest()
        if found != digest:
            raise PackageError(
                f"cannot use {place} because its sha256 is {found[:12]}; expected another download"
            )
        partial.replace(path)
    except OSError as error:
        raise PackageError(f"{path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    return path


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SpecError(
            f"cannot read {path} because of {error.strerror}; expected an ONNX model"
        ) from error


def _checked(digest: str) -> str:
    if len(digest) != DIGITS or set(digest) - set("0123456789abcdef"):
        raise SpecError(
            f"cannot find model {digest[:DIGITS]!r} because that is no digest; expected {DIGITS}"
            " hex digits"
        )
    return digest
