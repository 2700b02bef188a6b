"""The device nodes of NVIDIA GPUs, which measuring processes of their back end alone may use.

A process with such nodes has a wider wall in four places: it may open, write and control the nodes,
it may keep threads of the driver between calls, its address space has no limit, because the driver
reserves addresses for all memory, and bubblewrap shows it the nodes. Its resident memory is
limited.
"""

from pathlib import Path
from typing import Final

PATTERNS: Final = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm*", "nvidia-caps/*")


def gpu_nodes(folder: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the paths of the nodes of GPUs on this machine, sorted; none without a driver."""
    return tuple(sorted(str(one) for pattern in PATTERNS for one in folder.glob(pattern)))
