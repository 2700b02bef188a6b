"""The tuning of the model of a job, in the tuner process."""

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from ansorpy.errors import SpecError
from ansorpy.graph.graph import Graph
from ansorpy.importers.model_file import read_model
from ansorpy.measure.host import local_target
from ansorpy.model.compile import ModelRequest, ModelResult, compiled
from ansorpy.model.events import ModelEvent
from ansorpy.server.db import model_files
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.worker.model_journal import ModelJournal
from ansorpy.tuner.pools import Pools
from ansorpy.tuner.request import Request

LEAST_S: Final = 1e-3  # time limit of a job that has none left: first answers have no limit


def graph_of(submission: Submission, engine: Engine, folder: Path) -> Graph:
    """Return the graph of the model of a job; its weights may stay in a file of the folder.

    Raises:
        SpecError: the model was removed, or a node cannot be compiled.
    """
    source = submission.model
    assert source is not None
    path = folder / "model.onnx"
    try:
        model_files.export(engine, source.sha256, path)
    except LookupError:
        raise SpecError(
            f"cannot read model {source.sha256} because it was deleted; expected a model of"
            " /v1/models"
        ) from None
    return read_model(path, source.bind, source.shapes, submission.model_options().hosted)


def tune_model(
    submission: Submission,
    journal: ModelJournal,
    out: Path,
    pools: Callable[[Request], Pools],
) -> Generator[ModelEvent | ModelResult, None, None]:
    """Yield the events of the tuning of a model, and its result at the end.

    The reference of the verification is the interpreter of graphs, so that no other program reads
    the file of a stranger.

    Raises:
        SpecError: the model cannot be compiled.
        RunError: the outputs of the bundle are wrong.
    """
    assert submission.model is not None
    options = submission.model_options()
    if options.seconds is not None:
        options = replace(options, seconds=max(LEAST_S, options.seconds - journal.spent_s))
    request = ModelRequest(
        graph_of(submission, journal.engine, out),
        local_target(submission.cores),
        replace(options, fresh=False),  # the journal knows the records that count
        out / "model.zip",
        digest=submission.model.sha256,
        done=journal.done,
    )
    result = yield from compiled(request, journal, pools=pools, journal=journal)
    yield result
