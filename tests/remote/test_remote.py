"""A search, its race and its delivery by a back end behind a socket."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from ansorpy.artifact import load
from ansorpy.events import Finished
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.records import MemoryStore, Record
from ansorpy.rules import CPU
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.history import cost_of
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools
from tests.remote.back_end import RemoteBackEnd

TEXT = """
def mm(float(24,16) A, float(16,32) B) -> (D) {
    C(i,j) +=! A(i,k) * B(k,j)
    D(i,j) = fmax(C(i,j), 0)
}"""


@contextmanager
def server(kind: str, folder: Path) -> Iterator[int]:
    """Start a server in a folder of its own; yield its port."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.remote.server", kind]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def tuned(pools: Callable[[], Pools], out: Path, trials: int = 24) -> tuple[Finished, list[Record]]:
    store = MemoryStore()
    request = Request(parse(TEXT), local_target(1), trials=trials, fresh=True, early=False)
    *_, end = run(request, CPU, store, out, pools=pools)
    assert isinstance(end, Finished)
    return end, list(store.export())


def facts(records: list[Record]) -> list[object]:
    """Return plans, rows and times of records, without seconds of builds."""
    return [(one.plan, one.row, cost_of(one.outcome), one.race is None) for one in records]


@pytest.mark.parametrize("count", [1, 2])
def test_servers_give_the_records_of_this_process(tmp_path: Path, count: int) -> None:
    _, here = tuned(fake_pools(), tmp_path / "here")
    with ExitStack() as stack:
        ports = [
            stack.enter_context(server("formula", tmp_path / f"server{number}"))
            for number in range(count)
        ]
        back_end = RemoteBackEnd(*ports)
        _, there = tuned(lambda: Pools(back_end), tmp_path / "there")
    assert facts(there) == facts(here)
    sent = [one.sent for pool in back_end.pools for one in (pool, *pool.others)]
    assert len(sent) == count
    assert sum(sent) == 24
    assert min(sent) >= 24 // count - 3


def test_a_server_races_and_its_kernel_is_delivered(tmp_path: Path) -> None:
    with server("real", tmp_path / "server") as port:
        end, records = tuned(lambda: Pools(RemoteBackEnd(port)), tmp_path / "out", trials=8)
    (result,) = end.results
    assert result.verified
    assert result.kernel is not None
    a = np.random.default_rng(0).random((24, 16), dtype=np.float32)
    b = np.random.default_rng(1).random((16, 32), dtype=np.float32)
    assert np.allclose(load(result.kernel)(a, b), np.maximum(a @ b, 0), rtol=1e-5)
    assert sum(1 for one in records if one.race is not None) == 1
