"""A slot of real processes: search, race, delivery, and the end of its processes."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy.cluster.messages import Question, SlotFacts, answered, question
from ansorpy.cluster.pool import ClusterBackEnd
from ansorpy.cluster.processes import ProcessSlots
from ansorpy.cluster.slot_daemon import SlotServer
from ansorpy.events import Finished
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.host import local_target
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from tests.cluster.plain_slot import plain_target
from tests.fakes import FakePool

MM = "def mm(float(24,16) A, float(16,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that these have."""
    found: set[int] = set()
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int(
                (place / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except (OSError, ValueError):
            continue
    new = {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def test_a_slot_calls_methods_of_pools_alone() -> None:
    slot = SlotServer(lambda dag, target, cold_bytes, settings: FakePool(dag, target))
    assert "no such method" in slot.answer(Question("__init__")).error
    assert "KeyError" in slot.answer(Question("begin_cases", 7)).error
    assert slot.answer(Question("close", 7)).error == ""


@pytest.mark.slow
def test_a_tuning_on_slots_of_this_machine_delivers_a_verified_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORPY_CLUSTER", "here:1")
    found = ansorpy.tune(MM, trials=8, cores=1, store="memory", out=tmp_path, progress=False)
    (task,) = found.tasks
    assert task.verified
    assert task.kernel is not None
    a, b = (np.random.default_rng(k).random(s, dtype=np.float32)
            for k, s in enumerate([(24, 16), (16, 32)]))  # fmt: skip
    assert np.allclose(ansorpy.load(task.kernel)(a, b), a @ b, rtol=1e-5)


def there() -> tuple[ProcessSlots, list[str]]:
    """Return the slot of a core and its name, once it is there."""
    slots = ProcessSlots([usable_cores()[:1]])
    while not (names := [*slots.present()]):
        time.sleep(0.02)
    return slots, names


@pytest.mark.slow
def test_a_slot_outlives_the_thread_that_started_it() -> None:
    """Rounds are threads, and start slots again."""
    with ThreadPoolExecutor(1) as thread:
        slots, names = thread.submit(there).result()
    time.sleep(0.5)
    assert [*slots.present()] == names
    assert isinstance(answered(slots.ask(names[0], question("hello"), 60.0).result(60)), SlotFacts)
    slots.close()


def children() -> set[int]:
    """Return the processes that this one has started."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(one) for task in tasks for one in task.read_text().split()}


@pytest.mark.slow
def test_a_driver_without_cores_of_the_kind_races_and_delivers_on_a_slot(tmp_path: Path) -> None:
    """The driver starts no process but the slot."""
    target, store = plain_target(), MemoryStore()
    slots = ProcessSlots([usable_cores()[:1]], "tests.cluster.plain_slot")
    back_end = ClusterBackEnd(slots, target, MeasureSettings())
    request = Request(parse(MM), target, trials=8, fresh=True)
    before, started, last = children(), set[int](), None
    for event in run(request, CPU, store, tmp_path, pools=lambda: Pools(back_end)):
        started |= children() - before - {one.process.pid for one in slots.running.values()}
        last = event
    assert isinstance(last, Finished)
    (task,) = last.results
    assert task.verified
    assert task.kernel is not None
    assert sum(one.race is not None for one in store.export()) == 1
    assert not started


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "kill"])
def test_no_process_of_a_slot_outlives_it(how: str) -> None:
    slots, (name,) = there()
    opening = (parse(MM)[0], local_target(1), 0, MeasureSettings())
    answered(slots.ask(name, question("open", 1, *opening), 60.0).result(60))
    answered(slots.ask(name, question("attainable_flop_per_s", 1), 60.0).result(60))
    (pid,) = [one.process.pid for one in slots.running.values()]
    started = descendants(pid)
    assert started
    if how == "kill":
        os.kill(pid, signal.SIGKILL)
    slots.close()
    end_s = time.monotonic() + 20
    while any(Path(f"/proc/{one}").exists() for one in started) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert not [one for one in started if Path(f"/proc/{one}").exists()]
