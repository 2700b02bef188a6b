"""Link object files to a shared library with a linker of this machine."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# Tried in this order. Compilers know where libc is; plain `ld` leaves its few names to the process.
LINKERS: Final[tuple[tuple[str, ...], ...]] = (
    ("cc", "-shared", "-nostartfiles", "-Wl,-z,noexecstack,-z,now,--build-id=none,--no-undefined"),
    ("gcc", "-shared", "-nostartfiles", "-Wl,-z,noexecstack,-z,now,--build-id=none,--no-undefined"),
    ("clang", "-shared", "-nostartfiles", "-Wl,-z,noexecstack,-z,now,--no-undefined"),
    ("ld", "-shared", "-z", "noexecstack", "-z", "now", "--build-id=none"),
)
# pow, fmod, functions of float64, sin and cos of large angles; other kernels do not depend on it.
MATHEMATICS: Final = ("-Wl,--as-needed", "-lm")
BY_HAND: Final = "cc -shared -o libkernel.so kernel.o -lm"
TIMEOUT_S: Final = 60.0


def link(codes: Sequence[bytes], linkers: Sequence[Sequence[str]] = LINKERS) -> bytes | str:
    """Return the shared library of object files, or the reason of a failure in one line."""
    linker = next((line for line in linkers if shutil.which(line[0])), None)
    if linker is None:
        tried = ", ".join(line[0] for line in linkers)
        return f"no linker on this machine (looked for {tried}); link it with: {BY_HAND}"
    with tempfile.TemporaryDirectory(prefix="ansorpy-link-") as folder:
        library = Path(folder) / "libkernel.so"
        sources = [Path(folder) / f"kernel{number}.o" for number in range(len(codes))]
        for source, code in zip(sources, codes, strict=True):
            source.write_bytes(code)
        names = [source.name for source in sources]
        rest = () if linker[0] == "ld" else MATHEMATICS
        command = [*linker, "-o", library.name, *names, *rest]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{linker[0]} did not link it: {error}"
        if done.returncode or not library.exists():
            words = " ".join((done.stderr or done.stdout).split())[:300]
            return f"{linker[0]} did not link it: {words}"
        return library.read_bytes()
