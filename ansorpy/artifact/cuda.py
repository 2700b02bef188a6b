"""The zip of kernels for a GPU: verified by the emulator and not timed, or raced on a device.

`members` makes its files and the part of the manifest that follows from them; `pack_emulated` and
`pack_raced` write the zip (ADR-0143). `driver.py` runs `kernel.ptx` or a cubin by NVIDIA's driver
alone; `kernel.py` has the same kernels as numba.cuda source in a plain form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ansorpy.artifact.archive import write
from ansorpy.artifact.cuda_texts import driver_text, plain_text
from ansorpy.artifact.kernel_file import constants_file, make_test, tensors
from ansorpy.artifact.kernel_manifest import about, raced, verification
from ansorpy.artifact.manifest import BufferEntry, entry, picked
from ansorpy.artifact.reference import REFERENCE, reference_text
from ansorpy.codegen.simt.assemble import assemble
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.ptx import ISA, joined_ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.verify.inputs import constants
from ansorpy.records import Record
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag

SOURCE: Final = "kernel.py"
PTX: Final = "kernel.ptx"
CUBIN: Final = "kernel.{}.cubin"
DRIVER: Final = "driver.py"
LAUNCH: Final = ("name", "blocks", "threads", "shared_bytes", "dynamic_bytes", "ahead")


@dataclass(frozen=True, slots=True)
class CudaMembers:
    """Files of a zip by name, and fields of its manifest."""

    files: Mapping[str, bytes]
    manifest: Mapping[str, Any]


def members(dag: Dag, program: Program, target: Target, archs: Sequence[str] = ()) -> CudaMembers:
    """Return the files and the manifest's fields of a bound program for a GPU.

    The same program gives the same bytes.

    Args:
        program: bound, by `loopir.pipeline.lower_for_cuda`.
        target: of kind cuda with an architecture; the PTX is made for it.
        archs: architectures of the cubins; the target's unless given. Without ptxas (extra
            `cuda`) there are none, and the manifest says why: the driver compiles the PTX.

    Raises:
        BuildError: a part of the program has no kernel, or ptxas refuses it.
    """
    code = simt_code(program, target)
    text = joined_ptx(code.texts, target.cpu)
    files = {
        DRIVER: driver_text().encode(),
        REFERENCE: reference_text(dag).encode(),
        PTX: text.encode(),
        **constants_file(dag),
    }
    source_note = ""
    try:
        files[SOURCE] = plain_text(program, target).encode()
    except BuildError as error:
        source_note = str(error)
    cubins, note = {}, ""
    for arch in archs or (target.cpu,):
        try:
            made = text if arch == target.cpu else joined_ptx(code.texts, arch)
            files[CUBIN.format(arch)] = assemble(made, arch).code
            cubins[arch] = CUBIN.format(arch)
        except BuildError as error:
            if "is not installed" not in str(error):
                raise
            note = str(error)
    return CudaMembers(
        files,
        {
            "flop": flop_count(dag),
            "constants": list(constants(dag)),
            "cuda": {
                "arch": target.cpu,
                "isa": ISA.removeprefix("+"),
                "ptx": PTX,
                "cubins": cubins,
                "note": note,
                "source": SOURCE if SOURCE in files else None,
                "source_note": source_note,
                **launch_table(dag, code),
            },
        },
    )


def launch_table(dag: Dag, code: SimtCode) -> dict[str, Any]:
    """Return the buffers, in the order of the arguments, and the launches, in order."""
    arguments = list(range(len(code.buffers)))
    return {
        "buffers": [entry(BufferEntry, one) for one in tensors(dag, code.buffers)],
        "launches": [{**picked(one, *LAUNCH), "arguments": arguments} for one in code.launches],
    }


def pack_emulated(
    folder: Path,
    dag: Dag,
    program: Program,
    record: Record,
    target: Target,
    archs: Sequence[str] = (),
    reformulated: str = "",
) -> Path:
    """Write the zip of a program that the emulator verified; return its path.

    Args:
        record: of the candidate, whose id names the zip.
        program, target, archs: as `members` takes them.
        reformulated: the parts that are rounded otherwise than the Dag, for people; "": none.

    Raises:
        BuildError: as `members` raises it.
    """
    told = verification(make_test(dag, program.meaning), reformulated)
    fields = {"verified": "emulated", "timed": False, "verification": told}
    return _written(folder, dag, program, record, target, fields, archs)


def pack_raced(folder: Path, dag: Dag, program: Program, record: Record, target: Target) -> Path:
    """Write the zip of a program that a device verified and timed; return its path.

    Args:
        record: with its race; its id names the zip.
        program, target: as `members` takes them.

    Raises:
        BuildError: as `members` raises it.
    """
    race = record.race
    assert race is not None, "only a raced record is timed"
    fields = {"verified": "device", "timed": True, **raced(dag, race, 1, record.source_sha256)}
    return _written(folder, dag, program, record, target, fields)


def _written(
    folder: Path, dag: Dag, program: Program, record: Record, target: Target,
    fields: Mapping[str, Any], archs: Sequence[str] = (),
) -> Path:  # fmt: skip
    made = members(dag, program, target, archs)
    origin = about(dag, program.arguments, record, target, ())
    manifest = {**origin, **fields, "created_s": record.created_s, **made.manifest}
    return write(folder, dag, record, made.files, manifest)
