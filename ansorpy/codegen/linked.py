"""Object files in this process, ready to be called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

from ansorpy.codegen.llvm_ir import target_machine
from ansorpy.errors import BuildError
from ansorpy.target import Target

_numbers = count()  # libraries need names, which cannot be given again


@dataclass(frozen=True, slots=True)
class Linked:
    """Where functions are; their code lives as long as this object does."""

    entries: Mapping[str, int]
    code: Any


def linked(objects: Sequence[bytes], names: Sequence[str]) -> Linked:
    """Link object files with each other and this process, and find functions by name.

    One engine does it for all of a process: to make one takes four times as long as to link.

    Raises:
        BuildError: something is no object file, or names are missing.
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
    return Linked({name: int(found[name]) for name in names}, found)


@lru_cache(maxsize=1)
def _engine() -> Any:
    return llvm.create_lljit_compiler(target_machine(Target()), suppress_errors=True)
