"""The service with many event streams open.

    python -m benchmarks.streams [--streams 1000] [--jobs 50] [--events-per-s 10] [--seconds 30]

Runs `ansorpy serve` without a worker, opens `streams` event streams of `jobs` waiting jobs from
another process, and pauses and resumes jobs in turn, `events-per-s` times a second: each time all
streams of the job are sent an event. Meanwhile `GET /v1/jobs` is requested 20 times a second, each
time on a new connection. The output has its times, and whether every stream was sent every event of
its job. Exit code 1: the 99th percentile is not below 100 ms, or an event or a stream is missing.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ansorpy.client import Client
from benchmarks.common import duration, say, table
from benchmarks.machine import cpu_model
from benchmarks.served import LOOPBACK, Served, Service, serving, timed_gets

GOAL_S: Final = 0.1
MOST_STREAMS: Final = 10_000
OPEN_S: Final = 120.0
LAST_S: Final = 10.0  # seconds for the last events to arrive
RATE: Final = "1000000000/second"  # far above the load: the rate limit itself is not measured
TEXT: Final = "def f{}(float(64) A) -> (B) {{ B(i) = A(i) + 1 }}"


class Followers:
    """Open streams in a process of their own."""

    def __init__(self, port: int, jobs: Sequence[str], streams: int) -> None:
        self.port = port
        self.jobs = jobs
        self.streams = streams
        self.numbers: list[list[int]] = [
            [] for _ in range(streams)
        ]  # numbers of the events of each stream
        self.opened = 0
        self.failed = 0

    async def run(self) -> None:
        """Open the streams, follow them until standard input ends, print the counts."""
        tasks = [asyncio.create_task(self._follow(number)) for number in range(self.streams)]
        end_s = time.monotonic() + OPEN_S
        while self.opened + self.failed < self.streams and time.monotonic() < end_s:
            await asyncio.sleep(0.05)
        sys.stdout.write(f"{self.opened}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        told = {"ended": self.failed, "numbers": self.numbers}
        sys.stdout.write(json.dumps(told))

    async def _follow(self, number: int) -> None:
        await asyncio.sleep(number * 0.01)  # seconds: a hundred streams are opened per second
        job = self.jobs[number % len(self.jobs)]
        begun = False
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
            writer.write(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            async for line in reader:
                if line.startswith(b"id: "):
                    self.numbers[number].append(int(line[4:]))
                    self.opened += not begun
                    begun = True
        except OSError:
            pass
        self.failed += 1  # a stream ends by itself only if something is wrong


def steer(client: Client, jobs: Sequence[str], per_s: float, stop: threading.Event) -> None:
    """Pause and resume jobs in turn, so that each has events."""
    turn = 0
    while not stop.wait(1.0 / per_s):
        job = jobs[turn % len(jobs)]
        (client.pause if turn // len(jobs) % 2 == 0 else client.resume)(job)
        turn += 1


def measured(service: Service, options: argparse.Namespace) -> tuple[Served, dict[str, object]]:
    """Request the list of jobs while the streams are open and events happen."""
    with Client(service.url, attempts=1) as client:
        jobs = [
            client.submit(TEXT.format(number), trials=8, fresh=True).id
            for number in range(options.jobs)
        ]
        command = [
            sys.executable, "-m", "benchmarks.streams", "--port", str(service.port),
            "--streams", str(options.streams), "--ids", *jobs,
        ]  # fmt: skip
        followers = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert followers.stdout is not None
        opened = int(followers.stdout.readline())
        stop = threading.Event()
        steering = threading.Thread(target=steer, args=(client, jobs, options.events_per_s, stop))
        steering.start()
        served = timed_gets(service.port, "/v1/jobs", options.seconds, 0.05)
        stop.set()
        steering.join()
        resident = service.resident_bytes()
        time.sleep(LAST_S)
        out, _ = followers.communicate(timeout=60)
        wanted = [list(range(1, client.job(job).events + 1)) for job in jobs]
    found = json.loads(out)
    complete = sum(
        numbers == wanted[index % len(jobs)] for index, numbers in enumerate(found["numbers"])
    )
    return served, {
        "streams opened": opened,
        "streams that ended by themselves": found["ended"],
        "streams that were sent every event of their job": complete,
        "events sent": sum(map(len, found["numbers"])),
        "memory of the service, MiB": resident >> 20,
    }


def main() -> int:
    """Open the streams, time requests, print the table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--events-per-s", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ids", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.streams = min(options.streams, MOST_STREAMS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.port:
        asyncio.run(Followers(options.port, options.ids, options.streams).run())
        return 0
    streams = str(options.streams)
    environment = {
        "ANSORPY_EMBEDDED_WORKER": "0", "ANSORPY_READ_RATE": RATE, "ANSORPY_TUNE_RATE": RATE,
        "ANSORPY_MAX_EVENT_STREAMS": streams, "ANSORPY_MAX_EVENT_STREAMS_IN_ALL": streams,
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory(prefix="ansorpy-streams-") as folder,
        serving(Path(folder), environment) as service,
    ):
        quiet = timed_gets(service.port, "/v1/jobs", 5.0, 0.05)
        served, facts = measured(service, options)
    times = {
        f"GET /v1/jobs, {name}, quiet / with streams": f"{duration(quiet.quantile_s(share))} / "
        f"{duration(served.quantile_s(share))}"
        for name, share in (("median", 0.5), ("99th percentile", 0.99), ("slowest", 1.0))
    }
    facts = {"requests, by status": str(served.statuses), **times, **facts}
    say(f"{cpu_model()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    rows = [{"name": name, "value": value} for name, value in facts.items()]
    say(table(rows, {"streams": lambda row: row["name"], "": lambda row: row["value"]}))
    held = set(served.statuses) == {200} and served.quantile_s(0.99) < GOAL_S
    complete = facts["streams that were sent every event of their job"] == options.streams
    return int(not held or not complete)


if __name__ == "__main__":
    sys.exit(main())
