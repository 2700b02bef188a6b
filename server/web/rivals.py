"""The kernel of a task beside the programs that its user would run instead: bars and lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.plot.roofline import Roofline
from ansorpy.server.schemas.job import TaskReply, VerdictReply

OURS: Final = "this kernel"
LONGEST: Final = 2.5  # end of the bars, times the longest library: slower loops are cut there


@dataclass(frozen=True, slots=True)
class RivalBar:
    """A program of the race: seconds of a call, None with the reason in `note`.

    `share` is the length of its bar from 0 to 1; `cut`: the bar is longer than the picture.
    """

    name: str
    seconds: float | None
    note: str = ""
    share: float = 0.0
    cut: bool = False


def rivals(task: TaskReply) -> Iterator[RivalBar]:
    """Yield the other programs of a task, as far as they are known so far: the libraries first."""
    peers = () if task.verdict is None else task.verdict.peers
    for one in peers:
        yield RivalBar(one.name, one.seconds, one.note)
    if task.verdict is None and (task.numpy_s is not None or task.numpy_note):
        yield RivalBar("NumPy", task.numpy_s, task.numpy_note)
    if task.naive_s is not None:
        yield RivalBar("untuned", task.naive_s)


def rival_bars(task: TaskReply) -> list[RivalBar]:
    """Return a bar for the kernel and each other program; none unless both have a time."""
    return bars(OURS, task.best_s, list(rivals(task)))


def bundle_bars(verdict: VerdictReply | None) -> list[RivalBar]:
    """Return a bar for a bundle and each runtime of its race; none without a race."""
    if verdict is None:
        return []
    peers = [RivalBar(one.name, one.seconds, one.note) for one in verdict.peers]
    return bars("this bundle", verdict.ours_s, peers)


def bars(name: str, ours_s: float | None, others: Sequence[RivalBar]) -> list[RivalBar]:
    """Return bars of comparable lengths, ours first; none unless both have a time."""
    times_s = [one.seconds for one in others if one.seconds is not None]
    if ours_s is None or not times_s:
        return []
    libraries = [one.seconds or 0.0 for one in others if one.name != "untuned"]
    end_s = min(max([*times_s, ours_s]), LONGEST * max([*libraries, ours_s]))
    return [
        RivalBar(
            one.name, one.seconds, one.note, min(1.0, (one.seconds or 0.0) / end_s),
            (one.seconds or 0.0) > end_s,
        )
        for one in (RivalBar(name, ours_s), *others)
    ]  # fmt: skip


def rival_lines(task: TaskReply, roofline: Roofline | None) -> Sequence[tuple[str, float]]:
    """Return the seconds of other programs by name, and of a kernel at the arithmetic peak."""
    lines = [(one.name, one.seconds) for one in rivals(task) if one.seconds is not None]
    if roofline is not None and roofline.measured and roofline.peak_flop_per_s and task.flop:
        lines.append(("arithmetic peak", task.flop / roofline.peak_flop_per_s))
    return lines
