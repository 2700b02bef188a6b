"""Wrong rules are refused, each with its counterexample; our own rules pass."""

from collections.abc import Iterator, Sequence

import pytest

from ansorpy import rules
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.state.rule import Cursor, Rule, name_of
from ansorpy.state.transform import tile
from ansorpy.target import Target
from ansorpy.te.analysis import Answer
from ansorpy.te.dag import Dag
from ansorpy.tuner.rule_sets.check import (
    CheckedOperator,
    CheckOperator,
    Counterexample,
    RuleWork,
    check_operator,
    operators,
)
from tests.rules import wrong
from tests.rules.cursors import CUDA

TARGET = Target(cores=1, vector_bits=256, registers=16)
MATMUL = "A[7, 13], B[13, 17]"

WRONG: tuple[tuple[type[Rule], str, str, str], ...] = (
    (wrong.WrongTileProduct, "matmul", "C", "the steps of a successor give another state: C: i.0:?s"
     " i.1:C.i.1s j:17s k:13r, not C: i.0:?s i.1:1s j:17s k:13r"),
    (wrong.DropsAnAxis, "matmul", "C", "another state: C: i:7s j:17s k:13r, not C: i:7s j:17s;"),
    (wrong.FusesAnyConsumer, "softmax", "exponent", "none of its plans can be lowered: 'total"),
    (wrong.InlinesAReduction, "matmul", "C.local", "a reduction cannot be inlined"),
    (wrong.InlinesByAStep, "matmul", "C.local", "rule InlinesByAStep raised StepError in rewrite at"
     " stage 'C.local': C.local.compute_inline(): 'C.local' reduces"),
    (wrong.Stays, "matmul", "C", "rule Stays does not move on from stage 'C'; expected at most 24"),
    (wrong.CachesCaches, "matmul", "C.local", "rule CachesCaches inserts stages without end"),
    (wrong.YieldsForever, "matmul", "C", "it yielded more than 2048 successors"),
    (wrong.Hangs, "matmul", "C", "rewrite does not return within 0.5 s"),
    (wrong.Raises, "matmul", "C", "rule Raises raised ZeroDivisionError in explain at stage 'C':"
     " division by zero"),
    (wrong.ChangesAnOutput, "matmul", "C", "stage C has another body; random inputs: 119 of 119"
     " elements of C are wrong, first at [0, 0]: "),
    (wrong.ChangesTheDag, "matmul", "C", "a successor computes another Dag"),
    (wrong.MutatesItsState, "matmul", "C", "rewrite changes the state that it is given"),
    (wrong.ReadsPastTheEnd, "matmul", "C", "A[0, 13] is outside the shape [7, 13]"),
    (wrong.YieldsTwins, "matmul", "C", "sketches 0 and 1 are equal; the count is 9, without the"
     " rule 3"),
    (wrong.TossesCoins, "matmul", "C", "rewrite yields other successors when it is asked again"),
    (wrong.YieldsNothing, "matmul", "C", "explain holds, but rewrite yields no successor"),
    (wrong.ForgetsItsSteps, "matmul", "C", "another state: C: i:7s j:17s k:13r, not C: i.0:?s"),
    (wrong.TakesOwnSteps, "matmul", "C", "a step of type Doubled has no wire form"),
    (wrong.LeavesARuin, "matmul", "C", "not C @ at nowhere.i"),
    (wrong.YieldsStates, "matmul", "C", ", not a Cursor"),
)  # fmt: skip


def checked(name: str, *mine: Rule) -> CheckedOperator | Counterexample:
    (operator,) = operators([name])
    return check_operator(mine, rules.CPU, operator, TARGET, rule_s=0.5)


@pytest.mark.parametrize(
    ("kind", "operator", "stage", "difference"), WRONG, ids=[kind.__name__ for kind, *_ in WRONG]
)
def test_a_wrong_rule_is_refused_with_a_counterexample(
    kind: type[Rule], operator: str, stage: str, difference: str
) -> None:
    found = checked(operator, kind())
    assert isinstance(found, Counterexample), found
    assert (found.rule, found.operator) == (kind.__name__, operator)
    assert found.shape == (MATMUL if operator == "matmul" else "X[7, 17]")
    assert found.stage.startswith(stage)
    assert difference in found.difference
    assert f"{stage}" in found.state


def test_every_wrong_rule_is_in_the_table() -> None:
    kinds = {kind for kind in vars(wrong).values() if isinstance(kind, type)}
    known = {kind for kind in kinds if issubclass(kind, Rule) and kind.__module__ == wrong.__name__}
    assert {kind for kind, *_ in WRONG} == known - {wrong.OnReductions}


class Twin(rules.Tiling):
    """Tile as `Tiling` does, and let `Tiling` tile again."""

    def excludes_later(self, at: Cursor) -> bool:
        return False


def test_a_rule_that_repeats_one_of_the_set_is_refused() -> None:
    found = checked("matmul", Twin("SSRSRS"))
    assert isinstance(found, Counterexample)
    assert "are equal; the count is" in found.difference
    assert found.state.startswith("A\nB\nC")
    assert "steps:\n" in found.state


@pytest.mark.parametrize(
    ("name", "before", "after", "states"),
    [("matmul", 3, 5, 2), ("softmax", 9, 9, 0), ("conv2d_bias_relu", 4, 5, 1)],
)
def test_a_right_rule_passes_and_its_effect_on_the_counts_is_told(
    name: str, before: int, after: int, states: int
) -> None:
    class TwoLevels(rules.Tiling):
        def excludes_later(self, at: Cursor) -> bool:
            return False

    found = checked(name, TwoLevels("SRS"))
    assert isinstance(found, CheckedOperator), found
    assert (found.before, found.after, found.states) == (before, after, states)
    assert found.large_after is not None
    assert found.large_before is not None
    assert found.large_after - found.large_before == after - before
    assert bool(found.interpreted) is bool(states)
    shapes = 2 if states else 0  # it applies at the small and at the large shape
    made = shapes * states
    run = (states, found.interpreted, found.compiled)
    assert found.uses == ((RuleWork("TwoLevels", made, shapes, *run),) if states else ())


def test_the_work_of_each_rule_is_told() -> None:
    """`Skip` ends all three sketches of a matrix product, and two are tiled with fusion."""
    (operator,) = operators(["matmul"])
    found = check_operator(rules.CPU, (), CheckOperator("matmul", operator.small), TARGET)
    assert isinstance(found, CheckedOperator), found
    uses = {use.rule: use for use in found.uses}
    assert [*uses] == ["AddCacheWrite", "TilingWithFusion", "Tiling", "Skip"]
    assert uses["AddCacheWrite"] == RuleWork("AddCacheWrite", 1, 1, 2, 4, 0)
    assert uses["TilingWithFusion"] == RuleWork("TilingWithFusion", 2, 1, 2, 4, 0)
    assert uses["Tiling"] == RuleWork("Tiling", 1, 1, 1, 2, 0)
    assert uses["Skip"].sketches == found.states == 3


@pytest.mark.parametrize(
    ("chosen", "target", "rule", "name"),
    [
        (rules.CPU, TARGET, "SimplifyConst", "constant_transform"),
        (rules.CUDA, CUDA, "SpecialComputeLocation", "constant_transform"),
        (rules.CUDA, CUDA, "SplitReduction", "row_sum_of_4100"),
    ],
)
def test_rules_that_the_suite_does_not_need_have_an_operator_of_their_own(
    chosen: tuple[Rule, ...], target: Target, rule: str, name: str
) -> None:
    (operator,) = operators([name])
    found = check_operator(chosen, (), operator, target)
    assert isinstance(found, CheckedOperator), found
    assert rule in [use.rule for use in found.uses if use.sketches]


FEW = ("matmul", "dense", "conv1d", "softmax", "row_sum", "long_column_sum", "argmax", "max_pool2d")


@pytest.mark.parametrize("name", [*FEW, "attention_rows"])
def test_our_rules_for_a_cpu_pass(name: str) -> None:
    (operator,) = operators([name])
    found = check_operator(rules.CPU, (), CheckOperator(name, operator.small), TARGET)
    assert isinstance(found, CheckedOperator), found
    assert found.states == found.after
    assert found.interpreted >= found.after


@pytest.mark.parametrize("name", ["matmul", "softmax", "row_sum", "max_pool2d"])
def test_our_rules_for_a_gpu_pass(name: str) -> None:
    (operator,) = operators([name])
    found = check_operator(rules.CUDA, (), CheckOperator(name, operator.small), CUDA)
    assert isinstance(found, CheckedOperator), found
    assert found.states == found.after


def test_our_rules_on_request_pass_before_the_set() -> None:
    found = checked("conv2d", *rules.WINOGRAD2)
    assert isinstance(found, CheckedOperator), found
    assert found.states == 1
    assert [use.rule for use in found.uses] == ["Winograd"]


def test_rules_keep_their_names_under_observation() -> None:
    """The derivation names a rule by its class: an error names the rule, not the observer."""
    found = checked("matmul", wrong.Raises())
    assert isinstance(found, Counterexample)
    assert found.rule == name_of(wrong.Raises())


def test_a_set_behind_that_fails_is_blamed_on_the_rule_before_it() -> None:
    class Breaks(wrong.OnReductions):
        def rewrite(self, at: Cursor) -> Iterator[Cursor]:
            yield at.before(tile(at.state, at.name, "SRS").state)

    class Behind(rules.Tiling):
        def explain(self, at: Cursor) -> Answer:
            if len(at.state.stage("C").loops) == 5:  # two levels, no longer whole
                raise KeyError(at.name)
            return super().explain(at)

    (operator,) = operators(["matmul"])
    found = check_operator((Breaks(),), (Behind("SSRSRS"), rules.Skip()), operator, TARGET)
    assert isinstance(found, Counterexample)
    assert found.rule == "Breaks"
    assert found.difference.startswith("a later rule fails: cannot derive 'matmul' because rule")


def test_wrong_machine_code_is_a_counterexample() -> None:
    def verify(dag: Dag, programs: Sequence[Program]) -> list[Failed | None]:
        """Return the verdicts of measuring processes on a kernel with a wrong address."""
        assert len(programs) == 3
        return [None, Failed("out-of-bounds", "wrote 4 bytes from the end of C"), None]

    (operator,) = operators(["matmul"])
    found = check_operator(rules.CPU, (), operator, TARGET, verify)
    assert isinstance(found, Counterexample)
    assert found.difference == "as machine code, out-of-bounds: wrote 4 bytes from the end of C"
