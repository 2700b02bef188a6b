"""The phase loop as LLVM IR, shared by the launcher of this process and by exported libraries.

    void run_phases(const phase *rows, int64_t count, void **buffers, ansorpy_pool *pool)

A row is {function, tasks}. The pool is an interface of one function, `pool->run(pool, task,
context, tasks)`, which returns after all tasks; without a pool (NULL) the tasks run on the
caller's thread.
"""

from typing import Final

LOOP_TEXT: Final = """\
define internal void @run_phases(ptr %rows, i64 %count, ptr %buffers, ptr %pool) nounwind {
entry:
  %end = getelementptr {ptr, i64}, ptr %rows, i64 %count
  %serial = icmp eq ptr %pool, null
  br label %phases
phases:
  %row = phi ptr [ %rows, %entry ], [ %next, %deal ], [ %next, %loop ]
  %more_phases = icmp ult ptr %row, %end
  br i1 %more_phases, label %phase, label %out
phase:
  %function = load ptr, ptr %row, align 8
  %tail = getelementptr i64, ptr %row, i64 1
  %tasks = load i64, ptr %tail, align 8
  %next = getelementptr {ptr, i64}, ptr %row, i64 1
  %single = icmp slt i64 %tasks, 2
  %here = or i1 %single, %serial
  br i1 %here, label %loop, label %deal
deal:
  %deal_tasks = load ptr, ptr %pool, align 8
  call void %deal_tasks(ptr %pool, ptr %function, ptr %buffers, i64 %tasks)
  br label %phases
loop:
  %task = phi i64 [ 0, %phase ], [ %after, %do ]
  %more_tasks = icmp slt i64 %task, %tasks
  br i1 %more_tasks, label %do, label %phases
do:
  call void %function(ptr %buffers, i64 %task)
  %after = add nuw nsw i64 %task, 1
  br label %loop
out:
  ret void
}"""
