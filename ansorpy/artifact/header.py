"""The text of `kernel.h`: how C calls an exported kernel."""

from collections.abc import Mapping, Sequence
from typing import Final

from ansorpy.artifact.kernel_file import dims_by_tensor
from ansorpy.codegen.exported_types import Library
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.te.dag import Dag
from ansorpy.te.dims import dims_of

C_TYPES: Final = {
    "bool": "uint8_t", "int8": "int8_t", "uint8": "uint8_t",
    "int16": "int16_t", "uint16": "uint16_t",
    "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t",
    "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double",
}  # fmt: skip
SIZED: Final = """

   `sizes` has the size of every dim, in order; a size outside of its range is undefined behaviour.
   Tensors have the pitches of the largest sizes, and only elements below the sizes are touched.
   kernel_ahead and kernel_pack read no sizes. kernel_phases has the tasks of the largest sizes;
   those that a call does not have return at once."""
SHORT: Final = (
    "args", "packed_args", "phase", "supported", "ahead", "run", "run_threads", "pack",
    "run_packed", "pool_open", "pool_close", "phases",
)  # fmt: skip
POOL_TYPE: Final = """\
/* A running pool of threads; `run` returns after it has run all tasks. */
#ifndef ANSORPY_POOL
#define ANSORPY_POOL
typedef struct ansorpy_pool ansorpy_pool;
struct ansorpy_pool {
    void (*run)(ansorpy_pool *pool, void (*task)(void *context, int64_t index), void *context,
                int64_t tasks);
};
#endif
"""


def header_text(dag: Dag, library: Library) -> str:
    """Return the header; symbols come from positions and a digest, names of users are comments."""
    p = library.prefix
    guard = f"{p.upper()}_H"
    tensors = [b for b in library.buffers if b.scope in (Scope.INPUT, Scope.OUTPUT)]
    dims = dims_of(dag)
    sizes, sized = ("sizes, ", SIZED) if dims else ("", "")
    weights = {node.name for node in dag.placeholders if node.constant}
    tasks = ", ".join(str(phase.tasks) for phase in library.phases)
    fields = _fields(tensors, weights, dims_by_tensor(dag))
    if dims:
        fields += f"\n    const int64_t *sizes; /* {', '.join(map(str, dims))} */"
    short = "\n".join(f"#define kernel_{name} {p}_{name}" for name in SHORT)
    return f"""\
/* {dag.name}: a kernel made by ansorpy. C99, C++.

   kernel_args args = {{ ... , {sizes}workspace }};
   if (!kernel_supported()) ...                  once: this processor cannot run it
   kernel_ahead(&args);                          once, and after weights changed
   kernel_run(&args);                            as often as you like

   Tensors are row-major and aligned as their elements (to 64 bytes they are fastest); nothing
   beside them is touched. `workspace`, aligned to 64 bytes, has KERNEL_WORKSPACE_BYTES bytes
   (0: NULL will do), holds what kernel_ahead left, and belongs to one call at a time. Nothing is
   allocated, nothing fails.{sized}

   Threads: kernel_run uses yours; kernel_run_threads starts up to n - 1 more (pthreads) and ends
   them. With a pool of your own, for every phase in order: run kernel_phases[k].task for tasks
   0 .. kernel_phases[k].tasks - 1 anyhow and anywhere, each once (up to 1 MiB of stack each), then
   wait for all of them.

   Several kernels: a workspace is packed weights (KERNEL_PACKED_BYTES) with scratch behind them
   (KERNEL_SCRATCH_BYTES), and kernel_packed_args has the two apart, both aligned to 64 bytes:

   ansorpy_pool *pool = kernel_pool_open(4);     3 threads beside the caller; any kernel may use it
   kernel_packed_args args = {{ ... , {sizes}packed, scratch }};
   kernel_pack(&args);                           once, and after weights changed: fills `packed`
   kernel_run_packed(&args, pool);               as often as you like; NULL: no pool
   kernel_pool_close(pool);                      after the last call

   `packed` is only read by kernel_run_packed. `scratch` is free for others between calls, and
   belongs to one call at a time. If two threads call with one pool, the call that finds it busy
   runs on its caller's thread. A process forked from yours has to open a pool of its own.

   Two headers in one file: define ANSORPY_LONG_NAMES, and use the names with the prefix. */
#ifndef {guard}
#define {guard}
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {{
{fields}
    void *workspace;
}} {p}_args;

typedef struct {{
{fields}
    void *packed, *scratch;
}} {p}_packed_args;

{POOL_TYPE}
typedef struct {{
    void (*task)(const {p}_args *args, int64_t task);
    int64_t tasks;
}} {p}_phase;

#define {p.upper()}_WORKSPACE_BYTES {library.workspace_bytes}
#define {p.upper()}_PACKED_BYTES {library.packed_bytes}
#define {p.upper()}_SCRATCH_BYTES {library.scratch_bytes}
#define {p.upper()}_PHASES {len(library.phases)} /* tasks: {tasks} */

/* Whether this processor has: {wrapped(library.features)}. */
int32_t {p}_supported(void);
void {p}_ahead(const {p}_args *args);
void {p}_run(const {p}_args *args);
void {p}_run_threads(const {p}_args *args, int32_t threads);
void {p}_pack(const {p}_packed_args *args);
void {p}_run_packed(const {p}_packed_args *args, ansorpy_pool *pool);
ansorpy_pool *{p}_pool_open(int32_t threads);
void {p}_pool_close(ansorpy_pool *pool);
extern const {p}_phase {p}_phases[{max(1, len(library.phases))}];

#ifndef ANSORPY_LONG_NAMES
{short}
#define KERNEL_WORKSPACE_BYTES {p.upper()}_WORKSPACE_BYTES
#define KERNEL_PACKED_BYTES {p.upper()}_PACKED_BYTES
#define KERNEL_SCRATCH_BYTES {p.upper()}_SCRATCH_BYTES
#define KERNEL_PHASES {p.upper()}_PHASES
#endif

#ifdef __cplusplus
}}
#endif
#endif
"""


def _fields(tensors: Sequence[Buffer], weights: set[str], dims: Mapping[str, Sequence[str]]) -> str:
    lines, counts = [], {"in": 0, "out": 0}
    for tensor in tensors:
        side = "in" if tensor.scope is Scope.INPUT else "out"
        const = "const " if side == "in" else ""
        names = dims.get(tensor.name, [""] * len(tensor.extents))
        shape = "".join(
            f"[{name} <= {n}]" if name else f"[{n}]"
            for name, n in zip(names, tensor.extents, strict=True)
        )
        note = f"{tensor.name}: {tensor.dtype}{shape}"
        note += ", a weight: kernel_ahead reads it too" if tensor.name in weights else ""
        lines.append(f"    {const}{C_TYPES[tensor.dtype]} *{side}{counts[side]}; /* {note} */")
        counts[side] += 1
    return "\n".join(lines)


def wrapped(features: Sequence[str]) -> str:
    """Return names for a comment of C, in lines."""
    lines, line = [], ""
    for name in features or ("nothing special",):
        if len(line) + len(name) > 78:
            lines.append(line)
            line = ""
        line += f"{name}, "
    return "\n   ".join(part.rstrip() for part in (*lines, line)).rstrip(",")
