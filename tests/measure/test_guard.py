import ctypes
import faulthandler
import os
import signal

import numpy as np
import pytest

from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.verify.guard_pages import PAGE_BYTES, Arena, Guarded, Side
from ansorpy.measure.workers.crash import explain


def signal_of(address: int) -> int:
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        ctypes.string_at(address, 1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@pytest.mark.parametrize("size", [4, 64, 100, PAGE_BYTES, PAGE_BYTES + 64])
def test_right_aligned_memory_ends_at_the_guard(size: int) -> None:
    memory = Guarded(size, "right")
    assert memory.address + size == memory.end
    assert signal_of(memory.end - 1) == 0
    assert signal_of(memory.end) == signal.SIGSEGV


def test_left_aligned_memory_starts_at_the_guard() -> None:
    memory = Guarded(100, "left")
    assert memory.address == memory.first
    assert signal_of(memory.first - 1) == signal.SIGSEGV
    assert signal_of(memory.first) == 0


@pytest.mark.parametrize(("side", "offset"), [("right", -1), ("left", 20)])
def test_a_write_into_the_slack_is_found(side: Side, offset: int) -> None:
    arena = Arena([Buffer("x", "float32", (Const(5),), Scope.OUTPUT)], side)
    arena.fill({"x": np.ones(5, np.float32)}, "nan")
    assert arena.overrun() is None
    ctypes.memset(arena.addresses[0] + offset, 0, 1)
    assert arena.overrun() == ("x", offset)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "float64"])
def test_outputs_are_poisoned(dtype: str) -> None:
    arena = Arena([Buffer("x", dtype, (Const(3), Const(2)), Scope.OUTPUT)], "right")
    arena.fill({}, "nan")
    before = arena.array("x").tobytes()
    arena.fill({}, "bytes")
    assert arena.array("x").tobytes() == b"\xa5" * len(before) != before


def test_a_fault_is_traced_to_its_buffer() -> None:
    memory = Guarded(96, "right")
    layout = [["C", memory.address, memory.address + 96, memory.first, memory.end]]
    note = str(["check", layout]).replace("'", '"')
    assert explain(note, memory.end) == ("check", "access 0 bytes after the end of buffer C")
    before = explain(note, memory.first - 8)[1]
    assert before is not None
    assert before.endswith("bytes before the start of buffer C")
    assert explain(note, 8) == ("check", None)
    assert explain("", 8) == ("", None)
