import json

import numpy as np
import pytest

from ansorpy import rules
from ansorpy.errors import RecordError, StepError
from ansorpy.sketch import derive
from ansorpy.state.state import State
from ansorpy.state.steps import CacheRead, FollowFusedSplit, Split
from ansorpy.state.text import (
    KINDS,
    history,
    replay,
    step_from_json,
    step_to_json,
    steps_to_json,
)
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import LIBRARY
from tests.conftest import Golden
from tests.golden_dags import matmul, matmul_relu, softmax
from tests.random_dag import random_dag
from tests.state.validity import check_state


def sketches(dag: Dag) -> list[State]:
    targets = (Target("cpu", cores=4), Target("cuda"))
    return [s for t in targets for s in derive(dag, t, rules.released(t)).sketches]


def same_after_replay(dag: Dag) -> int:
    mine = (*rules.WINOGRAD2, *rules.WINOGRAD4, *rules.CPU)
    found = sketches(dag) + list(derive(dag, Target("cpu", cores=4), mine).sketches[:4])
    found += derive(dag, Target("cuda"), (*rules.TF32, *rules.CUDA)).sketches[:1]
    for sketch in found:
        check_state(sketch)
        wire = json.loads(json.dumps(steps_to_json(sketch)))
        assert replay(dag, wire) == sketch
        assert State.naive(dag).do(*sketch.steps) == sketch
    return len(found)


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_the_recorded_steps_of_library_sketches_give_them_again(name: str) -> None:
    assert same_after_replay(LIBRARY[name]()) >= 2


@pytest.mark.parametrize("seed", range(60))
def test_the_recorded_steps_of_random_sketches_give_them_again(seed: int) -> None:
    assert same_after_replay(random_dag(np.random.default_rng(seed))) >= 2


def test_every_kind_of_step_has_its_own_code() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS) == 20


def test_the_wire_form_is_the_code_and_the_operands() -> None:
    assert step_to_json(Split("C", "i", 3, (4, 2))) == ["SP", "C", "i", 3, [4, 2]]
    step = FollowFusedSplit("C", "k", "D", ("i", "j"), 2)
    assert step_from_json(step_to_json(step)) == step
    assert step_from_json(["CHR", "A", ["C"], "shared"]) == CacheRead("A", ("C",))


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "not a list that begins with a code"),
        ([], "not a list that begins with a code"),
        ([1], "not a list that begins with a code"),
        (["XX"], "unknown code; there are SP, FSP"),
        (["SP", "C"], "1 operands, 4 expected"),
        (["SP", "C", "i", "3", []], "parts = '3', int expected"),
        (["SP", "C", "i", True, []], "parts = True, int expected"),
        (["SP", "C", "i", 10**9, []], "parts = 1000000000, 0 to 64 expected"),
        (["SP", 1, "i", 3, []], "stage = 1, str expected"),
        (["SP", "C", "i", 3, ["4"]], "fixed = ['4'], list of int expected"),
        (["RE", "C", "i"], "order = 'i', list of str expected"),
        (["RE", "C", [1]], "order = [1], list of str expected"),
    ],
)
def test_a_malformed_step_is_refused_with_its_place(obj: object, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        step_from_json(obj)
    assert message in str(caught.value)


def test_a_step_that_cannot_be_applied_is_a_broken_record() -> None:
    with pytest.raises(RecordError, match=r"step 1 of 'matmul' cannot be applied: .* no loop 'i'"):
        replay(matmul(8, 8, 8), [["SP", "C", "i", 2, []], ["SP", "C", "i", 2, []]])


def test_a_step_of_an_unknown_type_has_no_wire_form() -> None:
    class Odd:
        def apply(self, state: State) -> State:
            return state

    with pytest.raises(StepError, match="type Odd has no wire form"):
        step_to_json(Odd())


def test_history_reads_as_a_program(golden: Golden) -> None:
    dags = (matmul(8, 8, 1024), matmul_relu(64, 64, 64), softmax(64, 64))
    parts = [history(sketch) for dag in dags for sketch in sketches(dag)]
    golden.check("\n\n".join(part or "(no steps)" for part in parts))
