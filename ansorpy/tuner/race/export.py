"""The request for the library of a kernel; equal kernels have equal symbols."""

from hashlib import sha256

from ansorpy.artifact.kernel_file import output_names
from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.verify.inputs import constants
from ansorpy.tuner.race.contestant import Contestant
from ansorpy.tuner.tasks.task import Task


def export_of(task: Task, entry: Contestant[Kernel]) -> Export:
    """Return the export of a kernel as a library."""
    return export_program(task, entry.program, entry.kernel.source)


def export_program(task: Task, program: Program, text: str) -> Export:
    """Return the export of a program as a library; `text` identifies the program."""
    return Export(
        program=program,
        inputs=tuple(node.name for node in task.dag.placeholders),
        outputs=output_names(task.dag),
        constants={name: array.tobytes() for name, array in constants(task.dag).items()},
        prefix=f"ansorpy_{sha256(text.encode()).hexdigest()[:12]}",
    )
