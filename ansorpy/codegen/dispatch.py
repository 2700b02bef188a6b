"""The public functions of an exported kernel, as LLVM IR around its phases.

    void P_ahead(const P_args *)                     what depends on weights only: once
    void P_run(const P_args *)                       everything else, on this thread
    void P_run_threads(const P_args *, int32_t n)    the same on at most n POSIX threads
    void P_taskK(const P_args *, int64_t task)       one independent task of the K-th timed phase
    const P_phase P_phases[]                         those functions with their numbers of tasks

`P_args` is a struct of pointers: inputs, outputs, and the workspace for whatever else the phases
share; constant tensors are part of the library.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.kernel import PhaseInfo

WORKSPACE: Final = ".workspace"  # no name of a tensor
ALIGN_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer of the program lies: an argument, the workspace, or a constant's bytes."""

    argument: int = -1
    offset_bytes: int = -1
    data: bytes | None = None


def dispatch_text(
    prefix: str, places: Sequence[Place], arguments: int, phases: Sequence[PhaseInfo]
) -> str:
    """Return the IR; `places` has one entry per buffer of the program, in order.

    Args:
        arguments: how many pointers `P_args` has; the last is the workspace.
    """
    timed = [info for info in phases if not info.ahead]
    parts = [_constants(places), _fill(places, arguments)]
    parts += [_driver(prefix, name, len(places)) for name in ("ahead", "run")]
    parts += [_task(prefix, k, info, len(places)) for k, info in enumerate(timed)]
    rows = ", ".join(
        f"{{ ptr, i64 }} {{ ptr @{prefix}_task{k}, i64 {info.tasks} }}"
        for k, info in enumerate(timed)
    )
    parts.append(f"@{prefix}_phases = constant [{len(timed)} x {{ ptr, i64 }}] [{rows}]")
    parts += [_WORKER, _TEAM, _threads(prefix, len(places), timed)]
    return "\n".join(parts)


def _constants(places: Sequence[Place]) -> str:
    lines = []
    for k, place in enumerate(places):
        if place.data is not None:
            text = place.data.hex("\\")
            body = f'c"\\{text}"'
            lines.append(
                f"@constant{k} = internal constant [{len(place.data)} x i8] {body},"
                f" align {ALIGN_BYTES}"
            )
    return "\n".join(lines)


def _fill(places: Sequence[Place], arguments: int) -> str:
    """Return `fill(args, table)`: the address of every buffer, as the phases take them."""
    lines = ["define internal void @fill(ptr %args, ptr %table) nounwind {", "entry:"]
    used = {place.argument for place in places if place.argument >= 0}
    if any(place.offset_bytes >= 0 for place in places):
        used.add(arguments - 1)
    for k in sorted(used):
        lines.append(f"  %p{k} = getelementptr ptr, ptr %args, i64 {k}")
        lines.append(f"  %a{k} = load ptr, ptr %p{k}, align 8")
    for k, place in enumerate(places):
        if place.data is not None:
            address = f"@constant{k}"
        elif place.argument >= 0:
            address = f"%a{place.argument}"
        else:
            address = f"%w{k}"
            lines.append(
                f"  {address} = getelementptr i8, ptr %a{arguments - 1}, i64 {place.offset_bytes}"
            )
        lines.append(f"  %t{k} = getelementptr ptr, ptr %table, i64 {k}")
        lines.append(f"  store ptr {address}, ptr %t{k}, align 8")
    return "\n".join([*lines, "  ret void", "}"])


def _driver(prefix: str, name: str, buffers: int) -> str:
    return f"""define void @{prefix}_{name}(ptr %args) nounwind {{
entry:
  %table = alloca [{buffers} x ptr], align 8
  call void @fill(ptr %args, ptr %table)
  call void @{name}(ptr %table)
  ret void
}}"""


def _task(prefix: str, number: int, info: PhaseInfo, buffers: int) -> str:
    return f"""define void @{prefix}_task{number}(ptr %args, i64 %task) nounwind {{
entry:
  %table = alloca [{buffers} x ptr], align 8
  call void @fill(ptr %args, ptr %table)
  call void @{info.name}(ptr %table, i64 %task)
  ret void
}}"""


def _threads(prefix: str, buffers: int, timed: Sequence[PhaseInfo]) -> str:
    calls = "\n".join(
        f"  call void @team(ptr %table, ptr @{info.name}, i64 {info.tasks}, i32 %threads)"
        for info in timed
    )
    return f"""define void @{prefix}_run_threads(ptr %args, i32 %threads) nounwind {{
entry:
  %table = alloca [{buffers} x ptr], align 8
  call void @fill(ptr %args, ptr %table)
{calls}
  ret void
}}"""


# A job: table, function, number of tasks, the next task to do. Whoever is free takes the next one,
# so a thread that cannot be created, or starts late, is no loss but of time.
_WORKER: Final = """define internal ptr @worker(ptr %job) nounwind {
entry:
  %table = load ptr, ptr %job, align 8
  %p1 = getelementptr i64, ptr %job, i64 1
  %function = load ptr, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %job, i64 2
  %tasks = load i64, ptr %p2, align 8
  %next = getelementptr i64, ptr %job, i64 3
  br label %take
take:
  %task = atomicrmw add ptr %next, i64 1 monotonic
  %left = icmp slt i64 %task, %tasks
  br i1 %left, label %do, label %done
do:
  call void %function(ptr %table, i64 %task)
  br label %take
done:
  ret ptr null
}"""

MOST_THREADS: Final = 256
_TEAM: Final = f"""declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)

define internal void @team(ptr %table, ptr %function, i64 %tasks, i32 %threads) nounwind {{
entry:
  %job = alloca [4 x i64], align 64
  %handles = alloca [{MOST_THREADS} x i64], align 8
  %wide = sext i32 %threads to i64
  %few = icmp slt i64 %wide, %tasks
  %asked = select i1 %few, i64 %wide, i64 %tasks
  %many = icmp sgt i64 %asked, {MOST_THREADS}
  %most = select i1 %many, i64 {MOST_THREADS}, i64 %asked
  store ptr %table, ptr %job, align 8
  %p1 = getelementptr i64, ptr %job, i64 1
  store ptr %function, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %job, i64 2
  store i64 %tasks, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %job, i64 3
  store i64 0, ptr %p3, align 8
  br label %create
create:
  %made = phi i64 [ 0, %entry ], [ %after, %started ]
  %others = add i64 %made, 1
  %more = icmp slt i64 %others, %most
  br i1 %more, label %start, label %work
start:
  %place = getelementptr i64, ptr %handles, i64 %made
  %refused = call i32 @pthread_create(ptr %place, ptr null, ptr @worker, ptr %job)
  %fine = icmp eq i32 %refused, 0
  br i1 %fine, label %started, label %work
started:
  %after = add i64 %made, 1
  br label %create
work:
  %own = call ptr @worker(ptr %job)
  br label %collect
collect:
  %joined = phi i64 [ 0, %work ], [ %next, %join ]
  %open = icmp slt i64 %joined, %made
  br i1 %open, label %join, label %end
join:
  %at = getelementptr i64, ptr %handles, i64 %joined
  %handle = load i64, ptr %at, align 8
  %ignored = call i32 @pthread_join(i64 %handle, ptr null)
  %next = add i64 %joined, 1
  br label %collect
end:
  ret void
}}"""
