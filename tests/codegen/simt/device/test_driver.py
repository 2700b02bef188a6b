"""Calls of the driver, on the emulated one: facts, modules, launches, graphs, faults."""

import ctypes

import numpy as np
import pytest

from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.codegen.simt.device.facts import facts_of
from ansorpy.codegen.simt.device.functions import SIGNATURES, driver_library
from ansorpy.codegen.simt.device.present import (
    facts_text,
    present_gpu,
    present_gpus,
    read_facts,
)
from ansorpy.errors import DeviceError, DeviceFault, DeviceMemoryError
from ansorpy.gpus import PRESETS
from ansorpy.target import cuda_target
from tests.codegen.simt.device.texts import PARTED, SHARED, THREADS, doubled
from tests.emulation.device.device import EmulatedDevice, method_name

MEMORY_BYTES = 1 << 20


@pytest.fixture
def driver() -> GpuDriver:
    made = GpuDriver(EmulatedDevice(MEMORY_BYTES).library())
    made.open()
    return made


def array_in(driver: GpuDriver, values: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> int:
    address = driver.allocate(values.nbytes)
    driver.copy_in(address, values.ctypes.data, values.nbytes)
    return address


def test_every_function_of_the_driver_is_emulated() -> None:
    assert set(vars(EmulatedDevice().library())) == set(SIGNATURES)
    assert method_name("cuMemsetD8_v2") == "_memset_d8"


def test_the_facts_of_a_gpu_are_its_attributes(driver: GpuDriver) -> None:
    facts = facts_of(driver, 0)
    assert facts.gpu == PRESETS["sm_90"]
    assert facts.target == cuda_target("sm_90")
    assert (facts.name, facts.driver, facts.memory_bytes) == ("Emulated GPU", "13.0", MEMORY_BYTES)
    assert read_facts(facts_text(driver)) == (facts,)
    assert read_facts('[{"name": 1}]') == read_facts("no JSON") == ()
    with pytest.raises(DeviceError, match="cannot ask for major because an argument"):
        facts_of(driver, 1)


def test_a_machine_without_a_driver_has_no_gpu() -> None:
    try:
        driver_library()
    except DeviceError:
        assert present_gpus() == ()
        assert present_gpu() is None
    else:
        assert all(one.arch.startswith("sm_") for one in present_gpus())


def test_nothing_is_done_without_a_context() -> None:
    driver = GpuDriver(EmulatedDevice().library())
    with pytest.raises(DeviceError, match=r"because no context is current: CUDA_ERROR_INVALID_"):
        driver.allocate(16)
    with pytest.raises(DeviceError, match="cannot use GPU 3 because there is no GPU of that numb"):
        driver.open(3)


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(DeviceError, match=r"cannot use a GPU because no\.so\.9 cannot be loaded"):
        driver_library("no.so.9")
    with pytest.raises(DeviceError, match=r"libc\.so\.6 has no cuInit; expected a driver of CUDA"):
        driver_library("libc.so.6")


def test_a_launch_computes_and_a_graph_replays_it(driver: GpuDriver) -> None:
    values = np.arange(2 * THREADS, dtype=np.float32)
    x, y = array_in(driver, values), driver.allocate(values.nbytes)
    function = driver.kernel(driver.load(doubled().encode(), "m"), "phase0")
    assert function.max_threads == THREADS
    driver.launch(function, 2, THREADS, (x, y))
    driver.wait()
    assert np.array_equal(copied(driver, y, values.size), 2 * values)
    driver.begin_capture()
    driver.launch(function, 2, THREADS, (y, x))
    graph = driver.end_capture()
    assert np.array_equal(copied(driver, x, values.size), values)  # recorded, not run
    driver.replay(graph)
    driver.wait()
    assert np.array_equal(copied(driver, x, values.size), 4 * values)
    driver.free_graph(graph)
    with pytest.raises(DeviceError, match="cannot replay a graph because a handle belongs to not"):
        driver.replay(graph)


def copied(
    driver: GpuDriver, address: int, count: int
) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    held = np.empty(count, np.float32)
    driver.copy_out(held.ctypes.data, address, held.nbytes)
    return held


def test_a_launch_takes_its_addresses_at_once(driver: GpuDriver) -> None:
    """A recorded launch must not read the array of its parameters later."""
    values = np.ones(2 * THREADS, np.float32)
    x, y = array_in(driver, values), array_in(driver, values)
    function = driver.kernel(driver.load(doubled().encode(), "m"), "phase0")
    driver.begin_capture()
    driver.launch(function, 2, THREADS, (x, y))
    graph = driver.end_capture()
    junk = [(ctypes.c_uint64 * 2)(1, 1) for _ in range(64)]  # memory of the freed parameters
    driver.replay(graph)
    driver.wait()
    assert len(junk) == 64
    assert np.array_equal(copied(driver, y, values.size), 2 * values)


@pytest.mark.parametrize(
    ("blocks", "threads", "dynamic", "reason"),
    [
        (0, 64, 0, "an argument has a value that the driver refuses"),
        (2, 0, 0, "an argument has a value that the driver refuses"),
        (2, 65, 0, "an argument has a value that the driver refuses"),
        (2, 64, 49 << 10, "a block needs more registers, threads or shared memory"),
    ],
)
def test_a_launch_of_a_wrong_shape_is_refused(
    driver: GpuDriver, blocks: int, threads: int, dynamic: int, reason: str
) -> None:
    function = driver.kernel(driver.load(doubled().encode(), "m"), "phase0")
    x = driver.allocate(4096)
    with pytest.raises(DeviceError, match=rf"cannot launch phase0 on {blocks} blocks.*{reason}"):
        driver.launch(function, blocks, threads, (x, x), dynamic)
    driver.launch(function, 2, 64, (x, x))  # it was no fault
    driver.wait()


def test_dynamic_shared_memory_beyond_48_kib_has_to_be_allowed(driver: GpuDriver) -> None:
    function = driver.kernel(driver.load(SHARED.encode(), "m"), "phase0")
    assert function.shared_bytes == 256
    x = driver.allocate(4096)
    driver.allow_dynamic(function, 100 << 10)
    driver.launch(function, 2, 64, (x, x), 100 << 10)
    driver.wait()
    with pytest.raises(DeviceError, match="cannot give phase0 232448 bytes of dynamic shared mem"):
        driver.allow_dynamic(function, 227 << 10)  # with its own 256 bytes it is too much


def test_the_log_of_a_module_that_does_not_load_is_told(driver: GpuDriver) -> None:
    wrong = doubled().replace("fadd float %a, %a", "fadd float %a, %c")
    with pytest.raises(DeviceError, match=r"cannot load m because the driver cannot compile the P"):
        driver.load(wrong.encode(), "m")
    with pytest.raises(DeviceError, match="undefined value '%c'"):
        driver.load(wrong.encode(), "m")
    with pytest.raises(DeviceError, match="it is no LLVM text of a kernel"):
        driver.load(b".version 8.6", "m")
    with pytest.raises(
        DeviceError, match="cannot find kernel phase7 because the module has no ker"
    ):
        driver.kernel(driver.load(doubled().encode(), "m"), "phase7")


def test_full_memory_is_an_error_of_its_own(driver: GpuDriver) -> None:
    with pytest.raises(DeviceMemoryError, match="cannot allocate 2097152 bytes on the GPU because"):
        driver.allocate(2 * MEMORY_BYTES)
    half = driver.allocate(MEMORY_BYTES)
    driver.free(half)
    driver.free(driver.allocate(MEMORY_BYTES))


def test_a_copy_outside_of_memory_is_refused(driver: GpuDriver) -> None:
    values = np.zeros(8, np.float32)
    address = driver.allocate(values.nbytes)
    with pytest.raises(DeviceError, match="cannot copy to the GPU"):
        driver.copy_in(address + 4, values.ctypes.data, values.nbytes)
    with pytest.raises(DeviceError, match="cannot copy from the GPU"):
        driver.copy_out(values.ctypes.data, address, values.nbytes + 1)


def test_an_illegal_address_ends_the_context(driver: GpuDriver) -> None:
    function = driver.kernel(driver.load(doubled().encode(), "m"), "phase0")
    driver.launch(function, 2, 64, (64, 64))  # an error of the kernel is told at the next wait
    with pytest.raises(DeviceFault, match="cannot wait for the GPU because a kernel accessed mem"):
        driver.wait()
    for call in (driver.wait, driver.event, lambda: driver.allocate(16)):
        with pytest.raises(DeviceFault, match=r"CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
            call()
    driver.free(64)  # memory ended with the context: nothing to free
    assert "700" in driver.fault


def test_threads_that_do_not_meet_end_the_context(driver: GpuDriver) -> None:
    function = driver.kernel(driver.load(PARTED.encode(), "m"), "phase0")
    x = driver.allocate(4096)
    driver.launch(function, 1, 64, (x, x))
    with pytest.raises(DeviceFault, match=r"because a kernel failed: CUDA_ERROR_LAUNCH_FAILED"):
        driver.wait()


def test_a_capture_with_an_error_is_dropped(driver: GpuDriver) -> None:
    driver.begin_capture()
    with pytest.raises(DeviceError, match="not permitted while a stream is captured"):
        driver.wait()
    driver.drop_capture()
    driver.wait()
    driver.begin_capture()
    with pytest.raises(DeviceError, match="not permitted while a stream is captured"):
        driver.fill(driver.allocate(16), 0, 16)
    with pytest.raises(DeviceError, match="an earlier error ended the capture"):
        driver.end_capture()


def test_events_have_the_order_of_the_stream(driver: GpuDriver) -> None:
    first, last = driver.event(), driver.event()
    driver.record(first)
    driver.fill_in_stream(driver.allocate(1 << 16), 1, 1 << 16)
    driver.record(last)
    assert driver.elapsed_s(first, last) > 0
    assert driver.elapsed_s(last, first) < 0
    with pytest.raises(DeviceError, match="cannot read an event"):
        driver.elapsed_s(first, driver.event())  # never recorded
    driver.free_event(first)
    with pytest.raises(DeviceError, match="cannot free an event"):
        driver.free_event(first)
