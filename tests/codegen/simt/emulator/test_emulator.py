"""Threads of a block on this processor: shuffles, barriers, shared memory, and refusals."""

import signal
import subprocess
import sys
from typing import Any, Final

import numpy as np
import pytest

from ansorpy.codegen.simt.emulator import build_texts, load
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.errors import BuildError, RunError
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope

Array = np.ndarray[Any, Any]
THREADS: Final = 64
BARRIER: Final = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
DECLARED: Final = """\
target triple = "nvptx64-nvidia-cuda"
@shared = internal addrspace(3) global [64 x i32] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
"""
# Read own word %x of the first buffer; `END` stores %y to the second one.
HEAD: Final = """\
define ptx_kernel void @phase0(ptr addrspace(1) %a, ptr addrspace(1) %b) nounwind {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %c, 64
  %at = add i32 %first, %t
  %from = getelementptr i32, ptr addrspace(1) %a, i32 %at
  %x = load i32, ptr addrspace(1) %from, align 4
"""
END: Final = """\
  %to = getelementptr i32, ptr addrspace(1) %b, i32 %at
  store i32 %y, ptr addrspace(1) %to, align 4
  ret void
}
"""
REVERSED: Final = f"""\
  %mine = getelementptr i32, ptr addrspace(3) @shared, i32 %t
  store i32 %x, ptr addrspace(3) %mine, align 4
{BARRIER}\
  %o = sub i32 63, %t
  %other = getelementptr i32, ptr addrspace(3) @shared, i32 %o
  %y = load i32, ptr addrspace(3) %other, align 4
"""


def code(body: str, blocks: int = 2) -> SimtCode:
    """Return a kernel from one buffer of words to another."""
    size = (Const(blocks * THREADS),)
    buffers = (Buffer("a", "int32", size, Scope.INPUT), Buffer("b", "int32", size, Scope.OUTPUT))
    launch = Launch("phase0", blocks, THREADS, 4 * THREADS)
    return SimtCode((DECLARED + HEAD + body + END,), (launch,), buffers)


def ran(body: str, backwards: bool, blocks: int = 2) -> tuple[Array, Array]:
    """Return the words of a random input and of the output, one row per block."""
    loaded = load(build_texts(code(body, blocks)))
    given = np.random.default_rng(0).integers(0, 2**31, (blocks, THREADS), np.int32)
    found = np.zeros_like(given)
    run = loaded.run_backwards if backwards else loaded.run
    run([given.ctypes.data, found.ctypes.data])
    return given, found


def partner(mode: str, lane: int, distance: int, width: int) -> int:
    """Return the lane that a shuffle reads, by the definition of PTX."""
    low = lane & (32 - width)
    high = low | (width - 1)
    match mode:
        case "idx":
            return low | (distance & (width - 1))
        case "up":
            return lane - distance if lane - distance >= low else lane
        case "down":
            return lane + distance if lane + distance <= high else lane
        case _:
            return lane ^ distance if lane ^ distance <= high else lane


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
def test_a_shuffle_reads_the_word_of_its_partner(mode: str, width: int, backwards: bool) -> None:
    """Threads end at once afterwards: a partner that has ended since is read all the same."""
    for distance in (1, 3, 5, 16):
        clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
        body = (
            f"  %y = call i32 @llvm.nvvm.shfl.sync.{mode}.i32(i32 -1, i32 %x, i32 {distance},"
            f" i32 {clamp})\n"
        )
        given, found = ran(body, backwards)
        lanes = [
            32 * warp + partner(mode, k, distance, width) for warp in (0, 1) for k in range(32)
        ]
        np.testing.assert_array_equal(found, given[:, lanes])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_thread_that_ended_before_a_shuffle_gives_all_ones(backwards: bool) -> None:
    body = """\
  %lane = and i32 %t, 31
  %upper = icmp uge i32 %lane, 16
  br i1 %upper, label %over, label %on
over:
  ret void
on:
  %y = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %x, i32 16, i32 31)
"""
    _, found = ran(body, backwards)
    np.testing.assert_array_equal(found.reshape(-1, 2, 16)[:, 0], -1)
    np.testing.assert_array_equal(found.reshape(-1, 2, 16)[:, 1], 0)


@pytest.mark.parametrize("backwards", [False, True])
def test_words_in_shared_memory_cross_a_barrier(backwards: bool) -> None:
    given, found = ran(REVERSED, backwards)
    np.testing.assert_array_equal(found, given[:, ::-1])


@pytest.mark.parametrize("backwards", [False, True])
def test_without_the_barrier_poison_is_read(backwards: bool) -> None:
    given, found = ran(REVERSED.replace(BARRIER, ""), backwards)
    wrong = found != given[:, ::-1]
    assert wrong.sum() == wrong.size // 2
    np.testing.assert_array_equal(found[wrong], -1)


def test_barriers_of_two_branches_are_no_barrier() -> None:
    body = f"""\
  %odd = trunc i32 %t to i1
  br i1 %odd, label %one, label %two
one:
{BARRIER}  br label %on
two:
{BARRIER}  br label %on
on:
  %y = add i32 %x, 0
"""
    with pytest.raises(RunError) as refusal:
        ran(body, False)
    assert str(refusal.value) == (
        "cannot emulate phase0 because threads of a block wait at different barriers; expected one"
        " barrier for all of them"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("declare i32 @llvm.nvvm.vote.all.sync(i32, i1)", "llvm.nvvm.vote.all.sync"),
        ("declare float @sinf(float)", "sinf"),
        ("@table = global [4 x i32] zeroinitializer", "expected an array in shared memory"),
        ("declare i32 @llvm.nvvm.read.ptx.sreg.tid.x(i32)", "expected i32 ()"),
    ],
)
def test_a_text_with_an_unknown_name_is_refused(line: str, message: str) -> None:
    known = code("  %y = add i32 %x, 1\n")
    made = SimtCode((f"{line}\n{known.texts[0]}",), known.launches, known.buffers)
    with pytest.raises(BuildError) as refusal:
        build_texts(made)
    assert message in str(refusal.value)


def test_inline_assembly_is_refused() -> None:
    with pytest.raises(BuildError) as refusal:
        build_texts(code('  %y = call i32 asm "mov.u32 $0, $1;", "=r,r"(i32 %x)\n'))
    assert "no such instruction in the emulator" in str(refusal.value)


def read_outside() -> None:
    """Read the word after an array in shared memory."""
    body = REVERSED.replace("sub i32 63, %t", "sub i32 64, %t")
    ran(body, False)


def test_a_read_outside_of_shared_memory_ends_the_process() -> None:
    script = f"from {__name__} import read_outside; read_outside()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert done.returncode == -signal.SIGSEGV, done.stderr.decode()
