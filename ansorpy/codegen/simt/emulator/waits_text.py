"""State of the threads of a block, and their waits for each other, as LLVM text."""

from typing import Final

from ansorpy.codegen.simt.emulator.limits import MOST_THREADS, PAUSED, WARP

# Status of a thread: 0 ended, 1 can run, 2 waits for its block, 3 waits for its warp. The last
# stack pointer belongs to the caller.
STATE: Final = f"""\
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

CALLER: Final = f"getelementptr (ptr, ptr @pointers, i64 {MOST_THREADS})"

# `resume` goes on with the next thread that can run, perhaps the present one. `free` lets the
# threads of a range run, `free_block` and `free_warp` if all that live wait.
WAITS: Final = f"""\
define void @simt_fail(i32 %why) nounwind {{
  store i32 %why, ptr @fault
  %me = load i32, ptr @current
  %save = getelementptr ptr, ptr @pointers, i32 %me
  %caller = load ptr, ptr {CALLER}
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
PAUSES: Final = f"""\
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
  %caller = load ptr, ptr {CALLER}
  call void @switch(ptr %save, ptr %caller)
  ret void
}}

define i32 @simt_resume() nounwind {{
  store i32 0, ptr @fault
  %me = load i32, ptr @current
  %place = getelementptr ptr, ptr @pointers, i32 %me
  %to = load ptr, ptr %place
  call void @switch(ptr {CALLER}, ptr %to)
  %fault = load i32, ptr @fault
  ret i32 %fault
}}"""
