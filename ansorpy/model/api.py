"""`ansorpy.tune_model` and `ansorpy.compile_model`: a model becomes a bundle.

`ansorpy.tune` and `ansorpy.load` do the same; the two names stay for one release.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from hashlib import file_digest
from os import PathLike
from pathlib import Path
from typing import Annotated, Final, TextIO

from ansorpy.bundle.load import LoadedModel, load_model
from ansorpy.errors import GraphError, SpecError
from ansorpy.folders import data_dir
from ansorpy.graph.graph import Graph
from ansorpy.importers.model_file import is_document, read_document, read_model
from ansorpy.importers.suffixes import DOCUMENT
from ansorpy.model.compile import ModelResult, compiled
from ansorpy.model.events import ModelEvent
from ansorpy.model.options import ModelOptions
from ansorpy.model.progress import model_reporter
from ansorpy.model.request import ModelRequest
from ansorpy.progress import ignore, told
from ansorpy.records import RecordStore
from ansorpy.result import records_of
from ansorpy.target import Target
from ansorpy.tuner.interrupts import follow
from ansorpy.tuner.options.keywords import keywords_of
from ansorpy.tuner.options.option import Option
from ansorpy.tuner.options.targets import target_for
from ansorpy.tuner.parts.stores import store_of
from ansorpy.tuner.requests.call_options import (
    BindOption,
    OutOption,
    ProgressOption,
    ShapesOption,
    StoreOption,
)
from ansorpy.tuner.rounds.setup import writable

__all__ = ["compile_model", "tune_model"]

Reporting = Callable[[TextIO], AbstractContextManager[Callable[[ModelEvent], None]]]

NAME_CHARACTERS: Final = 80  # characters of a model's name in the name of its bundle


@dataclass(frozen=True, slots=True)
class ModelCall(ModelOptions):
    """The arguments of `ansorpy.tune_model`."""

    model: Annotated[
        PathLike[str] | str | Graph, Option("A file of ONNX, a graph, or the .graph.json of one.")
    ]
    target: Annotated[
        Target | str | PathLike[str] | None,
        Option(
            "The machine, or its name; this one, with `cores` threads, unless given. A path of a"
            " .zip in its place is `out`."
        ),
    ] = None
    bind: BindOption = field(default_factory=dict, kw_only=True)
    shapes: ShapesOption = field(default_factory=dict, kw_only=True)
    store: StoreOption = field(default=None, kw_only=True)
    out: OutOption = field(default=None, kw_only=True)
    progress: ProgressOption = field(default=None, kw_only=True)
    on_event: Annotated[
        Callable[[ModelEvent], object], Option("Called with every event (`ansorpy.model.events`).")
    ] = field(default=ignore, kw_only=True)


@keywords_of(ModelCall)
def tune_model(call: ModelCall) -> ModelResult:
    """Tune a model and write a verified bundle of it.

    A KeyboardInterrupt ends the search: the bundle of the best so far is the result, with
    `stopped == "interrupted"`. It is raised if there is no bundle yet.

    Raises:
        SpecError: the request is wrong, or a node of the model cannot be compiled.
        RunError: the outputs of the bundle are wrong.
        KeyboardInterrupt: there was one, and there is no bundle.
    """
    target, out = call.target, call.out
    if isinstance(target, PathLike) or (isinstance(target, str) and target.endswith(".zip")):
        if out is not None:
            raise SpecError(f"cannot write {target} because out is {out}; expected one of them")
        target, out = None, target
    machine = target_for(target, call.cores)
    request = request_of(call, call.model, machine, out, call.bind, call.shapes)
    store = store_of(call.store)
    return tuned(request, store, call.progress, call.on_event)


@keywords_of(ModelCall)
def compile_model(call: ModelCall) -> LoadedModel:
    """Tune a model as `tune_model` does, and return its bundle as a callable.

    Raises:
        SpecError: the request is wrong, or a node of the model cannot be compiled.
        RunError: the outputs of the bundle are wrong.
    """
    if not isinstance(call.model, Graph) and is_document(Path(call.model)):
        raise GraphError(
            f"cannot load the bundle of {Path(call.model).name} because it has no weights; expected"
            " tune_model, and join_model with a model that has them"
        )
    told = {name: getattr(call, name) for name in ModelCall.__dataclass_fields__}
    return load_model(tune_model(**told).bundle)


def tuned(
    request: ModelRequest,
    store: RecordStore,
    progress: bool | None,
    on_event: Callable[[ModelEvent], object],
    reporting: Reporting = model_reporter,
) -> ModelResult:
    """Tune a model; show progress, and call `on_event` with every event; errors as `tune_model`."""
    events = compiled(request, store)
    with told(reporting, progress, on_event) as tell:
        result = follow(events, tell)
    return replace(result, records=records_of(result.tasks, store))


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
