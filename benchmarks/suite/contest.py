"""One contest: all contestants on the same case and threads, in turns, in fresh processes.

A process is one sample of a contestant: the same machine code may run at another speed in the
next process, because its memory has other addresses. The processes of a round serve several cases
in turn, each with fresh arrays; all processes except the timed one are stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any, Final

import numpy as np

from ansorpy.measure.cores import exclusive, lock_folder
from ansorpy.measure.roofline import copy_bytes_per_s, peak_flop_per_s
from ansorpy.measure.timing.turn_process import Answer
from ansorpy.target import Target
from benchmarks.common import Row, say
from benchmarks.suite.cases import CASES
from benchmarks.suite.contestants import Contestant
from benchmarks.suite.forms import moved_bytes
from benchmarks.suite.guest import Guest
from benchmarks.suite.reference import random_inputs, reference

TOLERANCE: Final = 1e-3  # relative to the largest value; a larger difference is a wrong result
QUIET: Final = 0.06  # maximum share of the cores used by other processes during a visit
PEAK_SAMPLES: Final = 5  # some milliseconds each
COPY_SAMPLES: Final = 5
LEAST_COPY_BYTES: Final = 256 << 10  # smaller copies measure the call
PREPARE_S: Final = 180.0
ANSWER_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Parameters of a contest."""

    visits: int = 2  # turns per process
    visit_s: float = 0.15
    warm_s: float = 0.05
    retries: int = 1  # repetitions of a visit during which other processes used the cores
    seed: int = 0


class Party:
    """The processes of one round: started when first needed, again after a crash."""

    def __init__(
        self, pythons: Mapping[str, Path], threads: int, cores: Sequence[int], log: IO[bytes]
    ) -> None:
        self.pythons, self.threads, self.cores, self.log = pythons, threads, tuple(cores), log
        self._guests: dict[str, Guest] = {}

    def guest(self, who: Contestant) -> Guest:
        """Return the running process of a contestant."""
        guest = self._guests.get(who.name)
        if guest is None or not guest.alive:
            python = self.pythons[who.environment]
            guest = Guest(who, python, self.threads, self.cores, self.log)
            self._guests[who.name] = guest
        return guest

    def close(self) -> None:
        """End all processes."""
        for guest in self._guests.values():
            guest.close()


@contextmanager
def party(
    pythons: Mapping[str, Path], threads: int, cores: Sequence[int], log: Path
) -> Iterator[Party]:
    """Open the processes of a round; their output is appended to `log`.

    Args:
        cores: one per thread; fewer are enough if nothing is timed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        guests = Party(pythons, threads, cores, stack.enter_context(log.open("ab")))
        stack.callback(guests.close)
        yield guests


def reference_file(folder: Path, case: str, seed: int) -> Path:
    """Return the float64 result of a case, rounded to float32; computed once.

    The rounding is a tenth of the error of the most exact contestant.
    """
    path = folder / f"{case}-s{seed}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        form = CASES[case].form
        partial = path.with_suffix(".partial.npy")
        np.save(partial, reference(form, random_inputs(form, seed)).astype(np.float32))
        partial.replace(path)
    return path


def prepare(
    case: str, variants: Mapping[str, str], who: Sequence[Contestant], guests: Party, seed: int,
    folder: Path,
) -> dict[str, Answer]:  # fmt: skip
    """Let all contestants prepare a case, and check the results; return an answer per contestant.

    Args:
        variants: by contestant, if its variant depends on the case.
        folder: files that contestants keep between processes.
    """
    known = reference_file(folder / "references", case, seed)
    found: dict[str, Answer] = {}
    for one in who:
        guest = guests.guest(one)
        place = folder / "work" / f"{one.name}-{guests.threads}" / case
        place.mkdir(parents=True, exist_ok=True)
        question = {
            "do": "prepare", "case": case, "threads": guests.threads, "seed": seed,
            "variant": variants.get(one.name, one.variant), "folder": str(place),
            "reference": str(known),
        }  # fmt: skip
        found[one.name] = _judged(guest.ask(question, PREPARE_S))
        guest.pause()
    return found


def drop(who: Sequence[Contestant], guests: Party) -> None:
    """Let all contestants free the arrays of the case."""
    for one in who:
        if guests.guest(one).alive:
            guests.guest(one).ask({"do": "drop"}, ANSWER_S)
            guests.guest(one).pause()


def hold(
    case: str, variants: Mapping[str, str], who: Sequence[Contestant], guests: Party,
    target: Target, terms: Terms, folder: Path,
) -> Row:  # fmt: skip
    """Return one row: the time of every contestant in its process, and the peaks of the machine.

    Args:
        variants, folder: as for `prepare`.
    """
    found = prepare(case, variants, who, guests, terms.seed, folder)
    ready = [one for one in who if "away" in found[one.name]]
    with exclusive(guests.cores, lock_folder()):
        visits, peaks = _visits(ready, guests, target, terms)
    for name, times in visits.items():
        found[name] |= _merged(times)
    drop(who, guests)
    working_set = max(LEAST_COPY_BYTES, moved_bytes(CASES[case].form))
    return {
        "case": case,
        "threads": guests.threads,
        "fma_flop_per_s": median(peaks),
        "fma_spread": (max(peaks) - min(peaks)) / median(peaks),
        "copy_bytes_per_s": copy_bytes_per_s(guests.threads, working_set, COPY_SAMPLES),
        "contestants": found,
    }


def _judged(answer: Answer) -> Answer:
    """Return the answer of a preparation; a wrong result is a failure."""
    away = answer.get("away")
    if away is not None and not away <= TOLERANCE:
        return {"failed": f"wrong: {away:.3g} away from float64, limit {TOLERANCE}"}
    return answer


def _visits(
    ready: Sequence[Contestant], guests: Party, target: Target, terms: Terms
) -> tuple[dict[str, list[Answer]], list[float]]:
    """Time all contestants in turns; measure the FMA peak before, between and after the turns."""
    found: dict[str, list[Answer]] = {one.name: [] for one in ready}
    peaks = [peak_flop_per_s(target, "float32", PEAK_SAMPLES)]
    for visit in range(terms.visits):
        order = ready if visit % 2 == 0 else list(reversed(ready))
        for one in order:
            answer = _visit(guests.guest(one), terms)
            if "median_s" in answer:
                found[one.name].append(answer)
            else:
                say(f"{one.title}: {answer}")
        peaks.append(peak_flop_per_s(target, "float32", PEAK_SAMPLES))
    return found, peaks


def _visit(guest: Guest, terms: Terms) -> Answer:
    """Return the quietest of a few tries."""
    question = {"do": "time", "seconds": terms.visit_s, "warm_s": terms.warm_s}
    tries: list[Answer] = []
    for _ in range(1 + terms.retries):
        answer = guest.ask(question, ANSWER_S)
        if "median_s" not in answer:
            return answer
        tries.append(answer)
        if answer["foreign"] <= QUIET:
            break
    guest.pause()
    return min(tries, key=lambda answer: float(answer["foreign"]))


def _merged(times: Sequence[Answer]) -> dict[str, Any]:
    """Return the figure of one process: the median of the medians of its visits."""
    if not times:
        return {"failed": "no visit succeeded"}
    return {
        "median_s": median(t["median_s"] for t in times),
        "least_s": min(t["least_s"] for t in times),
        "samples": sum(t["samples"] for t in times),
        "foreign": max(t["foreign"] for t in times),
    }
