"""Runtime of emulated kernels as LLVM text: threads of a block, barriers and shuffles.

    int32_t simt_run(int64_t *order)    0, PAUSED, or a fault: a key of FAULTS
    int32_t simt_resume()               the same, after a pause of the last block

`order` has the words of `Order`. A thread runs until it waits: at a barrier for all threads of
its block that have not ended, at a shuffle for those of its warp. The next thread that can run
follows, in rising or falling order. So a race has the same outcome in every run of one order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.simt.emulator.fibres_text import fibres

MOST_THREADS: Final = 1024  # threads of a block at most
WARP: Final = 32
MOST_RECORDS: Final = 1 << 21  # in a log between two barriers, 32 bytes each
MOST_TURNS: Final = 1 << 20  # turns of a loop of one thread in a log
PAUSED: Final = -1  # in place of a fault: the block goes on if `simt_resume` is called
FAULTS: Final = {
    1: "threads of a block wait at different barriers; expected one barrier for all of them",
    2: "a shuffle names some threads of a warp; expected all of them",
    3: "some threads wait at a barrier and others at a shuffle; expected all of a warp at one",
    4: "a thread reads or writes outside of a buffer; expected an element of it",
    5: "the place of an access in its buffer is no multiple of its bytes; expected one",
    6: f"a block makes too many accesses between two barriers; expected at most {MOST_RECORDS}",
    7: f"a loop of a thread does not end; expected at most {MOST_TURNS} turns",
}  # from 4 on: of kernels with a log only


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


def runtime_text(triple: str) -> str:
    """Return the text for processors of an LLVM triple.

    Raises:
        BuildError: the processor is neither x86-64 nor aarch64.
    """
    kind = fibres(triple)
    begin = _BEGIN.replace("FRAME", str(kind.frame_bytes)).replace("RETURN", str(kind.return_at))
    return "\n".join([_STATE, kind.text, _WAITS, _PAUSES, _SHUFFLES, _SPECIAL, begin, _RUN])


# Status of a thread: 0 ended, 1 can run, 2 waits for its block, 3 waits for its warp. The last
# stack pointer is that of the caller.
_STATE: Final = f"""\
@status = internal global [{MOST_THREADS} x i32] zeroinitializer
@pointers = internal global [{MOST_THREADS + 1} x ptr] zeroinitializer
@warp_live = internal global [{WARP} x i32] zeroinitializer
@warp_waiting = internal global [{WARP} x i32] zeroinitializer
@turns = internal global [{MOST_THREADS} x i32] zeroinitializer
@slots = internal global [{2 * MOST_THREADS} x i32] zeroinitializer
@current = internal global i32 0
@threads = internal global i32 0
@live = internal global i32 0
@waiting = internal global i32 0
@site = internal global i32 0
@direction = internal global i32 0
@block = internal global i32 0
@blocks = internal global i32 0
@fault = internal global i32 0
@entry = internal global ptr null
@buffers = internal global ptr null
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"""

_CALLER: Final = f"getelementptr (ptr, ptr @pointers, i64 {MOST_THREADS})"

# `resume` goes on with the next thread that can run, perhaps the present one. `free` lets the
# threads of a range run, `free_block` and `free_warp` if all that live wait.
_WAITS: Final = f"""\
define void @simt_fail(i32 %why) nounwind {{
  store i32 %why, ptr @fault
  %me = load i32, ptr @current
  %save = getelementptr ptr, ptr @pointers, i32 %me
  %caller = load ptr, ptr {_CALLER}
  call void @switch(ptr %save, ptr %caller)
  unreachable
}}

define internal void @resume() nounwind {{
entry:
  %me = load i32, ptr @current
  %count = load i32, ptr @threads
  %last = sub i32 %count, 1
  %step = load i32, ptr @direction
  br label %look
look:
  %from = phi i32 [ %me, %entry ], [ %at, %no ]
  %seen = phi i32 [ 0, %entry ], [ %more, %no ]
  %next = add i32 %from, %step
  %over = icmp eq i32 %next, %count
  %under = icmp slt i32 %next, 0
  %wrapped = select i1 %over, i32 0, i32 %next
  %at = select i1 %under, i32 %last, i32 %wrapped
  %place = getelementptr i32, ptr @status, i32 %at
  %status = load i32, ptr %place
  %ready = icmp eq i32 %status, 1
  br i1 %ready, label %found, label %no
no:
  %more = add i32 %seen, 1
  %stuck = icmp eq i32 %more, %count
  br i1 %stuck, label %none, label %look
none:
  call void @simt_fail(i32 3)
  unreachable
found:
  %same = icmp eq i32 %at, %me
  br i1 %same, label %done, label %go
go:
  store i32 %at, ptr @current
  %save = getelementptr ptr, ptr @pointers, i32 %me
  %place2 = getelementptr ptr, ptr @pointers, i32 %at
  %to = load ptr, ptr %place2
  call void @switch(ptr %save, ptr %to)
  br label %done
done:
  ret void
}}

define internal void @free(i32 %first, i32 %count) nounwind {{
entry:
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %more, %loop ]
  %at = add i32 %first, %k
  %place = getelementptr i32, ptr @status, i32 %at
  %status = load i32, ptr %place
  %lives = icmp ne i32 %status, 0
  %new = zext i1 %lives to i32
  store i32 %new, ptr %place
  %more = add i32 %k, 1
  %last = icmp eq i32 %more, %count
  br i1 %last, label %done, label %loop
done:
  ret void
}}

define internal void @free_block() nounwind {{
  %waiting = load i32, ptr @waiting
  %live = load i32, ptr @live
  %all = icmp eq i32 %waiting, %live
  br i1 %all, label %yes, label %done
yes:
  store i32 0, ptr @waiting
  %count = load i32, ptr @threads
  call void @free(i32 0, i32 %count)
  br label %done
done:
  ret void
}}

define internal void @free_warp(i32 %warp) nounwind {{
  %place = getelementptr i32, ptr @warp_waiting, i32 %warp
  %waiting = load i32, ptr %place
  %place2 = getelementptr i32, ptr @warp_live, i32 %warp
  %live = load i32, ptr %place2
  %all = icmp eq i32 %waiting, %live
  %some = icmp ne i32 %live, 0
  %both = and i1 %all, %some
  br i1 %both, label %yes, label %done
yes:
  store i32 0, ptr %place
  %first = mul i32 %warp, {WARP}
  %threads = load i32, ptr @threads
  %left = sub i32 %threads, %first
  %short = icmp slt i32 %left, {WARP}
  %count = select i1 %short, i32 %left, i32 {WARP}
  call void @free(i32 %first, i32 %count)
  br label %done
done:
  ret void
}}

define void @simt_barrier(i32 %site) nounwind {{
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @status, i32 %me
  store i32 2, ptr %place
  %before = load i32, ptr @waiting
  %now = add i32 %before, 1
  store i32 %now, ptr @waiting
  %first = icmp eq i32 %before, 0
  %other = load i32, ptr @site
  %meant = select i1 %first, i32 %site, i32 %other
  store i32 %meant, ptr @site
  %same = icmp eq i32 %meant, %site
  br i1 %same, label %well, label %bad
bad:
  call void @simt_fail(i32 1)
  unreachable
well:
  call void @free_block()
  call void @resume()
  ret void
}}

define void @simt_warp_barrier(i32 %mask) nounwind {{
  %all = icmp eq i32 %mask, -1
  br i1 %all, label %well, label %bad
bad:
  call void @simt_fail(i32 2)
  unreachable
well:
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @status, i32 %me
  store i32 3, ptr %place
  %warp = udiv i32 %me, {WARP}
  %place2 = getelementptr i32, ptr @warp_waiting, i32 %warp
  %before = load i32, ptr %place2
  %now = add i32 %before, 1
  store i32 %now, ptr %place2
  call void @free_warp(i32 %warp)
  call void @resume()
  ret void
}}"""

# For a log: `simt_last` tells whether a thread is the last one before a barrier of its block,
# `simt_pause` returns to the caller in its place, `simt_resume` goes on.
_PAUSES: Final = f"""\
define i1 @simt_last() nounwind {{
  %waiting = load i32, ptr @waiting
  %with_me = add i32 %waiting, 1
  %live = load i32, ptr @live
  %last = icmp eq i32 %with_me, %live
  ret i1 %last
}}

define void @simt_pause() nounwind {{
  store i32 {PAUSED}, ptr @fault
  %me = load i32, ptr @current
  %save = getelementptr ptr, ptr @pointers, i32 %me
  %caller = load ptr, ptr {_CALLER}
  call void @switch(ptr %save, ptr %caller)
  ret void
}}

define i32 @simt_resume() nounwind {{
  store i32 0, ptr @fault
  %me = load i32, ptr @current
  %place = getelementptr ptr, ptr @pointers, i32 %me
  %to = load ptr, ptr %place
  call void @switch(ptr {_CALLER}, ptr %to)
  %fault = load i32, ptr @fault
  ret i32 %fault
}}"""

# A thread writes its word, meets its warp, and reads the word of its partner. Words of odd and
# even turns lie apart: a thread may be at its next shuffle before its partner has read. A thread
# that ended before this turn gives all ones. The word of a thread that ended later is still valid.
_SHUFFLES: Final = f"""\
define internal i32 @exchange(i32 %mask, i32 %word, i32 %source) nounwind {{
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @turns, i32 %me
  %turn = load i32, ptr %place
  %next = add i32 %turn, 1
  store i32 %next, ptr %place
  %odd = and i32 %turn, 1
  %base = mul i32 %odd, {MOST_THREADS}
  %mine = add i32 %base, %me
  %slot = getelementptr i32, ptr @slots, i32 %mine
  store i32 %word, ptr %slot
  call void @simt_warp_barrier(i32 %mask)
  %warp = and i32 %me, -{WARP}
  %other = add i32 %warp, %source
  %place3 = getelementptr i32, ptr @turns, i32 %other
  %turns = load i32, ptr %place3
  %there = add i32 %base, %other
  %place2 = getelementptr i32, ptr @slots, i32 %there
  %found = load i32, ptr %place2
  %ended = icmp ult i32 %turns, %next
  %result = select i1 %ended, i32 -1, i32 %found
  ret i32 %result
}}
""" + "".join(
    f"""
define i32 @simt_shuffle_{mode}(i32 %mask, i32 %word, i32 %distance, i32 %clamp) nounwind {{
  %me = load i32, ptr @current
  %lane = and i32 %me, {WARP - 1}
  %shifted = lshr i32 %clamp, 8
  %segment = and i32 %shifted, {WARP - 1}
  %end = and i32 %clamp, {WARP - 1}
  %low = and i32 %lane, %segment
  %apart = xor i32 %segment, {WARP - 1}
  %high = and i32 %end, %apart
  %most = or i32 %low, %high
  %near = and i32 %distance, {WARP - 1}
  %inner = and i32 %near, %apart
  %partner = {partner}
  %outside = icmp {outside}
  %source = select i1 %outside, i32 %lane, i32 %partner
  %result = call i32 @exchange(i32 %mask, i32 %word, i32 %source)
  ret i32 %result
}}
"""
    for mode, partner, outside in (
        ("idx", "or i32 %low, %inner", "sgt i32 %partner, %most"),
        ("up", "sub i32 %lane, %near", "slt i32 %partner, %low"),
        ("down", "add i32 %lane, %near", "sgt i32 %partner, %most"),
        ("bfly", "xor i32 %lane, %near", "sgt i32 %partner, %most"),
    )
)

_SPECIAL: Final = "".join(
    f"""
define i32 @simt_{name}() nounwind {{
  %value = load i32, ptr @{state}
  ret i32 %value
}}
"""
    for name, state in (
        ("tid", "current"), ("ctaid", "block"), ("ntid", "threads"), ("nctaid", "blocks")
    )
) + f"""
define i32 @simt_laneid() nounwind {{
  %value = load i32, ptr @current
  %lane = and i32 %value, {WARP - 1}
  ret i32 %lane
}}
"""  # fmt: skip

_BEGIN: Final = f"""\
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
  %start = sub i64 %bytes, FRAME
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

_RUN: Final = f"""\
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
  call void @switch(ptr {_CALLER}, ptr %to)
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
