"""The phase loop as LLVM IR, shared by the launcher of this process and by exported libraries.

    void run_phases(const phase *rows, int64_t count, void **buffers, ansorpy_pool *pool)

A row is {function, tasks}. The pool is an interface of one function, `pool->run(pool, task,
context, tasks)`, which returns after all tasks; without a pool (NULL) the tasks run on the
caller's thread.
"""

from typing import Final

from ansorpy.codegen.runtime.phase_loop import PhaseLoop

LOOP_TEXT: Final = """\
define internal void @run_phases(ptr %rows, i64 %count, ptr %buffers, ptr %pool) nounwind {
entry:
  %end = getelementptr {ptr, i64}, ptr %rows, i64 %count
  %serial = icmp eq ptr %pool, null
  br label %phases
phases:
  %row = phi ptr [ %rows, %entry ], [ %next, %deal ], [ %next, %serially ], [ %next, %task ]
  %more_phases = icmp ult ptr %row, %end
  br i1 %more_phases, label %phase, label %out
phase:
  %function = load ptr, ptr %row, align 8
  %tail = getelementptr i64, ptr %row, i64 1
  %tasks = load i64, ptr %tail, align 8
  %next = getelementptr {ptr, i64}, ptr %row, i64 1
  %single = icmp slt i64 %tasks, 2
  %here = or i1 %single, %serial
  br i1 %here, label %serially, label %deal
deal:
  %deal_tasks = load ptr, ptr %pool, align 8
  call void %deal_tasks(ptr %pool, ptr %function, ptr %buffers, i64 %tasks)
  br label %phases
serially:
  %some = icmp sgt i64 %tasks, 0
  br i1 %some, label %task, label %phases
task:
  %number = phi i64 [ 0, %serially ], [ %after, %task ]
  call void %function(ptr %buffers, i64 %number)
  %after = add nuw nsw i64 %number, 1
  %more_tasks = icmp slt i64 %after, %tasks
  br i1 %more_tasks, label %task, label %phases
out:
  ret void
}"""


def serial_text(loop: PhaseLoop) -> str:
    """Return `void serial_NAME(void **buffers)`: a known loop, with direct calls.

    In a table of phases the processor mispredicts the indirect call at every change of phase.
    """
    lines = [f"define internal void @serial_{loop.name}(ptr %buffers) nounwind {{", "entry:"]
    before = "entry"
    for k, info in enumerate(loop.phases):
        tasks = str(info.tasks)
        if info.sized:
            tasks = f"%tasks{k}"
            lines += [
                f"  {tasks} = call i64 @{info.counter}(ptr %buffers)",
                f"  %some{k} = icmp sgt i64 {tasks}, 0",
                f"  br i1 %some{k}, label %phase{k}, label %done{k}",
            ]
        else:
            lines.append(f"  br label %phase{k}")
        lines += [
            f"phase{k}:",
            f"  %task{k} = phi i64 [ 0, %{before} ], [ %after{k}, %phase{k} ]",
            f"  call void @{info.name}(ptr %buffers, i64 %task{k})",
            f"  %after{k} = add nuw nsw i64 %task{k}, 1",
            f"  %more{k} = icmp slt i64 %after{k}, {tasks}",
            f"  br i1 %more{k}, label %phase{k}, label %done{k}",
            f"done{k}:",
        ]
        before = f"done{k}"
    return "\n".join([*lines, "  ret void", "}"])
