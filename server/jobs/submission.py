"""A job as one canonical JSON document, which is stored, compared and run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, Self

from ansorpy.errors import SpecError
from ansorpy.frontends.json.write import from_json, to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.model.options import ModelOptions
from ansorpy.target import GPU_NAMES
from ansorpy.te.analysis import workload_key
from ansorpy.te.bindings import Bound, bound
from ansorpy.te.check import check_tasks
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.networks import named, networks_of, task_weights
from ansorpy.tuner.options.tune_options import (
    TuneOptions,
    job_fields,
    later_options,
    options_of,
    values,
)

MAX_MODEL_TASKS: Final = 512  # tasks of a job that tunes a model
MAX_TRIALS: Final = 100_000  # trials of a job


@dataclass(frozen=True)
class ModelSource:
    """The model of a job.

    `sha256` is the digest of the file, `bind` has values of symbolic extents, ranges as texts, and
    scalar inputs and `shapes` shapes of inputs, by name. `options` has the options of models alone
    that differ from their default. `graph` is the document of a graph without weights, whose digest
    is `sha256`; "" for a file.
    """

    sha256: str
    bind: Bound = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    graph: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """The model as JSON."""
        shapes = {name: list(shape) for name, shape in self.shapes.items()}
        own = {"bind": dict(self.bind), "shapes": shapes, "options": dict(self.options)}
        sent = {"graph": self.graph} if self.graph else {}
        return {"sha256": self.sha256, **own, **sent}


@dataclass(frozen=True)
class Submission(TuneOptions):
    """The request of a job. `target` is a name (ansorpy.target), or "" for any worker.

    A job of a model has no Dags: its tasks are known once a worker has divided the model.

    The document and its digests are computed once, so that a caller that holds a lock can have
    them before (`digested`).
    """

    dags: tuple[Dag, ...]
    target: str = field(default="", kw_only=True)
    priority: int = field(default=0, kw_only=True)
    text: str | None = field(default=None, kw_only=True)  # source text of the Dags
    model: ModelSource | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        TuneOptions.__post_init__(self)
        if self.model is not None:
            return
        names = [dag.name for dag in self.dags]
        self.check_tasks(names)
        if 0 < self.trials < len(names):
            raise SpecError(
                f"cannot tune {len(names)} tasks with {self.trials} trials because each needs one;"
                f" expected at least {len(names)}, or 0 for first answers alone"
            )

    @cached_property
    def document(self) -> str:
        """The canonical JSON."""
        document = {
            "dags": [to_json(dag) for dag in self.dags],
            "target": self.target,
            "priority": self.priority,
            "text": self.text,
            **job_fields(self),
        }
        if self.model is not None:
            document["model"] = self.model.document
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @staticmethod
    def of(document: str) -> "Submission":
        """Return the submission of a stored document."""
        fields: dict[str, Any] = json.loads(document)
        own = {name: fields[name] for name in ("target", "priority", "text")}
        dags = tuple(map(from_json, fields["dags"]))
        model = ModelSource(**fields["model"]) if "model" in fields else None
        return Submission(dags, model=model, **own, **values(options_of(fields)))

    def model_options(self) -> ModelOptions:
        """Return the options of the tuning of the model."""
        assert self.model is not None
        return ModelOptions(**values(self), **self.model.options)

    @property
    def least_trials(self) -> int:
        """The trials of a job that makes this one unnecessary: 0 if its digest tells them."""
        per_task = self.model is not None and "trials_per_task" in self.model.options
        return 0 if per_task else self.trials

    @property
    def most_trials(self) -> int:
        """The number of trials that the job may take, for quotas."""
        per_task = None if self.model is None else self.model_options().trials_per_task
        return self.trials if per_task is None else min(MAX_TRIALS, MAX_MODEL_TASKS * per_task)

    def digested(self) -> Self:
        """Return the submission with the document and its digests computed."""
        _ = self.sha256, self.workload
        return self

    @cached_property
    def sha256(self) -> str:
        """The digest of the document: equal requests have equal digests."""
        return sha256(self.document.encode()).hexdigest()

    @cached_property
    def workload(self) -> str:
        """The digest of the tasks, their names, weights and threads, and of some options.

        Jobs of one workload differ in the options that `server.jobs.reuse` compares, at most, and
        in their seed.
        """
        weights = task_weights(self.weights, [dag.name for dag in self.dags])
        tasks = sorted((dag.name, workload_key(dag), weights[dag.name]) for dag in self.dags)
        freedoms: list[Any] = [sorted(set(self.allow))] if self.allow or self.without else []
        freedoms += [sorted(set(self.without))] if self.without else []
        networks = networks_of(self.weights, list(weights))
        freedoms += [networks] if named(networks) else []
        later = later_options(self)
        freedoms += [later] if later else []
        freedoms += [self.model.document] if self.model is not None else []
        # Estimates answer requests for the same GPU only, and no measurement does.
        freedoms += [self.target] if self.target in GPU_NAMES else []
        return sha256(json.dumps([tasks, self.cores, *freedoms]).encode()).hexdigest()


def read_dags(text: str | None, dags: list[dict[str, Any]] | None, bind: Bound) -> tuple[Dag, ...]:
    """Return the checked Dags of a request.

    Raises:
        SpecError: the text or an object is invalid, or two tasks have the same name.
    """
    extents = bound(bind)
    if dags is None:
        found = parse(text or "", extents)
    else:
        found = tuple(from_json(dag, f"dags[{number}]") for number, dag in enumerate(dags))
    check_tasks(found)
    return found
