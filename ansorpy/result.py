"""The result of a tuning, for programs and for people."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from json import dumps
from math import inf
from pathlib import Path

from ansorpy.artifact import LoadedKernel, load
from ansorpy.events import NetworkResult, Stopped, TaskResult
from ansorpy.measure.outcome import Estimated
from ansorpy.records import RacedOwn
from ansorpy.units import duration

MAX_REASONS = 3  # reasons shown for a task without a kernel


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

    @property
    def kernels(self) -> Kernels:
        """The verified kernels: `result.kernels["mm"](a, b)`."""
        return Kernels({t.name: t.kernel for t in self.tasks if t.kernel is not None})

    def __repr__(self) -> str:
        """Return the summary: latency, speed-up, trials and file of every task, and the next step.

        The fields are in `tasks`.
        """
        ended = f"{self.seconds:.1f} s in all (stopped: {self.stopped})"
        lines = [summary(self.tasks), *map(network_line, self.networks), ended]
        return "\n".join([*lines, *(f"next: {call}" for call in self._calls())])

    def _repr_html_(self) -> str:
        """Return the summary as a table, for notebooks."""
        rows = [{"task": task.name, **rows_of(task)} for task in self.tasks]
        # A column that no task fills is left out.
        heads = [h for h in (rows[0] if rows else ()) if any(row[h] != "-" for row in rows)]
        top = "".join(f"<th>{head}</th>" for head in heads)
        body = "".join(f"<tr>{_cells([row[head] for head in heads])}</tr>" for row in rows)
        calls = "".join(f"<br>{escape(network_line(one))}" for one in self.networks)
        calls += "".join(f"<br><code>{escape(call)}</code>" for call in self._calls())
        ended = escape(f"{self.seconds:.1f} s in all (stopped: {self.stopped})")
        table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
        return f"{table}<p>{ended}{calls}</p>"

    def _calls(self) -> list[str]:
        return [f"result.kernels[{dumps(name)}](...)" for name in self.kernels][:1]


def _cells(texts: Sequence[str]) -> str:
    return "".join(f"<td>{escape(text)}</td>" for text in texts)


def summary(results: Sequence[TaskResult], profile: bool = False) -> str:
    """Return some lines per task for people.

    Args:
        profile: with the estimate of a kernel that was not timed, and its parts.
    """
    lines: list[str] = []
    for result in results:
        told = rows_of(result)
        lines.append(f"{result.name}: {told.pop('latency')}")
        if profile and result.estimate is not None:
            told["estimate"] = _estimate(result.estimate)
        lines += [f"  {name:9} {text}" for name, text in told.items() if text != "-"]
    return "\n".join(lines)


def network_line(network: NetworkResult) -> str:
    """Return the latency of a network for people."""
    if network.best_s is None:
        return f"network {network.name}: no latency: a task has no time"
    told = [duration(network.best_s)]
    if network.baseline_s is not None:
        told.append(f"{network.baseline_s / network.best_s:.2f}x untuned or NumPy")
    if network.target_s is not None:
        met = "reached" if network.best_s <= network.target_s else "missed"
        told.append(f"target {duration(network.target_s)} {met}")
    return f"network {network.name}: {', '.join(told)}"


def rows_of(result: TaskResult) -> dict[str, str]:
    """Return the facts of a task by their name; "-" for a fact that is missing."""
    if result.estimated and result.kernel is not None:
        latency = "not timed: estimated without a GPU, verified under emulation"
    elif result.best_s is None:
        latency = "no kernel: no candidate passed its checks"
    else:
        rate = [] if result.rate is None else [str(result.rate)]
        verified = "verified" if result.verified else "not verified"
        latency = ", ".join([duration(result.best_s), *rate, verified])
        if result.items_per_s is not None:
            told = f"{result.items_per_s:.6g} items per second in {result.copies} copies at once"
            latency = f"{told}; each: {latency}"
    return {
        "latency": latency,
        "speed-up": _speedup(result),
        "trials": _trials(result),
        "failures": _failures(result),
        "suspects": "; ".join(map(str, result.suspects)) or "-",
        "runner-up": str(result.contrast or "-"),
        "outlook": str(result.forecast or "-"),
        "compiled": _compiled(result),
        "kernel": "-" if result.kernel is None else str(result.kernel),
    }


def _estimate(found: Estimated) -> str:
    """Return an estimate with its parts, the longest first: all but the launch overlap."""
    longest = sorted(found.parts, key=lambda part: -part[1])
    told = [
        f"{name.removesuffix('_s').replace('_', ' ')} {duration(seconds)}"
        for name, seconds in longest
    ]
    counted = "counted by ptxas" if found.assembled else "estimated"
    return (
        f"{duration(found.seconds)} by the analytic model, not measured"
        f" ({', '.join(told)}; {found.registers} registers, {counted})"
    )


def _speedup(result: TaskResult) -> str:
    rivals = {"the untuned kernel": result.naive_s, "NumPy": result.numpy_s}
    best_s = result.best_s
    told = [
        f"{s / best_s:.2f}x {name} ({duration(s)})"
        for name, s in rivals.items()
        if s is not None and best_s is not None
    ]
    if result.winner == "baseline" and best_s is not None:
        faster = "NumPy" if (result.numpy_s or inf) < best_s else "the untuned kernel"
        told.append(f"the baseline won: {faster}")
    told += [_guest(one, best_s, f"your {one.name}") for one in result.own]
    if result.winner == "own":
        first = min((one for one in result.own if one.best_s), key=lambda one: one.best_s or inf)
        told.append(f"your {first.name} won: keep it")
    told += [f"NumPy left out: {result.numpy_note}"] if result.numpy_note else []
    told += [_guest(one, best_s, one.name) for one in result.peers]
    return ", ".join(told) or "-"


def _compiled(result: TaskResult) -> str:
    """Return the time of compilation, and its place, which is in no latency."""
    if result.compile_s is None:
        return "-"
    when = "when its library was made" if result.library else "at the first call of kernel.py"
    return f"{duration(result.compile_s)}, {when}; in no time above"


def _guest(one: RacedOwn, best_s: float | None, name: str) -> str:
    """Return the time of a guest of the race, called `name`, or why it was left out."""
    if one.best_s is None:
        return f"{name} left out: {one.note}"
    ratio = [] if best_s is None else [f"{one.best_s / best_s:.2f}x"]
    return " ".join([*ratio, f"{name} ({duration(one.best_s)})"])


def _trials(result: TaskResult) -> str:
    failed = sum(result.failures.values())
    told = [str(result.trials), *([f"{failed} failed"] if failed else [])]
    told += [f"tuned as {result.same_as}, which is equal"] if result.same_as else []
    return ", ".join([*told, *(["answered from the records"] if result.from_store else [])])


def _failures(result: TaskResult) -> str:
    if result.kernel is not None:
        return "-"
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
