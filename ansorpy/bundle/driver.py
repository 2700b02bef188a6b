"""The native driver of a bundle, as LLVM IR: straight-line calls of the kernels.

    int32_t P_supported(void)                                  this processor runs every kernel
    void P_prepare(const void *weights, void *packed, void *scratch)       packs all weights: once
    void P_run(const P_args *, pool *)                         all steps; NULL: no pool
    void P_run_steps(const P_args *, pool *, int64_t begin, int64_t end)
    pool *P_pool_open(int32_t n), void P_pool_close(pool *)
    const int64_t P_sizes[]                                    a number of words, and `sizes_of`

`P_args` holds pointers: inputs, outputs, `const int64_t *sizes` if the model has dims, weights,
packed, arena, scratch. Steps have the numbers of
the plan; a last step copies outputs, if there are any to copy. A hosted step does nothing here,
and a model with one has no `P_run`: its caller runs the steps between.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from math import prod
from typing import Final

from ansorpy.bundle.layout import layout
from ansorpy.bundle.memory import SIZES, Copy, ModelMemory, Place
from ansorpy.bundle.plan import CopyStep, HostedStep, KernelStep, ModelPlan, Rows
from ansorpy.expr.dtypes import SIZE_BYTES as SIZE_BYTES_OF
from ansorpy.te.dims import Dim

PREFIX: Final = "ansorpy_model"
NONE: Final = "null"
SIZE_BYTES: Final = 8  # bytes of a size of a call


def driver_prefix(plan: ModelPlan, memory: ModelMemory) -> str:
    """Return the prefix of the driver's symbols: equal drivers of equal kernels have one."""
    digest = sha256(driver_text(plan, memory, PREFIX).encode())
    for kernel in plan.kernels:
        digest.update(kernel.library.object_sha256.encode())
    return f"{PREFIX}_{digest.hexdigest()[:12]}"


def driver_text(plan: ModelPlan, memory: ModelMemory, prefix: str) -> str:
    """Return the IR of the driver, without the pool; it refers to the kernels' functions."""
    used = {step.kernel for step in plan.steps if isinstance(step, KernelStep)}
    symbols = [k.library.prefix for k in plan.kernels if k.name in used]
    lines = ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    for symbol in dict.fromkeys(symbols):  # hidden: direct calls, and no symbol of the library
        lines += [
            f"declare hidden i32 @{symbol}_supported()",
            f"declare hidden void @{symbol}_pack(ptr)",
            f"declare hidden void @{symbol}_run_packed(ptr, ptr)",
        ]
    lines += _supported(prefix, list(dict.fromkeys(symbols)))
    lines += _prepare(plan, memory, prefix)
    steps = [f"step{number}" for number in range(len(plan.steps))]
    for number in range(len(plan.steps)):
        lines += _step(plan, memory, number)
    if memory.copies:
        lines += _copies(memory)
        steps.append("copies")
    lines += _run_steps(prefix, steps)
    sizes = sizes_of(plan, memory)
    sizes = [len(sizes), *sizes]
    listed = ", ".join(f"i64 {size}" for size in sizes)
    lines.append(f"@{prefix}_sizes = constant [{len(sizes)} x i64] [{listed}]")
    if not any(isinstance(step, HostedStep) for step in plan.steps):
        calls = [f"  call void @{name}(ptr %args, ptr %pool)" for name in steps]
        lines += _function(f"void @{prefix}_run(ptr %args, ptr %pool)", calls)
    return "\n".join(lines) + "\n"


def sizes_of(plan: ModelPlan, memory: ModelMemory) -> list[int]:
    """Return the bytes of weights, packed, arena, scratch, inputs, outputs; the number of steps.

    With dims, their ranges and steps follow, and for each axis of an input or output the number of
    its dim, counted from 1, or 0.
    """
    values = [*plan.inputs, *(output.value for output in plan.outputs)]
    areas = (
        memory.weights.size_bytes, memory.packed_bytes, memory.arena.size_bytes,
        memory.scratch_bytes,
    )  # fmt: skip
    steps = len(plan.steps) + bool(memory.copies)
    sizes = [*areas, *(plan.values[name].size_bytes for name in values), steps]
    for one in plan.dims:
        sizes += [one.low, one.high, one.step]
    for extent in (extent for name in values for extent in plan.values[name].fixed_shape):
        if plan.dims:
            sizes.append(1 + plan.dims.index(extent) if isinstance(extent, Dim) else 0)
    return sizes


def _function(head: str, body: Sequence[str], internal: bool = False) -> list[str]:
    linkage = "internal " if internal else ""
    return [f"define {linkage}{head} nounwind {{", "entry:", *body, "  ret void", "}"]


def _supported(prefix: str, symbols: Sequence[str]) -> list[str]:
    """Return a function that asks every kernel, those for AMX registers among them."""
    lines = [f"define i32 @{prefix}_supported() nounwind {{", "entry:"]
    total = "1"
    for number, symbol in enumerate(symbols):
        lines.append(f"  %s{number} = call i32 @{symbol}_supported()")
        lines.append(f"  %t{number} = and i32 {total}, %s{number}")
        total = f"%t{number}"
    return [*lines, f"  ret i32 {total}", "}"]


def _prepare(plan: ModelPlan, memory: ModelMemory, prefix: str) -> list[str]:
    """Return the function that packs weights; other arguments of a kernel are NULL."""
    body: list[str] = []
    for number, packing in enumerate(memory.packings):
        kernel = plan.by_name[packing.kernel]
        pointers = [
            NONE if place is None else _offset(body, f"w{number}.{k}", "%weights", place.at)
            for k, place in enumerate(packing.reads)
        ]
        pointers += [NONE] * len(kernel.outputs)
        if kernel.dims:
            pointers.append(NONE)  # weights have no dims
        pointers.append(_offset(body, f"p{number}", "%packed", packing.at))
        body += _call(f"{kernel.library.prefix}_pack", [*pointers, "%scratch"], str(number), "")
    head = f"void @{prefix}_prepare(ptr %weights, ptr %packed, ptr %scratch)"
    return _function(head, body)


def _step(plan: ModelPlan, memory: ModelMemory, number: int) -> list[str]:
    """Return the function of a step: it fills in the kernel's arguments and calls it."""
    step = plan.steps[number]
    body: list[str] = []
    if isinstance(step, CopyStep):
        body = _rows(plan, memory, step)
    if isinstance(step, KernelStep):
        places = [memory.places[name] for name in (*step.reads, *step.writes)]
        sizes, at = plan.sizes_of(step), len(places)
        if sizes:
            places.append(Place(memory.arguments[SIZES]))
        places.append(Place(memory.arguments["packed"], memory.packed_at[number]))
        places.append(Place(memory.arguments["scratch"]))
        pointers = list(_pointers(body, places))
        if sizes and sizes != tuple(range(len(sizes))):  # else the first sizes are the kernel's
            pointers[at] = _gathered(body, pointers[at], sizes)
        symbol = plan.by_name[step.kernel].library.prefix
        body += _call(f"{symbol}_run_packed", pointers, "", ", ptr %pool")
    return _function(f"void @step{number}(ptr %args, ptr %pool)", body, internal=True)


def _rows(plan: ModelPlan, memory: ModelMemory, step: CopyStep) -> list[str]:
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
    row_bytes = prod(shapes[1][axis + 1 :]) * SIZE_BYTES_OF[plan.values[names[1]].dtype]
    pitches = [shape[axis] * row_bytes for shape in shapes]
    places = [memory.places[name] for name in names]
    source, goal = _pointers(body, places, f"{mark}.p")
    (sizes,) = _pointers(body, [Place(memory.arguments[SIZES])], f"{mark}.s")

    def number_of(extent: int, name: str) -> str:
        if not isinstance(extent, Dim):
            return str(int(extent))
        return _loaded(body, f"{name}{mark}", sizes, plan.dims.index(extent))

    count = number_of(rows.count, "count")
    body.append(f"  %bytes{mark} = mul i64 {count}, {row_bytes}")
    for kind, first in (("from", rows.start), ("to", rows.goal)):
        body.append(f"  %{kind}{mark} = mul i64 {number_of(first, f'{kind}.rows')}, {row_bytes}")
    outer = layout(shapes[1][:axis])
    times = "1"
    if outer:  # the first axis counts what a call has; inner ones are copied as they lie
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


def _copies(memory: ModelMemory) -> list[str]:
    body: list[str] = []
    for copy in memory.copies:
        mark = str(len(body))
        source, goal = _pointers(body, [copy.source, copy.goal], mark)
        size = _size(body, memory, copy, mark)
        body.append(
            f"  call void @llvm.memcpy.p0.p0.i64(ptr {goal}, ptr {source}, i64 {size}, i1 false)"
        )
    return _function("void @copies(ptr %args, ptr %pool)", body, internal=True)


def _size(body: list[str], memory: ModelMemory, copy: Copy, mark: str) -> str:
    """Append code that computes the bytes of a copy, if a dim counts its rows; return them."""
    if copy.rows is None:
        return str(copy.size_bytes)
    (sizes,) = _pointers(body, [Place(memory.arguments[SIZES])], f"{mark}.s")
    rows = _loaded(body, f"rows{mark}", sizes, copy.rows)
    body.append(f"  %bytes{mark} = mul i64 {rows}, {copy.size_bytes}")
    return f"%bytes{mark}"


def _gathered(body: list[str], sizes: str, numbers: Sequence[int]) -> str:
    """Append an array of some sizes of a call, in the order of a kernel's dims; return it."""
    body.append(f"  %sizes = alloca [{len(numbers)} x i64], align {SIZE_BYTES}")
    for k, number in enumerate(numbers):
        size = _loaded(body, f"n{k}", sizes, number)
        goal = _offset(body, f"g{k}", "%sizes", SIZE_BYTES * k)
        body.append(f"  store i64 {size}, ptr {goal}, align {SIZE_BYTES}")
    return "%sizes"


def _loaded(body: list[str], name: str, sizes: str, number: int) -> str:
    """Append a load of a size of a call; return it."""
    place = _offset(body, f"{name}.at", sizes, SIZE_BYTES * number)
    body.append(f"  %{name} = load i64, ptr {place}, align {SIZE_BYTES}")
    return f"%{name}"


def _run_steps(prefix: str, steps: Sequence[str]) -> list[str]:
    table = ", ".join(f"ptr @{name}" for name in steps)
    return [
        f"@steps = internal constant [{len(steps)} x ptr] [{table}]",
        f"define void @{prefix}_run_steps(ptr %args, ptr %pool, i64 %begin, i64 %end) nounwind {{",
        "entry:",
        "  br label %look",
        "look:",
        "  %number = phi i64 [ %begin, %entry ], [ %next, %call ]",
        "  %more = icmp slt i64 %number, %end",
        "  br i1 %more, label %call, label %out",
        "call:",
        "  %place = getelementptr ptr, ptr @steps, i64 %number",
        "  %step = load ptr, ptr %place, align 8",
        "  call void %step(ptr %args, ptr %pool)",
        "  %next = add i64 %number, 1",
        "  br label %look",
        "out:",
        "  ret void",
        "}",
    ]


def _pointers(body: list[str], places: Sequence[Place], mark: str = "") -> Iterator[str]:
    """Append code that computes the addresses of places; yield their names."""
    bases: dict[int, str] = {}
    for number, place in enumerate(places):
        base = bases.get(place.argument)
        if base is None:
            base = bases[place.argument] = f"%b{mark}.{place.argument}"
            slot = f"%q{mark}.{place.argument}"
            body.append(f"  {slot} = getelementptr ptr, ptr %args, i64 {place.argument}")
            body.append(f"  {base} = load ptr, ptr {slot}, align 8")
        yield _offset(body, f"a{mark}.{number}", base, place.at)


def _offset(body: list[str], name: str, base: str, at: int) -> str:
    """Append the address `at` bytes behind a base; return its name."""
    if not at:
        return base
    body.append(f"  %{name} = getelementptr i8, ptr {base}, i64 {at}")
    return f"%{name}"


def _call(symbol: str, pointers: Sequence[str], mark: str, more: str) -> list[str]:
    """Return a call of a kernel's function on an array of pointers."""
    lines = [f"  %call{mark} = alloca [{len(pointers)} x ptr], align 16"]
    for number, pointer in enumerate(pointers):
        slot = f"%t{mark}.{number}"
        lines.append(f"  {slot} = getelementptr ptr, ptr %call{mark}, i64 {number}")
        lines.append(f"  store ptr {pointer}, ptr {slot}, align 8")
    return [*lines, f"  call void @{symbol}(ptr %call{mark}{more})"]
