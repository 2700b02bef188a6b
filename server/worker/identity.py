"""Who a worker is, in a way that tells whether it still lives."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

HOST_CHARS = 64
STARTED_FIELD = 19  # of /proc/<pid>/stat after the name: start time in clock ticks since boot


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: of all that ever were, one has these four."""

    host: str
    boot: str  # this boot of this host, and the process-id namespace
    pid: int
    started: int  # clock ticks since the boot

    def __str__(self) -> str:
        return f"{self.host}:{self.boot}:{self.pid}:{self.started}"

    @staticmethod
    def current() -> "ProcessIdentity":
        """Return that of this process."""
        pid = os.getpid()
        return ProcessIdentity(socket.gethostname()[:HOST_CHARS], _boot(), pid, _started(pid) or 0)

    @staticmethod
    def of(text: str) -> "ProcessIdentity | None":
        """Return the identity that `str` made; None where it is none."""
        parts = text.rsplit(":", 3)
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return None
        return ProcessIdentity(parts[0], parts[1], int(parts[2]), int(parts[3]))

    def is_gone(self, seen_from: "ProcessIdentity") -> bool:
        """Return whether the process is known to have ended; a distant one never is."""
        if (self.host, self.boot) != (seen_from.host, seen_from.boot):
            return False
        return _started(self.pid) != self.started


def _boot() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    return f"{boot}.{namespace}"


def _started(pid: int) -> int | None:
    """Return when a process started, None where there is none (or only its corpse)."""
    try:
        _, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    return None if fields[0] in "ZX" else int(fields[STARTED_FIELD])
