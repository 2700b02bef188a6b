"""The back end of estimates: accepted programs, and refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorpy.codegen.simt.assemble import BIN, Resources
from ansorpy.cost import estimator
from ansorpy.cost.estimator import EstimatedCode
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Alloc, Program, Scope, Tile
from ansorpy.measure.backend import backend
from ansorpy.measure.estimates import ESTIMATOR
from ansorpy.measure.outcome import Estimated, Failed
from ansorpy.target import cuda_target
from ansorpy.topi import workloads
from tests.codegen.simt.test_report import needs_ptxas
from tests.fuzz.pairs import draw
from tests.loopir.build import buffer, f32, program, store, v

TARGET = cuda_target("sm_90")


@pytest.fixture
def without_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(BIN, str(tmp_path))


def candidate(seed: int = 0) -> Program:
    return draw(workloads.matmul(64, 256, 128), TARGET, np.random.default_rng(seed))[0]


def estimated(built: EstimatedCode) -> Estimated:
    assert isinstance(built.outcome, Estimated), built.outcome
    return built.outcome


@pytest.mark.usefixtures("without_ptxas")
def test_a_program_has_seconds_and_parts_without_ptxas() -> None:
    built = estimator.build(candidate(), TARGET)
    found = estimated(built)
    longest = max(seconds for name, seconds in found.parts if name != "launch_s")
    assert dict(found.parts)["launch_s"] + longest == pytest.approx(found.seconds)
    assert [name for name, _ in found.parts] == sorted(name for name, _ in found.parts)
    assert not found.assembled
    assert [one.tasks for one in built.phases] == [one.blocks for one in built.launches]


@pytest.mark.cuda
@needs_ptxas
def test_ptxas_counts_the_registers_if_it_is_there() -> None:
    found = estimated(estimator.build(candidate(), TARGET))
    assert found.assembled
    assert found.registers > 0


def test_a_candidate_that_spills_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    spilled = (Resources(255, spill_store_bytes=16, spill_load_bytes=8),)
    monkeypatch.setattr(estimator, "has_assembler", lambda: True)
    monkeypatch.setattr(estimator, "resources_of", lambda *_: spilled)
    failed = estimator.build(candidate(), TARGET).outcome
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.message.partition(": ")[2]) == (
        "spills", "24 bytes of a thread spilled",
    )  # fmt: skip


@pytest.mark.usefixtures("without_ptxas")
def test_more_sums_than_registers_fail_without_ptxas() -> None:
    sums = buffer("sums", 300, scope=Scope.REGISTER)
    out = buffer("out", 300, scope=Scope.OUTPUT)
    begin = Tile((("r", 300),), (), store("sums", (v("r"),), f32(0.0)))
    failed = estimator.build(program((out,), Alloc(sums, begin)), TARGET).outcome
    assert isinstance(failed, Failed)
    assert failed.kind == "spills"
    assert failed.message.endswith("300 registers of a thread; expected at most 255")


def test_a_block_that_fits_no_multiprocessor_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "has_assembler", lambda: True)
    monkeypatch.setattr(estimator, "resources_of", lambda *_: (Resources(64, 1 << 20),))
    failed = estimator.build(candidate(), TARGET).outcome
    assert isinstance(failed, Failed)
    assert failed.kind == "occupancy"
    assert "1048576 bytes of shared memory fits no multiprocessor" in failed.message


def test_a_target_without_facts_is_refused() -> None:
    with pytest.raises(BuildError, match="facts of the GPU are unknown; expected cuda:sm_80"):
        estimator.build(candidate(), replace(TARGET, gpu=None))


def test_an_estimate_cannot_be_called() -> None:
    module = backend(ESTIMATOR)
    with pytest.raises(BuildError, match="only estimated"):
        module.load(module.build(candidate(), TARGET))


def test_the_facts_of_the_gpu_decide() -> None:
    program = candidate()
    slow = estimated(estimator.build(program, cuda_target("sm_80")))
    fast = estimated(estimator.build(program, TARGET))
    assert slow.seconds > fast.seconds
