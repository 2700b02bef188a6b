"""Slots that follow orders (`formula_slot`), and a search on them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansorpy.cluster.crew import Crew
from ansorpy.cluster.pool import ClusterBackEnd
from ansorpy.cluster.processes import ProcessSlots, SlotProcess
from ansorpy.events import Event
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.records import MemoryStore, Record
from ansorpy.rules import CPU
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.history import cost_of
from ansorpy.tuner.tune import run

TEXT = """
def mm(float(24,16) A, float(16,32) B) -> (D) {
    C(i,j) +=! A(i,k) * B(k,j)
    D(i,j) = fmax(C(i,j), 0)
}"""
Facts = list[tuple[str, tuple[int, ...], float, bool]]


class OrderedSlots(ProcessSlots):
    """Slots with orders of their own; a slot that is started again neither hangs nor crashes."""

    def __init__(
        self, orders: Sequence[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._orders, self._patch = list(orders), monkeypatch
        super().__init__([(0,)] * len(orders), "tests.cluster.formula_slot")

    def start(self, place: int, cores: Sequence[int]) -> SlotProcess:
        self._patch.setenv("ANSORPY_TEST_SLOT", json.dumps(self._orders[place]))
        once = {} if self._orders[place].get("always") else {"hang": 0, "crash": 0}
        self._orders[place] = {**self._orders[place], **once}
        return super().start(place, cores)


@contextmanager
def cluster(
    monkeypatch: pytest.MonkeyPatch,
    *orders: Mapping[str, Any],
    timeout_s: float = 10.0,
    patience_s: float = 20.0,
) -> Iterator[ClusterBackEnd]:
    """Yield a back end on slots with these orders, once all are there."""
    slots, target = OrderedSlots(orders, monkeypatch), local_target(1)
    settings = MeasureSettings(run_timeout_s=timeout_s)
    crew = Crew(slots, target, patience_s=patience_s)
    back_end = ClusterBackEnd(slots, target, settings, crew)
    try:
        while len(slots.present()) < len(orders):
            pass
        yield back_end
    finally:
        back_end.close()


def tuned(
    pools: Callable[[], Pools], out: Path, trials: int = 24
) -> tuple[list[Event], list[Record]]:
    """Return the events and the records of a tuning."""
    store = MemoryStore()
    request = Request(parse(TEXT), local_target(1), trials=trials, fresh=True, early=False)
    return list(run(request, CPU, store, out, pools=pools)), list(store.export())


def facts(records: list[Record]) -> Facts:
    """Return plans, rows and times of records, without seconds of builds."""
    return [(one.plan, one.row, cost_of(one.outcome), one.race is None) for one in records]
