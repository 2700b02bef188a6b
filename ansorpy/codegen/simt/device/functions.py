"""The functions of NVIDIA's driver library that are called, with their C signatures.

The loader in a zip (`simt.driver`) calls some, measurements call more; `cuda.h` of CUDA 13.0. All
return an error code, 0 for success. An output is a pointer to it.
"""

import ctypes
from collections.abc import Mapping
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any, Final

from ansorpy.codegen.simt.driver import DYNAMIC_SHARED_BYTES, LIBRARY
from ansorpy.codegen.simt.driver import SIGNATURES as LOADER_SIGNATURES
from ansorpy.errors import DeviceError

Library = Any  # has the functions as attributes

_POINTER: Final = c_void_p  # pointer to an output or an array, or a handle
_ADDRESS: Final = c_uint64  # address in device memory
SIGNATURES: Final[Mapping[str, tuple[Any, ...]]] = {
    **LOADER_SIGNATURES,
    "cuDriverGetVersion": (_POINTER,),
    "cuDeviceGetCount": (_POINTER,),
    "cuDeviceGetPCIBusId": (_POINTER, c_int, c_int),
    "cuDeviceTotalMem_v2": (_POINTER, c_int),
    "cuFuncGetAttribute": (_POINTER, c_int, _POINTER),
    "cuMemsetD8_v2": (_ADDRESS, c_ubyte, c_size_t),
    "cuMemsetD8Async": (_ADDRESS, c_ubyte, c_size_t, _POINTER),
    "cuStreamCreate": (_POINTER, c_uint),
    "cuStreamBeginCapture_v2": (_POINTER, c_int),
    "cuStreamEndCapture": (_POINTER, _POINTER),
    "cuGraphInstantiateWithFlags": (_POINTER, _POINTER, c_uint64),
    "cuGraphLaunch": (_POINTER, _POINTER),
    "cuGraphDestroy": (_POINTER,),
    "cuGraphExecDestroy": (_POINTER,),
    "cuEventCreate": (_POINTER, c_uint),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventSynchronize": (_POINTER,),
    "cuEventElapsedTime": (_POINTER, _POINTER, _POINTER),
    "cuEventDestroy_v2": (_POINTER,),
}

# Values of enumerations in cuda.h
ATTRIBUTES: Final[Mapping[str, int]] = {  # CUdevice_attribute
    "max_threads_per_block": 1,
    "warp": 10,
    "clock_khz": 13,
    "sms": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "max_threads_per_sm": 39,
    "major": 75,
    "minor": 76,
    "shared_bytes_per_sm": 81,
    "registers_per_sm": 82,
    "shared_bytes_per_block": 97,  # with the attribute of a kernel that asks for it
    "max_blocks_per_sm": 106,
    "shared_bytes_reserved": 111,
}
OF_KERNELS: Final[Mapping[str, int]] = {  # CUfunction_attribute
    "max_threads": 0,
    "shared_bytes": 1,
    "local_bytes": 3,
    "registers": 4,
    "max_dynamic_bytes": DYNAMIC_SHARED_BYTES,
}
THREAD_LOCAL: Final = 1  # CUstreamCaptureMode
# CUstream_flags: in order with the default stream, on which copies and fills of memory run; these
# may return before the GPU has done them.
ORDERED: Final = 0


def driver_library(name: str = LIBRARY) -> Library:
    """Return the driver library of this machine.

    Raises:
        DeviceError: there is no such library, or it is older than CUDA 12.
    """
    try:
        loaded = ctypes.CDLL(name)
    except OSError as error:
        raise DeviceError(
            f"cannot use a GPU because {name} cannot be loaded: {error}; expected the driver of"
            " NVIDIA"
        ) from error
    for function in SIGNATURES:
        if not hasattr(loaded, function):
            raise DeviceError(
                f"cannot use a GPU because {name} has no {function}; expected a driver of CUDA 12"
                " or later"
            )
    return loaded
