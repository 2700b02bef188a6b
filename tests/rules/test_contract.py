"""The contract of every rule with the derivation, on every workload of the library."""

import pytest

from ansorpy.state.rule import Cursor, Rule, Verdict
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import LIBRARY
from tests.golden_dags import GOLDEN
from tests.rules.cursors import CPU, CUDA, every_cursor
from tests.rules.sets import EVERY
from tests.state.validity import check_state

DAGS: dict[str, Dag] = {name: build() for name, build in LIBRARY.items()}
DAGS |= {name: dag for name, dag, _, _ in GOLDEN}
FEW = 40  # cursors of one Dag; attention alone has hundreds, much alike


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.kind)
@pytest.mark.parametrize("name", DAGS)
def test_every_rule_keeps_its_contract_at_every_cursor(name: str, target: Target) -> None:
    for _, cursor in zip(range(FEW), every_cursor(DAGS[name], target), strict=False):
        # Also the rules of the other target: a user may mix sets.
        for rule in EVERY:
            check_contract(rule, cursor)


def check_contract(rule: Rule, cursor: Cursor) -> None:
    before = str(cursor.state)
    verdict, answer = rule.condition(cursor), rule.explain(cursor)
    assert answer.holds is (verdict is not Verdict.SKIP)
    assert cursor.name in answer.why or any(s.name in answer.why for s in cursor.state.stages)
    assert (rule.condition(cursor), rule.explain(cursor)) == (verdict, answer)
    if verdict is not Verdict.SKIP:
        successors = list(rule.rewrite(cursor))
        assert successors
        assert [s.state for s in rule.rewrite(cursor)] == [s.state for s in successors]
        for successor in successors:
            check_successor(cursor, successor)
    assert str(cursor.state) == before


def check_successor(cursor: Cursor, successor: Cursor) -> None:
    old, new = cursor.state.steps, successor.state.steps
    assert new[: len(old)] == old
    assert cursor.state.do(*new[len(old) :]) == successor.state
    assert successor.index <= cursor.index
    assert successor.index < cursor.index or successor.state != cursor.state
    assert successor.target == cursor.target
    check_state(successor.state)


def test_rules_are_values() -> None:
    for rule in EVERY:
        assert hash(rule) == hash(rule)
        assert rule in EVERY
