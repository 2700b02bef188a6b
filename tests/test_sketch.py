from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ansorpy import rules
from ansorpy.errors import RuleError, SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.sketch import derive
from ansorpy.state.axis import AxisKind
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import Root
from ansorpy.state.steps import Split
from ansorpy.target import Target
from ansorpy.te.analysis import Answer, yes
from ansorpy.te.dag import Dag
from tests.conftest import Golden
from tests.golden_dags import (
    GOLDEN,
    MORE,
    matmul,
    matmul_relu,
    max_pool,
    row_min,
    softmax,
    two_matmuls,
)
from tests.state.validity import check_state

TARGETS = {"cpu": Target("cpu", cores=4), "cuda": Target("cuda", warp=32)}


@pytest.mark.parametrize(
    ("name", "dag", "kind", "count"),
    [*GOLDEN, *MORE],
    ids=[f"{name} {kind}".replace(" ", "-") for name, _, kind, _ in (*GOLDEN, *MORE)],
)
def test_golden_count(name: str, dag: Dag, kind: str, count: int) -> None:
    found = derive(dag, TARGETS[kind], rules.released(TARGETS[kind])).sketches
    assert len(found) == count, name
    assert len({str(sketch) for sketch in found}) == count
    for sketch in found:
        check_state(sketch)


# Rows are kept, and lanes along reductions are choices of plans: fewer sketches than released.
FEWER = {"matmul 8x8x1024": 1, "min 10x1024": 1, "softmax 2x1024": 1, "zero-rank sum 128": 1}


@pytest.mark.parametrize(
    ("name", "dag", "count"),
    [(name, dag, FEWER.get(name, count)) for name, dag, kind, count in GOLDEN if kind == "cuda"],
)
def test_golden_count_of_our_rules_for_a_gpu(name: str, dag: Dag, count: int) -> None:
    found = derive(dag, TARGETS["cuda"], rules.CUDA).sketches
    assert len(found) == count, name
    for sketch in found:
        check_state(sketch)
        for stage in sketch.stages:
            spatial = [x for x in stage.loops if x.kind is AxisKind.SPATIAL]
            inner = [x.name for x in spatial if x.name.endswith(".2")]
            marked = [x.name for x in spatial if x.annotation == "thread"]
            assert marked == inner or not inner


def test_there_are_18_golden_counts() -> None:
    assert len(GOLDEN) == 18


@pytest.mark.parametrize("dag", [softmax(1, 1024), row_min(10, 1024), max_pool(pad=True)])
def test_the_last_sketch_of_a_reduction_is_the_naive_state(dag: Dag) -> None:
    assert derive(dag, TARGETS["cpu"], rules.CPU).sketches[-1].steps == ()


@dataclass(frozen=True)
class Two(Rule):
    """A user's rule: two finished states at once."""

    def excludes_later(self, at: Cursor) -> bool:
        return True

    def explain(self, at: Cursor) -> Answer:
        return yes(f"{at.name} is mine")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.moved(at.state, -1)
        yield at.moved(at.state.do(Split(at.name, "i", 2)), -1)


@dataclass(frozen=True)
class Stuck(Two):
    """A user's rule that never moves on."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at


def test_a_rule_of_the_user_goes_first() -> None:
    derivation = derive(matmul(8, 8, 8), TARGETS["cpu"], (Two(), *rules.CPU))
    assert [len(sketch.steps) for sketch in derivation.sketches] == [0, 1]
    assert [trial.rule for trial in derivation.root.trials] == ["Two"]


def test_a_rule_that_stays_is_refused() -> None:
    stuck: tuple[Rule, ...] = (Stuck(), *rules.CPU)
    with pytest.raises(RuleError, match="rule Stuck does not move on from stage 'C'; expected"):
        derive(matmul(8, 8, 8), TARGETS["cpu"], stuck)


def test_too_many_sketches_are_refused() -> None:
    with pytest.raises(SpecError, match="'two_matmuls' has more than 8 sketches"):
        derive(two_matmuls(512), TARGETS["cpu"], rules.RELEASED_CPU, limit=8)
    assert len(derive(two_matmuls(512), TARGETS["cpu"], rules.RELEASED_CPU, limit=9).sketches) == 9


def test_rules_that_end_nothing_are_refused() -> None:
    with pytest.raises(SpecError, match="no rule of Tiling ends it"):
        derive(softmax(8, 8), TARGETS["cpu"], (rules.Tiling("SSRSRS"),))


def test_the_tree_leads_to_every_sketch_once() -> None:
    derivation = derive(softmax(64, 64), TARGETS["cpu"], rules.CPU)
    ends, work = [], [0]
    while work:
        visit = derivation.visits[work.pop()]
        if visit.sketch is not None:
            ends.append(visit.sketch)
        work += [n for trial in visit.trials for n in trial.successors]
    assert sorted(ends) == list(range(len(derivation.sketches)))


def test_explain_shows_every_rule_with_its_reason(golden: Golden) -> None:
    cases = [
        (matmul_relu(512, 512, 512), "cpu"),
        (matmul_relu(512, 512, 512), "cuda"),
        (softmax(2, 1024), "cuda"),
    ]
    texts = [derive(d, TARGETS[k], rules.released(TARGETS[k])).explain() for d, k in cases]
    golden.check("\n\n".join(texts))


def test_the_full_explanation_also_says_why_a_plain_stage_was_left_alone() -> None:
    derivation = derive(matmul_relu(512, 512, 512), TARGETS["cpu"], rules.CPU)
    reason = "AlwaysInline: skip; D is an output"
    assert reason not in derivation.explain()
    assert reason in derivation.explain(full=True)
    asked = sum(len(visit.trials) for visit in derivation.visits)
    lines = derivation.explain(full=True).splitlines()
    assert sum(": skip; " in line or ": apply" in line for line in lines) == asked


def test_sketches_as_text(golden: Golden) -> None:
    parts = []
    for dag in (matmul(8, 8, 1024), matmul_relu(512, 512, 512), softmax(64, 1024)):
        for target in TARGETS.values():
            found = derive(dag, target, rules.released(target)).sketches
            parts += [f"# {dag.name} {target.kind} {i}\n{s}" for i, s in enumerate(found)]
    golden.check("\n\n".join(parts))


def test_an_output_that_is_read_too_keeps_its_tiles_to_itself() -> None:
    (dag,) = parse(
        "def f(float(64,32) A, float(32,48) B) -> (C, D) {"
        " C(i,j) +=! A(i,k) * B(k,j)\n D(i,j) = fmax(C(i,j), 0) }"
    )
    sketches = derive(dag, Target(cores=4), rules.CPU).sketches
    assert len(sketches) == 3
    assert all(isinstance(sketch.stage("C").location, Root) for sketch in sketches)
