"""The driver API of a GPU with values of Python: one device, its primary context, one stream."""

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any, Final

from ansorpy.codegen.simt.device.error_codes import device_error
from ansorpy.codegen.simt.device.functions import (
    ATTRIBUTES,
    OF_KERNELS,
    ORDERED,
    SIGNATURES,
    THREAD_LOCAL,
    Library,
)
from ansorpy.codegen.simt.driver import (
    ERROR_LOG,
    ERROR_LOG_BYTES,
    LOG_BYTES,
    bound_launch,
    error_name,
)
from ansorpy.errors import DeviceError, DeviceFault

NAME_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """A kernel of a loaded module, with the resources that the driver states.

    Args:
        max_threads: threads of a block at most.
        registers: registers of a thread.
        shared_bytes: static shared memory of a block.
        local_bytes: memory of a thread outside of its registers: arrays and spilled registers.
    """

    handle: int
    name: str
    max_threads: int
    registers: int
    shared_bytes: int
    local_bytes: int


class GpuDriver:
    """The calls of one process; `fault` is the error that ended its context, "" if none.

    Args:
        library: the driver library, or functions of the same signatures.

    Raises:
        DeviceError: by every method, if the driver refuses the call.
        DeviceFault: a kernel failed; every later call raises it again.
        DeviceMemoryError: the memory of the GPU is full.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.fault = ""
        self.stream = self.device = 0
        self._call("start the driver", "cuInit", 0)

    def function(self, name: str) -> Any:
        """Return a function of the library."""
        found = getattr(self.library, name)
        found.argtypes, found.restype = SIGNATURES[name], c_int
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver by its name."""
        self._call(f"call {name}", name, *arguments)

    def _call(self, what: str, name: str, *arguments: Any) -> None:
        code = self._code(name, *arguments)
        if code:
            raise self._error(what, code)

    def _code(self, name: str, *arguments: Any) -> int:
        if self.fault:
            raise DeviceFault(self.fault)
        return int(self.function(name)(*arguments))

    def _error(self, what: str, code: int, log: str = "") -> DeviceError:
        error = device_error(what, code, error_name(self.function, code), log)
        if isinstance(error, DeviceFault):
            self.fault = str(error)
        return error

    def _handle(self, what: str, name: str, *arguments: Any) -> int:
        """Return the handle that a function stores at its first argument."""
        handle = c_void_p()
        self._call(what, name, byref(handle), *arguments)
        return int(handle.value or 0)

    # Devices and their context

    def version(self) -> tuple[int, int]:
        """Return the newest version of CUDA that the driver supports."""
        found = c_int()
        self._call("ask for the version of the driver", "cuDriverGetVersion", byref(found))
        return found.value // 1000, found.value % 1000 // 10

    def count(self) -> int:
        """Return how many GPUs this process may use."""
        found = c_int()
        self._call("count the GPUs", "cuDeviceGetCount", byref(found))
        return found.value

    def name(self, device: int) -> str:
        """Return the marketing name of a GPU."""
        text = ctypes.create_string_buffer(NAME_BYTES)
        self._call("ask for the name of a GPU", "cuDeviceGetName", text, NAME_BYTES, device)
        return text.value.decode(errors="replace")

    def pci_address(self, device: int) -> str:
        """Return the place of a GPU on the bus, such as `0000:1B:00.0`."""
        text = ctypes.create_string_buffer(NAME_BYTES)
        self._call("ask for the place of a GPU", "cuDeviceGetPCIBusId", text, NAME_BYTES, device)
        return text.value.decode(errors="replace")

    def memory_bytes(self, device: int) -> int:
        """Return the size of the memory of a GPU."""
        found = c_size_t()
        self._call("ask for the memory of a GPU", "cuDeviceTotalMem_v2", byref(found), device)
        return found.value

    def attribute(self, device: int, name: str) -> int:
        """Return an attribute of `functions.ATTRIBUTES`."""
        found = c_int()
        number = ATTRIBUTES[name]
        self._call(f"ask for {name}", "cuDeviceGetAttribute", byref(found), number, device)
        return found.value

    def open(self, device: int = 0) -> None:
        """Make the primary context of a GPU current on this thread, with a stream."""
        found = c_int()
        self._call(f"use GPU {device}", "cuDeviceGet", byref(found), device)
        context = self._handle(f"use GPU {device}", "cuDevicePrimaryCtxRetain", found.value)
        self._call(f"use GPU {device}", "cuCtxSetCurrent", context)
        self.device = device
        self.stream = self._handle("make a stream", "cuStreamCreate", ORDERED)

    # Memory

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new device memory, a multiple of 256."""
        found = c_uint64()
        what = f"allocate {size_bytes} bytes on the GPU"
        self._call(what, "cuMemAlloc_v2", byref(found), size_bytes)
        return found.value

    def free(self, address: int) -> None:
        """Free device memory; nothing happens after a fault, which ended all memory."""
        if not self.fault:
            self._call("free memory of the GPU", "cuMemFree_v2", address)

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Fill device memory with a byte."""
        self._call("fill memory of the GPU", "cuMemsetD8_v2", address, byte, size_bytes)

    def fill_in_stream(self, address: int, byte: int, size_bytes: int) -> None:
        """Fill device memory with a byte, after earlier work of the stream."""
        arguments = (address, byte, size_bytes, self.stream)
        self._call("fill memory of the GPU", "cuMemsetD8Async", *arguments)

    def copy_in(self, address: int, source: int, size_bytes: int) -> None:
        """Copy from an address of this process to the device."""
        self._call("copy to the GPU", "cuMemcpyHtoD_v2", address, source, size_bytes)

    def copy_out(self, target: int, address: int, size_bytes: int) -> None:
        """Copy from the device to an address of this process."""
        self._call("copy from the GPU", "cuMemcpyDtoH_v2", target, address, size_bytes)

    # Modules and launches

    def load(self, image: bytes, what: str) -> int:
        """Return the handle of a module made of a cubin or of PTX.

        Args:
            what: name of the module, for the message.
        """
        module, log = c_void_p(), ctypes.create_string_buffer(LOG_BYTES)
        held = ctypes.create_string_buffer(image)  # PTX ends with a zero
        options = (c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
        code = self._code("cuModuleLoadDataEx", byref(module), held, 2, options, values)
        if code:
            raise self._error(f"load {what}", code, log.value.decode(errors="replace"))
        return int(module.value or 0)

    def unload(self, module: int) -> None:
        """Free a module; nothing happens after a fault."""
        if not self.fault:
            self._call("free a module", "cuModuleUnload", module)

    def kernel(self, module: int, name: str) -> DeviceFunction:
        """Return a kernel of a module."""
        handle = self._handle(f"find kernel {name}", "cuModuleGetFunction", module, name.encode())

        def told(attribute: str) -> int:
            value, number = c_int(), OF_KERNELS[attribute]
            what = f"ask for {attribute} of {name}"
            self._call(what, "cuFuncGetAttribute", byref(value), number, handle)
            return value.value

        names = ("max_threads", "registers", "shared_bytes", "local_bytes")
        return DeviceFunction(handle, name, *map(told, names))

    def allow_dynamic(self, function: DeviceFunction, size_bytes: int) -> None:
        """Let a kernel be launched with so much dynamic shared memory, which may exceed 48 KiB."""
        what = f"give {function.name} {size_bytes} bytes of dynamic shared memory"
        number = OF_KERNELS["max_dynamic_bytes"]
        self._call(what, "cuFuncSetAttribute", function.handle, number, size_bytes)

    def launch(
        self,
        function: DeviceFunction,
        blocks: int,
        threads: int,
        addresses: Sequence[int],
        dynamic_bytes: int = 0,
    ) -> None:
        """Launch a kernel whose parameters are addresses, after earlier work of the stream."""
        start = bound_launch(
            self.call, function.handle, blocks, threads, dynamic_bytes, addresses, self.stream
        )
        try:
            start()
        except DeviceError as error:
            shape = f"{function.name} on {blocks} blocks of {threads} threads"
            raise type(error)(
                str(error).replace("call cuLaunchKernel", f"launch {shape}", 1)
            ) from None

    def wait(self, what: str = "wait for the GPU") -> None:
        """Wait for all work of the stream; errors of its kernels are raised here."""
        self._call(what, "cuStreamSynchronize", self.stream)

    # Graphs

    def begin_capture(self) -> None:
        """Record later work of the stream instead of running it."""
        self._call("capture a graph", "cuStreamBeginCapture_v2", self.stream, THREAD_LOCAL)

    def end_capture(self) -> int:
        """Return the executable graph of the recorded work."""
        graph = c_void_p()
        self._call("capture a graph", "cuStreamEndCapture", self.stream, byref(graph))
        made = self._handle("make a graph", "cuGraphInstantiateWithFlags", graph, 0)
        self._call("free a graph", "cuGraphDestroy", graph)
        return made

    def drop_capture(self) -> None:
        """End a capture without its graph, after an error."""
        graph = c_void_p()
        self.function("cuStreamEndCapture")(self.stream, byref(graph))
        if graph.value:
            self.function("cuGraphDestroy")(graph)

    def replay(self, graph: int) -> None:
        """Run an executable graph, after earlier work of the stream."""
        self._call("replay a graph", "cuGraphLaunch", graph, self.stream)

    def free_graph(self, graph: int) -> None:
        """Free an executable graph; nothing happens after a fault."""
        if not self.fault:
            self._call("free a graph", "cuGraphExecDestroy", graph)

    # Events

    def event(self) -> int:
        """Return a new event."""
        return self._handle("make an event", "cuEventCreate", 0)

    def record(self, event: int) -> None:
        """Note the time at which all earlier work of the stream has ended."""
        self._call("record an event", "cuEventRecord", event, self.stream)

    def elapsed_s(self, start: int, end: int) -> float:
        """Wait for the later of two recorded events; return the seconds between them."""
        self._call("wait for an event", "cuEventSynchronize", end)
        milliseconds = c_float()
        self._call("read an event", "cuEventElapsedTime", byref(milliseconds), start, end)
        return milliseconds.value * 1e-3

    def free_event(self, event: int) -> None:
        """Free an event; nothing happens after a fault."""
        if not self.fault:
            self._call("free an event", "cuEventDestroy_v2", event)
