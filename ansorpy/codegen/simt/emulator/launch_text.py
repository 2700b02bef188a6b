"""Begin and end of threads, and the loop over the blocks of a launch, as LLVM text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.simt.emulator.copies_text import QUEUE_BYTES
from ansorpy.codegen.simt.emulator.limits import WARP
from ansorpy.codegen.simt.emulator.waits_text import CALLER


@dataclass(frozen=True, slots=True)
class Order:
    """The words of a launch.

    Args:
        entry: address of `void kernel(int64_t *buffers)`.
        buffers: address of the addresses of the buffers.
        direction: 1: blocks and threads in order; -1: in reverse.
        first, end: the range of blocks to run, counted in that order.
        stacks: address of MOST_THREADS stacks.
        stack_bytes: of one stack.
        poisoned: address and bytes of each part of shared memory, all ones at first.
    """

    entry: int
    buffers: int
    blocks: int
    threads: int
    direction: int
    first: int
    end: int
    stacks: int
    stack_bytes: int
    poisoned: Sequence[tuple[int, int]]

    def words(self) -> list[int]:
        """Return the words in the order in which the runtime reads them."""
        parts = [word for part in self.poisoned for word in part]
        launch = [self.entry, self.buffers, self.blocks, self.threads]
        run = [self.direction, self.first, self.end, self.stacks, self.stack_bytes]
        return [*launch, *run, len(self.poisoned), *parts]


BEGIN: Final = f"""\
define internal void @fibre() noreturn nounwind {{
  %entry = load ptr, ptr @entry
  %buffers = load ptr, ptr @buffers
  call void %entry(ptr %buffers)
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @status, i32 %me
  store i32 0, ptr %place
  %before = load i32, ptr @live
  %left = sub i32 %before, 1
  store i32 %left, ptr @live
  %warp = udiv i32 %me, {WARP}
  %place2 = getelementptr i32, ptr @warp_live, i32 %warp
  %before2 = load i32, ptr %place2
  %left2 = sub i32 %before2, 1
  store i32 %left2, ptr %place2
  %ended = icmp eq i32 %left, 0
  br i1 %ended, label %leave, label %others
leave:
  call void @simt_fail(i32 0)
  unreachable
others:
  call void @free_block()
  call void @free_warp(i32 %warp)
  call void @resume()
  unreachable
}}

define internal void @begin(i32 %thread, ptr %stacks, i64 %stack_bytes) nounwind {{
  %place = getelementptr i32, ptr @status, i32 %thread
  store i32 1, ptr %place
  %place2 = getelementptr i32, ptr @turns, i32 %thread
  store i32 0, ptr %place2
  %warp = udiv i32 %thread, {WARP}
  %place3 = getelementptr i32, ptr @warp_live, i32 %warp
  %before = load i32, ptr %place3
  %now = add i32 %before, 1
  store i32 %now, ptr %place3
  %number = zext i32 %thread to i64
  %count = add i64 %number, 1
  %bytes = mul i64 %count, %stack_bytes
  %top = sub i64 %bytes, {QUEUE_BYTES}
  %queue = getelementptr i8, ptr %stacks, i64 %top
  call void @begin_copies(i32 %thread, ptr %queue)
  call void @begin_matrices(i32 %thread)
  %start = sub i64 %top, FRAME
  %frame = getelementptr i8, ptr %stacks, i64 %start
  call void @llvm.memset.p0.i64(ptr %frame, i8 0, i64 FRAME, i1 false)
  %place4 = getelementptr i8, ptr %frame, i64 RETURN
  store ptr @fibre, ptr %place4
  %place5 = getelementptr ptr, ptr @pointers, i32 %thread
  store ptr %frame, ptr %place5
  ret void
}}"""

_WORDS: Final = "\n".join(
    f"  %p{k} = getelementptr i64, ptr %order, i64 {k}\n  %{name} = load {kind}, ptr %p{k}"
    for k, (name, kind) in enumerate(
        (
            ("kernel", "ptr"), ("table", "ptr"), ("blocks", "i32"), ("threads", "i32"),
            ("direction", "i32"), ("begin", "i32"), ("end", "i32"), ("stacks", "ptr"),
            ("stack_bytes", "i64"), ("parts", "i64"),
        )
    )
)  # fmt: skip

RUN: Final = f"""\
define i32 @simt_run(ptr %order) nounwind {{
start:
{_WORDS}
  store ptr %kernel, ptr @entry
  store ptr %table, ptr @buffers
  store i32 %blocks, ptr @blocks
  store i32 %threads, ptr @threads
  store i32 %direction, ptr @direction
  store i32 0, ptr @fault
  %rising = icmp sgt i32 %direction, 0
  %last_block = sub i32 %blocks, 1
  %last_thread = sub i32 %threads, 1
  %first = select i1 %rising, i32 0, i32 %last_thread
  %rows = getelementptr i64, ptr %order, i64 10
  br label %blocks_loop
blocks_loop:
  %k = phi i32 [ %begin, %start ], [ %k1, %well ]
  %back = sub i32 %last_block, %k
  %number = select i1 %rising, i32 %k, i32 %back
  store i32 %number, ptr @block
  store i32 %threads, ptr @live
  store i32 0, ptr @waiting
  call void @llvm.memset.p0.i64(ptr @warp_live, i8 0, i64 {4 * WARP}, i1 false)
  call void @llvm.memset.p0.i64(ptr @warp_waiting, i8 0, i64 {4 * WARP}, i1 false)
  br label %poison
poison:
  %part = phi i64 [ 0, %blocks_loop ], [ %part1, %one ]
  %any = icmp ult i64 %part, %parts
  br i1 %any, label %one, label %threads_loop
one:
  %row = getelementptr {{ptr, i64}}, ptr %rows, i64 %part
  %place = load ptr, ptr %row
  %size_at = getelementptr i64, ptr %row, i64 1
  %size = load i64, ptr %size_at
  call void @llvm.memset.p0.i64(ptr %place, i8 -1, i64 %size, i1 false)
  %part1 = add i64 %part, 1
  br label %poison
threads_loop:
  %t = phi i32 [ 0, %poison ], [ %t1, %threads_loop ]
  call void @begin(i32 %t, ptr %stacks, i64 %stack_bytes)
  %t1 = add i32 %t, 1
  %begun = icmp eq i32 %t1, %threads
  br i1 %begun, label %go, label %threads_loop
go:
  store i32 %first, ptr @current
  %to_at = getelementptr ptr, ptr @pointers, i32 %first
  %to = load ptr, ptr %to_at
  call void @switch(ptr {CALLER}, ptr %to)
  %fault = load i32, ptr @fault
  %bad = icmp ne i32 %fault, 0
  br i1 %bad, label %done, label %well
well:
  %k1 = add i32 %k, 1
  %all = icmp eq i32 %k1, %end
  br i1 %all, label %done, label %blocks_loop
done:
  ret i32 %fault
}}"""
