"""A job as one canonical JSON document, which is stored, compared and run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

from ansorpy.errors import SpecError
from ansorpy.frontends.json.write import from_json, to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.te.analysis import workload_key
from ansorpy.te.check import check_tasks
from ansorpy.te.dag import Dag
from ansorpy.tuner.options import TuneOptions, job_fields, later_budget, options_of, values


@dataclass(frozen=True)
class Submission(TuneOptions):
    """The request of a job. `target` is a name (ansorpy.target), or "" for any worker.

    The document and its digests are computed once, so that a caller that holds a lock can have
    them before (`digested`).
    """

    dags: tuple[Dag, ...]
    target: str = field(default="", kw_only=True)
    priority: int = field(default=0, kw_only=True)
    text: str | None = field(default=None, kw_only=True)  # source text of the Dags

    def __post_init__(self) -> None:
        TuneOptions.__post_init__(self)
        names = [dag.name for dag in self.dags]
        self.check_weights(names)
        if self.trials < len(names):
            raise SpecError(
                f"cannot tune {len(names)} tasks with {self.trials} trials because each needs one;"
                f" expected at least {len(names)}"
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
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @staticmethod
    def of(document: str) -> "Submission":
        """Return the submission of a stored document."""
        fields: dict[str, Any] = json.loads(document)
        own = {name: fields[name] for name in ("target", "priority", "text")}
        dags = tuple(map(from_json, fields["dags"]))
        return Submission(dags, **own, **values(options_of(fields)))

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
        tasks = sorted(
            (dag.name, workload_key(dag), self.weights.get(dag.name, 1.0)) for dag in self.dags
        )
        freedoms: list[Any] = [sorted(set(self.allow))] if self.allow or self.without else []
        freedoms += [sorted(set(self.without))] if self.without else []
        later = later_budget(self)
        freedoms += [later] if later else []
        return sha256(json.dumps([tasks, self.cores, *freedoms]).encode()).hexdigest()


def read_dags(
    text: str | None, dags: list[dict[str, Any]] | None, bind: Mapping[str, int]
) -> tuple[Dag, ...]:
    """Return the checked Dags of a request.

    Raises:
        SpecError: the text or an object is invalid, or two tasks have the same name.
    """
    found = tuple(map(from_json, dags)) if dags is not None else parse(text or "", bind)
    check_tasks(found)
    return found
