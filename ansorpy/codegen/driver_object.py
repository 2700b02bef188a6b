"""The object file of a native driver: code that calls kernels of other object files."""

from typing import Final

import llvmlite.binding as llvm

from ansorpy.codegen.llvm_ir import public_object
from ansorpy.codegen.runtime.c_entry import pool_entries
from ansorpy.codegen.runtime.pool_text import pool_text
from ansorpy.target import CpuTarget

# Any processor of the kind: a driver says if the machine lacks features of its kernels.
_BASELINES: Final = {
    "x86_64": CpuTarget(cpu="x86-64", features=("sse2",)),
    "aarch64": CpuTarget(cpu="generic", features=("neon",)),
}


def driver_object(text: str, prefix: str) -> bytes:
    """Return the object file of a driver with a pool of threads, for any processor of this kind.

    Args:
        text: LLVM IR; its public functions begin with `prefix`, and are joined by
            `pool_open` and `pool_close`.

    Raises:
        BuildError: LLVM refuses the text.
    """
    triple = llvm.get_process_triple()
    whole = "\n".join([text, pool_text(triple), pool_entries(prefix)])
    return public_object(whole, prefix, _BASELINES.get(triple.partition("-")[0], CpuTarget()))
