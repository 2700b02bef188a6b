"""Kernels of the user's own in the final race: functions and delivered zips."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import ansorpy
from ansorpy.errors import SpecError
from ansorpy.events import TaskResult
from ansorpy.measure.host import local_target
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.own_kernel import OWN, of_function
from ansorpy.records import MemoryStore, RacedOwn, decode, encode
from ansorpy.result import summary
from ansorpy.topi import workloads
from ansorpy.tuner.race.ranking import NAIVE, rank
from ansorpy.tuner.requests.own_kernels import own_kernels
from ansorpy.tuner.requests.request import Request
from ansorpy.verdict import Judgment, Peer

pytestmark = pytest.mark.usefixtures("few_candidates")

DAG = replace(workloads.matmul(16, 16, 16), name="mm")
OTHER = replace(workloads.softmax(17, 33), name="sm")
ONE = np.float32(1.0)


def product(a: Any, b: Any) -> Any:
    return (a @ b) * ONE


def raises(a: Any, b: Any) -> Any:
    raise ValueError("not today")


def wrong(a: Any, b: Any) -> Any:
    return a + b


def cut(a: Any, b: Any) -> Any:
    return (a @ b)[:4]


def changes(a: Any, b: Any) -> Any:
    found = a @ b
    a[...] = 0
    return found


def ends(a: Any, b: Any) -> Any:
    os._exit(3)


def test_own_functions_race_and_failures_are_left_out_with_their_reasons(tmp_path: Path) -> None:
    store = MemoryStore()
    own = [product, numba.njit(lambda a, b: np.dot(a, b)), raises, wrong, cut, changes, ends]
    result = ansorpy.tune(DAG, trials=2, own=own, store=store, out=tmp_path)
    (task,) = result.tasks
    assert task.kernel is not None
    assert task.verified
    told = {one.name: one for one in task.own}
    assert list(told) == ["product", "<lambda>", "raises", "wrong", "cut", "changes", "ends"]
    raced = [name for name, one in told.items() if one.best_s is not None]
    assert raced == ["product", "<lambda>"]
    assert all(not told[name].note for name in raced)
    assert told["raises"].note == "in a call of raises: ValueError: not today"
    assert "256 of 256 elements" in told["wrong"].note
    assert "float32[4, 16], expected float32[16, 16]" in told["cut"].note
    assert "an input, was changed" in told["changes"].note
    assert "exit code 3" in told["ends"].note
    assert task.verdict is not None
    assert {"your product", "your <lambda>"} < {one.name for one in task.verdict.peers}
    assert "  left out  your raises: in a call of raises" in repr(result)
    fields = result.kernels["mm"].manifest["own"]
    assert [one["name"] for one in fields] == list(told)
    assert fields[0]["ratio"] == told["product"].best_s / task.best_s  # type: ignore[operator]
    (record,) = [one for one in store.all(task.key) if one.race is not None]
    assert decode(encode(record)).race == record.race

    # The delivered zip races against the next kernel; the store does not answer: its race differs.
    again = ansorpy.tune(DAG, trials=2, own=task.kernel, store=store, out=tmp_path)
    (second,) = again.tasks
    assert not second.from_store
    assert [one.name for one in second.own] == [task.kernel.name]
    assert second.own[0].best_s is not None


def test_a_faster_own_kernel_wins_and_ours_is_delivered() -> None:
    finished = {
        NAIVE: PairedTimes(((4.0,),)),
        "tuned 0": PairedTimes(((2.0,),)),
        f"{OWN}product": PairedTimes(((1.0,),)),
    }
    ranking = rank(finished, "")
    assert (ranking.winner, ranking.chosen) == ("own", "tuned 0")
    assert ranking.tuned_s == (2.0,)
    assert ranking.own == (RacedOwn("product", (1.0,)),)
    slower = rank(finished | {f"{OWN}product": PairedTimes(((3.0,),))}, "")
    assert (slower.winner, slower.chosen) == ("tuned", "tuned 0")


def test_the_result_says_that_the_own_kernel_won() -> None:
    result = TaskResult(
        "mm", "key", 2e-6, 4e-6, 2, 1.0, True, "own", None, own=(RacedOwn("product", (1e-6,)),),
        verdict=Judgment("kernel", 2e-6, (Peer("your product", 1e-6),), 1, "float64 loops"),
    )  # fmt: skip
    assert "your product is 2.00x faster than this kernel" in summary([result])
    assert ": keep your product" in summary([result])


def test_own_kernels_go_to_the_task_that_is_named() -> None:
    found = own_kernels({"mm": [product, product]}, (DAG, OTHER))
    assert {name: [one.name for one in ones] for name, ones in found.items()} == {
        "mm": ["product", "product 2"]
    }
    with pytest.raises(
        SpecError, match="cannot race product because it could be for any of mm, sm"
    ):
        own_kernels(product, (DAG, OTHER))
    with pytest.raises(SpecError, match="cannot race kernels for 'no' because no task has that"):
        own_kernels({"no": product}, (DAG,))
    with pytest.raises(SpecError, match="cannot race int '3'; expected a function of arrays"):
        own_kernels(3, (DAG,))  # type: ignore[arg-type]


def test_values_that_are_no_kernel_are_refused_before_the_search(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(b"PK")
    with pytest.raises(SpecError, match=r"cannot race .*damaged\.zip because of"):
        own_kernels(damaged, (DAG,))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SpecError, match="'0 zips in the folder'; expected a delivered zip"):
        own_kernels(empty, (DAG,))
    open_file = (tmp_path / "file").open("w")
    with open_file, pytest.raises(SpecError, match="cannot race reads because it cannot be copied"):
        of_function(lambda a, b: open_file.read(), "reads")


def test_requests_without_a_race_on_this_cpu_refuse_own_kernels() -> None:
    own = own_kernels(product, (DAG,))
    with pytest.raises(SpecError, match="because first answers do not race"):
        Request((DAG,), local_target(1), trials=0, own=own)
    with pytest.raises(SpecError, match="because its tasks end without a race"):
        Request((DAG,), local_target(1), libraries=True, own=own)
