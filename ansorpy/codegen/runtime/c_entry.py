"""The public functions of an exported kernel, as LLVM IR around its phases.

    void P_ahead(const P_args *)                        the phases that read weights only: once
    void P_run(const P_args *)                          all other phases, on this thread
    void P_run_threads(const P_args *, int32_t n)       the same on at most n threads of its own
    void P_pack(const P_packed_args *)                  as P_ahead, into memory for packed weights
    void P_run_packed(const P_packed_args *, pool *)    as P_run, on a running pool (NULL: none)
    pool *P_pool_open(int32_t n), void P_pool_close(pool *)
    void P_taskK(const P_args *, int64_t task)          one independent task of the K-th timed phase
    const P_phase P_phases[]                            those functions with their numbers of tasks

Both structs of arguments hold pointers: inputs and outputs, with dims their sizes (an int64 for
each, in order), then for `P_args` the workspace, for `P_packed_args` the packed weights and the
scratch. A workspace is the packed weights with the scratch behind them. Constant tensors are part
of the library. `P_ahead` and `P_pack` read no sizes. `P_phases` has the tasks of the largest
sizes; `P_taskK` returns at once from those that a call does not have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.runtime.native_text import LOOP_TEXT, serial_text
from ansorpy.codegen.runtime.phase_loop import PhaseLoop, ahead_loop, timed_loop
from ansorpy.codegen.runtime.pool_text import POOL_BYTES, pool_text

ALIGN_BYTES: Final = 64
SUFFIXES: Final = (
    "ahead", "run", "run_threads", "pack", "run_packed", "pool_open", "pool_close",
)  # fmt: skip


class Area(Enum):
    """The memory that a buffer of the program lies in."""

    ARGUMENT = "argument"
    PACKED = "packed"
    SCRATCH = "scratch"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a buffer: its argument's number, or bytes from the start of its area.

    `data`: the bytes of a constant.
    """

    area: Area
    at: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Addressing:
    """The locations of a program's buffers, in order, and the sizes of the caller's memory."""

    locations: tuple[Location, ...]
    arguments: int  # inputs, outputs, and the sizes of dims
    packed_bytes: int  # a multiple of ALIGN_BYTES, so that the scratch of a workspace is aligned
    scratch_bytes: int


def entry_text(
    prefix: str, addressing: Addressing, phases: Sequence[PhaseInfo], triple: str
) -> str:
    """Return the IR of the public functions, which call the functions of the phases.

    Args:
        triple: LLVM's name of the machine.
    """
    timed, ahead = timed_loop(phases), ahead_loop(phases)
    parts = [_constants(addressing), _fill(addressing), LOOP_TEXT, pool_text(triple)]
    parts += [_rows(timed), serial_text(timed), serial_text(ahead)]
    parts += [_entry(f"{prefix}_{loop.name}", "", addressing, loop) for loop in (timed, ahead)]
    parts.append(_entry(f"{prefix}_pack", "", addressing, ahead, apart=True))
    parts.append(_entry(f"{prefix}_run_packed", ", ptr %pool", addressing, timed, apart=True))
    parts += [_run_threads(prefix, addressing, timed), pool_entries(prefix)]
    parts += [_task(prefix, k, info, addressing) for k, info in enumerate(timed.phases)]
    public = [(f"{prefix}_task{k}", info.tasks) for k, info in enumerate(timed.phases)]
    parts.append(f"@{prefix}_phases = constant {_table(public)}")
    return "\n".join(parts)


def _table(rows: Sequence[tuple[str, int]]) -> str:
    """Return an array of {function, tasks}."""
    items = ", ".join(f"{{ ptr, i64 }} {{ ptr @{name}, i64 {tasks} }}" for name, tasks in rows)
    return f"[{len(rows)} x {{ ptr, i64 }}] [{items}]"


def _rows(loop: PhaseLoop) -> str:
    """Return the table of the rows of `run_phases`, or the function that makes it for a call."""
    if loop.sized:
        return _counter(loop)
    rows = [(info.name, info.tasks) for info in loop.phases]
    return f"@rows_{loop.name} = internal constant {_table(rows)}"


def _counter(loop: PhaseLoop) -> str:
    """Return `count_NAME(buffers, rows)`: it fills the rows, and returns their most tasks."""
    lines = [f"define internal i64 @count_{loop.name}(ptr %buffers, ptr %rows) nounwind {{"]
    most = "0"
    for k, info in enumerate(loop.phases):
        tasks = str(info.tasks)
        if info.sized:
            tasks = f"%tasks{k}"
            lines.append(f"  {tasks} = call i64 @{info.counter}(ptr %buffers)")
        lines += [
            f"  %row{k} = getelementptr {{ ptr, i64 }}, ptr %rows, i64 {k}",
            f"  store ptr @{info.name}, ptr %row{k}, align 8",
            f"  %place{k} = getelementptr i64, ptr %row{k}, i64 1",
            f"  store i64 {tasks}, ptr %place{k}, align 8",
            f"  %more{k} = icmp sgt i64 {tasks}, {most}",
            f"  %most{k} = select i1 %more{k}, i64 {tasks}, i64 {most}",
        ]
        most = f"%most{k}"
    return "\n".join([*lines, f"  ret i64 {most}", "}"])


def _counted(loop: PhaseLoop) -> str:
    """Return the lines that make the rows of a call; none if the table is a constant."""
    if not loop.sized:
        return ""
    return f"""
  %rows = alloca [{len(loop.phases)} x {{ ptr, i64 }}], align 8
  %most = call i64 @count_{loop.name}(ptr %buffers, ptr %rows)"""


def _constants(addressing: Addressing) -> str:
    lines = []
    for k, location in enumerate(addressing.locations):
        if location.area is Area.CONSTANT:
            text = location.data.hex("\\")
            size = len(location.data)
            lines.append(
                f'@constant{k} = internal constant [{size} x i8] c"\\{text}", align {ALIGN_BYTES}'
            )
    return "\n".join(lines)


def _fill(addressing: Addressing) -> str:
    """Return `fill(args, packed, scratch, buffers)`: the buffers' addresses in the phases' order.

    Also `fill_workspace(args, buffers)` and `fill_packed(args, buffers)` for the two structs.
    """
    lines = [
        "define internal void @fill(ptr %args, ptr %packed, ptr %scratch, ptr %buffers) nounwind {"
    ]
    for k, location in enumerate(addressing.locations):
        match location.area:
            case Area.CONSTANT:
                address = f"@constant{k}"
            case Area.ARGUMENT:
                address = f"%a{k}"
                lines.append(f"  %p{k} = getelementptr ptr, ptr %args, i64 {location.at}")
                lines.append(f"  {address} = load ptr, ptr %p{k}, align 8")
            case Area.PACKED | Area.SCRATCH:
                address, base = f"%a{k}", f"%{location.area.value}"
                lines.append(f"  {address} = getelementptr i8, ptr {base}, i64 {location.at}")
        lines.append(f"  %t{k} = getelementptr ptr, ptr %buffers, i64 {k}")
        lines.append(f"  store ptr {address}, ptr %t{k}, align 8")
    first = addressing.arguments
    return "\n".join([*lines, "  ret void", "}", f"""
define internal void @fill_workspace(ptr %args, ptr %buffers) nounwind {{
  %p = getelementptr ptr, ptr %args, i64 {first}
  %packed = load ptr, ptr %p, align 8
  %scratch = getelementptr i8, ptr %packed, i64 {addressing.packed_bytes}
  call void @fill(ptr %args, ptr %packed, ptr %scratch, ptr %buffers)
  ret void
}}

define internal void @fill_packed(ptr %args, ptr %buffers) nounwind {{
  %p0 = getelementptr ptr, ptr %args, i64 {first}
  %packed = load ptr, ptr %p0, align 8
  %p1 = getelementptr ptr, ptr %args, i64 {first + 1}
  %scratch = load ptr, ptr %p1, align 8
  call void @fill(ptr %args, ptr %packed, ptr %scratch, ptr %buffers)
  ret void
}}"""])  # fmt: skip


def _entry(
    name: str, more: str, addressing: Addressing, loop: PhaseLoop, apart: bool = False
) -> str:
    """Return a public function of one phase loop.

    Args:
        more: a further parameter, the pool.
        apart: the struct of arguments has packed weights apart from scratch.
    """
    fill = "fill_packed" if apart else "fill_workspace"
    call = _on_pool(loop) if more else _serially(loop)
    counted = _counted(loop) if more else ""
    return f"""define void @{name}(ptr %args{more}) nounwind {{
entry:
  %buffers = alloca [{len(addressing.locations)} x ptr], align 8
  call void @{fill}(ptr %args, ptr %buffers){counted}
  {call}
  ret void
}}"""


def _serially(loop: PhaseLoop) -> str:
    return f"call void @serial_{loop.name}(ptr %buffers)"


def _on_pool(loop: PhaseLoop) -> str:
    rows, count = "%rows" if loop.sized else f"@rows_{loop.name}", len(loop.phases)
    return f"call void @run_phases(ptr {rows}, i64 {count}, ptr %buffers, ptr %pool)"


def _run_threads(prefix: str, addressing: Addressing, loop: PhaseLoop) -> str:
    """Return the function that has a pool for one call, of no more threads than have tasks."""
    most = "%most" if loop.sized else loop.most_threads
    return f"""define void @{prefix}_run_threads(ptr %args, i32 %threads) nounwind {{
entry:
  %buffers = alloca [{len(addressing.locations)} x ptr], align 8
  %pool = alloca [{POOL_BYTES} x i8], align {ALIGN_BYTES}
  call void @fill_workspace(ptr %args, ptr %buffers){_counted(loop)}
  %wide = sext i32 %threads to i64
  %few = icmp slt i64 %wide, {most}
  %used = select i1 %few, i64 %wide, i64 {most}
  %alone = icmp slt i64 %used, 2
  br i1 %alone, label %serial, label %parallel
serial:
  {_serially(loop)}
  ret void
parallel:
  %helped = trunc i64 %used to i32
  call void @pool_start(ptr %pool, i32 %helped)
  {_on_pool(loop)}
  call void @pool_stop(ptr %pool)
  ret void
}}"""


def pool_entries(prefix: str) -> str:
    """Return the IR of `pool *P_pool_open(int32_t n)` and `void P_pool_close(pool *)`."""
    return f"""declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define ptr @{prefix}_pool_open(i32 %threads) nounwind {{
entry:
  %pool = call ptr @aligned_alloc(i64 {ALIGN_BYTES}, i64 {POOL_BYTES})
  %none = icmp eq ptr %pool, null
  br i1 %none, label %out, label %start
start:
  call void @pool_start(ptr %pool, i32 %threads)
  br label %out
out:
  ret ptr %pool
}}

define void @{prefix}_pool_close(ptr %pool) nounwind {{
entry:
  %none = icmp eq ptr %pool, null
  br i1 %none, label %out, label %stop
stop:
  call void @pool_stop(ptr %pool)
  call void @free(ptr %pool)
  br label %out
out:
  ret void
}}"""


def _task(prefix: str, number: int, info: PhaseInfo, addressing: Addressing) -> str:
    call = f"  call void @{info.name}(ptr %buffers, i64 %task)"
    if info.sized:
        call = f"""  %tasks = call i64 @{info.counter}(ptr %buffers)
  %mine = icmp slt i64 %task, %tasks
  br i1 %mine, label %run, label %out
run:
{call}
  br label %out
out:"""
    return f"""define void @{prefix}_task{number}(ptr %args, i64 %task) nounwind {{
entry:
  %buffers = alloca [{len(addressing.locations)} x ptr], align 8
  call void @fill_workspace(ptr %args, ptr %buffers)
{call}
  ret void
}}"""
