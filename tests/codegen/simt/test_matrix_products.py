"""Products of bfloat16 on matrix instructions: right at whole and odd sizes, in both orders."""

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.simt.emulator import build_texts, load
from ansorpy.codegen.simt.emulator.log import LoggedKernel
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.matrices import LOAD
from ansorpy.codegen.simt.report import static_report
from ansorpy.codegen.simt.source import kernel_source
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.gpus import PRESETS
from ansorpy.loopir.nodes import Program, Tile
from ansorpy.loopir.passes.warp_matrices import FUNCTION, instructions, on_matrices
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.backend import backend
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import bind
from ansorpy.population import sample
from ansorpy.population.matrices import matrix_steps
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import activation
from tests.codegen.simt.emulator.fragments import bf16
from tests.codegen.simt.test_blocks import EMULATOR, GPU, row_of, tiled_plan
from tests.codegen.simt.test_report import needs_ptxas
from tests.codegen.simt.test_source import results

Array = np.ndarray[Any, Any]
SMALL: Final = {"i_1": 2, "i_2": 8, "j_1": 2, "j_2": 4, "j_3": 2, "k_1": 16}
ROWS: Final[dict[str, dict[str, int]]] = {
    "one warp": SMALL,
    "several rows and odd blocks": {"i_1": 4, "i_2": 16, "j_1": 3, "j_2": 4, "j_3": 2, "k_1": 32},
    "rows inside": {"i_2": 16, "i_3": 2, "j_2": 4, "j_3": 2, "k_1": 32},
}
SIZES: Final = [(64, 48, 64), (70, 61, 37), (33, 40, 16)]


def product(
    n: int, m: int, k: int, dtype: str = "bfloat16", turned: str = "", relu: bool = False
) -> Dag:
    """Return C[n, m] in float32; `turned` names operands whose reduced axis is not as usual."""
    a = te.placeholder((k, n) if "A" in turned else (n, k), "A", dtype)
    b = te.placeholder((m, k) if "B" in turned else (k, m), "B", dtype)
    r = te.reduce_axis((0, k), "k")

    def term(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        left = a[r, i] if "A" in turned else a[i, r]
        right = b[j, r] if "B" in turned else b[r, j]
        return te.cast(left, "float32") * te.cast(right, "float32")

    c = te.compute((n, m), lambda i, j: te.sum(term(i, j), axis=r), "C", axes="ij")
    return te.dag(activation.relu(c) if relu else c, "product")


def bound(dag: Dag, **sizes: int) -> Program:
    plan = tiled_plan(dag)
    return bind(plan, row_of(plan, **sizes), GPU)


def products(program: Program) -> list[Tile]:
    """Return the tiles on matrices."""
    stmts = (stmt for phase in program.phases for stmt in walk_stmt(phase.body))
    return [stmt for stmt in stmts if isinstance(stmt, Tile) and on_matrices(stmt)]


def right(dag: Dag, program: Program) -> bool:
    emulator = backend(EMULATOR)
    loaded = emulator.load(emulator.build(program, GPU))
    return verify(loaded, program.buffers, make_cases(dag, 0), constants(dag)) is None


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_a_product_is_right(name: str, sizes: tuple[int, int, int]) -> None:
    dag = product(*sizes)
    program = bound(dag, **{**ROWS[name], "k_1": min(ROWS[name]["k_1"], sizes[2])})
    assert products(program)
    assert right(dag, program)


@pytest.mark.parametrize("turned", ["A", "B", "AB"])
@pytest.mark.parametrize("sizes", SIZES[:2], ids=str)
def test_operands_may_be_contiguous_along_either_axis(
    turned: str, sizes: tuple[int, int, int]
) -> None:
    dag = product(*sizes, turned=turned, relu=True)
    program = bound(dag, **SMALL)
    assert products(program)
    assert right(dag, program)


def test_a_batch_is_right() -> None:
    a, b = (te.placeholder(s, x, "bfloat16") for s, x in (((3, 33, 32), "A"), ((3, 32, 20), "B")))
    r = te.reduce_axis((0, 32), "k")
    dag = te.dag(
        te.compute(
            (3, 33, 20),
            lambda n, i, j: te.sum(
                te.cast(a[n, i, r], "float32") * te.cast(b[n, r, j], "float32"), axis=r
            ),
            "C",
            axes=("n", "i", "j"),
        ),
        "batch",
    )
    program = bound(dag, n_2=2, **SMALL)
    assert [extent for _, extent in products(program)[0].lanes] == [2, 8, 4]
    assert right(dag, program)


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [
        ("float32", {}),
        ("float16", {}),
        ("bfloat16", {"k_1": 24}),  # no whole groups of steps
        ("bfloat16", {"i_2": 4, "j_2": 8}),  # half of the rows
        ("bfloat16", {"i_1": 1}),  # no second row
        ("bfloat16", {"j_3": 1}),  # no second column
    ],
)
def test_other_products_are_scalar_code(dtype: str, sizes: dict[str, int]) -> None:
    dag = product(48, 48, 48, dtype)
    program = bound(dag, **{**SMALL, **sizes})
    assert not products(program)
    assert right(dag, program)


@pytest.mark.parametrize("sizes", SIZES[:2], ids=str)
def test_a_product_has_no_race_and_loads_in_the_fewest_waves(sizes: tuple[int, int, int]) -> None:
    program = bound(product(*sizes), i_1=2, i_2=16, j_1=4, j_2=4, j_3=2, k_1=32)
    arrays = [
        np.zeros(one.extents, "u2" if one.dtype == "bfloat16" else "f4") for one in program.buffers
    ]
    for backwards in (False, True):
        log = LoggedKernel(simt_code(program, GPU)).log(
            [one.ctypes.data for one in arrays], backwards
        )
        assert log.races == ()
        loads = [
            row
            for row in log.launches[0].traffic
            if row.access.space == "shared" and not row.access.store and row.access.size_bytes == 16
        ]
        assert loads
        for row in loads:
            assert row.cost == row.least


def test_the_plain_form_has_scalar_products() -> None:
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-9, 10, shape).astype(np.float32) for shape in ((20, 33), (33, 18)))
    program = bound(product(20, 18, 33), **SMALL)
    assert products(program)
    source = kernel_source(program, GPU)
    found = results(program, source, {"A": bf16(a), "B": bf16(b)}, backwards=True)
    np.testing.assert_array_equal(found["C"], a @ b)


def exact(code: SimtCode, program: Program) -> bool:
    """Return whether a kernel multiplies integers exactly."""
    draw = np.random.default_rng(3)
    by_name = {one.name: one for one in program.buffers}
    a, b = (draw.integers(-99, 100, by_name[x].extents).astype(np.float32) for x in "AB")
    c = np.full(by_name["C"].extents, np.nan, np.float32)
    arrays = {"A": bf16(a), "B": bf16(b), "C": c}
    load(build_texts(code)).run([arrays[one.name].ctypes.data for one in program.buffers])
    return np.array_equal(c, a @ b)


def mutants(code: SimtCode) -> Iterator[SimtCode]:
    """Yield kernels with one load of matrices turned over, or two operands of a product swapped."""
    text = code.texts[0]
    begin = text.index("define ")
    plain, turned = (LOAD.format(turned=part) for part in ("", ".trans"))
    changed: list[str] = []
    for match in re.finditer(rf'@"({re.escape(plain)}|{re.escape(turned)})"', text):
        other = turned if match[1] == plain else plain
        if match.start() > begin:
            changed.append(f'{text[: match.start()]}@"{other}"{text[match.end() :]}')
    for match in re.finditer(rf'@"{re.escape(FUNCTION)}"\((.+)\)', text):
        given = match[1].split(", ")
        for k in (0, 1, 2, 4, 6, 7, 8) if len(given) == 10 and match.start() > begin else ():
            swapped = [*given[:k], given[k + 1], given[k], *given[k + 2 :]]
            changed.append(text[: match.start(1)] + ", ".join(swapped) + text[match.end(1) :])
    for one in changed:
        head = one
        for name in (plain, turned):
            if f'declare {{i32, i32, i32, i32}} @"{name}"' not in head:
                kind = f'declare {{i32, i32, i32, i32}} @"{name}"(ptr addrspace(3) %".1")\n'
                head = head.replace("define ", f"{kind}\ndefine ", 1)
        yield SimtCode((head,), code.launches, code.buffers)


def test_every_swapped_fragment_is_caught() -> None:
    program = bound(product(32, 16, 48), **SMALL)
    code = simt_code(program, GPU)
    assert exact(code, program)
    found = list(mutants(code))
    count = sum(instructions(tile) for tile in products(program))
    assert len(found) > 7 * count
    assert not [k for k, mutant in enumerate(found) if exact(mutant, program)]


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("n", [4096, 1000])
def test_a_block_of_128_by_256_by_32_keeps_the_tensor_cores_busy(arch: str, n: int) -> None:
    program = bound(product(n, n, n), i_1=2, i_2=64, j_1=32, j_2=4, j_3=2, k_1=32)
    (one,) = static_report(simt_code(program, GPU), cuda_target(arch)).launches
    assert not one.spills
    assert one.main["HMMA"] == 64
    assert one.main.total <= 210
    assert one.main["LDSM"] == 2 + 32
    assert one.main["BAR"] == 1


@pytest.mark.parametrize("n", [512, 1023])
def test_random_rows_of_a_product_often_fit_the_matrix_instruction(n: int) -> None:
    plan = tiled_plan(product(n, n, n))
    rows = sample(plan, 40, np.random.default_rng(0))
    fitting = [row for row in rows if products(bind(plan, row, GPU))]
    assert len(fitting) >= 10
    assert len({tuple(row) for row in fitting}) >= 8


def test_products_of_other_dtypes_are_drawn_as_before() -> None:
    assert matrix_steps(tiled_plan(product(512, 512, 512)))
    assert not matrix_steps(tiled_plan(product(512, 512, 512, "float16")))
    assert not matrix_steps(tiled_plan(product(512, 4, 512)))  # fewer columns than a matrix has


def test_a_copy_of_bfloat16_rounds_nothing() -> None:
    """Rows of 37 elements are copied through registers."""
    program = bound(product(70, 61, 37), **SMALL)
    (text,) = simt_code(program, GPU).texts
    assert products(program)
    assert "fcmp uno" not in text
