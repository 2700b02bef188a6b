"""LLVM's just-in-time compiler for the processor of this process."""

from functools import cache, lru_cache
from threading import Lock
from typing import Any, Final

import llvmlite.binding as llvm

_ONE_AT_A_TIME: Final = Lock()


@lru_cache(maxsize=1)
def initialize() -> None:
    """Set up LLVM's back end: machine code, its text, and inline assembly."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # inline assembly aborts the process without it


def compile_here(text: str, opt: int = 2, features: str = "") -> Any:
    """Return LLVM's engine around the machine code of IR text; no mid-level pass runs.

    The functions of the text live as long as the engine does.

    Args:
        opt: LLVM's level of optimisation, 0 to 3.
        features: flags behind the features of this processor, e.g. "-vzeroupper".
    """
    initialize()
    module = llvm.parse_assembly(text)
    module.verify()
    flags = [llvm.get_host_cpu_features().flatten(), *([features] if features else [])]
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=",".join(flags), opt=opt
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def compile_once(text: str, opt: int = 2) -> Any:
    """Return the engine of `compile_here`, made at the first call; it lives as long as the process.

    Threads that call at once get the same engine, so that no address of another one is lost.
    """
    with _ONE_AT_A_TIME:
        return _kept(text, opt)


@cache
def _kept(text: str, opt: int) -> Any:
    return compile_here(text, opt)
