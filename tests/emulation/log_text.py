"""Runtime of the log of emulated kernels as LLVM text.

    void simt_log_begin(int64_t *words)    of every block: the words of `LogState`
    int64_t simt_log_end()                 address after the last record

A record has the fields of `RECORD`. An access outside of its buffer, or without alignment, ends
the launch with a fault; its record is the last one.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ansorpy.codegen.simt.emulator.limits import MOST_THREADS, MOST_TURNS

RECORD: Final = np.dtype(
    [("address", "u8")]
    + [(name, "u4") for name in ("site", "turn", "epoch", "warp_epoch", "thread", "unused")]
)
WORD_BYTES: Final = 4  # the least copy
ROW: Final = np.dtype([("start", "u8"), ("end", "u8"), ("size", "u4"), ("loop", "u4")])


@dataclass(frozen=True, slots=True)
class LogState:
    """Memory of the log of one block.

    Args:
        records: array of RECORD; none: accesses are checked, and none is recorded. A block that
            has filled half of them pauses at its next barrier.
        rows: array of ROW: start, end, bytes and loop of each access by its number.
        turns: words, MOST_THREADS per loop; zero at first.
        epochs: words: barriers that each thread has met, of the block, then of the warp.
        marks: a byte per WORD_BYTES from `first` on: not 0 while a copy to them is under way.
        first: address of the shared memory of a kernel with copies.
    """

    records: np.ndarray[Any, Any]
    rows: np.ndarray[Any, Any]
    turns: np.ndarray[Any, Any]
    epochs: np.ndarray[Any, Any]
    marks: np.ndarray[Any, Any]
    first: int

    def words(self) -> list[int]:
        """Return the words in the order in which the runtime reads them."""
        first = self.records.ctypes.data if self.records.size else 0
        arrays = [one.ctypes.data for one in (self.rows, self.turns, self.epochs)]
        stop = first + self.records.nbytes
        end = self.first + WORD_BYTES * self.marks.nbytes
        marked = [self.marks.ctypes.data, self.first, end]
        return [first, first + self.records.nbytes // 2, stop, *arrays, *marked]


_WORDS: Final = ("next", "half", "stop", "rows", "turns", "epochs", "marks", "low", "high")

LOG_TEXT: Final = (
    """\
declare i32 @simt_tid()
declare void @simt_fail(i32)
declare i1 @simt_last()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @simt_pause()
"""
    + "".join(f"@log_{name} = internal global ptr null\n" for name in _WORDS)
    + "define void @simt_log_begin(ptr %words) nounwind {\n"
    + "".join(
        f"  %p{k} = getelementptr ptr, ptr %words, i64 {k}\n  %v{k} = load ptr, ptr %p{k}\n"
        f"  store ptr %v{k}, ptr @log_{name}\n"
        for k, name in enumerate(_WORDS)
    )
    + f"""\
  ret void
}}

define i64 @simt_log_end() nounwind {{
  %next = load ptr, ptr @log_next
  %word = ptrtoint ptr %next to i64
  ret i64 %word
}}

define internal void @record(i64 %address, i32 %site, i32 %loop) nounwind {{
  %next = load ptr, ptr @log_next
  %none = icmp eq ptr %next, null
  br i1 %none, label %done, label %wanted
wanted:
  %stop = load ptr, ptr @log_stop
  %full = icmp uge ptr %next, %stop
  br i1 %full, label %bad, label %well
bad:
  call void @simt_fail(i32 6)
  unreachable
well:
  %me = call i32 @simt_tid()
  %turns = load ptr, ptr @log_turns
  %before = mul i32 %loop, {MOST_THREADS}
  %mine = add i32 %before, %me
  %turn_at = getelementptr i32, ptr %turns, i32 %mine
  %turn = load i32, ptr %turn_at
  %epochs = load ptr, ptr @log_epochs
  %epoch_at = getelementptr i32, ptr %epochs, i32 %me
  %epoch = load i32, ptr %epoch_at
  %warp_at = getelementptr i32, ptr %epoch_at, i32 {MOST_THREADS}
  %warp_epoch = load i32, ptr %warp_at
  store i64 %address, ptr %next
  %f1 = getelementptr i8, ptr %next, i64 8
  store i32 %site, ptr %f1
  %f2 = getelementptr i8, ptr %next, i64 12
  store i32 %turn, ptr %f2
  %f3 = getelementptr i8, ptr %next, i64 16
  store i32 %epoch, ptr %f3
  %f4 = getelementptr i8, ptr %next, i64 20
  store i32 %warp_epoch, ptr %f4
  %f5 = getelementptr i8, ptr %next, i64 24
  store i32 %me, ptr %f5
  %after = getelementptr i8, ptr %next, i64 {RECORD.itemsize}
  store ptr %after, ptr @log_next
  br label %done
done:
  ret void
}}

define void @simt_log_access(i32 %site, ptr %at) nounwind {{
  %rows = load ptr, ptr @log_rows
  %number = zext i32 %site to i64
  %row = getelementptr {{i64, i64, i32, i32}}, ptr %rows, i64 %number
  %start = load i64, ptr %row
  %end_at = getelementptr i8, ptr %row, i64 8
  %end = load i64, ptr %end_at
  %size_at = getelementptr i8, ptr %row, i64 16
  %size = load i32, ptr %size_at
  %loop_at = getelementptr i8, ptr %row, i64 20
  %loop = load i32, ptr %loop_at
  %address = ptrtoint ptr %at to i64
  call void @record(i64 %address, i32 %site, i32 %loop)
  %bytes = zext i32 %size to i64
  %last = sub i64 %end, %bytes
  %above = icmp uge i64 %address, %start
  %below = icmp ule i64 %address, %last
  %inside = and i1 %above, %below
  br i1 %inside, label %there, label %outside
outside:
  call void @simt_fail(i32 4)
  unreachable
there:
  %offset = sub i64 %address, %start
  %mask = sub i64 %bytes, 1
  %rest = and i64 %offset, %mask
  %aligned = icmp eq i64 %rest, 0
  br i1 %aligned, label %well, label %bad
bad:
  call void @simt_fail(i32 5)
  unreachable
well:
  %low = load i64, ptr @log_low
  %high = load i64, ptr @log_high
  %after_low = icmp uge i64 %address, %low
  %before_high = icmp ult i64 %address, %high
  %shared = and i1 %after_low, %before_high
  br i1 %shared, label %look, label %done
look:
  %at_byte = phi i64 [ %address, %well ], [ %next_byte, %free ]
  %mark_at = call ptr @mark(i64 %at_byte)
  %mark = load i8, ptr %mark_at
  %marked = icmp ne i8 %mark, 0
  br i1 %marked, label %early, label %free
early:
  call void @simt_fail(i32 10)
  unreachable
free:
  %next_byte = add i64 %at_byte, {WORD_BYTES}
  %stop = add i64 %address, %bytes
  %more = icmp ult i64 %next_byte, %stop
  br i1 %more, label %look, label %done
done:
  ret void
}}

define internal ptr @mark(i64 %address) nounwind {{
  %low = load i64, ptr @log_low
  %offset = sub i64 %address, %low
  %number = udiv i64 %offset, {WORD_BYTES}
  %marks = load ptr, ptr @log_marks
  %at = getelementptr i8, ptr %marks, i64 %number
  ret ptr %at
}}

define internal void @set_marks(i32 %site, ptr %to, i8 %mark) nounwind {{
  %rows = load ptr, ptr @log_rows
  %number = zext i32 %site to i64
  %size_at = getelementptr {{i64, i64, i32, i32}}, ptr %rows, i64 %number, i32 2
  %size = load i32, ptr %size_at
  %words = udiv i32 %size, {WORD_BYTES}
  %count = zext i32 %words to i64
  %address = ptrtoint ptr %to to i64
  %first = call ptr @mark(i64 %address)
  call void @llvm.memset.p0.i64(ptr %first, i8 %mark, i64 %count, i1 false)
  ret void
}}

define void @simt_log_copy(i32 %site, ptr %to) nounwind {{
  call void @set_marks(i32 %site, ptr %to, i8 1)
  ret void
}}

define void @simt_log_some(i32 %site, ptr %at, i32 %bytes) nounwind {{
  %none = icmp eq i32 %bytes, 0
  br i1 %none, label %done, label %some
some:
  call void @simt_log_access(i32 %site, ptr %at)
  br label %done
done:
  ret void
}}

define void @simt_arrived(i32 %site, ptr %to) nounwind {{
  call void @set_marks(i32 %site, ptr %to, i8 0)
  call void @simt_log_access(i32 %site, ptr %to)
  ret void
}}

define void @simt_log_barrier(i32 %site) nounwind {{
  call void @record(i64 0, i32 %site, i32 0)
  %me = call i32 @simt_tid()
  call void @more(i32 %me)
  %next = load ptr, ptr @log_next
  %half = load ptr, ptr @log_half
  %much = icmp ugt ptr %next, %half
  %last = call i1 @simt_last()
  %both = and i1 %much, %last
  br i1 %both, label %pause, label %done
pause:
  call void @simt_pause()
  br label %done
done:
  ret void
}}

define void @simt_log_warp_barrier(i32 %site) nounwind {{
  call void @record(i64 0, i32 %site, i32 0)
  %me = call i32 @simt_tid()
  %at = add i32 %me, {MOST_THREADS}
  call void @more(i32 %at)
  ret void
}}

define internal void @more(i32 %at) nounwind {{
  %epochs = load ptr, ptr @log_epochs
  %place = getelementptr i32, ptr %epochs, i32 %at
  %before = load i32, ptr %place
  %now = add i32 %before, 1
  store i32 %now, ptr %place
  ret void
}}

define void @simt_log_turn(i32 %loop) nounwind {{
  %turns = load ptr, ptr @log_turns
  %me = call i32 @simt_tid()
  %before = mul i32 %loop, {MOST_THREADS}
  %mine = add i32 %before, %me
  %place = getelementptr i32, ptr %turns, i32 %mine
  %turn = load i32, ptr %place
  %now = add i32 %turn, 1
  store i32 %now, ptr %place
  %over = icmp ugt i32 %now, {MOST_TURNS}
  br i1 %over, label %bad, label %well
bad:
  call void @simt_fail(i32 7)
  unreachable
well:
  ret void
}}
"""
)
