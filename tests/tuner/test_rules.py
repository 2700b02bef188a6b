"""Rules that change how results are rounded come in where a request allows them by name."""

from dataclasses import replace

import pytest

from ansorpy.errors import SpecError
from ansorpy.measure.outcome import Measured
from ansorpy.records import MEASURED
from ansorpy.replay import plan_from_text
from ansorpy.rules import CPU, CUDA, TF32, WINOGRAD2, WINOGRAD4
from ansorpy.search import Candidate
from ansorpy.state.rule import Rule
from ansorpy.state.steps import reformulations
from ansorpy.target import Target, cuda_target
from ansorpy.topi.workloads import Window, conv2d, matmul_relu
from ansorpy.tuner.race.contestant import Contestant, contestant
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task

TARGET = Target(vector_bits=256, registers=16)
GPU = cuda_target("sm_90")
DAG = conv2d(1, 8, 8, 8, 8, 3, Window(padding=1))


def explored(*allow: str) -> Task:
    rules = find_rules("cpu", allow)
    task = Task.of(DAG, TARGET, rules_name("cpu", rules))
    task.space.explore(rules)
    return task


def reformulated(task: Task) -> set[str]:
    return {str(step) for plan in task.space.plans for step in reformulations(plan.state)}


def test_no_reformulation_is_allowed_without_a_request() -> None:
    assert find_rules("cpu") == CPU
    assert Request((DAG,), TARGET).allow == ()
    assert reformulated(explored()) == set()


def test_allowed_rules_come_first_in_any_order_of_words() -> None:
    both = (*WINOGRAD2, *WINOGRAD4, *CPU)
    assert find_rules("cpu", ("winograd4", "winograd2", "winograd4")) == both
    assert reformulated(explored("winograd2", "winograd4")) == {
        "conv.winograd(outputs=2)", "conv.winograd(outputs=4)",
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "listed"), [("cpu", "winograd2, winograd4"), ("cuda", "tf32")])
def test_an_unknown_word_is_refused_with_those_that_there_are(kind: str, listed: str) -> None:
    with pytest.raises(
        SpecError,
        match=f"allow 'fast' because no rules for {kind} have this name; expected {listed}",
    ):
        find_rules(kind, ("fast",))


@pytest.mark.parametrize("rule", CPU, ids=lambda rule: type(rule).__name__)
def test_every_rule_can_be_switched_off_by_its_name(rule: Rule) -> None:
    name = type(rule).__name__
    left = find_rules("cpu", without=(name,))
    assert left == tuple(one for one in CPU if one != rule)
    assert rules_name("cpu", left) != rules_name("cpu", CPU), "no answer is shared"


def test_a_rule_that_is_allowed_can_be_switched_off_too() -> None:
    assert find_rules("cpu", ("winograd2",), ("Winograd",)) == CPU


def test_an_unknown_rule_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SpecError, match=r"switch off Fast because .* expected JoinAxes, .*, Skip"):
        find_rules("cpu", without=("Fast",))
    with pytest.raises(SpecError, match="cannot switch off every rule"):
        find_rules("cpu", without=[type(rule).__name__ for rule in CPU])


def test_other_freedoms_are_another_rule_set_so_no_answer_is_shared() -> None:
    tasks = [explored(*words) for words in ((), ("winograd2",), ("winograd4",))]
    assert len({task.identity.rules for task in tasks}) == 3


def test_records_of_a_request_that_allowed_more_are_not_recalled() -> None:
    free = explored("winograd4")
    assert reformulations(free.space.plans[0].state), "what is allowed comes first"
    row = tuple(1 for _ in free.space.plans[0].sizes)
    (record,) = free.records([Candidate(0, row)], [Measured((1e-3,))])
    record = replace(record, origin=MEASURED)
    for words, known in (((), 0), (("winograd2",), 0), (("winograd4",), 1)):
        task = explored(*words)
        task.load_records([record])
        assert task.history.known == known
        texts = {f"conv.winograd(outputs={word[-1]})" for word in words}
        assert reformulated(task) == texts


def test_trials_without_an_allowed_algorithm_leave_it_untried() -> None:
    task = explored("winograd4")
    plain = explored()
    for text, untried in ((plain.space.texts[0], True), (task.space.texts[0], False)):
        number = task.space.texts.index(text)
        row = tuple(1 for _ in task.space.plans[number].sizes)
        task.history.learn([Candidate(number, row)], [Measured((1e-3,))])
        assert task.has_untried_algorithm == untried
    assert not plain.has_untried_algorithm


def on_a_gpu(*allow: str) -> Task:
    rules = find_rules("cuda", allow)
    task = Task.of(matmul_relu(64, 48, 64), GPU, rules_name("cuda", rules))
    task.space.explore(rules)
    return task


def test_tf32_is_a_freedom_of_gpus_alone() -> None:
    assert find_rules("cuda", ("tf32",)) == (*TF32, *CUDA)
    with pytest.raises(SpecError, match="cannot allow 'tf32' because no rules for cpu have this"):
        find_rules("cpu", ("tf32",))
    assert reformulated(on_a_gpu()) == set()
    assert reformulated(on_a_gpu("tf32")) == {"C.round_operands('tf32')"}


def test_records_in_tf32_answer_no_request_without_it() -> None:
    free = on_a_gpu("tf32")
    row = tuple(
        max(1, size.multiple_of) if size.role == "tile" else size.values[0]
        for size in free.space.plans[0].sizes
    )
    (record,) = free.records([Candidate(0, row)], [Measured((1e-3,))])
    record = replace(record, origin=MEASURED)
    for words, known in (((), 0), (("tf32",), 1)):
        task = on_a_gpu(*words)
        assert (task.identity.rules == free.identity.rules) is bool(known)
        task.load_records([record])
        assert task.history.known == known
    entry = contestant(free, free.space.plans[0], free.space.texts[0], row, CpuForm().emit)
    assert isinstance(entry, Contestant), entry
    assert entry.reformulated == "C.round_operands('tf32')"
    again = plan_from_text(free.dag, GPU, free.space.texts[0])
    assert again == free.space.plans[0]


def test_a_record_says_which_formulation_it_was_and_replays() -> None:
    task = explored("winograd4")
    again = plan_from_text(DAG, TARGET, task.space.texts[0])
    assert again == task.space.plans[0]
    assert list(map(str, reformulations(again.state))) == ["conv.winograd(outputs=4)"]


def test_a_contestant_names_its_reformulations() -> None:
    task = explored("winograd2")
    row = tuple(
        max(1, size.multiple_of) if size.role == "tile" else size.values[0]
        for size in task.space.plans[0].sizes
    )
    entry = contestant(task, task.space.plans[0], task.space.texts[0], row, CpuForm().emit)
    assert isinstance(entry, Contestant), entry
    assert entry.reformulated == "conv.winograd(outputs=2)"
    assert entry.kernel.meaning == entry.program.meaning != DAG
