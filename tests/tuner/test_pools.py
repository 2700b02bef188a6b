"""Pools of tasks: a few are open, and memory of closed ones is returned to the system."""

from contextlib import closing
from dataclasses import replace

from ansorpy.frontends.tc.text import parse
from ansorpy.target import Target
from ansorpy.te.dims import in_range, ranges_of
from ansorpy.topi.workloads import matmul
from ansorpy.tuner.parts.pools import OPEN_POOLS, Pools, pools_over
from ansorpy.tuner.requests.request import Request
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


def test_pools_of_the_ranges_of_an_only_task_stay_open() -> None:
    (dag,) = parse("def f(float(N in 1..600, 8) A) -> (B) { B(i,j) = 2 * A(i,j) }")
    target = Target(cores=1)
    ranges = [in_range(dag, sizes) for sizes in ranges_of(dag, 4)]
    assert len(ranges) > OPEN_POOLS
    for dags, same in (((dag,), True), ((dag, matmul(4, 4, 4)), False)):
        asked = Request(dags, target, trials=64)
        with closing(pools_over(FakeBackEnd(FakePool), asked)) as pools:
            tasks = [Task.of(one, target, "rules") for one in (dag, *ranges)]
            opened = [pools.of(task) for task in tasks]
            assert (pools.of(tasks[0]) is opened[0]) is same
