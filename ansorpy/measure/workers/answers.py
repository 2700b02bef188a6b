"""Types and possible values of the answers of measuring processes.

The type of an answer is the return annotation of the called function, or `Raised`. A
`MachineCode` is the class that the back end of the request declares as `BUILT`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, get_type_hints

from ansorpy.expr.dtypes import DTYPES, INDEX
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer
from ansorpy.measure.backend import MachineCode, backend
from ansorpy.measure.workers.codec import HEADER_BYTES, Codec, Instead
from ansorpy.measure.workers.frames import find

BUILD_BYTES: Final = 64 << 20  # limit of machine code; the largest unrolled kernel: 0.4 MiB
EXTENT_LIMIT: Final = 1 << 40
PHASE_LIMIT: Final = 1 << 40


def _any(_: Any) -> bool:
    return True


def _measured(outcome: Any) -> bool:
    return bool(outcome.times_s and min(outcome.times_s) > 0 and outcome.slowdown > 0)


def _estimated(estimate: Any) -> bool:
    return bool(estimate.seconds > 0)


def _phase(phase: Any) -> bool:
    return bool(phase.name.isascii() and phase.name.isidentifier() and phase.tasks < PHASE_LIMIT)


def _launch(run: Any) -> bool:
    return bool(run.name.isascii() and run.name.isidentifier() and run.blocks < PHASE_LIMIT)


def _buffer(buffer: Any) -> bool:
    return bool(buffer.name) and buffer.dtype in DTYPES


def _extent(extent: Any) -> bool:
    return bool(extent.value < EXTENT_LIMIT and extent.dtype == INDEX)


# Every dataclass that may be part of an answer, by name, because the modules import this one.
CLASSES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "ansorpy.measure.workers.replies:Raised": _any,
    "ansorpy.measure.outcome:Measured": _measured,
    "ansorpy.measure.outcome:Estimated": _estimated,
    "ansorpy.measure.outcome:Failed": _any,
    "ansorpy.measure.protocols:Checked": _any,
    "ansorpy.measure.protocols:BuildResult": _any,
    "ansorpy.codegen.loader:Built": _any,
    "ansorpy.codegen.exported_types:Library": _any,
    "ansorpy.codegen.kernel:PhaseInfo": _phase,
    "ansorpy.codegen.simt.launch:Launch": _launch,
    "ansorpy.codegen.simt.emulator.shared_memory:SharedArray": _any,  # its loader checks places
    "ansorpy.loopir.nodes:Buffer": _buffer,
    "ansorpy.expr.expr:Const": _extent,
}
# A buffer of machine code is bound: its extents are numbers.
BOUND: Final[Instead] = {(Buffer, "shape"): tuple[Const, ...], (Const, "value"): int}


def codec_of(function: str, argument: object) -> Codec:
    """Return the codec for the answers of `function` ("module:name") to an argument."""
    return _codec(function, getattr(argument, "backend", ""))


def limit_bytes(codec: Codec) -> int:
    """Return the largest size of an answer: only machine code needs more than a header."""
    return HEADER_BYTES + (BUILD_BYTES if codec.has_bytes else 0)


@cache
def _codec(function: str, backend_name: str) -> Codec:
    raised = find("ansorpy.measure.workers.replies:Raised")
    answer = get_type_hints(find(function))["return"]
    built = backend(backend_name).BUILT if backend_name else None
    # The types of an answer are imported by now: a process for CPUs needs no module of a GPU.
    known = [name for name in CLASSES if name.partition(":")[0] in sys.modules]
    table: dict[Any, Callable[[Any], bool]] = {find(name): CLASSES[name] for name in known}
    instead = dict(BOUND)
    if built is not None:
        table.setdefault(built, _any)
        instead[MachineCode] = built
    return Codec(raised | answer, table, instead)
