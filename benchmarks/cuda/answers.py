"""Section `answers`: modules load, and kernels have the bits that the emulator computes."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ansorpy.codegen.simt import emulator
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import AnsorError, LoweringError
from ansorpy.loopir.nodes import Buffer, Program, Scope
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.guard_pages import Arena
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import SUITE_SMALL
from benchmarks.cuda.bench import Bench
from benchmarks.cuda.texts import copies

EMULATED_OPERATORS: Final = ("matmul", "softmax", "argmax")  # under the emulated driver
SEED: Final = 0


def run(bench: Bench) -> None:
    """Load a module of each form, check operators on every case, and one behind the walls."""
    _modules(bench)
    for name in EMULATED_OPERATORS if bench.emulated else tuple(SUITE_SMALL):
        try:
            bench.add(name, _answers(bench, SUITE_SMALL[name]()))
        except AnsorError as error:
            bench.add(name, {"error": str(error)})
    bench.add("behind the walls", _behind_walls(bench))


def _modules(bench: Bench) -> None:
    """Load a module as it is built, and as PTX that the driver compiles."""
    floor = copies(1024)
    forms = {"built": bench.floor_code(floor, "copy 1024").images[0]}
    if not bench.emulated:
        forms["ptx"] = ptx(floor.code.texts[0], bench.target.cpu).encode()
    for form, image in forms.items():
        try:
            held = bench.driver.kernel(bench.driver.load(image, form), "phase0")
        except AnsorError as error:
            bench.add(f"module {form}", {"error": str(error)})
        else:
            told = {"registers": held.registers, "local_bytes": held.local_bytes}
            bench.add(f"module {form}", {"bytes": len(image), "loads": True, **told})


def _answers(bench: Bench, dag: Dag) -> Mapping[str, Any]:
    """Return how the results of one candidate compare with the emulator's results."""
    program = _program(bench, dag)
    code = simt_code(program, bench.target)
    cases = make_cases(dag, SEED)
    if program.meaning is not None:
        cases = reformulated(cases, program.meaning)
    loaded = bench.module.load(bench.module.build_texts(code, bench.target.cpu))
    failed = verify(loaded, program.buffers, cases, constants(dag))
    here = emulator.load(emulator.build_texts(code))
    results = []
    for kernel in (loaded, here):
        arena = Arena(program.buffers, "right")
        arena.fill({**constants(dag), **cases[0].inputs}, "nan")
        kernel.run_ahead(arena.addresses)
        kernel.run(arena.addresses)
        results.append(_outputs(arena, program.buffers))
    pairs = list(zip(*results, strict=True))
    return {
        "right": failed is None,
        "failure": None if failed is None else f"{failed.kind}: {failed.message}",
        "launches": len(code.launches),
        "elements": sum(one.size for one, _ in pairs),
        "other_bits": sum(_differing(one, two) for one, two in pairs),
    }


def _outputs(arena: Arena, buffers: tuple[Buffer, ...]) -> list[Any]:
    return [arena.array(one.name).copy() for one in buffers if one.scope is Scope.OUTPUT]


def _differing(left: Any, right: Any) -> int:
    """Return how many elements differ in a bit."""
    width = left.dtype.itemsize
    rows = [np.ascontiguousarray(a).view(np.uint8).reshape(-1, width) for a in (left, right)]
    return int(np.count_nonzero((rows[0] != rows[1]).any(axis=1)))


def _program(bench: Bench, dag: Dag) -> Program:
    """Return a random candidate of an operator; equal ones at every run."""
    rng = np.random.default_rng(SEED)
    every = plans(derive(dag, bench.target, CPU).sketches[0], bench.target, 4)
    for number in rng.permutation(len(every)):
        plan = every[int(number)]
        for row in sample(plan, 1, rng):  # none if the sizes leave no row
            return bind(plan, tuple(int(value) for value in row), bench.target)
    raise LoweringError(f"{dag.name}: no plan has a row")


def _behind_walls(bench: Bench) -> Mapping[str, Any]:
    """Check a kernel in a measuring process: its walls let the driver through, or they do not."""
    dag = SUITE_SMALL["matmul"]()
    settings = MeasureSettings(backend=bench.backend, builders=1)
    with LocalPool(dag, bench.target, settings) as pool:
        failed = pool.verify(_program(bench, dag))
    told = None if failed is None else f"{failed.kind}: {failed.message}"
    return {"right": not isinstance(failed, Failed), "failure": told}
