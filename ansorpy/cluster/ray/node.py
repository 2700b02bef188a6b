"""The processes of Ray on a machine of the cluster, started again if they end.

    python -m ansorpy.cluster.ray.node ADDRESS

is a node without slots, which ends with its parent: Ray connects a driver through a node of its own
machine only.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ansorpy.cluster.hours import Hours
from ansorpy.cluster.ray.environment import CORES, FOLDER, HOURS, SLOT, ray_environment
from ansorpy.cluster.shared_slot import BUSY, LEAVING
from ansorpy.errors import SpecError
from ansorpy.parent import end_with_parent

START: Final = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block")
AGAIN_S: Final = 1.0  # seconds until a process that ended is started again
OBJECTS: Final = str(256 << 20)  # bytes of Ray's store of objects; a batch has some 100 KB
END_S: Final = 10.0
GCS: Final = "--gcs-address="
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


def address_towards(cluster: str) -> str:
    """Return the address of this machine from which it reaches a head.

    Raises:
        SpecError: the name of the head is unknown, or no route leads there.
    """
    host, _, port = cluster.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(found[0], found[1]) as probe:
            probe.connect(found[4])  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise SpecError(
            f"cannot reach {cluster} because of {error.strerror!r}; expected HOST:PORT of a"
            " cluster's head"
        ) from error


@contextmanager
def driver_node(cluster: str) -> Iterator[None]:
    """Let this machine have a node of a cluster: its slots, or none as long as this lasts."""
    if any(has_node(command, cluster) for command in _commands()):
        yield
        return
    command = [sys.executable, "-m", "ansorpy.cluster.ray.node", cluster]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def has_node(command: str, cluster: str) -> bool:
    """Return whether a command, its words ended by NUL, runs a node of a cluster."""
    words = [one.removeprefix(GCS) for one in command.split("\0") if one.startswith(GCS)]
    return "raylet/raylet" in command and any(
        _addresses(one) & _addresses(cluster) for one in words
    )


def _addresses(text: str) -> set[tuple[str, str]]:
    """Return the numeric addresses of HOST:PORT; all of the loopback interface are equal."""
    host, _, port = text.rpartition(":")
    with suppress(OSError):
        found = {str(one[4][0]) for one in socket.getaddrinfo(host.strip("[]"), None)}
        return {("here" if one in ("127.0.0.1", "::1") else one, port) for one in found}
    return set()


def _commands() -> Iterator[str]:
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (place / "cmdline").read_text(errors="replace")


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

    A node of Ray does not come back by itself after it lost the head. All processes of its group
    end with it.

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
                raise
            finally:
                with suppress(ProcessLookupError):  # Ray's agents outlive it
                    os.killpg(process.pid, signal.SIGKILL)
        tell(f"Ray ended: {lines[-1].strip() if lines else 'no message'}; it is started again")
        time.sleep(AGAIN_S)


def main() -> None:
    """Run a node without slots."""
    end_with_parent(signal.SIGTERM)
    cluster = sys.argv[1]
    command = slot_command(cluster, 0, "", address_towards(cluster))
    with suppress(KeyboardInterrupt):
        kept_running(command, ray_environment(), lambda text: sys.stderr.write(f"{text}\n"))


if __name__ == "__main__":
    main()
