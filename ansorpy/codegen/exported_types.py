"""Types of an export: a kernel to compile for use outside of Python, and its library.

Values without numba or LLVM: they cross the borders of processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.link import LINKERS
from ansorpy.loopir.nodes import SIZES, Buffer, Program


@dataclass(frozen=True)
class Export:
    """A tiled program to export, its inputs, outputs and constants, and a prefix of symbols.

    `linkers` are command lines, tried in order (see `link`).
    """

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, bytes] = field(hash=False)
    prefix: str
    linkers: Sequence[Sequence[str]] = LINKERS

    @property
    def arguments(self) -> tuple[str, ...]:
        """The buffers whose addresses a caller gives: inputs, outputs, and the sizes of dims."""
        return (*self.inputs, *self.outputs, *([SIZES] if self.program.dims else []))


@dataclass(frozen=True)
class Library:
    """Machine code with the public functions of `runtime.c_entry`.

    `code` is a shared library, or an object file if `note` gives the reason why it is not linked.
    `object_code` is the object file that it was linked from, to be linked with others.
    `buffers` are the arguments in order, the workspace last if there is one; `phases` the timed
    ones, with public names. The workspace is packed weights of `packed_bytes`, then scratch.
    `steady` names the inputs that calls read, and the workspace if weights are packed.
    """

    code: bytes
    object_code: bytes
    buffers: tuple[Buffer, ...]
    phases: tuple[PhaseInfo, ...]
    prefix: str
    features: tuple[str, ...]
    workspace_bytes: int
    packed_bytes: int
    note: str = ""
    steady: tuple[str, ...] = ()

    @property
    def object_sha256(self) -> str:
        """The sha256 of the object file, hex: the identity of the machine code."""
        return sha256(self.object_code).hexdigest()

    @property
    def linked(self) -> bool:
        """True if `code` is a shared library, False if it is an object file."""
        return not self.note

    @property
    def scratch_bytes(self) -> int:
        """The bytes of the workspace behind the packed weights."""
        return self.workspace_bytes - self.packed_bytes
