"""Back ends on the side of the driver: of a server, and of several that share the trials."""

import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.pool import Memory, RacePool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.libraries import Exported
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.paired_benchmark import SizedTimes
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.measure.unbound import Unbound
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.remote.wire import receive, send


class RemotePool:
    """The pool of one task at a server."""

    def __init__(self, port: int, dag: Dag, target: Target, cold_bytes: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        send(self._connection, (dag, target, cold_bytes))
        self.sent = 0  # candidates

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        send(self._connection, (method, arguments, options))
        return receive(self._connection)

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        if late():
            return [None] * len(candidates)
        self.sent += len(candidates)
        found: list[Outcome | None] = self._call("measure", list(candidates), best_s)
        return found

    def prebuild(self, *requests: Unbound | Kernel | Export, later: bool = False) -> None:
        self._call("prebuild", *requests, later=later)

    def begin_cases(self) -> None:
        self._call("begin_cases")

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        wrong: Failed | None = self._call("verify", kernel)
        return wrong

    def race(
        self,
        contestants: Mapping[str, Program | Kernel],
        numpy: bool = True,
        first_case_s: Mapping[str, float] | None = None,
        late: Callable[[], bool] = lambda: False,
        beside: Callable[[], object] = lambda: None,
        own: Sequence[OwnKernel] = (),
        peers: bool = False,
    ) -> dict[str, PairedTimes | Failed]:
        beside()
        times: dict[str, PairedTimes | Failed] = self._call(
            "race", contestants, numpy, first_case_s, own=list(own), peers=peers
        )
        return times

    def rerank(
        self,
        candidates: Sequence[Program | Unbound],
        budget_s: float,
        beside: Kernel | None = None,
    ) -> list[ShortlistTime | None]:
        times: list[ShortlistTime | None] = self._call("rerank", list(candidates), budget_s, beside)
        return times

    def begin_call(
        self, files: Mapping[str, bytes], meaning: Dag | None = None
    ) -> Callable[[], Failed | float]:
        def end() -> Failed | float:
            seconds: Failed | float = self._call("begin_call", files, meaning)
            return seconds

        return end

    def export(self, *exports: Export, first_only: bool = False) -> Exported | Failed:
        done: Exported | Failed = self._call("export", *exports, first_only=first_only)
        return done

    def time_sizes(
        self, kernel: Program | Kernel, sizes: Sequence[tuple[int, ...]], numpy: bool
    ) -> SizedTimes | Failed:
        times: SizedTimes | Failed = self._call("time_sizes", kernel, list(sizes), numpy)
        return times

    def attainable_flop_per_s(self) -> float:
        peak: float = self._call("attainable_flop_per_s")
        return peak

    def close(self) -> None:
        self._connection.close()


class SpreadPool(RemotePool):
    """A pool that shares its trials among servers; the first of them races and delivers."""

    def __init__(self, ports: Sequence[int], dag: Dag, target: Target, cold_bytes: int) -> None:
        super().__init__(ports[0], dag, target, cold_bytes)
        self.others = [RemotePool(port, dag, target, cold_bytes) for port in ports[1:]]

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        count = 1 + len(self.others)
        shares = [candidates[place::count] for place in range(count)]
        asked = [super().measure, *(one.measure for one in self.others)]
        with ThreadPoolExecutor(count) as threads:
            answers = list(threads.map(lambda ask, share: ask(share, best_s, late), asked, shares))
        found: list[Outcome | None] = [None] * len(candidates)
        for place, answer in enumerate(answers):
            found[place::count] = answer
        return found

    def close(self) -> None:
        super().close()
        for one in self.others:
            one.close()


class RemoteBackEnd:
    """Pools at one server, or at several."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.pools: list[SpreadPool] = []

    def open(self, dag: Dag, target: Target, cold_bytes: int) -> RacePool:
        self.pools.append(SpreadPool(self.ports, dag, target, cold_bytes))
        return self.pools[-1]

    def memory(self) -> Memory:
        return Memory()

    def close(self) -> None:
        """Do nothing: `Pools` has closed the pools."""
