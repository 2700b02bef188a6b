"""Asynchronous copies from global to shared memory, as LLVM text.

A copy is an entry in a queue of its thread, and its bytes arrive at a wait of that thread, never
before; bytes beyond those that it reads arrive as zeros. The queue lies at the top of the thread's
stack. `simt_arrived` is called after each copy.
"""

from typing import Final

from ansorpy.codegen.simt.emulator.limits import MOST_COPIES, MOST_THREADS

_ENTRY: Final = "{ ptr, ptr, i32, i32, i32, i32 }"  # to, from, bytes, group, site, those read
QUEUE_BYTES: Final = 32 * MOST_COPIES
NO_ARRIVALS: Final = "define void @simt_arrived(i32 %site, ptr %to) nounwind {\n  ret void\n}\n"
WIDTHS: Final = (4, 8, 16)  # bytes of a copy

_FIELDS: Final = "".join(
    f"  %{name}_at = getelementptr {_ENTRY}, ptr %entry, i32 0, i32 {k}\n"
    for k, name in enumerate(("to", "from", "bytes", "group", "site", "read"))
)

COPIES: Final = f"""\
@queues = internal global [{MOST_THREADS} x ptr] zeroinitializer
@queued = internal global [{MOST_THREADS} x i32] zeroinitializer
@groups = internal global [{MOST_THREADS} x i32] zeroinitializer
declare void @simt_arrived(i32, ptr)
declare void @llvm.memcpy.p0.p0.i32(ptr, ptr, i32, i1)
declare void @llvm.memset.p0.i32(ptr, i8, i32, i1)

define internal void @begin_copies(i32 %thread, ptr %queue) nounwind {{
  %place = getelementptr ptr, ptr @queues, i32 %thread
  store ptr %queue, ptr %place
  %count = getelementptr i32, ptr @queued, i32 %thread
  store i32 0, ptr %count
  %group = getelementptr i32, ptr @groups, i32 %thread
  store i32 0, ptr %group
  ret void
}}

define internal void @start_copy(i32 %site, ptr %to, ptr %from, i32 %bytes, i32 %read) nounwind {{
  %me = load i32, ptr @current
  %count_at = getelementptr i32, ptr @queued, i32 %me
  %count = load i32, ptr %count_at
  %full = icmp uge i32 %count, {MOST_COPIES}
  br i1 %full, label %bad, label %well
bad:
  call void @simt_fail(i32 9)
  unreachable
well:
  %more = add i32 %count, 1
  store i32 %more, ptr %count_at
  %queue_at = getelementptr ptr, ptr @queues, i32 %me
  %queue = load ptr, ptr %queue_at
  %entry = getelementptr {_ENTRY}, ptr %queue, i32 %count
  %mine = getelementptr i32, ptr @groups, i32 %me
  %group = load i32, ptr %mine
{_FIELDS}\
  store ptr %to, ptr %to_at
  store ptr %from, ptr %from_at
  store i32 %bytes, ptr %bytes_at
  store i32 %group, ptr %group_at
  store i32 %site, ptr %site_at
  store i32 %read, ptr %read_at
  ret void
}}

define void @simt_copy_commit() nounwind {{
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @groups, i32 %me
  %before = load i32, ptr %place
  %now = add i32 %before, 1
  store i32 %now, ptr %place
  ret void
}}

define void @simt_copy_wait(i32 %keep) nounwind {{
entry:
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @groups, i32 %me
  %group = load i32, ptr %place
  %end = sub i32 %group, %keep
  %count_at = getelementptr i32, ptr @queued, i32 %me
  %count = load i32, ptr %count_at
  %queue_at = getelementptr ptr, ptr @queues, i32 %me
  %queue = load ptr, ptr %queue_at
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %on ]
  %left = phi i32 [ 0, %entry ], [ %left1, %on ]
  %any = icmp ult i32 %k, %count
  br i1 %any, label %one, label %done
one:
  %entry_at = getelementptr {_ENTRY}, ptr %queue, i32 %k
  %its = getelementptr {_ENTRY}, ptr %entry_at, i32 0, i32 3
  %its_group = load i32, ptr %its
  %old = icmp slt i32 %its_group, %end
  br i1 %old, label %arrive, label %stay
arrive:
  call void @arrive(ptr %entry_at)
  br label %on
stay:
  %kept_at = getelementptr {_ENTRY}, ptr %queue, i32 %left
  %kept = load {_ENTRY}, ptr %entry_at
  store {_ENTRY} %kept, ptr %kept_at
  %left2 = add i32 %left, 1
  br label %on
on:
  %left1 = phi i32 [ %left, %arrive ], [ %left2, %stay ]
  %k1 = add i32 %k, 1
  br label %loop
done:
  store i32 %left, ptr %count_at
  ret void
}}

define internal void @arrive(ptr %entry) nounwind {{
{_FIELDS}\
  %to = load ptr, ptr %to_at
  %from = load ptr, ptr %from_at
  %bytes = load i32, ptr %bytes_at
  %site = load i32, ptr %site_at
  %read = load i32, ptr %read_at
  call void @llvm.memset.p0.i32(ptr %to, i8 0, i32 %bytes, i1 false)
  call void @llvm.memcpy.p0.p0.i32(ptr %to, ptr %from, i32 %read, i1 false)
  call void @simt_arrived(i32 %site, ptr %to)
  ret void
}}

define void @simt_copy_wait_all() nounwind {{
  call void @simt_copy_commit()
  call void @simt_copy_wait(i32 0)
  ret void
}}
""" + "".join(
    f"""
define void @simt_copy_{size}(i32 %site, ptr %to, ptr %from) nounwind {{
  call void @start_copy(i32 %site, ptr %to, ptr %from, i32 {size}, i32 {size})
  ret void
}}

define void @simt_copy_{size}_some(i32 %site, ptr %to, ptr %from, i32 %read) nounwind {{
  call void @start_copy(i32 %site, ptr %to, ptr %from, i32 {size}, i32 %read)
  ret void
}}
"""
    for size in WIDTHS
)
