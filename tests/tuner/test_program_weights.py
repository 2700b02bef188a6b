"""The option `program_weights_bytes`: operands that the program around a kernel leaves cold."""

import time
from pathlib import Path

from ansorpy.frontends.tc.text import parse
from ansorpy.measure.timing.cold_weights import SWEEPS
from ansorpy.records import MemoryStore
from ansorpy.target import Target
from ansorpy.tuner.options.tune_options import LocalOptions
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.setup import Setup, prepare

MM = parse("def mm(float(1,64) A, const float(64,600) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
TARGET = Target(l2_bytes=1 << 16, l3_bytes=1 << 20)


def setup(folder: Path, weights_bytes: int, of_model: int = 0) -> Setup:
    options = LocalOptions(cores=1, program_weights_bytes=weights_bytes)
    request = Request.of(options, MM, TARGET, weights_bytes=of_model)
    return prepare(request, None, MemoryStore(), folder, time.monotonic, None)


def test_calls_go_round_as_many_bytes_as_in_a_model_of_that_size(tmp_path: Path) -> None:
    for weights, cold in ((0, 0), (1 << 16, 0), (1 << 19, 1 << 17), (1 << 30, SWEEPS << 20)):
        (task,) = setup(tmp_path, weights).tasks
        (twin,) = setup(tmp_path, 0, of_model=weights).tasks
        assert task.identity.cold_bytes == twin.identity.cold_bytes == cold
        assert task.key == twin.key


def test_times_with_cold_weights_answer_no_other_request(tmp_path: Path) -> None:
    hot, cold = setup(tmp_path, 0), setup(tmp_path, 1 << 30)
    assert hot.tasks[0].key != cold.tasks[0].key
    assert hot.digest != cold.digest
