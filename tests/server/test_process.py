"""A kill of a tuner process ends its measuring processes in any state."""

import time
from pathlib import Path

import pytest

from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.tuner_process import TunerProcess, children
from tests.kill.processes import lives

SOON_S = 60.0  # time limit; the processes end within milliseconds on a quiet machine


@pytest.fixture
def tuner(tmp_path: Path) -> TunerProcess:
    """Return a tuner process with two measuring processes that never read their pipe."""
    made = TunerProcess(ServiceSettings(data_dir=tmp_path), "tests.server.silent_tuner")
    message = made.receive(60.0)
    assert message == {"is": "ready"}
    return made


def test_a_killed_tuner_process_leaves_no_measuring_process(tuner: TunerProcess) -> None:
    slots = children(tuner.pid)
    assert len(slots) == 2
    assert all(map(lives, slots))
    tuner.kill()
    assert gone(slots)


def test_an_ended_tuner_process_is_reaped(tuner: TunerProcess) -> None:
    tuner._send("end")
    assert tuner.ended() == "the tuner process ended with exit code 3"
    assert tuner.kill() == 3


def gone(pids: list[int]) -> bool:
    end_s = time.monotonic() + SOON_S
    while any(map(lives, pids)) and time.monotonic() < end_s:
        time.sleep(0.01)
    return not any(map(lives, pids))
