"""A kernel that is to leave Python, and what it became: values without numba or LLVM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.link import LINKERS
from ansorpy.loopir.nodes import Buffer, Program


@dataclass(frozen=True)
class Export:
    """What to export: a tiled program, its arguments in order, its constants, a symbol prefix.

    `linkers` are command lines, tried in order (see `link`).
    """

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, bytes]
    prefix: str
    linkers: Sequence[Sequence[str]] = LINKERS


@dataclass(frozen=True)
class Library:
    """Machine code with the functions of `dispatch`.

    `code` is a shared library, or the object file where `note` says why it was not linked.
    `buffers` are its arguments in order, the workspace last where there is one; `phases` the
    timed ones, with public names. `object_sha256` names what was generated, whoever linked it.
    """

    code: bytes
    object_sha256: str
    buffers: tuple[Buffer, ...]
    phases: tuple[PhaseInfo, ...]
    prefix: str
    features: tuple[str, ...]
    workspace_bytes: int
    build_s: float
    note: str = ""

    @property
    def linked(self) -> bool:
        """Whether `code` is a shared library."""
        return not self.note
