"""The suite's handle of a contestant's process: queried in turns, stopped in between."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ansorpy.measure.timing.turn_process import TurnProcess
from benchmarks.common import say
from benchmarks.suite.contestants import Contestant
from benchmarks.suite.environments import settings_of

ROOT = Path(__file__).parents[2]


class Guest(TurnProcess):
    """A fresh process of a contestant, pinned to cores; stopped while others are timed."""

    def __init__(
        self, who: Contestant, python: Path, threads: int, cores: Sequence[int], log: IO[bytes]
    ) -> None:
        self.who = who
        command = [str(python), "-m", "benchmarks.suite.host", who.module, "--cores"]
        super().__init__(
            [*command, *map(str, cores)], log, folder=ROOT, environment=settings_of(who, threads)
        )


def versions_of(guest: Guest, timeout_s: float) -> dict[str, str] | None:
    """Return the versions of a contestant's packages, None if its process cannot start."""
    answer = guest.ask({"do": "versions", "packages": list(guest.who.packages)}, timeout_s)
    if "versions" in answer:
        found: dict[str, str] = answer["versions"]
        return found
    say(f"{guest.who.title}: does not start: {answer['failed']}")
    return None
