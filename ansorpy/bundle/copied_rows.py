"""The LLVM IR of a step that copies rows, whose numbers a call decides."""

from collections.abc import Sequence
from math import prod

from ansorpy.bundle.emit import loaded, pointers
from ansorpy.bundle.layout import layout
from ansorpy.bundle.memory import SIZES, ModelMemory, Place
from ansorpy.bundle.plan import ModelPlan
from ansorpy.bundle.steps import CopyStep, Rows
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.te.dims import Dim


def copied_rows(plan: ModelPlan, memory: ModelMemory, step: CopyStep) -> list[str]:
    """Return the code of a step that copies rows; outer axes are a loop."""
    body: list[str] = []
    before = "entry"
    for number, rows in enumerate(step.rows):
        names = step.reads[rows.read], step.writes[0]
        before = _run_of_rows(plan, memory, step.axis, rows, names, body, f"{number}", before)
    return body


def _run_of_rows(
    plan: ModelPlan,
    memory: ModelMemory,
    axis: int,
    rows: Rows,
    names: tuple[str, str],
    body: list[str],
    mark: str,
    before: str,
) -> str:
    """Append a loop that copies a run of rows between two values; return its last block."""
    shapes = [plan.values[name].fixed_shape for name in names]
    row_bytes = prod(shapes[1][axis + 1 :]) * SIZE_BYTES[plan.values[names[1]].dtype]
    pitches = [shape[axis] * row_bytes for shape in shapes]
    places = [memory.places[name] for name in names]
    source, goal = pointers(body, places, f"{mark}.p")
    (sizes,) = pointers(body, [Place(memory.arguments[SIZES])], f"{mark}.s")

    def number_of(extent: int, name: str) -> str:
        if not isinstance(extent, Dim):
            return str(int(extent))
        return loaded(body, f"{name}{mark}", sizes, plan.dims.index(extent))

    count = number_of(rows.count, "count")
    body.append(f"  %bytes{mark} = mul i64 {count}, {row_bytes}")
    for kind, first in (("from", rows.start), ("to", rows.goal)):
        body.append(f"  %{kind}{mark} = mul i64 {number_of(first, f'{kind}.rows')}, {row_bytes}")
    outer = layout(shapes[1][:axis])
    times = "1"
    if outer:  # inner axes are copied whole
        each = prod(outer[1:])
        body.append(f"  %times{mark} = mul i64 {number_of(outer[0], 'outer')}, {each}")
        times = f"%times{mark}"
    if not isinstance(rows.start, Dim) and rows.start == 0 and rows.goal == 0:
        body.append(f"  %same{mark} = icmp eq ptr {source}, {goal}")
        body.append(f"  br i1 %same{mark}, label %done{mark}, label %begin{mark}")
        body.append(f"begin{mark}:")
        before = f"begin{mark}"
    return _loop_of_rows(body, mark, before, times, pitches, (source, goal))


def _loop_of_rows(
    body: list[str],
    mark: str,
    before: str,
    times: str,
    pitches: Sequence[int],
    pointers: tuple[str, str],
) -> str:
    """Append the loop of `_run_of_rows`; return its last block."""
    body += [f"  br label %copy{mark}", f"copy{mark}:"]
    body.append(f"  %i{mark} = phi i64 [ 0, %{before} ], [ %next{mark}, %copy{mark} ]")
    ends = []
    for kind, pitch, pointer in zip(("from", "to"), pitches, pointers, strict=True):
        body.append(f"  %{kind}.o{mark} = mul i64 %i{mark}, {pitch}")
        body.append(f"  %{kind}.at{mark} = add i64 %{kind}.o{mark}, %{kind}{mark}")
        body.append(f"  %{kind}.e{mark} = getelementptr i8, ptr {pointer}, i64 %{kind}.at{mark}")
        ends.append(f"%{kind}.e{mark}")
    body += [
        f"  call void @llvm.memcpy.p0.p0.i64(ptr {ends[1]}, ptr {ends[0]}, i64 %bytes{mark},"
        " i1 false)",
        f"  %next{mark} = add i64 %i{mark}, 1",
        f"  %more{mark} = icmp slt i64 %next{mark}, {times}",
        f"  br i1 %more{mark}, label %copy{mark}, label %done{mark}",
        f"done{mark}:",
    ]
    return f"done{mark}"
