"""The tuning of a model for people, with progress on a terminal and a bundle at the end."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import file_digest
from os import PathLike
from pathlib import Path
from typing import Final, TextIO

from ansorpy.errors import GraphError
from ansorpy.folders import data_dir
from ansorpy.graph.graph import Graph
from ansorpy.importers.model_file import is_document, read_document, read_model
from ansorpy.importers.suffixes import DOCUMENT
from ansorpy.model.compile import ModelResult, compiled
from ansorpy.model.events import ModelEvent
from ansorpy.model.options import ModelOptions
from ansorpy.model.progress import model_reporter
from ansorpy.model.request import ModelRequest
from ansorpy.progress import told
from ansorpy.records import RecordStore
from ansorpy.result import records_of
from ansorpy.target import Target
from ansorpy.tuner.interrupts import follow
from ansorpy.tuner.rounds.setup import writable

Reporting = Callable[[TextIO], AbstractContextManager[Callable[[ModelEvent], None]]]

NAME_CHARACTERS: Final = 80  # characters of a model's name in the name of its bundle


def tuned(
    request: ModelRequest,
    store: RecordStore,
    progress: bool | None,
    on_event: Callable[[ModelEvent], object],
    reporting: Reporting = model_reporter,
) -> ModelResult:
    """Tune a model; show progress, and call `on_event` with every event; errors as of `tune`."""
    events = compiled(request, store)
    with told(reporting, progress, on_event) as tell:
        result = follow(events, tell)
    records = records_of(result.tasks, store)
    return replace(result, records=records, target=request.target)


def request_of(
    options: ModelOptions,
    model: PathLike[str] | str | Graph,
    target: Target,
    out: PathLike[str] | str | None,
    bind: Mapping[str, float],
    shapes: Mapping[str, Sequence[int]],
) -> ModelRequest:
    """Return the request for a model.

    Raises:
        SpecError: the file is no model, or `out` takes no files.
    """
    if isinstance(model, Graph):
        return ModelRequest(model, target, options, bundle_path(out, model.name))
    file = Path(model)
    try:
        with file.open("rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise GraphError(
            f"cannot read {file} because of {error.strerror}; expected an ONNX model"
        ) from error
    if is_document(file):
        graph, goal = read_model(file, bind, shapes, options.hosted), file.name[: -len(DOCUMENT)]
        return ModelRequest(
            graph, target, options, bundle_path(out, goal), document=read_document(file)
        )
    graph = read_model(file, bind, shapes, options.hosted)
    return ModelRequest(graph, target, options, bundle_path(out, file.stem), file, digest)


def bundle_path(out: PathLike[str] | str | None, name: str) -> Path:
    """Return the path of the bundle of a model, in a folder that is there and takes files.

    Args:
        out: its folder, or its path if it ends in .zip; None: the data folder.
    """
    place = data_dir() / "models" if out is None else Path(out)
    if place.suffix == ".zip":
        return writable(place.parent) / place.name
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:NAME_CHARACTERS].lstrip(".")
    return writable(place) / f"{plain or 'model'}.zip"
