"""One search on several machines: its rate, and the trials that faults cost.

    python -m benchmarks.cluster rate [--way processes|namespaces]
    python -m benchmarks.cluster partition [--times 20]
    python -m benchmarks.cluster kill [--times 5]

Needs the extra ray; `namespaces` and `partition` need root, and make network namespaces with a
bridge: each is a machine of its own to Ray. Slots take a measured duration per candidate in place
of builds and timings, so that many of them fit on two cores (`tests.cluster.formula_slot`). Rows go
to results/cluster.json and cluster.md.
"""

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from ansorpy.cluster.bridged import BridgedSlots
from ansorpy.cluster.crew import Crew
from ansorpy.cluster.pool import ClusterBackEnd
from ansorpy.cluster.ray.environment import TOKEN_FILE, ray_environment
from ansorpy.cluster.share import own_share
from ansorpy.events import Derived, Finished, RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.records import MemoryStore, Record
from ansorpy.rules import CPU
from ansorpy.tuner.parts.pools import CLUSTER_POOLS, Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from benchmarks.common import RESULTS, Results, Row, publish, say, table
from benchmarks.machine import run_facts

TEXT: Final = "def mm(float(512,512) A, float(512,512) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
CANDIDATE_S: Final = 0.1  # build and trial of a product of 512 with one thread and one builder
BRIDGE: Final = "anp-bridge"
MODULE: Final = "tests.cluster.formula_slot"
UP_S: Final = 90.0
ROOT: Final = Path(__file__).parent.parent


class Machines:
    """A head and machines with one slot each, as processes or in network namespaces."""

    def __init__(self, way: str, count: int, folder: Path) -> None:
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
        told = json.dumps({"sleep": CANDIDATE_S})
        env = {**os.environ, "PYTHONPATH": str(ROOT), "ANSORPY_TEST_SLOT": told}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*inside, sys.executable, "-m", "ansorpy", *words], env=env, stdout=log,
                stderr=log, cwd=ROOT, start_new_session=True,
            )  # fmt: skip

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
def cluster(way: str, count: int) -> Iterator[KeptSlots]:
    """Yield the slots of machines, once all are there."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if way == "namespaces":
            stack.enter_context(namespaces(count))
        machines = Machines(way, count, folder)
        stack.callback(machines.close)
        environment = {**ray_environment(), "PYTHONPATH": str(ROOT)}
        slots = KeptSlots(machines.head_at, environment, own_share(), MODULE)
        stack.callback(slots.end)
        if not complete(slots, count):
            raise SystemExit(machines.log())
        yield slots


def complete(slots: KeptSlots, count: int) -> bool:
    """Wait until there are as many slots; return whether they came."""
    end_s = time.monotonic() + UP_S
    while len(slots.present()) < count and time.monotonic() < end_s:
        time.sleep(0.1)
    return len(slots.present()) == count


def search(slots: KeptSlots, trials: int) -> tuple[float, list[Record]]:
    """Return the seconds from the first to the last round of a search, and its trials."""
    store, target = MemoryStore(), local_target(1)
    settings = MeasureSettings(run_timeout_s=2.0)
    back_end = ClusterBackEnd(slots, target, settings, Crew(slots, target))
    request = Request(
        parse(TEXT), target, trials=trials, fresh=True, first_answer=False, race=False
    )  # fmt: skip
    begin_s = end_s = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        pools = Pools(back_end, most=CLUSTER_POOLS)
        for event in run(request, CPU, store, Path(out), pools=lambda: pools):
            if isinstance(event, Derived):
                begin_s = time.monotonic()
            if isinstance(event, RoundDone):
                end_s = time.monotonic()
            if isinstance(event, Finished) and event.stopped != "trials":
                raise SystemExit(f"the search stopped: {event.stopped}")
    return end_s - begin_s, [one for one in store.export() if one.race is None]


def judged(records: Sequence[Record], trials: int) -> Row:
    """Return the number of trials that were lost, made twice, and failed."""
    keys = [(one.plan, one.row) for one in records]
    failed = sum(isinstance(one.outcome, Failed) for one in records)
    return {"lost": trials - len({*keys}), "twice": len(keys) - len({*keys}), "failed": failed}


def rates(results: Results, way: str, counts: Sequence[int], trials: int) -> None:
    """Measure trials per second with several numbers of machines."""
    for count in counts:
        with cluster(way, count) as slots:
            seconds, records = search(slots, trials)
        row = {"experiment": "rate", "way": way, "count": count, "seconds": seconds}
        results.add({**row, "rate": trials / seconds, **judged(records, trials)})
        say(f"{way}, {count} machines: {trials / seconds:.1f} trials/s")


def disturbed(
    results: Results, kind: str, way: str, times: int, trials: int,
    disturb: Callable[[KeptSlots], float],
) -> None:  # fmt: skip
    """Search several times on two machines, each time disturbed after 2 s."""
    total = dict.fromkeys(("lost", "twice", "failed"), 0)
    longest = 0.0
    with cluster(way, 2) as slots:
        for number in range(times):
            if not complete(slots, 2):
                raise SystemExit(f"{kind}: a machine did not come back")
            with ThreadPoolExecutor(1) as thread:
                disturbing = thread.submit(later, disturb, slots)
                seconds, records = search(slots, trials)
                noticed_s = disturbing.result()
            found = judged(records, trials)
            total = {name: total[name] + found[name] for name in total}
            longest = max(longest, noticed_s)
            say(f"{kind} {number + 1}: noticed after {noticed_s:.1f} s of {seconds:.1f}, {found}")
    row = {"experiment": kind, "way": way, "count": times, "seconds": longest, "rate": 0.0}
    results.add({**row, **total})


def later(disturb: Callable[[KeptSlots], float], slots: KeptSlots) -> float:
    """Disturb a search that has begun."""
    time.sleep(2.0)
    return disturb(slots)


def cut(slots: KeptSlots) -> float:
    """Take the link of a machine down; return the seconds until its slot is gone; link up."""
    ip("link set anpv1 down")
    noticed_s = seconds_until_lost(slots)
    ip("link set anpv1 up")
    return noticed_s


def seconds_until_lost(slots: KeptSlots) -> float:
    """Return the seconds until a slot that is there is known to be lost."""
    begin_s, before = time.monotonic(), {*slots.present()}
    while before <= {*slots.present()} and time.monotonic() < begin_s + UP_S:
        time.sleep(0.05)
    return time.monotonic() - begin_s


def kill(kind: str, slots: KeptSlots) -> float:
    """Send SIGKILL to a process of a kind; return the seconds until slots are gone."""
    if kind == "bridge":
        os.kill(slots.bridge.process.pid, signal.SIGKILL)
    else:
        words = {"slot": f"{MODULE}", "node": "ansorpy_slot_0", "head": "gcs_server"}[kind]
        found = [one for one in processes(words) if kind != "node" or "raylet/raylet" in one[1]]
        os.kill(found[-1][0], signal.SIGKILL)
    return seconds_until_lost(slots)


def processes(words: str) -> list[tuple[int, str]]:
    """Return the processes whose command has some words, and the commands."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (place / "cmdline").read_text().replace("\0", " ")
            if words in command and "-m benchmarks" not in command and " -m ansorpy" not in command:
                found.append((int(place.name), command))
    return sorted(found)


def page(rows: Sequence[Row]) -> str:
    """Return the Markdown page."""
    body = table(
        rows,
        {
            "experiment": lambda one: one["experiment"],
            "machines are": lambda one: one["way"],
            "machines or repetitions": lambda one: one["count"],
            "seconds": lambda one: f"{one['seconds']:.1f}",
            "trials per second": lambda one: f"{one['rate']:.1f}" if one["rate"] else "",
            "lost": lambda one: one["lost"],
            "made twice": lambda one: one["twice"],
            "failed": lambda one: one["failed"],
        },
    )
    return (
        "# One search on several machines\n\n"
        f"{CANDIDATE_S * 1e3:.0f} ms per candidate stand for its build and its trial; proposals,"
        " training, transport and records are real. Seconds are those from the first to the last"
        " round; of a partition (a link down) and of `kill -9` the longest time until the tuning"
        " knew.\n\n" + body
    )


def main() -> None:
    """Run an experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=("rate", "partition", "kill"))
    parser.add_argument("--way", choices=("processes", "namespaces"), default="processes")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--trials", type=int, default=512)
    args = parser.parse_args()
    results = Results(
        RESULTS / "cluster.json", ("experiment", "way", "count"), run_facts(1, 0), fresh=False
    )
    if args.experiment == "rate":
        rates(results, args.way, args.counts, args.trials)
    elif args.experiment == "partition":
        disturbed(results, "partition", "namespaces", args.times, args.trials, cut)
    else:
        for kind in ("slot", "bridge", "node", "head"):
            end = partial(kill, kind)
            disturbed(results, f"kill {kind}", "processes", args.times, args.trials, end)
    publish(results.path, page(results.rows))


if __name__ == "__main__":
    main()
