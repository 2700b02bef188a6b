"""Runtime of emulated kernels as LLVM text: threads of a block, and all their instructions.

    int32_t simt_run(int64_t *order)    0, PAUSED, or a fault: a key of FAULTS
    int32_t simt_resume()               the same, after a pause of the last block

`order` has the words of `Order`. A thread runs until it waits: at a barrier for all threads of
its block that have not ended, at a shuffle or a matrix instruction for its warp. The next thread
that can run follows, in rising or falling order. So a race has the same outcome in every run of
one order.
"""

from ansorpy.codegen.simt.emulator.conversions_text import CONVERSIONS
from ansorpy.codegen.simt.emulator.copies_text import COPIES
from ansorpy.codegen.simt.emulator.fibres_text import fibres
from ansorpy.codegen.simt.emulator.launch_text import BEGIN, RUN
from ansorpy.codegen.simt.emulator.matrix_text import MATRICES
from ansorpy.codegen.simt.emulator.shuffles_text import SHUFFLES, SPECIAL
from ansorpy.codegen.simt.emulator.waits_text import PAUSES, STATE, WAITS


def runtime_text(triple: str) -> str:
    """Return the text for processors of an LLVM triple.

    Raises:
        BuildError: the processor is neither x86-64 nor aarch64.
    """
    kind = fibres(triple)
    begin = BEGIN.replace("FRAME", str(kind.frame_bytes)).replace("RETURN", str(kind.return_at))
    waits = [STATE, kind.text, WAITS, PAUSES, SHUFFLES, SPECIAL]
    return "\n".join([*waits, MATRICES, CONVERSIONS, COPIES, begin, RUN])
