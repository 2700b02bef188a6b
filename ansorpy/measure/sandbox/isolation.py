"""Isolation levels of this machine, and the directives for each measuring process."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from ansorpy.errors import RunError
from ansorpy.measure.sandbox import landlock, seccomp

Mode = Literal["auto", "required", "off"]

PROBE_S: Final = 10.0
BWRAP: Final = (
    "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
)  # fmt: skip
SIZED: Final = ("--size", "4096", "--tmpfs", "/tmp")  # bubblewrap 0.8


@dataclass(frozen=True, slots=True)
class Isolation:
    """The levels available here: path of bwrap, version of Landlock, whether seccomp filters."""

    bwrap: str = ""
    landlock: int = 0
    seccomp: bool = False

    @property
    def isolates(self) -> bool:
        """True if a candidate can reach neither the network nor files of other users."""
        return bool(self.bwrap) or (self.landlock > 0 and self.seccomp)

    def orders(
        self,
        folder: str,
        programs: bool,
        binds: bool,
        reads: Sequence[str],
        early: str,
        seeds: str,
        devices: Sequence[str] = (),
    ) -> Mapping[str, Any]:
        """Return the directives of a fork server and its children.

        Args:
            folder: the scratch folder, the only writable folder.
            programs: whether a child may start others: a linker.
            binds: whether a child may choose its cores.
            reads: folders that a child may read as well.
            early: a folder that a child may write until its first candidate, if any.
            seeds: a folder that is copied into the scratch folder of each child, if any.
            devices: device nodes that a child may use (see `sandbox.devices`).
        """
        own = folder != "/"
        return {
            "landlock": self.landlock > 0, "seccomp": self.seccomp, "folder": folder,
            "programs": programs, "binds": binds, "reads": list(reads),
            "early": early, "seeds": seeds, "devices": list(devices),
            "scratch": own and self.isolates and not self.bwrap,
            "counted": own and not self.bwrap,
        }  # fmt: skip

    def wrap(
        self,
        command: Sequence[str],
        folder: str,
        folder_bytes: int,
        early: str,
        devices: Sequence[str] = (),
    ) -> list[str]:
        """Return the command inside of bubblewrap; `folder` is new, empty and of that size."""
        if not self.bwrap:
            return list(command)
        own = [] if folder == "/" else ["--size", str(folder_bytes), "--tmpfs", folder]
        shared = ["--bind", early, early] if early else []
        shared += [word for node in devices for word in ("--dev-bind", node, node)]
        return [self.bwrap, *BWRAP, *own, *shared, "--chdir", folder, "--", *command]


def isolation_for(mode: Mode) -> Isolation:
    """Return the levels to use.

    Raises:
        RunError: isolation is required, and this machine has none.
    """
    if mode == "off":
        return Isolation()
    isolation = _here()
    if mode == "required" and not isolation.isolates:
        raise RunError(
            "cannot isolate candidates because there is neither bubblewrap (`apt-get install"
            " bubblewrap`) nor Landlock with seccomp (Linux 5.13, x86-64 or arm64); expected one of"
            " them in mode `required`"
        )
    return isolation


@cache
def _here() -> Isolation:
    return Isolation(_bwrap(), landlock.version(), seccomp.supported())


def _bwrap() -> str:
    """Return the path of bubblewrap if it works here; in a container it may fail."""
    program = shutil.which("bwrap")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *BWRAP, *SIZED, "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=PROBE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return program if done.returncode == 0 else ""
