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

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from ansorpy.bundle.copied_rows import copied_rows
from ansorpy.bundle.emit import SIZE_BYTES, call, loaded, offset, pointers
from ansorpy.bundle.memory import SIZES, Copy, ModelMemory, Place
from ansorpy.bundle.plan import ModelPlan
from ansorpy.bundle.steps import CopyStep, HostedStep, KernelStep
from ansorpy.te.dims import Dim

PREFIX: Final = "ansorpy_model"
NONE: Final = "null"


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
        given = [
            NONE if place is None else offset(body, f"w{number}.{k}", "%weights", place.at)
            for k, place in enumerate(packing.reads)
        ]
        given += [NONE] * len(kernel.outputs)
        if kernel.dims:
            given.append(NONE)  # weights have no dims
        given.append(offset(body, f"p{number}", "%packed", packing.at))
        body += call(f"{kernel.library.prefix}_pack", [*given, "%scratch"], str(number), "")
    head = f"void @{prefix}_prepare(ptr %weights, ptr %packed, ptr %scratch)"
    return _function(head, body)


def _step(plan: ModelPlan, memory: ModelMemory, number: int) -> list[str]:
    """Return the function of a step: it fills in the kernel's arguments and calls it."""
    step = plan.steps[number]
    body: list[str] = []
    if isinstance(step, CopyStep):
        body = copied_rows(plan, memory, step)
    if isinstance(step, KernelStep):
        places = [memory.places[name] for name in (*step.reads, *step.writes)]
        sizes, at = plan.sizes_of(step), len(places)
        if sizes:
            places.append(Place(memory.arguments[SIZES]))
        places.append(Place(memory.arguments["packed"], memory.packed_at[number]))
        places.append(Place(memory.arguments["scratch"]))
        given = list(pointers(body, places))
        if sizes and sizes != tuple(range(len(sizes))):  # else the first sizes are the kernel's
            given[at] = _gathered(body, given[at], sizes)
        symbol = plan.by_name[step.kernel].library.prefix
        body += call(f"{symbol}_run_packed", given, "", ", ptr %pool")
    return _function(f"void @step{number}(ptr %args, ptr %pool)", body, internal=True)


def _copies(memory: ModelMemory) -> list[str]:
    body: list[str] = []
    for copy in memory.copies:
        mark = str(len(body))
        source, goal = pointers(body, [copy.source, copy.goal], mark)
        size = _size(body, memory, copy, mark)
        body.append(
            f"  call void @llvm.memcpy.p0.p0.i64(ptr {goal}, ptr {source}, i64 {size}, i1 false)"
        )
    return _function("void @copies(ptr %args, ptr %pool)", body, internal=True)


def _size(body: list[str], memory: ModelMemory, copy: Copy, mark: str) -> str:
    """Append code that computes the bytes of a copy, if a dim counts its rows; return them."""
    if copy.rows is None:
        return str(copy.size_bytes)
    (sizes,) = pointers(body, [Place(memory.arguments[SIZES])], f"{mark}.s")
    rows = loaded(body, f"rows{mark}", sizes, copy.rows)
    body.append(f"  %bytes{mark} = mul i64 {rows}, {copy.size_bytes}")
    return f"%bytes{mark}"


def _gathered(body: list[str], sizes: str, numbers: Sequence[int]) -> str:
    """Append an array of some sizes of a call, in the order of a kernel's dims; return it."""
    body.append(f"  %sizes = alloca [{len(numbers)} x i64], align {SIZE_BYTES}")
    for k, number in enumerate(numbers):
        size = loaded(body, f"n{k}", sizes, number)
        goal = offset(body, f"g{k}", "%sizes", SIZE_BYTES * k)
        body.append(f"  store i64 {size}, ptr {goal}, align {SIZE_BYTES}")
    return "%sizes"


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
