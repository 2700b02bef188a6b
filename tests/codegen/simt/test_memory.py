"""Shared memory beyond the static limit: given by the launch, in PTX, on a device, in a zip."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ansorpy.artifact.cuda import launch_table
from ansorpy.codegen.simt.assemble import assemble
from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.codegen.simt.device.kernel import DeviceKernel
from ansorpy.codegen.simt.memory import with_dynamic_memory
from ansorpy.codegen.simt.ptx import joined_ptx, ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import BuildError, DeviceError
from ansorpy.expr.expr import Binary
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Alloc, Program, Scope, Seq, Tile
from ansorpy.target import GpuTarget, cuda_target
from tests.codegen.simt.test_report import needs_ptxas
from tests.emulation.device import build_texts
from tests.emulation.device.device import EmulatedDevice
from tests.loopir.build import add, buffer, c, parallel, program, read, store, v

GPU = replace(cuda_target("sm_90"), shared_bytes=227 * 1024)
LANES = 64
EXTERN = ".extern .shared .align 16 .b8 dynamic_shared[];"


def turned(size: int) -> Program:
    """B[i, l] = A[i, 63 - l], by way of the last elements of two scratch arrays."""
    lane, row, last = v("l"), v("i"), c(size - LANES)
    wide = (("l", LANES),)
    there = add(Binary("sub", c(LANES - 1), lane), last)
    body = Seq((
        Tile((), wide, store("s", (add(lane, last),), read("A", row, lane))),
        Tile((), wide, store("t", (add(lane, last),), read("s", there))),
        Tile((), wide, store("B", (row, lane), read("t", add(lane, last)))),
    ))  # fmt: skip
    inner = Alloc(buffer("t", size, scope=Scope.LOCAL), body)
    outer = Alloc(buffer("s", size, scope=Scope.LOCAL), inner)
    buffers = [
        buffer("A", 2, LANES),
        buffer("B", 2, LANES, scope=Scope.OUTPUT),
    ]
    return program(buffers, parallel("i", 2, outer))


SMALL, LARGE = turned(64), turned(10_000)


def test_arrays_within_the_limit_stay_static() -> None:
    code = simt_code(SMALL, GPU)
    assert code.launches[0].shared_bytes == 512
    assert code.launches[0].dynamic_bytes == 0
    assert with_dynamic_memory(code.texts[0]) == code.texts[0]
    assert EXTERN not in ptx(code.texts[0], "sm_90")


def test_arrays_beyond_the_limit_are_given_by_the_launch() -> None:
    code = simt_code(LARGE, GPU)
    assert code.launches[0].shared_bytes == code.launches[0].dynamic_bytes == 80_000
    text = with_dynamic_memory(code.texts[0])
    assert "@shared" not in text
    starts = re.findall(r"@dynamic_shared, i64 (\d+)\)", text)
    assert set(starts) == {"0", "40000"}
    made = joined_ptx((code.texts[0], code.texts[0].replace("phase0", "phase1")), "sm_90")
    assert made.count(EXTERN) == 1
    assert not re.search(r"^\.shared", made, re.MULTILINE)


@pytest.mark.cuda
@needs_ptxas
def test_ptxas_takes_dynamic_arrays_and_refuses_static_ones() -> None:
    (text,) = simt_code(LARGE, GPU).texts
    assert assemble(ptx(text, "sm_90"), "sm_90").resources("phase0").shared_bytes == 0
    static = turned(6_100)  # 48,800 bytes: a little less than the limit of a text
    assert assemble(ptx(simt_code(static, GPU).texts[0], "sm_90"), "sm_90").code


def driver() -> GpuDriver:
    opened = GpuDriver(EmulatedDevice().library())
    opened.open()
    return opened


@pytest.mark.parametrize("made", [SMALL, LARGE], ids=["static", "dynamic"])
def test_a_device_gives_a_kernel_its_shared_memory(made: Program) -> None:
    kernel = DeviceKernel(build_texts(simt_code(made, GPU), "sm_90"), driver())
    a = np.arange(2 * LANES, dtype=np.float32).reshape(2, LANES)
    b = np.full_like(a, np.nan)
    kernel.run((a.ctypes.data, b.ctypes.data))
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_a_launch_that_gives_too_little_is_refused() -> None:
    built = build_texts(simt_code(LARGE, GPU), "sm_90")
    short = replace(built, launches=(replace(built.launches[0], shared_bytes=60_000),))
    a = np.zeros((2, LANES), np.float32)
    with pytest.raises((BuildError, DeviceError), match="shared memory"):
        DeviceKernel(short, driver()).run((a.ctypes.data, a.copy().ctypes.data))


def test_the_launch_table_of_a_zip_tells_dynamic_memory() -> None:
    dag = parse("def t(float(2,64) A) -> (B) { B(i,l) = A(i,l) }")[0]
    for made, shared, dynamic in ((SMALL, 512, 0), (LARGE, 80_000, 80_000)):
        (launch,) = launch_table(dag, simt_code(made, GPU))["launches"]
        assert (launch["shared_bytes"], launch["dynamic_bytes"]) == (shared, dynamic)


def test_more_than_a_block_has_is_refused() -> None:
    with pytest.raises(BuildError, match="because a block needs 240000 bytes of shared memory"):
        simt_code(turned(30_000), GPU)
    assert GpuTarget().shared_bytes == 48 * 1024
