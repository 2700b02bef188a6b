"""Arrays of .npy files that are mapped and keep no file open.

`numpy.memmap` has a descriptor for each file, since `mmap` of Python keeps a copy of its own. The
cases of three ranges of sizes would be more files than a measuring process may open.
"""

import ctypes
import mmap
import os
import weakref
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.measure.verify.inputs import Array

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
FAILED: Final = ctypes.c_void_p(-1).value  # MAP_FAILED of mmap(2)


def mapped(path: Path) -> Array:
    """Return the array of a file; it is read when it is used, and cannot be written.

    Raises:
        OSError: the file cannot be opened or mapped.
        ValueError: it is no .npy file of version 1.0, or has objects.
    """
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        at, size = file.tell(), os.fstat(file.fileno()).st_size
        address = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 0)
    if address == FAILED:
        raise OSError(ctypes.get_errno(), f"cannot map {path}")
    memory = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(memory, _LIBC.munmap, address, size).atexit = False
    array: Array = np.frombuffer(memoryview(memory), dtype, prod(shape), at).reshape(shape)
    array.flags.writeable = False
    return array
