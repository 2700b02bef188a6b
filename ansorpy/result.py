"""The result of a tuning, for programs and for people."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from json import dumps
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ansorpy.artifact import LoadedKernel, load
from ansorpy.events import Contrast, NetworkResult, Stopped, TaskResult
from ansorpy.measure.outcome import Estimated
from ansorpy.plot.card import Card, as_html, history_svg
from ansorpy.plot.curve import curve_of
from ansorpy.plot.sized import SizedTrials, sized_trials
from ansorpy.plot.subject import subject_of
from ansorpy.records import RecordStore
from ansorpy.records.rows import Trials, columns, dataframe, trial_rows
from ansorpy.size_table import size_table
from ansorpy.target import Target
from ansorpy.units import duration

MAX_REASONS = 3  # reasons shown for a task without a kernel
DRAWN = 6  # tasks of a result whose cards have a drawing
MAX_TRAITS = 3  # differences of the winner and of the runner-up that are told


class Kernels(Mapping[str, LoadedKernel]):
    """The delivered kernels by task name, each imported when it is first asked for."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths = paths
        self._loaded: dict[str, LoadedKernel] = {}

    def __getitem__(self, name: str) -> LoadedKernel:
        if name not in self._loaded:
            self._loaded[name] = load(self.paths[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        """Return the names and files, without importing a kernel."""
        return f"Kernels({', '.join(f'{name}: {path}' for name, path in self.paths.items())})"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a tuning; printed, it is a summary of a few lines per task."""

    tasks: tuple[TaskResult, ...]
    seconds: float
    stopped: Stopped
    networks: tuple[NetworkResult, ...] = ()  # those that the weights name
    records: Trials = field(default_factory=dict, compare=False)
    target: Target | None = field(default=None, compare=False)  # names of sizes depend on it

    @property
    def task(self) -> TaskResult:
        """The result of the only task; ValueError if there are several."""
        if len(self.tasks) != 1:
            raise ValueError(
                f"cannot choose one of {len(self.tasks)} tasks; expected a member of result.tasks"
            )
        return self.tasks[0]

    @property
    def best_s(self) -> float | None:
        """The seconds of a call of the only task's kernel; None without a time."""
        return self.task.best_s

    @property
    def speedup(self) -> float | None:
        """The time of the fastest library over the only task's time; None without a race."""
        return None if self.task.verdict is None else self.task.verdict.ratio

    @property
    def trials(self) -> list[dict[str, Any]]:
        """The trials of all tasks, oldest first, earlier tunings included, a row each."""
        return trial_rows(self.records)

    @property
    def best(self) -> dict[str, Any] | None:
        """The fastest trial of the only task, a row of `trials`; None if none has a time.

        The delivered kernel may be another one: the race, which times leaders again, decides.
        """
        name = self.task.same_as or self.task.name
        timed = [row for row in self.trials if row["task"] == name and row["best_s"] is not None]
        return min(timed, key=lambda row: float(row["best_s"]), default=None)

    def to_dataframe(self) -> Any:
        """Return `trials` as a DataFrame of pandas; `to_columns` needs no pandas.

        Raises:
            PackageError: pandas is not installed.
        """
        return dataframe(self.trials)

    def to_columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return `trials` as an array per column: numbers with NaN and texts with "" for None."""
        return columns(self.trials)

    def sizes(self, task: str | None = None) -> SizedTrials:
        """Return the sizes of the trials of a task as a matrix, with their times.

        Args:
            task: its name; the only task unless given.

        Raises:
            SpecError: there is no such task, or no trial has a time.
        """
        return sized_trials(subject_of(self.tasks, self.records, self.target, task))

    def plot(self, kind: str = "history", *, task: str | None = None, ax: Any = None) -> Any:
        """Draw a picture of a task and return its figure, which a notebook shows.

        Args:
            kind: "history": the time of every trial, the race, other programs; "roofline":
                operations per second below the limits of the machine; "importance": the sizes that
                decide the time; "parallel": sizes of each trial, coloured by its time.
            task: its name; the only task unless given.
            ax: axes of matplotlib to draw in; of a new figure unless given.

        Raises:
            SpecError: there is no such kind or task, or the task lacks the data of the picture.
            PackageError: matplotlib is not installed.
        """
        from ansorpy.plot.draw import plot  # loads the rates and trees of the cost model

        return plot(kind, subject_of(self.tasks, self.records, self.target, task), ax)

    @property
    def kernels(self) -> Kernels:
        """The verified kernels: `result.kernels["mm"](a, b)`."""
        return Kernels({t.name: t.kernel for t in self.tasks if t.kernel is not None})

    def __repr__(self) -> str:
        """Return five lines per task: verdict, latency, trials, file, next step.

        The fields are in `tasks`; `explain` tells the reasons.
        """
        ended = f"{self.seconds:.1f} s in all (stopped: {self.stopped})"
        lines = [summary(self.tasks), *map(network_line, self.networks), ended]
        return "\n".join([*lines, *(f"next: {call}" for call in self._calls())])

    def explain(self) -> str:
        """Return at most five lines per task: naive loops, runner-up, compilation ..."""
        return explanation(self.tasks)

    def _repr_html_(self) -> str:
        """Return the summary as cards, for notebooks: the verdict first."""
        cards = [self._card(task, n < DRAWN) for n, task in enumerate(self.tasks)]
        ended = f"{self.seconds:.1f} s in all (stopped: {self.stopped})"
        return as_html(cards, [*map(network_line, self.networks), ended], self._calls())

    def _card(self, task: TaskResult, drawn: bool) -> Card:
        told = rows_of(task)
        verdict = told.pop("verdict")
        level = "none" if task.verdict is None else task.verdict.level
        drawing = ""
        if drawn and not task.same_as:
            subject = subject_of(self.tasks, self.records, self.target, task.name)
            raced_s = task.best_s if task.timing == "race" else None
            drawing = history_svg(curve_of(subject.trials), raced_s, subject.lines_s)
        rows = {name: text for name, text in told.items() if text != "-"}
        return Card(task.name, verdict, level, rows, drawing)

    def _calls(self) -> list[str]:
        return [f"result.kernels[{dumps(name)}](...)" for name in self.kernels][:1]


def records_of(tasks: Sequence[TaskResult], store: RecordStore) -> Trials:
    """Return the records of each task; equal tasks have them under the name of the first."""
    return {task.name: store.all(task.key) for task in tasks if not task.same_as}


def summary(results: Sequence[TaskResult], profile: bool = False) -> str:
    """Return some lines per task for people, the verdict first.

    Args:
        profile: with the estimate of a kernel that was not timed, and its parts.
    """
    lines: list[str] = []
    for result in results:
        told = rows_of(result)
        lines.append(f"{result.name}: {told.pop('verdict')}")
        if profile and result.estimate is not None:
            told["estimate"] = _estimate(result.estimate)
        if table := size_table(result):
            told["ranges"] = f"\n{'':12}".join(table)
        lines += [f"  {name:9} {text}" for name, text in told.items() if text != "-"]
    return "\n".join(lines)


def explanation(results: Sequence[TaskResult]) -> str:
    """Return the reasons of each result, a line each."""
    lines: list[str] = []
    for result in results:
        told = {name: text for name, text in reasons_of(result).items() if text != "-"}
        lines.append(result.name if told else f"{result.name}: nothing to explain")
        lines += [f"  {name:9} {text}" for name, text in told.items()]
    return "\n".join(lines)


def network_line(network: NetworkResult) -> str:
    """Return the latency of a network for people."""
    if network.best_s is None:
        return f"network {network.name}: no latency: a task has no time"
    parts = [duration(network.best_s)]
    if network.baseline_s is not None:
        parts.append(f"{network.baseline_s / network.best_s:.2f}x untuned or NumPy")
    if network.target_s is not None:
        met = "reached" if network.best_s <= network.target_s else "missed"
        parts.append(f"target {duration(network.target_s)} {met}")
    return f"network {network.name}: {', '.join(parts)}"


def rows_of(result: TaskResult) -> dict[str, str]:
    """Return the facts of a task by their name; "-" for a fact that is missing."""
    return {
        "verdict": _verdict(result),
        "latency": _latency(result),
        "ranges": _ranges(result),
        "trials": _trials(result),
        "failures": _failures(result) if result.kernel is None else "-",
        "left out": "; ".join(f"your {one.name}: {one.note}" for one in result.own if one.note)
        or "-",
        "kernel": "-" if result.kernel is None else str(result.kernel),
    }


def reasons_of(result: TaskResult) -> dict[str, str]:
    """Return the reasons for the result of a task by name; "-" for a missing one."""
    return {
        "untuned": _untuned(result),
        "runner-up": _runner_up(result.contrast),
        "compiled": _compiled(result),
        "failures": _failed(result),
    }


def _verdict(result: TaskResult) -> str:
    if result.verdict is not None:
        return str(result.verdict)
    if result.estimated and result.kernel is not None:
        return "not timed: estimated without a GPU, verified under emulation"
    if result.best_s is None:
        return "no kernel: no candidate passed its checks"
    checked = "verified against float64 loops" if result.verified else "not verified"
    return f"{duration(result.best_s)} per call, not raced, {checked}"


def _ranges(result: TaskResult) -> str:
    """Return the best trial of the kernel of each range of sizes."""
    return ", ".join(f"{name}: {duration(s)}" for name, s in result.ranges.items()) or "-"


def _latency(result: TaskResult) -> str:
    if result.best_s is None:
        return "-"
    told = [duration(result.best_s), *([] if result.rate is None else [str(result.rate)])]
    shares = [f" ({weight:.0%})" for weight in result.weights]
    told += [f"mean of {name} = {_listed(sizes, shares)}" for name, sizes in result.sizes.items()]
    if result.items_per_s is None:
        return ", ".join(told)
    items = f"{result.items_per_s:.6g} items per second in {result.copies} copies at once"
    return f"{items}; each: {', '.join(told)}"


def _listed(sizes: Sequence[int], shares: Sequence[str]) -> str:
    told = [f"{size}{share}" for size, share in zip_longest(sizes, shares, fillvalue="")]
    return " and ".join(filter(None, (", ".join(told[:-1]), told[-1])))


def _estimate(estimate: Estimated) -> str:
    """Return an estimate with its parts, the longest first: all but the launch overlap."""
    longest = sorted(estimate.parts, key=lambda part: -part[1])
    parts = [
        f"{name.removesuffix('_s').replace('_', ' ')} {duration(seconds)}"
        for name, seconds in longest
    ]
    counted = "counted by ptxas" if estimate.assembled else "estimated"
    return (
        f"{duration(estimate.seconds)} by the analytic model, not measured"
        f" ({', '.join(parts)}; {estimate.registers} registers, {counted})"
    )


def _untuned(result: TaskResult) -> str:
    """Return the time of the naive loops beside ours."""
    if result.naive_s is None or result.best_s is None:
        return "-"
    ratio = result.naive_s / result.best_s
    return f"naive loops take {duration(result.naive_s)}, {ratio:.2f} times as long"


def _runner_up(contrast: Contrast | None) -> str:
    """Return the times of the winner and the best other candidate, and how they differ."""
    if contrast is None:
        return "-"
    own, other = (
        "no time" if one is None else duration(one)
        for one in (contrast.winner_s, contrast.runner_up_s)
    )
    parts = [f"{other} in trials, the winner {own}"]
    for who, traits in (("winner", contrast.only_winner), ("other", contrast.only_runner_up)):
        if traits:
            more = ", ..." if len(traits) > MAX_TRAITS else ""
            parts.append(f"only the {who} has {', '.join(traits[:MAX_TRAITS])}{more}")
    return "; ".join(parts)


def _failed(result: TaskResult) -> str:
    """Return the suspects, and the kinds of failed trials with the first message of each."""
    if result.kernel is None:
        return "-"  # the summary tells it
    told = [str(one) for one in result.suspects[:MAX_REASONS]]
    told += [f"{count} {kind}" for kind, count in result.failures.items()]
    return "; ".join(told) or "-"


def _compiled(result: TaskResult) -> str:
    """Return the time of compilation, and its place, which is in no latency."""
    if result.compile_s is None:
        return "-"
    when = "when its library was made" if result.library else "at the first call of kernel.py"
    return f"{duration(result.compile_s)}, {when}; in no time above"


def _trials(result: TaskResult) -> str:
    failed = sum(result.failures.values())
    told = [str(result.trials), *([f"{failed} failed"] if failed else [])]
    told += [f"tuned as {result.same_as}, which is equal"] if result.same_as else []
    naive = result.best_s is not None and result.best_s == result.naive_s  # they are delivered
    told += ["no candidate was faster than the naive loops"] if naive else []
    return ", ".join([*told, *(["answered from the records"] if result.from_store else [])])


def _failures(result: TaskResult) -> str:
    reasons = [f"{kind}: {text}" for kind, text in result.examples.items()]
    return "; ".join(reasons[:MAX_REASONS]) or "-"


def shell_step(path: Path) -> str:
    """Return a shell command that loads a kernel and prints its signature."""
    code = f"import ansorpy; k = ansorpy.load({dumps(str(path))}); print(k)"
    return f"{shlex.quote(_interpreter())} -c {shlex.quote(code)}"


def _interpreter() -> str:
    """Return `python` if the shell finds this interpreter under that name, else its path."""
    found = shutil.which("python")
    return (
        "python" if found and Path(found).parent == Path(sys.executable).parent else sys.executable
    )
