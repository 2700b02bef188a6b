"""`ansorpy.tune_model` and `ansorpy.compile_model`: a model becomes a bundle."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest
from os import PathLike
from pathlib import Path
from typing import Annotated, Final

from ansorpy.bundle.load import LoadedModel, load_model
from ansorpy.errors import GraphError, SpecError
from ansorpy.folders import data_dir
from ansorpy.graph.graph import Graph
from ansorpy.importers.model_file import DOCUMENT, is_document, read_document, read_model
from ansorpy.measure.host import local_target
from ansorpy.model.compile import ModelResult, compiled
from ansorpy.model.events import ModelEvent
from ansorpy.model.options import ModelOptions
from ansorpy.model.progress import model_reporter
from ansorpy.model.request import ModelRequest
from ansorpy.progress import ignore, told
from ansorpy.records import RecordStore
from ansorpy.target import Target
from ansorpy.tuner.experience import Experience
from ansorpy.tuner.interrupts import follow
from ansorpy.tuner.keywords import keywords_of
from ansorpy.tuner.option import Option
from ansorpy.tuner.setup import writable
from ansorpy.tuner.stores import store_of
from ansorpy.tuner.targets import named_target

__all__ = ["compile_model", "tune_model"]

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
    bind: Annotated[
        Mapping[str, float],
        Option("Values of symbolic extents and of scalar inputs by name: {'batch': 1}."),
    ] = field(default_factory=dict, kw_only=True)
    shapes: Annotated[
        Mapping[str, Sequence[int]], Option("Shapes of inputs by name: {'x': (1, 3, 224, 224)}.")
    ] = field(default_factory=dict, kw_only=True)
    store: Annotated[
        RecordStore | str | None,
        Option(
            "Records of earlier tunings, from which tasks start, and of this one; those of the"
            " commands unless given. A name is that of an installed store."
        ),
    ] = field(default=None, kw_only=True)
    out: Annotated[
        PathLike[str] | str | None,
        Option(
            "The bundle if the name ends in .zip, else its folder; in the user's data folder"
            " unless given."
        ),
    ] = field(default=None, kw_only=True)
    progress: Annotated[
        bool | None,
        Option(
            "Show progress on standard error: True, False, or None: only on a terminal and in"
            " Jupyter."
        ),
    ] = field(default=None, kw_only=True)
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
    if not isinstance(target, Target):
        target = local_target(call.cores) if target is None else named_target(target, call.cores)
    request = request_of(call, call.model, target, out, call.bind, call.shapes)
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
) -> ModelResult:
    """Tune a model; show progress, and call `on_event` with every event; errors as `tune_model`."""
    events = compiled(request, store, Experience.beside(store))
    with told(model_reporter, progress, on_event) as tell:
        return follow(events, tell)


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
    place = data_dir() / "models" if out is None else Path(out)
    if isinstance(model, Graph):
        return ModelRequest(model, target, options, _bundle(place, model.name))
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
            graph, target, options, _bundle(place, goal), document=read_document(file)
        )
    graph = read_model(file, bind, shapes, options.hosted)
    return ModelRequest(graph, target, options, _bundle(place, file.stem), file, digest)


def _bundle(place: Path, name: str) -> Path:
    """Return the path of the bundle, in a folder that is there and takes files."""
    if place.suffix == ".zip":
        return writable(place.parent) / place.name
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:NAME_CHARACTERS].lstrip(".")
    return writable(place) / f"{plain or 'model'}.zip"
