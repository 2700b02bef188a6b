"""Ctrl-C in the middle of a measurement."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.local import LocalPool
from ansorpy.target import Target
from tests.measure.fake import BACKEND, matmul, program

DAG = matmul()
settings = MeasureSettings(backend=BACKEND, run_timeout_s=60.0)
with LocalPool(DAG, Target(cores=1), settings) as pool:
    pool.measure([program("good", DAG)])
    pids = [w._process.pid for w in pool.workers.all if w._process]
    print(*pids, pool.workers.folder, flush=True)
    pool.measure([program("hang", DAG)])
"""


def test_an_interrupt_leaves_nothing_behind() -> None:
    # No `if __name__ == "__main__"`: a user's plain script must work.
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        *pids, folder = process.stdout.readline().split()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in words
    assert pids
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not Path(folder).exists()
