"""The preflight of a search: memory, and one kernel that is built and right."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorpy
from ansorpy.errors import RunError, SpecError
from ansorpy.events import Event, Preflight, RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.free_memory import free_memory
from ansorpy.measure.host import local_target
from ansorpy.measure.pool import Memory
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.workers.spec import ResourceLimits
from ansorpy.progress import as_line
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.topi import workloads
from ansorpy.tuner.parts.pools import shared_pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.preflight import LEAST_TIMES, check_memory, dag_bytes
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def task_of(text: str) -> Task:
    (dag,) = parse(text)
    return Task.of(dag, local_target(1), "cpu@0")


@pytest.mark.parametrize(
    ("first_answer", "by"), [(True, "the first answer"), (False, "the untuned kernel")]
)
def test_one_kernel_is_proved_before_the_first_trial(
    tmp_path: Path, first_answer: bool, by: str
) -> None:
    request = Request(tuple(parse(MM)), local_target(1), trials=2, first_answer=first_answer)
    events: list[Event] = list(run(request, CPU, MemoryStore(), tmp_path))
    (told,) = [event for event in events if isinstance(event, Preflight)]
    kinds = [type(event) for event in events]
    assert kinds.index(Preflight) < kinds.index(RoundDone)
    assert (told.task, told.by, told.need_bytes) == ("mm", by, 24 * 4 * (16 * 24 + 24 * 32 + 512))
    assert as_line(told).startswith(f"preflight: {by} of mm was built and is right")
    assert "; a check takes up to 156 KiB of memory, " in as_line(told)


def test_a_kernel_on_record_is_not_proved_again(tmp_path: Path) -> None:
    store = MemoryStore()
    seen: list[Event] = []
    for trials in (2, 4):
        request = Request(tuple(parse(MM)), local_target(1), trials=trials, first_answer=False)
        seen = list(run(request, CPU, store, tmp_path))
    (told,) = [event for event in seen if isinstance(event, Preflight)]
    assert (told.by, told.seconds) == ("a trial on record", 0.0)


def test_a_machine_that_runs_no_kernel_ends_the_search_before_its_first_trial(
    tmp_path: Path,
) -> None:
    request = Request(tuple(parse(MM)), local_target(1), trials=64)
    starved = MeasureSettings(limits=ResourceLimits(memory_bytes=1 << 16))
    store = MemoryStore()
    with pytest.raises(RunError) as caught:
        list(run(request, CPU, store, tmp_path, pools=lambda: shared_pools(request, starved)))
    told = str(caught.value)
    assert told.startswith("cannot search kernels of 'mm' because its untuned kernel fails (")
    assert told.endswith(
        "); expected a kernel that is built, runs and is right: `ansorpy doctor` checks this"
        " machine"
    )
    assert store.count() == 0


def test_arguments_beyond_the_memory_of_a_candidate_are_refused(tmp_path: Path) -> None:
    large = "def copy(float(20000,40000) A) -> (B) { B(i,j) = A(i,j) + 1 }"
    with pytest.raises(SpecError) as caught:
        ansorpy.tune(large, trials=2, store=MemoryStore(), out=tmp_path)
    assert str(caught.value) == (
        "cannot tune 'copy' because its inputs and outputs take 5.96 GiB; expected at most 4 GiB,"
        " the memory of one candidate"
    )


def test_a_range_beyond_the_memory_is_refused_with_the_largest_size_that_fits(
    tmp_path: Path,
) -> None:
    text = "def copy(float({},40000) A) -> (B) {{ B(i,j) = A(i,j) + 1 }}"
    most = 2**32 // (2 * 4 * 40000) // 8 * 8
    with pytest.raises(SpecError) as caught:
        ansorpy.tune(
            text.format("N in 8..20000 step 8"), trials=2, store=MemoryStore(), out=tmp_path
        )
    assert str(caught.value) == (
        "cannot tune 'copy' because N in 8..20000 step 8 needs 5.96 GiB for inputs and outputs;"
        f" expected N in 8..{most} step 8, within 4 GiB for inputs and outputs"
    )
    free_bytes = LEAST_TIMES * dag_bytes(task_of(text.format("7")).dag)
    check_memory([task_of(text.format("N in 1..7"))], Memory(free_bytes))
    with pytest.raises(SpecError, match=r"N in 1\.\.8 needs .* expected N in 1\.\.7, within"):
        check_memory([task_of(text.format("N in 1..8"))], Memory(free_bytes))
    with pytest.raises(SpecError, match=r"N in 8\.\.9 needs .* expected smaller sizes, within"):
        check_memory([task_of(text.format("N in 8..9"))], Memory(free_bytes))


@given(st.integers(1, 2**40))
def test_a_need_is_refused_exactly_if_it_exceeds_the_free_memory(free_bytes: int) -> None:
    task = task_of("def copy(float(1000,1000) A) -> (B) { B(i,j) = A(i,j) + 1 }")
    need_bytes = LEAST_TIMES * dag_bytes(task.dag)
    assert need_bytes == 6 * 8_000_000
    if need_bytes <= free_bytes:
        check_memory([task], Memory(free_bytes))
        return
    with pytest.raises(SpecError, match=r"takes at least 45\.78 MiB of memory; expected at most"):
        check_memory([task], Memory(free_bytes))


def test_a_machine_that_tells_no_memory_refuses_nothing(tmp_path: Path) -> None:
    assert free_memory(tmp_path, tmp_path) is None
    check_memory([Task.of(workloads.matmul(4096, 4096, 4096), local_target(1), "cpu@0")], Memory())


def test_free_memory_is_the_least_of_the_machine_and_its_groups(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    assert free_memory(tmp_path, tmp_path / "groups") == 5000 * 1024
    (tmp_path / "self/cgroup").write_text("0::/outer/inner\n")
    inner = tmp_path / "groups/outer/inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("700\n")
    assert free_memory(tmp_path, tmp_path / "groups") == 5000 * 1024
    (inner.parent / "memory.max").write_text("1000\n")
    (inner.parent / "memory.current").write_text("900\n")
    (inner.parent / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    assert free_memory(tmp_path, tmp_path / "groups") == 400
    assert free_memory() is not None
