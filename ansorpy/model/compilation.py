"""The state of a model on its way to a bundle, and requests for the libraries of its tasks."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Final

from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.weightless import without_weights
from ansorpy.events import Finished, FirstAnswer, Improved, TaskResult
from ansorpy.graph.groups import Partition
from ansorpy.model.assemble import Origin, TaskLibrary, plan_of
from ansorpy.model.budget import ModelBudget
from ansorpy.model.events import BundleWritten, ModelEstimate, ModelEvent, Recut
from ansorpy.model.request import ModelRequest
from ansorpy.model.tasks import ModelTasks
from ansorpy.model.verify import BUDGET_S, ModelReference, check, reference_of
from ansorpy.te.dag import Dag
from ansorpy.tuner.parts.plugged import recorded_parts
from ansorpy.tuner.requests.request import Answered, Request

LEAST_SHARE: Final = 0.005  # share of a model's time below which a task is not searched

Tune = Callable[[Request, Path], Generator[ModelEvent, None, Finished]]


@dataclass(slots=True)
class Compilation:
    """A model that becomes a bundle: its tasks, and the best library of each so far."""

    request: ModelRequest
    tasks: ModelTasks
    partition: Partition
    budget: ModelBudget
    weights_bytes: int = 0  # weights that a run of the model reads
    reference: ModelReference | None = None
    libraries: dict[str, TaskLibrary] = field(default_factory=dict)
    results: dict[str, TaskResult] = field(default_factory=dict)
    best_s: dict[str, float] = field(default_factory=dict)  # also of trials without a library
    trials: int = 0
    recuts: list[Recut] = field(default_factory=list)
    cut_from: dict[str, str] = field(default_factory=dict)  # piece of a task -> the task

    @property
    def model_s(self) -> float:
        """The sum of the best times of all parts that have one."""
        return self.estimate().model_s

    def estimate(self) -> ModelEstimate:
        """Return the time of the model as far as its parts have one."""
        weights = self.fastest(self.best_s).weights
        sum_s = sum((count * self.best_s.get(name, 0.0) for name, count in weights.items()), 0.0)
        return ModelEstimate(sum_s, len(self.best_s), len(self.tasks.dags), weights)

    def times_s(self) -> dict[str, float]:
        """Return the time of the library of each task that has one."""
        return {name: made.best_s for name, made in self.libraries.items()}

    def fastest(self, times_s: Mapping[str, float]) -> ModelTasks:
        """Return the tasks with the faster alternatives; a part without a time takes forever."""
        return self.tasks.chosen({dag.name: inf for dag in self.tasks.dags} | {**times_s})

    def dag(self, name: str) -> Dag:
        """Return the Dag of a task."""
        return next(dag for dag in self.tasks.dags if dag.name == name)

    def follow(
        self, events: Generator[ModelEvent, None, Finished]
    ) -> Generator[ModelEvent, None, Finished]:
        """Yield the events of a tuning of tasks, with estimates; return the last one."""
        event: ModelEvent | None = next(events)
        while not isinstance(event, Finished):
            assert event is not None
            try:
                yield event
                if isinstance(event, FirstAnswer | Improved) and self._improves(event):
                    yield self.estimate()
                event = next(events)
            except KeyboardInterrupt:
                event = events.throw(KeyboardInterrupt())
        for result in event.results:
            self._keep(result)
        return event

    def _improves(self, event: FirstAnswer | Improved) -> bool:
        before_s = self.best_s.get(event.task)
        if before_s is not None and before_s <= event.best_s:
            return False
        self.best_s[event.task] = event.best_s
        return True

    def _keep(self, result: TaskResult) -> None:
        """Keep the library of a result if it is the fastest of its task.

        A search measures the answer before it, too (ADR-0126): its choice is kept unless it is the
        untuned kernel, because times of other minutes do not compare.
        """
        self.trials += result.trials
        known = self.libraries.get(result.name)
        if result.library is None or result.best_s is None:
            return
        searched = result.trials > 0 and result.winner == "tuned"
        if known is None or searched or result.best_s < known.best_s:
            self.libraries[result.name] = TaskLibrary(result.library, result.best_s)
            self.results[result.name] = result
        self.best_s[result.name] = self.libraries[result.name].best_s

    def written(self) -> BundleWritten:
        """Write and verify the bundle.

        Raises:
            RunError: it cannot be run, or its outputs are wrong; no bundle is left then.
        """
        asked = self.request
        begin_s = self.budget.spent_s
        self.refer()
        assert self.reference is not None  # `refer` has set it
        reference = self.reference.within(self.budget.check_left_s, self.model_s)
        parts = recorded_parts(tuning_request(self, self.tasks.dags, weights={}))
        origin = Origin(asked.digest, asked.target.cores, parts)
        plan = plan_of(self.partition, self.tasks, self.libraries, origin, reference.self_test)
        new, bare = (asked.out.with_name(f"{asked.out.stem}.{w}.zip") for w in ("new", "bare"))
        try:
            write_bundle(new, plan)
            error = check(new, reference, asked.target.cores, asked.graph.name)
            if asked.document is not None:
                without_weights(new, bare, asked.document.text)
                bare.replace(new)
            new.replace(asked.out)
        finally:
            new.unlink(missing_ok=True)
            bare.unlink(missing_ok=True)
        spent_s = self.budget.spent_s
        self.budget.note_written(spent_s - begin_s)
        return BundleWritten(
            asked.out, self.model_s, error, reference.bound, reference.told, spent_s
        )

    def refer(self) -> None:
        """Ask the oracle for the right outputs, unless they are known.

        Raises:
            GraphError: the interpreter cannot run the graph.
        """
        if self.reference is None:
            asked, limit_s = self.request, self.budget.oracle_s(BUDGET_S)
            self.reference = reference_of(asked.graph, asked.file, asked.options.seed, limit_s)


def _answered(work: Compilation, dags: Sequence[Dag]) -> Answered:
    """Return the candidates of the answers that tasks have."""
    found = {dag.name: work.results[dag.name] for dag in dags if dag.name in work.results}
    return {name: one.candidate for name, one in found.items() if one.candidate is not None}


def tuning_request(work: Compilation, dags: Sequence[Dag], **changes: Any) -> Request:
    """Return the request for the libraries of some tasks."""
    asked = work.request
    names = {dag.name for dag in dags}
    targets_s = {name: s for name, s in asked.options.task_targets_s.items() if name in names}
    options = replace(asked.options, tasks=(), task_targets_s=targets_s, **changes)
    return Request.of(
        options, tuple(dags), asked.target, first_answer=False, libraries=True,
        weights_bytes=work.weights_bytes, answered=_answered(work, dags),
    )  # fmt: skip
