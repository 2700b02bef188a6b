"""What is asked of a job, as one canonical document: what is stored, compared and run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ansorpy.errors import SpecError
from ansorpy.frontends.json.write import from_json, to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.te.analysis import workload_key
from ansorpy.te.check import check
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class Budget:
    """When a search ends; whichever comes first.

    target_latency_s     the weighted latency of all tasks is as good as wanted
    stop_if_gain_below   the last quarter of the trials (at least 64) made it better by a smaller
                         share than this
    """

    trials: int = 64
    seconds: float | None = None
    target_latency_s: float | None = None
    stop_if_gain_below: float | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as its owner wants it. `target` is a name (ansorpy.target), "" for any worker's."""

    dags: tuple[Dag, ...]
    budget: Budget = Budget()
    weights: Mapping[str, float] = field(default_factory=dict)
    cores: int = 1
    seed: int = 0
    target: str = ""
    priority: int = 0
    fresh: bool = False  # neither answered from earlier jobs nor started from their records
    text: str | None = None  # what the Dags were parsed from, for people
    allow: tuple[str, ...] = ()  # what may change how results are rounded: "winograd2" ...
    without: tuple[str, ...] = ()  # rules that are switched off, by name

    def __post_init__(self) -> None:
        names = [dag.name for dag in self.dags]
        for name in self.weights:
            if name not in names:
                raise SpecError(f"weights: no task {name!r}; there are {', '.join(sorted(names))}")
        if self.budget.trials < len(names):
            raise SpecError(f"trials {self.budget.trials}: too few for {len(names)} tasks")

    def document(self) -> str:
        """Return the canonical JSON."""
        budget = self.budget
        document = {
            "dags": [to_json(dag) for dag in self.dags],
            "weights": dict(self.weights),
            "cores": self.cores,
            "seed": self.seed,
            "target": self.target,
            "priority": self.priority,
            "fresh": self.fresh,
            "text": self.text,
            "allow": list(self.allow),
            "without": list(self.without),
            "budget": {name: getattr(budget, name) for name in Budget.__slots__},
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @staticmethod
    def of(document: str) -> "Submission":
        """Return the submission of a stored document."""
        fields: dict[str, Any] = json.loads(document)
        dags = tuple(map(from_json, fields.pop("dags")))
        words = {name: tuple(fields.get(name, ())) for name in ("allow", "without")}
        return Submission(dags=dags, **{**fields, **words, "budget": Budget(**fields["budget"])})

    @property
    def sha256(self) -> str:
        """The digest of the document: equal requests have equal digests."""
        return sha256(self.document().encode()).hexdigest()

    @property
    def workload(self) -> str:
        """The digest of what is computed: tasks, their names and weights, threads, freedoms."""
        tasks = sorted(
            (dag.name, workload_key(dag), self.weights.get(dag.name, 1.0)) for dag in self.dags
        )
        freedoms = [sorted(set(self.allow))] if self.allow or self.without else []
        freedoms += [sorted(set(self.without))] if self.without else []
        return sha256(json.dumps([tasks, self.cores, *freedoms]).encode()).hexdigest()


def read_dags(
    text: str | None, dags: list[dict[str, Any]] | None, bind: Mapping[str, int]
) -> tuple[Dag, ...]:
    """Return the checked DAGs of a request.

    Raises:
        SpecError: the text or an object is wrong, or two tasks have one name.
    """
    found = tuple(map(from_json, dags)) if dags is not None else parse(text or "", bind)
    names = [dag.name for dag in found]
    for dag in found:
        check(dag)
        if names.count(dag.name) > 1:
            raise SpecError(f"{names.count(dag.name)} tasks are called {dag.name!r}, limit 1")
    return found
