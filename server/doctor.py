"""What ansorpy needs of a machine, checked one by one."""

import platform
import shutil
import sys
from collections.abc import Callable
from ctypes.util import find_library
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from ansorpy.errors import AnsorError
from ansorpy.measure.host import local_target
from ansorpy.session.rules import find_rules
from server.db.engine import transaction
from server.db.records import SqlStore
from server.db.upgrade import local_tenant, open_database
from server.settings import Settings

FREE_BYTES = 200 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One check; `text` says what was found, or what to do."""

    name: str
    good: bool
    text: str


def diagnose(settings: Settings) -> list[Finding]:
    """Run every check; none of them raises."""
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", _python),
        ("packages", _packages),
        ("processor", _processor),
        ("rules", _rules),
        ("openmp", _openmp),
        ("data", lambda: _data(settings.data_dir)),
        ("records", lambda: _records(settings)),
    )
    return [_safe(name, check) for name, check in checks]


def _safe(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (AnsorError, OSError, SQLAlchemyError, ImportError) as error:
        return Finding(name, False, f"{type(error).__name__}: {error}")


def _python() -> Finding:
    good = sys.version_info[:2] in ((3, 11), (3, 12), (3, 13))
    return Finding("python", good, f"{platform.python_version()} (3.11 to 3.13 needed)")


def _packages() -> Finding:
    names = ("ansorpy", "numpy", "numba", "llvmlite", "lightgbm", "sqlalchemy", "fastapi")
    return Finding("packages", True, ", ".join(f"{name} {version(name)}" for name in names))


def _processor() -> Finding:
    target = local_target(None)
    sizes = f"L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB"
    text = f"{target.cpu}, {target.vector_bits}-bit vectors, {sizes}, {target.cores} cores"
    return Finding("processor", True, text)


def _rules() -> Finding:
    return Finding("rules", True, f"cpu {len(find_rules('cpu'))}, cuda {len(find_rules('cuda'))}")


def _openmp() -> Finding:
    library = find_library("gomp")
    return Finding("openmp", library is not None, library or "install libgomp1 for --cores > 1")


def _data(folder: Path) -> Finding:
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    return Finding("data", free_bytes > FREE_BYTES, f"{folder}, {free_bytes >> 20} MiB free")


def _records(settings: Settings) -> Finding:
    engine = open_database(settings.url)
    with transaction(engine) as tx:
        sqlite = engine.dialect.name == "sqlite"
        health = tx.scalar(text("PRAGMA quick_check")) if sqlite else "ok"
    count = SqlStore(engine, local_tenant(engine)).count()
    return Finding("records", health == "ok", f"{count} in {settings.url} ({health})")
