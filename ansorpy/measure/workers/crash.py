"""Crash handler: record the address of a memory fault, so that a failure names the buffer.

A Python handler cannot run at the point of a fault, so the handler is native: it stores the
address into memory shared with the fork server, restores the default action and returns; the
instruction faults again and the process dies as it would have.
"""

import ctypes
import json
import mmap
import signal
from collections.abc import Sequence
from typing import Any, Final

from ansorpy.errors import WireError
from ansorpy.host_jit import compile_here
from ansorpy.measure.verify.guard_pages import GUARD_PAGES, PAGE_BYTES
from ansorpy.measure.workers.codec import Codec
from ansorpy.measure.workers.forked import BOX_BYTES, NOTE

SA_SIGINFO: Final = 4
SA_ONSTACK: Final = 0x0800_0000
STACK_BYTES: Final = 64 * 1024
ADDRESS_OFFSET: Final = 16  # offset of si_addr in siginfo_t, 64-bit Linux

_IR: Final = """
declare ptr @signal(i32, ptr)
define void @on_fault(i32 %signum, ptr %info, ptr %context) {{
  %from = getelementptr i8, ptr %info, i64 {offset}
  %address = load i64, ptr %from
  %box = inttoptr i64 {box} to ptr
  store volatile i64 %address, ptr %box
  %old = call ptr @signal(i32 %signum, ptr null)
  ret void
}}
"""


_NOTE: Final = Codec(tuple[str, tuple[tuple[str, int, int, int, int], ...]], {}, {})


class _Sigaction(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Stack(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class Recorder:
    """Writer of the current phase and of fault addresses into the black box of the fork server."""

    def __init__(self, box: mmap.mmap) -> None:
        self._box = box
        self._keep: list[Any] = []
        place = ctypes.addressof(ctypes.c_char.from_buffer(box))
        engine = compile_here(_IR.format(offset=ADDRESS_OFFSET, box=place))
        self._keep.append(engine)
        self._handler = engine.get_function_address("on_fault")

    def arm(self) -> None:
        """Catch memory faults of this process, on a stack of its own: the stack may be full."""
        libc = ctypes.CDLL(None, use_errno=True)
        memory = ctypes.create_string_buffer(STACK_BYTES)
        stack = _Stack(ctypes.addressof(memory), 0, STACK_BYTES)
        libc.sigaltstack(ctypes.byref(stack), None)
        action = _Sigaction(handler=self._handler, flags=SA_SIGINFO | SA_ONSTACK)
        for signum in (signal.SIGSEGV, signal.SIGBUS):
            libc.sigaction(int(signum), ctypes.byref(action), None)
        self._keep += [memory, action]

    def note(self, phase: str, layout: Sequence[tuple[str, int, int, int, int]] = ()) -> None:
        """Note the current phase, and the addresses of `Arena` memory."""
        text = json.dumps([phase, layout]).encode()
        if NOTE.size + len(text) > BOX_BYTES:
            text = json.dumps([phase, []]).encode()
        self._box[NOTE.size : NOTE.size + len(text)] = text
        self._box[: NOTE.size] = NOTE.pack(0, len(text))


def explain(note: str, fault: int | None) -> tuple[str, str | None]:
    """Return the phase, and the out-of-bounds access that a fault was, if it was one.

    A malformed note, as a damaged process may leave it, explains nothing.
    """
    try:
        phase, layout = _NOTE.decode(note.encode(), memoryview(b""))
    except WireError:  # written by a damaged process, or never
        return "", None
    margin = GUARD_PAGES * PAGE_BYTES
    for name, start, end, first, last in layout:
        if fault is not None and first - margin <= fault < last + margin:
            if fault >= end:
                return phase, f"access {fault - end} bytes after the end of buffer {name}"
            if fault < start:
                return phase, f"access {start - fault} bytes before the start of buffer {name}"
    return phase, None
