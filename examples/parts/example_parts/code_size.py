"""A measuring back end that runs nothing: the price of a kernel is the size of its machine code."""

from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.protocols import TrialRequest
from ansorpy.target import Target
from ansorpy.te.dag import Dag

BYTE_S = 1e-9  # seconds that a byte of an object file counts for


class CodeSize:
    """Search for small kernels; which of the leaders is delivered, a race on this machine says."""

    def __init__(self, target: Target, seed: int) -> None:
        """Need neither: the code is made for the target already."""

    def measure(self, trial: TrialRequest, dag: Dag) -> Measured | Failed:
        """Return one sample: the bytes of all object files."""
        size_bytes = sum(len(code) for code in trial.built.objects)  # type: ignore[attr-defined]
        return Measured((size_bytes * BYTE_S,))
