"""NVIDIA's driver by ctypes: a device, its primary context, modules, memory and launches.

The text of this file, below its marker line, is copied into the zip of a kernel for a GPU, as a
part of `driver.py`; so it needs the standard library only.
"""

# --- driver: the same in every zip for a GPU ---
import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

LIBRARY = "libcuda.so.1"
MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
STATIC_SHARED_BYTES = 48 * 1024  # a kernel with more must ask for it
ERROR_LOG, ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, ..._SIZE_BYTES
LOG_BYTES = 8192
NO_CODE = 209  # CUDA_ERROR_NO_BINARY_FOR_GPU

_POINTER, _WORD, _INT, _SIZE = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_size_t
_COUNT = ctypes.c_uint
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_COUNT,),
    "cuGetErrorName": (_INT, _POINTER),
    "cuDeviceGet": (_POINTER, _INT),
    "cuDeviceGetName": (_POINTER, _INT, _INT),
    "cuDeviceGetAttribute": (_POINTER, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuCtxSetCurrent": (_POINTER,),
    "cuCtxSynchronize": (),
    "cuStreamSynchronize": (_POINTER,),
    "cuModuleLoadDataEx": (_POINTER, _POINTER, _COUNT, _POINTER, _POINTER),
    "cuModuleUnload": (_POINTER,),
    "cuModuleGetFunction": (_POINTER, _POINTER, ctypes.c_char_p),
    "cuFuncSetAttribute": (_POINTER, _INT, _INT),
    "cuMemAlloc_v2": (_POINTER, _SIZE),
    "cuMemFree_v2": (_WORD,),
    "cuMemcpyHtoD_v2": (_WORD, _POINTER, _SIZE),
    "cuMemcpyDtoH_v2": (_POINTER, _WORD, _SIZE),
    "cuMemcpyDtoD_v2": (_WORD, _WORD, _SIZE),
    "cuLaunchKernel": (_POINTER, *[_COUNT] * 7, _POINTER, _POINTER, _POINTER),
}


class DriverError(RuntimeError):
    """The driver is missing, or a call of it failed; `code` is its CUresult, 0: no driver."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Driver:
    """The driver library of this machine, started.

    Raises:
        DriverError: there is no library, or it finds no device.
    """

    def __init__(self) -> None:
        try:
            self.library: Any = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise DriverError(
                "cannot run on a GPU because no NVIDIA driver library was found; expected"
                f" {LIBRARY}"
            ) from error
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
            DriverError: names the function and the driver's error.
        """
        code = self.function(name)(*arguments)
        if code:
            raise DriverError(f"{name} failed because of {error_name(self.function, code)}", code)

    def function(self, name: str) -> Any:
        """Return a function of the library."""
        found = getattr(self.library, name, None)
        if found is None:
            raise DriverError(f"cannot call {name} because this {LIBRARY} has no such function")
        found.argtypes, found.restype = SIGNATURES[name], ctypes.c_int
        return found


def error_name(function: Callable[[str], Any], code: int) -> str:
    """Return the driver's name of an error, with its number.

    Args:
        function: returns a function of the driver by its name.
    """
    text = ctypes.c_char_p()
    failed = function("cuGetErrorName")(code, ctypes.byref(text))
    name = "" if failed or text.value is None else text.value.decode("ascii", "replace")
    return f"{name or 'an unknown error'} ({code})"


class Device:
    """A GPU and its primary context, which other libraries of the process share.

    Args:
        number: the driver's, from 0.
    """

    def __init__(self, driver: Driver, number: int = 0) -> None:
        self.driver, handle, context = driver, ctypes.c_int(), ctypes.c_void_p()
        driver.call("cuDeviceGet", ctypes.byref(handle), number)
        self.handle = handle.value
        self.capability = (self.attribute(MAJOR), self.attribute(MINOR))
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle)
        self.context = context.value

    @property
    def name(self) -> str:
        """The marketing name of the device."""
        text = ctypes.create_string_buffer(128)
        self.driver.call("cuDeviceGetName", text, len(text), self.handle)
        return text.value.decode("utf-8", "replace")

    def attribute(self, number: int) -> int:
        """Return an attribute of the device by its CUdevice_attribute."""
        found = ctypes.c_int()
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(found), number, self.handle)
        return found.value

    def enter(self) -> None:
        """Make the context current for the calling thread; every use of the device needs that."""
        self.driver.call("cuCtxSetCurrent", self.context)

    def synchronize(self) -> None:
        """Wait for all work of the device; an error of a kernel is raised here."""
        self.driver.call("cuCtxSynchronize")


class Module:
    """Machine code of a device: a cubin, or PTX that the driver compiles; freed with the object."""

    def __init__(self, device: Device, code: bytes) -> None:
        self.device, handle = device, ctypes.c_void_p()
        log = ctypes.create_string_buffer(LOG_BYTES)
        names = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
        text = ctypes.create_string_buffer(code)  # PTX ends with a null byte
        load = device.driver.function("cuModuleLoadDataEx")
        error = load(ctypes.byref(handle), text, 2, names, values)
        if error:
            said = log.value.decode("utf-8", "replace").strip()
            raise DriverError(
                f"cannot load a kernel because of {error_name(device.driver.function, error)}"
                f"{f': {said}' if said else ''}",
                error,
            )
        self.handle = handle.value
        weakref.finalize(self, _quietly, device, "cuModuleUnload", self.handle).atexit = False

    def kernel(self, name: str, shared_bytes: int = 0) -> int:
        """Return the handle of a kernel.

        Args:
            shared_bytes: dynamic shared memory of its launches.
        """
        handle = ctypes.c_void_p()
        call = self.device.driver.call
        call("cuModuleGetFunction", ctypes.byref(handle), self.handle, name.encode("ascii"))
        if shared_bytes > STATIC_SHARED_BYTES:
            call("cuFuncSetAttribute", handle, DYNAMIC_SHARED_BYTES, shared_bytes)
        assert handle.value is not None
        return handle.value


class DeviceMemory:
    """Memory of a device at `address`, freed with the object."""

    def __init__(self, device: Device, size_bytes: int) -> None:
        self.device, self.size_bytes, address = device, size_bytes, ctypes.c_uint64()
        device.driver.call("cuMemAlloc_v2", ctypes.byref(address), max(1, size_bytes))
        self.address = address.value
        weakref.finalize(self, _quietly, device, "cuMemFree_v2", self.address).atexit = False

    def fill_from(self, address: int) -> None:
        """Copy all bytes from memory of the host."""
        if self.size_bytes:
            self.device.driver.call("cuMemcpyHtoD_v2", self.address, address, self.size_bytes)

    def copy_to(self, address: int) -> None:
        """Copy all bytes to memory of the host, after all earlier work."""
        if self.size_bytes:
            self.device.driver.call("cuMemcpyDtoH_v2", address, self.address, self.size_bytes)

    def copy_from(self, other: "DeviceMemory") -> None:
        """Copy all bytes from memory of the device of the same size."""
        if self.size_bytes:
            self.device.driver.call("cuMemcpyDtoD_v2", self.address, other.address, self.size_bytes)


def _quietly(device: Device, name: str, handle: Any) -> None:
    """Give something back to the driver; a context that has faulted keeps it, and says so."""
    device.driver.function("cuCtxSetCurrent")(device.context)
    device.driver.function(name)(handle)


def bound_launch(
    call: Callable[..., None],
    kernel: int,
    blocks: int,
    threads: int,
    shared_bytes: int,
    addresses: Sequence[int],
    stream: int = 0,
) -> Callable[[], None]:
    """Return the launch of a kernel as a function without arguments.

    Args:
        call: calls a function of the driver, by its name and with its arguments.
        blocks, threads: of a grid and of a block of one dimension.
        shared_bytes: dynamic shared memory of a block.
        addresses: parameters of the kernel, in order.
        stream: 0 is the default stream.
    """
    words = (ctypes.c_uint64 * max(1, len(addresses)))(*addresses)
    start, size = ctypes.addressof(words), ctypes.sizeof(ctypes.c_uint64)
    places = (ctypes.c_void_p * max(1, len(addresses)))(
        *(start + size * k for k in range(len(addresses)))
    )
    arguments = (kernel, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, places, None)

    def launch(_alive: Any = words) -> None:
        call("cuLaunchKernel", *arguments)

    return launch
