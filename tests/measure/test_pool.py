"""The measuring processes survive everything a candidate can do."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansorpy.codegen.kernel import Kernel
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.timing import final_race
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.workers.spec import ResourceLimits
from ansorpy.measure.workers.worker import Worker
from ansorpy.target import Target
from tests.measure.fake import BACKEND, matmul, program

pytestmark = pytest.mark.slow

DAG = matmul()
SETTINGS = MeasureSettings(
    backend=BACKEND,
    sampling=SamplingOptions(min_sample_s=1e-4),
    race_processes=2,
    race_visits=3,
    limits=ResourceLimits(memory_bytes=1 << 30),
    sandbox="off",  # the sandbox would refuse the attempts of these candidates
)
HASTY = replace(SETTINGS, run_timeout_s=1.0)  # for candidates that hang in a call


@pytest.fixture(scope="module")
def pool() -> Iterator[LocalPool]:
    with LocalPool(DAG, Target(cores=1), SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def hasty() -> Iterator[LocalPool]:
    with LocalPool(DAG, Target(cores=1), HASTY) as made:
        yield made


def measure(pool: LocalPool, *names: str, best_s: float | None = None) -> list[Outcome | None]:
    pool.queue.cache.clear()  # drop the outcomes of earlier tests
    return pool.measure([program(name, DAG) for name in names], best_s)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("build-error", "build", "BuildError: register %7 is not defined"),
        ("build-crash", "build", "SIGSEGV"),
        ("load-error", "load", "symbol not found"),
        ("crash", "crash", "check with random inputs: SIGSEGV at address 0x8"),
        ("abort", "crash", "SIGABRT"),
        ("exit", "crash", "exit code 3"),
        ("raises", "crash", "ValueError: bad task"),
        ("bomb", "memory", ""),
        ("swapped", "wrong", "elements of C are wrong"),
        ("uninitialised", "wrong", "nan"),
        ("accumulates", "wrong", "nan"),
        ("writes-input", "wrong", "B, an input, was changed"),
        ("unstable", "wrong", "two runs differ in C"),
        ("after", "out-of-bounds", "access 0 bytes after the end of buffer C"),
        ("before", "out-of-bounds", "A"),
    ],
)
def test_a_failure_is_named(pool: LocalPool, name: str, kind: str, words: str) -> None:
    (bad,) = measure(pool, name)  # alone: a slower candidate passes fewer checks
    (good,) = measure(pool, "good")
    assert isinstance(bad, Failed)
    assert (bad.kind, words in bad.message) == (kind, True), bad
    assert isinstance(good, Measured), good


@pytest.mark.parametrize(
    ("name", "limits", "kind", "words"),
    [
        ("build-hang", {"build_timeout_s": 1.0}, "build-timeout", "not built within 1 s"),
        ("hang", {"run_timeout_s": 1.0}, "run-timeout", "no end within 1 s (check with random"),
    ],
)
def test_a_build_or_run_that_hangs_is_killed(
    name: str, limits: dict[str, float], kind: str, words: str
) -> None:
    with LocalPool(DAG, Target(cores=1), replace(SETTINGS, **limits)) as pool:  # type: ignore[arg-type]
        (bad,) = measure(pool, name)
        assert isinstance(bad, Failed)
        assert (bad.kind, words in bad.message) == (kind, True), bad
        assert kinds(measure(pool, "good")) in (["good"], [kind])  # a busy machine may exceed 1 s


def test_the_output_of_a_candidate_is_recorded_up_to_a_limit(pool: LocalPool) -> None:
    raises, flood = measure(pool, "raises", "flood")
    assert isinstance(raises, Failed)
    assert "ValueError" in raises.excerpt
    assert isinstance(flood, Measured | Failed)
    if isinstance(flood, Failed):
        assert len(flood.excerpt) <= 2000


def test_a_numpy_baseline_that_raises_leaves_the_race_to_the_kernels(pool: LocalPool) -> None:
    measure(pool, "good")  # the cases are there
    asks_for_x = matmul(left="X")
    contestants = {"good": program("good", DAG), "slow": program("slow", DAG)}
    found = final_race.race(
        pool.batches, pool.slot, asks_for_x, contestants, True, {}, lambda: False, lambda: None
    )
    assert list(found) == ["good", "slow", "numpy"]
    assert isinstance(found["good"], PairedTimes), found
    assert isinstance(found["slow"], PairedTimes), found
    assert isinstance(found["numpy"], Failed)
    assert found["numpy"].message == "in the NumPy baseline: KeyError: ('X', 0)"


def test_a_good_program_is_timed_with_its_breakdown(pool: LocalPool) -> None:
    (outcome,) = measure(pool, "good")
    assert isinstance(outcome, Measured), outcome
    assert outcome.cost_s > 0
    assert min(outcome.build_s, outcome.load_s, outcome.check_s, outcome.run_s) > 0


def test_a_hopeless_kernel_is_given_up(pool: LocalPool) -> None:
    (outcome,) = measure(pool, "slow", best_s=1e-6)
    assert isinstance(outcome, Measured), outcome
    assert outcome.aborted
    assert len(outcome.times_s) == 1


def test_grandchildren_die_with_the_candidate(pool: LocalPool) -> None:
    (outcome,) = measure(pool, "forks")
    assert isinstance(outcome, Failed)
    slot = pool.workers.slot._process
    assert slot is not None
    assert descendants(slot.pid) == []


def test_a_race_times_kernels_and_numpy_in_turns(pool: LocalPool) -> None:
    buffers = program("good", DAG).buffers
    found = pool.race(
        {
            "winner": program("good", DAG),
            "delivered": Kernel("slow", (), buffers, 1),
            "broken": program("swapped", DAG),
        }
    )
    assert list(found) == ["winner", "delivered", "broken", "numpy"]
    winner, slow, numpy = found["winner"], found["delivered"], found["numpy"]
    assert isinstance(winner, PairedTimes)
    assert isinstance(slow, PairedTimes)
    assert isinstance(numpy, PairedTimes)
    assert [len(visits) for visits in winner.times_s] == [3, 3]
    assert isinstance(found["broken"], Failed)


def test_a_shortlist_is_timed_without_checks(pool: LocalPool) -> None:
    broken, slow, good = pool.rerank(
        [program(n, DAG) for n in ("build-error", "slow", "good")], 0.1
    )
    assert broken is None
    assert slow is not None
    assert good is not None
    assert slow.code != good.code
    assert pool.rerank([program(name, DAG) for name in ("good", "crash")], 0.1) == [None, None]


def test_a_shortlist_is_not_built_again(pool: LocalPool) -> None:
    candidates = [program(name, DAG) for name in ("good", "slow")]
    assert all(isinstance(outcome, Measured) for outcome in pool.measure(candidates))
    sent = [builder.worker for builder in pool.workers.builders]
    with pytest.MonkeyPatch.context() as patch:
        calls = [counted(worker, patch) for worker in sent]
        assert None not in pool.rerank([*candidates, program("new", DAG)], 0.1)
        assert sum(map(len, calls)) == 1


def test_trials_are_timed_beside_a_reference_kernel_that_is_nearly_as_fast() -> None:
    with LocalPool(DAG, Target(cores=1), SETTINGS) as pool:
        # One by one: builders finish in any order, and a slow kernel after a fast one is given up.
        slow, other, good, again = (
            measure(pool, name)[0] for name in ("slow", "slow", "good", "good")
        )
    assert isinstance(slow, Measured)
    assert isinstance(other, Measured)
    assert isinstance(good, Measured)
    assert isinstance(again, Measured)
    assert slow.slowdown == 1.0  # no reference kernel yet
    assert other.slowdown != 1.0
    assert good.slowdown != 1.0  # timed beside the slow one; the next reference kernel


def test_kernels_on_several_threads_are_timed_by_the_runner() -> None:
    with LocalPool(DAG, Target(cores=2), SETTINGS) as pool:
        good, bad, crash, again = measure(pool, "good", "wrong-in-parallel", "crash", "good")
    assert isinstance(good, Measured), good
    assert isinstance(bad, Failed)
    assert (bad.kind, "on 2 threads" in bad.message) == ("wrong", True), bad
    assert isinstance(crash, Failed)
    assert isinstance(again, Measured)


def test_no_process_no_folder_and_no_descriptor_is_left() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        pool = LocalPool(DAG, Target(cores=1), HASTY)
        measure(pool, "good", "crash", "hang", "good")
        folder = pool.workers.folder
        pids = [w._process.pid for w in pool.workers.all if w._process is not None]
        family = [*pids, *(child for pid in pids for child in descendants(pid))]
        assert len(family) > len(pids)
        pool.close()
        assert not folder.exists()
        assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_child_ends_when_its_fork_server_is_killed() -> None:
    with LocalPool(DAG, Target(cores=1), SETTINGS) as pool:
        measure(pool, "good")
        slot = pool.workers.slot._process
        assert slot is not None
        children = descendants(slot.pid)
        slot.kill()  # no chance to clean up: the kernel ends its child
        slot.wait()
        assert children
        assert ended(children, within_s=2.0)
        (again,) = measure(pool, "good")  # and the pool starts another
    assert isinstance(again, Measured)


@pytest.mark.slow
def test_a_storm_costs_no_more_than_its_timeouts(
    pool: LocalPool, hasty: LocalPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes, hangs = 40, 2
    # A crash costs a child, a hang its timeout; no call is repeated, no fork server replaced.
    for measuring, behaviour, failure, count in (
        (pool, "crash", "crash", crashes),
        (hasty, "hang", "run-timeout", hangs),
    ):
        slot = measuring.workers.slot
        sent, process = counted(slot, monkeypatch), slot._process
        assert kinds(measure(measuring, *[behaviour] * count)) == [failure] * count
        assert len(sent) == count
        # A first candidate leads: it is called twice if the machine is slowed down.
        after = kinds(measure(measuring, "good"))
        assert after == ["good"] or (measuring is hasty and after == [failure])  # busy machine
        assert len(sent) - count in (1, 2)
        assert slot._process is process


def kinds(outcomes: list[Outcome | None]) -> list[str]:
    return [one.kind if isinstance(one, Failed) else "good" for one in outcomes]


def counted(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the function of every call that goes to the fork server."""
    sent: list[str] = []
    send = worker._send

    def noted() -> None:
        send()
        sent.append("call")

    monkeypatch.setattr(worker, "_send", noted)
    return sent


def descendants(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == pid:
                found += [int(entry.name), *descendants(int(entry.name))]
    return found


def ended(pids: list[int], within_s: float) -> bool:
    """Return whether all have ended; an orphan stays a zombie until init collects it."""

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    end = time.monotonic() + within_s
    while any(map(runs, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def killed_soon(worker: Worker, after_s: float) -> threading.Thread:
    def kill() -> None:
        time.sleep(after_s)
        if worker._process is not None:
            worker._process.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_a_fork_server_killed_while_idle_or_starting_fails_no_candidate(pool: LocalPool) -> None:
    good = program("good", DAG)
    assert isinstance(pool.measure([good])[0], Measured)
    for worker in (pool.workers.slot, pool.workers.builders[0].worker):
        assert worker._process is not None
        worker._process.kill()  # idle
        assert isinstance(pool.measure([good])[0], Measured)
        worker.kill()
        thread = killed_soon(worker, 0.05)  # while it starts
        assert isinstance(pool.measure([good])[0], Measured)
        thread.join()


def test_a_fork_server_killed_in_a_call_is_replaced_and_called_again(hasty: LocalPool) -> None:
    thread = killed_soon(hasty.workers.slot, 0.3)
    (outcome,) = hasty.measure([program("hang", DAG)])
    thread.join()
    assert isinstance(outcome, Failed)
    assert outcome.kind == "run-timeout"


def test_a_child_killed_from_outside_is_replaced_and_called_again(hasty: LocalPool) -> None:
    hasty.measure([program("good", DAG)])
    assert hasty.workers.slot._process is not None
    server = hasty.workers.slot._process.pid

    def kill() -> None:
        time.sleep(0.3)
        (child,) = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    (outcome,) = hasty.measure([program("hang", DAG)])
    thread.join()
    assert isinstance(outcome, Failed)
    assert outcome.kind == "run-timeout"
