"""Programs of the same computation on other machines start a search; other shapes do not."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ansorpy.events import Seeded
from ansorpy.measure.outcome import Measured
from ansorpy.plan.choices import plans
from ansorpy.population import legal, nearest_legal
from ansorpy.records import IMPORTED, MEASURED, MemoryStore, Record, carried, task_key
from ansorpy.replay import plan_text
from ansorpy.sketch import derive
from ansorpy.target import CpuTarget, Target
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import matmul, matmul_relu
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.reuse.sources import of_same_extents
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

HERE = CpuTarget(vector_bits=256, registers=16)
ELSEWHERE = replace(HERE, vector_bits=512, registers=32)
DAG = matmul(16, 32, 24)
RULES = find_rules("cpu")


@cache
def record(dag: Dag = DAG, target: Target = ELSEWHERE, cost_s: float = 1e-3) -> Record:
    """Return an imported record: the first plan of the last sketch, with long tiles."""
    plan = plans(derive(dag, target, RULES).sketches[-1], target, 1)[0]
    row = nearest_legal(plan, [8] * len(plan.sizes))
    workload = workload_key(dag)
    return Record(
        task_key(workload, target), workload, "cpu@1", plan_text(plan), row, Measured((cost_s,)),
        **carried(dag),
    )  # fmt: skip


def programs(out: Path, store: MemoryStore) -> int:
    """Return the number of programs that a tuning takes from other tasks."""
    request = Request((DAG,), HERE, trials=8, first_answer=False)
    events = run(request, store=store, out=out, pools=fake_pools(), clock=lambda: 0.0)
    return sum(event.programs for event in events if isinstance(event, Seeded))


def test_the_program_of_another_machine_is_measured_on_this_one(tmp_path: Path) -> None:
    store, other = MemoryStore(), record()
    store.append([other], IMPORTED)
    assert programs(tmp_path, store) == 1
    own = store.all(task_key(workload_key(DAG), HERE))
    assert [one.origin for one in own if one.plan == other.plan and one.race is None][:1] == [
        MEASURED
    ]


def test_other_shapes_start_no_search(tmp_path: Path) -> None:
    store = MemoryStore()
    store.append([record(matmul(48, 32, 64), HERE)], IMPORTED)
    assert programs(tmp_path, store) == 0


def test_records_of_other_dags_and_without_a_valid_dag_are_left_out() -> None:
    other, same = (record(matmul(*extents)) for extents in ((16, 48, 24), (16, 32, 24)))
    foreign = record(matmul_relu(16, 32, 24))
    forged = replace(same, dag=other.dag)
    without = replace(same, dag="")
    assert of_same_extents(DAG, [other, foreign, forged, without, same]) == (same,)


def test_a_row_that_is_not_legal_is_moved_to_a_legal_one() -> None:
    plan = plans(derive(DAG, HERE, RULES).sketches[-1], HERE, 1)[0]
    for wanted in (1, 7, 64, 10**6):
        row = nearest_legal(plan, [wanted] * len(plan.sizes))
        assert legal(plan, np.array([row])).all()
