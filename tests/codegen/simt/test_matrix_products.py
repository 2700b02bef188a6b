"""Products on matrix instructions, of bfloat16 and tf32: right at whole and odd sizes.

Every pair of a row and sizes has one of the two dtypes, and every log one order of the threads;
`make test-all` has all of them.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from itertools import product as pairs
from typing import Any, Final

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.simt.emulator import build_texts, load
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.matrices import LOAD
from ansorpy.codegen.simt.source import kernel_source
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.gpus import PRESETS
from ansorpy.loopir.nodes import Program, Tile
from ansorpy.loopir.passes.warp_matrices import instructions, on_matrices, product_of
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.backend import backend
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.population.matrices import matrix_steps
from ansorpy.rewrites.warp_products import BF16, PRODUCTS
from ansorpy.rules import CUDA
from ansorpy.rules import TF32 as ALLOWED
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import activation
from ansorpy.topi.workloads import Window, conv2d, conv2d_bias_relu, conv2d_nhwc
from benchmarks.cuda.report import static_report
from tests.codegen.simt.emulator.fragments import bf16
from tests.codegen.simt.test_blocks import EMULATOR, GPU, row_of, tiled_plan
from tests.codegen.simt.test_report import needs_ptxas
from tests.codegen.simt.test_source import results
from tests.emulation.log import LoggedKernel
from tests.night import night

Array = np.ndarray[Any, Any]
FUNCTIONS: Final = [one.function for one in PRODUCTS]
SMALL: Final = {"i_1": 2, "i_2": 8, "j_1": 2, "j_2": 4, "j_3": 2, "k_1": 16}
ROWS: Final[dict[str, dict[str, int]]] = {
    "one warp": SMALL,
    "several rows and odd blocks": {"i_1": 4, "i_2": 16, "j_1": 3, "j_2": 4, "j_3": 2, "k_1": 32},
    "rows inside": {"i_2": 16, "i_3": 2, "j_2": 4, "j_3": 2, "k_1": 32},
}
DTYPES: Final = [one.dtype for one in PRODUCTS]
ORDERS: Final = (False, True)  # threads backwards
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
        return te.cast(left, "float32") * te.cast(right, "float32")  # float32 stays as it is

    c = te.compute((n, m), lambda i, j: te.sum(term(i, j), axis=r), "C", axes="ij")
    return te.dag(activation.relu(c) if relu else c, "product")


def plan_of(dag: Dag) -> Plan:
    """Return the first plan of a product; tf32 is allowed."""
    return plans(derive(dag, GPU, (*ALLOWED, *CUDA)).sketches[0], GPU)[0]


def bound(dag: Dag, **sizes: int) -> Program:
    plan = plan_of(dag)
    return bind(plan, row_of(plan, **sizes), GPU)


def products(program: Program) -> list[Tile]:
    """Return the tiles on matrices."""
    stmts = (stmt for phase in program.phases for stmt in walk_stmt(phase.body))
    return [stmt for stmt in stmts if isinstance(stmt, Tile) and on_matrices(stmt)]


def right(dag: Dag, program: Program) -> bool:
    emulator = backend(EMULATOR)
    loaded = emulator.load(emulator.build(program, GPU))
    cases = make_cases(dag, 0)
    cases = cases if program.meaning is None else reformulated(cases, program.meaning)
    return verify(loaded, program.buffers, cases, constants(dag)) is None


@pytest.mark.parametrize(
    ("name", "sizes", "dtype"),
    night(
        pairs(ROWS, SIZES, DTYPES),
        {
            (name, sizes, dtype)
            for i, name in enumerate(ROWS)
            for j, sizes in enumerate(SIZES)
            for k, dtype in enumerate(DTYPES)
            if (i + j + k) % 2
        },
    ),
    ids=str,
)
def test_a_product_is_right(name: str, sizes: tuple[int, int, int], dtype: str) -> None:
    dag = product(*sizes, dtype)
    program = bound(dag, **{**ROWS[name], "k_1": min(ROWS[name]["k_1"], sizes[2])})
    assert {product_of(one).dtype for one in products(program)} == {dtype}
    assert right(dag, program)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turned", ["A", "B", "AB"])
@pytest.mark.parametrize("sizes", SIZES[:2], ids=str)
def test_operands_may_be_contiguous_along_either_axis(
    turned: str, sizes: tuple[int, int, int], dtype: str
) -> None:
    dag = product(*sizes, dtype, turned=turned, relu=True)
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
        ("float16", {}),
        ("float32", {"k_1": 12}),
        ("float32", {"j_3": 1}),
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("sizes", "backwards"),
    night(pairs(SIZES[:2], ORDERS), [*zip(SIZES[:2], ORDERS, strict=True)]),
    ids=str,
)
def test_a_product_has_no_race_and_loads_in_the_fewest_waves(
    sizes: tuple[int, int, int], backwards: bool, dtype: str
) -> None:
    program = bound(product(*sizes, dtype), i_1=2, i_2=16, j_1=4, j_2=4, j_3=2, k_1=32)
    arrays = [
        np.zeros(one.extents, "u2" if one.dtype == "bfloat16" else "f4") for one in program.buffers
    ]
    log = LoggedKernel(simt_code(program, GPU)).log([one.ctypes.data for one in arrays], backwards)
    assert log.races == ()
    loads = [
        row
        for row in log.launches[0].traffic
        if row.access.space == "shared" and not row.access.store
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


def stored(values: Array, dtype: str) -> Array:
    """Return float32 values as a kernel takes them."""
    return bf16(values) if dtype == "bfloat16" else values


def exact(code: SimtCode, program: Program, turned: str = "") -> bool:
    """Return whether a kernel multiplies integers exactly."""
    draw = np.random.default_rng(3)
    by_name = {one.name: one for one in program.buffers}
    given = {x: draw.integers(-99, 100, by_name[x].extents).astype(np.float32) for x in "AB"}
    c = np.full(by_name["C"].extents, np.nan, np.float32)
    arrays = {"C": c} | {x: stored(one, by_name[x].dtype) for x, one in given.items()}
    load(build_texts(code)).run([arrays[one.name].ctypes.data for one in program.buffers])
    a, b = (one.T if x in turned else one for x, one in given.items())
    return np.array_equal(c, a @ b)


def mutants(code: SimtCode) -> Iterator[SimtCode]:
    """Yield kernels with one wrong fragment.

    A load of matrices of 16 bits is turned over, a word is taken from the load before, two operands
    of a product are swapped.
    """
    text = code.texts[0]
    begin = text.index("define ")
    plain, turned = (LOAD.format(turned=part) for part in ("", ".trans"))
    changed: list[str] = []
    for match in re.finditer(rf'@"({re.escape(plain)}|{re.escape(turned)})"', text):
        other = turned if match[1] == plain else plain
        if match.start() > begin and BF16.function in text:
            changed.append(f'{text[: match.start()]}@"{other}"{text[match.end() :]}')
    for match in re.finditer(rf'@"({"|".join(map(re.escape, FUNCTIONS))})"\((.+)\)', text):
        given = match[2].split(", ")
        for k in (0, 1, 2, 4, 6, 7, 8) if len(given) == 10 and match.start() > begin else ():
            swapped = [*given[:k], given[k + 1], given[k], *given[k + 2 :]]
            changed.append(text[: match.start(2)] + ", ".join(swapped) + text[match.end(2) :])
    words = list(re.finditer(r"= load float, ptr addrspace\(3\) (%v\d+),", text))
    for before, match in pairwise(words):
        changed.append(text[: match.start(1)] + before[1] + text[match.end(1) :])
    for one in changed:
        head = one
        for name in (plain, turned):
            if f'declare {{i32, i32, i32, i32}} @"{name}"' not in head:
                kind = f'declare {{i32, i32, i32, i32}} @"{name}"(ptr addrspace(3) %".1")\n'
                head = head.replace("define ", f"{kind}\ndefine ", 1)
        yield SimtCode((head,), code.launches, code.buffers)


@pytest.mark.parametrize(
    ("dtype", "turned"), night(pairs(DTYPES, ["", "AB"]), [*zip(DTYPES, ["", "AB"], strict=True)])
)
def test_every_swapped_fragment_is_caught(dtype: str, turned: str) -> None:
    program = bound(product(32, 32, 48, dtype, turned), **SMALL)
    code = simt_code(program, GPU)
    assert exact(code, program, turned)
    found = list(mutants(code))
    count = sum(instructions(tile) for tile in products(program))
    words = simt_code(program, GPU).texts[0].count("load float, ptr addrspace(3)")
    loads = count if dtype == "bfloat16" else words - 1
    assert len(found) >= 7 * count + loads
    assert bool(words) is (dtype == "float32")
    assert not [k for k, mutant in enumerate(found) if exact(mutant, program, turned)]


def tf32(values: Array) -> Array:
    """Return float32 values to nearest in 11 bits, ties away from zero."""
    words = values.view(np.uint32)
    return ((words + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("turned", ["", "A", "B", "AB"])
def test_operands_are_rounded_to_tf32_and_sums_are_not(turned: str) -> None:
    program = bound(product(32, 32, 48, "float32", turned), **SMALL)
    assert products(program)
    draw = np.random.default_rng(4)
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((32, 48), (48, 32)))
    a[:, 7] = (1 + 2.0**-11) * np.float32(2) ** draw.integers(-9, 9, 32)  # ties
    given = {"A": a, "B": b}
    c = np.full((32, 32), np.nan, np.float32)
    arrays = {"C": c} | {
        x: np.ascontiguousarray(one.T if x in turned else one) for x, one in given.items()
    }
    code = simt_code(program, GPU)
    load(build_texts(code)).run([arrays[one.name].ctypes.data for one in program.buffers])
    x, y = (tf32(one).astype(np.float64) for one in (a, b))
    sums = 48 * 2.0**-24 * (abs(x) @ abs(y))
    assert (abs(c - x @ y) <= sums).all()
    assert (abs(c - a.astype(np.float64) @ b) > sums).any()


CONVOLUTIONS: Final = {
    "nhwc": conv2d_nhwc(1, 9, 18, 16, 16, 3, Window(padding=1)),
    "nchw": conv2d_bias_relu(1, 16, 18, 18, 32, 3, Window(padding=1)),
    "strided": conv2d(2, 11, 33, 35, 17, 3, Window(stride=2, padding=1)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_right_in_tf32(name: str) -> None:
    dag = CONVOLUTIONS[name]
    plan = plan_of(dag)
    row = [1] * len(plan.sizes)
    for step in matrix_steps(plan):
        row[step.column] = step.size
    program = bind(plan, row, GPU)
    assert products(program)
    assert right(dag, program)


def test_float32_is_not_rounded_without_a_request() -> None:
    plan = tiled_plan(product(64, 64, 64, "float32"))
    assert not matrix_steps(plan)
    program = bind(plan, row_of(plan, **SMALL), GPU)
    assert program.meaning is None
    assert not products(program)
    assert "tf32" not in simt_code(program, GPU).texts[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gpu_without_the_instruction_has_scalar_code(dtype: str) -> None:
    dag = product(48, 48, 48, dtype)
    plan = plan_of(dag)
    old = replace(GPU, cpu="sm_75")
    assert products(bind(plan, row_of(plan, **SMALL), GPU))
    assert not products(bind(plan, row_of(plan, **SMALL), old))


BLOCKS: Final[dict[str, dict[str, int]]] = {
    "bfloat16": {"i_1": 2, "i_2": 64, "j_1": 32, "j_2": 4, "j_3": 2, "k_1": 32},
    "float32": {"i_1": 8, "i_2": 32, "j_1": 8, "j_2": 4, "j_3": 2, "k_1": 16},
}


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("n", [4096, 1000, 1023])
def test_a_block_of_128_by_256_by_32_keeps_the_tensor_cores_busy(arch: str, n: int) -> None:
    program = bound(product(n, n, n), **BLOCKS["bfloat16"])
    *_, one = static_report(simt_code(program, GPU), cuda_target(arch))
    assert not one.spills
    assert one.main["HMMA"] == 64
    assert one.main.total <= 210
    assert one.main["LDSM"] == 2 + 32
    assert one.main["BAR"] == 1


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("n", [1024, 1000, 1023])
def test_a_block_of_8_by_8_sums_of_a_thread_is_nine_tenths_multiply_adds(n: int) -> None:
    program = bound(product(n, n, n, "float32"), i_1=2, i_2=16, i_3=4, j_1=2, j_2=16, j_3=4, k_1=16)
    *_, one = static_report(simt_code(program, GPU), GPU)
    assert not one.spills
    assert one.main.share("FFMA") >= 0.9
    assert one.main["BAR"] == 1


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize(("turned", "words"), [("", 32), ("B", 0)])
def test_a_block_of_256_by_64_by_16_is_bound_by_the_tensor_cores(
    arch: str, turned: str, words: int
) -> None:
    """An instruction takes a tensor core 6.4 clocks of sm_90, 8 of sm_80."""
    program = bound(product(1000, 1000, 1000, "float32", turned), **BLOCKS["float32"])
    (one,) = static_report(simt_code(program, GPU), cuda_target(arch))
    assert not one.spills
    assert one.main["HMMA"] == 64
    assert one.main.total <= 6.4 * 64
    assert one.main["LDSM"] == 8 + (8 - words // 4)
    assert words <= one.main["LDS"] < words + 8
    assert one.main["BAR"] == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [512, 1023])
@pytest.mark.parametrize("drawn", night((16, 40), [16]))
def test_random_rows_of_a_product_often_fit_the_matrix_instruction(
    n: int, dtype: str, drawn: int
) -> None:
    plan = plan_of(product(n, n, n, dtype))
    rows = sample(plan, drawn, np.random.default_rng(0))
    fitting = [row for row in rows if products(bind(plan, row, GPU))]
    assert len(fitting) >= len(rows) / 4
    assert len({tuple(row) for row in fitting}) >= len(rows) / 5


def test_products_of_other_dtypes_are_drawn_as_before() -> None:
    assert matrix_steps(tiled_plan(product(512, 512, 512)))
    assert not matrix_steps(tiled_plan(product(512, 512, 512, "float16")))
    assert not matrix_steps(tiled_plan(product(512, 4, 512)))  # fewer columns than a matrix has


@pytest.mark.parametrize("dtype", [*DTYPES, "float16"])
@pytest.mark.parametrize("sizes", [(70, 69, 77), (65, 67, 97)], ids=str)
def test_a_product_of_padded_rows_is_right(sizes: tuple[int, int, int], dtype: str) -> None:
    program = bound(product(*sizes, dtype), i_1=2, i_2=8, j_1=4, j_2=4, j_3=2, k_1=32)
    assert len(program.phases) == 3
    assert bool(products(program)) is (dtype in DTYPES)
    assert right(product(*sizes, dtype), program)


@pytest.mark.parametrize(
    ("dtype", "backwards"), night(pairs(DTYPES, ORDERS), [*zip(DTYPES, ORDERS, strict=True)])
)
def test_rows_of_any_length_are_copied_16_bytes_at_once_with_one_barrier_per_step(
    dtype: str, backwards: bool
) -> None:
    n, m, k = 70, 69, 77
    program = bound(product(n, m, k, dtype), i_1=2, i_2=16, j_1=4, j_2=4, j_3=2, k_1=32)
    width = 16 // (2 if dtype == "bfloat16" else 4)
    tiles = [stmt for stmt in walk_stmt(program.phases[-1].body) if isinstance(stmt, Tile)]
    assert {one.access_width for one in tiles if one.asynchronous} == {width}
    arrays = [
        np.zeros(one.extents, {2: "u2", 4: "f4"}[SIZE_BYTES[one.dtype]]) for one in program.buffers
    ]
    log = LoggedKernel(simt_code(program, GPU)).log([one.ctypes.data for one in arrays], backwards)
    assert log.races == ()
    launch = log.launches[-1]
    steps = k // 32 + 2  # the tail of the reduction has copies and a product of its own
    assert sum(wait.times for wait in launch.waits) == launch.blocks * steps


def test_a_copy_of_bfloat16_rounds_nothing() -> None:
    """Rows of 37 elements are copied through registers."""
    program = bound(product(70, 61, 37), **SMALL)
    (text,) = simt_code(program, GPU).texts
    assert products(program)
    assert "fcmp uno" not in text
