"""The wider wall of processes that use a GPU, and their end after a fault."""

import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansorpy.errors import DeviceFault
from ansorpy.measure.backend import CODEGEN, DEVICE
from ansorpy.measure.sandbox import landlock, usage
from ansorpy.measure.sandbox.devices import gpu_nodes
from ansorpy.measure.sandbox.isolation import Isolation
from ansorpy.measure.workers import pool
from ansorpy.measure.workers.pool import WorkerPool, WorkerSettings
from ansorpy.measure.workers.replies import Raised, Returned
from ansorpy.measure.workers.spec import ResourceLimits, WorkerSpec
from ansorpy.measure.workers.worker import Worker

pytestmark = pytest.mark.slow

NODE = "/dev/full"  # a device node that every machine has and no child may write


def pid_of(_: object) -> int:
    return os.getpid()


def opened_for_writing(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY))
    except PermissionError:
        return False
    return True


def pid_with_a_thread(_: object) -> int:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return os.getpid()


def has_limited_space(_: object) -> bool:
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def fault(_: object) -> None:
    raise DeviceFault("cannot run phase0 because a kernel failed")


def value(worker: Worker, function: str, argument: object = None) -> object:
    reply = worker.call(f"{__name__}:{function}", argument, 60.0)
    assert isinstance(reply, Returned), reply
    return reply.value


@pytest.fixture(params=[(), (NODE,)], ids=["cpu", "device"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worker]:
    core = min(os.sched_getaffinity(0))
    made = Worker(WorkerSpec(frozenset({core}), folder=str(tmp_path), devices=request.param))
    yield made
    made.close()


def test_only_processes_of_a_device_use_its_nodes(worker: Worker) -> None:
    if landlock.version():
        assert value(worker, "opened_for_writing", NODE) == bool(worker.spec.devices)
        assert not value(worker, "opened_for_writing", "/dev/ptmx")


def test_only_processes_of_a_device_keep_threads_and_reserve_addresses(worker: Worker) -> None:
    assert value(worker, "has_limited_space") == (not worker.spec.devices)
    first = value(worker, "pid_with_a_thread")
    assert (value(worker, "pid_of") == first) == bool(worker.spec.devices)


def test_a_process_is_replaced_after_a_fault(worker: Worker) -> None:
    first = value(worker, "pid_of")
    assert value(worker, "pid_of") == first
    reply = worker.call(f"{__name__}:fault", None, 60.0)
    assert isinstance(reply, Raised)
    assert reply.error == "DeviceFault"
    assert value(worker, "pid_of") != first


def test_the_resident_memory_of_a_device_process_is_limited(tmp_path: Path) -> None:
    sandbox = {"programs": False, "counted": False, "folder": "/", "devices": [NODE]}
    orders = {"limits": {"memory_bytes": -(1 << 50)}, "sandbox": sandbox}
    assert "bytes of memory in" in usage.excess(os.getpgrp(), orders)
    assert usage.excess(os.getpgrp(), {**orders, "sandbox": {**sandbox, "devices": []}}) == ""


def test_nodes_are_those_of_nvidia(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "null"):
        (tmp_path / name).touch()
    (tmp_path / "nvidia-caps").mkdir()
    (tmp_path / "nvidia-caps" / "nvidia-cap1").touch()
    found = [str(Path(one).relative_to(tmp_path)) for one in gpu_nodes(tmp_path)]
    assert found == [
        "nvidia-caps/nvidia-cap1", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia12",
        "nvidiactl",
    ]  # fmt: skip


def test_the_nodes_go_to_processes_that_run_kernels_of_the_device_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "gpu_nodes", lambda: (NODE,))
    workers = WorkerPool(1, WorkerSettings(backend=DEVICE, limits=ResourceLimits()))
    try:
        assert workers.slot.spec.devices == (NODE,)
        assert dict(workers.slot.spec.env)["CUDA_CACHE_DISABLE"] == "1"
        assert all(not one.worker.spec.devices for one in workers.builders)
    finally:
        workers.close()
    workers = WorkerPool(1, WorkerSettings(backend=CODEGEN))
    try:
        assert all(not one.spec.devices for one in workers.all)
    finally:
        workers.close()


def test_bubblewrap_shows_the_nodes() -> None:
    wrapped = Isolation("bwrap").wrap(["x"], "/", 0, "", (NODE,))
    at = wrapped.index("--dev-bind")
    assert wrapped[at : at + 3] == ["--dev-bind", NODE, NODE]
    assert "--dev-bind" not in Isolation("bwrap").wrap(["x"], "/", 0, "")
