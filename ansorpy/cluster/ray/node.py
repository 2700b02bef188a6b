"""The processes of Ray on a machine of the cluster, started again if they end."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ansorpy.cluster.hours import Hours
from ansorpy.cluster.ray.environment import CORES, FOLDER, HOURS, SLOT, ray_environment
from ansorpy.cluster.shared_slot import BUSY, LEAVING

START: Final = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block")
AGAIN_S: Final = 1.0  # seconds until a process that ended is started again
OBJECTS: Final = str(256 << 20)  # bytes of Ray's store of objects; a batch has some 100 KB
END_S: Final = 10.0
LEAVE_S: Final = 15.0  # seconds in which slots give their work back


def head_command(port: int, host: str = "") -> list[str]:
    """Return the command of the head: it measures nothing."""
    address = [f"--node-ip-address={host}"] if host else []
    return [
        *START, "--head", f"--port={port}", *address, "--num-cpus=0", "--include-dashboard=false",
        "--disable-usage-stats", f"--object-store-memory={OBJECTS}",
    ]  # fmt: skip


def slot_command(cluster: str, count: int, kind: str, host: str = "") -> list[str]:
    """Return the command of a machine with `count` slots of a kind of target."""
    address = [f"--node-ip-address={host}"] if host else []
    resources = {f"{SLOT}{place}": 1 for place in range(count)}
    return [
        *START, f"--address={cluster}", *address, "--num-cpus=0", "--disable-usage-stats",
        f"--resources={json.dumps(resources)}",
        f"--labels=ansorpy.kind={kind},ansorpy.version={version('ansorpy')}",
        f"--object-store-memory={OBJECTS}",
    ]  # fmt: skip


def slot_environment(sets: Sequence[Sequence[int]], hours: str, folder: Path) -> dict[str, str]:
    """Return the environment of a machine's processes, for its slots.

    Args:
        sets: core sets.
        hours: as `Hours`.
        folder: of this machine, for `leave`.

    Raises:
        SpecError: the hours have another form, or there is no secret.
    """
    Hours(hours)
    told = "/".join(",".join(map(str, one)) for one in sets)
    return {**ray_environment(), CORES: told, HOURS: hours, FOLDER: str(folder)}


def leave(folder: Path) -> None:
    """Let the slots of this machine give their work back."""
    (folder / LEAVING).touch()
    end_s = time.monotonic() + LEAVE_S
    while any(folder.glob(f"{BUSY}*")) and time.monotonic() < end_s:
        time.sleep(0.1)


def kept_running(
    command: Sequence[str],
    environment: Mapping[str, str],
    tell: Callable[[str], object],
    before_end: Callable[[], object] = lambda: None,
) -> None:
    """Run a command, and again whenever it ends; a KeyboardInterrupt or SIGTERM ends it.

    A node of Ray does not come back by itself after it lost the head.

    Args:
        before_end: called before a process is ended.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    while True:
        with subprocess.Popen(
            command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, text=True,
        ) as process:  # fmt: skip
            try:
                assert process.stdout is not None
                lines = [line for line in process.stdout if line.strip()]
                process.wait()
            except KeyboardInterrupt:
                before_end()
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(END_S)
                process.kill()
                raise
        tell(f"Ray ended: {lines[-1].strip() if lines else 'no message'}; it is started again")
        time.sleep(AGAIN_S)
