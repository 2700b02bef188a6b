"""Tune our kernels for the contests, once; every contest uses the stored zips.

    python -m benchmarks.suite.tune [--trials 256] [--threads 1 2] [--only CASE ...]

Beside every zip lies a JSON file with the curve of the search: by trial, the seconds from the
request to the end of its batch and the best cost so far; the first answer, checked and timed before
any trial, is trial 0. Earlier records are not used.
"""

import json
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.events import Finished, FirstAnswer
from ansorpy.loopir.nodes import Program
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalBackEnd
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.records import IMPORTED, MemoryStore, Origin, Record
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.race.ranking import NAIVE
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from benchmarks.common import RAW, chosen, commit, duration, say, today
from benchmarks.speed import OursOnly
from benchmarks.suite.cases import DUEL, takes_winograd
from benchmarks.suite.contestants import (
    CONTESTANTS,
    DUEL_TRIALS,
    OURS,
    OURS_64,
    OURS_64_WINOGRAD,
    OURS_RUNTIME,
    WITH_WINOGRAD,
)
from benchmarks.suite.options import add_who, rows_parser, selected
from benchmarks.suite.rows import ROWS

KERNELS: Final = RAW / "suite" / "kernels"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One kernel to tune: its contestant, and the options of its search."""

    case: str
    who: str
    threads: int
    trials: int
    seconds: float | None
    seed: int

    @property
    def constant_weights(self) -> bool:
        """True if weights may be packed ahead of time."""
        return CONTESTANTS[self.who].constant_weights

    @property
    def path(self) -> Path:
        """Path of the zip. Contestants whose options make no difference share a kernel."""
        packed = "-packed" if self.constant_weights else ""
        packed += "-winograd" if CONTESTANTS[self.who].allow else ""
        return KERNELS / f"{self.case}{packed}-{self.trials}x{self.threads}-s{self.seed}.zip"

    @property
    def curve(self) -> Path:
        """Path of the curve of the search; written even if no kernel passed its checks."""
        return self.path.with_suffix(".json")


def wanted(cases: Sequence[str], args: Namespace) -> Iterator[Wanted]:
    """Yield the kernels of the cases, most important columns of the table first."""
    for threads in args.threads:
        for case in cases:
            if ROWS[case].has_weights:
                yield Wanted(case, OURS, threads, args.trials, args.tune_seconds, args.seed)
            yield Wanted(case, OURS_RUNTIME, threads, args.trials, args.tune_seconds, args.seed)
            for who in WITH_WINOGRAD.values() if takes_winograd(case) else ():
                yield Wanted(case, who, threads, args.trials, args.tune_seconds, args.seed)
            for who in duellists(case):
                yield Wanted(case, who, threads, DUEL_TRIALS, None, args.seed)


def duellists(case: str) -> tuple[str, ...]:
    """Return our columns that are compared with MetaSchedule at equal trials."""
    if case not in DUEL:
        return ()
    return (OURS_64, OURS_64_WINOGRAD) if takes_winograd(case) else (OURS_64,)


class Finalists(OursOnly):
    """A pool whose final race is among tuned kernels, if there are any.

    Untuned loops of the larger rows take up to half a minute per call.
    """

    def race(
        self,
        contestants: Mapping[str, Program | Kernel],
        numpy: bool = True,
        first_case_s: Mapping[str, float] | None = None,
        late: Callable[[], bool] = lambda: False,
        beside: Callable[[], object] = lambda: None,
        own: Sequence[OwnKernel] = (),
        peers: bool = False,
    ) -> dict[str, PairedTimes | Failed]:
        """Race the tuned kernels without libraries; if none passes, race the untuned kernel."""
        tuned = {name: one for name, one in contestants.items() if name != NAIVE}
        found = super().race(tuned, numpy, first_case_s, late, beside, own) if tuned else {}
        if any(isinstance(one, PairedTimes) for one in found.values()):
            return found
        return found | super().race(
            {NAIVE: contestants[NAIVE]}, numpy, first_case_s, late, beside, own
        )


class WatchedStore(MemoryStore):
    """A store that records the time of every trial, and the best cost at that time."""

    def __init__(self) -> None:
        super().__init__()
        self.begin_s = time.monotonic()
        self.trials = 0
        self.curve: list[tuple[float, int, float | None]] = []

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Store the records of a batch, or the record of the final race."""
        super().append(records, origin)
        seconds = time.monotonic() - self.begin_s
        for record in records:
            if record.race is None:
                self.trials += 1
                self.note(seconds, record.best_s)

    def note(self, seconds: float, cost_s: float | None) -> None:
        """Add a point: the best cost after `seconds`, None if all trials failed.

        The first answer is a separate point: times of trials are relative to a reference
        kernel.
        """
        began = self.curve and bool(self.curve[-1][1]) == bool(
            self.trials
        )  # best of trials only, not of the first answer
        best_s = self.curve[-1][2] if began else None
        found = [cost for cost in (best_s, cost_s) if cost is not None]
        self.curve.append((seconds, self.trials, min(found, default=None)))


def tuned(kernel: Wanted) -> None:
    """Tune a kernel; write zip and curve.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; no file is written.
    """
    dag = ROWS[kernel.case].dag(kernel.constant_weights)
    request = Request(
        (dag,), local_target(kernel.threads), trials=kernel.trials, seconds=kernel.seconds,
        seed=kernel.seed, fresh=True, allow=CONTESTANTS[kernel.who].allow,
    )  # fmt: skip
    store = WatchedStore()

    def pools() -> Pools:
        return Pools(LocalBackEnd(request.target, MeasureSettings(), Finalists))

    for event in run(request, None, store, KERNELS / "work", pools=pools):
        if isinstance(event, FirstAnswer):
            store.note(event.seconds, event.best_s)
        last = event
    assert isinstance(last, Finished)
    if last.stopped == "interrupted":
        raise KeyboardInterrupt
    result = last.results[0]
    facts: dict[str, Any] = {
        **asdict(kernel), "curve": store.curve, "tune_s": last.seconds, "stopped": last.stopped,
        "tried": result.trials, "best_s": result.best_s, "naive_s": result.naive_s,
        "winner": result.winner, "failures": dict(result.failures), "commit": commit(),
        "date": today(),
    }  # fmt: skip
    if result.kernel is not None:
        shutil.copyfile(result.kernel, kernel.path)
    kernel.curve.write_text(json.dumps(facts))


def tune_all(some: Sequence[Wanted], deadline_s: float) -> bool:
    """Tune the missing kernels; return False if the deadline (monotonic) passed first."""
    KERNELS.mkdir(parents=True, exist_ok=True)
    missing = [one for one in some if not one.curve.exists()]
    begin_s = time.monotonic()
    for at, one in enumerate(missing):
        now_s = time.monotonic()
        if now_s > deadline_s:
            say(f"time is up: {len(missing) - at} kernels were not tuned")
            return False
        left = (now_s - begin_s) / at * (len(missing) - at) if at else None
        if one.curve.exists():
            continue  # contestants share the kernel
        say(f"tune {at + 1}/{len(missing)}, {duration(left)} left: {one.path.stem}")
        tuned(one)
    return True


def main() -> None:
    """Tune the missing kernels."""
    parser = rows_parser(__doc__)
    add_who(parser)
    parser.add_argument("--retune", action="store_true", help="forget the kernels of these rows")
    args = parser.parse_args()
    who = chosen(CONTESTANTS, args.who)
    some = [one for one in wanted(selected(args), args) if one.who in who]
    if args.retune:
        for one in some:
            one.curve.unlink(missing_ok=True)
            one.path.unlink(missing_ok=True)
    tune_all(some, time.monotonic() + args.seconds)


if __name__ == "__main__":
    main()
