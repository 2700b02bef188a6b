"""Serializers: from database rows to wire models."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from ansorpy.records import items_per_s
from ansorpy.server.db.models import BundleRow, JobRow, KernelRow
from ansorpy.server.jobs.latency import BUNDLE, Latency, of_job, of_task
from ansorpy.server.jobs.ranges import TaskSizes
from ansorpy.server.jobs.states import ENDED
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.schemas.job import (
    Budget,
    BundleReply,
    EstimateReply,
    JobReply,
    JobSummary,
    ModelProgress,
    ModelTaskProgress,
    NetworkReply,
    TaskReply,
    TaskStage,
)
from ansorpy.target import GPU_NAMES
from ansorpy.te.analysis import flop_count, workload_key
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.allocation import THROUGHPUT
from ansorpy.tuner.options.networks import Networks, network_results, networks_of, task_weights
from ansorpy.tuner.options.plugins import GROUPS
from ansorpy.tuner.options.tune_options import values
from ansorpy.tuner.rounds.preflight import dag_bytes
from ansorpy.tuner.tasks.twins import leaders, twin_names
from ansorpy.units import counted

SUMMARY_TASKS: Final = 3
SUMMARY_INPUTS: Final = 3
SUMMARY_CHARS: Final = 80
MAX_REASON: Final = 1000  # characters
RESULT_FIELDS: Final = (
    "baseline_s", "naive_s", "numpy_s", "numpy_note", "same_as", "winner", "verified", "flop",
    "flop_per_s", "effective", "estimated", "compile_s", "verdict", "by_size",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """Facts of a request that its replies contain; computed once per request."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    flops: tuple[int, ...]
    same_as: tuple[str, ...]  # the first equal task; "" for the first one itself
    sizes: tuple[TaskSizes, ...]
    memory_bytes: int
    budget: Budget
    parts: Mapping[str, str]  # the plug-ins by option
    networks: Networks
    shapes: tuple[str, ...]  # dtypes and shapes of the first inputs, by task
    same: str  # equal for equal workloads, for any options of the search
    workload: str  # the first shapes, for lists
    is_graph: bool  # a model without weights


@lru_cache(maxsize=1024)
def of_request(request: str) -> Asked:
    """Return the facts of a stored request, cached."""
    submission = Submission.of(request)
    own = {} if submission.model is None else submission.model.options
    fields = {**values(submission), **own}
    twins = twin_names(leaders(submission.dags))
    names = tuple(dag.name for dag in submission.dags)
    shapes = tuple(map(_shapes, submission.dags))
    return Asked(
        names,
        tuple(task_weights(submission.weights, names).values()),
        tuple(map(flop_count, submission.dags)),
        tuple(twins.get(dag.name, "") for dag in submission.dags),
        tuple(TaskSizes.of(dag, submission.kernels_per_dim) for dag in submission.dags),
        max(map(dag_bytes, submission.dags), default=0),
        Budget(**{name: _as_json(fields[name]) for name in Budget.model_fields if name in fields}),
        {group.option: getattr(submission, group.option) for group in GROUPS},
        networks_of(submission.weights, names),
        shapes,
        _same(submission),
        shapes[0] if shapes else _bound(submission),
        submission.model is not None and bool(submission.model.graph),
    )


def _shapes(dag: Dag) -> str:
    """Return the dtypes and shapes of the first inputs: `float32 64x64, 64x32`."""
    told, last = [], ""
    for one in dag.placeholders[:SUMMARY_INPUTS]:
        shape = "×".join(str(getattr(extent, "name", extent)) for extent in one.shape)  # noqa: RUF001
        told.append(f"{one.dtype} {shape or 'scalar'}" if one.dtype != last else shape)
        last = one.dtype
    more = len(dag.placeholders) - SUMMARY_INPUTS
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _bound(submission: Submission) -> str:
    """Return the values of the symbols of a model: `batch=1`."""
    source = submission.model
    bind = {} if source is None else source.bind
    return ", ".join(f"{name}={value}" for name, value in bind.items())[:SUMMARY_CHARS]


def _same(submission: Submission) -> str:
    """Return a digest that equal workloads share, for any options of the search."""
    source = submission.model
    if source is not None:
        told: Any = [
            source.sha256,
            dict(source.bind),
            {n: list(s) for n, s in source.shapes.items()},
        ]
    else:
        weights = task_weights(submission.weights, [dag.name for dag in submission.dags])
        told = sorted((workload_key(dag), weights[dag.name]) for dag in submission.dags)
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def asked(row: JobRow) -> Asked:
    """Return the facts of the request of a job, cached; the tasks of a model once it is divided."""
    facts = of_request(row.request)
    if not row.model_facts:
        return facts
    tasks: Mapping[str, Mapping[str, Any]] = json.loads(row.model_facts)["tasks"]
    return replace(
        facts,
        names=tuple(tasks),
        weights=tuple(task["weight"] for task in tasks.values()),
        flops=tuple(task["flop"] for task in tasks.values()),
        same_as=("",) * len(tasks),
        sizes=tuple(TaskSizes(**task.get("sizes", {})) for task in tasks.values()),
        memory_bytes=max((task["bytes"] for task in tasks.values()), default=0),
    )


def job_reply(
    row: JobRow,
    kernels: Sequence[KernelRow],
    waiting_for: str | None,
    bundle: BundleRow | None = None,
) -> JobReply:
    """Return the reply for a job with its delivered kernels, or its newest bundle."""
    facts = asked(row)
    progress = json.loads(row.progress)
    results = {result["name"]: result for result in json.loads(row.results)}
    latencies = task_latencies(row, facts)
    latency = of_job(row, zip(facts.weights, latencies.values(), strict=True))
    delivered = {kernel.task: kernel for kernel in kernels}
    copies = row.cores if facts.budget.objective == THROUGHPUT else 1
    known = {
        name: {
            "flop": flop,
            **so_far(progress, name, same_as),
            **results.get(name, {}),
            **sizes.searched(name, progress),
        }
        for name, flop, same_as, sizes in zip(
            facts.names, facts.flops, facts.same_as, facts.sizes, strict=True
        )
    }
    tasks = [
        task_reply(name, weight, known[name], latencies[name], delivered.get(name), sizes, copies)
        for name, weight, sizes in zip(facts.names, facts.weights, facts.sizes, strict=True)
    ]
    networks = network_results(facts.networks, tasks, facts.budget.network_targets_s)
    return JobReply(
        id=row.id,
        state=row.state,  # type: ignore[arg-type]  # the database holds no other
        reason=row.reason[:MAX_REASON],
        waiting_for=waiting_for,
        priority=row.priority,
        budget=facts.budget,
        cores=row.cores,
        target=row.target,
        created_s=row.created_s,
        updated_s=row.updated_s,
        started_s=row.started_s,
        ended_s=row.ended_s,
        trials=row.trials_done,
        seconds=row.seconds_done,
        best_s=latency.best_s,
        timing=latency.timing,
        sum_of=sum_of(facts) if row.model is None else "",
        estimated=is_estimated(row),
        attempts=row.attempts,
        events=row.events,
        memory_bytes=facts.memory_bytes,
        **facts.parts,
        model=model_reply(row, facts, known, latencies, bundle),
        tasks=tasks,
        networks=[NetworkReply(**asdict(one)) for one in networks],
    )


def model_reply(
    row: JobRow,
    facts: Asked,
    known: Mapping[str, Mapping[str, Any]],
    latencies: Mapping[str, Latency],
    bundle: BundleRow | None,
) -> ModelProgress | None:
    """Return the progress of a job that tunes a model, None for another job.

    Args:
        known: progress or result by task.
        latencies: by task.
    """
    if row.model is None:
        return None
    asked_of = Submission.of(row.request).model
    bind = {} if asked_of is None else dict(asked_of.bind)
    if not row.model_facts:
        return ModelProgress(sha256=row.model, bind=bind, divided=False)
    stored = json.loads(row.model_facts)
    names = ("nodes_before", "nodes", "passes", "parts", "hosted", "trials", "answered")
    return ModelProgress(
        sha256=row.model,
        bind=bind,
        divided=True,
        **{name: stored[name] for name in names},
        estimate_s=stored.get("estimate_s", row.best_s),
        history=[
            EstimateReply(seconds=seconds, trials=trials, latency_s=latency_s)
            for seconds, trials, latency_s in stored["history"]
        ],
        verdict=stored.get("verdict"),
        untuned=stored.get("untuned", 0),
        tasks=model_tasks(facts, known, latencies, row.state, stored["tasks"]),
        bundle=None if bundle is None else bundle_reply(bundle, stored),
    )


def bundle_reply(bundle: BundleRow, facts: Mapping[str, Any]) -> BundleReply:
    """Return the reply for the newest bundle of a model."""
    names = BundleReply.model_fields.keys() - {"timing"}
    fields = {name: getattr(bundle, name) for name in names}
    return BundleReply(**fields, timing=facts.get(BUNDLE, {}).get("timing", "estimate"))


def model_tasks(
    facts: Asked,
    known: Mapping[str, Mapping[str, Any]],
    latencies: Mapping[str, Latency],
    job_state: str,
    stored: Mapping[str, Mapping[str, Any]],
) -> list[ModelTaskProgress]:
    """Return the stage of each task of a model, and its share of the estimated latency."""
    part_s = {
        name: weight * (latencies[name].best_s or 0.0)
        for name, weight in zip(facts.names, facts.weights, strict=True)
    }
    sum_s = sum(part_s.values())
    return [
        ModelTaskProgress(
            name=name,
            title=stored[name].get("title", ""),
            weight=weight,
            state=_stage(known.get(name, {}), job_state),
            **latencies[name].as_fact(),
            share=part_s[name] / sum_s if sum_s else None,
        )
        for name, weight in zip(facts.names, facts.weights, strict=True)
    ]


def _stage(known: Mapping[str, Any], job_state: str) -> TaskStage:
    """Return the stage of a task, given its progress."""
    if job_state == "succeeded" or (known.get("rounds") and known.get("ended")):
        return "done"
    if known.get("rounds"):
        return "searching"
    return "waiting" if known.get("best_s") is None else "answered"


def so_far(progress: Mapping[str, Any], name: str, same_as: str) -> Mapping[str, Any]:
    """Return the progress of a task; a duplicate task shows its leader's, with 0 trials."""
    if not same_as:
        known: Mapping[str, Any] = progress.get(name, {})
        return known
    return {**progress.get(same_as, {}), "trials": 0, "failures": {}, "same_as": same_as}


def task_latencies(row: JobRow, facts: Asked) -> dict[str, Latency]:
    """Return the latency of record of each task of a job, by name."""
    progress = json.loads(row.progress)
    results = {result["name"]: result for result in json.loads(row.results)}
    ended = row.state in ENDED
    return {
        name: of_task(so_far(progress, name, same_as), results.get(name), ended)
        for name, same_as in zip(facts.names, facts.same_as, strict=True)
    }


def job_latency(row: JobRow) -> Latency:
    """Return the latency of record of a job."""
    facts = asked(row)
    parts = () if row.model is not None else task_latencies(row, facts).values()
    return of_job(row, zip(facts.weights, parts, strict=row.model is None))


def sum_of(facts: Asked) -> str:
    """Return the terms of the latency of a job for people: `sum of 3 tasks by weight`."""
    if len(facts.names) == 1 and facts.weights[0] == 1.0:
        return ""
    by_weight = " by weight" if set(facts.weights) != {1.0} else ""
    return f"sum of {counted(len(facts.names), 'task')}{by_weight}"


def task_reply(
    name: str,
    weight: float,
    known: Mapping[str, Any],
    latency: Latency,
    kernel: KernelRow | None,
    sizes: TaskSizes,
    copies: int = 1,
) -> TaskReply:
    """Return the reply for a task, from its result, or else its progress.

    Before the final race, and in results of older versions, the number of executed operations is
    unknown; the rate is then marked as effective.
    """
    if "flop_per_s" not in known and latency.best_s and known.get("flop"):
        known = {**known, "flop_per_s": known["flop"] / latency.best_s, "effective": True}
    return TaskReply(
        name=name,
        weight=weight,
        dims=list(sizes.dims),
        ranges=known.get("searched", []),
        **latency.as_fact(),
        from_store=known.get("from_store", False),
        copies=copies,
        items_per_s=items_per_s(copies, latency.best_s),
        trials=known.get("trials", 0),
        sketches=known.get("sketches"),
        failures=known.get("failures", {}),
        kernel=None if kernel is None else kernel.sha256,
        final=kernel is not None and kernel.final,
        **{field: known[field] for field in RESULT_FIELDS if field in known},
    )


def is_estimated(row: JobRow) -> bool:
    """Return whether candidates of a job are estimated, so that it has no times.

    The worker tells it with each round and result; before, a named GPU counts as absent.
    """
    tasks = (*json.loads(row.progress).values(), *json.loads(row.results))
    told = [bool(one.get("estimated")) for one in tasks if "trials" in one]
    return any(told) if told else row.target in GPU_NAMES


def job_summary(row: JobRow) -> JobSummary:
    """Return the row of a job in the list."""
    names = asked(row).names
    return JobSummary(
        id=row.id,
        state=row.state,  # type: ignore[arg-type]
        priority=row.priority,
        tasks=list(names[:SUMMARY_TASKS]),
        task_count=len(names),
        model=row.model,
        name=row.title if row.model is not None else "",
        created_s=row.created_s,
        updated_s=row.updated_s,
        trials=row.trials_done,
        trials_asked=row.trials,
        **job_latency(row).as_fact(),
        estimated=is_estimated(row),
    )
