"""The service under load: many pollers while a job is tuned.

    python -m benchmarks.load [--seconds 60] [--pollers 50] [--seed 0] [--share-cores] [--out FILE]

Runs `ansorpy serve` on SQLite, with its embedded worker, and tunes the same job three times with
the same seed: quiet, then while `pollers` connections ask for it again and again, without a pause,
then quiet again. The page has requests per second, the median and 99th percentile of their
durations, and the ratios of latencies of the candidates that all jobs measured (the first
round, the untuned kernel and NumPy; later rounds depend on the measured times).

Disturbances: the API process avoids the core of the timed kernels (ADR-0050), and so do the pollers
without `--share-cores`. The tuner process and one builder share the other core with them, so that
there are fewer trials in the same time; all processes share the memory bus and the last-level
cache.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from ansorpy.client import Client, Job
from ansorpy.measure.cores import keep_off_the_slot
from ansorpy.measure.outcome import Measured
from ansorpy.records import Record, import_jsonl
from benchmarks.common import RESULTS, Row, duration, publish, say, table, write_lists
from benchmarks.machine import run_facts
from benchmarks.served import START_S, Served, serving

TEXT: Final = "def mm(float(256,256) A, float(256,256) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
RATE: Final = "1000000000/second"  # far above the load: the rate limit itself is not measured
TOLERANCE: Final = 0.05  # relative difference of latencies under load from quiet latencies
Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Compared:
    """Latencies under load divided by quiet ones, of candidates that both jobs measured."""

    ratios: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)


@contextmanager
def service(folder: Path) -> Iterator[Client]:
    """Run the service with its worker in `folder` while the block runs."""
    with (
        serving(folder, {"ANSORPY_READ_RATE": RATE}) as running,
        Client(running.url, attempts=1) as client,
    ):
        wait_for_worker(client)
        yield client


def wait_for_worker(client: Client) -> None:
    """Wait until the worker of the service is registered."""
    end_s = time.monotonic() + START_S
    while client.ready()["workers"] == 0:
        if time.monotonic() > end_s:
            raise SystemExit("no worker came up")
        time.sleep(0.2)


async def poll(url: str, path: str, end_s: float, durations_s: list[float]) -> dict[int, int]:
    """Send requests until `end_s`; return the count of each status."""
    statuses: dict[int, int] = {}
    async with httpx.AsyncClient(base_url=url, timeout=30.0) as http:
        while time.perf_counter() < end_s:
            begin_s = time.perf_counter()
            reply = await http.get(path)
            durations_s.append(time.perf_counter() - begin_s)
            statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
    return statuses


async def poll_all(url: str, path: str, pollers: int, seconds: float) -> Served:
    """Poll on `pollers` connections for `seconds`."""
    durations_s: list[float] = []
    begin_s = time.perf_counter()
    tasks = [poll(url, path, begin_s + seconds, durations_s) for _ in range(pollers)]
    statuses: dict[int, int] = {}
    for found in await asyncio.gather(*tasks):
        for status, count in found.items():
            statuses[status] = statuses.get(status, 0) + count
    return Served(tuple(durations_s), statuses, time.perf_counter() - begin_s)


def poller(arguments: argparse.Namespace) -> None:
    """Entry point of the polling process: print statuses and durations as JSON."""
    if not arguments.share_cores:
        keep_off_the_slot()
    served = asyncio.run(
        poll_all(arguments.url, arguments.path, arguments.pollers, arguments.seconds)
    )
    told = [served.durations_s, served.statuses, served.seconds]
    sys.stdout.write(json.dumps(told))


def tuned(client: Client, seconds: float, seed: int) -> Job:
    """Queue the job."""
    return client.submit(TEXT, trials=100_000, seconds=seconds, seed=seed, fresh=True)


def served_while(client: Client, job: Job, options: argparse.Namespace) -> Served:
    """Poll a job from a process of its own, from the moment at which it runs."""
    while client.job(job.id).state == "queued":
        time.sleep(0.05)
    command = [
        sys.executable, "-m", "benchmarks.load", "--url", client.url, "--path",
        f"/v1/jobs/{job.id}", "--pollers", str(options.pollers), "--seconds", str(options.seconds),
        *(["--share-cores"] if options.share_cores else []),
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    durations_s, statuses, seconds = json.loads(done.stdout)
    counts = {int(status): count for status, count in statuses.items()}
    return Served(tuple(durations_s), counts, seconds)


def latencies_s(records: Sequence[Record]) -> dict[Key, float]:
    """Return the latency of every candidate; of the final race, of its kernels and NumPy."""
    found: dict[Key, float] = {}
    for record in records:
        if record.race is not None:
            found["naive", ()] = min(record.race.naive_s, default=0.0)
            found["numpy", ()] = min(record.race.numpy_s, default=0.0)
        elif isinstance(record.outcome, Measured) and not record.outcome.aborted:
            found[record.plan, record.row] = record.outcome.cost_s
    return {key: cost_s for key, cost_s in found.items() if cost_s > 0}


def compared(quiet: Sequence[Record], loaded: Sequence[Record]) -> Compared:
    """Return the ratios of the candidates that both jobs measured."""
    before, after = latencies_s(quiet), latencies_s(loaded)
    return Compared(tuple(after[key] / before[key] for key in before if key in after))


def row_of(served: Served, load: Compared, noise: Compared, pollers: int) -> Row:
    """Return the row of a run; times in seconds."""
    return {
        "pollers": pollers,
        "seconds": served.seconds,
        "requests": len(served.durations_s),
        "requests_per_s": served.per_s,
        "statuses": {str(status): count for status, count in sorted(served.statuses.items())},
        "p50_s": served.quantile_s(0.5),
        "p99_s": served.quantile_s(0.99),
        "slowest_s": max(served.durations_s),
        "candidates": len(load.ratios),
        "loaded_over_quiet": sorted(load.ratios),
        "quiet_over_quiet": sorted(noise.ratios),
    }


def page(row: Row, run: Mapping[str, Any]) -> str:
    """Return the Markdown page."""
    machine, ratios = run["machine"], row["loaded_over_quiet"]
    statuses = ", ".join(f"{status}: {count}" for status, count in row["statuses"].items())
    versions = ", ".join(f"{name} {told}" for name, told in run["versions"].items())
    facts = {
        "requests per second": f"{row['requests_per_s']:.0f}",
        "median": duration(row["p50_s"]),
        "99th percentile": duration(row["p99_s"]),
        "slowest": duration(row["slowest_s"]),
        "by status": statuses,
        "candidates measured quiet and under load": row["candidates"],
        "latency under load / quiet, median": f"{statistics.median(ratios):.4f}",
        "the same, smallest to largest": f"{ratios[0]:.3f} to {ratios[-1]:.3f}",
        "quiet again / quiet, median": f"{statistics.median(row['quiet_over_quiet']):.4f}",
    }
    rows = [{"name": name, "value": value} for name, value in facts.items()]
    head = f"{row['pollers']} pollers, no pause, {row['seconds']:.0f} s"
    return (
        f"# The service under load\n\n{machine['model']}, {machine['cores']} cores (load before:"
        f" {machine['load_1min']:.1f}); {run['date']}, commit {run['commit']}, seed {run['seed']},"
        f" settings {run['settings']}; {versions}.\n\n"
        + table(rows, {head: lambda r: r["name"], "": lambda r: r["value"]})
        + "\nOne job is tuned three times with the same seed: quiet, under load, quiet again.\n"
    )


def main() -> int:
    """Run the jobs and write the page; return 1 if load changed the measured latencies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pollers", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share-cores", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "load.json")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.url:
        poller(options)
        return 0
    asked = {"seconds": options.seconds, "pollers_share_cores": options.share_cores}
    run = run_facts(1, options.seed, **asked)
    found: list[list[Record]] = []
    served: Served | None = None
    with (
        tempfile.TemporaryDirectory(prefix="ansorpy-load-") as folder,
        service(Path(folder)) as client,
    ):
        for name in ("quiet", "loaded", "quiet again"):
            say(f"tuning, {name}")
            job = tuned(client, options.seconds, options.seed)
            if name == "loaded":
                served = served_while(client, job, options)
            ended = client.wait(job.id)
            if ended.state != "succeeded":
                raise SystemExit(f"the job {ended.state}: {ended.reason}")
            found.append(list(import_jsonl(client.records(job.id))))
    assert served is not None
    load, noise = compared(found[0], found[1]), compared(found[0], found[2])
    row = row_of(served, load, noise, options.pollers)
    write_lists(options.out, {"runs": [run], "rows": [row]})
    publish(options.out, page(row, run))
    say(page(row, run))
    errors = sum(count for status, count in served.statuses.items() if status >= 400)
    return int(errors > 0 or abs(load.median - 1) > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
