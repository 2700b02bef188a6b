"""The checks of `ansorpy doctor`, in the order of its report."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from ansorpy.errors import AnsorError
from ansorpy.server.doctor import end_to_end, gpu, machine, storage
from ansorpy.server.doctor.finding import Finding
from ansorpy.server.settings import ServiceSettings

Check = Callable[[ServiceSettings], "Finding | Sequence[Finding]"]

CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("python", lambda settings: machine.python()),
    ("packages", lambda settings: machine.packages()),
    ("target", lambda settings: machine.processor()),
    ("load", lambda settings: machine.load()),
    ("instructions", lambda settings: machine.instructions()),
    ("rules", machine.rules),
    ("openmp", lambda settings: machine.openmp()),
    ("linker", lambda settings: machine.linker()),
    ("data", storage.folder),
    ("database", storage.database),
    ("private", storage.private),  # after the database, because opening it tightens its files
    ("sandbox", end_to_end.sandbox),
    ("kernel", end_to_end.kernel),
    ("nvptx", lambda settings: gpu.compiler()),
    ("ptxas", lambda settings: gpu.assembler()),
    ("gpu", lambda settings: gpu.devices()),
    ("emulator", gpu.emulator),
)


def examine(
    settings: ServiceSettings, checks: Sequence[tuple[str, Check]] = CHECKS
) -> Iterator[Finding]:
    """Run every check, and yield its findings; an expected error becomes a finding."""
    for name, check in checks:
        try:
            found = check(settings)
        except (AnsorError, OSError, SQLAlchemyError, ImportError) as error:
            found = Finding(name, "bad", f"{type(error).__name__}: {error}")
        yield from [found] if isinstance(found, Finding) else found
