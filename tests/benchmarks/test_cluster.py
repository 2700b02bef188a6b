"""A search on machines of a Ray cluster, and beside it faults; needs the extra ray."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("ray") is None:
    pytest.skip("Ray is not installed: pip install ansorpy[ray]", allow_module_level=True)

from ansorpy.records import Record
from benchmarks.cluster import judged, kill, later, search, shares_of
from benchmarks.cluster_machines import KeptSlots, cluster

pytestmark = pytest.mark.night
RIGHT = {"lost": 0, "twice": 0, "failed": 0}


def plans(records: list[Record]) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.plan, one.row) for one in records]


def test_a_slot_of_a_cluster_gives_the_same_records_again() -> None:
    with cluster("processes", 1) as slots:
        first, second = (search(slots, 64)[1] for _ in range(2))
    assert judged(first, 64) == RIGHT
    assert plans(first) == plans(second)


@pytest.mark.parametrize("kind", ["slot", "bridge", "node", "head"])
def test_no_trial_is_lost_or_made_twice_when_a_process_is_killed(kind: str) -> None:
    def disturb(slots: KeptSlots) -> float:
        return later(partial(kill, kind), slots)

    with cluster("processes", 2) as slots, ThreadPoolExecutor(1) as thread:
        killing = thread.submit(disturb, slots)
        assert judged(search(slots, 128)[1], 128) == RIGHT
        killing.result()


def test_two_tenants_share_each_slot(tmp_path: Path) -> None:
    trials, parts, overlaps, _ = shares_of(tmp_path / "trace", 256)
    assert trials > 256
    assert max(parts) < 0.6
    assert overlaps == 0
