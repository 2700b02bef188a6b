"""Tensorize: the same values by one instruction, at every size, also at the ends of the range.

Products on matrices are interpreted with or without tails by turns of the dtypes; `make test-all`
has both of each.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.loader import build, load
from ansorpy.errors import StepError
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Program, Tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.host import local_target
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.inputs import constants, random_inputs
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.replay import plan_from_text, plan_text
from ansorpy.rules import CPU, RELEASED_CPU, Tensorize
from ansorpy.sketch import derive
from ansorpy.state import steps
from ansorpy.state.state import State
from ansorpy.target import Target
from ansorpy.te.check import check
from ansorpy.te.dag import Compute, Dag
from tests.night import night
from tests.rules.cursors import at

FEATURES = ("avx512bf16", "avx512bw", "avx512f", "avx512vl", "avx512vnni")
TARGET = Target(vector_bits=512, features=FEATURES)
LOCAL = local_target(1)
KINDS = [
    ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("int8", "uint8", "int32"),
    ("uint8", "uint8", "int32"), ("bfloat16", "bfloat16", "float32"),
]  # fmt: skip
NAMES = {"int32": "vpdpbusd", "float32": "vdpbf16ps"}
AMX = replace(TARGET, features=("amx-bf16", "amx-int8", "amx-tile", *FEATURES))
MATRIX_SIZES = [(19, 18, 70), (32, 16, 64)]  # tails of every axis, and none
MATRICES = ["tdpbssd", "tdpbusd", "tdpbsud", "tdpbuud", "tdpbf16ps"]  # in the order of KINDS


def product(a: Any, b: Any, into: str) -> Any:
    return te.cast(a, into) * te.cast(b, into)


def matmul(n: int, m: int, k: int, kind: Sequence[str], turned: bool = False, **b: bool) -> Dag:
    left, right, into = kind
    a = te.placeholder((n, k), "A", left)
    w = te.placeholder((m, k) if turned else (k, m), "B", right, **b)
    over = te.reduce_axis((0, k), "k")
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(product(a[i, over], w[j, over] if turned else w[over, j], into), over),
        "C",
    )
    return te.dag(c, name="mm")


def conv2d(channels: int, out: int, size: int, padding: int = 1) -> Dag:
    x = te.placeholder((1, channels, size, size), "X", "uint8")
    w = te.placeholder((out, channels, 3, 3), "W", "int8", constant=True)
    wide = size + 2 * padding

    def padded(n: Any, c: Any, h: Any, v: Any) -> Any:
        inside = te.all(h >= padding, h < size + padding, v >= padding, v < size + padding)
        return te.select(inside, x[n, c, h - padding, v - padding], te.const(0, "uint8"))

    pad = te.compute((1, channels, wide, wide), padded, "pad")
    c, r, s = (te.reduce_axis((0, n), name) for n, name in ((channels, "c"), (3, "r"), (3, "s")))
    y = te.compute(
        (1, out, wide - 2, wide - 2),
        lambda n, o, h, v: te.sum(product(pad[n, c, h + r, v + s], w[o, c, r, s], "int32"),
                                  (c, r, s)),
        "Y",
    )  # fmt: skip
    return te.dag(y, name="conv")


def tensorized(dag: Dag, target: Target = TARGET) -> list[State]:
    found = derive(dag, target, CPU).sketches
    return [sketch for sketch in found if any(stage.dot for stage in sketch.stages)]


def instructions(program: Program) -> set[str]:
    tiles = (s for phase in program.phases for s in walk_stmt(phase.body) if isinstance(s, Tile))
    return {tile.dot[1] for tile in tiles if tile.dot is not None}


def extremes(dag: Dag) -> list[dict[str, np.ndarray]]:
    """Inputs at the ends of their ranges, in all four combinations."""
    ends = {"int8": (-128, 127), "uint8": (0, 255)}
    made = []
    for first in (0, 1):
        for second in (0, 1):
            which = dict(zip((p.name for p in dag.placeholders), (first, second), strict=True))
            made.append({
                p.name: np.full(p.shape, ends[p.dtype][which[p.name]], p.dtype)
                for p in dag.placeholders
            })  # fmt: skip
    return made


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("k", [4, 7, 12])
def test_the_stages_have_the_meaning_of_the_sum(kind: Sequence[str], turned: bool, k: int) -> None:
    dag = matmul(3, 5, k, kind, turned)
    state = State.naive(dag).do(steps.Tensorize("C", NAMES[kind[2]]))
    other = replace(dag, nodes=tuple(stage.node for stage in state.stages))
    check(other)
    rng = np.random.default_rng(k)
    draws = [random_inputs(dag, rng)] + (extremes(dag) if kind[2] == "int32" else [])
    for inputs in draws:
        for a, b in zip(evaluate(dag, inputs), evaluate(other, inputs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize(
    ("dag", "stages"),
    [
        (matmul(3, 5, 8, KINDS[1]), ["A", "B", "C_wide", "C"]),
        (matmul(3, 5, 7, KINDS[1]), ["A", "B", "C_wide", "C_narrow", "C"]),
        (matmul(3, 5, 8, KINDS[0]), ["A", "B", "C_wide", "C_sums", "C"]),
        (conv2d(8, 4, 5), ["X", "pad", "W", "Y_wide", "Y_narrow", "Y"]),
    ],
)
def test_only_needed_stages_are_made(dag: Dag, stages: list[str]) -> None:
    last = dag.nodes[-1].name
    state = State.naive(dag).do(steps.Tensorize(last, "vpdpbusd"))
    assert [stage.name for stage in state.stages] == stages


def refusals() -> list[tuple[str, Dag, Target, str]]:
    u8s8, bf16 = KINDS[1], KINDS[4]
    f32 = ("float32", "float32", "float32")
    wide = ("int32", "int32", "int32")
    a = te.placeholder((8,), "A", "int8")
    b = te.placeholder((8,), "B", "int8")
    k = te.reduce_axis((0, 8), "k")
    dot = te.dag(te.compute((), lambda: te.sum(product(a[k], b[k], "int32"), k), "C"))
    return [
        ("float32", matmul(8, 8, 8, f32), TARGET, "is not a sum of products as"),
        ("int32", matmul(8, 8, 8, wide), TARGET, "is not a sum of products as"),
        ("short", matmul(8, 8, 3, u8s8), TARGET, "no two axes"),
        ("odd bf16", matmul(8, 8, 1, bf16), TARGET, "no two axes"),
        (
            "no vnni",
            matmul(8, 8, 8, u8s8),
            replace(TARGET, features=("avx512f",)),
            "the target has no tdpbssd or",
        ),
        (
            "mixed",
            matmul(8, 8, 8, ("bfloat16", "float32", "float32")),
            TARGET,
            "is not a sum of products",
        ),
        ("no reuse", dot, TARGET, "reuses no producer"),
    ]


@pytest.mark.parametrize(
    ("dag", "target", "why"), [case[1:] for case in refusals()], ids=[c[0] for c in refusals()]
)
def test_the_refusal_of_an_instruction_names_the_obstacle(
    dag: Dag, target: Target, why: str
) -> None:
    answer = Tensorize().explain(at(dag, "C", target))
    assert not answer
    assert why in answer.why


@pytest.mark.parametrize(("kind", "name"), list(zip(KINDS, MATRICES, strict=True)))
@pytest.mark.parametrize("turned", [False, True])
def test_matrix_instructions_have_priority_if_they_fit(
    kind: Sequence[str], name: str, turned: bool
) -> None:
    answer = Tensorize().explain(at(matmul(16, 16, 64, kind, turned), "C", AMX))
    assert answer.why.endswith(f"by {name}, lanes along j, rows along i")
    only = Tensorize((NAMES[kind[2]],))
    assert NAMES[kind[2]] in only.explain(at(matmul(16, 16, 64, kind, turned), "C", AMX)).why


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ((3, 64, 64), "no axis of C is long enough for the rows"),
        ((16, 7, 64), "j of C is too short for the lanes"),
        ((16, 16, 31), "k of C is too short for the groups"),
    ],
)
def test_axes_too_short_for_matrix_instructions(sizes: tuple[int, int, int], why: str) -> None:
    answer = Tensorize(("tdpbusd",)).explain(at(matmul(*sizes, KINDS[1]), "C", AMX))
    assert not answer
    assert why in answer.why


def test_a_convolution_takes_its_lanes_along_a_line_of_pixels() -> None:
    answer = Tensorize().explain(at(conv2d(64, 32, 9), "Y", AMX))
    assert answer.why.endswith("by tdpbsud, lanes along v, rows along o")
    narrow = Tensorize().explain(at(conv2d(64, 32, 5), "Y", AMX))
    assert narrow.why.endswith("by tdpbusd, lanes along o, rows along v")


@pytest.mark.parametrize(
    ("kind", "sizes", "rows"),
    night(
        [(kind, sizes, rows) for kind in KINDS[:4] for sizes in MATRIX_SIZES for rows in (1, 2)],
        [(kind, MATRIX_SIZES[i % 2], 1) for i, kind in enumerate(KINDS[:4])],
    ),
    ids=lambda part: "-".join(map(str, part)) if isinstance(part, tuple) else str(part),
)
def test_interpreted_matrices_are_exact(
    kind: Sequence[str], sizes: tuple[int, int, int], rows: int
) -> None:
    n, m, k = sizes
    dag, found = matmul(n, m, k, kind), 0
    (wanted,) = evaluate(dag, inputs := random_inputs(dag, np.random.default_rng(n)))
    for sketch in tensorized(dag, AMX):
        for plan in plans(sketch, AMX)[:1]:
            for row in sample(plan, rows, np.random.default_rng(k)):
                program = bind(plan, row, AMX)
                found += any("tdpb" in name for name in instructions(program))
                np.testing.assert_array_equal(run(program, inputs)["C"], wanted)
    assert found


def test_it_can_be_switched_off() -> None:
    dag = matmul(16, 16, 16, KINDS[1])
    assert tensorized(dag)
    without = tuple(rule for rule in CPU if not isinstance(rule, Tensorize))
    assert not any(s.dot for sketch in derive(dag, TARGET, without).sketches for s in sketch.stages)
    plain = derive(dag, TARGET, RELEASED_CPU).sketches
    assert len(derive(dag, TARGET, CPU).sketches) == len(plain) + len(tensorized(dag))


def test_a_step_that_does_not_fit_is_refused() -> None:
    naive = State.naive(matmul(8, 8, 8, KINDS[1]))
    with pytest.raises(StepError, match="no such instruction is described"):
        naive.do(steps.Tensorize("C", "vfoo"))
    with pytest.raises(StepError, match="is not a sum of products as vdpbf16ps"):
        naive.do(steps.Tensorize("C", "vdpbf16ps"))
    once = naive.do(steps.Tensorize("C", "vpdpbusd"))
    with pytest.raises(StepError, match="already taken in steps"):
        once.do(steps.Tensorize("C", "vpdpbusd"))


def test_stages_of_weights_alone_are_computed_ahead() -> None:
    (first, *_) = tensorized(matmul(16, 32, 16, KINDS[0], constant=True))
    for plan in plans(first, TARGET)[:3]:
        ahead = {phase.name: phase.ahead for phase in plan.program.phases}
        assert ahead["C_wide"]
        assert not ahead["C_sums"]
        assert all(on for name, on in ahead.items() if name.endswith("C_wide.pack"))


def test_a_plan_replays_from_its_text() -> None:
    dag = matmul(16, 32, 18, KINDS[0])
    (first, *_) = tensorized(dag)
    plan = plans(first, TARGET)[0]
    again = plan_from_text(dag, TARGET, plan_text(plan))
    assert again.program == plan.program


@pytest.mark.parametrize("kind", KINDS[:4], ids="-".join)
@pytest.mark.parametrize(("n", "m", "k"), [(3, 17, 5), (5, 16, 8), (1, 33, 4)])
def test_interpreted_plans_are_exact(kind: Sequence[str], n: int, m: int, k: int) -> None:
    dag = matmul(n, m, k, kind)
    found = 0
    for sketch in tensorized(dag):
        for plan in plans(sketch, TARGET)[:2]:
            for row in sample(plan, 1, np.random.default_rng(k)):
                program = bind(plan, row, TARGET)
                found += bool(instructions(program))
                for inputs in [random_inputs(dag, np.random.default_rng(n)), extremes(dag)[0]]:
                    (wanted,) = evaluate(dag, inputs)
                    np.testing.assert_array_equal(run(program, inputs)["C"], wanted)
    assert found or n == 1


def has(name: str) -> Callable[[], bool]:
    needed = {
        "vpdpbusd": "avx512vnni", "vdpbf16ps": "avx512bf16", "amx-int8": "amx-int8",
        "amx-bf16": "amx-bf16",
    }  # fmt: skip
    return lambda: needed[name] in LOCAL.features


WORKLOADS = [
    *(
        (f"{'-'.join(kind)} {n}x{m}x{k}{' turned' if turned else ''}",
         matmul(n, m, k, kind, turned), NAMES[kind[2]])
        for kind in KINDS for n, m, k, turned in ((19, 53, 37, False), (8, 64, 64, True))
    ),
    ("conv2d", conv2d(8, 12, 9), "vpdpbusd"),
    ("conv2d, 5 channels", conv2d(5, 3, 7), "vpdpbusd"),
    ("conv2d on matrices", conv2d(70, 21, 19), "amx-int8"),
    *(
        (f"{'-'.join(kind)} {n}x{m}x{k} on matrices", matmul(n, m, k, kind),
         "amx-int8" if kind[2] == "int32" else "amx-bf16")
        for kind in KINDS for n, m, k in ((45, 53, 137), (16, 64, 256))
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dag", "name"), [case[1:] for case in WORKLOADS], ids=[case[0] for case in WORKLOADS]
)
def test_compiled_plans_pass_every_case(dag: Dag, name: str) -> None:
    if not has(name)():
        pytest.skip(f"this processor has no {name}")
    cases, ran = make_cases(dag, 0), 0
    for sketch in tensorized(dag, LOCAL):
        for plan in plans(sketch, LOCAL)[:3]:
            for row in sample(plan, 2, np.random.default_rng(1)):
                program = bind(plan, row, LOCAL)
                ran += bool(instructions(program))
                built = build(program, LOCAL)
                assert verify(load(built), built.buffers, cases, constants(dag)) is None
    assert ran


def test_a_fused_consumer_goes_along() -> None:
    a, b = te.placeholder((16, 16), "A", "uint8"), te.placeholder((16, 32), "B", "int8")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((16, 32), lambda i, j: te.sum(product(a[i, k], b[k, j], "int32"), k), "C")
    relu = te.compute((16, 32), lambda i, j: te.maximum(c[i, j], te.const(0, "int32")), "R")
    dag = te.dag(relu, name="fused")
    found = tensorized(dag)
    assert found
    for sketch in found:
        node = sketch.stage("C").node
        assert isinstance(node, Compute)
        assert [axis.name for axis in node.reduce_axes] == ["k", "k_step"]
