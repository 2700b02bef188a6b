"""Tune the cases with TVM MetaSchedule, once each: libraries and curves are kept for contests.

    python -m benchmarks.suite.metaschedule [--set duel] [--trials 64] [--threads 2 1]

Each tuning builds on all cores, as MetaSchedule does by default, and runs on `--threads`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.common import RAW, duration, say
from benchmarks.suite.contestants import CONTESTANTS, DUEL_TRIALS, METASCHEDULE, TVM
from benchmarks.suite.environments import ROOT, pythons, settings_of
from benchmarks.suite.options import add_peers, rows_parser, selected
from benchmarks.suite.peers.tvm_peer import INFO

FOLDER: Final = RAW / "suite" / "metaschedule"
TIMEOUT_S: Final = 900.0


def tuning_of(case: str, threads: int, seed: int, trials: int = DUEL_TRIALS) -> Path:
    """Return the folder of a tuning."""
    return FOLDER / f"{case}-{trials}x{threads}-s{seed}"


def info_of(folder: Path) -> dict[str, Any] | None:
    """Return the facts of a tuning, None if it does not exist."""
    path = folder / INFO
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def tuned(case: str, folder: Path, python: Path, threads: int, trials: int, seed: int) -> None:
    """Run one tuning; record a failure in its folder, so that it is not tried again."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = len(os.sched_getaffinity(0))
    command = [
        str(python), "-m", "benchmarks.suite.peers.tvm_tune", case, str(folder),
        "--trials", str(trials), "--threads", str(threads), "--jobs", str(jobs),
        "--seed", str(seed),
    ]  # fmt: skip
    settings = settings_of(CONTESTANTS[METASCHEDULE], threads)
    with (folder / "log.txt").open("wb") as log:
        running = subprocess.Popen(
            command, cwd=ROOT, env=settings, stdout=log, stderr=log, start_new_session=True
        )
        try:
            why = f"exit code {running.wait(TIMEOUT_S)}"
        except subprocess.TimeoutExpired:
            why = f"no end within {TIMEOUT_S:.0f} s"
        finally:  # a builder that hangs would outlive the tuning and disturb the next one
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    if info_of(folder) is None:
        say(f"MetaSchedule, {case}: {why}; see {folder / 'log.txt'}")
        (folder / INFO).write_text(json.dumps({"failed": why}))


def tune_all(
    cases: Sequence[str], threads: Sequence[int], trials: int, seed: int,
    environments: Mapping[str, Path], deadline_s: float,
) -> bool:  # fmt: skip
    """Tune the missing cases; return False if the deadline (monotonic) passed first."""
    if TVM not in environments:
        say("MetaSchedule is left out: no environment of TVM (make bench-peers)")
        return True
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # builders end, too
    missing = [
        (case, count, folder)
        for count in threads
        for case in cases
        if info_of(folder := tuning_of(case, count, seed, trials)) is None
    ]
    begin_s = time.monotonic()
    for at, (case, count, folder) in enumerate(missing):
        now_s = time.monotonic()
        if now_s > deadline_s:
            say(f"time is up: {len(missing) - at} tunings by MetaSchedule are missing")
            return False
        left = (now_s - begin_s) / at * (len(missing) - at) if at else None
        say(f"MetaSchedule {at + 1}/{len(missing)}, {duration(left)} left: {folder.name}")
        tuned(case, folder, environments[TVM], count, trials, seed)
    return True


def main() -> None:
    """Tune the missing cases."""
    parser = rows_parser(__doc__)
    parser.set_defaults(trials=DUEL_TRIALS, set="duel")
    add_peers(parser)
    args = parser.parse_args()
    deadline_s = time.monotonic() + args.seconds
    environments = pythons(args.peers, args.env)
    tune_all(selected(args), args.threads, args.trials, args.seed, environments, deadline_s)


if __name__ == "__main__":
    main()
