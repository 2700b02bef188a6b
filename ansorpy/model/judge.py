"""The race of a written bundle against the runtimes that are installed, and its verdict."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ansorpy.bundle.amend import amend
from ansorpy.bundle.load import load_model
from ansorpy.errors import PackageError, RunError
from ansorpy.libraries import NAMES, with_version
from ansorpy.measure.cores import exclusive, lock_folder, slot_cores
from ansorpy.model.budget import EXIT_S
from ansorpy.model.compilation import Compilation
from ansorpy.model.contestant import MIN_CALLS, WARM_CALLS
from ansorpy.model.events import BundleWritten, Comparing, ModelEvent
from ansorpy.model.race import Entry, Standing, race
from ansorpy.model.request import ModelRequest
from ansorpy.tuner.reasons.remedies import remedies_of
from ansorpy.verdict import Judgment, Peer, peer_of

PACKAGES: Final[Mapping[str, str]] = {  # package of each runtime
    "ort": "onnxruntime", "openvino": "openvino", "torch": "torch", "inductor": "torch",
}  # fmt: skip
FILED: Final = ("ort", "openvino")  # runtimes that take a model's file
OPENING_S: Final = 2.0  # to start a contestant and run it once: 1 to 4 s seen
ROUNDS: Final = ((5, 2.0), (3, 0.5))  # rounds of a race and seconds of timing: usual, in a hurry


@dataclass(frozen=True, slots=True)
class Rivals:
    """The runtimes that can run a model's file on this machine, or why there is no race."""

    entries: tuple[Entry, ...]
    names: tuple[str, ...]  # with versions, in the order of the entries
    missing: str = ""

    def seconds(self, call_s: float = 0.0, how: tuple[int, float] = ROUNDS[-1]) -> float:
        """Return about how long a race takes.

        Args:
            call_s: seconds of a call of a contestant.
            how: rounds, and seconds of timing per contestant.
        """
        rounds, timing_s = how
        turns_s = max(timing_s, rounds * (MIN_CALLS + WARM_CALLS) * call_s)
        return (len(self.entries) + 1) * (OPENING_S + turns_s) if self.entries else 0.0


def rivals_of(request: ModelRequest) -> Rivals:
    """Return the installed runtimes that can run the file of a request."""
    file = None if request.document is not None else request.file
    if not request.options.race:
        return Rivals((), (), "no race was asked for")
    if file is None:
        return Rivals((), (), "there is no ONNX file that another runtime could run")
    found = [runtime for runtime in FILED if find_spec(PACKAGES[runtime]) is not None]
    return Rivals(tuple(Entry(one, file) for one in found), tuple(map(name_of, found)))


def name_of(runtime: str) -> str:
    """Return the name of a runtime for people, with its version: `ONNX Runtime 1.32.0`."""
    package = PACKAGES[runtime]
    compiled = " with torch.compile" if runtime == "inductor" else ""
    return f"{with_version(package) or NAMES[package]}{compiled}"


def compared(
    work: Compilation, written: BundleWritten, rivals: Rivals
) -> Generator[ModelEvent, None, BundleWritten]:
    """Race the last bundle against the installed runtimes; return it with its verdict.

    After a race the bundle is written anew, with the verdict in its manifest.
    """
    asked, ref, budget = work.request, work.reference, work.budget
    assert ref is not None, "a bundle was written"
    if rivals.entries:
        yield Comparing(rivals.names)
    steps = remedies_of(work.tasks.dags, asked.options.allow, work.trials, budget.spent_s)
    cores, left_s = asked.target.cores, budget.left_s - EXIT_S
    verdict = judged(written.bundle, rivals, cores, ref.source, written.model_s, left_s, steps)
    written = replace(written, verdict=verdict, seconds=budget.spent_s)
    if verdict.peer is not None:
        amend(written.bundle, {"verdict": verdict.as_object()})
        yield written
    return written


def judged(
    bundle: Path,
    rivals: Rivals,
    threads: int,
    oracle: str,
    call_s: float,
    left_s: float,
    remedies: tuple[str, ...] = (),
) -> Judgment:
    """Race a bundle, in turns on the cores that kernels are timed on; return the verdict.

    Args:
        oracle: program that the outputs of the bundle were checked against.
        call_s: the sum of the times of its kernels, the figure of a verdict without a race.
        left_s: seconds that the race may take; if they are too few, there is none.
        remedies: steps that may make the bundle faster.
    """

    def without(reason: str) -> Judgment:
        return Judgment("bundle", call_s, (), threads, oracle, remedies, missing=reason)

    if rivals.missing or not rivals.entries:
        return without(rivals.missing)
    how = next((one for one in ROUNDS if rivals.seconds(call_s, one) <= left_s), None)
    if how is None:
        need_s = rivals.seconds(call_s)
        return without(f"a race takes about {need_s:.0f} s, and {max(left_s, 0.0):.0f} s were left")
    try:
        with load_model(bundle, threads=threads) as model:
            every = [{**inputs, **model.bound()} for inputs in model.timed_samples]
            sizes, weights = len(every) if model.dims else 0, model.timed_weights
    except PackageError as error:
        raise RunError(str(error)) from error
    rounds, timing_s = how
    seconds = max(timing_s, rounds * MIN_CALLS * call_s * len(every))
    entries = [Entry("ansorpy", bundle), *rivals.entries]
    with exclusive(slot_cores(threads), lock_folder()):
        found = race(entries, every, threads, seconds, rounds, weights)
    if found[0].failed:
        return without(f"the bundle left the race ({found[0].failed})")
    return verdict_of(found, rivals.names, threads, oracle, remedies, sizes)


def verdict_of(
    standings: tuple[Standing, ...],
    names: tuple[str, ...],
    threads: int,
    oracle: str,
    remedies: tuple[str, ...] = (),
    sizes: int = 0,
) -> Judgment:
    """Return the verdict on the first contestant of a race.

    Args:
        names: of the other contestants, in order.
        sizes: number of sizes of dims that each time is a mean over; 0 without dims.
    """
    ours, *others = standings
    peers = tuple(
        Peer(name, None, one.failed)
        if one.failed
        else peer_of(name, ours.visits_s, one.visits_s, one.median_s)
        for name, one in zip(names, others, strict=True)
    )
    slow = max(one.slowdown for one in standings)
    return Judgment("bundle", ours.median_s, peers, threads, oracle, remedies, slow, sizes=sizes)
