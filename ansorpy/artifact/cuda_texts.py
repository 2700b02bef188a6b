"""The Python files in a zip of kernels for a GPU: `driver.py`, `reference.py` and `kernel.py`."""

from typing import Final

from ansorpy.artifact.kernel_file import MARKER, below
from ansorpy.codegen.simt.source import array_dtype, kernel_source
from ansorpy.loopir.nodes import Program, Scope
from ansorpy.target import Target

_DRIVER_DOC: Final = '''"""Kernels for a GPU, run by NVIDIA's driver: needs numpy and libcuda.so.1.

    import driver
    driver.run(...)                           NumPy arrays, or arrays of the device
    driver.DeviceRunner(folder, number=1)     the kernels on another device
    python driver.py --selftest --bench
"""

import ctypes
import importlib.util
import json
import weakref
from pathlib import Path
from typing import Self'''
_DRIVER_MAIN: Final = """\
RUNNER = DeviceRunner(Path(__file__).parent)
run = RUNNER.run
prepare = RUNNER.prepare

if __name__ == "__main__":
    raise SystemExit(RUNNER.main())
"""
_PARTS: Final = (
    ("ansorpy.artifact", "harness.py", MARKER, "harness, the same in every zip"),
    ("ansorpy.codegen.simt", "driver.py", "# --- driver: the same in every zip for a GPU ---\n",
     "NVIDIA's driver"),
    ("ansorpy.artifact", "device_arrays.py",
     "# --- device arrays: the same in every zip for a GPU ---\n", "arrays of a device"),
    ("ansorpy.artifact", "device_runner.py",
     "# --- device runner: the same in every zip for a GPU ---\n", "kernels on a device"),
)  # fmt: skip


def driver_text() -> str:
    """Return `driver.py`, the same text in every zip of a version."""
    parts = [
        f"# {'-' * 30} {title}\n{below(package, name, marker).strip()}"
        for package, name, marker, title in _PARTS
    ]
    return "\n\n\n".join([_DRIVER_DOC, *parts, _DRIVER_MAIN])


_PLAIN_DOC: Final = '''"""Kernels for a GPU in a plain form: needs numba with its CUDA target.

    python kernel.py --selftest

The same kernels as in kernel.ptx, to read, to change and to compile elsewhere. They are slower:
driver.py beside this file runs kernel.ptx or a cubin. Calls copy all arrays to the device and back.
"""

'''
_PLAIN_MAIN: Final = '''

import importlib.util
from pathlib import Path

{arrays}


def beside(name):
    """Return the module of a file in this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{{name}}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(*arrays):
    """Run the timed kernels on arrays of the host."""
    launched(arrays, False)


def ahead(*arrays):
    """Run the kernels that depend on weights and constants only."""
    launched(arrays, True)


def launched(arrays, early):
    """Copy arrays to the device, run kernels, and copy written arrays back."""
    views = [array.reshape(-1).view(kind) for array, (kind, _) in zip(arrays, ARRAYS)]
    there = [cuda.to_device(view) for view in views]
    for kernel, blocks, threads, reads_constants in LAUNCHES:
        if reads_constants is early:
            kernel[blocks, threads](*there)
    for view, copy, (_, written) in zip(views, there, ARRAYS):
        if written:
            copy.copy_to_host(view)


RUNNER = beside("driver").host_runner(Path(__file__).parent, launch, ahead)
run = RUNNER.run
prepare = RUNNER.prepare

if __name__ == "__main__":
    raise SystemExit(RUNNER.main())
'''


def plain_text(program: Program, target: Target) -> str:
    """Return `kernel.py`; names of users are not in it.

    Raises:
        BuildError: a part of the program has no plain form.
    """
    written = (Scope.OUTPUT, Scope.GLOBAL)
    listed = [
        f"    ({array_dtype(one.dtype)!r}, {one.scope in written}),".replace("'", '"')
        for one in program.buffers
    ]
    arrays = "\n".join(["ARRAYS = (  # dtype of each, and whether kernels write it", *listed, ")"])
    return _PLAIN_DOC + kernel_source(program, target) + _PLAIN_MAIN.format(arrays=arrays)
