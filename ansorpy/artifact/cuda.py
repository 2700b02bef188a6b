"""The zip of kernels for a GPU: verified by the emulator and not timed, or raced on a device.

`members` makes its files and the part of the manifest that follows from them; `pack_emulated` and
`pack_raced` write the zip (ADR-0143). `driver.py` runs `kernel.ptx` or a cubin by NVIDIA's driver
alone; `kernel.py` has the same kernels as numba.cuda source in a plain form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ansorpy.artifact.archive import about, raced_fields, write
from ansorpy.artifact.cuda_texts import driver_text, plain_text
from ansorpy.artifact.kernel_file import constant_arrays, make_test, tensors
from ansorpy.artifact.npz import npz
from ansorpy.artifact.reference import REFERENCE, reference_text
from ansorpy.codegen.simt.assemble import assemble
from ansorpy.codegen.simt.launch import Launch, SimtCode
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
        archs: architectures of the cubins; that of the target unless given. Without ptxas (extra
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
    }
    arrays = constant_arrays(dag)
    if arrays:
        files["constants.npz"] = npz(arrays)
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
    return {
        "buffers": [
            {
                "name": one.name,
                "dtype": one.dtype,
                "shape": list(one.shape),
                "role": one.role,
                **({"span": list(one.span)} if one.span else {}),
            }
            for one in tensors(dag, code.buffers)
        ],
        "launches": [_launch(one, len(code.buffers)) for one in code.launches],
    }


def _launch(launch: Launch, buffers: int) -> dict[str, Any]:
    return {
        "name": launch.name,
        "blocks": launch.blocks,
        "threads": launch.threads,
        "shared_bytes": launch.shared_bytes,
        "dynamic_bytes": launch.dynamic_bytes,
        "ahead": launch.ahead,
        "arguments": list(range(buffers)),
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
    test = make_test(dag, program.meaning)
    fields = {
        "verified": "emulated",
        "timed": False,
        "verification": {
            "reference": "float64",
            "inputs": [test.low, test.high],
            "tolerances": list(test.tolerances),
            "exact_on_integers_up_to": test.magnitude,
            "reformulated": reformulated or None,
        },
        "created_s": record.created_s,
    }
    made = members(dag, program, target, archs)
    return _written(folder, dag, program, record, target, made, fields)


def pack_raced(folder: Path, dag: Dag, program: Program, record: Record, target: Target) -> Path:
    """Write the zip of a program that a device verified and timed; return its path.

    Args:
        record: with its race; its id names the zip.
        program, target: as `members` takes them.

    Raises:
        BuildError: as `members` raises it.
    """
    assert record.race is not None, "only a raced record is timed"
    fields = {"verified": "device", "timed": True, **raced_fields(dag, record, record.race, 1)}
    made = members(dag, program, target)
    return _written(folder, dag, program, record, target, made, fields)


def _written(
    folder: Path, dag: Dag, program: Program, record: Record, target: Target,
    made: CudaMembers, fields: Mapping[str, Any],
) -> Path:  # fmt: skip
    manifest = {**about(dag, program.buffers, record, target, ()), **fields, **made.manifest}
    return write(folder / f"{dag.name}-{record.id[:12]}.zip", made.files, manifest)
