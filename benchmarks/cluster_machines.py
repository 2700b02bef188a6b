"""Machines of a Ray cluster on this one: processes, or network namespaces with a bridge."""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ansorpy.cluster.bridged import BridgedSlots
from ansorpy.cluster.ray.environment import TOKEN_FILE, ray_environment
from ansorpy.cluster.share import own_share, share_variables

CANDIDATE_S: Final = 0.1  # build and trial of a product of 512 with one thread and one builder
BRIDGE: Final = "anp-bridge"
MODULE: Final = "tests.cluster.formula_slot"
UP_S: Final = 90.0
ROOT: Final = Path(__file__).parent.parent


class Machines:
    """A head and machines with one slot each, as processes or in network namespaces."""

    def __init__(self, way: str, count: int, folder: Path, orders: Mapping[str, Any]) -> None:
        self._orders = orders
        spaces = way == "namespaces"
        token = folder / "token"
        token.write_text(secrets.token_hex(24))
        os.environ[TOKEN_FILE] = str(token)
        self._log = folder / "log"
        host, port = "10.77.0.1" if spaces else "127.0.0.1", f"{free_port()}"
        self.head_at = f"{host}:{port}"
        self.running = [self._start([], "cluster", "head", "--port", port, "--address", host)]
        for k in range(count):
            inside = ["ip", "netns", "exec", f"anp{k}"] if spaces else []
            address = f"10.77.0.{10 + k}" if spaces else host
            words = "slot", "--cluster", self.head_at, "--address", address
            self.running.append(self._start(inside, *words))

    def _start(self, inside: Sequence[str], *words: str) -> "subprocess.Popen[bytes]":
        return started(words, self._orders, self._log, inside)

    def log(self) -> str:
        """Return the newest lines of the machines."""
        return self._log.read_text()[-3000:]

    def close(self) -> None:
        """End all machines, the head last."""
        for one in reversed(self.running):
            one.terminate()
        for one in self.running:
            with suppress(subprocess.TimeoutExpired):
                one.wait(20)


def started(
    words: Sequence[str], orders: Mapping[str, Any], log: Path, inside: Sequence[str] = ()
) -> "subprocess.Popen[bytes]":
    """Start a command of ansorpy, whose slots follow orders."""
    told = json.dumps({"sleep": CANDIDATE_S, **orders})
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ANSORPY_TEST_SLOT": told}
    with log.open("ab") as out:
        return subprocess.Popen(
            [*inside, sys.executable, "-m", "ansorpy", *words], env=env, stdout=out,
            stderr=out, cwd=ROOT, start_new_session=True,
        )  # fmt: skip


def free_port() -> int:
    """Return a port that no program listens on."""
    with socket.create_server(("", 0)) as listening:
        return int(listening.getsockname()[1])


class KeptSlots(BridgedSlots):
    """Slots that outlive a back end."""

    def close(self) -> None:
        """Do nothing: `end` ends them."""

    def end(self) -> None:
        """End the bridge."""
        super().close()


@contextmanager
def namespaces(count: int) -> Iterator[None]:
    """Make network namespaces anp0, anp1, ... that reach this one over a bridge."""
    remove(count)
    ip("link add", BRIDGE, "type bridge")
    ip("addr add 10.77.0.1/24 dev", BRIDGE)
    ip("link set", BRIDGE, "up")
    try:
        for k in range(count):
            ip(f"netns add anp{k}")
            ip(f"link add anpv{k} type veth peer name anpe{k} netns anp{k}")
            ip(f"link set anpv{k} master {BRIDGE} up")
            ip(f"-n anp{k} addr add 10.77.0.{10 + k}/24 dev anpe{k}")
            ip(f"-n anp{k} link set anpe{k} up")
            ip(f"-n anp{k} link set lo up")
        yield
    finally:
        remove(count)


def remove(count: int) -> None:
    """Remove the namespaces, and the bridge."""
    for k in range(count):
        for words in (["link", "del", f"anpv{k}"], ["netns", "del", f"anp{k}"]):
            subprocess.run(["ip", *words], capture_output=True, check=False)
    subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)


def ip(*words: str) -> None:
    """Run the command `ip`."""
    subprocess.run(["ip", *" ".join(words).split()], check=True)


@contextmanager
def clusters(
    way: str, count: int, tenants: Sequence[str], module: str = MODULE, **orders: Any
) -> Iterator[tuple[str, list[KeptSlots]]]:
    """Yield a head, and the slots of its machines for each of several tenants."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if way == "namespaces":
            stack.enter_context(namespaces(count))
        machines = Machines(way, count, folder, orders)
        stack.callback(machines.close)
        found = [kept(machines.head_at, tenant, module) for tenant in tenants]
        for slots in found:
            stack.callback(slots.end)
            if not complete(slots, count):
                raise SystemExit(machines.log())
        yield machines.head_at, found


def kept(head: str, tenant: str, module: str) -> KeptSlots:
    """Return the slots of a head."""
    environment = {**ray_environment(), "PYTHONPATH": str(ROOT)}
    return KeptSlots(head, environment, own_share(share_variables(tenant, 0, "")), module)


@contextmanager
def cluster(way: str, count: int) -> Iterator[KeptSlots]:
    """Yield the slots of machines, once all are there."""
    with clusters(way, count, ["one"]) as (_, (slots,)):
        yield slots


def complete(slots: KeptSlots, count: int) -> bool:
    """Wait until there are as many slots; return whether they came."""
    end_s = time.monotonic() + UP_S
    while len(slots.present()) < count and time.monotonic() < end_s:
        time.sleep(0.1)
    return len(slots.present()) == count
