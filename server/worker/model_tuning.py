"""The tuning of the model of a job, in the tuner process."""

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from ansorpy.errors import SpecError
from ansorpy.graph.graph import Graph
from ansorpy.graph.wire.document import Document
from ansorpy.importers.limits import check_file
from ansorpy.importers.model_file import read_document, read_model
from ansorpy.importers.suffixes import DOCUMENT
from ansorpy.measure.host import local_target
from ansorpy.model.compile import ModelResult, compiled
from ansorpy.model.events import ModelEvent
from ansorpy.model.request import ModelRequest
from ansorpy.server.db import model_files
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.worker.model_journal import ModelJournal
from ansorpy.state.rule import Rule
from ansorpy.te.bindings import bound
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.requests.request import Request

LEAST_S: Final = 1e-3  # time limit of a job that has none left: first answers have no limit


def model_of(submission: Submission, engine: Engine, folder: Path) -> tuple[Graph, Document | None]:
    """Return the graph of the model of a job, and its document if its weights are elsewhere.

    The weights of a file may stay in the folder.

    Raises:
        SpecError: the model was removed, or a node cannot be compiled.
    """
    source = submission.model
    assert source is not None
    hosted = submission.model_options().hosted
    if source.graph:
        path = folder / f"model{DOCUMENT}"
        path.write_text(source.graph, encoding="utf-8")
        check_file(path, hosted=hosted)  # a child first: an operator may ask for much memory
        document = read_document(path)
        return document.graph(hosted), document
    path = folder / "model.onnx"
    try:
        model_files.export(engine, source.sha256, path)
    except LookupError:
        raise SpecError(
            f"cannot read model {source.sha256} because it was deleted; expected a model of"
            " /v1/models"
        ) from None
    return read_model(path, bound(source.bind), source.shapes, hosted), None


def tune_model(
    submission: Submission,
    journal: ModelJournal,
    out: Path,
    pools: Callable[[Request], Pools],
    rules: tuple[Rule, ...],
) -> Generator[ModelEvent | ModelResult, None, None]:
    """Yield the events of the tuning of a model, and its result at the end.

    The reference of the verification is the interpreter of graphs, so that no other program reads
    the file of a stranger.

    Raises:
        SpecError: the model cannot be compiled.
        RuleError: a rule fails.
        RunError: the outputs of the bundle are wrong.
    """
    assert submission.model is not None
    options = submission.model_options()
    if options.seconds is not None:
        options = replace(options, seconds=max(LEAST_S, options.seconds - journal.spent_s))
    graph, document = model_of(submission, journal.engine, out)
    request = ModelRequest(
        graph,
        local_target(submission.cores),
        replace(options, fresh=False),  # the journal knows the records that count
        out / "model.zip",
        digest=submission.model.sha256,
        done=journal.done,
        document=document,
    )
    result = yield from compiled(request, journal, rules=rules, pools=pools, journal=journal)
    yield result
