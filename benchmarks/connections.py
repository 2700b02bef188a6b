"""The service under an attack on its connections.

    python -m benchmarks.connections [--connections 5000] [--seconds 60] [--opened-per-s 600]

Runs `ansorpy serve` without a worker and attacks it from another process, on loopback only: a third
of the connections send half a header and nothing more, a third send their header one byte a second,
a third send one whole request and rest. Half of them come from 127.0.0.1, half from 250 other
loopback addresses. A connection that the service closes is opened again a second later, at most
`opened-per-s` in all. Meanwhile `/healthz` is asked for 20 times a second, each time on a new
connection. The output has its times and statuses, and the growth of the log. Exit code 1: the 99th
percentile is not below 50 ms, a request failed, or the log grew by a megabyte.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.common import duration, say, table
from benchmarks.machine import cpu_model
from benchmarks.served import LOOPBACK, Served, Service, serving, timed_gets

GOAL_S: Final = 0.05
GOAL_BYTES: Final = 1_000_000
MOST_CONNECTIONS: Final = 20_000
MOST_SECONDS: Final = 600.0
ADDRESSES: Final = 250
HALF: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
KINDS: Final = ("half-open", "slow", "idle")
AGAIN_S: Final = 1.0


@dataclass
class Attack:
    """A running attack, in a process of its own."""

    port: int
    connections: int
    end_s: float
    pause_s: float  # seconds between two opened connections
    counts: Counter[str] = field(default_factory=Counter)
    peak: int = 0
    _next_s: float = 0.0

    async def run(self) -> None:
        """Attack until `end_s`."""
        await asyncio.gather(*(self._one(number) for number in range(self.connections)))

    async def _one(self, number: int) -> None:
        kind = KINDS[number % 3]
        rest = number // 2 % ADDRESSES
        source = LOOPBACK if number % 2 else f"127.1.{rest // 200}.{rest % 200 + 1}"
        while time.monotonic() < self.end_s:
            await self._turn()
            if time.monotonic() >= self.end_s:
                return
            try:
                reader, writer = await asyncio.open_connection(
                    LOOPBACK, self.port, local_addr=(source, 0)
                )
            except OSError as error:
                self.counts[f"{kind}: not opened ({type(error).__name__})"] += 1
                await asyncio.sleep(AGAIN_S)
                continue
            self.counts[f"{kind}: opened"] += 1
            self.counts["open"] += 1
            self.peak = max(self.peak, self.counts["open"])
            await self._hold(kind, reader, writer)
            self.counts["open"] -= 1
            await asyncio.sleep(AGAIN_S)

    async def _turn(self) -> None:
        """Wait until the next connection may be opened."""
        now_s = time.monotonic()
        self._next_s = max(self._next_s + self.pause_s, now_s)
        await asyncio.sleep(self._next_s - now_s)

    async def _hold(
        self, kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Keep a connection open until the service closes it, or the attack ends."""
        try:
            async with asyncio.timeout(max(0.0, self.end_s - time.monotonic())):
                writer.write(HALF + (b"x\r\n\r\n" if kind == "idle" else b""))
                while kind == "slow" and not reader.at_eof():
                    await writer.drain()
                    await asyncio.sleep(1.0)
                    writer.write(b"x")
                while await reader.read(65536):
                    pass
            self.counts[f"{kind}: closed by the service"] += 1
        except TimeoutError:
            pass
        except OSError:
            self.counts[f"{kind}: closed by the service"] += 1
        finally:
            writer.transport.abort()


def attack(options: argparse.Namespace) -> None:
    """Attack from this process; print the counts as JSON."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    end_s = time.monotonic() + options.seconds
    pause_s = 1.0 / options.opened_per_s

    async def run() -> Attack:
        made = Attack(options.port, options.connections, end_s, pause_s)
        await made.run()
        return made

    made = asyncio.run(run())
    sys.stdout.write(json.dumps({"peak": made.peak, **made.counts}))


@dataclass
class Watch:
    """Maximum memory and number of descriptors of the service."""

    service: Service
    resident_bytes: int = 0
    descriptors: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Sample once a second until `stop`."""
        while not self._stop.wait(1.0):
            self.resident_bytes = max(self.resident_bytes, self.service.resident_bytes())
            self.descriptors = max(self.descriptors, self.service.descriptors())

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()


def attacked(service: Service, options: argparse.Namespace) -> tuple[Served, dict[str, int], Watch]:
    """Request /healthz while the service is attacked."""
    command = [
        sys.executable, "-m", "benchmarks.connections", "--port", str(service.port),
        "--connections", str(options.connections), "--seconds", str(options.seconds),
        "--opened-per-s", str(options.opened_per_s),
    ]  # fmt: skip
    watch = Watch(service)
    watching = threading.Thread(target=watch.run)
    watching.start()
    attacker = subprocess.Popen(command, stdout=subprocess.PIPE)
    served = timed_gets(service.port, "/healthz", options.seconds, 0.05)
    told, _ = attacker.communicate(timeout=60)
    watch.stop()
    watching.join()
    return served, json.loads(told), watch


def told(quiet: Served, served: Served, counts: dict[str, int], watch: Watch, grown: int) -> str:
    """Return the table."""
    facts = {
        "connections open at once, of the attacker": counts.pop("peak"),
        "requests of /healthz, by status": str(served.statuses),
        "median, quiet / attacked": f"{duration(quiet.quantile_s(0.5))} / "
        f"{duration(served.quantile_s(0.5))}",
        "99th percentile, quiet / attacked": f"{duration(quiet.quantile_s(0.99))} / "
        f"{duration(served.quantile_s(0.99))}",
        "slowest, attacked": duration(max(served.durations_s)),
        "log, bytes": grown,
        "memory of the service, MiB": watch.resident_bytes >> 20,
        "descriptors of the service": watch.descriptors,
        **{name: count for name, count in sorted(counts.items()) if name != "open"},
    }
    rows = [{"name": name, "value": value} for name, value in facts.items()]
    return table(rows, {"attack": lambda row: row["name"], "": lambda row: row["value"]})


def main() -> int:
    """Attack a service and print the table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--opened-per-s", type=float, default=600.0)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.connections = min(options.connections, MOST_CONNECTIONS)
    options.seconds = min(options.seconds, MOST_SECONDS)
    if options.port:
        attack(options)
        return 0
    environment = {"ANSORPY_EMBEDDED_WORKER": "0"}
    with (
        tempfile.TemporaryDirectory(prefix="ansorpy-connections-") as folder,
        serving(Path(folder), environment) as service,
    ):
        quiet = timed_gets(service.port, "/healthz", 5.0, 0.05)
        before = service.log_bytes()
        served, counts, watch = attacked(service, options)
        grown = service.log_bytes() - before
    say(f"{cpu_model()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    say(told(quiet, served, counts, watch, grown))
    failed = sum(count for status, count in served.statuses.items() if status != 200)
    return int(failed > 0 or served.quantile_s(0.99) >= GOAL_S or grown >= GOAL_BYTES)


if __name__ == "__main__":
    sys.exit(main())
