"""Schedules of users: their forms agree, and wrong ones are refused by step and reason."""

import json
from typing import Any

import numpy as np
import pytest

from ansorpy import rules
from ansorpy.errors import SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.printer import text as loops
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import legal, sample
from ansorpy.replay import plan_text
from ansorpy.schedule import Schedule, create_schedule, read_schedule
from ansorpy.schedule.lowered import refusal, scheduled
from ansorpy.schedule.text import read_lines
from ansorpy.sketch import derive
from ansorpy.state.text import steps_to_json
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import LIBRARY
from tests.conftest import Golden

(MM,) = parse("def mm(float(64,48) A, float(48,96) B) -> (C) { C(y,x) +=! A(y,k) * B(k,x) }")
(CHAIN,) = parse(
    "def chain(float(64,48) A, float(48,96) B) -> (C, D) {"
    " C(y,x) +=! A(y,k) * B(k,x) D(y,x) = fmax(C(y,x), 0.0) }"
)
AVX2 = Target("cpu", cores=2, vector_bits=256)
TILED = """\
yo, yi = C.split(y, inner=[4])
xo, xi = C.split(x, inner=[16])   # two vectors
C.reorder(yo, xo, k, yi, xi)
C.parallel(yo)
C.vectorize(xi)
C.pack(B)
C.unroll = 16
"""
JSON: dict[str, Any] = {
    "steps": [
        ["SP", "C", "y", 2, [4]],
        ["SP", "C", "x", 2, [16]],
        ["RE", "C", ["y.0", "x.0", "k", "y.1", "x.1"]],
        ["AN", "C", "y.0", "parallel"],
        ["AN", "C", "x.1", "vectorize"],
    ],
    "sizes": {"C.unroll": 16},
    "pack": {"C": ["B"]},
}


def in_python() -> Schedule:
    s = create_schedule(MM)
    y, x = s["C"].axis
    (k,) = s["C"].reduce_axis
    yo, yi = s["C"].split(y, 4)
    xo, xi = s["C"].split(x, 16)
    s["C"].reorder(yo, xo, k, yi, xi)
    s["C"].parallel(yo)
    s["C"].vectorize(xi)
    s["C"].pack("B")
    s["C"].unroll_budget(16)
    return s.schedule


def test_text_json_and_python_make_the_same_schedule() -> None:
    made = read_schedule(TILED)
    assert made == read_schedule(JSON) == read_schedule(json.dumps(JSON)) == in_python()
    assert made.to_json() == JSON
    assert read_schedule(str(made)) == made


def test_a_schedule_becomes_the_loops_that_it_says(golden: Golden) -> None:
    made = scheduled(read_schedule(TILED), MM, AVX2)
    golden.check(loops(made.program(AVX2)))


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_the_text_of_every_sketch_reads_as_its_steps(name: str) -> None:
    for target in (Target("cpu", cores=4), Target("cuda")):
        for state in derive(LIBRARY[name](), target, rules.released(target)).sketches:
            lines = "\n".join(map(str, state.steps))
            assert read_lines(lines).steps == steps_to_json(state)


@pytest.mark.parametrize("name", ["matmul_relu", "conv2d", "softmax"])
def test_a_searched_candidate_is_a_schedule_too(name: str) -> None:
    """The plan of a record and its row, pasted as a schedule, make the same loops."""
    dag: Dag = LIBRARY[name]()
    found = [p for s in derive(dag, AVX2, rules.CPU).sketches for p in plans(s, AVX2, 2)]
    for plan in found:
        rows = sample(plan, 1, np.random.default_rng(0))
        for row in map(tuple, rows.tolist()):
            document = {
                **json.loads(plan_text(plan)),
                "sizes": dict(zip(plan.column, row, strict=True)),
            }
            made = scheduled(read_schedule(document), dag, AVX2)
            assert plan_text(made.plan) == plan_text(plan)
            assert made.row == row
            assert made.program(AVX2) == bind(plan, row, AVX2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C.split(y, inner=[8])\nC.split(x, inner=[8])\nC.split(y, inner=[7])",
         r"cannot apply step 3 \(y.0, y.1 = C.split\(y, inner=\[7\]\)\) because no loop 'y' in"
         r" stage 'C'; .*; expected a step for the loops of C, y.0, y.1, x.0, x.1, k"),
        ("E.split(y, inner=[8])", "because no stage 'E'; .* expected one of the stages A, B, C"),
        ("A.split(i, inner=[8])", "because 'A' is an input, it has no loops; expected a stage"),
        ("C.reorder(y, x)", "cannot apply step 1 .* not a permutation of y, x, k; expected"),
        ("C.parallel(x)", "because 'y', outside of it, is not parallel; expected"),
        ("C.reorder(k, y, x)\nC.parallel(k)", "cannot apply step 2 .* because 'k' is reduced"),
        ("C.split(x, inner=[8])\nC.vectorize(x.0)", "because 'x.1' is the innermost part"),
        ("C.vectorize(x)\nC.vectorize(y)", "another loop of the stage is vectorized"),
        ("C.thread(x)", "because loops of a processor have no thread; expected"),
        ("C.split(y, inner=[0])", r"because fixed lengths \(0,\) for 1 inner parts; expected"),
        ("C.winograd(outputs=2)", "because it changes rounding, and the request does not allow"),
        ("C.split(x, inner=[7])\nC.vectorize(x.1)",
         r"sizes of the schedule because of step 1 \(.*\): C.x.1 = 7 is no multiple of 8, the"
         " lanes of a vector; expected 8 to 96 in steps of 8"),
        ("C.split(y, inner=[65])", "C.y.1 = 65 is out of range; expected 1 to 64"),
        ("C.split(y, inner=[8, 16])",
         "C.y.1 = 8, C.y.2 = 16 exceed C.y; expected a product of at most 64"),
        ("C.split(y, inner=[16])\nC.split(x, inner=[32])\nC.reorder(y.0, x.0, k, y.1, x.1)"
         "\nC.vectorize(x.1)", "C.y.1 = 16, C.x.1 = 32 need 64 vector registers; expected at most"),
        ("C.split(y, parts=2)", "because C.y.1 has no value; expected inner lengths in the split"),
        ("C.unroll = 3", "C.unroll = 3 is not offered; expected 0 or 16 or 64 or 512"),
        ("C.width = 3", "the size 'C.width' because .* none of that name; expected C.unroll"),
        ("C.pack(Q)", "cannot pack 'Q' for C because C does not read it; expected A or B"),
        ("Q.pack(A)", "cannot choose for the stage 'Q' because it has no loops; expected C"),
        ("C.pack(A)", "cannot lower the schedule .*no axis in the register tile.*; expected"),
        ("C.split(y, inner=[9999999999])", "step 1 because of a length out of range; expected"),
        ("C.split(y, parts=99)", "cannot read step 1 because of its form: parts = 99, 0 to 64"),
        ("C.split(y)", r"cannot read line 1 .* because of 'split'; expected split\(LOOP, inner="),
        ("\nC.frob(y)", "cannot read line 2 of the schedule because of 'frob'; expected split,"),
        ("hello", "cannot read line 1 of the schedule because of 'hello'; expected STAGE.STEP"),
        ("C.reorder(y x k)", "cannot read line 1 .*; expected arguments with commas"),
        ("a, b, c = C.split(y, inner=[4])", "because of 'a, b, c'; expected 2 results"),
        ("{", "cannot read the schedule because line 1, column 2 is no JSON"),
        ('{"steps": [], "steps": []}', "because of its JSON: a key is there twice"),
    ],
)  # fmt: skip
def test_a_wrong_schedule_is_refused_by_step_and_reason(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        scheduled(read_schedule(text), MM, AVX2)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"step": []}, "cannot read the field 'step' of a schedule; expected steps, sizes"),
        ({}, "cannot read the steps of a schedule from None; expected a list of steps"),
        ({"steps": [7]}, "cannot read step 1 because of its form: not a list that begins"),
        ({"steps": [["SP", "C", "y", 2]]}, "step 1 because of its form: 3 operands, 4 expected"),
        ({"steps": [["SP", "C", "y", 2, [4.0]]]}, "fixed = .*, list of int expected"),
        ({"steps": [["AN", "C", "y", "parallel"]] * 257}, "cannot take 257 steps; expected at"),
        ({"steps": [], "sizes": {"C.unroll": True}}, "size 'C.unroll' from True; expected an int"),
        ({"steps": [], "sizes": []}, "cannot read sizes of a schedule from .*; expected an object"),
        ({"steps": [], "pack": {"C": "B"}}, "cannot pack 'B' for 'C'; expected a list of tensors"),
        ({"steps": [], "choices": {"C": {"at": 1}}}, "cannot read the choices of 'C' because of"),
        (3, "cannot read a schedule from int; expected a Schedule"),
    ],
)
def test_a_wrong_document_is_refused_by_field(document: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_schedule(document)


def test_steps_in_python_are_refused_where_they_are_called() -> None:
    s = create_schedule(CHAIN)
    s["C"].split("y", 4)
    with pytest.raises(SpecError, match=r"cannot apply step 2 .* no loop 'y' in stage 'C'"):
        s["C"].split("y", 4)
    with pytest.raises(SpecError, match="cannot schedule 'Q' because it is no stage; expected A,"):
        s["Q"]
    with pytest.raises(SpecError, match="not a permutation"):
        s["C"].reorder("k", "k")
    assert [one.extent for one in s["D"].axis] == [64, 96]
    assert s["C"].axis == ("x",)
    assert len(s.steps) == 1


def test_stages_go_into_their_readers_and_into_caches() -> None:
    s = create_schedule(CHAIN)
    cache = s["C"].cache_write()
    s[cache].compute_at("C", "y")
    s["D"].parallel("y")
    made = scheduled(s.schedule, CHAIN, AVX2)
    assert dict(made.plan.choices)[cache].location == made.plan.state.stage(cache).location
    assert read_schedule(str(s.schedule)) == s.schedule
    assert dict(made.plan.choices)["D"].parallel == 1


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        ("C.reorder(y, k, x)", "x"),
        ("C.split(y, inner=[2])\nC.split(x, inner=[16])\nC.reorder(y.0, x.0, k, y.1, x.1)", "x"),
        ("C.split(y, inner=[8])\nC.split(x, inner=[32])\nC.reorder(y.0, x.0, k, y.1, x.1)", None),
        ("C.split(x, inner=[7])\nC.reorder(y, x.0, k, x.1)", None),
        ("C.reorder(k, x, y)", None),  # not the last axis
        ("C.parallel(y)", None),  # the innermost loop is reduced
        ("C.reorder(y, k, x)\nC.unroll(x)", None),
    ],
)
def test_loops_without_marks_are_vectorized_if_they_fit(text: str, lane: str | None) -> None:
    made = scheduled(read_schedule(text), MM, AVX2)
    assert dict(made.plan.choices)["C"].lane == lane


def test_strided_reads_are_not_vectorized_without_a_mark() -> None:
    (dag,) = parse("def mmt(float(64,48) A, float(96,48) B) -> (C) { C(y,x) +=! A(y,k) * B(x,k) }")
    made = scheduled(read_schedule("C.reorder(y, k, x)"), dag, AVX2)
    assert dict(made.plan.choices)["C"].lane is None


def test_a_refusal_agrees_with_the_search() -> None:
    """Rows are refused with a reason exactly if the search would not propose them."""
    plan: Plan = scheduled(read_schedule(TILED), MM, AVX2).plan
    rng = np.random.default_rng(0)
    rows = np.stack(
        [rng.choice(known, 400) for known in ([0, 2, 4, 99], [8, 16, 9], [0, 16, 3])], 1
    )
    good = legal(plan, rows)
    assert 40 < good.sum() < 300
    for row, fits in zip(rows.tolist(), good, strict=True):
        assert (refusal(plan, tuple(row)) == "") is bool(fits), row
