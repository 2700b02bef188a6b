"""Progress for people: a bar on a terminal, plain lines anywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ansorpy.events import (
    Delivered,
    Derived,
    Event,
    Finished,
    FirstAnswer,
    Improved,
    Judged,
    RoundDone,
    Skipped,
    Started,
    Warmed,
)

Report = Callable[[Event], None]


@contextmanager
def reporter(stream: TextIO, trials: int) -> Iterator[Report]:
    """Give a function that shows events on `stream`."""
    if not stream.isatty():
        yield lambda event: _print(stream, event)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=stream)) as progress:
        bar = progress.add_task("starting", total=trials)
        done: dict[str, int] = {}

        def show(event: Event) -> None:
            match event:
                case RoundDone(task=task, trials=measured, best_s=best_s):
                    done[task] = measured
                    text = f"{task}: {_time(best_s)}"
                    progress.update(bar, completed=sum(done.values()), description=text)
                case Finished():
                    progress.update(bar, description=f"finished ({event.stopped})")
                case _:
                    line = as_line(event)
                    if line:
                        progress.console.print(line, highlight=False)

        yield show


def _print(stream: TextIO, event: Event) -> None:
    line = as_line(event)
    if line:
        stream.write(line + "\n")
        stream.flush()


def as_line(event: Event) -> str:
    """Return one line for an event."""
    match event:
        case Started(tasks=tasks, known=known, trials=trials):
            names = ", ".join(tasks)
            return f"tuning {names}: {trials} trials, {sum(known)} records known"
        case Derived(task=task, sketches=sketches, plans=plans):
            return f"{task}: {sketches} sketches, {plans} plans"
        case Warmed() | Judged() | Skipped():
            return _of_transfer(event)
        case FirstAnswer(task=task, kernel=kernel, best_s=best_s, seconds=seconds):
            return f"{task}: first answer after {seconds:.1f} s: {_time(best_s)}, {kernel}"
        case Improved(task=task, best_s=best_s, trials=trials):
            return f"{task}: best {_time(best_s)} after {trials} trials"
        case Delivered(task=task, kernel=kernel, best_s=best_s):
            return f"{task}: {_time(best_s)} verified and written to {kernel}"
        case RoundDone():
            failed = sum(event.failures.values())
            spent = event.spent
            return (
                f"{event.task}: round {event.round}, {event.trials} trials, best"
                f" {_time(event.best_s)}, {failed} failed, {spent.propose_s:.1f} s propose,"
                f" {spent.measure_s:.1f} s measure, {spent.train_s:.1f} s train"
            )
        case Finished(seconds=seconds, stopped=stopped):
            return f"finished after {seconds:.1f} s ({stopped})"


def _of_transfer(event: Warmed | Judged | Skipped) -> str:
    match event:
        case Warmed(candidates=candidates, tasks=tasks, seconds=seconds):
            return f"warm start from {candidates} trials of {tasks} other tasks, {seconds:.1f} s"
        case Judged():
            verdict = "kept" if event.kept else "dropped"
            taus = f"{event.kendall:.2f}, {event.roofline:.2f} without"
            return (
                f"{event.task}: warm start {verdict} after {event.candidates} trials:"
                f" Kendall's tau {taus}"
            )
        case Skipped(reasons=reasons):
            return "experience skipped: " + "; ".join(reasons)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "none yet"
    return f"{seconds * 1e6:.1f} us" if seconds < 0.1 else f"{seconds:.3f} s"
