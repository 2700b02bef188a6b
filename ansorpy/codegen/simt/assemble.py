"""PTX to a cubin by ptxas, and a cubin to SASS by nvdisasm: programs of the extra `cuda`."""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final

from ansorpy.errors import BuildError

BIN: Final = "ANSORPY_CUDA_BIN"  # environment variable: the folder of ptxas and nvdisasm
TIMEOUT_S: Final = 120.0  # limit of one program; kernels of the search take below a second
_PACKAGES: Final = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}
_KERNEL: Final = re.compile(r"Compiling entry function '([^']+)' for")
_FACTS: Final = {
    "registers": re.compile(r"Used (\d+) registers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
    "spill_store_bytes": re.compile(r"(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(\d+) bytes spill loads"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
}


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of a kernel as ptxas states them."""

    registers: int = 0  # count of a thread
    shared_bytes: int = 0  # bytes of a block
    spill_store_bytes: int = 0  # bytes of a thread, as the two below
    spill_load_bytes: int = 0
    stack_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Cubin:
    """The machine code of a module for one architecture, and the resources of its kernels."""

    code: bytes
    arch: str
    kernels: tuple[tuple[str, Resources], ...]

    def resources(self, kernel: str) -> Resources:
        """Return the resources of a kernel by its name."""
        return dict(self.kernels)[kernel]


def assemble(ptx: str, arch: str) -> Cubin:
    """Return the cubin of PTX.

    Raises:
        BuildError: ptxas is not installed, refuses the text, or exceeds its time limit.
    """
    with tempfile.TemporaryDirectory(prefix="ansorpy-ptxas-") as folder:
        Path(folder, "kernel.ptx").write_text(ptx)
        arguments = ("-v", f"-arch={arch}", "kernel.ptx", "-o", "kernel.cubin")
        told = _run("ptxas", arguments, Path(folder), f"assemble for {arch}").stderr
        return Cubin(Path(folder, "kernel.cubin").read_bytes(), arch, resources_of(told))


def disassemble(cubin: Cubin) -> str:
    """Return the SASS of a cubin, with labels (`nvdisasm -c`).

    Raises:
        BuildError: nvdisasm is not installed, or cannot read the cubin.
    """
    with tempfile.TemporaryDirectory(prefix="ansorpy-nvdisasm-") as folder:
        Path(folder, "kernel.cubin").write_bytes(cubin.code)
        return _run("nvdisasm", ("-c", "kernel.cubin"), Path(folder), "disassemble").stdout


def resources_of(output: str) -> tuple[tuple[str, Resources], ...]:
    """Return the resources of each kernel in the output of `ptxas -v`, in its order."""
    _, *parts = _KERNEL.split(output)
    return tuple(
        (name, Resources(**{fact: _number(form, text) for fact, form in _FACTS.items()}))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    )


def program(name: str) -> Path:
    """Return the path of ptxas or nvdisasm: below ANSORPY_CUDA_BIN if set, else of its package.

    Raises:
        BuildError: the program is not there.
    """
    folder = os.environ.get(BIN)
    if folder:
        path = Path(folder, name)
        reason = f"{BIN} has no {name}"
    else:
        path = _in_package(name)
        reason = f"{name} is not installed"
    if not path.is_file():
        raise BuildError(f"cannot assemble because {reason}; expected pip install 'ansorpy[cuda]'")
    return path


def has_assembler() -> bool:
    """Return whether ptxas is installed."""
    try:
        program("ptxas")
    except BuildError:
        return False
    return True


def _in_package(name: str) -> Path:
    try:
        held = files(_PACKAGES[name]) or []
    except PackageNotFoundError:
        return Path()
    return next((Path(str(one.locate())) for one in held if one.name == name), Path())


def _run(
    name: str, arguments: Sequence[str], folder: Path, what: str
) -> subprocess.CompletedProcess[str]:
    command = [str(program(name)), *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False, env={"PATH": "", "TMPDIR": str(folder)},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"cannot {what} because {name} did not end well: {error}") from error
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[:300]
        raise BuildError(f"cannot {what} because {name} refused the code: {words}")
    return done


def _number(form: re.Pattern[str], text: str) -> int:
    found = form.search(text)
    return int(found[1]) if found else 0
