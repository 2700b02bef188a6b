"""Candidates of whole operators as kernels for a GPU: lowered, taken by NVPTX, and emulated.

Each is run thread by thread on this machine: every case of a trial, both orders of threads and
blocks, against the float64 reference; and one case with a log: no races, no access outside of a
buffer, unless a block makes more accesses than a log holds. `make test-all` draws
more of each.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.simt.emulator.loader import build_texts, load
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import BuildError, RunError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.guard_pages import Arena
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.target import GpuTarget
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.suites import SUITE_SMALL
from tests.emulation.log import LoggedKernel
from tests.emulation.report import DataRace
from tests.fuzz.pairs import draw, interpreted
from tests.fuzz.suite_dags import suite_dag
from tests.night import night
from tests.topi.test_operators import CASES

DRAWN: Final = night((1, 24), [1])  # candidates of each operator
WHOLE: Final[Mapping[str, Callable[[], Dag]]] = {  # rows that several warps share
    "argmax": lambda: workloads.argmax(2, 512),
    "attention": lambda: workloads.attention(32, 64, 32),
    "elementwise_chain": lambda: workloads.elementwise_chain(4, 512),
    "layer_norm": lambda: workloads.layer_norm(4, 256),
    "matmul": lambda: workloads.matmul(32, 256, 16),
    "row_prod": lambda: workloads.reduce_rows(2, 192, "prod"),
    "softmax": lambda: workloads.softmax(4, 512),
}
LIBRARY: Final = re.compile(
    r"cannot write \w+ of (double|float) for CUDA because it calls the C library; expected a"
    r" function of float32 other than sin, cos, tan, pow and fmod"
)


def gpu(threads: int) -> GpuTarget:
    """Return a GPU on which a tile has at most `threads`."""
    return GpuTarget(
        cores=132, tile_threads=threads, thread_registers=64, block_bytes=48 << 10, cpu="sm_90",
        shared_bytes=160 << 10,
    )  # fmt: skip


def drawn(dag: Dag, seed: int) -> tuple[Program, GpuTarget]:
    """Return a random candidate of an operator."""
    rng = np.random.default_rng(seed)
    target = gpu(int(rng.choice((32, 64, 128, 256))))
    program, _, _ = draw(dag, target, rng)
    return program, target


def check(dag: Dag, seed: int, emulated_only: bool = False) -> None:
    """Check a candidate as loops, as text and under emulation; a refusal must have its sentence."""
    program, target = drawn(dag, seed)
    cases = make_cases(dag, seed)
    if program.meaning is not None:
        cases = reformulated(cases, program.meaning)
    assert emulated_only or interpreted(dag, program, cases) is None
    code = written(program, target)
    if isinstance(code, str):
        assert LIBRARY.search(code), (seed, dag)
        return
    failed = verify(load(build_texts(code)), program.buffers, cases, constants(dag))
    assert failed is None, (seed, failed)
    if emulated_only:
        return
    check_text(code, target)
    arena = Arena(program.buffers, "left")
    arena.fill({**constants(dag), **cases[0].inputs}, "nan")
    assert races(code, arena.addresses) == ()


def races(code: SimtCode, addresses: tuple[int, ...]) -> tuple[DataRace, ...]:
    """Return the races of a kernel; none if a block makes more accesses than a log holds."""
    try:
        return LoggedKernel(code).races(addresses)
    except RunError as raised:
        if "too many accesses between two barriers" in str(raised):
            return ()
        raise


def written(program: Program, target: GpuTarget) -> SimtCode | str:
    """Return the kernels of a program, or the sentence of their refusal."""
    try:
        return simt_code(program, target)
    except BuildError as refusal:
        return str(refusal)


def check_text(code: SimtCode, target: GpuTarget) -> None:
    """Check that NVPTX takes every kernel, that none calls a function, and that blocks fit."""
    for text, launch in zip(code.texts, code.launches, strict=True):
        made = ptx(text, "sm_90")
        assert f".visible .entry {launch.name}(" in made
        assert ".extern .func" not in made
        assert launch.threads % 32 == 0
        assert 32 <= launch.threads <= target.max_threads
        assert launch.shared_bytes <= target.shared_bytes
        shared = sum(map(int, re.findall(r"\.shared .*\[(\d+)\];", made)))
        if launch.dynamic_bytes:
            assert shared == 0
            continue
        assert launch.shared_bytes - 16 * text.count("addrspace(3) global") <= shared
        assert shared <= launch.shared_bytes


@pytest.mark.parametrize("name", SUITE_SMALL)
@pytest.mark.parametrize("drawn", DRAWN)
def test_an_operator_of_the_suite_is_right(name: str, drawn: int) -> None:
    for seed in range(drawn):
        check(SUITE_SMALL[name](), seed)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("drawn", DRAWN)
def test_an_operator_of_whole_warps_is_right(name: str, drawn: int) -> None:
    for seed in range(2 * drawn):
        check(WHOLE[name](), seed, emulated_only=seed >= drawn)


@pytest.mark.parametrize("seed", night(range(400), range(4)))
def test_an_operator_at_odd_sizes_is_right(seed: int) -> None:
    check(suite_dag(seed, np.random.default_rng(seed)), seed)


@pytest.mark.parametrize("name", night(CASES, list(CASES)[::10]))
def test_an_operator_of_the_library_is_right(name: str) -> None:
    made, tensors, _ = CASES[name](np.random.default_rng([0, *name.encode()]))
    outputs = [made] if isinstance(made, te.Tensor) else list(made)
    check(te.dag(outputs, name, inputs=tensors), 0)
