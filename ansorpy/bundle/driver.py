"""The native driver of a bundle, as LLVM IR: straight-line calls of the kernels.

    int32_t P_supported(void)                                  this processor runs every kernel
    void P_prepare(const void *weights, void *packed, void *scratch)       packs all weights: once
    void P_run(const P_args *, pool *)                         all steps; NULL: no pool
    void P_run_steps(const P_args *, pool *, int64_t begin, int64_t end)
    pool *P_pool_open(int32_t n), void P_pool_close(pool *)
    const int64_t P_sizes[]                                    a number of words, and `sizes_of`

`P_args` holds pointers: inputs, outputs, weights, packed, arena, scratch. Steps have the numbers of
the plan; a last step copies outputs, if there are any to copy. A hosted step does nothing here,
and a model with one has no `P_run`: its caller runs the steps between.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from ansorpy.bundle.memory import ModelMemory, Place
from ansorpy.bundle.plan import HostedStep, KernelStep, ModelPlan

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
    """Return the bytes of weights, packed, arena, scratch, inputs, outputs; the number of steps."""
    values = [*plan.inputs, *(output.value for output in plan.outputs)]
    areas = (
        memory.weights.size_bytes, memory.packed_bytes, memory.arena.size_bytes,
        memory.scratch_bytes,
    )  # fmt: skip
    steps = len(plan.steps) + bool(memory.copies)
    return [*areas, *(plan.values[name].size_bytes for name in values), steps]


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
        pointers.append(_offset(body, f"p{number}", "%packed", packing.at))
        body += _call(f"{kernel.library.prefix}_pack", [*pointers, "%scratch"], str(number), "")
    head = f"void @{prefix}_prepare(ptr %weights, ptr %packed, ptr %scratch)"
    return _function(head, body)


def _step(plan: ModelPlan, memory: ModelMemory, number: int) -> list[str]:
    """Return the function of a step: it fills in the kernel's arguments and calls it."""
    step = plan.steps[number]
    body: list[str] = []
    if isinstance(step, KernelStep):
        places = [memory.places[name] for name in (*step.reads, *step.writes)]
        places.append(Place(memory.arguments["packed"], memory.packed_at[number]))
        places.append(Place(memory.arguments["scratch"]))
        pointers = list(_pointers(body, places))
        symbol = plan.by_name[step.kernel].library.prefix
        body += _call(f"{symbol}_run_packed", pointers, "", ", ptr %pool")
    return _function(f"void @step{number}(ptr %args, ptr %pool)", body, internal=True)


def _copies(memory: ModelMemory) -> list[str]:
    body: list[str] = []
    for copy in memory.copies:
        source, goal = _pointers(body, [copy.source, copy.goal], str(len(body)))
        body.append(
            "  call void @llvm.memcpy.p0.p0.i64("
            f"ptr {goal}, ptr {source}, i64 {copy.size_bytes}, i1 false)"
        )
    return _function("void @copies(ptr %args, ptr %pool)", body, internal=True)


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
