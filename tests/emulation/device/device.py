"""The driver's functions on emulated hardware, called as the library is: through C signatures.

Calls end with the codes of the real driver. A kernel is checked before it starts: each of its
addresses must lie in an allocation, else it is the fault of an illegal address. Inside of a
kernel, memory is memory of this process. Images of modules are LLVM text.
"""

import ctypes
import re
from collections.abc import Callable
from ctypes import c_int
from types import SimpleNamespace
from typing import Any, Final

from ansorpy.codegen.simt.device.functions import SIGNATURES, Library
from tests.emulation.device.devices import DeviceCalls
from tests.emulation.device.memory import MemoryCalls
from tests.emulation.device.modules import ModuleCalls
from tests.emulation.device.state import INVALID_CONTEXT, NOT_INITIALIZED, UNKNOWN
from tests.emulation.device.streams import StreamCalls

_BEFORE_CONTEXT: Final = ("cuInit", "cuDriver", "cuDevice", "cuCtx", "cuGetError")


class EmulatedDevice(DeviceCalls, MemoryCalls, ModuleCalls, StreamCalls):
    """One emulated GPU behind C functions."""

    def library(self) -> Library:
        """Return the driver library: every function as a C function of its signature."""
        made = SimpleNamespace()
        for name, types in SIGNATURES.items():
            method = getattr(self, method_name(name))
            function = ctypes.CFUNCTYPE(c_int, *types)(self._guarded(name, method))
            setattr(made, name, function)
        return made

    def _guarded(self, name: str, method: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if name.startswith("cuGetError"):
                return method(*arguments)
            if not self._started and name != "cuInit":
                return NOT_INITIALIZED
            if not self._has_context and not name.startswith(_BEFORE_CONTEXT):
                return INVALID_CONTEXT
            if self._fault:
                return self._fault
            try:
                return method(*arguments)
            except Exception:  # noqa: BLE001 - no exception may cross the C function
                return UNKNOWN

        return call


def method_name(function: str) -> str:
    """Return the name of the method of a function: `_mem_alloc` of `cuMemAlloc_v2`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", function.removeprefix("cu").removesuffix("_v2"))
    return f"_{words.lower()}"
