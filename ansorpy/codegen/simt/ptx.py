"""LLVM text for a GPU to PTX, by the NVPTX target of llvmlite."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

from ansorpy.codegen.simt.memory import with_dynamic_memory
from ansorpy.errors import BuildError

TRIPLE: Final = "nvptx64-nvidia-cuda"
# PTX 8.6 has the instructions of sm_80 and sm_90; drivers and ptxas from CUDA 12.7 on read it.
ISA: Final = "+ptx86"


def ptx(text: str, arch: str) -> str:
    """Return the PTX of a module of LLVM text.

    LLVM's own passes are left out: ptxas optimises, and makes the same machine code of both.

    Args:
        text: kernels are `define ptx_kernel void @name(ptr addrspace(1) ...)`.
        arch: LLVM's name of the architecture, such as `sm_90`.

    Raises:
        BuildError: LLVM cannot read the text, or a function in it has no definition.
    """
    return joined_ptx((text,), arch)


def joined_ptx(texts: Sequence[str], arch: str) -> str:
    """Return the PTX of several modules of LLVM text as one; their kernels have different names.

    Args:
        texts, arch: as `ptx` takes them.

    Raises:
        BuildError: as `ptx` raises it.
    """
    machine = _machine(arch)
    try:
        module, *others = [llvm.parse_assembly(with_dynamic_memory(text)) for text in texts]
        for other in others:
            module.link_in(other)
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise BuildError(
            f"cannot compile for {arch} because LLVM refused the text: {error}"
        ) from error
    lost = sorted(
        one.name
        for one in module.functions
        if one.is_declaration and not one.name.startswith("llvm.")
    )
    if lost:
        raise BuildError(
            f"cannot compile for {arch} because {', '.join(lost)} has no definition; expected"
            " functions of the text and of LLVM only"
        )
    return str(machine.emit_assembly(module))


@cache
def _machine(arch: str) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=arch, features=ISA, opt=3)
