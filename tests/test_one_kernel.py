"""The tour of docs/one-kernel.md: one kernel by hand, every printed block made again and compared.

pytest tests/test_one_kernel.py --update-golden      write the blocks of the page again
"""

import json
import re
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import ansorpy
from ansorpy.artifact import make_test
from ansorpy.artifact.archive import pack_native
from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.llvm_ir import parse as llvm_module
from ansorpy.codegen.llvm_ir import target_machine
from ansorpy.codegen.loader import build, load
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.local import LocalPool
from ansorpy.measure.timing.libraries import Exported
from ansorpy.oracle.error_bounds import allowed
from ansorpy.oracle.reference import evaluate_bounded
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import legal, sample
from ansorpy.records import Record, task_key
from ansorpy.replay import plan_text
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.tuner.lowering import StagedCandidate
from tests.codegen.running import AVX2

PAGE: Final = Path(__file__).parent.parent / "docs" / "one-kernel.md"
BLOCK: Final = re.compile(r"^```text (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_PACKED: Final = 3  # the plan of the first sketch that reads A and B in place
ROW: Final = (1, 1, 2, 1, 1, 8, 1, 0)  # register tiles of 2 rows and 8 lanes
SEED: Final = 0


@cache
def dag() -> Dag:
    """The Dag of the block of text that the page begins with."""
    (definition,) = re.findall(r"^```te\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (parsed,) = parse(definition)
    return parsed


@cache
def plan() -> Plan:
    return plans(derive(dag(), AVX2, CPU).sketches[0], AVX2)[NOT_PACKED]


@cache
def program() -> Program:
    return bind(plan(), ROW, AVX2)


def stage(name: str) -> str:
    """The text that `ansorpy lower --stage` prints."""
    return StagedCandidate(dag(), AVX2, plan(), ROW).text(name)


def sketches() -> str:
    found = derive(dag(), AVX2, CPU).sketches
    return "\n".join(f"sketch {i}\n{sketch}\n" for i, sketch in enumerate(found))


def population() -> str:
    """A population of four rows, one row a line, below the names of its columns."""
    rows = sample(plan(), 4, np.random.default_rng(SEED))
    names = [size.name.removeprefix("M.") for size in plan().sizes]
    return "\n".join(" ".join(f"{x!s:>6}" for x in line) for line in (names, *rows, ROW)) + "\n"


def inner_llvm() -> str:
    """The basic block of the loop along k, its constant operands of 8 equal lanes shortened."""
    (block,) = re.findall(r"^b2:\n.*?(?=^b3:)", stage("llvm"), re.MULTILINE | re.DOTALL)
    return re.sub(r"<(\w+) (\S+), (?:\1 \2, ){6}\1 \2>", r"splat(\1 \2)", block)


def inner_assembly() -> str:
    """The instructions of the loop along k."""
    text = target_machine(AVX2).emit_assembly(llvm_module(stage("llvm")))
    (loop,) = re.findall(r"^\.LBB0_2:\n.*?\.LBB0_2\n", text, re.MULTILINE | re.DOTALL)
    return str(loop).expandtabs(8)


def inputs() -> dict[str, npt.NDArray[Any]]:
    """Random values of both inputs."""
    rng = np.random.default_rng(SEED)
    return {name: rng.standard_normal((8, 8), np.float32) for name in ("A", "B")}


def run() -> str:
    """Machine code run in this process, beside the float64 meaning of the Dag."""
    loaded = load(build(program(), AVX2))
    arrays = inputs() | {"C": np.full((8, 8), np.nan, np.float32)}
    loaded.run([arrays[buffer.name].ctypes.data for buffer in program().buffers])
    (expected,) = evaluate_bounded(dag(), inputs())["C"]
    wrong = np.abs(arrays["C"] - expected.value) > allowed(expected, "float32")
    rows = {"kernel": arrays["C"], "oracle": expected.value}
    lines = [f"{name} C[0, 0:4] = {_numbers(array[0, :4])}" for name, array in rows.items()]
    return "\n".join((*lines, f"{wrong.sum()} of {wrong.size} elements beyond the bound\n"))


def _numbers(values: npt.NDArray[Any]) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def package() -> str:
    """The files of the zip, some fields of its manifest, and its self-test."""
    workload = workload_key(dag())
    with TemporaryDirectory() as folder, LocalPool(dag(), AVX2) as pool:
        done = pool.export(Export(program(), ("A", "B"), ("C",), {}, "tour"))
        assert isinstance(done, Exported), done
        record = Record(
            key=task_key(workload, AVX2), workload=workload, rules="cpu", plan=plan_text(plan()),
            row=ROW, outcome=done.outcome, created_s=time.time(),
        )  # fmt: skip
        path = pack_native(
            Path(folder), dag(), done.library, record, AVX2, ("all",), "", make_test(dag()), False
        )
        with zipfile.ZipFile(path) as archive:
            names, manifest = archive.namelist(), json.loads(archive.read("manifest.json"))
        kernel = ansorpy.load(path)
        product = np.maximum(inputs()["A"] @ inputs()["B"], 0)
        np.testing.assert_allclose(kernel(**inputs()), product, rtol=1e-4, atol=1e-5)
        mistakes = kernel.selftest()
    fields = {name: manifest[name] for name in ("name", "inputs", "outputs", "verification")}
    lines = [f"{name}: {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join((*sorted(names), "", *lines, "", f"self-test: {len(mistakes)} mistakes\n"))


BLOCKS: Final[dict[str, Callable[[], str]]] = {
    "dag": lambda: stage("dag"),
    "sketches": sketches,
    "plan": lambda: stage("plan"),
    "population": population,
    "program": lambda: stage("program"),
    "llvm": inner_llvm,
    "assembly": inner_assembly,
    "run": run,
    "package": package,
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_the_page_is_the_output_of_its_step(
    name: str, request: pytest.FixtureRequest
) -> None:
    made, page = BLOCKS[name]().rstrip(), PAGE.read_text()
    if request.config.getoption("--update-golden"):
        block = re.compile(rf"^```text {name}\n.*?^```$", re.MULTILINE | re.DOTALL)
        PAGE.write_text(block.sub(lambda _: f"```text {name}\n{made}\n```", page))
    shown = dict(BLOCK.findall(PAGE.read_text()))
    assert made == shown[name].rstrip(), "run this test with --update-golden"


def test_the_page_prints_the_steps_in_their_order() -> None:
    assert [name for name, _ in BLOCK.findall(PAGE.read_text())] == list(BLOCKS)


def test_the_row_of_the_page_is_legal() -> None:
    assert legal(plan(), np.array([ROW])).tolist() == [True]
