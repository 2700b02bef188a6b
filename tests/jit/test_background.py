"""The background tuning: one child at a time, which ends with the process."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy.tracing import child
from ansorpy.tracing.answers import FIRST, TUNED, compiled, known
from ansorpy.tracing.background import Background
from ansorpy.tracing.options import JitOptions
from ansorpy.tracing.work import TracedWork

X = np.random.default_rng(0).standard_normal((16, 32)).astype("float32")
WAIT_S = 120  # seconds of a tuning of a few trials on a busy machine, at most


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.slow
def test_a_background_tuning_ends_with_a_verified_answer(data: Path) -> None:
    jitted = ansorpy.jit(tune="background", trials=4)(softmax)
    first = jitted(X)
    (row,) = jitted.status()
    assert row["state"] in ("first answer, tuning", "tuned")
    assert jitted.wait(WAIT_S)
    (row,) = jitted.status()
    assert (row["state"], row["trials"]) == (TUNED, 4)
    np.testing.assert_allclose(jitted(X), first, rtol=1e-5)
    again = ansorpy.jit(tune="background", trials=4)(softmax)
    again(X)
    assert again.status()[0]["state"] == TUNED  # nothing is left to tune


@pytest.mark.slow
@pytest.mark.parametrize("gain", [2.0, 1.0])
def test_the_faster_bundle_is_kept(
    data: Path, gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = ansorpy.jit(softmax).lower(X)
    work = TracedWork.of(traced.meaning, JitOptions())
    before = compiled(work, data / "work", 0, None)
    work.write(data / "work")
    monkeypatch.setattr(child, "race", lambda one, other: gain)
    after = child.tune(data / "work", 2)
    assert (before.state, after.state) == (FIRST, TUNED)
    assert (after.gain, after.path != before.path) == (gain, gain > 1)
    assert known(data / "work") == after
    np.testing.assert_allclose(after.open()(X), softmax(X), rtol=1e-5)


@pytest.mark.slow
def test_the_race_returns_a_ratio(data: Path) -> None:
    traced = ansorpy.jit(softmax).lower(X)
    answer = compiled(TracedWork.of(traced.meaning, JitOptions()), data / "work", 0, None)
    assert child.race(answer.open(), answer.open()) > 0


def test_a_child_that_fails_leaves_the_first_answer(data: Path) -> None:
    ends: list[Any] = []
    Background().add(data, 1, ends.append)  # there is no work in the folder
    deadline_s = time.monotonic() + WAIT_S
    while not ends and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert ends == [None]
    assert "work.json" in (data / "tuning.log").read_text()


def test_a_folder_that_is_gone_ends_a_tuning(data: Path) -> None:
    ends: list[Any] = []
    Background().add(data / "gone", 1, ends.append)
    deadline_s = time.monotonic() + WAIT_S
    while not ends and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert ends == [None]


PROGRAM = """
import sys
import numpy as np
import ansorpy
from ansorpy.tracing.background import BACKGROUND
function = ansorpy.jit(tune="background", trials=10_000)(lambda x: np.exp(x) * 2)
function(np.ones((8, 8), "float32"))
while BACKGROUND._child is None:
    pass
print(BACKGROUND._child.pid, flush=True)
if "kill" in sys.argv:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "kill"])
def test_the_child_ends_with_the_process(data: Path, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=WAIT_S,
        check=False, env={**os.environ, "ANSORPY_TUNE": "background"},
    )  # fmt: skip
    assert done.returncode == (0 if how == "end" else -9), done.stderr
    pid = int(done.stdout)
    deadline_s = time.monotonic() + WAIT_S
    while is_running(pid) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # a container may have no process that waits for it


def test_works_are_the_same_when_they_are_read(tmp_path: Path) -> None:
    weights = np.arange(6, dtype="float32").reshape(2, 3)
    traced = ansorpy.jit(lambda x: np.transpose(x @ weights, (1, 0))).lower(X[:, :2])
    work = TracedWork.of(traced.meaning, JitOptions(cores=1))
    work.write(tmp_path)
    assert TracedWork.read(tmp_path).digest == work.digest
