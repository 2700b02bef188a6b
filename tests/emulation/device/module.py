"""A module of the emulated driver: the LLVM text of one kernel, compiled for this processor."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ansorpy.codegen.simt.emulator.host_text import BYTES
from ansorpy.codegen.simt.emulator.loader import EmulatedKernel, build_texts
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Const
from ansorpy.gpus import PRESETS
from ansorpy.loopir.nodes import Buffer, Scope
from tests.emulation.device.facts import ARCH

STATIC_BYTES: Final = 48 * 1024  # shared memory of a block without the attribute of its kernel
_GPU: Final = PRESETS[ARCH]
_KERNEL: Final = re.compile(r"^define ptx_kernel void @([\w.]+)\((.*)\)[^()]*$", re.MULTILINE)
_MOST_THREADS: Final = re.compile(r'"nvvm\.maxntid"="(\d+)"')
_SHARED: Final = re.compile(r"addrspace\(3\) global \[(\d+) x (\w+)\]")


class EmulatedModule:
    """One kernel: its name, the count of its parameters, its bounds.

    Raises:
        BuildError: the text has not one kernel, or the emulator refuses it.
    """

    def __init__(self, text: str) -> None:
        found = _KERNEL.search(text)
        if found is None:
            raise BuildError("cannot load a module because it is no LLVM text of a kernel")
        self.name, listed = found[1], found[2]
        self.parameters = listed.count("ptr addrspace(1)")
        bound = _MOST_THREADS.search(text)
        self.max_threads = int(bound[1]) if bound else _GPU.max_threads_per_block
        held = sum(int(n) * BYTES.get(kind, 1) for n, kind in _SHARED.findall(text))
        self.dynamic_bytes = held if held > STATIC_BYTES else 0  # as `with_dynamic_memory` has it
        self.shared_bytes = held - self.dynamic_bytes
        buffers = tuple(
            Buffer(f"p{k}", "float32", (Const(1),), Scope.GLOBAL) for k in range(self.parameters)
        )
        launch = Launch(self.name, 1, min(self.max_threads, 32), held)
        self._built = build_texts(SimtCode((text,), (launch,), buffers))
        self._kernels: dict[tuple[int, int], EmulatedKernel] = {}

    def kernel(self, blocks: int, threads: int) -> EmulatedKernel:
        """Return the kernel for a launch of this shape."""
        if (blocks, threads) not in self._kernels:
            launch = replace(self._built.launches[0], blocks=blocks, threads=threads)
            made = EmulatedKernel(replace(self._built, launches=(launch,)))
            self._kernels[blocks, threads] = made
        return self._kernels[blocks, threads]


class EmulatedFunction:
    """A kernel and the dynamic shared memory that it may be given."""

    def __init__(self, module: EmulatedModule) -> None:
        self.module = module
        self._dynamic_bytes = STATIC_BYTES - module.shared_bytes

    @property
    def attributes(self) -> Mapping[str, int]:
        """Attributes by name; this processor has no registers of threads."""
        return {
            "max_threads": self.module.max_threads,
            "shared_bytes": self.module.shared_bytes,
            "local_bytes": 0,
            "registers": 0,
            "max_dynamic_bytes": self._dynamic_bytes,
        }

    def allow(self, dynamic_bytes: int) -> bool:
        """Permit so much dynamic shared memory; return whether a block can have it."""
        fits = 0 <= dynamic_bytes <= _GPU.shared_bytes_per_block - self.module.shared_bytes
        if fits:
            self._dynamic_bytes = dynamic_bytes
        return fits

    def fits(self, threads: int, dynamic_bytes: int) -> bool:
        """Return whether a block of this shape can be launched."""
        enough = self.module.dynamic_bytes <= dynamic_bytes <= self._dynamic_bytes
        return threads <= self.module.max_threads and enough

    def run(self, blocks: int, threads: int, addresses: Sequence[int]) -> None:
        """Run all blocks.

        Raises:
            RunError: threads of a block do not meet.
        """
        self.module.kernel(blocks, threads).run(addresses)
