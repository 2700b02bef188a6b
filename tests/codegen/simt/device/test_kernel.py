"""Kernels on a device as a back end: red zones, launch tables, graphs of several launches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.codegen.simt.device.kernel import DeviceCode, DeviceKernel
from ansorpy.codegen.simt.device.memory import ZONE_BYTES
from ansorpy.errors import BuildError, DeviceError, DeviceFault, DeviceMemoryError, OverrunError
from ansorpy.measure.backend import TimedCall, backend
from tests.codegen.simt.device.texts import PARTED, SHARED, THREADS, code, doubled
from tests.emulation import device as emulated
from tests.emulation.device.device import EmulatedDevice

COUNT = 2 * THREADS


def opened(memory_bytes: int = 1 << 24) -> GpuDriver:
    driver = GpuDriver(EmulatedDevice(memory_bytes).library())
    driver.open()
    return driver


def arrays() -> "tuple[np.ndarray[tuple[int], np.dtype[np.float32]], ...]":
    return np.arange(COUNT, dtype=np.float32), np.full(COUNT, np.nan, np.float32)


def test_runs_update_the_buffers_of_the_caller() -> None:
    kernel = DeviceKernel(code(doubled()), opened())
    for run in (kernel.run, kernel.run_backwards):
        x, y = arrays()
        run((x.ctypes.data, y.ctypes.data))
        assert np.array_equal(y, 2 * x)


def test_a_copy_has_the_alignment_of_its_original(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    driver = opened()
    kernel = DeviceKernel(code(doubled()), driver)
    launch = driver.launch

    def noted(*given: Any) -> None:
        seen.extend(given[3])
        launch(*given)

    monkeypatch.setattr(driver, "launch", noted)
    room = np.zeros(COUNT + 64, np.float32)
    for first in (0, 1, 3, 16):
        part = room[first : first + COUNT]
        _, y = arrays()
        kernel.run((part.ctypes.data, y.ctypes.data))
        assert [one % 256 for one in seen[-2:]] == [part.ctypes.data % 256, y.ctypes.data % 256]


@pytest.mark.parametrize("offset", [1, -1, 4000, -4000])
def test_a_write_beside_a_buffer_is_found(offset: int) -> None:
    kernel = DeviceKernel(code(doubled(offset)), opened())
    x, y = arrays()
    at = 4 * (max(COUNT, offset) if offset > 0 else offset)
    with pytest.raises(OverrunError, match=rf"wrote {at} bytes from the start of y on the GPU"):
        kernel.run((x.ctypes.data, y.ctypes.data))
    with pytest.raises(OverrunError, match="of y on the GPU"):
        kernel.bind((x.ctypes.data, y.ctypes.data))()
    assert 4 * abs(offset) < ZONE_BYTES


def test_a_read_beside_a_buffer_differs_between_the_two_runs() -> None:
    text = doubled().replace("ptr addrspace(1) %x, i64 %i", "ptr addrspace(1) %x, i64 %far")
    text = text.replace("  %o = add", f"  %far = add i64 %i, {COUNT}\n  %o = add")
    kernel = DeviceKernel(code(text), opened())
    results = []
    for run in (kernel.run, kernel.run_backwards):
        x, y = arrays()
        run((x.ctypes.data, y.ctypes.data))
        results.append(y.tobytes())
    assert results[0] != results[1]


@pytest.mark.parametrize(
    ("built", "message"),
    [
        (code(doubled(), threads=65), "phase0 on 2 blocks of 65 threads; expected at least one"),
        (code(doubled(), threads=0), "phase0 on 2 blocks of 0 threads; expected at least one"),
        (code(doubled(), blocks=0), "phase0 on 0 blocks of 64 threads; expected at least one"),
        (
            code(SHARED.replace("[64 x float]", "[512 x float]"), shared=1020),
            "phase0 with 1020 bytes of shared memory; expected 2048",
        ),
        (replace(code(doubled()), images=()), "cannot load 0 images for 1 launches"),
    ],
)
def test_a_launch_table_that_does_not_fit_is_refused(built: DeviceCode, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        DeviceKernel(built, opened())


def test_a_kernel_of_another_name_is_refused() -> None:
    with pytest.raises(DeviceError, match="cannot find kernel phase0 because the module has no"):
        DeviceKernel(code(doubled(name="other")), opened())


def test_a_full_device_is_told_and_nothing_leaks() -> None:
    driver = opened(3 * ZONE_BYTES)
    kernel = DeviceKernel(code(doubled()), driver)
    x, y = arrays()
    for _ in range(3):
        with pytest.raises(DeviceMemoryError):
            kernel.bind((x.ctypes.data, y.ctypes.data))
    driver.free(driver.allocate(3 * ZONE_BYTES))


def test_device_memory_is_freed_with_its_kernel() -> None:
    driver = opened(8 * ZONE_BYTES)
    for _ in range(4):
        kernel = DeviceKernel(code(doubled()), driver)
        x, y = arrays()
        call = kernel.bind((x.ctypes.data, y.ctypes.data))
        call()
        assert call.cold(1024).seconds(2) > 0
        del kernel, call
    driver.free(driver.allocate(8 * ZONE_BYTES))


def test_several_launches_are_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    back = doubled(given=("y", "x"))
    driver = opened()
    kernel = DeviceKernel(code(doubled(), back), driver)
    x, y = arrays()
    call = kernel.bind((x.ctypes.data, y.ctypes.data))
    assert isinstance(call, TimedCall)
    with monkeypatch.context() as patch:
        patch.setattr(driver, "launch", None)
        call()  # a replay: nothing is launched one by one
        call()
    assert np.array_equal(x, 16.0 * np.arange(COUNT))


def test_phases_ahead_run_once_and_not_in_the_call() -> None:
    built = code(doubled(), doubled())
    built = replace(built, launches=(replace(built.launches[0], ahead=True), built.launches[1]))
    kernel = DeviceKernel(built, opened())
    x, y = arrays()
    kernel.run_ahead((x.ctypes.data, y.ctypes.data))
    assert np.array_equal(y, 2 * x)
    assert [one.ahead for one in built.phases] == [True, False]


def test_a_fault_stays() -> None:
    driver = opened()
    kernel = DeviceKernel(code(PARTED, blocks=1), driver)
    right = DeviceKernel(code(doubled()), driver)
    x, y = arrays()
    with pytest.raises(DeviceFault, match="cannot run phase0 because a kernel failed"):
        kernel.run((x.ctypes.data, y.ctypes.data))
    with pytest.raises(DeviceFault, match="cannot run phase0 because a kernel failed"):
        right.run((x.ctypes.data, y.ctypes.data))


def test_the_emulated_driver_is_a_back_end_by_its_name() -> None:
    found = backend("tests.emulation.device")
    assert found.BUILT is DeviceCode
    assert backend("ansorpy.codegen.simt.device").BUILT is DeviceCode
    assert emulated.driver() is emulated.driver()
