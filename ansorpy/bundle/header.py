"""The text of `model.h`: the functions of a bundle's library for C."""

import re
from typing import Final

from ansorpy.artifact.header import C_TYPES, POOL_TYPE, wrapped
from ansorpy.bundle.driver import sizes_of
from ansorpy.bundle.memory import ModelMemory
from ansorpy.bundle.plan import ModelPlan
from ansorpy.bundle.steps import HostedStep

SHORT: Final = ("args", "supported", "prepare", "run", "run_steps", "pool_open", "pool_close")
SIZES: Final = ("WEIGHTS_BYTES", "PACKED_BYTES", "ARENA_BYTES", "SCRATCH_BYTES", "STEPS")
_ODD: Final = re.compile(r"[^A-Za-z0-9_.:,/ -]")  # neither ends a comment nor continues a line
LONGEST: Final = 60  # characters of a name in a comment


def model_header(plan: ModelPlan, memory: ModelMemory, prefix: str) -> str:
    """Return the header; symbols come from a digest, names of users are comments."""
    p, upper = prefix, prefix.upper()
    hosted = [k for k, step in enumerate(plan.steps) if isinstance(step, HostedStep)]
    features = sorted({name for kernel in plan.kernels for name in kernel.library.features})
    *areas, count = sizes_of(plan, memory)
    sizes = (*areas[:4], count)
    defined = "\n".join(
        f"#define {upper}_{n} {value}" for n, value in zip(SIZES, sizes, strict=True)
    )
    short = [name for name in SHORT if not (hosted and name == "run")]
    names = "\n".join(
        [f"#define model_{name} {p}_{name}" for name in short]
        + [f"#define MODEL_{name} {upper}_{name}" for name in SIZES]
    )
    taken = f"const {p}_args *args, ansorpy_pool *pool"
    run = "" if hosted else f"void {p}_run({taken});\n"
    return f"""\
/* {_plain(plan.name)}: a model made by ansorpy. C99, C++.

   model_args args = {{ ... , weights, packed, arena, scratch }};
   if (!model_supported()) ...                    once: this processor cannot run it
   model_prepare(weights, packed, scratch);       once: packs all weights
   ansorpy_pool *pool = model_pool_open(2);       one thread beside the caller; NULL: no pool
{_usage(hosted)}   model_pool_close(pool);                        after the last call

   Tensors are row-major and aligned as their elements; nothing beside them is touched. `weights`
   is the whole file weights.safetensors, mapped or read. It and the other areas are aligned to 64
   bytes and have MODEL_WEIGHTS_BYTES, MODEL_PACKED_BYTES, MODEL_ARENA_BYTES, MODEL_SCRATCH_BYTES
   (0: NULL will do). Calls only read `weights` and `packed`, so that threads share them; `arena`
   and `scratch` belong to one call at a time. Nothing is allocated, nothing fails. A process
   forked from yours has to open a pool of its own.
{_layout(plan)}
   Two headers in one file: define ANSORPY_LONG_NAMES, and use the names with the prefix. */
#ifndef {upper}_H
#define {upper}_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {{
{_fields(plan)}{_sizes(plan)}
    const void *weights;
    void *packed, *arena, *scratch;
}} {p}_args;

{POOL_TYPE}
{defined}

/* Whether this processor has: {wrapped(features)}. */
int32_t {p}_supported(void);
void {p}_prepare(const void *weights, void *packed, void *scratch);
{run}void {p}_run_steps({taken}, int64_t begin, int64_t end);
ansorpy_pool *{p}_pool_open(int32_t threads);
void {p}_pool_close(ansorpy_pool *pool);

#ifndef ANSORPY_LONG_NAMES
{names}
#endif

#ifdef __cplusplus
}}
#endif
#endif
"""


def _usage(hosted: list[int]) -> str:
    if not hosted:
        return "   model_run(&args, pool);                        as often as you like\n"
    listed = ", ".join(map(str, hosted))
    return (
        "   model_run_steps(&args, pool, begin, end);      of MODEL_STEPS steps, in order\n\n"
        f"   Steps {listed} are hosted: NumPy functions of hosted.py, for you to compute between\n"
        "   the others; model.json has the places of their values.\n\n"
    )


def _layout(plan: ModelPlan) -> str:
    """Return the layout of tensors with dims, as lines of the comment."""
    if not plan.dims:
        return ""
    return """
   Each call decides the sizes of dims: `sizes` has a word for each. A tensor lies as one of the
   largest sizes, so that strides are constant; a call touches the elements of its sizes only. A
   tensor whose only dim is its first axis needs no memory behind the rows of the call.
"""


def _sizes(plan: ModelPlan) -> str:
    if not plan.dims:
        return ""
    return f"\n    const int64_t *sizes; /* {', '.join(map(repr, plan.dims))} */"


def _fields(plan: ModelPlan) -> str:
    given = [("const ", f"in{k}", name, name) for k, name in enumerate(plan.inputs)]
    made = [("", f"out{k}", out.name, out.value) for k, out in enumerate(plan.outputs)]
    lines = []
    for const, field, name, value in (*given, *made):
        info = plan.values[value]
        shape = "".join(f"[{extent}]" for extent in info.fixed_shape)
        note = f"{_plain(name)}: {info.dtype}{shape}"
        lines.append(f"    {const}{C_TYPES[info.dtype]} *{field}; /* {note} */")
    return "\n".join(lines)


def _plain(name: str) -> str:
    """Return a name of a user for a comment."""
    return _ODD.sub("?", name[:LONGEST])
