"""The service under requests that ask for much.

    python -m benchmarks.hostile [--requests 50] [--streams 1000] [--leaving 1000]

Runs `ansorpy serve` without a worker, and in turn sends it, each kind at once:

- templates whose splits name a loop twice, or hundreds of times, and schedules of one long line;
- equal explanations of a job whose derivation takes longer than is allowed;
- event streams of one tenant;
- requests whose clients leave in the middle of the body.

Meanwhile `GET /v1/jobs` is requested 20 times a second, each time on a new connection. Exit code 1:
beside the jobs its 99th percentile is 0.1 s above the quiet service's, an explanation is
answered more than a second after the first, another number of streams than the limit of a tenant is
open, or the log has a traceback.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeAlias

from ansorpy.client import Client
from benchmarks.common import duration, say, table
from benchmarks.machine import cpu_model
from benchmarks.served import LOOPBACK, Served, Service, serving, timed_gets

GOAL_S: Final = 0.1  # delay of GET /v1/jobs beside the quiet service
SAME_S: Final = 1.0  # from the first answer of equal explanations to the last
EQUAL: Final = 12  # explanations at once
LIMIT: Final = 64  # event streams of a tenant
QUIET_S: Final = 5.0  # seconds of requests to the quiet service
PIECE_S: Final = 0.2  # seconds of requests between two checks for the end of the attack
RATE: Final = "1000000000/second"  # far above the load: the rate limit itself is not measured
LONG: Final = 2**31 - 1
SUM: Final = (
    "def f(float(4) A) -> (B) {{ B(i) +=! A((i + k) % 4) where i in 0:4, k in 0:{extent} }}"
)

Attack: TypeAlias = Callable[..., Counter[str]]


def bodies() -> list[dict[str, Any]]:
    """Return the bodies of hostile jobs."""
    text = SUM.format(extent=LONG)
    splits = ("B.k@k", "B." + "@".join(["k"] * 500), "B.i@k", "B.k")
    made: list[dict[str, Any]] = [
        {"text": text, "mode": "template", "template": {"knobs": {"t": knob}, "steps": []}}
        for split in splits
        for knob in ({"split": split, "num_outputs": 2}, {"split": split, "num_outputs": 8})
    ]
    gap = " " * 60_000
    return [*made, {"text": text, "mode": "manual", "schedule": f"B{gap}B"}]


def wide(products: int = 6, before: int = 100) -> str:
    """Return a task of independent products behind many stages: many sketches, each of many."""
    lines = [f"U{n}(i,j) = {f'U{n - 1}' if n else 'A'}(i,j) + 1" for n in range(before)]
    for n in range(products):
        lines += [f"T{n}(i,j) +=! U{before - 1}(i,k) * B{n}(k,j)", f"R{n}(i,j) = max(T{n}(i,j), 0)"]
    total = " + ".join(f"R{n}(i,j)" for n in range(products))
    given = ", ".join(f"float(64,64) B{n}" for n in range(products))
    return f"def net(float(64,64) A, {given}) -> (S) {{ {' '.join(lines)} S(i,j) = {total} }}"


def beside(service: Service, attack: Attack, *given: object) -> tuple[Served, Counter[str]]:
    """Request the list of jobs while an attack runs in a process of its own; return its counts."""
    statuses: Counter[int] = Counter()
    times_s: list[float] = []
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(os.getpid).result()  # the process runs, its modules are imported
        attacking = pool.submit(attack, service, *given)
        while not attacking.done():
            served = timed_gets(service.port, "/v1/jobs", PIECE_S, 0.05)
            statuses.update(served.statuses)
            times_s += served.durations_s
        return Served(tuple(times_s), dict(statuses), PIECE_S), attacking.result()


def at_once(port: int, requests: Sequence[bytes]) -> tuple[Counter[str], list[float]]:
    """Send requests at once, and leave when each has a status; return these and their times."""
    statuses: Counter[str] = Counter()
    answered_s: list[float] = []
    stay = asyncio.Event()
    begin_s = time.perf_counter()

    async def ask(sent: bytes) -> None:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(sent)
        line = await reader.readline()
        statuses[line.split()[1].decode()] += 1
        answered_s.append(time.perf_counter() - begin_s)
        if len(answered_s) == len(requests):
            stay.set()
        await stay.wait()
        writer.close()

    async def main() -> None:
        await asyncio.gather(*map(ask, requests))

    asyncio.run(main())
    return statuses, answered_s


def get_of(path: str) -> bytes:
    """Return a request."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post_all(service: Service, count: int) -> Counter[str]:
    """Send hostile jobs at once; return the statuses."""
    sent = []
    for body in islice(cycle(bodies()), count):
        content = json.dumps(body).encode()
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}"
        sent.append(head.encode() + b"\r\n\r\n" + content)
    return at_once(service.port, sent)[0]


def explain_all(service: Service, job_id: str) -> Counter[str]:
    """Request equal explanations at once; return the milliseconds to the first and the last."""
    _, answered_s = at_once(service.port, [get_of(f"/v1/jobs/{job_id}/explain")] * EQUAL)
    first_s, last_s = min(answered_s), max(answered_s)
    return Counter({"first, ms": int(1e3 * first_s), "last, ms": int(1e3 * last_s)})


def streams_at_once(service: Service, job_id: str, count: int) -> Counter[str]:
    """Open event streams of one tenant at once; return the statuses."""
    return at_once(service.port, [get_of(f"/v1/jobs/{job_id}/events")] * count)[0]


def leave_all(service: Service, count: int) -> Counter[str]:
    """Send beginnings of bodies, and leave; return the number of them."""
    sent = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n{"

    async def leave() -> None:
        _, writer = await asyncio.open_connection(LOOPBACK, service.port)
        writer.write(sent)
        await writer.drain()
        writer.close()

    async def main() -> None:
        for _ in range(count):
            await leave()

    asyncio.run(main())
    return Counter(left=count)


def attacked(service: Service, options: argparse.Namespace) -> tuple[dict[str, object], bool]:
    """Attack the service in every way; return the facts, and whether all goals are met."""
    with Client(service.url, attempts=1) as client:
        job_id = client.submit(SUM.format(extent=64), trials=1).id
        costly = client.submit(wide(), trials=1).id
    quiet = timed_gets(service.port, "/v1/jobs", QUIET_S, 0.05)
    facts: dict[str, object] = {"GET /v1/jobs, quiet: median, 99 %, slowest": times(quiet)}
    found: dict[str, Counter[str]] = {}
    slow_s: dict[str, float] = {}
    attacks: Sequence[tuple[str, Attack, tuple[object, ...]]] = (
        ("hostile jobs", post_all, (options.requests,)),
        ("equal explanations", explain_all, (costly,)),
        ("streams", streams_at_once, (job_id, options.streams)),
        ("clients that leave", leave_all, (options.leaving,)),
    )
    for name, attack, given in attacks:
        served, found[name] = beside(service, attack, *given)
        slow_s[name] = served.quantile_s(0.99) - quiet.quantile_s(0.99)
        facts[f"{name}: GET /v1/jobs"] = f"{times(served)}; statuses {served.statuses}"
        facts[name] = dict(found[name])
    tracebacks = service.log.read_bytes().count(b"Traceback")
    facts["log: bytes, tracebacks"] = f"{service.log_bytes()}, {tracebacks}"
    explained = found["equal explanations"]
    return facts, (
        slow_s["hostile jobs"] < GOAL_S
        and explained["last, ms"] - explained["first, ms"] < 1e3 * SAME_S
        and found["streams"]["200"] == LIMIT
        and not tracebacks
    )


def times(served: Served) -> str:
    """Return the median, the 99th percentile and the slowest of some requests."""
    return ", ".join(duration(served.quantile_s(share)) for share in (0.5, 0.99, 1.0))


def main() -> int:
    """Attack a service, print the table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--leaving", type=int, default=1000)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    environment = {
        "ANSORPY_EMBEDDED_WORKER": "0", "ANSORPY_READ_RATE": RATE, "ANSORPY_TUNE_RATE": RATE,
        "ANSORPY_MAX_EVENT_STREAMS": str(LIMIT),
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory(prefix="ansorpy-hostile-") as folder,
        serving(Path(folder), environment) as service,
    ):
        facts, met = attacked(service, options)
    say(f"{cpu_model()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    rows = [{"name": name, "value": value} for name, value in facts.items()]
    say(table(rows, {"hostile": lambda row: row["name"], "": lambda row: row["value"]}))
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
