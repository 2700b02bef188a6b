"""Pools of tasks: a few are open, and memory of closed ones is returned to the system."""

from dataclasses import replace

from ansorpy.target import Target
from ansorpy.topi.workloads import matmul
from ansorpy.tuner.parts.pools import OPEN_POOLS, Pools
from ansorpy.tuner.tasks.task import Task
from tests.fakes import FakeBackEnd, FakePool


def test_freed_memory_is_returned_when_a_pool_gives_way_to_another() -> None:
    target, returns = Target(cores=1), list[int]()
    dags = [replace(matmul(4, 4, 4), name=f"mm{n}") for n in range(OPEN_POOLS + 2)]
    pools = Pools(FakeBackEnd(FakePool), closed=lambda: returns.append(len(opened)))
    opened = list[Task]()
    for dag in dags:
        opened.append(Task.of(dag, target, "rules"))
        pools.of(opened[-1])
        pools.of(opened[-1])
    assert returns == [OPEN_POOLS + 1, OPEN_POOLS + 2]
    pools.close()
