"""Identity of a process, from which other processes can tell whether it has ended."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

HOST_CHARS = 64
STARTED_FIELD = 19  # field of /proc/<pid>/stat after the name: start time in ticks since boot


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Globally unique identity of a process."""

    host: str
    boot: str  # id of the boot of the host, and of the process-id namespace
    pid: int
    started: int  # clock ticks since the boot

    def __str__(self) -> str:
        return f"{self.host}:{self.boot}:{self.pid}:{self.started}"

    @staticmethod
    def current() -> "ProcessIdentity":
        """Return the identity of this process."""
        pid = os.getpid()
        return ProcessIdentity(socket.gethostname()[:HOST_CHARS], _boot(), pid, _started(pid) or 0)

    @staticmethod
    def of(text: str) -> "ProcessIdentity | None":
        """Parse the result of `str`; return None for any other text."""
        parts = text.rsplit(":", 3)
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return None
        return ProcessIdentity(parts[0], parts[1], int(parts[2]), int(parts[3]))

    def is_gone(self, seen_from: "ProcessIdentity") -> bool:
        """Return whether the process has ended; always False for processes of other machines."""
        if (self.host, self.boot) != (seen_from.host, seen_from.boot):
            return False
        return _started(self.pid) != self.started


def _boot() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    return f"{boot}.{namespace}"


def _started(pid: int) -> int | None:
    """Return the start time of a process, or None if it does not exist or is a zombie."""
    try:
        _, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    return None if fields[0] in "ZX" else int(fields[STARTED_FIELD])
