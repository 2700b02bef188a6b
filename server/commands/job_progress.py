"""Progress of a job: bars on a terminal, lines of text elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ansorpy.graph.remedies import as_options
from ansorpy.units import clock, duration
from ansorpy.units import eta_s as search_eta_s

if TYPE_CHECKING:
    from ansorpy.client import Job, TaskState

Show = Callable[["Job"], None]


@contextmanager
def watcher(stream: TextIO) -> Iterator[Show]:
    """Give a function that shows the current state of a job."""
    if not stream.isatty():
        yield _plain(stream)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[facts]}"),
    )
    with Progress(*columns, console=Console(file=stream)) as progress:
        whole = progress.add_task("", total=None, facts="")
        bars = {"": whole}

        def show(job: "Job") -> None:
            asked = asked_trials(job)
            progress.update(
                whole, total=asked, completed=job.trials, description=f"{job.id[:8]} {job.state}",
                facts=job.waiting_for or f"{job.trials}/{asked} trials, ETA {clock(eta_s(job))}",
            )  # fmt: skip
            for task in () if job.model else job.tasks:  # a model may have hundreds
                if task.name not in bars:
                    bars[task.name] = progress.add_task(f"  {task.name}", total=asked, facts="")
                bar = bars[task.name]
                progress.update(bar, completed=task.trials, facts=facts_of(task))

        yield show


def _plain(stream: TextIO) -> Show:
    last: list[str] = [""]

    def show(job: "Job") -> None:
        line = as_line(job)
        if line != last[0]:
            last[0] = line
            stream.write(line + "\n")
            stream.flush()

    return show


def as_line(job: "Job") -> str:
    """Return a line with the state and progress of a job."""
    parts = [f"{job.state}: {job.trials}/{asked_trials(job)} trials"]
    if job.state == "running":
        parts.append(f"ETA {clock(eta_s(job))}")
    if job.model is not None:
        parts += [*_of_model(job), *filter(None, (job.waiting_for, as_options(job.reason)))]
        return "; ".join(parts)
    parts += [f"{task.name} {facts_of(task)}" for task in job.tasks]
    parts += filter(None, (job.waiting_for, job.reason))
    return "; ".join(parts)


def asked_trials(job: "Job") -> int:
    """Return the trials that a job may take; a model's are known once it is divided."""
    found = None if job.model is None else job.model.get("trials")
    return int(job.budget["trials"] if found is None else found)


def _of_model(job: "Job") -> list[str]:
    """Return the progress of a model, without a line per task."""
    assert job.model is not None
    told = [f"{job.model['answered']} of {len(job.tasks)} tasks have a time"]
    if job.best_s is not None:
        told.append(f"model {duration(job.best_s)} ({job.timing or 'estimate'})")
    if job.model["bundle"] is not None:
        told.append(f"bundle {job.model['bundle']['sha256'][:12]}")
    return told


def facts_of(task: "TaskState") -> str:
    """Return the best time of a task, its rate, and the number of failed trials."""
    best = "none yet" if task.best_s is None else f"best {duration(task.best_s)}"
    best = "estimated, not timed" if task.estimated else best
    rate, unit = task.gflops, f"{'effective ' if task.effective else ''}GFLOP/s"
    told = [best] if rate is None else [f"{best}, {rate:.1f} {unit}"]
    failed = sum(task.failures.values())
    if failed:
        told.append(f"{failed} failed")
    return ", ".join(told)


def eta_s(job: "Job") -> float | None:
    """Return the estimated remaining seconds, the minimum by trials and by time.

    None if there is no estimate, or the job does not run.
    """
    if job.state != "running":
        return None
    budget = job.budget
    limit_s = None if budget.get("seconds") is None else float(budget["seconds"])
    return search_eta_s(job.trials, asked_trials(job), job.seconds, limit_s)
