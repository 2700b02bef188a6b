"""FuseChain: the fused chains, the places of their stages, and equal results.

One row of each plan; `make test-all` has two.
"""

from collections.abc import Callable

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.loader import build, load
from ansorpy.loopir.interp import run
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all, verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU, FuseChain
from ansorpy.sketch import derive
from ansorpy.state.state import Attached, Inlined, Root, State
from ansorpy.state.text import replay, steps_to_json
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.workloads import attention
from tests.night import night

TARGET = Target(cores=1)
CHAINS = FuseChain("SSRSRS", first="SSRS", rows=4)
RULES = (CHAINS, *CPU)


def product(a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[-1]), f"{name}_k")
    shape = (*a.shape[:-1], b.shape[-1])
    return te.compute(
        shape,
        lambda *at: te.sum(a[(*at[:-1], k)] * b[(*at[:-2], k, at[-1])], axis=k),
        name,
    )


def inputs(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder(shape, f"X{i}") for i, shape in enumerate(shapes)]


def two_products(rows: int = 9, width: int = 11) -> Dag:
    a, b, c = inputs((rows, 5), (5, width), (width, 7))
    return te.dag(product(product(a, b, "first"), c, "last"), "two_products")


def activated() -> Dag:
    a, b, c = inputs((9, 5), (5, 6), (6, 17))
    first = product(a, b, "first")
    relu = te.compute((9, 6), lambda i, j: te.maximum(first[i, j], 0.0), "relu")
    return te.dag(product(relu, c, "last"), "activated")


def batched() -> Dag:
    a, b, c = inputs((3, 6, 5), (3, 5, 8), (3, 8, 4))
    return te.dag(product(product(a, b, "first"), c, "last"), "batched")


def three_products() -> Dag:
    a, b, c, d = inputs((8, 3), (3, 6), (6, 5), (5, 7))
    return te.dag(product(product(product(a, b, "one"), c, "two"), d, "three"), "three_products")


def normed() -> Dag:
    """Two stages between are read by the last reduction, of which one reduces."""
    a, b, c = inputs((9, 5), (5, 6), (6, 7))
    first = product(a, b, "first")
    j, k = te.reduce_axis((0, 6), "j"), te.reduce_axis((0, 6), "k")
    norm = te.compute((9,), lambda i: te.sum(first[i, j] * first[i, j], axis=j), "norm")
    last = te.compute(
        (9, 7), lambda i, n: te.sum(first[i, k] * c[k, n] * (norm[i] + 1.0), axis=k), "last"
    )
    return te.dag(last, "normed")


FUSED: dict[str, Callable[[], Dag]] = {
    "attention": lambda: attention(9, 11, 5),
    "two products": two_products,
    "relu between": activated,
    "batched": batched,
    "three products": three_products,
    "norm between": normed,
}


def fused(dag: Dag, rule: FuseChain = CHAINS, target: Target = TARGET) -> list[State]:
    """Return the sketches in which a reduction is computed in blocks of another one's rows."""
    others = tuple(one for one in CPU if not isinstance(one, FuseChain))
    sketches = derive(dag, target, (rule, *others)).sketches
    return [
        sketch
        for sketch in sketches
        if any(
            isinstance(stage.location, Attached) and stage.location.loop.endswith(".0")
            for stage in sketch.stages
            if ".local" not in stage.name
        )
    ]


def test_attention_is_computed_in_blocks_of_query_rows() -> None:
    (sketch,) = fused(attention(512, 512, 64))
    places = {stage.name: stage.location for stage in sketch.stages}
    block, row = Attached("out", "i.0"), Attached("softmax", "i")
    assert places["out"] == Root()
    assert places["scores"] == places["softmax"] == block
    assert places["maximum"] == places["exponent"] == places["total"] == row
    assert places["scaled"] == Inlined()


@pytest.mark.parametrize("name", FUSED)
def test_the_steps_of_a_chain_replay(name: str) -> None:
    dag = FUSED[name]()
    for sketch in fused(dag):
        assert replay(dag, steps_to_json(sketch)) == sketch


@pytest.mark.parametrize(
    ("dag", "target", "why"),
    [
        (attention(512, 512, 64), Target(cores=256), "share 512 rows"),
        (attention(64, 40_000, 8), TARGET, "cannot fuse scores: 16 of its rows take 2560000 bytes"),
        (workloads.matmul(64, 64, 64), TARGET, "comes after no tiled reduction"),
        (workloads.conv2d(1, 4, 8, 8, 4, 3), TARGET, "comes after no tiled reduction"),
    ],
)
def test_the_refusal_of_a_chain_names_the_obstacle(dag: Dag, target: Target, why: str) -> None:
    derivation = derive(dag, target, CPU)
    answers = [t.answer.why for v in derivation.visits for t in v.trials if t.rule == "FuseChain"]
    assert any(why in answer for answer in answers), answers
    assert not fused(dag, target=target, rule=FuseChain("SSRSRS", first="SSRS"))


def test_a_stage_with_other_readers_is_not_fused() -> None:
    a, b, c = inputs((9, 5), (5, 6), (6, 7))
    first = product(a, b, "first")
    copy = te.compute((9, 6), lambda i, j: first[i, j] + 1.0, "copy")
    dag = te.dag((product(first, c, "last"), copy), "read_twice")
    assert not fused(dag)


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("rows", night((1, 2), [1]))
def test_programs_are_right(name: str, cores: int, rows: int) -> None:
    dag, target = FUSED[name](), Target(cores=cores)
    case = make_cases(dag, 0)[0]
    found = 0
    for sketch in fused(dag, target=target):
        for number, plan in enumerate(plans(sketch, target)[:3]):
            for row in sample(plan, rows, np.random.default_rng(number)):
                program = bind(plan, row, target)
                got = run(program, case.inputs)
                failed = compare_all(case, got.__getitem__, program.by_name)
                assert failed is None, failed
                found += 1
    assert found >= 2 * rows


@pytest.mark.parametrize("name", ["attention", "batched", "norm between"])
def test_machine_code_is_right(name: str) -> None:
    dag = FUSED[name]()
    cases = make_cases(dag, 1)
    for sketch in fused(dag):
        for number, plan in enumerate(plans(sketch, TARGET)[:3]):
            (row,) = sample(plan, 1, np.random.default_rng(number))
            program = bind(plan, row, TARGET)
            loaded = load(build(program, TARGET))
            assert verify(loaded, program.buffers, cases, constants(dag)) is None
