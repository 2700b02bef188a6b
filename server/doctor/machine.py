"""Checks of programs, libraries and the processor."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from ctypes.util import find_library
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ansorpy.codegen.link import LINKERS
from ansorpy.errors import SpecError
from ansorpy.measure.host import local_target
from ansorpy.measure.other_work import crowd
from ansorpy.records import target_digest
from ansorpy.rewrites.capabilities import capabilities
from ansorpy.server.doctor.finding import Finding
from ansorpy.server.settings import ServiceSettings
from ansorpy.state.rule import name_of
from ansorpy.tuner.rule_sets.files import MODULES, identity, load_rules, rule_folder
from ansorpy.tuner.rule_sets.sets import find_rules

PYTHONS: Final = ((3, 11), (3, 12), (3, 13))
PACKAGES: Final = ("ansorpy", "numpy", "numba", "llvmlite", "lightgbm", "sqlalchemy", "fastapi")


def python() -> Finding:
    """Check the version of the interpreter."""
    good = sys.version_info[:2] in PYTHONS
    text = f"{platform.python_version()} (3.11 to 3.13 needed)"
    return Finding("python", "ok" if good else "bad", text)


def packages() -> Finding:
    """List the versions of the packages that results depend on."""
    return Finding("packages", "ok", ", ".join(f"{name} {version(name)}" for name in PACKAGES))


def processor() -> Finding:
    """Describe the target of this machine."""
    target = local_target(None)
    sizes = f"L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB"
    return Finding(
        "target", "ok",
        f"{target_digest(target)}: {target.cpu}, {target.vector_bits}-bit vectors, {sizes},"
        f" {target.cores} cores",
    )  # fmt: skip


def load() -> Finding:
    """Look if other work crowds this machine, so that times are too long."""
    warning = crowd()
    average = os.getloadavg()[0]
    calm = f"load {average:.1f} on {os.cpu_count()} cores"
    return Finding("load", "note" if warning else "ok", warning or calm)


def instructions() -> Finding:
    """List the instructions on products that kernels for this machine have, and those they lack."""
    found = capabilities(local_target(None))
    here = ", ".join(one.name for one in found if not one.lacks) or "none"
    lacking = [f"{one.name} ({one.lacks})" for one in found if one.lacks]
    text = f"{here}; {len(lacking)} others are not available (--verbose)"
    return Finding("instructions", "ok", text, f"not available: {'; '.join(lacking)}")


def rules(settings: ServiceSettings) -> list[Finding]:
    """Count the rules of each set, and load the files of `ANSORPY_RULES_DIR`."""
    counts = ", ".join(f"{kind} {len(find_rules(kind))}" for kind in ("cpu", "cuda"))
    return [Finding("rules", "ok", counts), *_rule_files(settings.rules_dir)]


def _rule_files(folder: Path | None) -> Iterator[Finding]:
    for name, path in rule_folder(folder).items():
        try:
            kinds = load_rules(path).kinds
            found = find_rules(kinds[0], (name,), folder=folder)
        except SpecError as error:
            yield Finding("rule file", "bad", str(error))
        else:
            own = [name_of(rule) for rule in found if identity(rule).startswith(MODULES)]
            yield Finding("rule file", "ok", f"{name}: {', '.join(own)}, for {', '.join(kinds)}")


def openmp() -> Finding:
    """Find the OpenMP runtime, which parallel numba kernels need."""
    library = find_library("gomp")
    if library is None:
        text = "numba kernels of several threads need libgomp: `apt-get install libgomp1`"
        return Finding("openmp", "note", text)
    return Finding("openmp", "ok", library)


def linker() -> Finding:
    """Find a linker for the shared library of a package."""
    found = next((line[0] for line in LINKERS if shutil.which(line[0])), None)
    if found is None:
        text = "packages contain no libkernel.so without a linker: `apt-get install gcc`"
        return Finding("linker", "note", text)
    return Finding("linker", "ok", found)
