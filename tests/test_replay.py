import pytest

from ansorpy.errors import RecordError
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Measured
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.records import Record
from ansorpy.replay import plan_from_text, plan_text, replay
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.tuner.rule_sets.sets import find_rules

(DAG,) = parse(
    "def mm(float(16,24) A, float(24,32) B) -> (D) {"
    " C(i,j) +=! A(i,k) * B(k,j)  D(i,j) = fmax(C(i,j), 0) }"
)
TARGET = Target(vector_bits=256, registers=16)
PLANS = [p for s in derive(DAG, TARGET, find_rules("cpu")).sketches for p in plans(s, TARGET)]


def record(plan: str, row: tuple[int, ...]) -> Record:
    return Record("k", "w", "cpu@1", plan, row, Measured((1.0,)))


@pytest.mark.parametrize("number", range(len(PLANS)))
def test_a_plan_comes_back_from_its_text(number: int) -> None:
    plan = PLANS[number]
    again = plan_from_text(DAG, TARGET, plan_text(plan))
    assert again == plan
    assert plan_text(again) == plan_text(plan)


def test_texts_tell_plans_apart() -> None:
    assert len({plan_text(plan) for plan in PLANS}) == len(PLANS)


def test_a_record_replays_to_the_same_program() -> None:
    plan = PLANS[0]
    row = tuple(min(size.values, default=size.multiple_of) for size in plan.sizes)
    assert replay(DAG, TARGET, record(plan_text(plan), row)) == bind(plan, row, TARGET)


@pytest.mark.parametrize(
    ("text", "row", "message"),
    [
        ("nonsense", (), "not a plan: JSONDecodeError"),
        ("{}", (), "not a plan: KeyError"),
        ('{"steps":[["XX"]],"choices":{}}', (), "unknown code"),
        ('{"steps":[["CI","nowhere"]],"choices":{}}', (), "cannot be applied"),
        ('{"steps":[],"choices":{"C":{"at":"moon"}}}', (), "location 'moon'"),
        (plan_text(PLANS[0]), (1,), "does not fit 'mm'"),
    ],
)
def test_the_error_of_a_wrong_record_names_the_misfit(
    text: str, row: tuple[int, ...], message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        replay(DAG, TARGET, record(text, row))
