"""A slot whose pools time programs by a formula.

    python -m tests.cluster.formula_slot CORES

ANSORPY_TEST_SLOT is a JSON object: `factor` of all costs, `hang` or `crash` at that number of the
candidates that it measures, `version` in place of its own, `slow_from` and `slowdown` of the
reference kernel from that number of candidates on, `uneven` if every second candidate takes 1.5
times as long, `trace`: a file that gets a line per candidate: parent of this process, monotonic
seconds of begin and end, this process.
"""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansorpy.cluster import slot_daemon
from ansorpy.cluster.slot_daemon import SlotServer, serve, settle
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Measured, Outcome
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.fakes import FakePool, cost_s


class Behaviour:
    """The answers to programs, in the order in which they come."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self.orders, self.count = orders, 0

    def outcome(self, program: Program) -> Outcome:
        self.count += 1
        if self.count == self.orders.get("hang"):
            time.sleep(3600)
        if self.count == self.orders.get("crash"):
            os.kill(os.getpid(), signal.SIGKILL)
        begin_s = time.monotonic()
        time.sleep(self.orders.get("sleep", 0.0))
        if "trace" in self.orders:
            with Path(self.orders["trace"]).open("a") as file:
                file.write(f"{os.getppid()} {begin_s} {time.monotonic()} {os.getpid()}\n")
        uneven = 1.5 if self.orders.get("uneven") and self.count % 2 else 1.0
        slow = self.count > self.orders.get("slow_from", 1 << 30)
        slowdown = self.orders["slowdown"] if slow else 1.0
        return Measured((cost_s(program) * self.orders.get("factor", 1.0) * slowdown * uneven,),
                        slowdown=slowdown)  # fmt: skip

    def open(
        self, dag: Dag, target: Target, cold_bytes: int, settings: MeasureSettings
    ) -> RacePool:
        return FakePool(dag, target, self.outcome)


def main() -> None:
    orders = json.loads(os.environ.get("ANSORPY_TEST_SLOT", "{}"))
    if "version" in orders:
        facts = slot_daemon.facts()
        told = replace(facts, versions={**facts.versions, "ansorpy": orders["version"]})
        slot_daemon.facts = lambda: told
    serve(SlotServer(Behaviour(orders).open), sys.stdin.buffer, settle(sys.argv[1]))


if __name__ == "__main__":
    main()
