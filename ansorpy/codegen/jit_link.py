"""Link object files into this process (LLVM's ORC linker)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

from ansorpy.codegen.llvm_ir import target_machine
from ansorpy.errors import BuildError
from ansorpy.target import CpuTarget

_numbers = count()  # part of a library's name: LLJIT refuses the name of a freed library


@dataclass(frozen=True, slots=True)
class LinkedCode:
    """Addresses of functions by name; their code lives as long as this object does."""

    entries: Mapping[str, int]
    code: Any


def jit_link(objects: Sequence[bytes], names: Sequence[str]) -> LinkedCode:
    """Link object files with each other and this process, and find functions by name.

    All calls share one engine: creating an engine takes four times as long as linking.

    Raises:
        BuildError: a file is not an object file, or a name is missing.
    """
    if not all(code.startswith(b"\x7fELF") for code in objects):
        raise BuildError("not an object file")  # LLVM would abort the process
    library = llvm.JITLibraryBuilder().add_current_process()
    for code in objects:
        library.add_object_img(code)
    for name in names:
        library.export_symbol(name)
    try:
        found = library.link(_engine(), f"kernel{next(_numbers)}")
    except RuntimeError as error:
        raise BuildError(f"LLVM cannot load the object: {error}") from error
    return LinkedCode({name: int(found[name]) for name in names}, found)


@lru_cache(maxsize=1)
def _engine() -> Any:
    return llvm.create_lljit_compiler(target_machine(CpuTarget()), suppress_errors=True)
