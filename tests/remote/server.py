"""A process that measures for a driver at the other end of a socket.

    python -m tests.remote.server real|formula

It prints its port. Each connection is one pool: the first frame opens it, every other frame calls a
method. `real` pools are local processes; `formula` pools time programs by a formula.
"""

import socket
import sys
from threading import Lock, Thread
from typing import Any

from ansorpy.measure.local import LocalBackEnd, LocalPool
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.fakes import FakePool
from tests.remote.wire import receive, send

QUICK = MeasureSettings(race_processes=1, race_visits=3, sampling=SamplingOptions(budget_s=0.01))


class Server:
    """Pools by connection; one call at a time, as the processes behind them are shared."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.turn = Lock()
        self.back_end: LocalBackEnd[LocalPool] | None = None

    def open(self, dag: Dag, target: Target, cold_bytes: int) -> RacePool:
        if self.kind == "formula":
            return FakePool(dag, target)
        if self.back_end is None:
            self.back_end = LocalBackEnd(target, QUICK, LocalPool)
        return self.back_end.open(dag, target, cold_bytes)

    def serve(self, connection: socket.socket) -> None:
        with connection:
            pool = self.open(*receive(connection))
            while (call := receive(connection)) is not None:
                with self.turn:
                    send(connection, answer(pool, *call))
            pool.close()


def answer(pool: RacePool, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the value of a method, and of the end of a call that it begins."""
    value = getattr(pool, method)(*arguments, **options)
    return value() if method == "begin_call" else value


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Server(sys.argv[1])
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            connection, _ = listening.accept()
            Thread(target=server.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
