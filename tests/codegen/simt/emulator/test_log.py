"""The log of emulated kernels: races, wavefronts, sectors and barriers of kernels by hand."""

from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.errors import BuildError, RunError
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from tests.codegen.simt.emulator.test_emulator import BARRIER, REVERSED, THREADS, code
from tests.emulation.log import LoggedKernel
from tests.emulation.report import LaunchLog, Waits

OUTSIDE: Final = "a thread reads or writes outside of a buffer; expected an element of it"
UNALIGNED: Final = "the place of an access in its buffer is no multiple of its bytes; expected one"
HEAD: Final = """\
target triple = "nvptx64-nvidia-cuda"
@shared = internal addrspace(3) global [4096 x i32] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
define ptx_kernel void @phase0(ptr addrspace(1) noalias %a, ptr addrspace(1) %b) nounwind {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
"""


def kernel(body: str, blocks: int = 1, threads: int = 64) -> LoggedKernel:
    """Return a kernel of a body between two buffers of 8192 words."""
    size = (Const(8192),)
    buffers = (Buffer("a", "int32", size, Scope.INPUT), Buffer("b", "int32", size, Scope.OUTPUT))
    text = HEAD + body + "  ret void\n}\n"
    return LoggedKernel(SimtCode((text,), (Launch("phase0", blocks, threads, 4096),), buffers))


def logged(loaded: LoggedKernel, remove: bool = False) -> LaunchLog:
    """Return the log of a kernel of one launch, the same in both orders of threads."""
    arrays = [np.zeros(buffer.extents, np.int32) for buffer in loaded.buffers]
    addresses = [array.ctypes.data for array in arrays]
    (one,) = loaded.log(addresses, remove=remove).launches
    (other,) = loaded.log(addresses, backwards=True, remove=remove).launches
    assert one == other
    return one


def at(space: int, base: str, index: str, name: str, kind: str = "i32") -> str:
    """Return a pointer to an element."""
    return f"  %{name} = getelementptr {kind}, ptr addrspace({space}) {base}, i32 {index}\n"


def indices(factor: int) -> str:
    """Return the index `factor * thread`."""
    return f"  %i = mul i32 %t, {factor}\n"


def load(space: int, name: str, kind: str = "i32") -> str:
    """Return a load."""
    return f"  %v{name} = load {kind}, ptr addrspace({space}) %{name}\n"


def test_a_missing_barrier_is_a_race_in_either_order() -> None:
    whole = logged(LoggedKernel(code(REVERSED)))
    assert whole.races == ()
    assert [(row.line, row.times) for row in whole.waits] == [(20, 2)]
    (race,) = logged(LoggedKernel(code(REVERSED.replace(BARRIER, "")))).races
    assert (race.one.access.store, race.other.access.store) == (True, False)
    assert (race.one.access.line, race.other.access.line) == (19, 22)
    assert race.count == 2 * THREADS  # in two blocks
    assert {race.one.thread + race.other.thread} == {THREADS - 1}
    assert race.offset_bytes == 4 * race.one.thread
    assert str(race) == (
        f"store to shared in line 19 (block {race.one.block}, thread {race.one.thread}) and load"
        f" of shared in line 22 (block {race.other.block}, thread {race.other.thread}) have no"
        " order: 128 elements"
    )


def neighbours(barrier: str) -> str:
    """Return a body in which each thread stores a word and loads its neighbour's word."""
    return (
        at(3, "@shared", "%t", "mine")
        + "  store i32 %t, ptr addrspace(3) %mine\n"
        + barrier
        + "  %o = xor i32 %t, 1\n"
        + at(3, "@shared", "%o", "other")
        + load(3, "other")
    )


def test_a_barrier_of_a_warp_orders_its_threads_only() -> None:
    wait = "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n"
    whole = logged(kernel(neighbours(wait)), remove=True)
    assert whole.races == ()
    assert whole.waits == (Waits(13, True, 2, True),)
    assert logged(kernel(wait + neighbours(wait)), remove=True).waits[0].needed is False
    assert len(logged(kernel(neighbours(""))).races) == 1
    apart = neighbours(wait).replace("xor i32 %t, 1", "xor i32 %t, 32")
    assert len(logged(kernel(apart)).races) == 1


def test_two_blocks_that_store_one_word_are_a_race() -> None:
    body = at(1, "%b", "%t", "p") + "  store i32 7, ptr addrspace(1) %p\n"
    assert logged(kernel(body)).races == ()
    (race,) = logged(kernel(body, blocks=3)).races
    assert (race.one.block, race.other.block, race.count) == (0, 2, 64)


def test_a_block_that_loads_a_word_of_another_is_a_race() -> None:
    body = (
        "  %f = mul i32 %c, 64\n  %n = add i32 %f, %t\n"
        + at(1, "%b", "%n", "p")
        + "  store i32 7, ptr addrspace(1) %p\n"
        + BARRIER
        + at(1, "%b", "63", "q")
        + load(1, "q")
    )
    assert logged(kernel(body)).races == ()
    (race,) = logged(kernel(body, blocks=2)).races
    assert (race.one.block, race.one.thread, race.other.block) == (0, 63, 1)
    assert (race.offset_bytes, race.count) == (252, 1)


def test_bytes_of_one_word_are_no_race() -> None:
    body = at(3, "@shared", "%t", "p", "i8") + "  store i8 1, ptr addrspace(3) %p\n"
    assert logged(kernel(body)).races == ()
    wide = body + BARRIER + load(3, "p", "i8")
    assert logged(kernel(wide)).races == ()


@pytest.mark.parametrize(
    ("kind", "factor", "waves"),
    [
        ("i32", 1, 2), ("i32", 2, 4), ("i32", 3, 2), ("i32", 32, 64), ("i32", 0, 2),
        ("i8", 1, 2), ("i64", 1, 4), ("i64", 16, 64), ("<4 x i32>", 1, 8), ("<4 x i32>", 2, 16),
    ],
)  # fmt: skip
def test_bank_conflicts_are_counted(kind: str, factor: int, waves: int) -> None:
    least = {"i64": 4, "<4 x i32>": 8}.get(kind, 2)
    body = indices(factor) + at(3, "@shared", "%i", "p", kind) + load(3, "p", kind)
    (row,) = logged(kernel(body)).traffic
    assert (row.requests, row.cost, row.least) == (2, waves, least)


@pytest.mark.parametrize(
    ("kind", "factor", "sectors", "least"),
    [
        ("i32", 1, 8, 8), ("i32", 2, 16, 8), ("i32", 8, 64, 8), ("i32", 0, 2, 2), ("i8", 1, 2, 2),
        ("i8", 32, 64, 2), ("i64", 1, 16, 16), ("<4 x i32>", 1, 32, 32), ("<4 x i32>", 2, 64, 32),
    ],
)  # fmt: skip
def test_sectors_are_counted(kind: str, factor: int, sectors: int, least: int) -> None:
    body = indices(factor) + at(1, "%a", "%i", "p", kind) + load(1, "p", kind)
    one = logged(kernel(body))
    (row,) = one.traffic
    assert (row.requests, row.cost, row.least) == (2, sectors, least)
    assert one.ratio("global") == sectors / least
    assert one.ratio("shared") == 1.0


def test_turns_of_a_loop_are_requests_of_their_own() -> None:
    """The threads of a warp skip different turns; the threads in one turn go together."""
    body = (
        "  br label %loop\nloop:\n  %k = phi i32 [ 0, %entry ], [ %next, %on ]\n"
        "  %sum = add i32 %k, %t\n  %odd = trunc i32 %sum to i1\n"
        "  br i1 %odd, label %some, label %on\nsome:\n"
        + at(3, "@shared", "%t", "p")
        + load(3, "p")
        + "  br label %on\non:\n  %next = add i32 %k, 1\n  %more = icmp ult i32 %next, 4\n"
        "  br i1 %more, label %loop, label %out\nout:\n"
    )
    (row,) = logged(kernel(body, threads=32)).traffic
    assert (row.requests, row.cost, row.least) == (4, 4, 4)


@pytest.mark.parametrize(
    ("index", "kind", "message"),
    [
        ("4096", "i32", OUTSIDE),
        ("-1", "i32", OUTSIDE),
        ("4093", "<4 x i32>", OUTSIDE),
        ("1", "<4 x i32>", UNALIGNED),
    ],
)  # fmt: skip
def test_an_access_outside_is_an_error_and_no_crash(index: str, kind: str, message: str) -> None:
    loaded = kernel(at(3, "@shared", index, "p") + load(3, "p", kind))
    with pytest.raises(RunError) as refusal:
        loaded.run([64, 64])
    assert str(refusal.value) == f"cannot emulate phase0 because {message}"
    with pytest.raises(RunError) as refusal:
        logged(loaded)
    assert str(refusal.value).endswith(f"{message} (load of shared in line 12, thread 0)")


def test_a_loop_without_end_is_an_error() -> None:
    loaded = kernel("  br label %loop\nloop:\n  br label %loop\nout:\n")
    with pytest.raises(RunError) as refusal:
        loaded.run([64, 64])
    assert "a loop of a thread does not end" in str(refusal.value)


def test_a_long_block_is_logged_in_parts() -> None:
    loaded = LoggedKernel(
        code(
            REVERSED
            + BARRIER
            + REVERSED.replace("%", "%again").replace("%againx", "%x").replace("%againt", "%t"),
            blocks=1,
        )
    )
    arrays = [np.zeros(buffer.extents, np.int32) for buffer in loaded.buffers]
    addresses = [array.ctypes.data for array in arrays]
    whole = loaded.log(addresses)
    for backwards in (False, True):
        assert loaded.log(addresses, backwards, most=330) == whole
    with pytest.raises(RunError):
        loaded.log(addresses, most=160)


def test_too_many_accesses_between_two_barriers_are_an_error() -> None:
    body = (
        at(1, "%a", "%t", "p")
        + "  br label %loop\nloop:\n  %k = phi i32 [ 0, %entry ], [ %next, %loop ]\n"
        + load(1, "p")
        + "  %next = add i32 %k, 1\n  %more = icmp ult i32 %next, 40000\n"
        "  br i1 %more, label %loop, label %out\nout:\n"
    )
    with pytest.raises(RunError) as refusal:
        logged(kernel(body))
    assert "expected at most 2097152" in str(refusal.value)


@pytest.mark.parametrize(
    "line",
    [
        "  %v = load i24, ptr addrspace(1) %a",
        "  %v = load i32, ptr addrspace(1) null",
        "  call void @llvm.memset.p1.i64(ptr addrspace(1) %a, i8 0, i64 4, i1 false)",
        "  %p = select i1 true, ptr addrspace(1) %a, ptr addrspace(1) %b\n"
        "  %v = load i32, ptr addrspace(1) %p",
    ],
)
def test_an_access_that_cannot_be_logged_is_refused(line: str) -> None:
    with pytest.raises(BuildError) as refusal:
        kernel(f"{line}\n")
    assert str(refusal.value).startswith("cannot log '")


def test_a_pointer_of_a_loop_is_known_by_its_buffer() -> None:
    body = (
        "  br label %loop\nloop:\n"
        "  %p = phi ptr addrspace(1) [ %a, %entry ], [ %q, %loop ]\n"
        "  %k = phi i32 [ 0, %entry ], [ %next, %loop ]\n"
        + load(1, "p")
        + at(1, "%p", "64", "q")
        + "  %next = add i32 %k, 1\n  %more = icmp ult i32 %next, 4\n"
        "  br i1 %more, label %loop, label %out\nout:\n"
    )
    (row,) = logged(kernel(body)).traffic
    assert (row.access.place, row.requests, row.cost, row.least) == ("a", 8, 8, 8)
